"""Synthetic Qwen3-Omni checkpoints against the files of the PyTorch reference."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.errors import UsageError
from cpspec_trt.synthetic.omni import write_omni_checkpoint
from cpspec_trt.synthetic.omni_layout import omni_tensors
from cpspec_trt.synthetic.omni_spec import OMNI_SPECS
from tests.conftest import Maker
from tests.golden_cases import GoldenCheckpoint
from tests.omni_golden_cases import LayoutDigest, omni_golden_checkpoints, omni_layout_digests, omni_tensor_layouts
from tests.synthetic.stored_tensors import read_header, read_model

SEED = 54


@pytest.mark.parametrize("golden", omni_golden_checkpoints(), ids=lambda golden: golden.spec)
def test_spec_and_seed_give_the_bytes_the_goldens_were_made_with(
    golden: GoldenCheckpoint, omni_checkpoint: Maker
) -> None:
    root = omni_checkpoint(golden.spec, golden.seed)
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == golden.sha256


def test_another_seed_gives_other_weights_in_the_same_layout(omni_checkpoint: Maker) -> None:
    first, second = (read_model(omni_checkpoint("tiny", seed)) for seed in (SEED, SEED + 1))
    assert first.keys() == second.keys()
    assert not [name for name in first if np.array_equal(first[name], second[name])]


@pytest.mark.parametrize("name", sorted(omni_tensor_layouts()))
def test_every_tensor_of_the_reference_is_planned_with_its_shape_and_no_other(name: str) -> None:
    planned = {plan.name: list(plan.shape) for plan in omni_tensors(OMNI_SPECS[name])}
    assert planned == omni_tensor_layouts()[name]


@pytest.mark.parametrize("name", sorted(OMNI_SPECS))
def test_the_whole_list_of_tensors_is_the_references(name: str) -> None:
    planned = sorted((plan.name, list(plan.shape)) for plan in omni_tensors(OMNI_SPECS[name]))
    lines = "".join(f"{tensor} {shape}\n" for tensor, shape in planned)
    digest = LayoutDigest(tensors=len(planned), sha256=hashlib.sha256(lines.encode()).hexdigest())
    assert digest == omni_layout_digests()[name]


@pytest.mark.parametrize("name", ["tiny", "tiny_ending", "tiny_terse"])
def test_the_files_hold_every_planned_tensor(name: str, omni_checkpoint: Maker) -> None:
    found = {tensor: values.shape for tensor, values in read_model(omni_checkpoint(name, SEED)).items()}
    assert found == {plan.name: plan.shape for plan in omni_tensors(OMNI_SPECS[name])}


def test_the_published_size_has_the_published_parameter_counts() -> None:
    sizes = {plan.name: plan.size for plan in omni_tensors(OMNI_SPECS["published_30b"])}

    def parameters(*prefixes: str) -> int:
        return sum(size for name, size in sizes.items() if name.startswith(prefixes))

    assert parameters("talker.") == 3_324_596_480
    assert parameters("code2wav.") == 216_016_577
    body = "talker.code_predictor.model."
    assert parameters(f"{body}layers.", f"{body}norm.") == 78_655_744
    assert sizes["talker.code_predictor.lm_head.14.weight"] == 2_097_152
    thinker = parameters("thinker.model.", "thinker.lm_head.")
    assert round(thinker / 1e9, 1) == 30.5


def test_real_layers_have_the_published_shapes() -> None:
    published = {plan.name: plan.shape for plan in omni_tensors(OMNI_SPECS["published_30b"])}
    for name, layer in (
        ("real_thinker_layer", "thinker.model.layers.0."),
        ("real_talker_layer", "talker.model.layers.0."),
    ):
        shapes = {plan.name: plan.shape for plan in omni_tensors(OMNI_SPECS[name]) if plan.name.startswith(layer)}
        assert shapes == {tensor: shape for tensor, shape in published.items() if tensor.startswith(layer)}
        assert f"{layer}mlp.experts.127.down_proj.weight" in shapes


def test_the_shards_and_their_index_agree(omni_checkpoint: Maker) -> None:
    root = omni_checkpoint("tiny_ending", SEED)
    index = json.loads((root / "model.safetensors.index.json").read_text())
    shards = {path.name: read_header(path) for path in root.glob("model-*.safetensors")}
    assert len(shards) == 4
    assert {name: shard for shard, header in shards.items() for name in header} == index["weight_map"]
    sizes = [max(entry["data_offsets"][1] for entry in header.values()) for header in shards.values()]
    assert sum(sizes) == index["metadata"]["total_size"]


@pytest.mark.parametrize(
    ("name", "stored", "unit"), [("tiny_ending", "BF16", 2.0**-8), ("tiny_terse", "F16", 2.0**-11)]
)
def test_the_dtypes_store_the_float32_weights_rounded_to_nearest(
    name: str, stored: str, unit: float, omni_checkpoint: Maker
) -> None:
    tensor = "thinker.model.layers.0.mlp.experts.7.down_proj.weight"
    exact = read_model(omni_checkpoint("tiny", SEED))[tensor]
    root = omni_checkpoint(name, SEED)
    headers = [read_header(path) for path in root.glob("model*.safetensors")]
    assert {entry["dtype"] for header in headers for entry in header.values()} == {stored}
    rounded = read_model(root)[tensor]
    assert not np.array_equal(rounded, exact)
    assert np.all(np.abs(rounded - exact) <= unit * np.abs(exact) + 2.0**-25)  # F16 is coarser below its normal range


def test_the_gains_scale_the_rows_of_the_two_ends_and_no_special_token_is_ever_said(omni_checkpoint: Maker) -> None:
    never, ending = (omni_checkpoint(name, SEED) for name in ("tiny", "tiny_ending"))
    config = json.loads((never / "config.json").read_text())
    for tensor, row in (
        ("thinker.lm_head.weight", config["im_end_token_id"]),
        ("talker.codec_head.weight", config["talker_config"]["codec_eos_token_id"]),
    ):
        silent, spoken = read_model(never)[tensor], read_model(ending)[tensor]
        assert not silent[row].any()
        assert spoken[row].std() > 1.2 * spoken[:64].std()
        np.testing.assert_allclose(np.delete(silent, row, 0), np.delete(spoken, row, 0), rtol=2.0**-8)
    said = np.flatnonzero(np.abs(read_model(ending)["thinker.lm_head.weight"]).max(axis=1))
    words = np.arange(OMNI_SPECS["tiny_ending"].text_base_vocab)
    np.testing.assert_array_equal(said, [*words, config["im_end_token_id"]])


def test_code_embeddings_have_unit_scale_after_the_mean_over_the_groups(omni_checkpoint: Maker) -> None:
    table = read_model(omni_checkpoint("tiny", SEED))["code2wav.code_embedding.weight"]
    codes = np.random.default_rng(1).integers(64, size=(500, 16)) + 64 * np.arange(16)
    assert table[codes].mean(axis=1).std() == pytest.approx(1.0, rel=0.05)


def test_experts_are_spread_as_their_law_says(omni_checkpoint: Maker) -> None:
    weights = read_model(omni_checkpoint("tiny", SEED))
    gate = np.stack([weights[f"talker.model.layers.1.mlp.experts.{expert}.gate_proj.weight"] for expert in range(6)])
    assert gate.std() == pytest.approx(1.5 / math.sqrt(48), rel=0.03)
    assert abs(gate.mean()) < 0.01


def test_a_directory_with_something_in_it_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("keep")
    with pytest.raises(UsageError, match="is not empty"):
        write_omni_checkpoint(tmp_path, OMNI_SPECS["tiny"], 1)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]
