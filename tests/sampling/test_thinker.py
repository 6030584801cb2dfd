"""Drawing the Thinker's tokens."""

from __future__ import annotations

import numpy as np
from scipy import stats

from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.sampling.thinker import ThinkerSampler


def test_draws_follow_the_filtered_law() -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.15, 0.1]], np.float32))
    sampler = ThinkerSampler(OracleKernels(), FilterParameters(1.0, 3, 1.0), seed=11)
    counts = np.bincount([sampler.draw(logits, index) for index in range(20_000)], minlength=4)
    assert counts[3] == 0
    expected = 20_000 * np.array([0.5, 0.25, 0.15]) / 0.9
    assert stats.chisquare(counts[:3], expected).pvalue > 1e-4


def test_a_draw_depends_on_seed_and_token_index_alone() -> None:
    logits = np.zeros((1, 50), np.float32)
    filters = FilterParameters(1.0, 0, 1.0)
    one = ThinkerSampler(OracleKernels(), filters, seed=3)
    forward = [one.draw(logits, index) for index in range(20)]
    assert [ThinkerSampler(OracleKernels(), filters, seed=3).draw(logits, i) for i in range(20)] == forward
    assert [ThinkerSampler(OracleKernels(), filters, seed=4).draw(logits, i) for i in range(20)] != forward


def test_a_tiny_temperature_takes_the_most_probable_token() -> None:
    logits = np.array([[0.0, 3.0, 2.999]], np.float32)
    sampler = ThinkerSampler(OracleKernels(), FilterParameters(1e-9, 0, 1.0), seed=0)
    assert {sampler.draw(logits, index) for index in range(50)} == {1}


def test_the_native_kernels_sample_a_vocabulary_of_the_published_size() -> None:
    logits = np.full((1, 152_064), -np.inf, np.float32)
    logits[0, [7, 5000, 152_000]] = np.log(np.array([0.5, 0.3, 0.2], np.float32))
    found = []
    for kernels in (default_kernels(), OracleKernels()):
        sampler = ThinkerSampler(kernels, FilterParameters(1.0, 50, 0.7), seed=2)
        found.append([sampler.draw(logits, index) for index in range(40)])
    assert found[0] == found[1]
    assert set(found[0]) == {7, 5000}
