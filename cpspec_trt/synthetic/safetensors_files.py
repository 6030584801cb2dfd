"""The weight files of a synthetic checkpoint: one, or shards with their index."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cpspec_trt.files.json_io import write_json_atomic
from cpspec_trt.files.tensors import ITEM_BYTES, StorageType, TensorSource, write_tensors
from cpspec_trt.synthetic.weights import TensorPlan, value_blocks

_METADATA = {"format": "pt"}  # what the published files carry and PyTorch readers insist on


def write_model(
    directory: Path, plans: Sequence[TensorPlan], dtype: StorageType, seed: int, shard_bytes: int | None
) -> None:
    """Write ``model.safetensors``, or shards and ``model.safetensors.index.json`` when ``shard_bytes`` is given."""
    if shard_bytes is None:
        write_file(directory / "model.safetensors", plans, dtype, seed)
        return
    shards = _pack(plans, ITEM_BYTES[dtype], shard_bytes)
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        write_file(directory / name, shard, dtype, seed)
        weight_map.update({plan.name: name for plan in shard})
    total = sum(plan.size for plan in plans) * ITEM_BYTES[dtype]
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    write_json_atomic(directory / "model.safetensors.index.json", index)


def write_file(path: Path, plans: Sequence[TensorPlan], dtype: StorageType, seed: int) -> None:
    """Write one safetensors file whose tensors stand in the order of ``plans``."""
    sources = [TensorSource(plan.name, plan.shape, partial(value_blocks, plan, seed)) for plan in plans]
    write_tensors(path, sources, dtype, _METADATA)


def _pack(plans: Sequence[TensorPlan], item_bytes: int, shard_bytes: int) -> list[list[TensorPlan]]:
    """Fill shards in order; a tensor larger than the limit gets a shard of its own."""
    shards: list[list[TensorPlan]] = []
    room = 0
    for plan in plans:
        size = plan.size * item_bytes
        if not shards or size > room:
            shards.append([])
            room = shard_bytes
        shards[-1].append(plan)
        room -= size
    return shards
