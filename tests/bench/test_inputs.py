"""Recorded frames are those of the runtime."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.api.tts import TTS
from cpspec_trt.bench.frame_loop import FrameLoop
from cpspec_trt.bench.inputs import record
from cpspec_trt.bench.jobs import open_bench
from cpspec_trt.bench.settings import settings_from
from cpspec_trt.engines.onnxruntime import OnnxRuntimeEngine
from tests.bench.requests import write_requests
from tests.conftest import Maker


def test_frames_recorded_from_requests_become_the_codes_that_the_api_speaks(
    synthetic_engines: Maker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = synthetic_engines("tiny", 54)
    texts = ("hello world", "how are you")
    bench = open_bench(root, write_requests(tmp_path_factory.mktemp("bench"), *texts), max_frames=4, threads=1)
    parts = bench.predictor()
    assert isinstance(bench.engines.talker, OnnxRuntimeEngine)
    inputs, laws = record(bench.engines, bench.engines.talker, parts.stage(), bench.rules, bench.jobs)
    assert len(inputs) == len(laws.top1) == len(laws.entropy) == 8
    assert all(0 < value <= 1 for value in laws.top1)
    loop = FrameLoop(parts, settings_from([2], ["coupled"]), None)
    codes = loop.examine(inputs)[loop.settings[0]].codes
    tts = TTS(root, audio=False, threads=1)
    spoken = [
        tts.speak(text, speaker="ryan", language="english", seed=42 + at, max_frames=4).codes
        for at, text in enumerate(texts)
    ]
    np.testing.assert_array_equal(codes, np.concatenate(spoken))


def test_a_frame_that_ends_a_request_is_not_recorded(
    synthetic_engines: Maker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """This checkpoint ends by itself; as many laws as frames stay."""
    root = synthetic_engines("tiny_square", 14)
    path = write_requests(tmp_path_factory.mktemp("bench"), "hello world")
    bench = open_bench(root, path, max_frames=200, threads=1)
    assert isinstance(bench.engines.talker, OnnxRuntimeEngine)
    stage = bench.predictor().stage()
    inputs, laws = record(bench.engines, bench.engines.talker, stage, bench.rules, bench.jobs)
    assert 0 < len(inputs) < 200
    assert len(laws.top1) == len(inputs)
