"""Acceptance of every compiled implementation against the oracle, over random rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.philox import Purpose, gumbel_of, stream, token_words
from cpspec_trt.kernels.protocol import Kernels
from tests.kernels.grid import NEAR_TIE


@dataclass(frozen=True, slots=True)
class Rounds:
    """Independent sequences with 0 to 7 drafts and laws that differ, agree, or share no support."""

    target: np.ndarray
    draft: np.ndarray
    drafts: np.ndarray
    counts: np.ndarray
    last: np.ndarray
    seeds: np.ndarray
    frames: np.ndarray

    @classmethod
    def random(cls, sequences: int, vocabulary: int, seed: int) -> Rounds:
        random = np.random.default_rng([seed, vocabulary])
        counts = random.integers(0, 8, sequences)
        slots = int(counts.sum())
        draft = random.dirichlet(np.full(vocabulary, 0.5), slots).astype(np.float32)
        target = random.dirichlet(np.full(vocabulary, 0.5), slots + sequences).astype(np.float32)
        own = np.arange(slots) + np.repeat(np.arange(sequences), counts)  # a slot's row among the verified rows
        kind = random.integers(0, 4, slots)
        target[own[kind == 0]] = draft[kind == 0]
        blend = kind == 1
        target[own[blend]] = (0.7 * draft[blend] + 0.3 * target[own[blend]]).astype(np.float32)
        cut = random.random(target.shape) < 0.3
        cut[np.arange(len(target)), target.argmax(axis=1)] = False
        cut[own[kind == 0]] = False
        target[cut] = 0
        drafts = (draft.cumsum(axis=1) < random.random(slots)[:, None] * draft.sum(axis=1, keepdims=True)).sum(axis=1)
        return cls(
            target,
            draft,
            drafts.astype(np.int64),
            counts,
            random.integers(0, 9, sequences),
            random.integers(0, 2**64, sequences, dtype=np.uint64),
            random.integers(0, 4096, sequences).astype(np.uint32),
        )

    def decide(self, kernels: Kernels) -> tuple[np.ndarray, np.ndarray]:
        accepted, codes = np.full(len(self.counts), -7), np.full(len(self.counts), -7)
        kernels.accept_rejection(
            self.target, self.draft, self.drafts, self.counts, self.last, self.seeds, self.frames, accepted, codes
        )
        return accepted, codes

    def lead(self, sequence: int, accepted: int) -> float:
        """By how much the winner of a sequence's last race leads, in float64."""
        verified = int((self.counts[:sequence] + 1).sum()) + accepted
        purpose, law = Purpose.TARGET, self.target[verified].astype(float)
        if accepted < self.counts[sequence]:
            purpose = Purpose.RESIDUAL
            law = np.maximum(law - self.draft[int(self.counts[:sequence].sum()) + accepted].astype(float), 0)
        tokens = np.flatnonzero(law)
        one = slice(sequence, sequence + 1)
        streams = stream(purpose, self.last[one] + 1 + accepted, self.last[one])
        rows = np.zeros(len(tokens), np.int64)
        words = token_words(self.seeds[one], streams, self.frames[one], rows, tokens)
        scores = np.sort(np.log(law[tokens]) + gumbel_of(words).astype(float))
        return float(scores[-1] - scores[-2])


@pytest.mark.parametrize("vocabulary", [2, 7, 40, 97])
def test_random_rounds_are_decided_as_the_oracle_decides_them(native: NativeKernels, vocabulary: int) -> None:
    sequences = 2600  # four vocabularies: 10,400 sequences
    rounds = Rounds.random(sequences, vocabulary, 0)
    want_accepted, want_codes = rounds.decide(OracleKernels())
    accepted, codes = rounds.decide(native)
    np.testing.assert_array_equal(accepted, want_accepted)
    other = np.flatnonzero(codes != want_codes)
    assert all(rounds.lead(sequence, int(accepted[sequence])) < NEAR_TIE for sequence in other)
    assert len(other) <= 2
    assert set(accepted.tolist()) == set(range(8))  # nothing stands, some stand, all stand
    assert 0.2 < (accepted < rounds.counts).mean() < 0.8


@pytest.mark.parametrize("draft", [0, 1, 2])
def test_the_worked_example_is_decided_as_the_oracle_decides_it(native: NativeKernels, draft: int) -> None:
    """p = [.5, .3, .2], q = [.4, .4, .2]; its frequencies are tested in test_draws.py."""
    count = 3000
    ones = np.ones(count, np.int64)
    target, law = (np.tile(np.array(each, np.float32), (count, 1)) for each in ([0.5, 0.3, 0.2], [0.4, 0.4, 0.2]))
    seeds = np.arange(count, dtype=np.uint64)
    rounds = Rounds(np.repeat(target, 2, axis=0), law, draft * ones, ones, ones, seeds, np.zeros(count, np.uint32))
    accepted, codes = rounds.decide(native)
    want_accepted, want_codes = rounds.decide(OracleKernels())
    np.testing.assert_array_equal(accepted, want_accepted)
    other = np.flatnonzero(codes != want_codes)
    assert all(rounds.lead(sequence, int(accepted[sequence])) < NEAR_TIE for sequence in other)
    assert len(other) <= 1
    assert accepted.all() == (draft != 1)


@pytest.mark.parametrize("vocabulary", [2048, 4096])
def test_rounds_over_a_whole_codebook_are_decided_as_the_oracle_decides_them(
    native: NativeKernels, vocabulary: int
) -> None:
    rounds = Rounds.random(40, vocabulary, 1)
    for got, want in zip(rounds.decide(native), rounds.decide(OracleKernels()), strict=True):
        np.testing.assert_array_equal(got, want)


def test_greedy_acceptance_equals_the_oracle_on_random_rounds(native: NativeKernels) -> None:
    random = np.random.default_rng(3)
    counts = random.integers(0, 8, 3000)
    targets = random.integers(0, 3, int((counts + 1).sum()))
    drafts = random.integers(0, 3, int(counts.sum()))
    results = []
    for kernels in (OracleKernels(), native):
        accepted, codes = np.full(3000, -7), np.full(3000, -7)
        kernels.accept_greedy(targets, drafts, counts, accepted, codes)
        results.append((accepted, codes))
    np.testing.assert_array_equal(results[1], results[0])
