"""Whole frames: greedy equality, the written definition number by number, ragged batches, faults."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpspec_trt.errors import EngineError, UsageError
from cpspec_trt.kernels.faults import ALL_MASKED, NOT_FINITE, RowNumericError
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.frame import FrameDecoder
from tests.kernels import definition
from tests.speculation.toy import TableKernels, Toy, ToyPredictor, decode, statistics_of

GREEDY = FilterParameters(0.9, 50, 1.0, do_sample=False)
SAMPLED = FilterParameters(0.9, 3, 0.95)
NEAR_TIE = 1e-5
TOY = Toy.random(groups=7, codebook=3, seed=5)


def _greedy_walk(toy: Toy) -> list[int]:
    codes, node = [0], 0
    for depth in range(1, toy.groups):
        codes.append(int(np.argmax(toy.heads[depth - 1, :, node])))
        node = node * toy.codebook + 1 + codes[-1]
    return codes


@given(seed=st.integers(0, 2**31), groups=st.integers(2, 8), codebook=st.integers(2, 3), window=st.integers(2, 8))
@settings(max_examples=60, deadline=None)
def test_greedy_speculation_gives_the_autoregressive_codes(seed: int, groups: int, codebook: int, window: int) -> None:
    toy = Toy.random(groups, codebook, seed)
    seeds, frames = np.array([seed, seed + 1], np.uint64), np.array([0, 3])
    autoregressive, _ = decode(toy, 0, [GREEDY] * 2, seeds, frames)
    speculative, _ = decode(toy, window, [GREEDY] * 2, seeds, frames)
    np.testing.assert_array_equal(speculative, autoregressive)
    assert speculative.tolist() == [_greedy_walk(toy)] * 2


def _written_frame(toy: Toy, window: int, filters: FilterParameters, seed: int, frame: int) -> tuple[list[int], float]:
    """A frame from the written rule of rejection, in float64; also how near it came to other codes."""
    leads: list[float] = []

    def draw(law: np.ndarray, stream: int) -> int:
        code, lead = definition.drawn(law, seed, frame, stream)
        leads.append(lead)
        return code

    def child(node: int, code: int) -> int:
        return node * toy.codebook + 1 + code

    context = 0
    codes = [0, draw(toy.conditional(0, 1, filters), definition.stream(definition.TARGET, 1))]
    while (last := len(codes) - 1) < toy.groups - 1:
        depths = range(last + 1, last + 1 + max(0, min(window - 1, toy.groups - 2 - last)))
        guesses = [toy.conditional(context, depth, filters) for depth in depths]
        drafts = [
            draw(guess, definition.stream(definition.DRAFT, depth, last))
            for guess, depth in zip(guesses, depths, strict=True)
        ]
        context = child(context, codes[last])
        for depth, guess, token in zip(depths, guesses, drafts, strict=True):
            law = toy.conditional(context, depth, filters)
            bits = definition.word(seed, frame, definition.stream(definition.ACCEPT, depth, last))
            leads.append(abs(definition.uniform(bits) - law[token] / guess[token]))
            if definition.uniform(bits) >= law[token] / guess[token]:
                residual = np.maximum(law - guess, 0)
                codes.append(draw(residual, definition.stream(definition.RESIDUAL, depth, last)))
                break
            codes.append(token)
            context = child(context, token)
        else:
            depth = len(codes)
            codes.append(draw(toy.conditional(context, depth, filters), definition.stream(definition.TARGET, depth)))
    return codes, min(leads)


@pytest.mark.parametrize("window", [0, 2, 3, 4, 8])
def test_every_code_follows_the_written_definition_except_at_counted_near_ties(window: int) -> None:
    random = np.random.default_rng(window)
    seeds, frames = random.integers(0, 2**64, 120, dtype=np.uint64), random.integers(0, 4096, 120)
    codes, _ = decode(TOY, window, [SAMPLED] * 120, seeds, frames)
    near = 0
    for row in range(120):
        want, lead = _written_frame(TOY, window, SAMPLED, int(seeds[row]), int(frames[row]))
        near += lead < NEAR_TIE
        assert codes[row].tolist() == want or lead < NEAR_TIE
    assert near <= 2
    assert len(np.unique(codes, axis=0)) > 60


@pytest.mark.parametrize("window", [0, 3, 5])
def test_a_ragged_batch_gives_each_row_its_solo_codes(window: int) -> None:
    batch = 24
    seeds, frames = np.arange(batch, dtype=np.uint64) * 977, np.arange(batch) % 5
    filters = [
        (SAMPLED, GREEDY, FilterParameters(1.3, 0, 1.0), FilterParameters(0.7, 2, 0.8))[row % 4] for row in range(batch)
    ]
    together, statistics = decode(TOY, window, filters, seeds, frames)
    if window:
        assert len({each.rounds for each in statistics}) > 1, "the rows never stood at different depths"
    for row in range(batch):
        one = slice(row, row + 1)
        alone, counted = decode(TOY, window, filters[one], seeds[one], frames[one])
        assert alone[0].tolist() == together[row].tolist()
        assert counted[0].to_json() == statistics[row].to_json()


@given(order=st.permutations(range(6)), window=st.sampled_from([0, 2, 4]))
@settings(max_examples=20, deadline=None)
def test_codes_follow_the_seed_and_frame_and_not_the_place_in_the_batch(order: list[int], window: int) -> None:
    seeds, frames = np.array([1, 1, 1, 2, 2, 3], np.uint64), np.array([0, 1, 2, 0, 1, 0])
    straight, _ = decode(TOY, window, [SAMPLED] * 6, seeds, frames)
    shuffled, _ = decode(TOY, window, [SAMPLED] * 6, seeds[order], frames[order])
    np.testing.assert_array_equal(shuffled, straight[order])


def test_codes_do_not_depend_on_frames_decoded_before() -> None:
    predictor = ToyPredictor(TOY, 1)
    decoder = FrameDecoder(OracleKernels(), predictor, TOY.heads, 4)
    codes = np.empty((1, TOY.groups), np.int32)
    got = []
    for frame in (0, 1, 2, 1, 0):
        hidden, first = np.zeros((1, 4), np.float32), np.zeros(1, np.int64)
        decoder.decode(hidden, first, np.array([9]), np.array([frame]), [SAMPLED], codes, [statistics_of(4)])
        got.append(codes[0].tolist())
    assert got[0] == got[4]
    assert got[1] == got[3]
    assert got[0] != got[1] != got[2]


def test_seeds_that_differ_only_in_their_high_half_give_different_noise() -> None:
    seeds = np.array([7, 7 + 2**32, 7 + 2**63], np.uint64)
    codes, _ = decode(Toy.random(10, 2, 1, spread=0.1), 0, [FilterParameters(1.0, 0, 1.0)] * 3, seeds, np.zeros(3))
    assert len(np.unique(codes, axis=0)) == 3


def test_the_first_code_of_a_frame_is_the_same_for_every_window() -> None:
    seeds, frames = np.arange(50, dtype=np.uint64), np.zeros(50)
    first = [decode(TOY, window, [SAMPLED] * 50, seeds, frames)[0][:, 1].tolist() for window in (0, 2, 3, 8)]
    assert first[0] == first[1] == first[2] == first[3]


def test_a_decoder_bound_for_a_large_batch_serves_a_smaller_one() -> None:
    seeds = np.arange(3, dtype=np.uint64)
    decoder = FrameDecoder(OracleKernels(), ToyPredictor(TOY, 3), TOY.heads, 3, max_batch=8)
    codes = np.empty((3, TOY.groups), np.int64)
    statistics = [statistics_of(3) for _ in range(3)]
    hidden, first = np.zeros((3, 4), np.float32), np.zeros(3, np.int64)
    decoder.decode(hidden, first, seeds, np.zeros(3), [SAMPLED] * 3, codes, statistics)
    np.testing.assert_array_equal(codes, decode(TOY, 3, [SAMPLED] * 3, seeds, np.zeros(3))[0])


def test_looking_a_column_up_equals_multiplying_by_a_one_hot_row() -> None:
    seeds, frames = np.arange(300, dtype=np.uint64), np.arange(300) % 7
    codes = np.empty((300, TOY.groups), np.int64)
    decoder = FrameDecoder(
        TableKernels(TOY), ToyPredictor(TOY, 300, one_hot=False), np.zeros((6, 3, 1), np.float32), 4, 300
    )
    hidden, first = np.zeros((300, 4), np.float32), np.zeros(300, np.int64)
    decoder.decode(hidden, first, seeds, frames, [SAMPLED] * 300, codes, [statistics_of(4)] * 300)
    np.testing.assert_array_equal(codes, decode(TOY, 4, [SAMPLED] * 300, seeds, frames)[0])


@pytest.mark.parametrize("groups", [2, 3, 4])
def test_a_window_longer_than_the_frame_shrinks(groups: int) -> None:
    toy = Toy.random(groups, 3, 4)
    seeds = np.arange(20, dtype=np.uint64)
    codes, statistics = decode(toy, 8, [SAMPLED] * 20, seeds, np.zeros(20))
    assert ((codes >= 0) & (codes < 3)).all()
    for each in statistics:
        assert each.proposed[max(groups - 3, 0) :] == [0] * (7 - max(groups - 3, 0))
        assert (each.rounds > 0) is (groups > 2)


def test_greedy_with_a_perfect_draft_needs_one_round_per_window() -> None:
    toy = Toy.random(9, 2, 0)
    for head in range(8):
        toy.heads[head] = np.array([0.0, 1.0])[:, None]
    codes, (statistics,) = decode(toy, 4, [GREEDY], np.zeros(1, np.uint64), np.zeros(1))
    assert codes.tolist() == [[0] + [1] * 8]
    assert statistics.to_json() == {
        "requested": 4,
        "effective": 4,
        "rule": "greedy",
        "reason": None,
        "rows_exact": None,
        "tolerance": None,
        "tree_width": None,
        "passes": 3,
        "rounds": 2,
        "proposed": [2, 2, 1],
        "reached": [2, 2, 1],
        "accepted": [2, 2, 1],
        "guarded": 0,
        "codes_per_round": 3.5,
        "choices": None,
        "probes": 0,
    }


def test_rows_report_their_own_rule_and_passes() -> None:
    _, (greedy, sampled) = decode(TOY, 3, [GREEDY, SAMPLED], np.zeros(2, np.uint64), np.zeros(2))
    assert (greedy.rule, sampled.rule) == ("greedy", "rejection")
    assert greedy.passes == greedy.rounds + 1
    _, (plain,) = decode(TOY, 0, [SAMPLED], np.zeros(1, np.uint64), np.zeros(1))
    assert (plain.rule, plain.passes, plain.rounds, plain.codes_per_round) == (None, TOY.groups - 1, 0, None)


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("filters", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize(("value", "flag"), [(np.nan, NOT_FINITE), (np.inf, NOT_FINITE), (-np.inf, ALL_MASKED)])
def test_a_bad_row_of_logits_names_row_frame_and_depth_and_writes_nothing(
    window: int, filters: FilterParameters, value: float, flag: int
) -> None:
    toy = Toy.random(7, 3, 5)
    toy.heads[3, slice(None) if value == -np.inf else 1] = value
    codes = np.full((2, 7), -5)
    statistics = [statistics_of(window) for _ in range(2)]
    decoder = FrameDecoder(
        TableKernels(toy), ToyPredictor(toy, 2, one_hot=False), np.zeros((6, 3, 1), np.float32), window, 2
    )
    with pytest.raises(RowNumericError, match="batch row 0, frame 17, RVQ depth 4: ") as caught:
        decoder.decode(
            np.zeros((2, 4), np.float32),
            np.zeros(2, np.int64),
            np.array([3, 3], np.uint64),
            np.array([17, 17]),
            [filters] * 2,
            codes,
            statistics,
        )
    assert (caught.value.row, caught.value.frame, caught.value.depth, caught.value.flag) == (0, 17, 4, flag)
    assert (codes == -5).all()
    assert all(each.passes == 0 for each in statistics)


@pytest.mark.parametrize("window", [-1, 1, 9])
def test_a_window_that_cannot_be_is_refused(window: int) -> None:
    with pytest.raises(UsageError, match=f"verify window must be 0 or 2 to 8, not {window}"):
        FrameDecoder(OracleKernels(), ToyPredictor(TOY, 1), TOY.heads, window)


def test_heads_of_another_model_are_refused() -> None:
    with pytest.raises(EngineError, match=r"heads have shape \(5, 3, \d+\), the engine needs \(6, 3, \d+\)"):
        FrameDecoder(OracleKernels(), ToyPredictor(TOY, 1), TOY.heads[1:], 3)
