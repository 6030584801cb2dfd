"""What the two ways of ``cpspec-infer`` share: the log, profile and summary at the end, exit codes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from rich.console import Console

from cpspec_trt.api.speech import Speech
from cpspec_trt.errors import UsageError
from cpspec_trt.files.json_io import write_json_atomic
from cpspec_trt.report.profile import Profile, print_profile
from cpspec_trt.report.summary import SummaryRow, print_summary
from cpspec_trt.speculation.statistics import SpeculationStatus

EXIT_FAILED, EXIT_LENGTH = 1, 3
log = logging.getLogger("cpspec_trt")


class _LowerCase(logging.Formatter):
    """``warning: …`` as compilers write it."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.getMessage()}"


def start_log(debug: bool) -> None:
    """Send the package's log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LowerCase())
    log.handlers[:] = [handler]
    log.setLevel(logging.DEBUG if debug else logging.INFO)


def announce(status: SpeculationStatus) -> None:
    """Say whether speculation runs, and why not."""
    if status.reason is not None:
        log.warning(f"CodePredictor speculative decoding disabled: {status.reason}")
    elif status.effective:
        log.info(f"CodePredictor speculative decoding enabled: verify window {status.effective}")


def warn_about_length(name: str, frames: int) -> None:
    """A frame cap is no success: the speech may be cut."""
    log.warning(f"{name}: ended at the frame cap of {frames} frames, the speech may be cut (finish length)")


def summary_row(index: int, finish_reason: str, speech: Speech | None, seconds: float, frame: float) -> SummaryRow:
    """One line of the summary.

    Args:
        index: the request's position.
        finish_reason: how it ended.
        speech: None if nothing was said.
        seconds: compute time of all stages.
        frame: audio seconds of one frame.
    """
    if speech is None:
        return SummaryRow(str(index), finish_reason, 0, 0.0, seconds, 0, 0, None)
    found = speech.statistics
    return SummaryRow(
        name=str(index),
        finish_reason=finish_reason,
        frames=len(speech.codes),
        audio_seconds=len(speech.codes) * frame,
        compute_seconds=seconds,
        window=found.status.effective,
        passes=found.passes,
        codes_per_round=found.codes_per_round,
    )


def report(rows: Sequence[SummaryRow], profile: Profile, groups: int, show: bool, path: Path | None) -> None:
    """Print the summary (``rows`` is empty where nothing was to be said), and the profile if asked for.

    Raises:
        UsageError: the profile cannot be written.
    """
    console = Console(stderr=True)
    if rows:
        print_summary(rows, console)
    if not show and path is None:
        return
    content = profile.to_json(groups)
    if show:
        print_profile(content, console)
    if path is not None:
        try:
            write_json_atomic(path, content, indent=2)
        except OSError as fault:
            raise UsageError(f"{path}: cannot write the profile: {fault.strerror}; give another file") from None


def exit_code(reasons: Collection[str | None], fail_on_length: bool) -> int:
    """0 done, 1 a request failed, 3 one ended at a cap and that was asked to count."""
    if "error" in reasons:
        return EXIT_FAILED
    return EXIT_LENGTH if fail_on_length and "length" in reasons else 0
