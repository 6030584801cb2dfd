"""A frame: c1 from the prefill row, then rounds until every row holds all its codes.

The autoregressive frame is the same loop with nothing drafted. Both go through the same heads, filter and draw,
so where the predictor's rows are the same bits, greedy codes are the same codes with and without speculation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from cpspec_trt.errors import EngineError, UsageError
from cpspec_trt.kernels.protocol import F32, I64, FilterParameters
from cpspec_trt.kernels.rules_protocol import RuleKernels
from cpspec_trt.speculation.counters import FrameCounters
from cpspec_trt.speculation.drafting import MAX_WINDOW, MIN_WINDOW
from cpspec_trt.speculation.policy import FixedPolicy, Policy, Widths, is_chain
from cpspec_trt.speculation.predictor import Predictor
from cpspec_trt.speculation.round import FrameState, RoundRunner
from cpspec_trt.speculation.rules import DEFAULT_RULE, GREEDY, RULES, Rule
from cpspec_trt.speculation.slots import RowSampling
from cpspec_trt.speculation.statistics import SpeculationStatistics
from cpspec_trt.speculation.tree import TreeRunner, tree_rows

MAX_GROUPS = 256  # a stream word gives m and the depth eight bits each


class FrameDecoder:
    """Completes frames with the CodePredictor, autoregressively or by drafting from its own heads."""

    def __init__(
        self,
        kernels: RuleKernels,
        predictor: Predictor,
        heads: F32,
        window: int,
        max_batch: int = 1,
        rule: Rule = RULES[DEFAULT_RULE],
        tolerance: float = 0.0,
        policy: Policy | None = None,
    ) -> None:
        """Bind every buffer for the largest batch.

        Args:
            kernels: the operations.
            predictor: the CodePredictor's body.
            heads: float32 [G-1, V, H]; head s predicts c_(s+1).
            window: rows of a verify pass, 2 to 8; 0 decodes autoregressively.
            max_batch: the largest batch ``decode`` will be given.
            rule: how sampled drafts are accepted; greedy rows are greedy under any.
            tolerance: gap of two logits below which a pass of several rows decides nothing (see ``round``); 0 where
                such passes have the bits of single rows.
            policy: chooses the drafts of each round, at most ``window - 1`` deep; None drafts chains of the window.

        Raises:
            UsageError: the window is neither 0 nor 2 to 8, or trees are asked for under a rule without them.
            EngineError: the heads do not fit the predictor.
        """
        if window != 0 and not MIN_WINDOW <= window <= MAX_WINDOW:
            raise UsageError(f"the verify window must be 0 or {MIN_WINDOW} to {MAX_WINDOW}, not {window}")
        expected = (predictor.groups - 1, predictor.codebook, predictor.hidden_size)
        if heads.shape != expected or not 2 <= predictor.groups <= MAX_GROUPS:
            raise EngineError(
                f"CodePredictor heads have shape {heads.shape}, the engine needs {expected} "
                f"with 2 to {MAX_GROUPS} code groups; use the lm_heads of the same export"
            )
        self._predictor = predictor
        self._speculative = window > 0
        self._rule = rule
        max_drafts = max(window - 1, 0)
        self._policy = policy or FixedPolicy((1,) * max_drafts)
        contiguous = np.ascontiguousarray(heads, np.float32)
        self._rounds = RoundRunner(kernels, predictor, contiguous, max_drafts, max_batch, rule, tolerance)
        self._trees: TreeRunner | None = None
        trees = [widths for widths in self._policy.largest if not is_chain(widths)]
        if trees and not rule.codes_follow_seed:
            raise UsageError(f"drafts form trees under the rule coupled alone, not under {rule.name}")
        if trees:
            sizes = max(map(max, trees)), max(map(tree_rows, trees))
            self._trees = TreeRunner(kernels, predictor, contiguous, max_drafts, *sizes, max_batch, tolerance)
        self._codes = np.empty((max_batch, predictor.groups), np.int64)
        self._last = np.empty(max_batch, np.int64)
        self._first = np.empty((max_batch, predictor.hidden_size), np.float32)
        self._context = np.empty((max_batch, predictor.hidden_size), np.float32)
        self._chosen: Counter[Widths] = Counter()
        self._counters = FrameCounters(max_batch, max_drafts)

    def decode(
        self,
        talker_hidden: F32,
        first_codes: I64,
        seeds: np.ndarray,
        frames: np.ndarray,
        filters: Sequence[FilterParameters],
        codes_out: np.ndarray,
        statistics: Sequence[SpeculationStatistics],
    ) -> None:
        """Complete one frame per row.

        Args:
            talker_hidden: float32 [B, T], the Talker's row that produced c0.
            first_codes: int64 [B], c0.
            seeds: uint64 [B], effective seed of each row's request.
            frames: integer [B], index of the frame within its request.
            filters: validated filter parameters per row.
            codes_out: integer [B, G], written.
            statistics: counters per row, added to once the frame is complete.

        Raises:
            RowNumericError: the logits of a row allow no draw; it names row, frame and depth, and its
                ``of_request`` names the request. ``codes_out`` and ``statistics`` are untouched then.
        """
        batch = len(first_codes)
        state = FrameState(
            self._codes[:batch], self._last[:batch], self._context[:batch], RowSampling.pack(filters, seeds, frames)
        )
        state.codes[:, 0] = first_codes
        state.last.fill(0)
        self._first[:batch] = self._predictor.start_frame(talker_hidden, first_codes)
        self._rounds.decide_first(state, self._first[:batch])
        self._counters.start(batch)
        probes = self._policy.probes
        self._run_rounds(state)
        codes_out[:] = state.codes
        names = [self._rule_name(each) for each in filters]
        self._counters.report(statistics, names)
        for each in statistics:
            each.add_choices(self._chosen, self._policy.probes - probes)

    def reset(self) -> None:
        """Begin a request: a policy that learns forgets what it learned from another."""
        self._policy.reset()

    def _run_rounds(self, state: FrameState) -> None:
        plain = False
        self._chosen.clear()
        while not state.finished:
            last = state.last[state.last < state.codes.shape[1] - 1]
            widths = () if plain else self._policy.choose(last)
            self._chosen[widths] += 1
            if self._trees is None or is_chain(widths):
                outcome = self._rounds.run(state, len(widths))
            else:
                outcome = self._trees.run(state, widths)
            self._counters.add(outcome)
            self._policy.observe(last, widths, outcome)
            plain = bool(outcome.guarded.any())

    def _rule_name(self, filters: FilterParameters) -> str | None:
        if not self._speculative:
            return None
        return GREEDY if filters.greedy else self._rule.name
