"""Speech of both families: one prompt through Talker, CodePredictor and code2wav.

Frame t: c0 is drawn from the Talker's logits, the CodePredictor completes the frame, and the sum of the
16 code embeddings plus one text row is the Talker's next input. Where that happens is the machine's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cpspec_trt.devices.device import DeviceWork
from cpspec_trt.errors import EngineError, RequestError
from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.files.results import FinishReason
from cpspec_trt.kernels.faults import RowNumericError
from cpspec_trt.kernels.rules_protocol import RuleKernels
from cpspec_trt.pipelines.engine_set import SpeechEngines
from cpspec_trt.pipelines.events import Listener
from cpspec_trt.pipelines.machine import FramePlan, SpeechRules
from cpspec_trt.pipelines.machines import DECODE_CHUNK, open_machine
from cpspec_trt.pipelines.times import StageTimes
from cpspec_trt.sampling.effective import EffectiveSampling
from cpspec_trt.speculation.adaptive import trees
from cpspec_trt.speculation.drafting import Drafting
from cpspec_trt.speculation.fallback import resolve
from cpspec_trt.speculation.policy import Widths
from cpspec_trt.speculation.rules import RULES
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus
from cpspec_trt.stages.row_probe import RowProbe
from cpspec_trt.text.layout import PromptLayout


@dataclass(frozen=True, slots=True)
class SpeechJob:
    """A checked request, ready to run.

    Attributes:
        name: how messages call it, for example ``request 3``.
        layout: the prompt.
        sampling: effective values; ``max_frames`` there may exceed the cap below.
        max_frames: frame cap, within the engine's KV capacity.
        warnings: what the caller should be told, one line each.
    """

    name: str
    layout: PromptLayout
    sampling: EffectiveSampling
    max_frames: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpokenCodes:
    """What the Talker and the CodePredictor made of a request.

    Attributes:
        codes: int32 [frames, groups].
        finish_reason: ``stop`` at EOS, ``length`` at the frame cap.
        speculation: counters.
        times: time spent per stage.
        work: what a device did for it; None on the CPU.
    """

    codes: np.ndarray
    finish_reason: FinishReason
    speculation: SpeculationStatistics
    times: StageTimes
    work: DeviceWork | None


class SpeechPipeline:
    """Runs requests one after the other over one set of engines. Not for use by two threads at once."""

    def __init__(self, engines: SpeechEngines, rules: SpeechRules, kernels: RuleKernels | None = None) -> None:
        """Open the machine; arguments as for ``open_machine``."""
        self._config = engines.configs.talker
        self._device = engines.device
        self._probes: dict[int | tuple[Widths, ...], RowProbe] = {}
        self._costs: PassCosts | None = None
        try:
            self._machine = open_machine(engines, rules, kernels)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give back what the engines hold on a device; the pipeline must not be used any more."""
        if self._device is not None:
            self._device.close()

    def speculation(self, drafting: Drafting, rebuild: str, costs: PassCosts | None = None) -> SpeculationStatus:
        """What a wish for speculation comes to on these engines (see ``resolve``).

        The first call for a wish probes whether its passes round like single steps, and makes ready what it needs.

        Args:
            drafting: what is asked for.
            rebuild: the command that repairs a narrow engine.
            costs: what passes take, as measured at build time; an adaptive window measures now where it is None.

        Raises:
            EngineError: a tree does not fit, or an adaptive window has no stored costs under a rule that needs them.
        """
        machine = self._machine
        status = resolve(drafting, machine.groups, machine.codebook, machine.max_rows, rebuild)
        if status.effective:
            probes = self._probes_of(status)
            tolerance = max(probe.tolerance for probe in probes)
            status = replace(status, rows_exact=all(probe.exact for probe in probes), tolerance=tolerance)
            if status.adaptive:
                self._costs = costs or self._measured(drafting)
        machine.prepare(self._frame_plan(status))
        return status

    def _probes_of(self, status: SpeculationStatus) -> list[RowProbe]:
        """Of chains, and of trees where there are any."""
        machine, window = self._machine, status.effective
        choices: tuple[Widths, ...] = () if status.widths is None else (status.widths,)
        if status.adaptive and RULES[status.rule].codes_follow_seed:
            choices = tuple(trees(window, machine.max_tree_rows))
        if window not in self._probes:
            self._probes[window] = machine.probe(window)
        if choices and choices not in self._probes:
            self._probes[choices] = machine.probe_trees(choices)
        return [self._probes[each] for each in (window, choices) if each != ()]

    def _measured(self, drafting: Drafting) -> PassCosts:
        if not drafting.rule.codes_follow_seed:
            raise EngineError(
                f"an adaptive window under the rule {drafting.rule.name} needs stored pass costs, so that the same "
                "input gives the same output; run cpspec-build --measureCosts, or use the rule coupled"
            )
        return self._costs or self._machine.measure_costs()

    def generate(self, job: SpeechJob, status: SpeculationStatus, listener: Listener) -> SpokenCodes:
        """Produce the codes of a request.

        Args:
            job: the request.
            status: of ``speculation``.
            listener: is told about progress.

        Raises:
            RowNumericError: the logits of a row allow no draw; names request, frame and depth.
            EngineError: an engine failed.
        """
        statistics, machine = SpeculationStatistics(status), self._machine
        machine.take_times(), machine.take_work()  # what came before
        codes = np.empty((job.max_frames, machine.groups), np.int32)
        listener.request_started(job.name, job.max_frames)
        try:
            frames, finished = self._frames(job, self._frame_plan(status), codes, statistics, listener)
        except RowNumericError as fault:
            raise fault.of_request(job.name) from None
        return SpokenCodes(codes[:frames].copy(), finished, statistics, machine.take_times(), machine.take_work())

    def decode(self, codes: np.ndarray, times: StageTimes) -> tuple[np.ndarray, int]:
        """Codes to samples.

        Args:
            codes: integer [frames, groups].
            times: the code2wav time is added here.

        Returns:
            (float32 [samples], sample rate in Hz).

        Raises:
            RequestError: the pipeline was opened without code2wav.
            NumericError: a sample is not finite.
        """
        machine, rate = self._machine, self._machine.sample_rate
        if rate is None:
            raise RequestError("the engines were opened without code2wav, so there is no audio; open them with it")
        samples = machine.decode(codes, DECODE_CHUNK)
        times.merge(machine.take_times())
        return samples, rate

    def _frames(
        self,
        job: SpeechJob,
        plan: FramePlan,
        codes: np.ndarray,
        statistics: SpeculationStatistics,
        listener: Listener,
    ) -> tuple[int, FinishReason]:
        """Fill ``codes`` frame by frame; returns the number of frames and why they ended."""
        machine, eos = self._machine, self._config.codec_eos_id
        row = np.empty((1, codes.shape[1]), np.int64)
        machine.begin(job.layout, job.sampling, job.max_frames, plan)
        for frame in range(job.max_frames):
            if machine.first_code(frame) == eos:
                return frame, "stop"
            machine.finish_frame(frame, row, statistics)
            codes[frame] = row[0]
            listener.frame_finished(frame + 1)
            machine.advance(frame)
        ended = machine.first_code(job.max_frames) == eos
        return job.max_frames, "stop" if ended else "length"

    def _frame_plan(self, status: SpeculationStatus) -> FramePlan:
        costs = self._costs if status.adaptive and status.effective else None
        widths = status.widths if status.effective else None
        return FramePlan(status.effective, RULES[status.rule], status.tolerance or 0.0, widths, costs)
