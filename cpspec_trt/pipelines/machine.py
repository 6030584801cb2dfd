"""What speaks: the face that host and device implementations share, between the pipeline and the stages.

The pipeline knows requests, frames and when to stop. A machine knows where arrays lie and what waits for what: on
the CPU every call is done when it returns; on a device the next frame is under way before this one is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cpspec_trt.devices.device import DeviceWork
from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.pipelines.times import StageTimes
from cpspec_trt.sampling.effective import EffectiveSampling
from cpspec_trt.speculation.adaptive import AdaptivePolicy, chains, trees
from cpspec_trt.speculation.policy import FixedPolicy, Policy, Widths
from cpspec_trt.speculation.rules import Rule
from cpspec_trt.speculation.statistics import SpeculationStatistics
from cpspec_trt.stages.row_probe import RowProbe
from cpspec_trt.text.layout import PromptLayout


@dataclass(frozen=True, slots=True)
class SpeechRules:
    """What the two families do differently.

    Attributes:
        tts_pad_token_id: text id that joins every frame after the text.
        min_new_tokens: Talker tokens for which EOS is banned.
    """

    tts_pad_token_id: int
    min_new_tokens: int


@dataclass(frozen=True, slots=True)
class FramePlan:
    """How the CodePredictor completes frames.

    Attributes:
        window: rows of a verify pass; 0 decodes autoregressively.
        rule: how sampled drafts are accepted.
        tolerance: gap of two logits below which a pass of several rows decides nothing.
        widths: candidates per drafted depth, where drafts form trees.
        costs: what passes take, where window and widths are chosen round by round.
    """

    window: int
    rule: Rule
    tolerance: float
    widths: Widths | None = None
    costs: PassCosts | None = None

    def policy(self, groups: int, max_tree_rows: int) -> Policy:
        """What chooses the drafts of each round.

        Args:
            groups: G.
            max_tree_rows: as ``SpeechMachine.max_tree_rows``.
        """
        if self.costs is None:
            return FixedPolicy((1,) * max(self.window - 1, 0) if self.widths is None else self.widths)
        wide = trees(self.window, max_tree_rows) if self.rule.codes_follow_seed else []
        return AdaptivePolicy(groups, [*chains(self.window), *wide], self.costs)


class Vocoder(Protocol):
    """code2wav: codes of one sequence to samples, chunk by chunk."""

    @property
    def sample_rate(self) -> int:
        """Hz."""

    def reset(self) -> None:
        """Start a new sequence."""

    def decode(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        """The next frames (integer [frames, G]) to samples, float32, ``chunk`` frames at a time."""


class SpeechMachine(Protocol):
    """Speaks one request at a time: ``begin``, then per frame ``first_code``, ``finish_frame`` and ``advance``.

    Attributes:
        groups: G, code groups of a frame.
        codebook: codes of one group.
        max_rows: rows that a verify pass may have.
        max_tree_rows: rows of the largest tree that is chosen round by round.
        sample_rate: Hz; None where there is no code2wav.
    """

    @property
    def groups(self) -> int: ...

    @property
    def codebook(self) -> int: ...

    @property
    def max_rows(self) -> int: ...

    @property
    def max_tree_rows(self) -> int: ...

    @property
    def sample_rate(self) -> int | None: ...

    def probe(self, window: int) -> RowProbe:
        """Compare passes of up to ``window`` rows with single steps. Not while a request runs."""

    def probe_trees(self, choices: Sequence[Widths]) -> RowProbe:
        """Compare passes of the trees that may be chosen with single steps. Not while a request runs."""

    def measure_costs(self) -> PassCosts:
        """Time passes of every size. Not while a request runs."""

    def prepare(self, plan: FramePlan) -> None:
        """Make ready what a plan needs, so that no request waits for it. Not while a request runs."""

    def begin(self, layout: PromptLayout, sampling: EffectiveSampling, max_frames: int, plan: FramePlan) -> None:
        """Begin a request: feed its prompt.

        Args:
            layout: the prompt.
            sampling: effective values.
            max_frames: frame cap; ``first_code`` may be asked once more, to tell whether the request had ended.
            plan: how frames are completed.

        Raises:
            EngineError: the prompt is longer than the engine takes, or an engine failed.
        """

    def first_code(self, frame: int) -> int:
        """c0 of a frame: of the prompt for frame 0, then of what ``advance`` fed.

        Raises:
            RowNumericError: nothing can be drawn from the logits.
        """

    def finish_frame(self, frame: int, codes: np.ndarray, statistics: SpeculationStatistics) -> None:
        """Complete a frame that does not end the request.

        Args:
            frame: its index.
            codes: integer [1, G], written.
            statistics: added to.

        Raises:
            RowNumericError: nothing can be drawn from a row of logits.
        """

    def advance(self, frame: int) -> None:
        """Feed the finished frame to the Talker.

        Raises:
            EngineError: the KV cache is full.
        """

    def decode(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        """A whole request's codes (integer [frames, G]) to samples, float32, ``chunk`` frames at a time.

        Raises:
            NumericError: a sample is not finite.
        """

    def take_times(self) -> StageTimes:
        """Time spent per stage since this was last asked."""

    def take_work(self) -> DeviceWork | None:
        """What a device did since this was last asked; None on the CPU."""
