"""Rounds over trees of drafts on a device (see ``speculation.tree``); one graph per widths.

    score the context row | candidates | build the pass's input | the pass | score | walk and commit | move KV rows

The nodes of a depth share its candidates, wherever they hang: a plan says which of them each node holds.
"""

from __future__ import annotations

import numpy as np

from cpspec_trt.devices.packed import Contents
from cpspec_trt.kernels.device_arrays import DeviceNoise, DeviceTrees
from cpspec_trt.kernels.device_operations import BoundOperation
from cpspec_trt.speculation.policy import Widths
from cpspec_trt.speculation.rules import Rule
from cpspec_trt.speculation.tree import TreeLayout
from cpspec_trt.stages.device_code_predictor import DeviceCodePredictor
from cpspec_trt.stages.device_plans import INT64, filters_of
from cpspec_trt.stages.device_verify import ABSENT, VerifyRound


class DeviceTreeRound(VerifyRound):
    """Rounds whose drafts form a tree with ``widths[d]`` children of every node at depth d."""

    def __init__(self, predictor: DeviceCodePredictor, widths: Widths, rule: Rule, of_logits: bool = False) -> None:
        """Capture it.

        Args:
            predictor: the CodePredictor.
            widths: of at least one depth.
            rule: one whose codes follow the seed.
            of_logits: as for ``VerifyRound``.
        """
        self._layout = TreeLayout.of(widths)
        device, batch, most = predictor.device, predictor.batch, max(widths)
        nodes, slots = len(self._layout.depths), batch * len(widths)
        also: Contents = {
            "nodes": ((batch,), INT64),
            "parents": ((batch * nodes,), INT64),
            "places": ((batch * nodes,), INT64),
            "first": ((batch,), INT64),
            "widths": ((slots,), INT64),
        }
        # A candidate's place among those of its sequence: depth after depth, the best first.
        self._places = np.where(self._layout.depths > 0, (self._layout.depths - 1) * most + self._layout.ranks, ABSENT)
        self._wanted = np.array(widths)
        self._candidates = device.array((slots, most), INT64)
        self._sources = device.array((batch, len(widths) + 1), INT64)
        self._lengths = device.uploaded(np.full(batch, len(widths) + 1))
        super().__init__(predictor, rule, self._layout.depths.tolist(), also, of_logits)
        self.planned.plan.host["widths"][:] = 1  # of slots left over, too
        self._capture()

    def _place(self, row: int, m: int, count: int, drafted: int, scored: int) -> None:
        self.planned.place_tree(row, m + 1, self._layout)
        host, nodes = self.planned.plan.host, self._sizes[count]
        own, places = slice(scored, scored + nodes), self._places[:nodes]
        host["nodes"][row], host["first"][row] = nodes, m + 1
        host["parents"][own] = self._layout.parents[:nodes]
        host["places"][own] = np.where(places < 0, ABSENT, places + drafted * self._candidates.shape[1])
        host["widths"][drafted : drafted + count] = self._wanted[:count]

    def _before_the_pass(self) -> list[BoundOperation]:
        predictor, slots, on = self._predictor, self.slots, self.planned.plan.device
        draft = predictor.draft.leading(slots, predictor.codebook)
        score = self._kernels.score(
            predictor.heads,
            self._draft_rows,
            filters_of(on, "draft"),
            predictor.draft_logits.leading(slots, predictor.codebook),
            draft,
            predictor.results.device["draft_errors"].leading(slots),
        )
        noise = DeviceNoise(on["draft_seeds"], on["draft_streams"], on["draft_frames"])
        candidates = self._kernels.draw_candidates(draft, on["widths"], noise, self._candidates)
        feed = self._kernels.build_tree_input(predictor.state, self._trees(), predictor.tables, self.planned.embeds)
        return [score, candidates, feed]

    def _after_the_pass(self) -> list[BoundOperation]:
        predictor, on, out = self._predictor, self.planned.plan.device, self._predictor.results.device
        commit = self._kernels.accept_commit_tree(
            self._target,
            self._trees(),
            on["seeds"],
            on["frames"],
            self.planned.hidden,
            on["first_hidden"],
            predictor.state,
            on["first"],
            out["accepted"],
            out["commits"],
            self._sources,
            self._tolerances,
            self._margins,
        )
        move = self._kernels.copy_accepted_rows(
            predictor.cache.described, on["rows"], self._lengths, on["first"], self._sources
        )
        return [*self._scored(), commit, move]

    def _trees(self) -> DeviceTrees:
        on = self.planned.plan.device
        return DeviceTrees(on["rows"], on["nodes"], on["parents"], self._candidates, on["places"])
