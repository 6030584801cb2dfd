"""``cpspec-infer --engineDir`` for Qwen3-Omni, between its flags and its files."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from cpspec_trt.api.omni import Omni, OmniJob
from cpspec_trt.api.speech import Speech, check_window
from cpspec_trt.cli.infer_options import InferOptions
from cpspec_trt.cli.output import announce, exit_code, log, report, start_log, summary_row, warn_about_length
from cpspec_trt.errors import CpspecError, InputFileError, RequestError, SpeculationRefused, UsageError
from cpspec_trt.files.omni_requests import OmniRequest, OmniRequestFile, read_omni_requests
from cpspec_trt.files.omni_results import OUTPUT_INDENT, OmniResponseRecord
from cpspec_trt.files.results import write_audio, write_results
from cpspec_trt.pipelines.engine_set import locate, require_directory
from cpspec_trt.pipelines.events import Listener
from cpspec_trt.pipelines.omni_engines import OmniDirectories
from cpspec_trt.pipelines.text import Answer
from cpspec_trt.report.profile import Profile
from cpspec_trt.report.progress import ProgressListener
from cpspec_trt.speculation.statistics import SpeculationStatus
from cpspec_trt.text.omni_layout import NothingToSay


@dataclass(frozen=True, slots=True)
class _Answered:
    record: OmniResponseRecord
    speech: Speech | None
    seconds: float


def answer_file(options: InferOptions) -> int:
    """Check everything, answer every request, write the results; returns the exit code.

    Raises:
        UsageError, InputFileError: before any engine is opened.
        EngineError, SpeculationRefused: before the first request.
    """
    start_log(options.debug)
    check_window(options.window)
    _check_flags(options)
    file = read_omni_requests(options.input_file, options.strict, options.batch_size, options.max_generate_length)
    directories = _directories(options)
    log.debug(f"engines: {directories}")
    omni = Omni.from_directories(directories)
    jobs = _prepare(omni, file)
    status = omni.speculation(options.window, options.require_speculation) if options.audio else None
    for warning in (*file.warnings, *(line for job in jobs for line in job.warnings)):
        log.warning(warning)
    if status is not None:
        announce(status)
    for _ in range(options.warmup):
        omni.think(jobs[0])
    run = _Run(omni, file, status, options)
    answered = run.all(jobs)
    if options.output_file is not None:
        records = [one.record for one in answered]
        write_results(options.output_file, file.path, records, indent=OUTPUT_INDENT)
    tokens, seconds = sum(one.record.generated_token_count for one in answered), sum(one.seconds for one in answered)
    log.info(f"{len(answered)} answers, {tokens} tokens of text, {seconds:.1f} s of computing")
    rows = [
        summary_row(
            one.record.request_idx,
            one.record.audio_finish_reason or one.record.finish_reason,
            one.speech,
            one.seconds,
            omni.frame_seconds,
        )
        for one in answered
        if options.audio
    ]
    report(rows, run.profile, omni.groups, options.dump_profile, options.profile_file)
    reasons = {reason for one in answered for reason in (one.record.finish_reason, one.record.audio_finish_reason)}
    return exit_code(reasons, options.fail_on_length)


def _check_flags(options: InferOptions) -> None:
    if options.output_file is None:
        raise UsageError("--outputFile is required with --engineDir")
    if options.audio and options.talker is None:
        raise UsageError("--talkerEngineDir is required when --enableAudioOutput is set")
    if options.require_speculation and not options.audio:
        raise SpeculationRefused("speculation is required but there is no audio output; add --enableAudioOutput")
    if options.warmup < 0:
        raise UsageError(f"--warmup is {options.warmup}; give a whole number of at least 0")


def _directories(options: InferOptions) -> OmniDirectories:
    """The Thinker's directory and, with audio, the others: code2wav also below the multimodal directory."""
    thinker = require_directory(options.engine_dir or Path(), "thinker")
    if not options.audio or options.talker is None:
        if options.window:
            log.warning("--cpSpecVerifySize has no effect without --enableAudioOutput")
        return OmniDirectories(thinker, None)
    code2wav = options.code2wav
    sibling = options.talker.resolve().parent / "code2wav"
    if code2wav is None and options.multimodal is not None and not sibling.is_dir():
        code2wav = options.multimodal / "code2wav"
    return OmniDirectories(thinker, locate(options.talker, code2wav, audio=options.audio_dir is not None))


