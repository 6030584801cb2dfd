"""Safetensors reading and writing, checked against the safetensors library."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike
from safetensors.numpy import load_file, save_file

from cpspec_trt.errors import CheckpointError, EngineError
from cpspec_trt.files.tensors import StorageType, TensorSource, open_sharded_tensors, open_tensors, write_tensors

RNG = np.random.default_rng(11)


def raw_file(path: Path, header: dict[str, object] | bytes, data: bytes = b"") -> Path:
    """A safetensors file written by hand, so that it may be wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def plain(array: np.ndarray, name: str = "table") -> TensorSource:
    return TensorSource(name, array.shape, lambda: [array.reshape(-1)])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_every_storage_type_reads_as_the_float32_value_it_stands_for(tmp_path: Path, dtype: DTypeLike) -> None:
    values = np.concatenate([RNG.normal(size=5000), [0.0, -0.0, 1e-8, 65504.0, np.inf, -np.inf]]).astype(dtype)
    save_file({"table": values.reshape(2, -1)}, tmp_path / "model.safetensors")
    found = open_tensors(tmp_path / "model.safetensors", CheckpointError).read("table", (2, 2503))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, values.astype(np.float32).reshape(2, -1))


def test_a_tensor_larger_than_one_block_is_read_whole(tmp_path: Path) -> None:
    values = np.arange((1 << 22) + 17, dtype=np.float32)
    save_file({"table": values}, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(open_tensors(tmp_path / "model.safetensors", CheckpointError).read("table"), values)


def test_reading_holds_little_more_than_the_result(tmp_path: Path) -> None:
    rows = 12_000_000
    raw_file(
        tmp_path / "big", {"table": {"dtype": "BF16", "shape": [rows], "data_offsets": [0, 2 * rows]}}, bytes(2 * rows)
    )
    tensors = open_tensors(tmp_path / "big", CheckpointError)
    tracemalloc.start()
    tensors.read("table")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 4 * rows <= peak < 4 * rows + (48 << 20)


def test_what_is_written_is_read_by_the_safetensors_library(tmp_path: Path) -> None:
    first, second = RNG.normal(size=(3, 5)).astype(np.float32), RNG.normal(size=7).astype(np.float32)
    write_tensors(tmp_path / "out.safetensors", [plain(first, "first"), plain(second, "second")])
    found = load_file(tmp_path / "out.safetensors")
    assert list(found) == ["first", "second"]
    np.testing.assert_array_equal(found["first"], first)
    np.testing.assert_array_equal(found["second"], second)


def test_a_bfloat16_tensor_is_copied_under_another_name(tmp_path: Path) -> None:
    values = RNG.normal(size=(4, 6)).astype(ml_dtypes.bfloat16)
    save_file({"inner.weight": values}, tmp_path / "in.safetensors")
    source = open_tensors(tmp_path / "in.safetensors", CheckpointError).source("inner.weight", (4, 6), rename="table")
    write_tensors(tmp_path / "out.safetensors", [source])
    np.testing.assert_array_equal(load_file(tmp_path / "out.safetensors")["table"], values.astype(np.float32))


@pytest.mark.parametrize(
    ("dtype", "stored"),
    # 1 + 2**-8 is halfway between two bfloat16 numbers, 1 + 2**-11 between two half-precision ones: even wins.
    [
        ("F32", "0000803f 0080803f 0010803f 000080bf"),
        ("F16", "003c 043c 003c 00bc"),
        ("BF16", "803f 803f 803f 80bf"),
    ],
)
def test_values_are_stored_little_endian_and_rounded_to_even(tmp_path: Path, dtype: StorageType, stored: str) -> None:
    values = np.array([1.0, 1.0 + 2.0**-8, 1.0 + 2.0**-11, -1.0], np.float32)
    write_tensors(tmp_path / "out", [plain(values)], dtype, {"format": "pt"})
    assert (tmp_path / "out").read_bytes().endswith(bytes.fromhex(stored))
    assert load_file(tmp_path / "out")["table"].tobytes() == bytes.fromhex(stored)
    assert open_tensors(tmp_path / "out", EngineError).entry("table").dtype == dtype


@pytest.mark.parametrize("second", [[0, 8], [4, 12], [0, 4], [8, 12]])
def test_two_tensors_that_share_bytes_are_refused(tmp_path: Path, second: list[int]) -> None:
    header: dict[str, object] = {
        "a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]},
        "b": {"dtype": "F32", "shape": [(second[1] - second[0]) // 4], "data_offsets": second},
    }
    with pytest.raises(EngineError, match=r"tensors '[ab]' and '[ab]' share bytes of data; export it again"):
        open_tensors(raw_file(tmp_path / "m", header, bytes(12)), EngineError)


def test_a_file_that_can_no_longer_be_read_is_named(tmp_path: Path) -> None:
    save_file({"table": np.ones(3, np.float32)}, tmp_path / "model.safetensors")
    tensors = open_tensors(tmp_path / "model.safetensors", CheckpointError)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model.safetensors: cannot read the file: No such file or directory"):
        tensors.read("table")


def test_a_source_with_too_few_elements_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'table' gave 8 bytes of F32 for shape \[3\]"):
        write_tensors(tmp_path / "out.safetensors", [TensorSource("table", (3,), lambda: [np.ones(2, np.float32)])])
    assert list(tmp_path.iterdir()) == []


def test_float32_tables_written_one_after_another_are_one_memory_map(tmp_path: Path) -> None:
    tables = RNG.normal(size=(5, 4, 3)).astype(np.float32)
    names = [f"t{i}" for i in range(5)]
    write_tensors(tmp_path / "out", [plain(table, name) for name, table in zip(names, tables, strict=True)])
    found = open_tensors(tmp_path / "out", EngineError).stacked(names, (4, 3))
    np.testing.assert_array_equal(found, tables)
    assert isinstance(found.base, np.memmap)
    assert found.flags.c_contiguous


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_tables_in_another_order_or_type_stack_to_the_same_array(tmp_path: Path, dtype: DTypeLike) -> None:
    tables = RNG.normal(size=(3, 4, 2)).astype(dtype)
    save_file({f"t{i}": tables[i] for i in (2, 0, 1)}, tmp_path / "out")
    raw = (tmp_path / "out").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    header["t0"]["data_offsets"], header["t2"]["data_offsets"] = (
        header["t2"]["data_offsets"],
        header["t0"]["data_offsets"],
    )
    raw_file(tmp_path / "swapped", header, raw[8 + int.from_bytes(raw[:8], "little") :])
    found = open_tensors(tmp_path / "swapped", EngineError).stacked(["t0", "t1", "t2"], (4, 2))
    np.testing.assert_array_equal(found, tables[[2, 1, 0]].astype(np.float32))


def test_a_mapped_float32_tensor_is_not_loaded(tmp_path: Path) -> None:
    table = RNG.normal(size=(6, 2)).astype(np.float32)
    write_tensors(tmp_path / "out", [plain(table)])
    found = open_tensors(tmp_path / "out", EngineError).mapped("table", (6, 2))
    assert isinstance(found.base, np.memmap)
    np.testing.assert_array_equal(found, table)


def test_a_missing_tensor_is_named_with_its_file(tmp_path: Path) -> None:
    save_file({"other": np.ones(2, np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.safetensors: tensor 'table' is missing; download"):
        open_tensors(tmp_path / "model.safetensors", CheckpointError).read("table")


def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path: Path) -> None:
    save_file({"table": np.ones((2, 3), np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"'table' has shape \[2, 3\], config\.json asks for \[3, 2\]"):
        open_tensors(tmp_path / "model.safetensors", CheckpointError).source("table", (3, 2))


def test_an_integer_tensor_is_refused_by_type(tmp_path: Path) -> None:
    save_file({"table": np.ones(2, np.int64)}, tmp_path / "model.safetensors")
    tensors = open_tensors(tmp_path / "model.safetensors", CheckpointError)
    with pytest.raises(CheckpointError, match="'table' has type I64, expected one of F32, F16, BF16"):
        tensors.read("table")


def test_a_truncated_tensor_is_named_in_the_error(tmp_path: Path) -> None:
    save_file({"a": np.ones(4, np.float32), "b": np.ones(400, np.float32)}, tmp_path / "model.safetensors")
    content = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[:-1])
    with pytest.raises(CheckpointError, match=r"model\.safetensors: tensor 'b' is truncated"):
        open_tensors(tmp_path / "model.safetensors", CheckpointError)


def test_a_file_that_shrinks_after_it_was_opened_is_an_error_too(tmp_path: Path) -> None:
    save_file({"table": np.ones(400, np.float32)}, tmp_path / "model.safetensors")
    tensors = open_tensors(tmp_path / "model.safetensors", CheckpointError)
    (tmp_path / "model.safetensors").write_bytes((tmp_path / "model.safetensors").read_bytes()[:-9])
    with pytest.raises(CheckpointError, match="'table' is truncated"):
        tensors.read("table")


def test_a_tensor_whose_size_contradicts_its_type_is_named(tmp_path: Path) -> None:
    path = raw_file(tmp_path / "m", {"table": {"dtype": "F32", "shape": [3], "data_offsets": [0, 6]}}, bytes(6))
    with pytest.raises(CheckpointError, match=r"'table' has 6 bytes of data, which is not F32 \[3\]"):
        open_tensors(path, CheckpointError)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [1]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]},
        {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]},
        {"dtype": "F32", "shape": [1], "data_offsets": "04"},
        {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]},
        "F32",
        None,
    ],
)
def test_a_damaged_header_entry_is_named(tmp_path: Path, entry: object) -> None:
    with pytest.raises(CheckpointError, match="the header entry of tensor 'table' is damaged"):
        open_tensors(raw_file(tmp_path / "m", {"table": entry}, bytes(16)), CheckpointError)


