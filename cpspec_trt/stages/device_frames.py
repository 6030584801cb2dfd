"""Frames on a device: the start, then rounds until every row holds all its codes.

A round's outcome decides the next round, so the host waits once per round, and nowhere else: the start of a frame and
its first round, which is always the same, go into the stream behind the Talker's step without a wait between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from cpspec_trt.errors import NumericError
from cpspec_trt.kernels.draws import WITHOUT_MASS
from cpspec_trt.kernels.faults import RowNumericError, raise_first
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.counters import FrameCounters
from cpspec_trt.speculation.policy import FixedPolicy, Policy, Widths
from cpspec_trt.speculation.round import Outcome
from cpspec_trt.speculation.rules import GREEDY, Rule
from cpspec_trt.speculation.statistics import SpeculationStatistics
from cpspec_trt.stages.device_code_predictor import DeviceCodePredictor
from cpspec_trt.stages.device_frame_start import FrameStart
from cpspec_trt.stages.device_plans import RowParameters
from cpspec_trt.stages.device_verify import VerifyRound


class DeviceFrameDecoder:
    """Completes frames over graphs captured before.

    Attributes:
        parameters: what decides the draws of each row; set by the caller between frames.
    """

    def __init__(
        self,
        predictor: DeviceCodePredictor,
        start: FrameStart,
        rounds: Mapping[Widths, VerifyRound],
        window: int,
        rule: Rule,
        policy: Policy | None = None,
    ) -> None:
        """Prepare.

        Args:
            predictor: the CodePredictor.
            start: its start of a frame.
            rounds: a round for everything that may be drafted, and for what a frame's end leaves of it (see
                ``cut_short``).
            window: rows of a verify pass; 0 decodes autoregressively.
            rule: under which the rounds were captured.
            policy: chooses the drafts of each round, at most ``window - 1`` deep; None drafts chains of as many as
                the window takes.
        """
        self._predictor, self._start, self._rounds = predictor, start, rounds
        self._speculative, self._rule = window > 0, rule
        max_drafts = max(window - 1, 0)
        self._policy = policy or FixedPolicy((1,) * max_drafts)
        batch = predictor.batch
        self.parameters = RowParameters(batch)
        self._last = np.zeros(batch, np.int64)
        self._rows = np.arange(batch)
        self._running: VerifyRound | None = None
        self._first = False
        self._counters = FrameCounters(batch, max_drafts)
        self._widths: Widths = ()
        self._chosen: Counter[Widths] = Counter()
        self._probes = 0

    def reset(self) -> None:
        """Begin a request: a policy that learns forgets what it learned from another."""
        self._policy.reset()

    def start(self, frame: int, between: Callable[[], None]) -> None:
        """Put the start of a frame and its first round into the stream. The stream must be done with the frame before.

        Args:
            frame: index of the frame within its request, the same for every row.
            between: called between the two, for example to mark the place.
        """
        self.parameters.at_frame(frame)
        self._counters.start(len(self._last))
        self._chosen.clear()
        self._probes = self._policy.probes
        self._start.launch(self.parameters)
        between()
        self._last.fill(1)
        self._first = True
        self._launch_next(plain=False)
        if self._running is None:  # c1 was all there is
            self._predictor.results.download()

    def finish(
        self, filters: Sequence[FilterParameters], codes_out: np.ndarray, statistics: Sequence[SpeculationStatistics]
    ) -> None:
        """Complete the frame that was started; to be called after a wait.

        Args:
            filters: of each row's request.
            codes_out: integer [batch, G], written.
            statistics: counters per row, added to once the frame is complete.

        Raises:
            RowNumericError: the logits of a row allow no draw; it names row, frame and depth.
        """
        self._take()
        while self._running is not None:
            self._predictor.device.synchronise()
            self._take()
        codes_out[:] = self._predictor.results.host["codes"][:, :-1]
        self._counters.report(statistics, [self._rule_name(each) for each in filters])
        for row in statistics:
            row.add_choices(self._chosen, self._policy.probes - self._probes)

    def _take(self) -> None:
        """Read what the stream left and launch the next round if there is one to do; counting comes after that."""
        host, rounds = self._predictor.results.host, self._running
        if self._first:
            raise_first(host["first_errors"], self._rows, self.parameters.frames, np.ones_like(self._rows))
            self._first = False
        if rounds is None:
            return
        fault = rounds.first_fault(self._last)
        if fault is not None:
            row, depth, flag = fault
            raise RowNumericError(row, int(self.parameters.frames[row]), depth, flag)
        part = rounds.counts >= 0
        outcome = Outcome(self._rows[part], rounds.counts[part], host["accepted"][part], host["commits"][part])
        if (outcome.accepted < 0).any():
            raise NumericError(WITHOUT_MASS)
        self._policy.observe(self._last[part], self._widths, outcome)
        self._last += host["commits"]
        self._launch_next(plain=bool(outcome.guarded.any()))
        self._counters.add(outcome)

    def _launch_next(self, plain: bool) -> None:
        """Put the next round into the stream, if a row has codes to come."""
        unfinished = self._last[self._last < self._predictor.groups - 1]
        self._running = None
        if not len(unfinished):
            return
        self._widths = () if plain else self._policy.choose(unfinished)
        self._chosen[self._widths] += 1
        # A finished row stands at G - 1, for which this gives -1: no part.
        counts = np.minimum(len(self._widths), self._predictor.groups - 2 - self._last)
        self._running = self._rounds[self._widths[: int(counts.max())]]
        self._running.plan(self._last, counts, self.parameters)
        self._running.launch()

    def _rule_name(self, filters: FilterParameters) -> str | None:
        if not self._speculative:
            return None
        return GREEDY if filters.greedy else self._rule.name


def cut_short(choices: Iterable[Widths]) -> list[Widths]:
    """Everything that a round may draft where ``choices`` may be chosen: a frame's end cuts them short."""
    found = {widths[:depth] for widths in choices for depth in range(len(widths) + 1)}
    return sorted({(), *found}, key=lambda widths: (len(widths), widths))
