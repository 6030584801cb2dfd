"""``cpspec-infer --engines DIR --text … --out FILE``: one text, without a request file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from rich.console import Console

from cpspec_trt.api.arguments import speech_settings
from cpspec_trt.api.omni import Omni, OmniJob
from cpspec_trt.api.speech import Speech
from cpspec_trt.api.tts import TTS
from cpspec_trt.cli.checks import check_flags, check_targets, wished_drafting
from cpspec_trt.cli.finished import EXIT_LENGTH, silent_row, speech_row, write_profile
from cpspec_trt.cli.infer_options import InferOptions
from cpspec_trt.cli.output import announce, log, start_log, warn_about_length, warn_about_text_length
from cpspec_trt.errors import EngineError, RequestError, UsageError
from cpspec_trt.files.atomic import is_special
from cpspec_trt.files.audio import write_wav
from cpspec_trt.files.omni_request_schema import MAX_TEXT_BYTES
from cpspec_trt.files.omni_requests import plain_request, read_conversation
from cpspec_trt.files.request_reading import DEFAULT_SEED
from cpspec_trt.files.requests import SPOKEN_ROLE, Message, TtsRequest
from cpspec_trt.pipelines.engine_set import locate
from cpspec_trt.pipelines.omni_engines import locate_omni
from cpspec_trt.pipelines.speech import SpeechJob
from cpspec_trt.report.profile import Profile, print_profile
from cpspec_trt.report.progress import ProgressListener
from cpspec_trt.report.summary import SummaryRow, print_summary
from cpspec_trt.text.omni_layout import NothingToSay

NAME = "--text"
STANDARD_INPUT = "-"
_WAV = ("", ".wav", ".wave")
_FIELD = re.compile(r"(?:field |(?<=in ))'(speaker|language|instruct)'")


def speak_text(options: InferOptions) -> int:
    """Check everything, speak the text with Qwen3-TTS, write the WAV; returns the exit code.

    Raises:
        UsageError: before any engine is opened.
        EngineError, SpeculationRefused: before the first frame.
        NumericError, EngineError, RequestError: nothing was written.
    """
    engines, text, out = _checked(options)
    tts = TTS.from_directories(locate(engines / "talker", None), threads=options.threads)
    job = _prepare_speech(tts, text, options)
    status = tts.speculation(wished_drafting(options), options.require_speculation)
    _warn(job.warnings)
    announce(status)
    profile = Profile()
    with ProgressListener(tts.frame_seconds) as progress:
        progress.next_request()
        speech = tts.run(job, status, progress)
        _write(out, speech)
    _finish_speech(speech, profile)
    _report(options, profile, tts.groups, speech_row(0, speech, speech.times.total, tts.frame_seconds))
    return _exit_code(options, speech.finish_reason)


def answer_text(options: InferOptions) -> int:
    """As ``speak_text`` with Qwen3-Omni: the text is the user's turn, the answer is printed to stdout and spoken."""
    engines, text, out = _checked(options)
    for flag, value in (("--language", options.language), ("--instruct", options.instruct)):
        if value is not None:
            raise UsageError(f"{flag} belongs to Qwen3-TTS, and {engines} holds Qwen3-Omni; remove it")
    omni = Omni.from_directories(locate_omni(engines), options.threads)
    job = _prepare_answer(omni, text, options)
    omni.open()
    status = omni.speculation(wished_drafting(options), options.require_speculation)
    _warn(job.warnings)
    announce(status)
    profile = Profile()
    with ProgressListener(omni.frame_seconds) as progress:
        progress.next_request()
        answer = omni.think(job, progress)
        profile.add_text(answer.times, len(job.text.prompt_ids), len(answer.token_ids))
        print(answer.text, flush=True)
        if answer.finish_reason == "length":
            warn_about_text_length(NAME, job.text.max_tokens)
        speech = omni.say(job, answer, status, progress)
        if isinstance(speech, Speech):
            _write(out, speech)
    seconds = answer.times.total
    if isinstance(speech, NothingToSay):
        log.warning(f"{out} was not written: {speech.reason}")
        _report(options, profile, omni.groups, silent_row(0, "nothing_to_say", seconds))
        return _exit_code(options, answer.finish_reason)
    _finish_speech(speech, profile)
    _report(options, profile, omni.groups, speech_row(0, speech, seconds + speech.times.total, omni.frame_seconds))
    return _exit_code(options, answer.finish_reason, speech.finish_reason)


