"""The simulated GPU gives what the CPU gives, sampled and by both flavours of TensorRT; mistakes would show."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpspec_trt import TTS, Omni
from cpspec_trt.api.speech import Speech
from cpspec_trt.devices.device import Device
from cpspec_trt.devices.packed import Packed
from cpspec_trt.errors import CpspecError
from cpspec_trt.kernels.device_operations import BoundOperation
from tests.conftest import Maker
from tests.golden_cases import SpeechCase, speech_cases
from tests.simulation.conftest import build_simulated
from tests.simulation.faults import SimulationFault
from tests.simulation.simulation import Simulation, simulated

TEXT = "hello world"
MESSAGES = [{"role": "user", "content": "hello world, how are you today?"}]
CASE: SpeechCase = next(case for case in speech_cases() if case.name == "language_set")


def same(left: Speech, right: Speech) -> None:
    np.testing.assert_array_equal(left.codes, right.codes)
    np.testing.assert_array_equal(left.samples, right.samples)
    assert left.finish_reason == right.finish_reason


@pytest.mark.parametrize(
    ("rule", "window"), [("rejection", 0), ("rejection", 3), ("rejection", 8), ("block", 4), ("coupled", 3)]
)
@pytest.mark.parametrize(("spec", "seed"), [("tiny", 54), ("tiny_square", 14)])
def test_sampled_codes_are_those_of_the_cpu_bit_by_bit(
    simulation: Simulation,
    synthetic_engines: Maker,
    device_engines: Maker,
    spec: str,
    seed: int,
    rule: str,
    window: int,
) -> None:
    with TTS(synthetic_engines(spec, seed), threads=1) as host, TTS(device_engines(spec, seed)) as device:
        for draw in range(2):
            call: dict[str, Any] = {"speaker": "ryan", "speculate": window, "rule": rule, "seed": draw, "max_frames": 6}
            spoken = [tts.speak(TEXT, **call) for tts in (host, device)]
            same(*spoken)
            assert spoken[0].statistics.accepted == spoken[1].statistics.accepted


@pytest.mark.parametrize("window", [0, 4])
def test_sampled_answers_are_those_of_the_cpu(
    simulation: Simulation, omni_engines: Maker, omni_device_engines: Maker, window: int
) -> None:
    with Omni(omni_engines("tiny", 1), threads=1) as host, Omni(omni_device_engines("tiny", 1)) as device:
        replies = [
            omni.answer(MESSAGES, seed=7, speculate=window, max_new_tokens=6, max_frames=5) for omni in (host, device)
        ]
    assert replies[0].token_ids == replies[1].token_ids
    np.testing.assert_array_equal(replies[0].codes, replies[1].codes)
    np.testing.assert_array_equal(replies[0].samples, replies[1].samples)


def golden(tts: TTS, window: int = 3) -> Speech:
    """The first frames of a golden request."""
    return tts.speak(
        CASE.text,
        speaker=CASE.speaker,
        language=CASE.language,
        instruct=CASE.instruct,
        non_streaming=CASE.non_streaming,
        repetition_penalty=CASE.repetition_penalty,
        max_frames=6,
        greedy=True,
        speculate=window,
    )


def test_engines_of_tensorrt_rtx_give_the_same_codes(shared_directory: Path, synthetic_checkpoint: Maker) -> None:
    root = build_simulated(
        shared_directory / "rtx-engines-tiny-54", synthetic_checkpoint("tiny", 54), backend="tensorrt-rtx"
    )
    with simulated(capability=(8, 9)), TTS(root) as tts:
        np.testing.assert_array_equal(golden(tts).codes, CASE.codes[:6])


def test_code2wav_may_be_of_another_backend_than_what_makes_the_codes(
    simulation: Simulation, tmp_path: Path, synthetic_engines: Maker, device_engines: Maker
) -> None:
    root = tmp_path / "engines"
    for component in ("talker", "code_predictor"):
        shutil.copytree(device_engines("tiny", 54) / component, root / component)
    shutil.copytree(synthetic_engines("tiny", 54) / "code2wav", root / "code2wav")
    with TTS(root, threads=1) as mixed, TTS(device_engines("tiny", 54)) as device:
        same(golden(mixed), golden(device))


def nothing(*arguments: object) -> None:
    """What a call does that was forgotten."""


def once_only(real: Callable[..., None]) -> Callable[..., None]:
    seen: set[int] = set()

    def call(self: object, *arguments: object) -> None:
        if id(self) not in seen:
            seen.add(id(self))
            real(self, *arguments)

    return call


def most_times(real: Callable[..., None]) -> Callable[..., None]:
    calls = itertools.count(1)

    def call(self: object) -> None:
        if next(calls) % 7:
            real(self)

    return call


MISTAKES: dict[str, tuple[type[object], str, Callable[..., None]]] = {
    "a wait is missing": (Device, "synchronise", most_times(Device.synchronise)),
    "no upload of plans": (Packed, "upload", nothing),
    "memory is not cleared": (Device, "clear", nothing),
    "kernels are enqueued once": (BoundOperation, "enqueue", once_only(BoundOperation.enqueue)),
    "columns are not copied": (Device, "copy_into_column", nothing),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_product_does_not_go_unseen(
    device_engines: Maker, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    engines = device_engines("tiny", 54)
    kind, name, mutant = MISTAKES[mistake]
    monkeypatch.setattr(kind, name, mutant)

    def run() -> None:
        with simulated(), TTS(engines) as tts:
            np.testing.assert_array_equal(golden(tts).codes, CASE.codes[:6])

    with pytest.raises((SimulationFault, AssertionError, CpspecError)):
        run()
