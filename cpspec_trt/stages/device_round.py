"""One draft/verify/accept transaction on a device, as one graph per number of drafts (see ``speculation.round``).

A graph has a fixed size, a ragged batch has not: every sequence has its place in a graph, and one that has less to do
than the largest leaves rows over. Those are planned as absent (a row, head or sequence of -1), which kernels skip.
"""

from __future__ import annotations

import numpy as np

from cpspec_trt.devices.arrays import DeviceArray
from cpspec_trt.devices.packed import Contents
from cpspec_trt.kernels.device import BoundOperation
from cpspec_trt.kernels.device_arrays import DeviceDrafts, DeviceHeadRows, DeviceNoise
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
    Guard,
    RowParameters,
    captured,
    filter_contents,
    filters_of,
    head_contents,
    noise_contents,
    sequence_contents,
)

_ABSENT = -1


class DeviceRound:
    """Rounds of at most ``drafts`` drafts per sequence.

    Attributes:
        planned: the verify pass, of drafts + 1 rows per sequence.
        counts: int64 [batch], drafts of each row in the round planned last; -1 where it has no part.
        slots, verified: drafts and verified rows of the graph, those left over included.
    """

    def __init__(self, predictor: DeviceCodePredictor, drafts: int, rule: Rule, guard: Guard | None = None) -> None:
        """Capture it.

        Args:
            predictor: the CodePredictor.
            drafts: n.
            rule: says which noise drafts are drawn with, and how they are accepted.
            guard: when a code is left to a plain step; a plain step has no need of it.
        """
        self._predictor, self._drafts = predictor, drafts
        self._rule, self._guard = rule, guard if drafts else None
        batch = predictor.batch
        self.slots, self.verified = batch * drafts, batch * (drafts + 1)
        plan: Contents = {
            # In a batch of one this depends on the depth alone …
            **head_contents("draft", self.slots),
            "draft_streams": ((self.slots,), UINT32),
            **head_contents("target", self.verified),
            **sequence_contents(batch),
            # … and this does not.
            **filter_contents("draft", self.slots),
            **filter_contents("target", self.verified),
            "draft_seeds": ((self.slots,), UINT64),
            "draft_frames": ((self.slots,), UINT32),
            **noise_contents(batch),
        }
        self.planned = predictor.planned_pass(drafts + 1, plan)
        self._by_depth = self.planned.plan.host_bytes_before("draft_temperature")
        self._images: dict[int, np.ndarray] = {}  # of those bytes, by the index of the last committed code
        self._stamp: tuple[RowParameters, int] | None = None  # whose values the others hold
        self.counts = np.zeros(batch, np.int64)
        last, offset = np.arange(predictor.groups)[:, None], np.arange(drafts)
        self._streams = stream(rule.draft_noise, last + 1 + offset, last + 0 * offset)
        self._heads = np.arange(predictor.groups + drafts)
        self._hidden_rows = np.arange(self.verified)
        self._operations = self._before_the_pass(), self._after_the_pass()
        self.plan(np.zeros(batch, np.int64), np.full(batch, _ABSENT), RowParameters(batch))
        self._graph = captured(predictor.device, self._enqueue)

    def plan(self, last: np.ndarray, counts: np.ndarray, parameters: RowParameters) -> None:
        """Plan a round. The stream must not need the last plan any more.

        Args:
            last: int64 [batch], index m of each row's last committed code.
            counts: int64 [batch], drafts of each row, at most n; -1 for a row that has no part in the round.
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

    def _plan_rows(self, last: np.ndarray, counts: np.ndarray, parameters: RowParameters) -> None:
        host, width = self.planned.plan.host, self._drafts + 1
        drafted = scored = 0
        for row, (m, count) in enumerate(zip(last.tolist(), counts.tolist(), strict=True)):
            self.planned.place(row, m + 1)
            host["rows"][row] = row if count >= 0 else _ABSENT
            host["counts"][row] = max(count, 0)
            host["first_hidden"][row] = row * width
            host["seeds"][row], host["frames"][row] = parameters.seeds[row], parameters.frames[row]
            if count < 0:  # its one row, which acceptance counts with
                host["target_heads"][scored] = _ABSENT
                scored += 1
                continue
            self._plan_drafts(slice(drafted, drafted + count), row, m, parameters)
            self._plan_targets(slice(scored, scored + count + 1), row, m, parameters)
            drafted, scored = drafted + count, scored + count + 1
        host["draft_heads"][drafted:] = _ABSENT
        host["target_heads"][scored:] = _ABSENT

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
        begin = row * (self._drafts + 1)
        host["target_hidden"][rows] = self._hidden_rows[begin : begin + count]
        host["target_heads"][rows] = self._heads[m : m + count]
        for name in FILTERS:
            host[f"target_{name}"][rows] = getattr(parameters, name)[row]

    def _before_the_pass(self) -> list[BoundOperation]:
        """Draft, and what the pass is fed."""
        predictor, slots = self._predictor, self.slots
        on, out = self.planned.plan.device, predictor.results.device
        feed = predictor.kernels.build_verify_input(
            predictor.state, self._drafts_of(), predictor.tables, self.planned.embeds
        )
        if not slots:
            return [feed]
        draft = predictor.kernels.draft(
            predictor.heads,
            DeviceHeadRows(predictor.state.context, on["draft_hidden"], on["draft_heads"]),
            filters_of(on, "draft"),
            DeviceNoise(on["draft_seeds"], on["draft_streams"], on["draft_frames"]),
            predictor.draft_logits.leading(slots, predictor.codebook),
            predictor.draft.leading(slots, predictor.codebook),
            predictor.drafts.leading(slots),
            out["draft_errors"].leading(slots),
        )
        return [draft, feed]

    def _after_the_pass(self) -> list[BoundOperation]:
        """Score, measure margins where they guard, and commit what is accepted."""
        predictor, hidden = self._predictor, self.planned.hidden
        on, out = self.planned.plan.device, predictor.results.device
        shape = (self.verified, predictor.codebook)
        target, logits = predictor.target.leading(*shape), predictor.target_logits.leading(*shape)
        score = predictor.kernels.score(
            predictor.heads,
            DeviceHeadRows(hidden, on["target_hidden"], on["target_heads"]),
            filters_of(on, "target"),
            logits,
            target,
            out["target_errors"].leading(self.verified),
        )
        gaps, margins = self._margins(logits)
        commit = predictor.kernels.accept_commit(
            target,
            predictor.draft.leading(self.slots, predictor.codebook),
            self._drafts_of(),
            on["seeds"],
            on["frames"],
            hidden,
            on["first_hidden"],
            predictor.state,
            out["accepted"],
            out["commits"],
            self._rule.acceptance,
            self._guard.tolerance if self._guard is not None else 0.0,
            margins,
        )
        return [score, *gaps, commit]

    def _margins(self, logits: DeviceArray) -> tuple[list[BoundOperation], DeviceArray | None]:
        """What measures the gaps of the verified rows' logits, and where it writes them; nothing if no one asks."""
        if self._guard is None or not self._guard.of_logits:
            return [], None
        device, rows = self._predictor.device, self.verified
        margins = device.array((rows,), FLOAT32)
        codes, errors = device.array((rows,), INT64), device.array((rows,), INT32)
        return [self._predictor.kernels.margins(logits, codes, errors, margins)], margins

    def _drafts_of(self) -> DeviceDrafts:
        on = self.planned.plan.device
        return DeviceDrafts(on["rows"], on["counts"], self._predictor.drafts.leading(self.slots))

    def _enqueue(self) -> None:
        before, after = self._operations
        self.planned.plan.upload()
        for operation in before:
            operation.enqueue()
        self.planned.bound.run()
        for operation in after:
            operation.enqueue()
        self._predictor.results.download()
