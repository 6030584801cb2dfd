"""The demo voice on TensorRT: its engines are built, its codes compared with ONNX Runtime's, its frames timed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cpspec_trt.api.tts import TTS
from cpspec_trt.errors import CpspecError
from cpspec_trt.pipelines.events import Silence
from scripts.gpu.report import NONE

ROOT = Path(__file__).parents[2]
CHECKPOINT = ROOT / "assets" / "demo-voice" / "checkpoint"
PRESET = ROOT / "configs" / "demo-voice.yaml"
TEXT, SPEAKER = "the mother is in the kitchen now", "vivian"
WINDOWS = (0, 2, 3, 4, 8)
RTX_CAPABILITIES = (80, 86, 89, 120, 121)  # the GPUs that TensorRT for RTX is made for, as far as we speak of them
ONNXRUNTIME, TENSORRT, TENSORRT_RTX = "onnxruntime", "tensorrt", "tensorrt-rtx"


@dataclass(frozen=True, slots=True)
class Engines:
    """A set of engines that is built.

    Attributes:
        backend: of cpspec-build.
        precision: of its flag; None takes what the builder takes by itself.
    """

    backend: str
    precision: str | None = None

    @property
    def name(self) -> str:
        """For people and directories."""
        return f"{self.backend}-{self.precision or 'default'}"

    @property
    def is_fp32(self) -> bool:
        """Whether they compute in fp32, as those of ONNX Runtime always do."""
        return self.backend == ONNXRUNTIME or self.precision == "fp32"

    def build_command(self, root: Path) -> list[str]:
        """cpspec-build of the demo voice into ``root``."""
        command = [sys.executable, "-m", "cpspec_trt.cli.build", "--checkpoint", str(CHECKPOINT)]
        command += ["--engineDir", str(root), "--config", str(PRESET), "--backend", self.backend]
        return command if self.precision is None else [*command, "--precision", self.precision]


@dataclass(frozen=True, slots=True)
class Spoken:
    """What one window came to.

    Attributes:
        engines: their name.
        window: verify window; 0 is autoregressive.
        codes: of the greedy run, int32 [frames, groups].
        milliseconds: median of a frame of the sampled run.
        passes: of the CodePredictor per frame of the sampled run.
        guarded: codes of the greedy run that were left to a plain step.
    """

    engines: str
    window: int
    codes: np.ndarray
    milliseconds: float
    passes: float
    guarded: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """How two runs' codes compare.

    Attributes:
        equal: frames before the first that differs.
        frames: of the longer run.
        first: frame and depth of the first difference; None where there is none.
    """

    equal: int
    frames: int
    first: tuple[int, int] | None

    @classmethod
    def of(cls, codes: np.ndarray, others: np.ndarray) -> Agreement:
        """Compare int [frames, groups] with int [other frames, groups]."""
        common, longest = min(len(codes), len(others)), max(len(codes), len(others))
        different = np.argwhere(codes[:common] != others[:common])
        if len(different):
            frame, depth = (int(each) for each in different[0])
            return cls(frame, longest, (frame, depth))
        return cls(common, longest, None if common == longest else (common, 0))

    def __str__(self) -> str:
        if self.first is None:
            return "all"
        return f"{self.equal} of {self.frames}, then depth {self.first[1]}"


class FrameClock(Silence):
    """A listener that notes when each frame was finished."""

    def __init__(self) -> None:
        self.moments: list[float] = []

    def frame_finished(self, frames: int) -> None:
        """Note the moment."""
        self.moments.append(time.perf_counter())

    @property
    def median_milliseconds(self) -> float:
        """From one frame to the next."""
        return 1000 * float(np.median(np.diff(self.moments)))


def tensorrt_backend(capability: int, installed: Sequence[str] | None = None) -> str | None:
    """The flavour of TensorRT that is installed and takes this GPU, full TensorRT first; None where there is none.

    Args:
        capability: of the GPU, for example 89.
        installed: backends; None looks.
    """
    if installed is None:
        from cpspec_trt.builder.flavour import FLAVOURS

        installed = [name for name, flavour in FLAVOURS.items() if flavour.is_installed()]
    if TENSORRT in installed:
        return TENSORRT
    return TENSORRT_RTX if TENSORRT_RTX in installed and capability in RTX_CAPABILITIES else None


def speak(name: str, root: Path) -> list[Spoken]:
    """Every window over one set of engines: greedily for the codes, which also warms up, then sampled for the time.

    Raises:
        CpspecError: the engines do not load or do not run.
    """
    with TTS(root, audio=False) as tts:
        return [_speak(tts, name, window) for window in WINDOWS]


def _speak(tts: TTS, name: str, window: int) -> Spoken:
    clock = FrameClock()
    required = window > 0
    greedy = tts.speak(TEXT, speaker=SPEAKER, speculate=window, require_speculation=required, greedy=True)
    sampled = tts.speak(TEXT, speaker=SPEAKER, speculate=window, require_speculation=required, listener=clock)
    passes = sampled.statistics.passes / max(sampled.statistics.frames, 1)
    return Spoken(name, window, greedy.codes, clock.median_milliseconds, passes, greedy.statistics.guarded)


def unlike(codes: np.ndarray, others: np.ndarray) -> float:
    """Share of codes that differ between int [frames, groups] and int [other frames, groups], 0 … 1.

    A frame that only one of the two has counts as different.
    """
    common, longest = min(len(codes), len(others)), max(len(codes), len(others))
    if longest == 0:
        return 0.0
    same = int(np.count_nonzero(codes[:common] == others[:common]))
    return 1 - same / float(longest * codes.shape[1])


def faults(spoken: Sequence[Spoken], reference: Spoken | None, strict: bool) -> list[str]:
    """What must not be, one line each.

    In fp32 a window must have the codes of the autoregressive loop. In fp16 and bf16 the tolerance that guards greedy
    decisions makes a difference improbable, not impossible, so there the table counts it instead. Also in fp32, the
    first frame must be ONNX Runtime's; later ones may differ by rounding, since one code decided the other way changes
    everything after it.

    Args:
        spoken: the windows over one set of engines, the autoregressive loop first.
        reference: the autoregressive loop over ONNX Runtime; None where that failed.
        strict: whether the engines compute in fp32.
    """
    plain, *windows = spoken
    found = []
    for each in windows if strict else ():
        agreement = Agreement.of(each.codes, plain.codes)
        if agreement.first is not None:
            found.append(
                f"{each.engines}: greedy codes with a window of {each.window} are not those of the autoregressive "
                f"loop; frames like it: {agreement}"
            )
    if reference is not None and strict:
        agreement = Agreement.of(plain.codes, reference.codes)
        if agreement.equal == 0:
            found.append(f"{plain.engines}: the first frame is not ONNX Runtime's; frames like it: {agreement}")
    return found


def table(spoken: Sequence[Spoken], reference: Spoken | None) -> list[str]:
    """Markdown, a row per window, with the share of greedy codes that are not the autoregressive loop's."""
    names = ["engines", "window", "ms per frame", "times as fast", "passes per frame", "guarded", "codes unlike off"]
    lines = ["| " + " | ".join([*names, "frames like ONNX Runtime"]) + " |", "|---|--:|--:|--:|--:|--:|--:|---|"]
    plain = {each.engines: each for each in spoken if each.window == 0}
    for each in spoken:
        off = plain[each.engines]
        cells = [
            each.engines,
            str(each.window or "off"),
            f"{each.milliseconds:.2f}",
            f"{off.milliseconds / each.milliseconds:.2f}",
            f"{each.passes:.1f}",
            str(each.guarded),
            NONE if each is off else f"{unlike(each.codes, off.codes):.2%}",
            NONE if reference is None else str(Agreement.of(each.codes, reference.codes)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def check_engines(backend: str, folder: Path) -> tuple[list[str], list[str]]:
    """Build, compare and time; what fails costs no other set of engines.

    Args:
        backend: ``tensorrt`` or ``tensorrt-rtx``.
        folder: where engines go.

    Returns:
        (lines of the table, faults).
    """
    spoken: list[Spoken] = []
    found: list[str] = []
    reference: Spoken | None = None
    for engines in (Engines(ONNXRUNTIME), Engines(backend, "fp32"), Engines(backend)):
        root = folder / engines.name
        if (status := subprocess.run(engines.build_command(root)).returncode) != 0:
            found.append(f"{engines.name}: cpspec-build ended with {status}")
            continue
        try:
            own = speak(engines.name, root)
        except CpspecError as fault:
            found.append(f"{engines.name}: {fault}")
            continue
        spoken += own
        reference = own[0] if engines.backend == ONNXRUNTIME else reference
        found += faults(own, reference, engines.is_fp32)
    return (table(spoken, reference) if spoken else []), found
