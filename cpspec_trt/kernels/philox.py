"""Stateless random numbers: Philox4x32-10 (Salmon et al., SC 2011) and the streams drawn from it.

The key is the request's seed. The counter says what a number is for, so no number depends on what was drawn
before it, on the batch or on the window:

    word 0  token >> 2 (the token takes lane token & 3); 0 for a scalar, which takes lane 0
    word 1  the stream: purpose, depth and, for the numbers of a round, the index of its last committed code
    word 2  frame (the Thinker: token index)
    word 3  0
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike

from cpspec_trt.kernels.protocol import F32, I64, U32, U64

_MULTIPLIERS = np.array([0xD2511F53, 0xCD9E8D57], np.uint64)[:, None]
_WEYL = np.array([0x9E3779B9, 0xBB67AE85], np.uint64)[:, None]
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ROUNDS = 10
_CHUNK = 16384  # counters worked on at once: the state stays in a core's cache
_BELOW_ONE = np.float32(1 - 2.0**-24)


class Purpose(IntEnum):
    """What a random number decides."""

    TARGET = 0
    DRAFT = 1
    ACCEPT = 2
    RESIDUAL = 3
    TALKER = 4
    THINKER = 5


_OF_A_ROUND = (Purpose.DRAFT, Purpose.ACCEPT, Purpose.RESIDUAL)


def stream(purpose: Purpose, depth: ArrayLike, last: ArrayLike = 0) -> U32:
    """Counter word 1.

    Args:
        purpose: what the number decides.
        depth: integer [R], index of the code it decides.
        last: integer [R], index m of the round's last committed code. Only draft, accept and residual
            noise depend on it: a slot that was rejected gets fresh numbers in the next round.

    Returns:
        uint32 [R].
    """
    word = np.asarray(depth, np.int64) + (int(purpose) << 16)
    if purpose in _OF_A_ROUND:
        word = word + (np.asarray(last, np.int64) << 8)
    return word.astype(np.uint32)


def philox4x32(counters: U32, keys: U32) -> U32:
    """The Philox4x32-10 block function.

    Args:
        counters: uint32 [4, C].
        keys: uint32 [2, C].

    Returns:
        uint32 [4, C].
    """
    out = np.empty(counters.shape, np.uint32)
    for begin in range(0, counters.shape[1], _CHUNK):
        part = slice(begin, begin + _CHUNK)
        _philox_chunk(counters[:, part], keys[:, part], out[:, part])
    return out


def _philox_chunk(counters: U32, keys: U32, out: U32) -> None:
    even = counters[0::2].astype(np.uint64)  # words 0 and 2, which are multiplied
    odd = counters[1::2].astype(np.uint64)
    key = keys.astype(np.uint64)
    product = np.empty_like(even)
    for _ in range(_ROUNDS):
        np.multiply(even, _MULTIPLIERS, out=product)
        crossed = product[::-1]
        np.right_shift(crossed, _HALF, out=even)
        even ^= odd
        even ^= key
        np.bitwise_and(crossed, _LOW, out=odd)
        key += _WEYL
        key &= _LOW
    out[0::2] = even
    out[1::2] = odd


def uniform_of(words: U32) -> F32:
    """A number in (0, 1) per 32-bit word, every step rounded to float32: fine steps near 0, where they matter."""
    scaled = (words.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)
    capped: F32 = np.minimum(scaled, _BELOW_ONE)
    return capped


def gumbel_of(words: U32) -> F32:
    """Gumbel noise per 32-bit word: -log E with E = -log1p(-u).

    The winners of an exponential race have a small E. It comes from a small u, which float32 resolves finely;
    -log u would take it from a u near 1 and lose it.
    """
    race: F32 = -np.log1p(-uniform_of(words))
    noise: F32 = -np.log(race)
    return noise


def scalar_words(seeds: U64, streams: U32, frames: U32) -> U32:
    """One 32-bit word per row: seeds uint64 [R], streams and frames uint32 [R] → uint32 [R]."""
    words: U32 = _blocks(seeds, streams, frames, np.zeros(len(seeds), np.int64))[0]
    return words


def token_words(seeds: U64, streams: U32, frames: U32, rows: I64, tokens: I64) -> U32:
    """The 32-bit words of some tokens of some rows.

    Args:
        seeds: uint64 [R].
        streams: uint32 [R].
        frames: uint32 [R].
        rows: int64 [N], ascending.
        tokens: int64 [N], ascending within a row; tokens that share a block of four are computed once.

    Returns:
        uint32 [N].
    """
    quads = tokens >> 2
    fresh = np.ones(len(rows), np.bool_)
    np.logical_or(rows[1:] != rows[:-1], quads[1:] != quads[:-1], out=fresh[1:])
    owners = rows[fresh]
    blocks = _blocks(seeds[owners], streams[owners], frames[owners], quads[fresh])
    words: U32 = blocks[tokens & 3, np.cumsum(fresh) - 1]
    return words


def _blocks(seeds: U64, streams: U32, frames: U32, quads: I64) -> U32:
    counters = np.zeros((4, len(seeds)), np.uint32)
    counters[0] = quads
    counters[1] = streams
    counters[2] = frames
    keys = np.empty((2, len(seeds)), np.uint32)
    keys[0] = seeds & _LOW
    keys[1] = seeds >> _HALF
    return philox4x32(counters, keys)
