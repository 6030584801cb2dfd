"""What the decoders on a device share: caches that stay where they are, and passes whose positions the host plans.

A TensorRT engine updates its KV cache in place and wants it at its full capacity from the start, so a cache is
allocated once and masks say what of it exists.
"""

from __future__ import annotations

import numpy as np

from cpspec_trt.devices.arrays import DeviceArray, Shape, dtype_named
from cpspec_trt.devices.device import Device
from cpspec_trt.devices.packed import Contents, DeviceBlock, Packed
from cpspec_trt.engines.tensorrt import TensorRTEngine, TensorRTPass
from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.files.manifest import Manifest, ProfileName, TensorInfo
from cpspec_trt.kernels.device_arrays import DeviceCaches
from cpspec_trt.speculation.tree import TreeLayout
from cpspec_trt.stages.positions import MASKED, rope_rows

INT64 = np.dtype(np.int64)
MASK = "attention_mask"


def tensor_info(manifest: Manifest, name: str) -> TensorInfo:
    """The entry of an input or output; the manifest lists all of them."""
    return next(info for info in (*manifest.inputs, *manifest.outputs) if info.name == name)


def tensor_dtype(manifest: Manifest, name: str) -> np.dtype:
    """The dtype of an input or output."""
    return dtype_named(tensor_info(manifest, name).dtype)


class DeviceCache:
    """Keys and values of one decoder, [batch, kv_heads, capacity, head_dim] each, zeroed.

    Zeros matter: rows beyond a sequence's length are masked, and a masked NaN would still spread through 0 * NaN.

    Attributes:
        described: all of them, for kernels.
    """

    def __init__(self, device: Device, manifest: Manifest, batch: int) -> None:
        self._device = device
        self._block = DeviceBlock(device, _cache_contents(manifest, batch))
        self.described = DeviceCaches(device, list(self._block.arrays.values()))

    def clear(self) -> None:
        """Zero all of it, in the stream's order."""
        self._device.clear(self._block.whole)

    def clear_row(self, row: int) -> None:
        """Zero one sequence."""
        for array in self._block.arrays.values():
            self._device.clear(array.row(row))

    def tensors(self, row: int | None = None) -> dict[str, DeviceArray]:
        """Engine tensors, past and present being the same memory; of one sequence, or of all."""
        arrays = {name: array if row is None else array.row(row) for name, array in self._block.arrays.items()}
        return {f"{when}_{name}": array for when in ("past", "present") for name, array in arrays.items()}


def _cache_contents(manifest: Manifest, batch: int) -> Contents:
    largest = manifest.profile("generation").inputs
    return {
        info.name.removeprefix("past_"): ((batch, *largest[info.name].max[1:]), dtype_named(info.dtype))
        for info in manifest.inputs
        if info.name.startswith("past_")
    }


def position_contents(manifest: Manifest, dimensions: DecoderDimensions, batch: int, rows: int) -> Contents:
    """The inputs of a pass that say where its rows stand: mask, rope rows, cache slots."""

    def entry(name: str, *shape: int) -> tuple[Shape, np.dtype]:
        return shape, tensor_dtype(manifest, name)

    half = dimensions.head_dim // 2
    return {
        MASK: entry(MASK, batch, rows, manifest.max_kv_capacity),
        "rope_cos": entry("rope_cos", batch, rows, half),
        "rope_sin": entry("rope_sin", batch, rows, half),
        "write_indices": entry("write_indices", batch),
    }


class PositionTable:
    """Mask and rope rows of every position of a small cache, so that a plan is filled by copying rows.

    Attributes:
        mask: [positions, positions], 0 where a row of that position sees a slot.
        cos, sin: [positions, head_dim / 2].
    """

    def __init__(self, manifest: Manifest, dimensions: DecoderDimensions) -> None:
        slots = np.arange(manifest.max_kv_capacity)
        visible = slots[None, :] <= slots[:, None]
        self.mask = np.where(visible, np.float32(0), MASKED).astype(tensor_dtype(manifest, MASK))
        cos, sin = rope_rows(slots, dimensions.head_dim, dimensions.rope_theta)
        self.cos = cos.astype(tensor_dtype(manifest, "rope_cos"))
        self.sin = sin.astype(tensor_dtype(manifest, "rope_sin"))


