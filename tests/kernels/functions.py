"""The functions that every compiled implementation shares (the end of kernels.h), called with numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from cpspec_trt.kernels.arrays import address
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.native_library import NativeLibrary
from cpspec_trt.kernels.native_structs import NoiseRowsStruct
from tests.plugins.device import DeviceKernels

EXP, LOG, LOG1P = range(3)


def philox(native: NativeKernels, counters: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """uint32 [n, 4] and [n, 2] → uint32 [n, 4]."""
    out = np.empty_like(counters)

    def call(library: NativeLibrary, counters: np.ndarray, keys: np.ndarray, out: np.ndarray) -> None:
        library.call("philox", address(counters), address(keys), len(out), address(out))

    _apply(native, call, counters, keys, out)
    return out


def token_words(
    native: NativeKernels, seeds: np.ndarray, streams: np.ndarray, frames: np.ndarray, tokens: np.ndarray
) -> np.ndarray:
    """uint32 [n], the word of each token under its own noise."""
    words = np.empty(len(tokens), np.uint32)

    def call(library: NativeLibrary, *arrays: np.ndarray) -> None:
        *noise, tokens, words = arrays
        rows = NoiseRowsStruct(*(address(each) for each in noise))
        library.call("token_words", ctypes.byref(rows), address(tokens), len(words), address(words))

    _apply(native, call, seeds, streams, frames, tokens, words)
    return words


def noise(native: NativeKernels, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The uniform and the Gumbel number of each word, float32 [n] both."""
    uniforms, gumbels = np.empty(len(words), np.float32), np.empty(len(words), np.float32)

    def call(library: NativeLibrary, words: np.ndarray, uniforms: np.ndarray, gumbels: np.ndarray) -> None:
        library.call("noise", address(words), len(words), address(uniforms), address(gumbels))

    _apply(native, call, words, uniforms, gumbels)
    return uniforms, gumbels


def evaluate(native: NativeKernels, function: int, x: np.ndarray) -> np.ndarray:
    """EXP, LOG or LOG1P of float32 [n]."""
    y = np.empty_like(x)

    def call(library: NativeLibrary, x: np.ndarray, y: np.ndarray) -> None:
        library.call("evaluate", function, address(x), len(x), address(y))

    _apply(native, call, x, y)
    return y


def _apply(native: NativeKernels, call: Callable[..., None], *arrays: np.ndarray) -> None:
    """On a device with copies that it can reach, elsewhere with the arrays themselves."""
    if isinstance(native, DeviceKernels):
        native.carry(call, native.library, *arrays)
    else:
        call(native.library, *arrays)
