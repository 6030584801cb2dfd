"""What a pipeline tells whoever listens (progress bars, profiles). Listeners must be quick and must not raise."""

from __future__ import annotations

from typing import Protocol


class Listener(Protocol):
    """Receives the events of a run, in order, on the thread that runs it."""

    def text_started(self, name: str, max_tokens: int) -> None:
        """The Thinker begins an answer of at most ``max_tokens`` tokens."""
        ...

    def token_finished(self, tokens: int) -> None:
        """The running answer has ``tokens`` tokens so far."""
        ...

    def request_started(self, name: str, max_frames: int) -> None:
        """Speech begins; it will have at most ``max_frames`` frames."""
        ...

    def frame_finished(self, frames: int) -> None:
        """The running request has produced ``frames`` frames so far."""
        ...

    def request_finished(self, name: str, frames: int, finish_reason: str) -> None:
        """A request ended with ``stop``, ``length`` or ``error``."""
        ...


class Silence:
    """A listener that ignores everything."""

    def text_started(self, name: str, max_tokens: int) -> None:
        """Ignore."""

    def token_finished(self, tokens: int) -> None:
        """Ignore."""

    def request_started(self, name: str, max_frames: int) -> None:
        """Ignore."""

    def frame_finished(self, frames: int) -> None:
        """Ignore."""

    def request_finished(self, name: str, frames: int, finish_reason: str) -> None:
        """Ignore."""
