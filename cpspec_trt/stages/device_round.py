"""Rounds over chains of drafts on a device (see ``speculation.round``); one graph per number of drafts."""

from __future__ import annotations

from cpspec_trt.kernels.device_arrays import DeviceDrafts, DeviceNoise
from cpspec_trt.kernels.device_operations import BoundOperation
from cpspec_trt.speculation.rules import Rule
from cpspec_trt.stages.device_code_predictor import DeviceCodePredictor
from cpspec_trt.stages.device_plans import filters_of
from cpspec_trt.stages.device_verify import VerifyRound


class DeviceRound(VerifyRound):
    """Rounds of at most ``drafts`` drafts per sequence; 0 are plain steps."""

    def __init__(self, predictor: DeviceCodePredictor, drafts: int, rule: Rule, of_logits: bool = False) -> None:
        """Capture it.

        Args:
            predictor: the CodePredictor.
            drafts: n.
            rule: as for ``VerifyRound``.
            of_logits: as for ``VerifyRound``.
        """
        super().__init__(predictor, rule, range(drafts + 1), {}, of_logits)
        self._capture()

    def _place(self, row: int, m: int, count: int, drafted: int, scored: int) -> None:
        self.planned.place(row, m + 1)

    def _before_the_pass(self) -> list[BoundOperation]:
        predictor, slots, on = self._predictor, self.slots, self.planned.plan.device
        feed = self._kernels.build_verify_input(
            predictor.state, self._drafts_of(), predictor.tables, self.planned.embeds
        )
        if not slots:
            return [feed]
        draft = self._kernels.draft(
            predictor.heads,
            self._draft_rows,
            filters_of(on, "draft"),
            DeviceNoise(on["draft_seeds"], on["draft_streams"], on["draft_frames"]),
            predictor.draft_logits.leading(slots, predictor.codebook),
            predictor.draft.leading(slots, predictor.codebook),
            predictor.drafts.leading(slots),
            predictor.results.device["draft_errors"].leading(slots),
        )
        return [draft, feed]

    def _after_the_pass(self) -> list[BoundOperation]:
        predictor, on, out = self._predictor, self.planned.plan.device, self._predictor.results.device
        commit = self._kernels.accept_commit(
            self._target,
            predictor.draft.leading(self.slots, predictor.codebook),
            self._drafts_of(),
            on["seeds"],
            on["frames"],
            self.planned.hidden,
            on["first_hidden"],
            predictor.state,
            out["accepted"],
            out["commits"],
            self._rule.acceptance,
            self._tolerances,
            self._margins,
        )
        return [*self._scored(), commit]

    def _drafts_of(self) -> DeviceDrafts:
        on = self.planned.plan.device
        return DeviceDrafts(on["rows"], on["counts"], self._predictor.drafts.leading(self.slots))
