"""What both faces do with a prompt that is to be spoken: check that it fits, run it, return the speech."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cpspec_trt.api.capacity import Wanted, cap_within
from cpspec_trt.devices.device import DeviceWork
from cpspec_trt.errors import CpspecError, SpeculationRefused
from cpspec_trt.files.audio import SAMPLE_RATE
from cpspec_trt.files.engine_config import MAX_VERIFY_ROWS
from cpspec_trt.files.manifest import read_manifest
from cpspec_trt.files.pass_costs import read_pass_costs
from cpspec_trt.files.rebuild import rebuild_command
from cpspec_trt.files.results import FinishReason
from cpspec_trt.pipelines.engine_set import SpeechConfigs, SpeechDirectories
from cpspec_trt.pipelines.events import Listener, Silence
from cpspec_trt.pipelines.speech import SpeechJob, SpeechPipeline, SpokenCodes
from cpspec_trt.pipelines.times import StageTimes
from cpspec_trt.sampling.effective import EffectiveSampling
from cpspec_trt.speculation.drafting import Drafting
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus
from cpspec_trt.text.layout import PromptLayout

FRAME_SECONDS = 0.08  # of every 12 Hz checkpoint (12.5 frames per second)


@dataclass(frozen=True, slots=True)
class Speech:
    """What was said.

    Attributes:
        samples: float32 [samples] in -1 … 1; empty if the engines were opened without code2wav.
        sample_rate: Hz.
        codes: int32 [frames, groups].
        finish_reason: ``stop`` at EOS, ``length`` at the frame cap (the text may be cut).
        max_frames: the frame cap in force.
        statistics: what speculation did.
        sampling: effective values and seed.
        times: time per stage: wall clock, on a GPU the GPU's own for Talker and CodePredictor.
        work: what the GPU did for the codes; None on the CPU.
        warnings: one line each.
    """

    samples: np.ndarray
    sample_rate: int
    codes: np.ndarray
    finish_reason: FinishReason
    max_frames: int
    statistics: SpeculationStatistics
    sampling: EffectiveSampling
    times: StageTimes
    work: DeviceWork | None
    warnings: tuple[str, ...]


class Speaker:
    """Speaks prepared prompts. Engines are opened by the first use, so that a faulty request never loads a model."""

    def __init__(
        self, directories: SpeechDirectories, configs: SpeechConfigs, open_pipeline: Callable[[], SpeechPipeline]
    ) -> None:
        self._directories = directories
        self._configs = configs
        self._open = open_pipeline
        self._opened: SpeechPipeline | None = None

    def close(self) -> None:
        """Give back what the engines hold on a GPU."""
        if self._opened is not None:
            self._opened.close()

    @property
    def frame_seconds(self) -> float:
        """Audio seconds of one frame."""
        wav = self._configs.code2wav
        return FRAME_SECONDS if wav is None else wav.samples_per_frame / wav.sample_rate

    def speculation(self, drafting: Drafting, required: bool = False) -> SpeculationStatus:
        """What a wish for speculation comes to on these engines.

        Raises:
            SpeculationRefused: ``required`` and it does not run.
            EngineError: a tree or an adaptive window does not fit these engines; says what to build.
        """
        directory = self._directories.code_predictor
        wide = {"max_verify_rows": max(MAX_VERIFY_ROWS, drafting.rows)}
        rebuild = rebuild_command(directory, read_manifest(directory), limits=wide)
        costs = read_pass_costs(directory) if drafting.adaptive else None
        status = self._pipeline().speculation(drafting, rebuild, costs)
        if required and status.effective == 0:
            reason = status.reason or "no verify window was given (--cpSpecVerifySize 2 to 8)"
            raise SpeculationRefused(f"speculation is required but does not run: {reason}")
        return status

    def frame_cap(self, layout: PromptLayout, sampling: EffectiveSampling) -> tuple[int, list[str]]:
        """Frames a prompt may have: what it asks for, within the KV capacity the prompt leaves; and warnings.

        Raises:
            RequestError: the prompt does not fit, or an explicit max_audio_length does not.
        """
        wanted = Wanted("max_audio_length", sampling.max_frames, sampling.max_frames_explicit)
        return cap_within(self._configs.talker_manifest, len(layout.text_ids), wanted)

    def run(self, job: SpeechJob, status: SpeculationStatus, listener: Listener | None = None) -> Speech:
        """Speak a prepared prompt.

        Raises:
            NumericError: a model produced NaN or infinity.
            EngineError: an engine failed.
        """
        listener = listener or Silence()
        pipeline = self._pipeline()
        try:
            spoken = pipeline.generate(job, status, listener)
            samples, rate = self._decode(pipeline, spoken)
        except CpspecError as fault:
            listener.request_finished(job.name, 0, "error")
            if job.name in str(fault):
                raise
            raise type(fault)(f"{job.name}: {fault}") from fault
        listener.request_finished(job.name, len(spoken.codes), spoken.finish_reason)
        return Speech(
            samples=samples,
            sample_rate=rate,
            codes=spoken.codes,
            finish_reason=spoken.finish_reason,
            max_frames=job.max_frames,
            statistics=spoken.speculation,
            sampling=job.sampling,
            times=spoken.times,
            work=spoken.work,
            warnings=job.warnings,
        )

    def _decode(self, pipeline: SpeechPipeline, spoken: SpokenCodes) -> tuple[np.ndarray, int]:
        if self._directories.code2wav is None or not len(spoken.codes):
            return np.zeros(0, np.float32), SAMPLE_RATE
        return pipeline.decode(spoken.codes, spoken.times)

    def _pipeline(self) -> SpeechPipeline:
        if self._opened is None:
            self._opened = self._open()
        return self._opened
