"""``cpspec-infer`` for Qwen3-TTS, between its flags and its files."""

from __future__ import annotations

import json
from dataclasses import dataclass

from cpspec_trt.api.speech import Speech, check_window
from cpspec_trt.api.tts import TTS
from cpspec_trt.cli.infer_options import InferOptions
from cpspec_trt.cli.output import announce, exit_code, log, report, start_log, summary_row, warn_about_length
from cpspec_trt.errors import CpspecError, InputFileError, RequestError, UsageError
from cpspec_trt.files.requests import TtsRequest, TtsRequestFile, read_tts_requests
from cpspec_trt.files.results import ResponseRecord, write_audio, write_results
from cpspec_trt.pipelines.engine_set import locate
from cpspec_trt.pipelines.events import Listener
from cpspec_trt.pipelines.speech import SpeechJob
from cpspec_trt.report.profile import Profile
from cpspec_trt.report.progress import ProgressListener
from cpspec_trt.speculation.statistics import SpeculationStatus


@dataclass(frozen=True, slots=True)
class _Answer:
    record: ResponseRecord
    speech: Speech | None


def speak_file(options: InferOptions) -> int:
    """Check everything, speak every request, write the results; returns the exit code.

    Raises:
        UsageError, InputFileError: before any engine is opened.
        EngineError, SpeculationRefused: before the first request.
    """
    start_log(options.debug)
    check_window(options.window)
    if options.talker is None:
        raise UsageError("--talkerEngineDir is missing; give the talker's engine, or --engineDir for Qwen3-Omni")
    file = read_tts_requests(options.input_file, options.strict, options.batch_size)
    directories = locate(options.talker, options.code2wav, audio=options.audio_dir is not None)
    log.debug(f"engines: {directories}")
    tts = TTS.from_directories(directories, options.tokenizer)
    jobs = _prepare(tts, file)
    status = tts.speculation(options.window, options.require_speculation)
    for warning in (*file.warnings, *(line for job in jobs for line in job.warnings)):
        log.warning(warning)
    announce(status)
    profile = Profile()
    answers = _speak_all(tts, file, jobs, status, options, profile)
    if options.output_file is not None:
        write_results(options.output_file, file.path, [answer.record for answer in answers])
    rows = [
        summary_row(
            answer.record.request_idx,
            answer.record.finish_reason,
            answer.speech,
            answer.speech.times.total if answer.speech else 0.0,
            tts.frame_seconds,
        )
        for answer in answers
    ]
    report(rows, profile, tts.groups, options.dump_profile, options.profile_file)
    return exit_code({answer.record.finish_reason for answer in answers}, options.fail_on_length)


def _prepare(tts: TTS, file: TtsRequestFile) -> list[SpeechJob]:
    try:
        return [tts.prepare_request(request) for request in file.requests]
    except RequestError as fault:
        raise InputFileError(f"{file.path}: {fault}") from None


def _speak_all(
    tts: TTS,
    file: TtsRequestFile,
    jobs: list[SpeechJob],
    status: SpeculationStatus,
    options: InferOptions,
    profile: Profile,
) -> list[_Answer]:
    answers = []
    with ProgressListener(tts.frame_seconds) as progress:
        for request, job in zip(file.requests, jobs, strict=True):
            answer = _speak(tts, request, job, status, options, progress)
            if answer.speech is not None:
                speech = answer.speech
                profile.add_speech(speech.times, len(speech.codes), speech.statistics)
            if options.dump_output:
                print(json.dumps(answer.record.to_json(), indent=2, ensure_ascii=False))
            answers.append(answer)
    return answers


def _speak(
    tts: TTS,
    request: TtsRequest,
    job: SpeechJob,
    status: SpeculationStatus,
    options: InferOptions,
    listener: Listener,
) -> _Answer:
    """Run one request and write its audio; a failure is recorded, and the other requests go on."""
    log.debug(f"{job.name}: {len(job.layout.text_ids)} prompt rows, {job.max_frames} frames at most, {job.sampling}")
    try:
        speech = tts.run(job, status, listener)
        audio = None
        if options.audio_dir is not None:
            audio = write_audio(options.audio_dir, request.index, speech.samples, speech.codes, speech.sample_rate)
    except CpspecError as fault:
        log.error(fault)
        failed = ResponseRecord(
            request.index, request.messages, "error", 0, job.sampling.to_json(), None, error=str(fault)
        )
        return _Answer(failed, None)
    if speech.finish_reason == "length":
        warn_about_length(job.name, job.max_frames)
    record = ResponseRecord(
        request_idx=request.index,
        messages=request.messages,
        finish_reason=speech.finish_reason,
        frames=len(speech.codes),
        sampling={**job.sampling.to_json(), "max_audio_length": job.max_frames},
        code_predictor=speech.statistics.to_json(),
        audio=audio,
    )
    return _Answer(record, speech)
