"""How many kernels a call launches: what a CUDA graph of a round is made of."""

from __future__ import annotations

import numpy as np
import pytest

from tests.plugins.cuda.cases import Case, acceptance_cases, copying_cases, heads_cases, logits_cases
from tests.plugins.emulated import Schedule, emulated_kernels

KERNELS = emulated_kernels(Schedule(0, 256))


def _cases() -> dict[str, Case]:
    random = np.random.default_rng(0)
    return {
        **logits_cases(random, 97),
        **heads_cases(random, 97, 32),
        **acceptance_cases(random, 97, 8),
        **copying_cases(random, 97, 8),
    }


CASES = _cases()


def _launches(name: str) -> int:
    before = KERNELS.library.launches
    CASES[name](KERNELS)
    return KERNELS.library.launches - before


def test_a_round_is_four_launches_around_the_engines_pass() -> None:
    assert [_launches(name) for name in ("draft", "build_verify_input", "score", "accept_commit")] == [1, 1, 1, 1]


@pytest.mark.parametrize("name", sorted(set(CASES) - {"sample"}))
def test_every_operation_over_a_small_vocabulary_is_one_launch(name: str) -> None:
    assert _launches(name) == 1


def test_a_draw_over_any_vocabulary_is_nine_launches_however_large_it_is() -> None:
    assert _launches("sample") == 9
    wide = logits_cases(np.random.default_rng(0), 5000)["sample"]
    before = KERNELS.library.launches
    wide(KERNELS)
    assert KERNELS.library.launches - before == 9
