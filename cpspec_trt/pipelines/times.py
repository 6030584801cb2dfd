"""Wall-clock time per stage of a run, under the stage ids of the reference's profile files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

LLM_PREFILL, LLM_GENERATION = "llm_prefill", "llm_generation"
TALKER_PREFILL, TALKER_GENERATION = "talker_prefill", "talker_generation"
CODE_PREDICTOR_PREFILL, CODE_PREDICTOR_GENERATION = "codepredictor_prefill", "codepredictor_generation"
CODE2WAV = "code2wav"
STAGE_IDS = (
    LLM_PREFILL,
    LLM_GENERATION,
    TALKER_PREFILL,
    TALKER_GENERATION,
    CODE_PREDICTOR_PREFILL,
    CODE_PREDICTOR_GENERATION,
    CODE2WAV,
)


class StageTimes:
    """Durations in seconds of every run of every stage."""

    def __init__(self) -> None:
        self._runs: dict[str, list[float]] = {}

    def add(self, stage: str, seconds: float) -> None:
        """Record one run of a stage."""
        self._runs.setdefault(stage, []).append(seconds)

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Record the block as one run of a stage."""
        began = time.perf_counter()
        yield
        self.add(stage, time.perf_counter() - began)

    def merge(self, other: StageTimes) -> None:
        """Add everything another run recorded."""
        for stage, runs in other._runs.items():
            self._runs.setdefault(stage, []).extend(runs)

    def runs(self) -> Mapping[str, list[float]]:
        """Stage id -> seconds of each run."""
        return self._runs

    @property
    def total(self) -> float:
        """Seconds over all stages."""
        return sum(map(sum, self._runs.values()))
