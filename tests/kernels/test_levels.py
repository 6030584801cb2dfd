"""The CPU library gives the same bits at every instruction set."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.errors import UnsupportedError
from tests.kernels.implementations import CPU_LEVELS, cpu_kernels
from tests.plugins.cuda.cases import Case, acceptance_cases, copying_cases, heads_cases, logits_cases


def _assert_same_bits(cases: dict[str, Case]) -> None:
    for name, run in cases.items():
        want = run(cpu_kernels(CPU_LEVELS[0]))
        for level in CPU_LEVELS[1:]:
            for one, other in zip(want, run(cpu_kernels(level)), strict=True):
                np.testing.assert_array_equal(other.view(np.uint8), one.view(np.uint8), err_msg=f"{name} {level}")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("vocabulary", [1, 8, 97, 1024, 2048, 4096])
def test_filters_and_draws(vocabulary: int, seed: int) -> None:
    _assert_same_bits(logits_cases(np.random.default_rng([seed, vocabulary]), vocabulary))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("vocabulary", "width"), [(1, 1), (8, 5), (97, 64), (300, 1024), (2048, 96)])
def test_heads_drafts_and_scores(vocabulary: int, width: int, seed: int) -> None:
    _assert_same_bits(heads_cases(np.random.default_rng([seed, vocabulary]), vocabulary, width))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("vocabulary", [8, 97, 2048])
def test_acceptance_and_commit(vocabulary: int, seed: int) -> None:
    _assert_same_bits(acceptance_cases(np.random.default_rng([seed, vocabulary]), vocabulary, 5 + 59 * (seed % 2)))


@pytest.mark.parametrize("seed", range(3))
def test_embeddings_and_cache_rows(seed: int) -> None:
    _assert_same_bits(copying_cases(np.random.default_rng(seed), 50, 64))


def test_a_library_says_which_level_runs_and_refuses_one_it_lacks() -> None:
    for level in CPU_LEVELS:
        library = cpu_kernels(level).library
        assert library.implementation == f"cpu {level}"
        with pytest.raises(UnsupportedError, match="without the level avx1024"):
            library.use_level("avx1024")
        assert library.implementation == f"cpu {level}"
