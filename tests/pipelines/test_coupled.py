"""Under the rule coupled, sampled codes are those of the autoregressive loop, for every window and every tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.builder.build import build_checkpoint
from cpspec_trt.builder.profiles import COMPONENTS
from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.adaptive import AdaptivePolicy, chains, trees
from cpspec_trt.speculation.policy import FixedPolicy, Policy
from cpspec_trt.speculation.rules import RULES
from tests.conftest import DEMO_CHECKPOINT, TEST_LIMITS, Maker, write_once
from tests.pipelines.test_equality import SAMPLED, Frames

COUPLED = RULES["coupled"]
BATCH = 8  # frames that go together: a row of a batch has the codes it has alone
WIDE_LIMITS = replace(TEST_LIMITS, max_verify_rows=64, max_batch_size=BATCH)
# What is drafted, and its share of the frames: trees cost more. Every width that fits a pass of 64 rows is there.
SHAPES: dict[tuple[int, ...], float] = {
    **{(1,) * drafts: 0.09 for drafts in range(1, 8)},
    (2,): 0.08, (2, 2): 0.07, (2, 2, 2): 0.04, (2, 2, 2, 2): 0.03, (2,) * 5: 0.02,
    (4,): 0.07, (4, 4): 0.03, (4, 2): 0.04,
}  # fmt: skip
# At real size a pass of 31 or 63 rows for eight frames takes seconds: those two wait for the long run.
REAL_SHAPES = {**{(1,) * drafts: 0.12 for drafts in range(1, 8)}, (2,): 0.06, (2, 2): 0.04, (4, 2): 0.04, (4, 4): 0.04}
CHECKPOINTS = [("tiny", 54), ("tiny_square", 14), ("tiny_design", 12)]
REAL = ("real_code_predictor", 1)
FILTERS = (SAMPLED, FilterParameters(temperature=1.0, top_k=0, top_p=0.8), FilterParameters(0.3, 50, 1.0))

Wide = Callable[[Path, str], Path]


@pytest.fixture(scope="session")
def wide(shared_directory: Path) -> Wide:
    """Build the engines of a checkpoint for verify passes of 64 rows; returns their root."""

    def make(checkpoint: Path, name: str) -> Path:
        limits = dict.fromkeys(COMPONENTS, WIDE_LIMITS)
        directory = shared_directory / f"wide-engines-{name}"
        return write_once(directory, lambda new: build_checkpoint(checkpoint, new, limits, "onnxruntime"))

    return make


def assert_equal_for_every_shape(engines: Path, frames: int, shapes: Mapping[tuple[int, ...], float] = SHAPES) -> None:
    """Decode ``frames`` frames with drafts of every shape, shared out among them, and compare with the plain loop."""
    found = Frames(engines, batch=BATCH)
    begin, accepted = 0, 0
    for number, (widths, part) in enumerate(shapes.items()):
        share = range(begin, begin + math.ceil(part * frames / BATCH))
        begin = share.stop
        filters = FILTERS[number % len(FILTERS)]
        plain, _ = found.decode(share, 0, filters)
        codes, counters = found.decode(share, len(widths) + 1, filters, COUPLED, FixedPolicy(widths))
        assert np.array_equal(plain, codes), f"widths {widths}"
        accepted += sum(counters.accepted)
    assert begin * BATCH >= frames
    assert accepted > 0, "no draft was ever accepted, so acceptance was not tested"


@pytest.mark.parametrize(("spec", "seed"), CHECKPOINTS)
def test_sampled_codes_are_equal_for_every_window_and_tree(
    synthetic_checkpoint: Maker, wide: Wide, spec: str, seed: int
) -> None:
    assert_equal_for_every_shape(wide(synthetic_checkpoint(spec, seed), spec), 200)


def test_sampled_codes_of_a_code_predictor_of_real_size_are_equal(synthetic_checkpoint: Maker, wide: Wide) -> None:
    assert_equal_for_every_shape(wide(synthetic_checkpoint(*REAL), REAL[0]), 200, REAL_SHAPES)


def test_sampled_codes_of_the_trained_model_are_equal_for_every_window_and_tree(wide: Wide) -> None:
    assert_equal_for_every_shape(wide(DEMO_CHECKPOINT, "demo"), 200)


@pytest.mark.long
@pytest.mark.parametrize(("spec", "seed"), [*CHECKPOINTS, REAL])
def test_sampled_codes_are_equal_for_every_window_and_tree_at_length(
    synthetic_checkpoint: Maker, wide: Wide, spec: str, seed: int
) -> None:
    assert_equal_for_every_shape(wide(synthetic_checkpoint(spec, seed), spec), 2000)


@pytest.mark.long
def test_sampled_codes_of_the_trained_model_are_equal_at_length(wide: Wide) -> None:
    assert_equal_for_every_shape(wide(DEMO_CHECKPOINT, "demo"), 2000)


def test_an_adaptive_window_changes_no_code(wide: Wide) -> None:
    found = Frames(wide(DEMO_CHECKPOINT, "demo"))
    costs = PassCosts((1, 8, 64), (1.0, 1.5, 4.0), 0.02)
    policy: Policy = AdaptivePolicy(found.stage.groups, [*chains(8), *trees(8, 64)], costs)
    plain, _ = found.decode(range(40), 0, SAMPLED)
    codes, counters = found.decode(range(40), 8, SAMPLED, COUPLED, policy)
    assert np.array_equal(plain, codes)
    assert len(counters.choices) > 3


def test_the_probe_finds_rows_of_trees_exact(wide: Wide) -> None:
    stage = Frames(wide(DEMO_CHECKPOINT, "demo")).stage
    for widths in SHAPES:
        assert stage.probe_tree(widths).exact
