"""Philox against Random123's published vectors, and the layout of the streams."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpspec_trt.kernels.philox import (
    Purpose,
    gumbel_of,
    philox4x32,
    scalar_words,
    stream,
    token_words,
    uniform_of,
)
from tests.kernels import definition

KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
WORDS = st.integers(0, 2**32 - 1)


def _words(text: str) -> np.ndarray:
    return np.array([int(part, 16) for part in text.split()], np.uint32)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS, ids=["zeros", "ones", "pi"])
def test_the_published_known_answers_come_out(counter: str, key: str, answer: str) -> None:
    got = philox4x32(_words(counter)[:, None], _words(key)[:, None])
    np.testing.assert_array_equal(got[:, 0], _words(answer))
    assert definition.philox(_words(counter).tolist(), _words(key).tolist()) == _words(answer).tolist()


@given(st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS, WORDS, WORDS), min_size=1, max_size=8))
def test_any_counter_and_key_give_what_the_plain_python_generator_gives(rows: list[tuple[int, ...]]) -> None:
    words = np.array(rows, np.uint32).T
    got = philox4x32(words[:4], words[4:])
    assert got.T.tolist() == [definition.philox(row[:4], row[4:]) for row in rows]


def test_many_counters_in_one_call_equal_one_at_a_time() -> None:
    counters = np.random.default_rng(3).integers(0, 2**32, (4, 40_000), dtype=np.uint32)
    keys = counters[:2][:, ::-1].copy()
    together = philox4x32(counters, keys)
    for index in (0, 16_383, 16_384, 39_999):
        alone = philox4x32(counters[:, index, None], keys[:, index, None])
        np.testing.assert_array_equal(together[:, index], alone[:, 0])


@given(
    seed=st.integers(0, 2**64 - 1),
    frame=WORDS,
    purpose=st.sampled_from(list(Purpose)),
    depth=st.integers(0, 255),
    last=st.integers(0, 255),
    token=st.integers(0, 5000),
)
def test_words_follow_the_counter_layout(
    seed: int, frame: int, purpose: Purpose, depth: int, last: int, token: int
) -> None:
    seeds, frames = np.array([seed], np.uint64), np.array([frame], np.uint32)
    streams = stream(purpose, np.array([depth]), np.array([last]))
    assert streams.tolist() == [definition.stream(int(purpose), depth, last)]
    got = token_words(seeds, streams, frames, np.array([0]), np.array([token]))
    assert got.tolist() == [definition.word(seed, frame, int(streams[0]), token)]
    assert scalar_words(seeds, streams, frames).tolist() == [definition.word(seed, frame, int(streams[0]))]


def test_no_two_purposes_depths_or_rounds_of_a_frame_share_a_stream() -> None:
    words = []
    for purpose in (Purpose.TARGET, Purpose.TALKER, Purpose.THINKER):
        words += stream(purpose, np.arange(256)).tolist()
    for purpose in (Purpose.DRAFT, Purpose.ACCEPT, Purpose.RESIDUAL):
        last, depth = np.array(list(itertools.combinations(range(256), 2))).T
        words += stream(purpose, depth, last).tolist()
    assert len(set(words)) == len(words)


def test_the_noise_of_a_token_does_not_depend_on_other_tokens_or_rows() -> None:
    seeds = np.array([7, 7, 2**63 + 11], np.uint64)
    streams = stream(Purpose.DRAFT, np.array([3, 4, 3]), np.array([1, 1, 2]))
    frames = np.array([5, 5, 9], np.uint32)
    rows, tokens = np.nonzero(np.ones((3, 37)))
    dense = token_words(seeds, streams, frames, rows, tokens).reshape(3, 37)
    some = np.array([0, 1, 6, 7, 36])
    for row in range(3):
        one = slice(row, row + 1)
        alone = token_words(seeds[one], streams[one], frames[one], np.zeros(5, np.int64), some)
        np.testing.assert_array_equal(alone, dense[row, some])
    assert len(np.unique(dense)) == dense.size


def test_uniforms_stay_inside_the_open_interval_and_are_fine_near_zero() -> None:
    words = np.array([0, 1, 2, 2**31, 2**32 - 1], np.uint32)
    got = uniform_of(words)
    assert got.dtype == np.float32
    assert got.tolist() == [0.5 * 2**-32, 1.5 * 2**-32, 2.5 * 2**-32, 0.5, 1 - 2**-24]
    assert got.tolist() == [definition.uniform(int(each)) for each in words]


def test_gumbel_noise_matches_float64_over_the_whole_range() -> None:
    words = np.concatenate(
        [np.arange(64), 2 ** np.arange(32), np.random.default_rng(0).integers(0, 2**32, 2000), [2**32 - 1]]
    ).astype(np.uint32)
    want = np.array([definition.gumbel(int(each)) for each in words])
    np.testing.assert_allclose(gumbel_of(words), want, rtol=2e-6, atol=2e-6)


def test_gumbel_noise_of_a_word_does_not_depend_on_its_place_in_an_array() -> None:
    words = np.random.default_rng(1).integers(0, 2**32, 1000, dtype=np.uint32)
    whole = gumbel_of(words)
    for begin, end in ((0, 1), (1, 2), (3, 20), (17, 18), (500, 999), (999, 1000)):
        np.testing.assert_array_equal(gumbel_of(words[begin:end]), whole[begin:end])
