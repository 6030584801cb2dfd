"""The requests of a run, checked and laid out, and the engines that speak them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cpspec_trt.api.capacity import Wanted, cap_within
from cpspec_trt.api.omni import Omni, OmniJob
from cpspec_trt.api.tts import MIN_NEW_TOKENS, TTS
from cpspec_trt.bench.frame_loop import PredictorParts
from cpspec_trt.engines.onnxruntime import OnnxRuntimeEngine
from cpspec_trt.errors import InputFileError, RequestError, UnsupportedError
from cpspec_trt.files.omni_requests import read_omni_requests
from cpspec_trt.files.requests import read_tts_requests
from cpspec_trt.files.sidecars import (
    TalkerTables,
    read_omni_talker_sidecars,
    read_talker_sidecars,
    read_thinker_sidecars,
)
from cpspec_trt.pipelines.engine_set import SpeechDirectories, SpeechEngines, check_tts, locate, open_speech
from cpspec_trt.pipelines.machine import SpeechRules
from cpspec_trt.pipelines.omni_engines import OmniConfigs, check_engines, locate_omni
from cpspec_trt.pipelines.speech import SpeechJob
from cpspec_trt.text.omni_layout import NothingToSay, omni_layout


@dataclass(frozen=True, slots=True)
class Bench:
    """What is benched.

    Attributes:
        family: ``Qwen3-TTS`` or ``Qwen3-Omni``.
        directories: of the engines.
        engines: opened.
        rules: of the family.
        jobs: the requests.
        texts: what each of them says or is asked, for the record.
        frame_seconds: audio seconds of one frame.
        warnings: about the file and its requests, one line each.
    """

    family: str
    directories: SpeechDirectories
    engines: SpeechEngines
    rules: SpeechRules
    jobs: tuple[SpeechJob, ...]
    texts: tuple[str, ...]
    frame_seconds: float
    warnings: tuple[str, ...]

    def predictor(self) -> PredictorParts:
        """The CodePredictor alone.

        Raises:
            UnsupportedError: it runs on a device.
        """
        engine, directory = self.engines.code_predictor, self.directories.code_predictor
        if not isinstance(engine, OnnxRuntimeEngine):
            raise UnsupportedError(
                f"{directory}: the frame loop alone is measured on ONNX Runtime, this engine is for "
                f"{engine.manifest.backend}; use --stage all"
            )
        return PredictorParts(
            engine,
            self.engines.configs.code_predictor,
            self.engines.code_predictor_tables,
            self.engines.talker_tables.codec_embedding,
            directory,
        )


def open_bench(root: Path, input_file: Path, max_frames: int, threads: int | None) -> Bench:
    """Open the engines below one root and prepare the requests of a file; with a Thinker it is Qwen3-Omni.

    The Thinker answers each request once, here; speaking the answers is what is benched.

    Args:
        root: what ``cpspec-build --checkpoint … --engineDir`` wrote.
        input_file: requests as ``cpspec-infer`` reads them.
        max_frames: frame cap of every request, on top of its own.
        threads: threads inside one engine pass; None takes every core.

    Raises:
        InputFileError: the file, or a request in it, does not fit.
        EngineError: an engine is missing, damaged, or does not fit the others.
    """
    if (root / "thinker").is_dir():
        return _open_omni(root, input_file, max_frames, threads)
    return _open_tts(root, input_file, max_frames, threads)


def _open_tts(root: Path, input_file: Path, max_frames: int, threads: int | None) -> Bench:
    file = read_tts_requests(input_file, strict=False)
    directories = locate(root / "talker", None)
    tts = TTS.from_directories(directories)
    try:
        jobs = [tts.prepare_request(request) for request in file.requests]
    except RequestError as fault:
        raise InputFileError(f"{input_file}: {fault}") from None
    configs, talker = check_tts(directories)

    def tables() -> TalkerTables:
        return read_talker_sidecars(directories.talker, talker)

    engines = open_speech(directories, configs, tables, threads)
    texts = tuple(request.text for request in file.requests)
    rules = SpeechRules(talker.tts_pad_token_id, MIN_NEW_TOKENS)
    warnings = (*file.warnings, *(line for job in jobs for line in job.warnings))
    capped = _capped(jobs, max_frames)
    return Bench("Qwen3-TTS", directories, engines, rules, capped, texts, tts.frame_seconds, warnings)


def _open_omni(root: Path, input_file: Path, max_frames: int, threads: int | None) -> Bench:
    file = read_omni_requests(input_file, strict=False)
    places = locate_omni(root)
    configs, directories = check_engines(places), places.speech
    with Omni.from_directories(places, threads) as omni:
        try:
            prepared = [omni.prepare_request(request) for request in file.requests]
            jobs = [(job, _spoken(omni, job, configs)) for job in prepared]
        except RequestError as fault:
            raise InputFileError(f"{input_file}: {fault}") from None
        frame_seconds = omni.frame_seconds
    talker = configs.talker
    assert directories is not None  # as ``locate_omni`` was asked for audio
    assert configs.speech is not None
    assert talker is not None

    def tables() -> TalkerTables:
        embedding = read_thinker_sidecars(places.thinker, configs.thinker)
        return read_omni_talker_sidecars(directories.talker, talker, embedding)

    engines = open_speech(directories, configs.speech, tables, threads)
    texts = tuple(request.messages[-1].text for request in file.requests)
    rules = SpeechRules(configs.thinker.tts_pad_token_id, min_new_tokens=0)
    capped = _capped([speech for _, speech in jobs], max_frames)
    warnings = (*file.warnings, *(line for job, _ in jobs for line in job.warnings))
    return Bench("Qwen3-Omni", directories, engines, rules, capped, texts, frame_seconds, warnings)


def _spoken(omni: Omni, job: OmniJob, configs: OmniConfigs) -> SpeechJob:
    answer, talker, speech = omni.think(job), configs.talker, job.sampling.speech
    assert talker is not None
    assert configs.speech is not None
    assert speech is not None
    assert job.speaker_id is not None
    stopped = answer.finish_reason == "stop"
    layout = omni_layout(talker, configs.thinker, job.text.prompt_ids, answer.spoken_ids, stopped, job.speaker_id)
    if isinstance(layout, NothingToSay):
        raise RequestError(f"{job.name}: {layout.reason}; there is nothing to measure, give another request")
    wanted = Wanted("max_audio_length", speech.max_frames, speech.max_frames_explicit)
    cap, _ = cap_within(configs.speech.talker_manifest, len(layout.text_ids), wanted)
    return SpeechJob(job.name, layout, speech, cap)


def _capped(jobs: Sequence[SpeechJob], max_frames: int) -> tuple[SpeechJob, ...]:
    return tuple(replace(job, max_frames=min(job.max_frames, max_frames)) for job in jobs)
