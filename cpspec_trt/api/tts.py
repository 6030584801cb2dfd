"""Qwen3-TTS from Python.

from cpspec_trt import TTS

tts = TTS("engines")
speech = tts.speak("the mother is in the kitchen now", speaker="vivian", speculate=3)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from cpspec_trt.api.arguments import check_text, chosen_filter, speech_settings
from cpspec_trt.api.speech import Speaker, Speech
from cpspec_trt.errors import RequestError, UnsupportedError, UsageError
from cpspec_trt.files.request_reading import DEFAULT_SEED
from cpspec_trt.files.requests import TtsRequest
from cpspec_trt.files.sidecars import TalkerTables, read_talker_sidecars
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.pipelines.engine_set import SpeechDirectories, check_tts, locate, open_speech
from cpspec_trt.pipelines.events import Listener
from cpspec_trt.pipelines.machine import SpeechRules
from cpspec_trt.pipelines.speech import SpeechJob, SpeechPipeline
from cpspec_trt.sampling.effective import EffectiveSampling, GenerationDefaults, effective_sampling
from cpspec_trt.speculation.drafting import Drafting
from cpspec_trt.speculation.rules import DEFAULT_RULE
from cpspec_trt.speculation.statistics import SpeculationStatus
from cpspec_trt.text.layout import tts_layout
from cpspec_trt.text.tokenizer import load_tokenizer
from cpspec_trt.text.vocabulary import VOCABULARY_FILE, read_vocabulary, words_outside
from cpspec_trt.text.voices import BASE, resolve_voice

MIN_NEW_TOKENS = 2  # of the reference's wrapper: EOS is banned for two Talker tokens


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
            InputFileError: the Talker's ``voice_map.json`` is damaged or names a speaker there is not.
            UnsupportedError: a kind of checkpoint or backend this release does not speak with.
        """
        self._open(locate(Path(engines) / "talker", None, audio), None, threads)

    @classmethod
    def from_directories(
        cls, directories: SpeechDirectories, tokenizer: Path | None = None, threads: int | None = None
    ) -> TTS:
        """Open engines that do not share one root (see ``pipelines.engine_set.locate``).

        Args:
            directories: the engines.
            tokenizer: where the tokenizer's files are; None looks in the talker directory, then in its parent.
            threads: as in the constructor.
        """
        tts = cls.__new__(cls)
        tts._open(directories, tokenizer, threads)
        return tts

    def _open(self, directories: SpeechDirectories, tokenizer: Path | None, threads: int | None) -> None:
        configs, config = check_tts(directories)
        if config.model_type == BASE:
            raise UnsupportedError(
                f"{directories.talker}: a Base checkpoint needs voice cloning, which is not supported; "
                "use a CustomVoice or VoiceDesign checkpoint"
            )
        self._config = config
        self._defaults = GenerationDefaults.read(directories.talker)
        self._tokenizer = load_tokenizer(tokenizer or _tokenizer_directory(directories.talker))
        self._vocabulary = _vocabulary(directories.talker)
        rules = SpeechRules(config.tts_pad_token_id, MIN_NEW_TOKENS)

        def open_pipeline() -> SpeechPipeline:
            def tables() -> TalkerTables:
                return read_talker_sidecars(directories.talker, config)

            return SpeechPipeline(open_speech(directories, configs, tables, threads), rules)

        self._speaker = Speaker(directories, configs, open_pipeline)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what the engines hold on a GPU; the object must not be used any more."""
        self._speaker.close()

    @property
    def frame_seconds(self) -> float:
        """Audio seconds of one frame."""
        return self._speaker.frame_seconds

    @property
    def groups(self) -> int:
        """Code groups of a frame."""
        return self._config.num_code_groups

    def speak(
        self,
        text: str,
        *,
        speaker: str | None = None,
        language: str | None = None,
        instruct: str | None = None,
        speculate: int | str = 0,
        rule: str = DEFAULT_RULE,
        tree_width: int | Sequence[int] = 1,
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
            speaker: a CustomVoice speaker, or a name of the Talker's ``voice_map.json``; left out for VoiceDesign.
            language: a language of the checkpoint, or None for automatic.
            instruct: how to say it (the voice's description for VoiceDesign).
            speculate: verify window of the CodePredictor, 2 to 8; 0 is the autoregressive loop; ``"auto"`` chooses
                window and width round by round.
            rule: how sampled drafts are accepted: ``"rejection"``, ``"block"`` or ``"coupled"``, whose codes are
                those of the autoregressive loop.
            tree_width: candidates per drafted depth, one number or one per depth; the rule coupled alone.
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
        drafting = Drafting.checked(speculate, rule, tree_width)
        if not isinstance(text, str):
            raise UsageError(f"text is {text!r:.40}; give a string")
        for name, value in (("speaker", speaker), ("language", language), ("instruct", instruct)):
            check_text(name, value)
        sampling = effective_sampling(speech_settings(seed, greedy, repetition_penalty, max_frames), self._defaults)
        sampling = replace(
            sampling,
            talker=chosen_filter("talker", talker, sampling.talker, greedy),
            code_predictor=chosen_filter("code_predictor", code_predictor, sampling.code_predictor, greedy),
        )
        job = self.prepare("speak()", text, speaker, language, instruct, non_streaming, sampling)
        return self.run(job, self.speculation(drafting, require_speculation), listener)

    def prepare_request(self, request: TtsRequest, name: str | None = None) -> SpeechJob:
        """Check a request of a file, before any engine is opened (see ``prepare``); the name defaults to its place."""
        name = name or f"requests[{request.index}]"
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
            voice = resolve_voice(self._config, speaker or "", language or "", instruct or "")
            whole = True if non_streaming is None else non_streaming
            layout = tts_layout(self._tokenizer, self._config, text, voice, whole)
            max_frames, notes = self._speaker.frame_cap(layout, sampling)
        except RequestError as fault:
            raise RequestError(f"{name}: {fault}") from None
        warnings = [*voice.warnings, *sampling.notes, *notes, *self._unspoken(text)]
        return SpeechJob(name, layout, sampling, max_frames, tuple(f"{name}: {line}" for line in warnings))

    def speculation(self, drafting: Drafting, required: bool = False) -> SpeculationStatus:
        """What a wish for speculation comes to on these engines.

        Raises:
            SpeculationRefused: ``required`` and it does not run.
            EngineError: a tree or an adaptive window does not fit these engines; says what to build.
        """
        return self._speaker.speculation(drafting, required)

    def run(self, job: SpeechJob, status: SpeculationStatus, listener: Listener | None = None) -> Speech:
        """Run a prepared request.

        Raises:
            NumericError: a model produced NaN or infinity.
            EngineError: an engine failed.
        """
        return self._speaker.run(job, status, listener)

    def _unspoken(self, text: str) -> list[str]:
        if self._vocabulary is None:
            return []
        outside = words_outside(text, self._vocabulary)
        listed = ", ".join(outside)
        return [f"not in the closed vocabulary of this voice, so not intelligible: {listed}"] if outside else []


def _tokenizer_directory(talker: Path) -> Path:
    inside = any((talker / name).is_file() for name in ("tokenizer.json", "vocab.json"))
    return talker if inside else talker.resolve().parent


def _vocabulary(directory: Path) -> frozenset[str] | None:
    """The closed vocabulary of a voice that has one."""
    path = directory / VOCABULARY_FILE
    return read_vocabulary(path) if path.exists() else None
