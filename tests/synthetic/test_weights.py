"""Weights as a function of seed and name, against the definition written out one value at a time."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from cpspec_trt.synthetic import weights
from cpspec_trt.synthetic.weights import Law, TensorPlan, fan_in, spread, value_blocks


def _values(plan: TensorPlan, seed: int) -> NDArray[np.float32]:
    return np.concatenate(list(value_blocks(plan, seed))).reshape(plan.shape)


def test_each_half_of_a_philox_word_gives_one_value() -> None:
    plan = TensorPlan("layer.weight", (3, 3), Law(center=1.0, half_width=0.5))
    key = int.from_bytes(hashlib.sha256(b"7:layer.weight").digest()[:16], "little")
    words = [int(word) for word in np.random.Philox(key=key).random_raw(5)]
    halves = [half for word in words for half in (word & 0xFFFFFFFF, word >> 32)][:9]
    expected = [1.0 + 0.5 * ((half >> 8) / 2**23 - 1.0) for half in halves]
    np.testing.assert_allclose(_values(plan, 7).ravel(), expected, rtol=1e-6)


def test_values_do_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = TensorPlan("x", (7, 11, 3), spread(1.0), row_factors=((2, 0.0), (6, 10.0)))
    whole = _values(plan, 1)
    monkeypatch.setattr(weights, "BLOCK", 10)
    np.testing.assert_array_equal(_values(plan, 1), whole)


def test_row_factors_touch_their_rows_only() -> None:
    plain = _values(TensorPlan("x", (5, 4), spread(1.0)), 1)
    scaled = _values(TensorPlan("x", (5, 4), spread(1.0), row_factors=((1, 0.0), (4, 2.0))), 1)
    np.testing.assert_array_equal(scaled, plain * np.array([[1], [0], [1], [1], [2]], np.float32))


def test_name_and_seed_both_change_the_values() -> None:
    law = spread(1.0)
    first = _values(TensorPlan("x", (64,), law), 1)
    assert not np.isin(_values(TensorPlan("y", (64,), law), 1), first).any()
    assert not np.isin(_values(TensorPlan("x", (64,), law), 2), first).any()


def test_fan_in_keeps_the_variance_of_a_sum() -> None:
    matrix = _values(TensorPlan("x", (4096, 256), fan_in(256, gain=1.5)), 3)
    inputs = _values(TensorPlan("inputs", (256,), spread(1.0)), 3)
    assert (matrix @ inputs).std() / np.sqrt((inputs**2).mean()) == pytest.approx(1.5, rel=0.05)
