"""How many kernels a call launches: what a CUDA graph of a round is made of."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.native import NativeKernels
from tests.plugins.cuda.cases import Case, acceptance_cases, copying_cases, heads_cases, logits_cases


def _cases() -> dict[str, Case]:
    random = np.random.default_rng(0)
    return {
        **logits_cases(random, 97),
        **heads_cases(random, 97, 32),
        **acceptance_cases(random, 97, 8),
        **copying_cases(random, 97, 8),
    }


CASES = _cases()


def _launches(cuda: NativeKernels, case: Case) -> int:
    before = cuda.library.launches
    case(cuda)
    return cuda.library.launches - before


def test_a_round_is_four_launches_around_the_engines_pass(cuda: NativeKernels) -> None:
    names = ("draft", "build_verify_input", "score", "accept_commit")
    assert [_launches(cuda, CASES[name]) for name in names] == [1, 1, 1, 1]


@pytest.mark.parametrize("name", sorted(set(CASES) - {"sample"}))
def test_every_operation_over_a_small_vocabulary_is_one_launch(cuda: NativeKernels, name: str) -> None:
    assert _launches(cuda, CASES[name]) == 1


def test_a_draw_over_any_vocabulary_is_nine_launches_however_large_it_is(cuda: NativeKernels) -> None:
    assert _launches(cuda, CASES["sample"]) == 9
    wide = logits_cases(np.random.default_rng(0), 5000)["sample"]
    assert _launches(cuda, wide) == 9
