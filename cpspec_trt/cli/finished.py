"""The finished requests of a run: kept small while it runs, written when it ends, whatever ended it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rich.console import Console

from cpspec_trt.api.speech import Speech
from cpspec_trt.cli.infer_options import InferOptions
from cpspec_trt.cli.output import log
from cpspec_trt.errors import Interrupted, UsageError
from cpspec_trt.files.json_io import write_json_atomic
from cpspec_trt.files.results import Response, write_results
from cpspec_trt.pipelines.text import Answer
from cpspec_trt.report.profile import Profile, print_profile
from cpspec_trt.report.summary import SummaryRow, print_summary

EXIT_FAILED, EXIT_LENGTH = 1, 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one request came to. Its samples and codes are in files by now.

    Attributes:
        record: its place in the output JSON.
        reasons: how text and speech ended.
        row: its line of the summary; None where nothing was to be said.
    """

    record: Response
    reasons: tuple[str, ...]
    row: SummaryRow | None


class Finished:
    """Collects outcomes inside a ``with`` block; leaving the block writes and prints what there is.

    The block may also end by Ctrl-C or by an error: what was finished is kept.
    """

    def __init__(self, options: InferOptions, total: int, groups: int, indent: int) -> None:
        """Begin a run.

        Args:
            options: where results go.
            total: requests of the file.
            groups: code groups of a frame, for the profile.
            indent: of the output JSON.
        """
        self._options = options
        self._total = total
        self._groups = groups
        self._indent = indent
        self._outcomes: list[Outcome] = []
        self._answers = self._tokens = 0
        self._text_seconds = 0.0
        wanted = options.dump_profile or options.profile_file is not None
        self._profile = Profile() if wanted else None

    def __enter__(self) -> Finished:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, tb: TracebackType | None) -> None:
        """Write the results.

        Raises:
            Interrupted: the block was left by Ctrl-C.
            UsageError: a file cannot be written.
        """
        if self._outcomes:
            self._write()
        if kind is KeyboardInterrupt:
            raise Interrupted(
                f"interrupted: {len(self._outcomes)} of {self._total} requests are done; {self._where()}"
            ) from None

    def add_text(self, answer: Answer, prompt_tokens: int) -> None:
        """Count an answer of the Thinker."""
        self._answers += 1
        self._tokens += len(answer.token_ids)
        self._text_seconds += answer.times.total
        if self._profile is not None:
            self._profile.add_text(answer.times, prompt_tokens, len(answer.token_ids))

    def add_speech(self, speech: Speech) -> None:
        """Count a speech."""
        if self._profile is not None:
            self._profile.add_speech(speech.times, len(speech.codes), speech.statistics, speech.work)

    def add(self, outcome: Outcome) -> None:
        """Keep a finished request, and print it if that was asked for."""
        self._outcomes.append(outcome)
        if self._options.dump_output:
            print(json.dumps(outcome.record.to_json(), indent=self._indent, ensure_ascii=False))

    def exit_code(self) -> int:
        """0 done, 1 a request failed, 3 one ended at a cap and that was asked to count."""
        reasons = {reason for outcome in self._outcomes for reason in outcome.reasons}
        if "error" in reasons:
            return EXIT_FAILED
        return EXIT_LENGTH if self._options.fail_on_length and "length" in reasons else 0

    def _where(self) -> str:
        options = self._options
        places = [str(path) for path in (options.output_file, options.audio_dir) if path is not None]
        if not self._outcomes:
            return "nothing was written"
        return f"what they gave is in {' and '.join(places)}" if places else "no place for results was given"

    def _write(self) -> None:
        options, console = self._options, Console(stderr=True)
        if options.output_file is not None:
            records = [outcome.record for outcome in self._outcomes]
            write_results(options.output_file, options.requests, records, self._indent)
        if self._answers:
            answers = "1 answer" if self._answers == 1 else f"{self._answers} answers"
            tokens = "1 token" if self._tokens == 1 else f"{self._tokens} tokens"
            log.info(f"{answers}, {tokens} of text, {self._text_seconds:.1f} s of computing")
        rows = [outcome.row for outcome in self._outcomes if outcome.row is not None]
        if rows:
            print_summary(rows, console)
        if self._profile is not None:
            self._write_profile(self._profile, console)

    def _write_profile(self, profile: Profile, console: Console) -> None:
        content = profile.to_json(self._groups)
        if self._options.dump_profile:
            print_profile(content, console)
        path = self._options.profile_file
        if path is not None:
            write_profile(path, content)


def write_profile(path: Path, content: dict[str, object]) -> None:
    """Write a profile as JSON.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        write_json_atomic(path, content)
    except OSError as fault:
        raise UsageError(f"--profileOutputFile {path}: cannot be written: {fault.strerror}; give another") from None


def silent_row(index: int, reason: str, seconds: float) -> SummaryRow:
    """The summary's line of a request that said nothing.

    Args:
        index: its position.
        reason: why: error or nothing_to_say.
        seconds: compute time until then.
    """
    return SummaryRow(str(index), reason, 0, 0.0, seconds, 0, 0, None)


def speech_row(index: int, speech: Speech, seconds: float, frame: float) -> SummaryRow:
    """The summary's line of a request that was spoken.

    Args:
        index: its position.
        speech: what was said.
        seconds: compute time of all stages.
        frame: audio seconds of one frame.
    """
    found = speech.statistics
    return SummaryRow(
        name=str(index),
        finish_reason=speech.finish_reason,
        frames=len(speech.codes),
        audio_seconds=len(speech.codes) * frame,
        compute_seconds=seconds,
        window=found.status.effective,
        passes=found.passes,
        codes_per_round=found.codes_per_round,
    )
