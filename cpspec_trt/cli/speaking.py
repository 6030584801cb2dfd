"""``cpspec-infer`` for Qwen3-TTS, between its flags and its files."""

from __future__ import annotations

from cpspec_trt.api.tts import TTS
from cpspec_trt.cli.checks import check_flags, check_targets, wished_drafting
from cpspec_trt.cli.finished import Finished, Outcome, silent_row, speech_row
from cpspec_trt.cli.infer_options import InferOptions
from cpspec_trt.cli.output import announce, log, start_log, warn_about_length
from cpspec_trt.errors import CpspecError, InputFileError, RequestError, UsageError
from cpspec_trt.files.requests import TtsRequest, TtsRequestFile, read_tts_requests
from cpspec_trt.files.results import ResponseRecord, write_audio
from cpspec_trt.pipelines.engine_set import locate
from cpspec_trt.pipelines.events import Listener
from cpspec_trt.pipelines.speech import SpeechJob
from cpspec_trt.report.progress import ProgressListener
from cpspec_trt.speculation.statistics import SpeculationStatus


def speak_file(options: InferOptions) -> int:
    """Check everything, speak every request, write the results; returns the exit code.

    Raises:
        UsageError, InputFileError: before any engine is opened.
        EngineError, SpeculationRefused: before the first request.
        Interrupted: what was finished until then is written.
    """
    start_log(options.debug)
    check_flags(options)
    if options.talker is None:
        raise UsageError("--talkerEngineDir is missing; give the talker's engine, or --engineDir for Qwen3-Omni")
    file = read_tts_requests(options.requests, options.strict, options.batch_size)
    check_targets(options)
    directories = locate(options.talker, options.code2wav, audio=options.audio_dir is not None)
    log.debug(f"engines: {directories}")
    tts = TTS.from_directories(directories, options.tokenizer, options.threads)
    jobs = _prepare(tts, file)
    status = tts.speculation(wished_drafting(options), options.require_speculation)
    of_jobs = (line for job in jobs for line in job.warnings)
    for warning in (*_unused(options), *file.warnings, *of_jobs):
        log.warning(warning)
    announce(status)
    run = _Run(tts, status, options, len(jobs))
    run.all(file, jobs)
    return run.finished.exit_code()


def _prepare(tts: TTS, file: TtsRequestFile) -> list[SpeechJob]:
    try:
        return [tts.prepare_request(request) for request in file.requests]
    except RequestError as fault:
        raise InputFileError(f"{file.path}: {fault}") from None


def _unused(options: InferOptions) -> list[str]:
    """Flags that were given but take no part in the run."""
    if options.code2wav is not None and options.audio_dir is None:
        return ["--code2wavEngineDir has no effect without --outputAudioDir"]
    return []


class _Run:
    """Speaks the requests of one file, one after the other."""

    def __init__(self, tts: TTS, status: SpeculationStatus, options: InferOptions, total: int) -> None:
        self.finished = Finished(options, total, tts.groups, indent=2)
        self._tts = tts
        self._status = status
        self._options = options

    def all(self, file: TtsRequestFile, jobs: list[SpeechJob]) -> None:
        with self.finished, ProgressListener(self._tts.frame_seconds, len(jobs)) as progress:
            for request, job in zip(file.requests, jobs, strict=True):
                progress.next_request()
                self.finished.add(self._one(request, job, progress))

    def _one(self, request: TtsRequest, job: SpeechJob, listener: Listener) -> Outcome:
        """Run one request and write its audio; a failure is recorded, and the other requests go on."""
        log.debug(
            f"{job.name}: {len(job.layout.text_ids)} prompt rows, {job.max_frames} frames at most, {job.sampling}"
        )
        sampling = {**job.sampling.to_json(), "max_audio_length": job.max_frames}
        directory = self._options.audio_dir
        try:
            speech = self._tts.run(job, self._status, listener)
            audio = None
            if directory is not None:
                audio = write_audio(directory, request.index, speech.samples, speech.codes, speech.sample_rate)
        except CpspecError as fault:
            log.error(fault)
            failed = ResponseRecord(request.index, request.messages, "error", 0, sampling, None, error=str(fault))
            return Outcome(failed, ("error",), silent_row(request.index, "error", 0.0))
        if speech.finish_reason == "length":
            warn_about_length(job.name, job.max_frames)
        self.finished.add_speech(speech)
        record = ResponseRecord(
            request_idx=request.index,
            messages=request.messages,
            finish_reason=speech.finish_reason,
            frames=len(speech.codes),
            sampling=sampling,
            code_predictor=speech.statistics.to_json(),
            audio=audio,
        )
        row = speech_row(request.index, speech, speech.times.total, self._tts.frame_seconds)
        return Outcome(record, (speech.finish_reason,), row)
