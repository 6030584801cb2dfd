"""Drawing c0: the order of the processors, and state between frames."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.faults import RowNumericError
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.sampling.effective import EffectiveSampling
from cpspec_trt.sampling.talker import TalkerSampler

CODES, VOCABULARY, EOS = 8, 8 + 1024, 20
GREEDY = FilterParameters(1.0, 0, 1.0, do_sample=False)


def sampler(penalty: float = 1.0, filters: FilterParameters = GREEDY, rows: int = 1) -> TalkerSampler:
    sampling = EffectiveSampling(filters, GREEDY, penalty, 10, False, 5, ())
    return TalkerSampler(OracleKernels(), VOCABULARY, EOS, 2, [sampling] * rows)


def logits(**best: float) -> np.ndarray:
    """Zeros except the given codes (``c3=2.0``); control ids may be given too."""
    row = np.zeros((1, VOCABULARY), np.float32)
    for name, value in best.items():
        row[0, int(name[1:])] = value
    return row


def test_control_codes_are_never_drawn_but_eos_is() -> None:
    row = logits(c9=9.0, c1031=8.0, c20=7.0, c3=1.0)
    assert sampler().draw(row, 5)[0] == EOS


def test_eos_is_banned_for_the_first_two_tokens_only() -> None:
    found, row = sampler(), logits(c20=7.0, c3=1.0)
    assert [int(found.draw(row, frame)[0]) for frame in range(4)] == [3, 3, EOS, EOS]


def test_the_penalty_divides_positive_and_multiplies_negative_logits_of_seen_codes_once() -> None:
    found, row = sampler(penalty=3.0), logits(c3=4.0, c5=2.0, c6=1.5)
    assert [int(found.draw(row, frame)[0]) for frame in range(4)] == [3, 5, 6, 3]
    negative = np.full((1, VOCABULARY), -5.0, np.float32)
    negative[0, [2, 4]] = -1.0, -2.5
    found = sampler(penalty=3.0)
    assert [int(found.draw(negative, frame)[0]) for frame in range(3)] == [2, 4, 2]


def test_rows_of_a_batch_keep_their_own_history() -> None:
    found = sampler(penalty=10.0, rows=2)
    both = np.concatenate([logits(c1=4.0, c2=3.0), logits(c2=4.0, c1=3.0)])
    assert found.draw(both, 0).tolist() == [1, 2]
    assert found.draw(both, 1).tolist() == [2, 1]


def test_the_logits_of_the_caller_stay_as_they_are() -> None:
    row = logits(c9=9.0, c3=1.0)
    before = row.copy()
    sampler(penalty=2.0).draw(row, 0)
    assert np.array_equal(row, before)


def test_a_draw_depends_on_seed_and_frame_alone() -> None:
    filters = FilterParameters(1.0, 0, 1.0)
    row = np.zeros((1, VOCABULARY), np.float32)
    forward = [int(sampler(filters=filters).draw(row, frame)[0]) for frame in range(30)]
    found = sampler(filters=filters)
    assert forward == [int(found.draw(row, frame)[0]) for frame in range(30)]
    assert len(set(forward)) > 3


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_not_finite_name_frame_and_depth(value: float) -> None:
    with pytest.raises(RowNumericError, match="frame 3, RVQ depth 0"):
        sampler().draw(logits(c3=value), 3)
