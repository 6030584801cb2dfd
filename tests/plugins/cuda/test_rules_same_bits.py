"""Acceptance rules, guard and trees of the CUDA kernels give the CPU library's bits, each in one launch."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.native import NativeKernels
from tests.plugins.cuda.rule_cases import rule_cases, tree_cases
from tests.plugins.cuda.test_same_bits import assert_same_bits


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("vocabulary", [3, 8, 97, 2048])
def test_rules_and_guard_are_the_cpu_librarys(cuda: NativeKernels, vocabulary: int, seed: int) -> None:
    assert_same_bits(rule_cases(np.random.default_rng([seed, vocabulary]), vocabulary), cuda)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("vocabulary", [1, 3, 97, 4096])
def test_trees_are_the_cpu_librarys(cuda: NativeKernels, vocabulary: int, seed: int) -> None:
    assert_same_bits(tree_cases(np.random.default_rng([seed, vocabulary]), vocabulary), cuda)


CASES = {**rule_cases(np.random.default_rng(0), 97), **tree_cases(np.random.default_rng(0), 97)}


@pytest.mark.parametrize("name", CASES)
def test_every_operation_is_one_launch(cuda: NativeKernels, name: str) -> None:
    before = cuda.library.launches
    CASES[name](cuda)
    assert cuda.library.launches == before + 1
