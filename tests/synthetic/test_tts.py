"""Synthetic checkpoints against the PyTorch reference's own module tree and files."""

from __future__ import annotations

import hashlib
import json
import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.errors import UsageError
from cpspec_trt.synthetic.language_model_layout import language_model_tensors
from cpspec_trt.synthetic.spec import SPECS
from cpspec_trt.synthetic.speech_layout import speech_tensors
from cpspec_trt.synthetic.tts import write_tts_checkpoint
from tests.golden_cases import GoldenCheckpoint, golden_checkpoints, tensor_layouts
from tests.synthetic.stored_tensors import read_file, read_header, read_model

Maker = Callable[[str, int], Path]


@pytest.mark.parametrize("golden", golden_checkpoints(), ids=lambda golden: golden.spec)
def test_spec_and_seed_give_the_bytes_the_goldens_were_made_with(
    golden: GoldenCheckpoint, synthetic_checkpoint: Maker
) -> None:
    root = synthetic_checkpoint(golden.spec, golden.seed)
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == golden.sha256


def test_another_seed_gives_other_weights_in_the_same_layout(synthetic_checkpoint: Maker, tmp_path: Path) -> None:
    write_tts_checkpoint(tmp_path / "other", SPECS["tiny"], 55)
    first, second = read_model(synthetic_checkpoint("tiny", 54)), read_model(tmp_path / "other")
    assert first.keys() == second.keys()
    same = {name for name in first if np.array_equal(first[name], second[name])}
    assert all(name.endswith("codebook.initialized") for name in same)


@pytest.mark.parametrize("name", sorted(tensor_layouts()))
def test_every_tensor_of_the_reference_is_planned_with_its_shape_and_no_other(name: str) -> None:
    planned = {plan.name: list(plan.shape) for plan in language_model_tensors(SPECS[name])}
    planned |= {f"speech_tokenizer:{plan.name}": list(plan.shape) for plan in speech_tensors(SPECS[name])}
    assert planned == tensor_layouts()[name]


@pytest.mark.parametrize("name", ["tiny", "tiny_square", "tiny_design"])
def test_the_files_hold_every_planned_tensor(name: str, synthetic_checkpoint: Maker) -> None:
    root = synthetic_checkpoint(name, 54)
    found = {tensor: list(values.shape) for tensor, values in read_model(root).items()}
    speech = read_file(root / "speech_tokenizer" / "model.safetensors")
    found |= {f"speech_tokenizer:{tensor}": list(values.shape) for tensor, values in speech.items()}
    assert found == tensor_layouts()[name]


def test_the_projection_exists_exactly_when_the_widths_differ() -> None:
    projection = "talker.code_predictor.small_to_mtp_projection.weight"
    planned = {name: {plan.name for plan in language_model_tensors(spec)} for name, spec in SPECS.items()}
    with_projection = {name for name, tensors in planned.items() if projection in tensors}
    assert with_projection == {"tiny", "tiny_design", "real_code_predictor", "published_1b7"}


def test_the_published_sizes_have_the_published_parameter_counts() -> None:
    body = "talker.code_predictor.model.layers."
    for name in ("published_0b6", "published_1b7", "real_code_predictor"):
        plans = language_model_tensors(SPECS[name])
        sizes = {plan.name: plan.size for plan in plans}
        layers = sum(size for tensor, size in sizes.items() if tensor.startswith(body))
        assert layers + sizes["talker.code_predictor.model.norm.weight"] == 78_655_744
        assert sizes["talker.code_predictor.lm_head.14.weight"] == 2_097_152
    decoder = sum(plan.size for plan in speech_tensors(SPECS["published_0b6"]) if plan.name.startswith("decoder."))
    assert round(decoder / 1e6) == 114


def test_the_shards_and_their_index_agree(synthetic_checkpoint: Maker) -> None:
    root = synthetic_checkpoint("tiny_square", 54)
    limit = SPECS["tiny_square"].shard_bytes
    assert limit is not None
    index = json.loads((root / "model.safetensors.index.json").read_text())
    shards = {path.name: read_header(path) for path in root.glob("model-*.safetensors")}
    assert len(shards) == 3
    assert {name: shard for shard, header in shards.items() for name in header} == index["weight_map"]
    sizes = {shard: max(entry["data_offsets"][1] for entry in header.values()) for shard, header in shards.items()}
    assert sum(sizes.values()) == index["metadata"]["total_size"]
    assert all(size <= limit for size in sizes.values())
    assert not (root / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("name", "stored", "unit"), [("tiny_square", "BF16", 2.0**-8), ("tiny_design", "F16", 2.0**-11)]
)
def test_the_dtypes_store_the_float32_weights_rounded_to_nearest(
    name: str, stored: str, unit: float, synthetic_checkpoint: Maker
) -> None:
    tensor = "talker.model.layers.1.mlp.down_proj.weight"
    exact = read_model(synthetic_checkpoint("tiny", 54))[tensor]
    root = synthetic_checkpoint(name, 54)
    headers = [read_header(path) for path in root.glob("model*.safetensors")]
    assert {entry["dtype"] for header in headers for entry in header.values()} == {stored}
    rounded = read_model(root)[tensor]
    assert not np.array_equal(rounded, exact)
    assert np.all(np.abs(rounded - exact) <= unit * np.abs(exact) + 2.0**-25)  # F16 is coarser below its normal range


def test_the_end_of_speech_row_is_scaled_and_nothing_else(synthetic_checkpoint: Maker) -> None:
    end = json.loads((synthetic_checkpoint("tiny", 54) / "config.json").read_text())["talker_config"]
    never = read_model(synthetic_checkpoint("tiny", 54))["talker.codec_head.weight"]
    natural = read_model(synthetic_checkpoint("tiny_design", 54))["talker.codec_head.weight"]
    row = end["codec_eos_token_id"]
    assert not never[row].any()
    assert natural[row].std() > 0.1
    np.testing.assert_array_equal(np.delete(never, row, 0).astype(np.float16), np.delete(natural, row, 0))


def test_weights_are_spread_as_their_law_says(synthetic_checkpoint: Maker) -> None:
    weights = read_model(synthetic_checkpoint("tiny", 54))
    gate = weights["talker.model.layers.0.mlp.gate_proj.weight"]
    assert abs(gate.mean()) < 0.01
    assert gate.std() == pytest.approx(1.5 / math.sqrt(64), rel=0.03)
    assert weights["talker.model.layers.0.self_attn.q_norm.weight"].mean() == pytest.approx(1.0, abs=0.1)


def test_writing_takes_little_memory_whatever_the_size(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        write_tts_checkpoint(tmp_path / "real", SPECS["real_code_predictor"], 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "real" / "model.safetensors").stat().st_size > 200e6
    assert peak < 48e6


def test_a_directory_with_something_in_it_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("keep")
    with pytest.raises(UsageError, match="is not empty"):
        write_tts_checkpoint(tmp_path, SPECS["tiny"], 1)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]