def _checked(options: InferOptions) -> tuple[Path, str, Path]:
    """The engines' root, the text and the WAV file: everything that can be found out without opening a model."""
    engines, out = options.engines, options.out
    assert engines is not None
    assert out is not None
    assert options.text is not None
    start_log(options.debug)
    check_flags(options)
    if str(out) == STANDARD_INPUT:
        raise UsageError("--out is -, which is no file; give the WAV file to write, or /dev/stdout")
    if out.suffix.lower() not in _WAV and not is_special(out):
        raise UsageError(f"--out {out}: speech is written as WAV; give a name that ends in .wav")
    if not (engines / "talker").is_dir() and (engines / "config.json").is_file():
        raise EngineError(f"--engines {engines}: is one engine or a checkpoint; give the directory that holds talker")
    text = _read_text(options.text)
    check_targets(options)
    return engines, text, out


def _read_text(given: str) -> str:
    """The text itself, or what standard input holds.

    Raises:
        UsageError: there is nothing to say, or it is no text.
    """
    text = given
    if given == STANDARD_INPUT:
        if sys.stdin is None:
            raise UsageError(f"{NAME} is -, but standard input is closed; give the text itself")
        raw = sys.stdin.buffer.read(MAX_TEXT_BYTES + 1)
        try:
            text = raw.decode("utf-8-sig", "strict" if len(raw) <= MAX_TEXT_BYTES else "replace").rstrip("\r\n")
        except UnicodeDecodeError as fault:
            raise UsageError(f"{NAME}: standard input is not UTF-8 (byte {fault.start}); send UTF-8") from None
    if not text.strip():
        raise UsageError(f"{NAME} is empty; give what is to be said")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UsageError(f"{NAME} holds bytes that are not UTF-8; give UTF-8") from None
    if size > MAX_TEXT_BYTES:
        raise UsageError(f"{NAME} is longer than {MAX_TEXT_BYTES} bytes of UTF-8 (128 KiB); shorten it")
    return text


def _prepare_speech(tts: TTS, text: str, options: InferOptions) -> SpeechJob:
    request = TtsRequest(
        index=0,
        text=text,
        messages=(Message(SPOKEN_ROLE, text),),
        speaker=options.speaker,
        language=options.language,
        instruct=options.instruct,
        non_streaming_mode=None,
        settings=speech_settings(DEFAULT_SEED, greedy=False, repetition_penalty=None, max_frames=None),
    )
    try:
        return tts.prepare_request(request, NAME)
    except RequestError as fault:
        raise UsageError(_in_flags(str(fault))) from None


def _prepare_answer(omni: Omni, text: str, options: InferOptions) -> OmniJob:
    try:
        messages, stops = read_conversation(NAME, [{"role": "user", "content": text}], ())
        settings = speech_settings(DEFAULT_SEED, greedy=False, repetition_penalty=None, max_frames=None)
        request = plain_request(messages, stops, options.speaker, options.max_generate_length, settings)
        return omni.prepare_request(request, NAME)
    except RequestError as fault:
        raise UsageError(_in_flags(str(fault))) from None


def _in_flags(message: str) -> str:
    """A message about a request's field, as one about the flag that gives it."""
    named = _FIELD.sub(r"--\1", message)
    return named.removeprefix(f"{NAME}: ") if named.startswith(f"{NAME}: --") else named


def _warn(lines: tuple[str, ...]) -> None:
    for line in lines:
        log.warning(_in_flags(line))


def _write(out: Path, speech: Speech) -> None:
    try:
        write_wav(out, speech.samples, speech.sample_rate)
    except OSError as fault:
        raise RequestError(f"--out {out}: cannot be written: {fault.strerror}; give another place") from None
    log.info(f"{out}: {len(speech.samples) / speech.sample_rate:.2f} s of speech")


def _finish_speech(speech: Speech, profile: Profile) -> None:
    if speech.finish_reason == "length":
        warn_about_length(NAME, speech.max_frames)
    profile.add_speech(speech.times, len(speech.codes), speech.statistics, speech.work)


def _report(options: InferOptions, profile: Profile, groups: int, row: SummaryRow) -> None:
    console = Console(stderr=True)
    print_summary([row], console)
    if not options.dump_profile and options.profile_file is None:
        return
    content = profile.to_json(groups)
    if options.dump_profile:
        print_profile(content, console)
    if options.profile_file is not None:
        write_profile(options.profile_file, content)


def _exit_code(options: InferOptions, *reasons: str) -> int:
    return EXIT_LENGTH if options.fail_on_length and "length" in reasons else 0
