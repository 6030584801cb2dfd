"""What the passes of every decoder share: the KV cache, and buffers for one (batch, rows) shape bound once."""

from __future__ import annotations

import numpy as np

from cpspec_trt.engines.engine import Engine
from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.files.manifest import ProfileName
from cpspec_trt.stages.positions import MASKED, rope_rows


class KeyValueCache:
    """Keys and values of one decoder, one array per layer: [batch, kv_heads, capacity, head_dim], zeroed.

    Zeros matter: rows beyond a sequence's logical length are masked, and a masked NaN would still
    spread through 0 * NaN.
    """

    def __init__(self, dimensions: DecoderDimensions, batch: int, capacity: int) -> None:
        shape = (batch, dimensions.num_key_value_heads, capacity, dimensions.head_dim)
        self.capacity = capacity
        self.arrays = {
            f"{kind}_{layer}": np.zeros(shape, np.float32)
            for layer in range(dimensions.num_hidden_layers)
            for kind in ("key", "value")
        }

    def clear(self) -> None:
        """Zero every row."""
        for array in self.arrays.values():
            array.fill(0.0)

    def grown(self, capacity: int) -> KeyValueCache:
        """A cache of a larger capacity that holds the same rows."""
        larger = object.__new__(KeyValueCache)
        larger.capacity = capacity
        larger.arrays = {}
        for name, array in self.arrays.items():
            batch, heads, rows, width = array.shape
            larger.arrays[name] = np.zeros((batch, heads, capacity, width), np.float32)
            larger.arrays[name][:, :, :rows] = array
        return larger

    def tensors(self) -> dict[str, np.ndarray]:
        """Engine tensors: each array is both the past and the present, so that it is updated in place."""
        return {f"{when}_{name}": array for when in ("past", "present") for name, array in self.arrays.items()}


class RopeTable:
    """Cosines and sines of every position a decoder may reach, [positions, head_dim / 2], float32."""

    def __init__(self, dimensions: DecoderDimensions, positions: int) -> None:
        self.cos, self.sin = rope_rows(np.arange(positions), dimensions.head_dim, dimensions.rope_theta)


class DecoderPass:
    """Buffers of one pass shape, bound to a cache.

    Attributes:
        inputs_embeds: float32 [batch, rows, width], written by the caller before ``run``.
        outputs: the arrays given at construction, written by ``run``.
    """

    def __init__(
        self,
        engine: Engine,
        profile: ProfileName,
        cache: KeyValueCache,
        rope: RopeTable,
        inputs_embeds: np.ndarray,
        extra: dict[str, np.ndarray],
    ) -> None:
        """Allocate masks and rope rows and bind everything.

        Args:
            engine: a decoder engine.
            profile: the profile that admits this number of rows.
            cache: updated in place by every run.
            rope: table reaching at least the cache's capacity.
            inputs_embeds: [batch, rows, width].
            extra: further inputs and outputs by name.
        """
        batch, rows, _ = inputs_embeds.shape
        self.inputs_embeds = inputs_embeds
        self._rope = rope
        self._slots = np.arange(cache.capacity)
        self._mask = np.empty((batch, rows, cache.capacity), np.float32)
        self._cos = np.empty((batch, rows, rope.cos.shape[1]), np.float32)
        self._sin = np.empty_like(self._cos)
        self._write = np.empty(batch, np.int64)
        tensors = {
            "inputs_embeds": inputs_embeds,
            "attention_mask": self._mask,
            "rope_cos": self._cos,
            "rope_sin": self._sin,
            "write_indices": self._write,
            **extra,
            **cache.tensors(),
        }
        self._pass = engine.bind(profile, tensors)

    def run(self, positions: np.ndarray) -> None:
        """Run the pass with each new row at its position (int64 [batch, rows], consecutive per sequence).

        A row sees the cache slots 0 … its own position; it is written to the slot of that number.
        """
        self.run_at(positions, positions[:, 0], self._slots <= positions[:, :, None])

    def run_at(self, positions: np.ndarray, first_slots: np.ndarray, visible: np.ndarray) -> None:
        """Run the pass with rows whose slots are not their positions.

        Args:
            positions: int64 [batch, rows].
            first_slots: int64 [batch], where the first new row of each sequence is written; the others follow it.
            visible: bool [batch, rows, capacity], which slots each row sees.
        """
        self._mask.fill(MASKED)
        np.copyto(self._mask, 0.0, where=visible)
        np.take(self._rope.cos, positions, axis=0, out=self._cos, mode="clip")
        np.take(self._rope.sin, positions, axis=0, out=self._sin, mode="clip")
        self._write[:] = first_slots
        self._pass.run()
