"""What rounds over chains and over trees share on a device: the plan of a draft/verify/accept transaction, as a graph.

A graph has a fixed size, a ragged batch has not: every sequence has its place in a graph, and one that has less to do
than the largest leaves rows over. Those are planned as absent (a row, head or sequence of -1), which kernels skip.

Verified rows of a sequence lie by depth, the last committed code's first, so that fewer drafts are fewer rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from cpspec_trt.devices.arrays import DeviceArray
from cpspec_trt.devices.packed import Contents
from cpspec_trt.kernels.device import DeviceKernels
from cpspec_trt.kernels.device_arrays import DeviceHeadRows
from cpspec_trt.kernels.device_operations import BoundOperation
from cpspec_trt.kernels.philox import stream
from cpspec_trt.speculation.rules import Rule
from cpspec_trt.stages.device_code_predictor import DeviceCodePredictor
from cpspec_trt.stages.device_plans import (
    FILTERS,
    FLOAT32,
    INT32,
    INT64,
    UINT32,
    UINT64,
    RowParameters,
    captured,
    filter_contents,
    filters_of,
    head_contents,
    noise_contents,
    sequence_contents,
)

ABSENT = -1


class VerifyRound(ABC):
    """Rounds of at most ``drafts`` drafted depths per sequence.

    Attributes:
        planned: the verify pass.
        counts: int64 [batch], drafted depths of each row in the round planned last; -1 where it has no part.
        slots, verified: drafted depths and verified rows of the graph, those left over included.
    """

    def __init__(
        self,
        predictor: DeviceCodePredictor,
        rule: Rule,
        depths: Sequence[int],
        also: Contents,
        of_logits: bool,
    ) -> None:
        """Allocate the plan; the subclass binds its operations and then calls ``_capture``.

        Args:
            predictor: the CodePredictor.
            rule: says which noise drafts are drawn with, and how they are accepted.
            depths: of every verified row of a sequence below its last committed code, rising from 0.
            also: what else of the plan depends on the depth.
            of_logits: guard by the gap of logits, which greedy rows need; a plain step has no need of it.
        """
        self._predictor, self._rule = predictor, rule
        self._depths, self._drafts = np.asarray(depths), int(depths[-1])
        self._sizes = np.searchsorted(self._depths, np.arange(self._drafts + 1), side="right").tolist()  # by drafts
        batch, rows = predictor.batch, len(depths)
        self.slots, self.verified = batch * self._drafts, batch * rows
        plan: Contents = {
            # In a batch of one this depends on the depth alone …
            **head_contents("draft", self.slots),
            "draft_streams": ((self.slots,), UINT32),
            **head_contents("target", self.verified),
            **sequence_contents(batch),
            **also,
            # … and this does not.
            **filter_contents("draft", self.slots),
            **filter_contents("target", self.verified),
            "draft_seeds": ((self.slots,), UINT64),
            "draft_frames": ((self.slots,), UINT32),
            **noise_contents(batch),
            "tolerances": ((batch,), FLOAT32),
        }
        self.planned = predictor.planned_pass(rows, plan)
        self._by_depth = self.planned.plan.host_bytes_before("draft_temperature")
        self._images: dict[int, np.ndarray] = {}  # of those bytes, by the index of the last committed code
        self._stamp: tuple[RowParameters, int] | None = None  # whose values the others hold
        self.counts = np.zeros(batch, np.int64)
        last, offset = np.arange(predictor.groups)[:, None], np.arange(self._drafts)
        self._streams = stream(rule.draft_noise, last + 1 + offset, last + 0 * offset)
        self._heads = np.arange(predictor.groups + self._drafts)
        self._margins: DeviceArray | None = None
        if of_logits and self._drafts:
            self._margins = predictor.device.array((self.verified,), FLOAT32)

    def plan(self, last: np.ndarray, counts: np.ndarray, parameters: RowParameters) -> None:
        """Plan a round. The stream must not need the last plan any more.

        Args:
            last: int64 [batch], index m of each row's last committed code.
            counts: int64 [batch], drafted depths of each row, at most the graph's; -1 for a row that has no part.
            parameters: of the draws.
        """
        self.counts[:] = counts
        if len(counts) > 1 or counts[0] != self._drafts:
            self._plan_rows(last, counts, parameters)
            return
        m, stamp = int(last[0]), (parameters, parameters.version)
        image = self._images.get(m)
        if image is None or stamp != self._stamp:
            self._plan_rows(last, counts, parameters)
            self._images[m], self._stamp = self._by_depth.copy(), stamp
        else:
            self._by_depth[:] = image

    def launch(self) -> None:
        """Run the planned round; the predictor's results may be read after the next wait."""
        self._graph.launch()

    def first_fault(self, last: np.ndarray) -> tuple[int, int, int] | None:
        """Row, RVQ depth and flag of the first row of logits that was flagged in the round planned last.

        Rows left over are flagged too, and mean nothing.

        Args:
            last: int64 [batch], as it was planned with.
        """
        host = self._predictor.results.host
        if not (host["draft_errors"][: self.slots].any() or host["target_errors"][: self.verified].any()):
            return None
        drafted = scored = 0
        for row, (m, count) in enumerate(zip(last.tolist(), self.counts.tolist(), strict=True)):
            rows = self._sizes[max(count, 0)]
            if count >= 0:
                flags = host["draft_errors"][drafted : drafted + count], host["target_errors"][scored : scored + rows]
                for found, depths in zip(flags, (np.arange(count), self._depths), strict=True):
                    if found.any():
                        at = int(np.flatnonzero(found)[0])
                        return row, m + 1 + int(depths[at]), int(found[at])
                drafted += count
            scored += rows
        return None

    @abstractmethod
    def _place(self, row: int, m: int, count: int, drafted: int, scored: int) -> None:
        """Plan where a sequence's rows stand, and the contents that are the subclass's own.

        Args:
            row: of the batch.
            m: index of the last committed code.
            count: drafted depths.
            drafted, scored: where its slots and verified rows begin among those of all sequences.
        """

    @abstractmethod
    def _before_the_pass(self) -> list[BoundOperation]:
        """Draft, and what the pass is fed."""

    @abstractmethod
    def _after_the_pass(self) -> list[BoundOperation]:
        """Score and commit what is accepted."""

    def _capture(self) -> None:
        self._operations = self._before_the_pass(), self._after_the_pass()
        batch = self._predictor.batch
        self.plan(np.zeros(batch, np.int64), np.full(batch, ABSENT), RowParameters(batch))
        self._graph = captured(self._predictor.device, self._enqueue)

    def _plan_rows(self, last: np.ndarray, counts: np.ndarray, parameters: RowParameters) -> None:
        host, width = self.planned.plan.host, len(self._depths)
        drafted = scored = 0
        for row, (m, count) in enumerate(zip(last.tolist(), counts.tolist(), strict=True)):
            host["rows"][row] = row if count >= 0 else ABSENT
            host["counts"][row] = max(count, 0)
            host["first_hidden"][row] = row * width
            host["seeds"][row], host["frames"][row] = parameters.seeds[row], parameters.frames[row]
            host["tolerances"][row] = parameters.tolerances[row]
            rows = self._sizes[max(count, 0)]
            self._place(row, m, max(count, 0), drafted, scored)
            if count < 0:  # its one row, which acceptance counts with
                host["target_heads"][scored] = ABSENT
            else:
                self._plan_drafts(slice(drafted, drafted + count), row, m, parameters)
                self._plan_targets(slice(scored, scored + rows), row, m, parameters)
                drafted += count
            scored += rows
        host["draft_heads"][drafted:] = ABSENT
        host["target_heads"][scored:] = ABSENT

    def _plan_drafts(self, slots: slice, row: int, m: int, parameters: RowParameters) -> None:
        host, count = self.planned.plan.host, slots.stop - slots.start
        host["draft_hidden"][slots] = row
        host["draft_heads"][slots] = self._heads[m : m + count]
        host["draft_streams"][slots] = self._streams[m, :count]
        host["draft_seeds"][slots], host["draft_frames"][slots] = parameters.seeds[row], parameters.frames[row]
        for name in FILTERS:
            host[f"draft_{name}"][slots] = getattr(parameters, name)[row]

    def _plan_targets(self, rows: slice, row: int, m: int, parameters: RowParameters) -> None:
        host, count = self.planned.plan.host, rows.stop - rows.start
        begin = row * len(self._depths)
        host["target_hidden"][rows] = np.arange(begin, begin + count)
        host["target_heads"][rows] = m + self._depths[:count]
        for name in FILTERS:
            host[f"target_{name}"][rows] = getattr(parameters, name)[row]

    @property
    def _kernels(self) -> DeviceKernels:
        return self._predictor.kernels

    @property
    def _target(self) -> DeviceArray:
        return self._predictor.target.leading(self.verified, self._predictor.codebook)

    @property
    def _draft_rows(self) -> DeviceHeadRows:
        on = self.planned.plan.device
        return DeviceHeadRows(self._predictor.state.context, on["draft_hidden"], on["draft_heads"])

    def _scored(self) -> list[BoundOperation]:
        """Score the verified rows, and measure their margins where they guard."""
        predictor, on = self._predictor, self.planned.plan.device
        logits = predictor.target_logits.leading(self.verified, predictor.codebook)
        score = self._kernels.score(
            predictor.heads,
            DeviceHeadRows(self.planned.hidden, on["target_hidden"], on["target_heads"]),
            filters_of(on, "target"),
            logits,
            self._target,
            predictor.results.device["target_errors"].leading(self.verified),
        )
        if self._margins is None:
            return [score]
        device, rows = predictor.device, (self.verified,)
        codes, errors = device.array(rows, INT64), device.array(rows, INT32)
        return [score, self._kernels.margins(logits, codes, errors, self._margins)]

    @property
    def _tolerances(self) -> DeviceArray | None:
        """What guards; a plain step is never guarded."""
        return self.planned.plan.device["tolerances"] if self._drafts else None

    def _enqueue(self) -> None:
        before, after = self._operations
        self.planned.plan.upload()
        for operation in before:
            operation.enqueue()
        self.planned.bound.run()
        for operation in after:
            operation.enqueue()
        self._predictor.results.download()
