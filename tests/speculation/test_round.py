"""What a round feeds and commits, row by row."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.frame import FrameDecoder
from tests.speculation.toy import Toy, ToyPredictor, statistics_of

TOY = Toy.random(groups=8, codebook=3, seed=3)
BATCH = 16


class RecordingPredictor(ToyPredictor):
    """Keeps what every round fed and committed, and the logical lengths it was fed at."""

    def __init__(self, toy: Toy, batch: int) -> None:
        super().__init__(toy, batch)
        self.fed: list[np.ndarray] = []
        self.at: list[np.ndarray] = []
        self.committed: list[np.ndarray] = []

    def verify(self, codes: np.ndarray) -> np.ndarray:
        self.fed.append(codes.copy())
        self.at.append(self.lengths.copy())
        return super().verify(codes)

    def commit(self, counts: np.ndarray) -> None:
        self.committed.append(counts.copy())
        super().commit(counts)


@pytest.fixture(scope="module", params=[0, 2, 4, 8], ids=lambda window: f"window {window}")
def recorded(request: pytest.FixtureRequest) -> tuple[int, RecordingPredictor, np.ndarray]:
    predictor = RecordingPredictor(TOY, BATCH)
    decoder = FrameDecoder(OracleKernels(), predictor, TOY.heads, request.param, BATCH)
    codes = np.empty((BATCH, TOY.groups), np.int64)
    decoder.decode(
        np.zeros((BATCH, 4), np.float32),
        np.zeros(BATCH, np.int64),
        np.arange(BATCH, dtype=np.uint64),
        np.zeros(BATCH),
        [FilterParameters(0.9, 0, 1.0)] * BATCH,
        codes,
        [statistics_of(request.param)] * BATCH,
    )
    return request.param, predictor, codes


def test_a_round_feeds_the_last_committed_code_then_the_drafts(
    recorded: tuple[int, RecordingPredictor, np.ndarray],
) -> None:
    _, predictor, codes = recorded
    for fed, lengths, committed in zip(predictor.fed, predictor.at, predictor.committed, strict=True):
        for row in np.flatnonzero(committed):
            last = lengths[row] - 1
            kept = committed[row]
            assert fed[row, :kept].tolist() == codes[row, last : last + kept].tolist()


def test_the_window_shrinks_to_what_remains_and_the_rest_is_padding(
    recorded: tuple[int, RecordingPredictor, np.ndarray],
) -> None:
    window, predictor, _ = recorded
    for fed, lengths, committed in zip(predictor.fed, predictor.at, predictor.committed, strict=True):
        last = lengths - 1
        drafts = np.where(last < TOY.groups - 1, np.minimum(max(window - 1, 0), TOY.groups - 2 - last), -1)
        assert fed.shape[1] == drafts.max() + 1
        for row in range(BATCH):
            assert not fed[row, drafts[row] + 1 :].any()
            assert committed[row] <= drafts[row] + 1


def test_a_finished_row_keeps_its_slot_and_commits_nothing(
    recorded: tuple[int, RecordingPredictor, np.ndarray],
) -> None:
    window, predictor, _ = recorded
    committed = np.array(predictor.committed)
    finished = np.array(predictor.at) == TOY.groups
    assert (committed[finished] == 0).all()
    assert (committed[~finished] >= 1).all()
    assert (committed.sum(axis=0) == TOY.groups - 2).all()
    assert finished.any() is np.bool_(window > 0), "no row finished before another"
