"""Random calls of the operations whose results are exact, against the oracle: ragged batches, every float type."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.oracle import OracleKernels
from tests.plugins.cuda.cases import Case, acceptance_cases, copying_cases

ORACLE = OracleKernels()


def _assert_the_oracles(cases: dict[str, Case], native: NativeKernels) -> None:
    for name, run in cases.items():
        for want, got in zip(run(ORACLE), run(native), strict=True):  # type: ignore[arg-type]
            np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8), err_msg=name)


@pytest.mark.parametrize("vocabulary", [2, 40, 2048])
def test_acceptance_and_commits_are_the_oracles(native: NativeKernels, vocabulary: int) -> None:
    for seed in range(12):
        _assert_the_oracles(acceptance_cases(np.random.default_rng([seed, vocabulary]), vocabulary, 17), native)


@pytest.mark.parametrize("width", [1, 33, 128])
def test_embeddings_verify_inputs_and_cache_rows_are_the_oracles(native: NativeKernels, width: int) -> None:
    for seed in range(12):
        _assert_the_oracles(copying_cases(np.random.default_rng([seed, width]), 50, width), native)
