"""Qwen3-Omni from Python.

from cpspec_trt import Omni

omni = Omni("engines")
reply = omni.answer([{"role": "user", "content": "How are you today?"}], speaker="chelsie", speculate=3)
print(reply.text, reply.samples.shape)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from cpspec_trt.api.arguments import check_whole, chosen_filter, speech_settings
from cpspec_trt.api.capacity import Wanted, cap_within
from cpspec_trt.api.reply import Reply
from cpspec_trt.api.speech import Speaker, Speech
from cpspec_trt.devices.device import Device
from cpspec_trt.engines.loading import device_for, open_engine
from cpspec_trt.errors import RequestError, SpeculationRefused
from cpspec_trt.files.engine_config import OmniTalkerConfig
from cpspec_trt.files.omni_requests import OmniRequest, plain_request, read_conversation
from cpspec_trt.files.request_reading import DEFAULT_SEED
from cpspec_trt.files.sidecars import TalkerTables, read_omni_talker_sidecars, read_thinker_sidecars
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.pipelines.engine_set import SpeechConfigs, SpeechDirectories, open_speech
from cpspec_trt.pipelines.events import Listener, Silence
from cpspec_trt.pipelines.machine import SpeechRules
from cpspec_trt.pipelines.omni_engines import OmniConfigs, OmniDirectories, check_engines, locate_omni
from cpspec_trt.pipelines.speech import SpeechJob, SpeechPipeline
from cpspec_trt.pipelines.text import Answer, TextJob, TextPipeline
from cpspec_trt.pipelines.text_machine import open_text_machine
from cpspec_trt.sampling.effective import OMNI_FAMILY, GenerationDefaults
from cpspec_trt.sampling.omni import EffectiveOmniSampling, effective_omni_sampling
from cpspec_trt.speculation.drafting import Drafting
from cpspec_trt.speculation.rules import DEFAULT_RULE
from cpspec_trt.speculation.statistics import SpeculationStatus
from cpspec_trt.text.chat_template import FormattedPrompt, PromptFormatter
from cpspec_trt.text.layout import PromptLayout
from cpspec_trt.text.omni_layout import NothingToSay, check_special_tokens, omni_layout
from cpspec_trt.text.tokenizer import load_tokenizer
from cpspec_trt.text.voices import resolve_omni_speaker


@dataclass(frozen=True, slots=True)
class OmniJob:
    """A checked request, ready to run.

    Attributes:
        name: how messages call it.
        prompt: as the Thinker sees it.
        text: the Thinker's job.
        sampling: effective values.
        speaker_id: codec id; None for text only.
        warnings: one line each.
    """

    name: str
    prompt: FormattedPrompt
    text: TextJob
    sampling: EffectiveOmniSampling
    speaker_id: int | None
    warnings: tuple[str, ...]


class Omni:
    """Qwen3-Omni over built engines: text in, text and speech out. One object answers one request at a time."""

    def __init__(self, engines: str | os.PathLike[str], *, audio: bool = True, threads: int | None = None) -> None:
        """Open ``engines/{thinker,talker,code_predictor,code2wav}``.

        Args:
            engines: what ``cpspec-build --checkpoint … --engineDir`` wrote.
            audio: False opens the Thinker alone.
            threads: threads inside one engine pass; None takes every core.

        Raises:
            EngineError: a directory, file or tensor is missing, damaged, or does not fit the others.
            UnsupportedError: a backend this release cannot run.
        """
        self._open(locate_omni(Path(engines), audio), threads)

    @classmethod
    def from_directories(cls, directories: OmniDirectories, threads: int | None = None) -> Omni:
        """Open engines that do not share one root."""
        omni = cls.__new__(cls)
        omni._open(directories, threads)
        return omni

    def _open(self, directories: OmniDirectories, threads: int | None) -> None:
        self._directories = directories
        self._threads = threads
        self._configs: OmniConfigs = check_engines(directories)
        self._tokenizer = load_tokenizer(directories.thinker)
        check_special_tokens(self._tokenizer, self._configs.thinker)
        self._formatter = PromptFormatter(directories.thinker)
        self._thinker: TextPipeline | None = None
        self._device: Device | None = None
        self._embedding: np.ndarray | None = None
        self._speaker: Speaker | None = None
        self._defaults: GenerationDefaults | None = None
        speech, talker, configs = directories.speech, self._configs.talker, self._configs.speech
        if speech is not None and talker is not None and configs is not None:
            self._defaults = GenerationDefaults.read(directories.thinker, OMNI_FAMILY)
            self._speaker = Speaker(speech, configs, self._speech_opener(speech, talker, configs))

    def _speech_opener(
        self, directories: SpeechDirectories, talker: OmniTalkerConfig, configs: SpeechConfigs
    ) -> Callable[[], SpeechPipeline]:
        def tables() -> TalkerTables:
            return read_omni_talker_sidecars(directories.talker, talker, self._table())

        def open_pipeline() -> SpeechPipeline:
            rules = SpeechRules(self._configs.thinker.tts_pad_token_id, min_new_tokens=0)
            return SpeechPipeline(open_speech(directories, configs, tables, self._threads), rules)

        return open_pipeline

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what the engines hold on a GPU; the object must not be used any more."""
        if self._speaker is not None:
            self._speaker.close()
        if self._device is not None:
            self._device.close()

    def open(self) -> None:
        """Open the Thinker now rather than at the first request.

        Raises:
            EngineError: the engine or its table is missing or damaged.
        """
        self._text_pipeline()

    @property
    def frame_seconds(self) -> float:
        """Audio seconds of one frame; 0 for text only."""
        return 0.0 if self._speaker is None else self._speaker.frame_seconds

    @property
    def groups(self) -> int:
        """Code groups of a frame; 0 for text only."""
        return 0 if self._configs.talker is None else self._configs.talker.num_code_groups

    def answer(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        speaker: str | None = None,
        audio: bool = True,
        speculate: int | str = 0,
        rule: str = DEFAULT_RULE,
        tree_width: int | Sequence[int] = 1,
        require_speculation: bool = False,
        greedy: bool = False,
        seed: int = DEFAULT_SEED,
        max_new_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        max_frames: int | None = None,
        repetition_penalty: float | None = None,
        thinker: FilterParameters | None = None,
        talker: FilterParameters | None = None,
        code_predictor: FilterParameters | None = None,
        listener: Listener | None = None,
    ) -> Reply:
        """Answer a conversation.

        Args:
            messages: dictionaries with ``role`` (system, user, assistant) and ``content`` (a string, or a
                list of ``{"type": "text", "text": …}``).
            speaker: whose voice; None is the speaker of the lowest id.
            audio: False answers with text alone.
            speculate: verify window of the CodePredictor, 2 to 8; 0 is the autoregressive loop; ``"auto"`` chooses
                window and width round by round.
            rule: how sampled drafts are accepted: ``"rejection"``, ``"block"`` or ``"coupled"``, whose codes are
                those of the autoregressive loop.
            tree_width: candidates per drafted depth, one number or one per depth; the rule coupled alone.
            require_speculation: fail instead of falling back to the autoregressive loop.
            greedy: take the most probable token and code everywhere.
            seed: of every random draw.
            max_new_tokens: token cap of the Thinker; None is 256.
            stop: a string, or strings, that end the answer.
            max_frames: frame cap, 80 ms each.
            repetition_penalty: of the Talker's codes; None is the checkpoint's default, as for the next three.
            thinker: how tokens are drawn.
            talker: how c0 is drawn.
            code_predictor: how c1 … are drawn.
            listener: is told about progress.

        Raises:
            UsageError: a value can never work.
            RequestError: the messages or a name are wrong, or the request does not fit the engines.
            SpeculationRefused: ``require_speculation`` and the engines cannot do it.
            NumericError: a model produced NaN or infinity.
            EngineError: an engine is damaged or failed.
        """
        drafting = Drafting.checked(speculate, rule, tree_width)
        if require_speculation and not audio:
            raise SpeculationRefused("speculation is required, but audio is False, so there is nothing to speculate on")
        if max_new_tokens is not None:
            check_whole("max_new_tokens", max_new_tokens, 1, 2**31 - 1)
        conversation, stops = read_conversation("answer()", messages, stop)
        settings = speech_settings(seed, greedy, repetition_penalty, max_frames)
        request = plain_request(conversation, stops, speaker, max_new_tokens, settings)
        sampling = self._chosen(self._sampling(request, audio), thinker, talker, code_predictor, greedy)
        job = self.prepare("answer()", request, sampling)
        status = self.speculation(drafting, require_speculation) if job.speaker_id is not None else None
        return self.run(job, status, listener)

    def prepare_request(self, request: OmniRequest, name: str | None = None) -> OmniJob:
        """Check a request of a file, before any engine is opened (see ``prepare``); the name defaults to its place."""
        return self.prepare(name or f"requests[{request.index}]", request, self._sampling(request, audio=True))

    def prepare(self, name: str, request: OmniRequest, sampling: EffectiveOmniSampling) -> OmniJob:
        """Format and tokenise the prompt, resolve the speaker, and check that the request fits the engines.

        Raises:
            RequestError: names the request, the field, the value and what to do.
            CheckpointError: the chat template is missing or damaged.
        """
        try:
            prompt = self._formatter.format(request)
            ids = tuple(self._tokenizer.encode(prompt.complete))
            explicit = request.thinker.max_generate_length is not None
            wanted = Wanted("max_generate_length", sampling.max_generate_length, explicit, unfed=1)
            cap, notes = cap_within(self._configs.thinker_manifest, len(ids), wanted)
            speaker_id = None
            if sampling.speech is not None and self._configs.talker is not None:
                _, speaker_id = resolve_omni_speaker(self._configs.talker, request.speaker or "")
                notes += self._check_speech(ids, speaker_id, sampling)
        except RequestError as fault:
            raise RequestError(f"{name}: {fault}") from None
        text = TextJob(name, ids, sampling.thinker, sampling.seed, cap, request.stop)
        warnings = tuple(f"{name}: {line}" for line in (*sampling.notes, *notes))
        return OmniJob(name, prompt, text, sampling, speaker_id, warnings)

    def speculation(self, drafting: Drafting, required: bool = False) -> SpeculationStatus:
        """What a wish for speculation comes to on these engines.

        Raises:
            SpeculationRefused: ``required`` and it does not run.
            EngineError: a tree or an adaptive window does not fit these engines; says what to build.
            RequestError: the engines were opened for text only.
        """
        return self._speaking().speculation(drafting, required)

    def run(self, job: OmniJob, status: SpeculationStatus | None, listener: Listener | None = None) -> Reply:
        """Think, then speak unless ``status`` is None (text only).

        Raises:
            NumericError: a model produced NaN or infinity.
            EngineError: an engine failed.
        """
        answer = self.think(job, listener)
        said = None if status is None else self.say(job, answer, status, listener)
        silence = said.reason if isinstance(said, NothingToSay) else None
        speech = said if isinstance(said, Speech) else None
        return Reply(job.prompt, answer, speech, silence, job.sampling, job.warnings)

    def think(self, job: OmniJob, listener: Listener | None = None) -> Answer:
        """The Thinker's part of ``run``."""
        return self._text_pipeline().generate(job.text, listener or Silence())

    def say(
        self, job: OmniJob, answer: Answer, status: SpeculationStatus, listener: Listener | None = None
    ) -> Speech | NothingToSay:
        """The speaking part of ``run``.

        Raises:
            RequestError: the answer does not fit the Talker, or the engines were opened for text only.
            NumericError, EngineError: as ``run``.
        """
        speaker, speech = self._speaking(), job.sampling.speech
        layout = self._layout(job.text.prompt_ids, answer, job.speaker_id)
        if isinstance(layout, NothingToSay) or speech is None:
            return layout if isinstance(layout, NothingToSay) else NothingToSay("audio was not asked for")
        cap, _ = speaker.frame_cap(layout, speech)  # checked by ``prepare``, whose warnings were given there
        said = speaker.run(SpeechJob(job.name, layout, speech, cap), status, listener)
        return said if len(said.codes) else NothingToSay("the Talker ended the speech before its first frame")

    def _layout(self, prompt: Sequence[int], answer: Answer, speaker_id: int | None) -> PromptLayout | NothingToSay:
        talker = self._configs.talker
        if talker is None or speaker_id is None:
            raise RequestError("the engines were opened for text only; open them with audio")
        stopped = answer.finish_reason == "stop"
        return omni_layout(talker, self._configs.thinker, prompt, answer.spoken_ids, stopped, speaker_id)

    def _check_speech(self, prompt: Sequence[int], speaker_id: int, sampling: EffectiveOmniSampling) -> list[str]:
        """Find out before thinking whether the Talker's prompt will fit: its rows do not depend on the answer."""
        talker, speech = self._configs.talker, sampling.speech
        assert talker is not None
        assert speech is not None
        stand_in = [self._configs.thinker.tts_pad_token_id]
        layout = omni_layout(talker, self._configs.thinker, prompt, stand_in, True, speaker_id)
        return [] if isinstance(layout, NothingToSay) else self._speaking().frame_cap(layout, speech)[1]

    def _sampling(self, request: OmniRequest, audio: bool) -> EffectiveOmniSampling:
        return effective_omni_sampling(request, self._defaults if audio else None)

    @staticmethod
    def _chosen(
        sampling: EffectiveOmniSampling,
        thinker: FilterParameters | None,
        talker: FilterParameters | None,
        code_predictor: FilterParameters | None,
        greedy: bool,
    ) -> EffectiveOmniSampling:
        speech = sampling.speech
        if speech is not None:
            speech = replace(
                speech,
                talker=chosen_filter("talker", talker, speech.talker, greedy),
                code_predictor=chosen_filter("code_predictor", code_predictor, speech.code_predictor, greedy),
            )
        chosen = chosen_filter("thinker", thinker, sampling.thinker, greedy)
        return replace(sampling, thinker=chosen, speech=speech)

    def _speaking(self) -> Speaker:
        if self._speaker is None:
            raise RequestError("the engines were opened for text only; open them with audio")
        return self._speaker

    def _table(self) -> np.ndarray:
        """The Thinker's embedding table, which the Talker's text rows start from too."""
        if self._embedding is None:
            self._embedding = read_thinker_sidecars(self._directories.thinker, self._configs.thinker)
        return self._embedding

    def _text_pipeline(self) -> TextPipeline:
        if self._thinker is None:
            config = self._configs.thinker
            self._device = device_for([self._directories.thinker])
            engine = open_engine(self._directories.thinker, self._threads, self._device)
            machine = open_text_machine(engine, config.decoder, self._table())
            ends = frozenset({config.im_end_token_id})
            self._thinker = TextPipeline(machine, ends, self._tokenizer.plain_text)
        return self._thinker