@pytest.mark.parametrize("content", [b"", b"abc", b"\xff" * 8, b"\xff" * 64, bytes(64), b"\x04" + bytes(7) + b"[12]"])
def test_a_file_that_is_no_safetensors_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(EngineError, match=r"m: not a safetensors file, or its header is damaged; export it again"):
        open_tensors(tmp_path / "m", EngineError)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"lm_heads\.safetensors: the file does not exist; export it again"):
        open_tensors(tmp_path / "lm_heads.safetensors", EngineError)


def shard(tmp_path: Path, weight_map: object) -> Path:
    save_file({"a": np.full(2, 1, np.float32)}, tmp_path / "one.safetensors")
    save_file({"b": np.full(3, 2, np.float32)}, tmp_path / "two.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index


def test_a_sharded_index_finds_every_tensor(tmp_path: Path) -> None:
    index = shard(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    tensors = open_sharded_tensors(index, CheckpointError)
    np.testing.assert_array_equal(tensors.read("a"), [1, 1])
    np.testing.assert_array_equal(tensors.read("b"), [2, 2, 2])
    with pytest.raises(CheckpointError, match=r"index\.json: tensor 'c' is missing"):
        tensors.read("c")


def test_a_shard_without_a_promised_tensor_is_named(tmp_path: Path) -> None:
    index = shard(tmp_path, {"a": "one.safetensors", "b": "one.safetensors"})
    with pytest.raises(CheckpointError, match=r"one\.safetensors: tensor 'b' is missing though .* lists it there"):
        open_sharded_tensors(index, CheckpointError)


def test_an_absent_shard_is_named(tmp_path: Path) -> None:
    index = shard(tmp_path, {"a": "three.safetensors"})
    with pytest.raises(CheckpointError, match=r"three\.safetensors: the file does not exist"):
        open_sharded_tensors(index, CheckpointError)


@pytest.mark.parametrize("weight_map", [None, {}, [], "one.safetensors"])
def test_an_index_without_a_weight_map_is_refused(tmp_path: Path, weight_map: object) -> None:
    with pytest.raises(CheckpointError, match=r"index\.json: field 'weight_map' must be an object"):
        open_sharded_tensors(shard(tmp_path, weight_map), CheckpointError)


@pytest.mark.parametrize("target", ["../one.safetensors", "/etc/passwd", "", 3])
def test_an_index_that_leaves_its_directory_is_refused(tmp_path: Path, target: object) -> None:
    with pytest.raises(CheckpointError, match="which is not a file name"):
        open_sharded_tensors(shard(tmp_path, {"a": target}), CheckpointError)
