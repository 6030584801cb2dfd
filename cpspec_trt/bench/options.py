"""What a run of the benchmark is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpspec_trt.bench.settings import Setting
from cpspec_trt.bench.synthetic import CONFIGURATIONS, Stage
from cpspec_trt.errors import UsageError

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """A run.

    Attributes:
        engines: root of the engines; None with a synthetic configuration.
        input_file: requests; None where frames are random.
        settings: to compare, the autoregressive loop first.
        stage: what is measured.
        frames: most frames per request, or frames where they are random.
        repetitions: how often everything is measured.
        threads: inside one engine pass; None takes every core.
        synthetic: configuration of random weights.
        synthetic_directory: where its engines are kept; None removes them afterwards.
        acceptance: set acceptance of drafts, with a synthetic configuration alone.
        seed: of random weights, frames and codes.
    """

    engines: Path | None
    input_file: Path | None
    settings: Sequence[Setting]
    stage: Stage
    frames: int
    repetitions: int
    threads: int | None
    synthetic: str | None
    synthetic_directory: Path | None
    acceptance: float | None
    seed: int

    def check(self) -> None:
        """Refuse what cannot work, whatever the files hold.

        Raises:
            UsageError: names the flag, its value and what to give.
        """
        for flag, count in (
            ("--frames", self.frames),
            ("--repetitions", self.repetitions),
            ("--threads", self.threads),
        ):
            if count is not None and count < 1:
                raise UsageError(f"{flag} is {count}; give a whole number of at least 1")
        if self.seed < 0:
            raise UsageError(f"--seed is {self.seed}; give a whole number of at least 0")
        self._check_source()
        self._check_acceptance()

    def asked(self) -> dict[str, Any]:
        """For the record."""
        return {
            "batch": 1,
            "frames_at_most": self.frames,
            "repetitions": self.repetitions,
            "seed": self.seed,
            "input_file": str(self.input_file) if self.input_file is not None else None,
        }

    def _check_source(self) -> None:
        if (self.engines is None) == (self.synthetic is None):
            raise UsageError("give either ENGINES, the root of built engines, or --synthetic with a configuration")
        if self.synthetic is not None and self.synthetic not in CONFIGURATIONS:
            raise UsageError(f"--synthetic is {self.synthetic!r}; it must be one of {', '.join(CONFIGURATIONS)}")
        if self.synthetic_directory is not None and self.synthetic is None:
            raise UsageError("--syntheticDir has no meaning without --synthetic")
        if self.engines is not None and self.input_file is None and self.stage != "code2wav":
            raise UsageError("--inputFile is missing; give the requests to speak, as for cpspec-infer")
        if self.input_file is not None and (self.stage == "code2wav" or (self.synthetic and self.stage != "all")):
            raise UsageError("--inputFile has no meaning here: what is measured alone gets random frames")

    def _check_acceptance(self) -> None:
        if self.acceptance is None:
            return
        if self.synthetic is None:
            raise UsageError("--acceptance needs --synthetic: a real model has its own acceptance")
        if self.stage == "code2wav":
            raise UsageError("--acceptance has no meaning with --stage code2wav, which drafts nothing")
        if not 0 <= self.acceptance <= 1:
            raise UsageError(f"--acceptance is {self.acceptance}; give a number from 0 to 1")
        for setting in self.settings:
            drafting = setting.drafting
            if drafting.tree is not None or (drafting.adaptive and drafting.rule.codes_follow_seed):
                raise UsageError(
                    f"--acceptance sets that of chains, the setting {setting.name} has trees; leave one of them out"
                )
