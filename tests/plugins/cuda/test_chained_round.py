"""A round as a device runs it: draft, what the pass is fed, the pass, score, accept and commit, each in one launch."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.native_structs import Arguments
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows, ragged_slots
from cpspec_trt.kernels.rules_protocol import AcceptanceRule
from tests.plugins.building import make

GROUPS, CODEBOOK, WIDTH, WINDOW = 8, 62, 48, 4  # a window of 4: 3 drafts
BATCH = 3
DRAFT_NOISE = {
    AcceptanceRule.REJECTION: Purpose.DRAFT,
    AcceptanceRule.BLOCK: Purpose.DRAFT,
    AcceptanceRule.COUPLED: Purpose.TARGET,
}


class Frame:
    """A batch of frames in the hands of one implementation; the engine is a sum of what was fed, then a squash."""

    def __init__(self, rule: AcceptanceRule) -> None:
        random = np.random.default_rng(3)
        self.rule = rule
        self.heads = random.normal(0, 0.5, (GROUPS - 1, CODEBOOK, WIDTH)).astype(np.float32)
        self.tables = [random.normal(0, 0.3, (CODEBOOK, WIDTH)).astype(np.float32) for _ in range(GROUPS)]
        self.context = random.normal(size=(BATCH, WIDTH)).astype(np.float32)
        self.codes = np.zeros((BATCH, GROUPS), np.int64)
        self.codes[:, 1] = 5, 7, 9
        self.last = np.array([1, 1, 1])
        self.memory = self.context.astype(float)  # what the engine has kept: a sum over committed codes
        self.seeds, self.frames = np.arange(BATCH, dtype=np.uint64), np.full(BATCH, 4, np.uint32)
        self.filters = FilterRows.pack(
            [FilterParameters(*each) for each in ((0.9, 9, 0.9), (0.0, 0, 1.0), (1.0, 0, 1.0))]
        )
        self.rounds: list[np.ndarray] = []

    def filters_of(self, rows: np.ndarray) -> FilterRows:
        return self.filters.take(rows)

    def run(self, kernels: NativeKernels, window: int) -> int:
        """One round of every unfinished frame; how many kernels it launched."""
        before = kernels.library.launches
        rows = np.flatnonzero(self.last < GROUPS - 1)
        counts = np.minimum(window - 1, GROUPS - 2 - self.last[rows])
        drafts, draft = self._draft(kernels, rows, counts)
        width = int(counts.max()) + 1
        fed, embeddings = np.empty((BATCH, width), np.int64), np.empty((BATCH, width, WIDTH), np.float32)
        kernels.build_verify_input(self.tables, self.codes, self.last, rows, counts, drafts, fed, embeddings)
        kept = self.memory[:, None] + embeddings.astype(float).cumsum(axis=1)
        hidden = np.tanh(kept).astype(np.float32)
        target = self._score(kernels, rows, counts, hidden.reshape(-1, WIDTH), width)
        accepted, commits = np.empty(len(rows), np.int64), np.empty(BATCH, np.int64)
        kernels.accept_commit(
            target,
            draft,
            drafts,
            rows,
            counts,
            self.seeds[rows],
            self.frames[rows],
            hidden.reshape(-1, WIDTH),
            rows * width,
            self.codes,
            self.last,
            self.context,
            accepted,
            commits,
            self.rule,
        )
        self.memory[rows] = kept[rows, accepted]
        self.rounds.append(commits)
        return kernels.library.launches - before

    def _draft(self, kernels: NativeKernels, rows: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        owner, offset = ragged_slots(counts)
        row, depth = rows[owner], self.last[rows[owner]] + 1 + offset
        law, logits = np.empty((2, len(owner), CODEBOOK), np.float32)
        codes, errors = np.empty(len(owner), np.int64), np.empty(len(owner), np.int32)
        streams = stream(DRAFT_NOISE[self.rule], depth, self.last[row])
        noise = self.seeds[row], streams, self.frames[row]
        if len(owner):
            kernels.draft(
                self.context, row, depth - 1, self.heads, self.filters_of(row), *noise, logits, law, codes, errors
            )
            assert not errors.any()
        return codes, law

    def _score(
        self, kernels: NativeKernels, rows: np.ndarray, counts: np.ndarray, hidden: np.ndarray, width: int
    ) -> np.ndarray:
        owner, offset = ragged_slots(counts + 1)
        row = rows[owner]
        law, logits = np.empty((2, len(owner), CODEBOOK), np.float32)
        errors = np.empty(len(owner), np.int32)
        sources, heads = row * width + offset, self.last[row] + offset
        kernels.score(hidden, sources, heads, self.heads, self.filters_of(row), logits, law, errors)
        assert not errors.any()
        return law


def _frame(kernels: NativeKernels, rule: AcceptanceRule, window: int) -> tuple[Frame, list[int]]:
    frame, launches = Frame(rule), []
    while (frame.last < GROUPS - 1).any():
        launches.append(frame.run(kernels, window))
    return frame, launches


@pytest.mark.parametrize("rule", AcceptanceRule)
def test_rounds_with_drafts_are_four_launches_and_give_the_cpu_librarys_frame(
    cuda: NativeKernels, rule: AcceptanceRule
) -> None:
    frame, launches = _frame(cuda, rule, WINDOW)
    want, _ = _frame(default_kernels(), rule, WINDOW)
    np.testing.assert_array_equal(frame.codes, want.codes)
    np.testing.assert_array_equal(frame.context, want.context)
    np.testing.assert_array_equal(frame.rounds, want.rounds)
    assert set(launches[:-1]) == {4}
    assert launches[-1] in (3, 4)  # a plain step at the frame's end drafts nothing
    assert max(commits.max() for commits in frame.rounds) > 1


def test_coupled_and_greedy_codes_are_those_of_plain_steps(cuda: NativeKernels) -> None:
    frame, _ = _frame(cuda, AcceptanceRule.COUPLED, WINDOW)
    plain, launches = _frame(cuda, AcceptanceRule.COUPLED, 1)
    np.testing.assert_array_equal(frame.codes, plain.codes)
    assert set(launches) == {3}
    rejection, _ = _frame(cuda, AcceptanceRule.REJECTION, WINDOW)
    np.testing.assert_array_equal(rejection.codes[1], plain.codes[1])  # the greedy row


# A round of two frames at m = 1 and m = 2 with three drafts each: what its draft and its score ask of which head.
DRAFTED = np.array([1, 2, 3, 2, 3, 4])
SCORED = np.array([1, 2, 3, 4, 2, 3, 4, 5])


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("head_rows", [DRAFTED, SCORED, np.repeat(SCORED, 3)], ids=["draft", "score", "batch"])
def test_a_launch_reads_every_head_from_memory_once(head_rows: np.ndarray, threads: int) -> None:
    random = np.random.default_rng(0)
    heads = random.normal(size=(GROUPS - 1, CODEBOOK, WIDTH)).astype(np.float32)
    hidden = random.normal(size=(len(head_rows), WIDTH)).astype(np.float32)
    logits, hidden_rows = np.full((len(head_rows), CODEBOOK), np.nan, np.float32), np.arange(len(head_rows))
    loads, blocks, strangers = np.zeros((3, *heads.shape), np.uint32)
    library = ctypes.CDLL(str(make("head-reads") / "libhead_reads.so"))
    library.count_head_reads.restype = ctypes.c_char_p
    own, rows = Arguments().heads(hidden, hidden_rows, head_rows, heads)
    arrays = [ctypes.c_void_p(each.ctypes.data) for each in (loads, blocks, strangers)]
    fault = library.count_head_reads(
        own, rows, ctypes.c_void_p(logits.ctypes.data), threads, ctypes.c_uint64(1), *arrays
    )
    assert fault is None
    want = np.full_like(logits, np.nan)
    default_kernels().grouped_heads(hidden, hidden_rows, head_rows, heads, want)
    np.testing.assert_array_equal(logits, want)
    # One block owns a word of a head, for all rows: further loads of it find it in the block's cache.
    assert not strangers.any()
    sharers = np.bincount(head_rows, minlength=len(heads))
    np.testing.assert_array_equal(
        loads, np.broadcast_to(-(-sharers // library.rows_per_load())[:, None, None], loads.shape)
    )