def _prepare(omni: Omni, file: OmniRequestFile) -> list[OmniJob]:
    try:
        return [omni.prepare_request(request) for request in file.requests]
    except RequestError as fault:
        raise InputFileError(f"{file.path}: {fault}") from None


class _Run:
    """Answers the requests of one file, one after the other."""

    def __init__(self, omni: Omni, file: OmniRequestFile, status: SpeculationStatus | None, options: InferOptions):
        self.profile = Profile()
        self._omni = omni
        self._file = file
        self._status = status
        self._options = options

    def all(self, jobs: list[OmniJob]) -> list[_Answered]:
        answered = []
        with ProgressListener(self._omni.frame_seconds) as progress:
            for request, job in zip(self._file.requests, jobs, strict=True):
                one = self._one(request, job, progress)
                if self._options.dump_output:
                    print(json.dumps(one.record.to_json(), indent=OUTPUT_INDENT, ensure_ascii=False))
                answered.append(one)
        return answered

    def _one(self, request: OmniRequest, job: OmniJob, listener: Listener) -> _Answered:
        """A failure is recorded, and the other requests go on."""
        log.debug(f"{job.name}: {len(job.text.prompt_ids)} prompt tokens, {job.sampling}")
        try:
            answer = self._omni.think(job, listener)
        except CpspecError as fault:
            log.error(fault)
            failed = self._record(request, job, None)
            return _Answered(replace(failed, error=str(fault)), None, 0.0)
        self.profile.add_text(answer.times, len(job.text.prompt_ids), len(answer.token_ids))
        record = self._record(request, job, answer)
        if self._status is None:
            return _Answered(record, None, answer.times.total)
        return self._say(job, answer, record, self._status, listener)

    def _say(
        self, job: OmniJob, answer: Answer, record: OmniResponseRecord, status: SpeculationStatus, listener: Listener
    ) -> _Answered:
        seconds = answer.times.total
        try:
            speech = self._omni.say(job, answer, status, listener)
            if isinstance(speech, NothingToSay):
                log.warning(f"{job.name}: no audio: {speech.reason}")
                return _Answered(replace(record, audio_finish_reason="nothing_to_say"), None, seconds)
            self.profile.add_speech(speech.times, len(speech.codes), speech.statistics)
            audio = None
            if self._options.audio_dir is not None:
                group, slot = divmod(record.request_idx, self._file.batch_size)
                directory = self._options.audio_dir
                audio = write_audio(directory, group, speech.samples, speech.codes, speech.sample_rate, slot=slot)
        except CpspecError as fault:
            log.error(fault)
            return _Answered(replace(record, audio_finish_reason="error", error=str(fault)), None, seconds)
        for line in speech.warnings:
            log.warning(line)
        if speech.finish_reason == "length":
            warn_about_length(job.name, len(speech.codes))
        spoken = replace(
            record,
            audio_finish_reason=speech.finish_reason,
            frames=len(speech.codes),
            code_predictor=speech.statistics.to_json(),
            audio=audio,
        )
        return _Answered(spoken, speech, seconds + speech.times.total)

    def _record(self, request: OmniRequest, job: OmniJob, answer: Answer | None) -> OmniResponseRecord:
        return OmniResponseRecord(
            request_idx=request.index,
            batch_idx=request.index % self._file.batch_size,
            messages=request.messages,
            output_text=answer.text if answer else "",
            finish_reason=answer.finish_reason if answer else "error",
            formatted_system_prompt=job.prompt.system,
            formatted_complete_request=job.prompt.complete,
            generated_token_count=len(answer.token_ids) if answer else 0,
            sampling=job.sampling.to_json(),
        )
