"""What ``cpspec-infer`` says while it runs."""

from __future__ import annotations

import logging
import sys

from cpspec_trt.speculation.rules import DEFAULT_RULE
from cpspec_trt.speculation.statistics import SpeculationStatus

log = logging.getLogger("cpspec_trt")


class _Lines(logging.Handler):
    """Prints ``warning: …`` as compilers write it.

    The stream is looked up for every line: while a progress line is drawn, rich stands in for ``sys.stderr`` and
    puts other lines above it.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:  # closed by the caller
            print(f"{record.levelname.lower()}: {record.getMessage()}", file=sys.stderr)


def start_log(debug: bool) -> None:
    """Send the package's log to stderr."""
    log.handlers[:] = [_Lines()]
    log.setLevel(logging.DEBUG if debug else logging.INFO)


def announce(status: SpeculationStatus) -> None:
    """Say whether speculation runs, and why not."""
    if status.reason is not None:
        log.warning(f"CodePredictor speculative decoding disabled: {status.reason}")
    elif status.effective:
        window = f"up to {status.effective}" if status.adaptive else str(status.effective)
        tree = "" if status.widths is None else f", tree of widths {','.join(map(str, status.widths))}"
        rule = "" if status.rule == DEFAULT_RULE else f", rule {status.rule}"
        log.info(f"CodePredictor speculative decoding enabled: verify window {window}{rule}{tree}")
    if status.rows_exact is False:
        log.warning(
            f"on this machine a pass of {status.effective} rows does not round like single steps: the law of the codes "
            "is the same, but greedy codes may differ from those of --cpSpecVerifySize 0 where two are almost tied"
        )


def warn_about_length(name: str, frames: int) -> None:
    """A frame cap is no success: the speech may be cut."""
    log.warning(f"{name}: ended at the frame cap of {frames} frames, the speech may be cut (finish length)")


def warn_about_text_length(name: str, tokens: int) -> None:
    """The same for a text."""
    log.warning(f"{name}: the text ended at the token cap of {tokens} tokens, it may be cut (finish length)")
