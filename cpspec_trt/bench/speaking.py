"""Whole requests under every setting, timed in turns."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cpspec_trt.bench.settings import Setting
from cpspec_trt.devices.device import DeviceWork
from cpspec_trt.errors import RequestError, SpeculationRefused
from cpspec_trt.pipelines.events import Silence
from cpspec_trt.pipelines.machines import DECODE_CHUNK
from cpspec_trt.pipelines.speech import SpeechJob, SpeechPipeline
from cpspec_trt.pipelines.times import StageTimes
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus

WARM_UP_FRAMES = 4


@dataclass(frozen=True, slots=True)
class Spoken:
    """One request, spoken once.

    Attributes:
        frames: made.
        seconds: from the prompt to the last sample.
        frame_seconds: from each frame's end to the next one's: CodePredictor and the Talker's step.
        first_frame: seconds to the first frame's codes.
        first_chunk: seconds to the codes of the first chunk that code2wav decodes, or of all frames if they are fewer.
        stages: seconds of every run of every stage.
        statistics: counters of speculation.
        work: what a device did; None on the CPU.
    """

    frames: int
    seconds: float
    frame_seconds: tuple[float, ...]
    first_frame: float
    first_chunk: float
    stages: Mapping[str, Sequence[float]]
    statistics: SpeculationStatistics
    work: DeviceWork | None


@dataclass(slots=True)
class SettingRuns:
    """Every run of one setting: one list per repetition, in the order of the requests."""

    status: SpeculationStatus
    repetitions: list[list[Spoken]] = field(default_factory=list)

    @property
    def runs(self) -> list[Spoken]:
        """All of them."""
        return [run for repetition in self.repetitions for run in repetition]


class _Clock(Silence):
    """Takes the time at the end of every frame."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.ends: list[float] = []

    def frame_finished(self, frames: int) -> None:
        """See ``Listener``."""
        self.ends.append(time.perf_counter() - self.began)


def speak_in_turns(
    pipeline: SpeechPipeline,
    statuses: Mapping[Setting, SpeculationStatus],
    jobs: Sequence[SpeechJob],
    repetitions: int,
) -> dict[Setting, SettingRuns]:
    """Speak every request under every setting, request by request, in an order that rotates.

    Raises:
        RequestError: a request ends before its first frame.
    """
    settings = list(statuses)
    found = {setting: SettingRuns(status) for setting, status in statuses.items()}
    for setting in settings:
        _speak(pipeline, _shortened(jobs[0]), statuses[setting])
    for repetition in range(repetitions):
        for each in found.values():
            each.repetitions.append([])
        for position, job in enumerate(jobs):
            for turn in range(len(settings)):
                setting = settings[(turn + position + repetition) % len(settings)]
                found[setting].repetitions[-1].append(_speak(pipeline, job, statuses[setting]))
    return found


def checked_status(setting: Setting, status: SpeculationStatus) -> SpeculationStatus:
    """``status``, if it is what the setting asks for.

    Raises:
        SpeculationRefused: the engines would fall back to the autoregressive loop.
    """
    if status.reason is not None:
        raise SpeculationRefused(f"the setting {setting.name} cannot be measured: {status.reason}")
    return status


def _shortened(job: SpeechJob) -> SpeechJob:
    return SpeechJob(job.name, job.layout, job.sampling, min(job.max_frames, WARM_UP_FRAMES))


def _speak(pipeline: SpeechPipeline, job: SpeechJob, status: SpeculationStatus) -> Spoken:
    clock = _Clock()
    spoken = pipeline.generate(job, status, clock)
    if not clock.ends:
        raise RequestError(f"{job.name}: ended before its first frame, so there is nothing to measure; give another")
    times: StageTimes = spoken.times
    pipeline.decode(spoken.codes, times)
    seconds = time.perf_counter() - clock.began
    ends = clock.ends
    between = tuple(after - before for before, after in pairwise(ends))
    return Spoken(
        frames=len(ends),
        seconds=seconds,
        frame_seconds=between,
        first_frame=ends[0],
        first_chunk=ends[min(DECODE_CHUNK, len(ends)) - 1],
        stages=times.runs(),
        statistics=spoken.speculation,
        work=spoken.work,
    )