class PlannedPass:
    """A pass of ``rows`` new positions per sequence over a small cache, with a plan that one copy uploads.

    Attributes:
        plan: positions, and whatever else the caller put into it.
        embeds: [batch, rows, width], what is fed.
        hidden: [batch * rows, hidden], what comes out.
        bound: the pass.
        rows: positions per sequence.
    """

    def __init__(
        self,
        engine: TensorRTEngine,
        dimensions: DecoderDimensions,
        table: PositionTable,
        cache: DeviceCache,
        batch: int,
        rows: int,
        plan: Contents,
    ) -> None:
        """Allocate the plan and bind the pass, which will be captured.

        Args:
            engine: the decoder.
            dimensions: of its stack.
            table: positions of its cache.
            cache: updated in place.
            batch: sequences.
            rows: positions of each.
            plan: further contents of the plan.
        """
        device, manifest = engine.device, engine.manifest
        self._device = device
        self._table = table
        self.rows = rows
        positions = position_contents(manifest, dimensions, batch, rows)
        self.plan = Packed(device, {**positions, **plan})
        width = tensor_info(manifest, "inputs_embeds").shape[2]
        self.embeds = device.array((batch, rows, width), tensor_dtype(manifest, "inputs_embeds"))
        self.hidden = device.array((batch * rows, dimensions.hidden_size), tensor_dtype(manifest, "hidden_states"))
        profile: ProfileName = "generation" if rows <= manifest.max_new_positions("generation") else "context"
        tensors = {
            "inputs_embeds": self.embeds,
            "hidden_states": self.hidden.leading(batch, rows, dimensions.hidden_size),
            **{name: self.plan.device[name] for name in positions},
            **cache.tensors(),
        }
        self.bound: TensorRTPass = engine.bind(profile, tensors, captured=True)

    def place(self, row: int, position: int) -> None:
        """Plan the new rows of a sequence at ``position`` and behind it."""
        end, host = position + self.rows, self.plan.host
        host[MASK][row] = self._table.mask[position:end]
        host["rope_cos"][row] = self._table.cos[position:end]
        host["rope_sin"][row] = self._table.sin[position:end]
        host["write_indices"][row] = position

    def place_tree(self, row: int, position: int, tree: TreeLayout) -> None:
        """Plan the new rows of a sequence as a tree, its root at ``position``, at least 1; node j goes to slot
        ``position + j``, stands as deep as it lies, and sees its ancestors and what lies before the root."""
        host, at = self.plan.host, position + tree.depths
        mask = host[MASK][row]
        mask[:] = self._table.mask[position - 1]
        for node, parent in enumerate(tree.parents.tolist()):
            if parent >= 0:
                mask[node] = mask[parent]
            mask[node, position + node] = 0
        host["rope_cos"][row] = self._table.cos[at]
        host["rope_sin"][row] = self._table.sin[at]
        host["write_indices"][row] = position

    def evaluate(self, position: int, embeds: np.ndarray, tree: TreeLayout | None = None) -> np.ndarray:
        """Run the pass now and wait for it: for probes, not for requests.

        Args:
            position: of the first new row of every sequence.
            embeds: float32 [batch, rows, width].
            tree: how the rows hang together; None for a chain.

        Returns:
            [batch, rows, hidden] in the engine's dtype.
        """
        batch = len(embeds)
        for row in range(batch):
            if tree is None:
                self.place(row, position)
            else:
                self.place_tree(row, position, tree)
        self.plan.upload()
        self._device.write(self.embeds, embeds)
        self.bound.run()
        return self._device.read(self.hidden).reshape(batch, self.rows, -1)
