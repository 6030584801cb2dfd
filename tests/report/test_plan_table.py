"""The build plan as a table."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from cpspec_trt.builder.exported import read_export
from cpspec_trt.builder.profiles import BuildLimits, plan
from cpspec_trt.report.plan_table import print_plan
from tests.builder import tiny_exports


def table(directory: Path) -> list[list[str]]:
    exported = read_export(directory)
    stream = io.StringIO()
    print_plan([plan(exported.config, exported.inputs, BuildLimits())], Console(file=stream, width=160))
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_every_range_stands_in_a_row_and_layers_share_one(tmp_path: Path) -> None:
    rows = table(tiny_exports.write_code_predictor(tmp_path))
    assert rows[0] == ["code_predictor", "context", "inputs_embeds", "1×1×8", "4×8×8", "4×16×8", ""]
    assert rows[5] == ["code_predictor", "context", "past_key_0 … 1", "1×2×24×4", "4×2×24×4", "4×2×24×4", ""]
    assert rows[7] == ["code_predictor", "generation", "inputs_embeds", "1×1×8", "4×1×8", "4×8×8", "◀ widened"]
    assert len(rows) == 14


def test_only_what_is_wider_than_in_a_plain_build_is_marked(tmp_path: Path) -> None:
    marked = [row[1:3] for row in table(tiny_exports.write_code_predictor(tmp_path / "a")) if row[6]]
    assert marked == [["generation", name] for name in ("inputs_embeds", "attention_mask", "rope_cos", "rope_sin")]
    assert [row for row in table(tiny_exports.write_talker(tmp_path / "b")) if row[6]] == []


def test_what_widened_means_is_explained_only_where_it_stands(tmp_path: Path) -> None:
    for directory, explained in (
        (tiny_exports.write_code_predictor(tmp_path / "a"), True),
        (tiny_exports.write_talker(tmp_path / "b"), False),
    ):
        exported, stream = read_export(directory), io.StringIO()
        print_plan([plan(exported.config, exported.inputs, BuildLimits())], Console(file=stream, width=160))
        assert ("room for a verify pass" in stream.getvalue()) == explained


def test_two_equal_profiles_stand_once(tmp_path: Path) -> None:
    rows = table(tiny_exports.write_code2wav(tmp_path))
    assert {row[1] for row in rows} == {"both"}
    assert [row[2] for row in rows] == ["codes", "attention_mask", "rope_cos", "rope_sin", "state_key_0"]
