"""What ``cpspec-infer`` does between its flags and its files."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from cpspec_trt.api.speech import Speech, check_window
from cpspec_trt.api.tts import TTS
from cpspec_trt.errors import CpspecError, InputFileError, RequestError
from cpspec_trt.files.requests import TtsRequest, TtsRequestFile, read_tts_requests
from cpspec_trt.files.results import ResponseRecord, write_audio, write_results
from cpspec_trt.pipelines.engine_set import locate
from cpspec_trt.pipelines.events import Listener
from cpspec_trt.pipelines.speech import SpeechJob
from cpspec_trt.report.progress import ProgressListener
from cpspec_trt.report.summary import SummaryRow, print_summary
from cpspec_trt.speculation.statistics import SpeculationStatus

EXIT_FAILED, EXIT_LENGTH = 1, 3
_log = logging.getLogger("cpspec_trt")


@dataclass(frozen=True, slots=True)
class SpeakOptions:
    """The flags of ``cpspec-infer`` in the order of its help."""

    input_file: Path
    talker: Path
    code2wav: Path | None
    tokenizer: Path | None
    output_file: Path | None
    audio_dir: Path | None
    batch_size: int | None
    window: int
    require_speculation: bool
    fail_on_length: bool
    strict: bool
    dump_output: bool
    debug: bool


@dataclass(frozen=True, slots=True)
class _Answer:
    record: ResponseRecord
    speech: Speech | None


def speak_file(options: SpeakOptions) -> int:
    """Check everything, speak every request, write the results; returns the exit code.

    Raises:
        UsageError, InputFileError: before any engine is opened.
        EngineError, SpeculationRefused: before the first request.
    """
    _start_log(options.debug)
    check_window(options.window)
    file = read_tts_requests(options.input_file, options.strict, options.batch_size)
    directories = locate(options.talker, options.code2wav, audio=options.audio_dir is not None)
    _log.debug(f"engines: {directories}")
    tts = TTS.from_directories(directories, options.tokenizer)
    jobs = _prepare(tts, file)
    status = tts.speculation(options.window, options.require_speculation)
    for warning in (*file.warnings, *(line for job in jobs for line in job.warnings)):
        _log.warning(warning)
    _announce(status)
    answers = _speak_all(tts, file, jobs, status, options)
    if options.output_file is not None:
        write_results(options.output_file, file.path, [answer.record for answer in answers])
    _report(answers, tts.frame_seconds)
    return _exit_code(answers, options.fail_on_length)


def _prepare(tts: TTS, file: TtsRequestFile) -> list[SpeechJob]:
    try:
        return [tts.prepare_request(request) for request in file.requests]
    except RequestError as fault:
        raise InputFileError(f"{file.path}: {fault}") from None


def _announce(status: SpeculationStatus) -> None:
    if status.reason is not None:
        _log.warning(f"CodePredictor speculative decoding disabled: {status.reason}")
    elif status.effective:
        _log.info(f"CodePredictor speculative decoding enabled: verify window {status.effective}")


def _speak_all(
    tts: TTS, file: TtsRequestFile, jobs: list[SpeechJob], status: SpeculationStatus, options: SpeakOptions
) -> list[_Answer]:
    answers = []
    with ProgressListener(tts.frame_seconds) as progress:
        for request, job in zip(file.requests, jobs, strict=True):
            answer = _speak(tts, request, job, status, options, progress)
            if options.dump_output:
                print(json.dumps(answer.record.to_json(), indent=2, ensure_ascii=False))
            answers.append(answer)
    return answers


def _speak(
    tts: TTS,
    request: TtsRequest,
    job: SpeechJob,
    status: SpeculationStatus,
    options: SpeakOptions,
    listener: Listener,
) -> _Answer:
    """Run one request and write its audio; a failure is recorded, and the other requests go on."""
    _log.debug(f"{job.name}: {len(job.layout.text_ids)} prompt rows, {job.max_frames} frames at most, {job.sampling}")
    try:
        speech = tts.run(job, status, listener)
        audio = None
        if options.audio_dir is not None:
            audio = write_audio(options.audio_dir, request.index, speech.samples, speech.codes, speech.sample_rate)
    except CpspecError as fault:
        _log.error(fault)
        failed = ResponseRecord(
            request.index, request.messages, "error", 0, job.sampling.to_json(), None, error=str(fault)
        )
        return _Answer(failed, None)
    if speech.finish_reason == "length":
        _log.warning(
            f"{job.name}: ended at the frame cap of {job.max_frames} frames, the speech may be cut (finish length)"
        )
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


def _report(answers: list[_Answer], frame_seconds: float) -> None:
    rows = []
    for answer in answers:
        speech, name = answer.speech, str(answer.record.request_idx)
        if speech is None:
            rows.append(SummaryRow(name, "error", 0, 0.0, 0.0, 0, 0, None))
            continue
        statistics = speech.statistics
        rows.append(
            SummaryRow(
                name=name,
                finish_reason=speech.finish_reason,
                frames=len(speech.codes),
                audio_seconds=len(speech.codes) * frame_seconds,
                compute_seconds=speech.times.total,
                window=statistics.status.effective,
                passes=statistics.passes,
                codes_per_round=statistics.codes_per_round if statistics.status.effective else None,
            )
        )
    print_summary(rows, Console(stderr=True))


def _exit_code(answers: list[_Answer], fail_on_length: bool) -> int:
    reasons = {answer.record.finish_reason for answer in answers}
    if "error" in reasons:
        return EXIT_FAILED
    return EXIT_LENGTH if fail_on_length and "length" in reasons else 0


class _LowerCase(logging.Formatter):
    """``warning: …`` as compilers write it."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.getMessage()}"


def _start_log(debug: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LowerCase())
    _log.handlers[:] = [handler]
    _log.setLevel(logging.DEBUG if debug else logging.INFO)
