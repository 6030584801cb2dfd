"""What speculation did for one request: the value behind every report of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cpspec_trt.speculation.rules import DEFAULT_RULE


@dataclass(frozen=True, slots=True)
class SpeculationStatus:
    """What was asked for and what runs.

    Attributes:
        requested: the verify window asked for; 0 is off.
        effective: the window that runs; 0 is the autoregressive loop.
        reason: why the two differ, None where they do not.
        rows_exact: whether a pass of that many rows gave the bits of single steps when it was probed at load;
            then greedy codes are those of the autoregressive loop, bit for bit. None without speculation.
        tolerance: gap of two logits below which a pass of several rows decides nothing: 0 where rows are exact, None
            without speculation.
        widths: candidates per drafted depth, where drafts form trees.
        rule: how sampled drafts are accepted.
        adaptive: window and widths are chosen round by round; ``requested`` and ``effective`` are the largest window.
    """

    requested: int
    effective: int
    reason: str | None = None
    rows_exact: bool | None = None
    tolerance: float | None = None
    widths: tuple[int, ...] | None = None
    rule: str = DEFAULT_RULE
    adaptive: bool = False


@dataclass(slots=True)
class SpeculationStatistics:
    """Counters of one request over its frames.

    Attributes:
        status: what was asked for and what runs.
        rule: name of the acceptance rule, None for the autoregressive loop.
        frames: frames decoded.
        passes: passes of the CodePredictor's body: one starts a frame, each round or single step is one.
        rounds: draft/verify/accept transactions, plain steps at a frame's end included.
        round_codes: codes committed by them; the first code of a frame needs no round.
        proposed: drafts verified, by draft offset.
        reached: those of them whose predecessors in the round all stood, by draft offset.
        accepted: drafts accepted, by draft offset. accepted / reached estimates the acceptance of an offset.
        choices: rounds by what was drafted, candidates per depth; of the whole batch.
        probes: rounds that drafted only to see whether it pays again.
        guarded: decisions left to a plain step, because two candidates were closer than the backend's tolerance.
    """

    status: SpeculationStatus
    rule: str | None = None
    frames: int = 0
    passes: int = 0
    rounds: int = 0
    round_codes: int = 0
    proposed: list[int] = field(default_factory=list)
    reached: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    guarded: int = 0
    choices: Counter[tuple[int, ...]] = field(default_factory=Counter)
    probes: int = 0

    def add_autoregressive_frame(self, passes: int) -> None:
        """Count a frame decoded without speculation."""
        self.frames += 1
        self.passes += passes

    def add_frame(
        self,
        rule: str,
        rounds: int,
        round_codes: int,
        proposed: Sequence[int],
        reached: Sequence[int],
        accepted: Sequence[int],
        guarded: int = 0,
    ) -> None:
        """Count a frame decoded in rounds; see the attributes. The lists run over the window's draft offsets."""
        self.rule = rule
        self.frames += 1
        self.passes += 1 + rounds
        self.rounds += rounds
        self.round_codes += round_codes
        self.proposed = _added(self.proposed, proposed)
        self.reached = _added(self.reached, reached)
        self.accepted = _added(self.accepted, accepted)
        self.guarded += guarded

    def add_choices(self, choices: Mapping[tuple[int, ...], int], probes: int) -> None:
        """Count what the rounds of a frame drafted."""
        self.choices.update(choices)
        self.probes += probes

    @property
    def codes_per_round(self) -> float | None:
        """Mean number of codes a round committed; None before the first round."""
        return self.round_codes / self.rounds if self.rounds else None

    def to_json(self) -> dict[str, object]:
        """The ``code_predictor`` object of a response."""
        return {
            "requested": "auto" if self.status.adaptive else self.status.requested,
            "effective": self.status.effective,
            "rule": self.rule,
            "reason": self.status.reason,
            "rows_exact": self.status.rows_exact,
            "tolerance": self.status.tolerance,
            "tree_width": list(self.status.widths) if self.status.widths is not None else None,
            "passes": self.passes,
            "rounds": self.rounds,
            "proposed": list(self.proposed),
            "reached": list(self.reached),
            "accepted": list(self.accepted),
            "guarded": self.guarded,
            "codes_per_round": self.codes_per_round,
            "choices": self._named_choices() if self.status.adaptive else None,
            "probes": self.probes,
        }

    def _named_choices(self) -> dict[str, int]:
        """Rounds by the candidates per drafted depth, ``1,1`` a chain of two; ``0`` are plain steps."""
        return {",".join(map(str, widths)) or "0": count for widths, count in sorted(self.choices.items())}


def _added(total: list[int], more: Sequence[int]) -> list[int]:
    if not total:
        return list(more)
    return [left + right for left, right in zip(total, more, strict=True)]
