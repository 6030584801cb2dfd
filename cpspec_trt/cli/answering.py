"""``cpspec-infer --engineDir`` for Qwen3-Omni, between its flags and its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cpspec_trt.api.omni import Omni, OmniJob
from cpspec_trt.cli.checks import check_flags, check_targets, wished_drafting
from cpspec_trt.cli.finished import Finished, Outcome, silent_row, speech_row
from cpspec_trt.cli.infer_options import InferOptions
from cpspec_trt.cli.output import announce, log, start_log, warn_about_length, warn_about_text_length
from cpspec_trt.errors import CpspecError, InputFileError, RequestError, UsageError
from cpspec_trt.files.omni_requests import OmniRequest, OmniRequestFile, read_omni_requests
from cpspec_trt.files.omni_results import OUTPUT_INDENT, OmniResponseRecord
from cpspec_trt.files.results import write_audio
from cpspec_trt.pipelines.engine_set import locate, require_directory
from cpspec_trt.pipelines.events import Listener
from cpspec_trt.pipelines.omni_engines import OmniDirectories
from cpspec_trt.pipelines.text import Answer
from cpspec_trt.report.progress import ProgressListener
from cpspec_trt.speculation.statistics import SpeculationStatus
from cpspec_trt.text.omni_layout import NothingToSay


def answer_file(options: InferOptions) -> int:
    """Check everything, answer every request, write the results; returns the exit code.

    Raises:
        UsageError, InputFileError: before any engine is opened.
        EngineError, SpeculationRefused: before the first request.
        Interrupted: what was finished until then is written.
    """
    start_log(options.debug)
    _check_flags(options)
    file = read_omni_requests(options.requests, options.strict, options.batch_size, options.max_generate_length)
    check_targets(options)
    directories = _directories(options)
    log.debug(f"engines: {directories}")
    omni = Omni.from_directories(directories, options.threads)
    jobs = _prepare(omni, file)
    omni.open()
    status = omni.speculation(wished_drafting(options), options.require_speculation) if options.audio else None
    of_jobs = (line for job in jobs for line in job.warnings)
    for warning in (*_unused(options), *file.warnings, *of_jobs):
        log.warning(warning)
    if status is not None:
        announce(status)
    for _ in range(options.warmup):
        omni.think(jobs[0])
    run = _Run(omni, file, status, options)
    run.all(jobs)
    return run.finished.exit_code()


def _check_flags(options: InferOptions) -> None:
    check_flags(options)
    if options.output_file is None:
        raise UsageError("--outputFile is required with --engineDir")
    if options.audio and options.talker is None:
        raise UsageError("--talkerEngineDir is required when --enableAudioOutput is set")
    if options.require_speculation and not options.audio:
        raise UsageError("--requireSpeculation needs speech; add --enableAudioOutput")
    if options.warmup < 0:
        raise UsageError(f"--warmup is {options.warmup}; give a whole number of at least 0")


def _unused(options: InferOptions) -> list[str]:
    """Flags that were given but take no part in the run."""
    speaking = {
        "--cpSpecVerifySize": options.window != 0,
        "--cpSpecRule": options.rule != "rejection",
        "--cpSpecTreeWidth": options.tree_width != 1,
        "--talkerEngineDir": options.talker is not None,
        "--code2wavEngineDir": options.code2wav is not None,
        "--multimodalEngineDir": options.multimodal is not None,
        "--outputAudioDir": options.audio_dir is not None,
    }
    if not options.audio:
        return [f"{flag} has no effect without --enableAudioOutput" for flag, given in speaking.items() if given]
    if options.audio_dir is None:
        flags = ("--code2wavEngineDir", "--multimodalEngineDir")
        return [f"{flag} has no effect without --outputAudioDir" for flag in flags if speaking[flag]]
    return []


def _directories(options: InferOptions) -> OmniDirectories:
    """The Thinker's directory and, with audio, the others: code2wav also below the multimodal directory."""
    thinker = require_directory(options.engine_dir or Path(), "thinker")
    if not options.audio or options.talker is None:
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
        self.finished = Finished(options, len(file.requests), omni.groups, OUTPUT_INDENT)
        self._omni = omni
        self._file = file
        self._status = status
        self._options = options

    def all(self, jobs: list[OmniJob]) -> None:
        with self.finished, ProgressListener(self._omni.frame_seconds, len(jobs)) as progress:
            for request, job in zip(self._file.requests, jobs, strict=True):
                progress.next_request()
                self.finished.add(self._one(request, job, progress))

    def _one(self, request: OmniRequest, job: OmniJob, listener: Listener) -> Outcome:
        """A failure is recorded, and the other requests go on."""
        log.debug(f"{job.name}: {len(job.text.prompt_ids)} prompt tokens, {job.sampling}")
        try:
            answer = self._omni.think(job, listener)
        except CpspecError as fault:
            log.error(fault)
            failed = replace(self._record(request, job, None), error=str(fault))
            row = None if self._status is None else silent_row(request.index, "error", 0.0)
            return Outcome(failed, ("error",), row)
        self.finished.add_text(answer, len(job.text.prompt_ids))
        if answer.finish_reason == "length":
            warn_about_text_length(job.name, job.text.max_tokens)
        record = self._record(request, job, answer)
        if self._status is None:
            return Outcome(record, (answer.finish_reason,), None)
        return self._say(job, answer, record, self._status, listener)

    def _say(
        self, job: OmniJob, answer: Answer, record: OmniResponseRecord, status: SpeculationStatus, listener: Listener
    ) -> Outcome:
        index, seconds = record.request_idx, answer.times.total
        try:
            speech = self._omni.say(job, answer, status, listener)
            if isinstance(speech, NothingToSay):
                log.warning(f"{job.name}: no audio: {speech.reason}")
                silent = replace(record, audio_finish_reason="nothing_to_say")
                return Outcome(silent, (answer.finish_reason,), silent_row(index, "nothing_to_say", seconds))
            audio = None
            if self._options.audio_dir is not None:
                group, slot = divmod(index, self._file.batch_size)
                directory = self._options.audio_dir
                audio = write_audio(directory, group, speech.samples, speech.codes, speech.sample_rate, slot=slot)
        except CpspecError as fault:
            log.error(fault)
            failed = replace(record, audio_finish_reason="error", error=str(fault))
            return Outcome(failed, (answer.finish_reason, "error"), silent_row(index, "error", seconds))
        if speech.finish_reason == "length":
            warn_about_length(job.name, speech.max_frames)
        self.finished.add_speech(speech)
        spoken = replace(
            record,
            sampling={**record.sampling, "max_audio_length": speech.max_frames},
            audio_finish_reason=speech.finish_reason,
            frames=len(speech.codes),
            code_predictor=speech.statistics.to_json(),
            audio=audio,
        )
        row = speech_row(index, speech, seconds + speech.times.total, self._omni.frame_seconds)
        return Outcome(spoken, (answer.finish_reason, speech.finish_reason), row)

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
            sampling={**job.sampling.to_json(), "max_generate_length": job.text.max_tokens},
        )
