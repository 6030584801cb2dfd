"""The face of the package.

from cpspec_trt import TTS

tts = TTS("engines")
speech = tts.speak("the mother is in the kitchen now", speaker="vivian", speculate=3)
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cpspec_trt.errors import CpspecError, RequestError, SpeculationRefused, UsageError
from cpspec_trt.files.audio import SAMPLE_RATE
from cpspec_trt.files.request_reading import DEFAULT_SEED
from cpspec_trt.files.requests import SamplingSettings, TtsRequest
from cpspec_trt.files.results import FinishReason
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.pipelines.engine_set import EngineDirectories, check, locate, open_set
from cpspec_trt.pipelines.events import Listener, Silence
from cpspec_trt.pipelines.tts import SpeechJob, SpokenCodes, StageSeconds, TtsPipeline
from cpspec_trt.sampling.effective import EffectiveSampling, GenerationDefaults, effective_sampling
from cpspec_trt.speculation.frame import MAX_WINDOW, MIN_WINDOW
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus
from cpspec_trt.text.layout import PromptLayout, tts_layout
from cpspec_trt.text.tokenizer import load_tokenizer
from cpspec_trt.text.vocabulary import VOCABULARY_FILE, read_vocabulary, words_outside
from cpspec_trt.text.voices import resolve_voice

FRAME_SECONDS = 0.08  # of every 12 Hz checkpoint (12.5 frames per second)


@dataclass(frozen=True, slots=True)
class Speech:
    """What was said.

    Attributes:
        samples: float32 [samples] in -1 … 1; empty if the engines were opened without code2wav.
        sample_rate: Hz.
        codes: int32 [frames, groups].
        finish_reason: ``stop`` at EOS, ``length`` at the frame cap (the text may be cut).
        statistics: what speculation did.
        sampling: effective values and seed.
        seconds: wall-clock time per stage.
        warnings: one line each.
    """

    samples: np.ndarray
    sample_rate: int
    codes: np.ndarray
    finish_reason: FinishReason
    statistics: SpeculationStatistics
    sampling: EffectiveSampling
    seconds: StageSeconds
    warnings: tuple[str, ...]


def check_window(window: int) -> int:
    """Return ``window`` if it is 0 or a valid verify window.

    Raises:
        UsageError: 1, negative, or above the maximum.
    """
    if window != 0 and not MIN_WINDOW <= window <= MAX_WINDOW:
        reason = "1 leaves no draft slot" if window == 1 else f"the range is {MIN_WINDOW} to {MAX_WINDOW}"
        raise UsageError(f"the verify window is {window}: {reason}; use {MIN_WINDOW} to {MAX_WINDOW}, or 0 for off")
    return window


class TTS:
    """Qwen3-TTS over built engines. One object speaks one request at a time."""

    def __init__(self, engines: str | os.PathLike[str], *, audio: bool = True, threads: int | None = None) -> None:
        """Open ``engines/{talker,code_predictor,code2wav}``.

        Args:
            engines: what ``cpspec-build --checkpoint … --engineDir`` wrote.
            audio: False leaves code2wav closed; only codes are produced.
            threads: threads inside one engine pass; None takes every core.

        Raises:
            EngineError: a directory, file or tensor is missing, damaged, or does not fit the others.
            UnsupportedError: a kind of checkpoint or backend this release does not speak with.
        """
        self._open(locate(Path(engines) / "talker", None, None, audio), threads)

    @classmethod
    def from_directories(cls, directories: EngineDirectories, threads: int | None = None) -> TTS:
        """Open engines that do not share one root (see ``pipelines.engine_set.locate``)."""
        tts = cls.__new__(cls)
        tts._open(directories, threads)
        return tts

    def _open(self, directories: EngineDirectories, threads: int | None) -> None:
        self._directories = directories
        self._configs = check(directories)
        self._defaults = GenerationDefaults.read(directories.talker)
        self._tokenizer = load_tokenizer(directories.tokenizer)
        self._vocabulary = _vocabulary(directories.talker)
        self._threads = threads
        self._opened: TtsPipeline | None = None

    @property
    def frame_seconds(self) -> float:
        """Audio seconds of one frame."""
        wav = self._configs.code2wav
        return FRAME_SECONDS if wav is None else wav.samples_per_frame / wav.sample_rate

    def speak(
        self,
        text: str,
        *,
        speaker: str | None = None,
        language: str | None = None,
        instruct: str | None = None,
        speculate: int = 0,
        require_speculation: bool = False,
        greedy: bool = False,
        seed: int = DEFAULT_SEED,
        non_streaming: bool | None = None,
        repetition_penalty: float | None = None,
        talker: FilterParameters | None = None,
        code_predictor: FilterParameters | None = None,
        max_frames: int | None = None,
        listener: Listener | None = None,
    ) -> Speech:
        """Say one text.

        Args:
            text: what to say.
            speaker: a CustomVoice speaker; must be left out for VoiceDesign.
            language: a language of the checkpoint, or None for automatic.
            instruct: how to say it (the voice's description for VoiceDesign).
            speculate: verify window of the CodePredictor, 2 to 8; 0 is the autoregressive loop.
            require_speculation: fail instead of falling back to the autoregressive loop.
            greedy: take the most probable code everywhere.
            seed: of every random draw.
            non_streaming: True puts the whole text into the prompt (the default), False feeds it frame by frame.
            repetition_penalty: of the Talker's codes; None is the checkpoint's default, as for the next three.
            talker: how c0 is drawn.
            code_predictor: how c1 … are drawn.
            max_frames: frame cap, 80 ms each.
            listener: is told about progress.

        Raises:
            UsageError: a value can never work.
            RequestError: the text is empty, a name is unknown, or the request does not fit the engines.
            SpeculationRefused: ``require_speculation`` and the engines cannot do it.
            NumericError: a model produced NaN or infinity.
            EngineError: an engine is damaged or failed.
        """
        check_window(speculate)
        sampling = effective_sampling(_settings(seed, greedy, repetition_penalty, max_frames), self._defaults)
        sampling = replace(
            sampling,
            talker=_chosen("talker", talker, sampling.talker, greedy),
            code_predictor=_chosen("code_predictor", code_predictor, sampling.code_predictor, greedy),
        )
        job = self.prepare("speak()", text, speaker, language, instruct, non_streaming, sampling)
        return self.run(job, self.speculation(speculate, require_speculation), listener)

    def prepare_request(self, request: TtsRequest) -> SpeechJob:
        """Check a request of a file against this checkpoint, before any engine is opened (see ``prepare``)."""
        name = f"requests[{request.index}]"
        voice = (request.speaker, request.language, request.instruct)
        sampling = effective_sampling(request.settings, self._defaults)
        return self.prepare(name, request.text, *voice, request.non_streaming_mode, sampling)

    def prepare(
        self,
        name: str,
        text: str,
        speaker: str | None,
        language: str | None,
        instruct: str | None,
        non_streaming: bool | None,
        sampling: EffectiveSampling,
    ) -> SpeechJob:
        """Resolve names, tokenise, and check that the request fits the engines.

        Raises:
            RequestError: names the request, the field, the value and what to do.
        """
        try:
            voice = resolve_voice(self._configs.talker, speaker or "", language or "", instruct or "")
            whole = True if non_streaming is None else non_streaming
            layout = tts_layout(self._tokenizer, self._configs.talker, text, voice, whole)
            max_frames, notes = self._frame_cap(layout, sampling)
        except RequestError as fault:
            raise RequestError(f"{name}: {fault}") from None
        warnings = [*voice.warnings, *sampling.notes, *notes, *self._unspoken(text)]
        return SpeechJob(name, layout, sampling, max_frames, tuple(f"{name}: {line}" for line in warnings))

    def speculation(self, window: int, required: bool = False) -> SpeculationStatus:
        """What a requested window comes to on these engines.

        Raises:
            SpeculationRefused: ``required`` and the window does not run.
        """
        command = f"cpspec-build --engineDir {self._directories.code_predictor}"
        status = self._pipeline().speculation(window, command)
        if required and status.effective == 0:
            reason = status.reason or "no verify window was given (--cpSpecVerifySize 2 to 8)"
            raise SpeculationRefused(f"speculation is required but does not run: {reason}")
        return status

    def run(self, job: SpeechJob, status: SpeculationStatus, listener: Listener | None = None) -> Speech:
        """Run a prepared request.

        Raises:
            NumericError: a model produced NaN or infinity.
            EngineError: an engine failed.
        """
        listener = listener or Silence()
        pipeline = self._pipeline()
        try:
            spoken = pipeline.generate(job, status, listener)
            samples, rate = self._decode(pipeline, spoken)
        except CpspecError:
            listener.request_finished(job.name, 0, "error")
            raise
        listener.request_finished(job.name, len(spoken.codes), spoken.finish_reason)
        return Speech(
            samples=samples,
            sample_rate=rate,
            codes=spoken.codes,
            finish_reason=spoken.finish_reason,
            statistics=spoken.speculation,
            sampling=job.sampling,
            seconds=spoken.seconds,
            warnings=job.warnings,
        )

    def _decode(self, pipeline: TtsPipeline, spoken: SpokenCodes) -> tuple[np.ndarray, int]:
        if self._directories.code2wav is None:
            return np.zeros(0, np.float32), SAMPLE_RATE
        return pipeline.decode(spoken.codes, spoken.seconds)

    def _pipeline(self) -> TtsPipeline:
        """Engines are opened late, so that a request file with a fault never loads a model."""
        if self._opened is None:
            self._opened = TtsPipeline(open_set(self._directories, self._configs, self._threads))
        return self._opened

    def _frame_cap(self, layout: PromptLayout, sampling: EffectiveSampling) -> tuple[int, list[str]]:
        """Frames this request may have: what it asks for, within the KV capacity its prompt leaves.

        Raises:
            RequestError: the prompt does not fit, or an explicit max_audio_length does not.
        """
        manifest, rows = self._configs.talker_manifest, len(layout.text_ids)
        longest = manifest.max_new_positions("context")
        capacity = manifest.profile("generation").inputs["past_key_0"].max[2]
        if rows > longest or rows >= capacity:
            limit, flag = (longest, "maxInputLen") if rows > longest else (capacity - 1, "maxKVCacheCapacity")
            raise RequestError(
                f"the prompt has {rows} rows, the talker engine takes {limit}; shorten the text "
                f"or rebuild with cpspec-build --{flag} {rows + 1}"
            )
        room = capacity - rows
        if sampling.max_frames <= room:
            return sampling.max_frames, []
        need = f"rebuild with cpspec-build --maxKVCacheCapacity {rows + sampling.max_frames}"
        if sampling.max_frames_explicit:
            raise RequestError(
                f"max_audio_length is {sampling.max_frames} frames, the talker engine's KV cache leaves {room} "
                f"after a prompt of {rows} rows; lower it or {need}"
            )
        return room, [f"the frame cap is {room} (KV capacity {capacity} less {rows} prompt rows); for more, {need}"]

    def _unspoken(self, text: str) -> list[str]:
        if self._vocabulary is None:
            return []
        outside = words_outside(text, self._vocabulary)
        listed = ", ".join(outside)
        return [f"not in the closed vocabulary of this voice, so not intelligible: {listed}"] if outside else []


def _vocabulary(directory: Path) -> frozenset[str] | None:
    """The closed vocabulary of a voice that has one."""
    path = directory / VOCABULARY_FILE
    return read_vocabulary(path) if path.exists() else None


def _chosen(name: str, given: FilterParameters | None, default: FilterParameters, greedy: bool) -> FilterParameters:
    filters = default if given is None else given.validated(f"{name}.")
    return replace(filters, do_sample=False) if greedy else filters


def _settings(seed: int, greedy: bool, repetition_penalty: float | None, max_frames: int | None) -> SamplingSettings:
    """Settings of a call from Python: what is None stays the checkpoint's default.

    Raises:
        UsageError: a value can never work.
    """
    if not 0 <= seed < 2**64:
        raise UsageError(f"seed is {seed}; it must lie in 0 … 2**64 - 1")
    if repetition_penalty is not None and not 0 < repetition_penalty < math.inf:
        raise UsageError(f"repetition_penalty is {repetition_penalty}; it must be a finite number above 0")
    if max_frames is not None and max_frames < 1:
        raise UsageError(f"max_frames is {max_frames}; it must be at least 1")
    return SamplingSettings(
        talker_temperature=None,
        talker_top_k=None,
        talker_top_p=None,
        repetition_penalty=repetition_penalty,
        subtalker_temperature=None,
        subtalker_top_k=None,
        subtalker_top_p=None,
        max_audio_length=max_frames,
        do_sample=False if greedy else None,
        subtalker_do_sample=False if greedy else None,
        seed=seed,
    )
