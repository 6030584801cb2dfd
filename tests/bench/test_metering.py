"""What is metered, and that metering changes nothing."""

from __future__ import annotations

import numpy as np

from cpspec_trt.bench.metering import Meter, MeteredEngine, MeteredLibrary
from cpspec_trt.engines.engine import BoundPass, Tensors
from cpspec_trt.files.manifest import ProfileName
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows
from tests.bench.parts import predictor_of
from tests.conftest import Maker


def test_kernels_are_metered_by_operation_and_compute_the_same() -> None:
    meter = Meter()
    logits = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
    filters = FilterRows.pack([FilterParameters(0.9, 5, 1.0)] * 3)
    found = []
    for kernels in (NativeKernels(MeteredLibrary(meter)), default_kernels()):
        probabilities, errors = np.empty((3, 50), np.float32), np.empty(3, np.int32)
        kernels.filter(logits, filters, probabilities, errors)
        found.append(probabilities)
    np.testing.assert_array_equal(found[0], found[1])
    assert list(meter.kernels) == ["filter"]
    assert meter.kernels["filter"] > 0
    meter.reset()
    assert not meter.kernels


class _Engine:
    """Counts what reaches it."""

    def __init__(self, manifest: object) -> None:
        self.manifest = manifest
        self.bound: list[tuple[ProfileName, Tensors]] = []
        self.runs = 0

    def bind(self, profile: ProfileName, tensors: Tensors) -> BoundPass:
        self.bound.append((profile, tensors))
        return self

    def run(self) -> None:
        self.runs += 1


def test_passes_of_an_engine_are_handed_on_and_timed(synthetic_engines: Maker) -> None:
    manifest = predictor_of(synthetic_engines("tiny", 54)).engine.manifest
    meter, inner = Meter(), _Engine(manifest)
    engine = MeteredEngine(inner, meter)  # type: ignore[arg-type]
    assert engine.manifest is manifest
    tensors = {"inputs_embeds": np.zeros((1, 1, 4), np.float32)}
    bound = engine.bind("generation", tensors)
    bound.run()
    bound.run()
    assert inner.bound == [("generation", tensors)]
    assert inner.runs == 2
    assert meter.engine > 0
