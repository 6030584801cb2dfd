"""What is lowered how: the tables, and arguments that are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from cpspec_trt.builder.profiles import COMPONENTS
from cpspec_trt.errors import UsageError
from cpspec_trt.graphs.lowering.islands import ISLANDS as RULES
from cpspec_trt.graphs.lowering.lowered import BACKENDS, ISLANDS, islands_of, lower, lower_file
from tests.conftest import ROOT
from tests.graphs.lowering.conftest import Open
from tests.graphs.lowering.exports import GRAPHS

PAGE = ROOT / "docs" / "lowering.md"


def test_every_component_has_a_row_of_known_islands() -> None:
    assert ISLANDS.keys() == set(COMPONENTS)
    assert {island for names in ISLANDS.values() for island in names} == RULES.keys()


def test_the_page_names_every_island_for_its_components() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    page = {row[0].strip(): {name.strip() for name in row[2].split(",")} for row in rows if row[0].strip() in RULES}
    assert page == {name: {part for part, names in ISLANDS.items() if name in names} for name in RULES}


def test_bf16_does_without_the_island_that_only_range_asks_for() -> None:
    assert set(islands_of("code_predictor", "fp16")) - set(islands_of("code_predictor", "bf16")) == {"down projection"}


@pytest.mark.parametrize(
    ("component", "precision", "backend", "complaint"),
    [
        ("vocoder", "fp16", "tensorrt", "component 'vocoder' is unknown; use one of thinker, talker, code_predictor"),
        ("talker", "fp8", "tensorrt", "precision 'fp8' is unknown; use one of fp32, fp16, bf16"),
        ("talker", "fp16", "tensorrt-llm", "backend 'tensorrt-llm' is unknown; use one of onnxruntime, tensorrt"),
    ],
)
def test_an_unknown_word_is_refused_with_those_that_are_known(
    exported: Open, component: str, precision: str, backend: str, complaint: str
) -> None:
    model = exported("tts talker").model
    with pytest.raises(UsageError, match=complaint):
        lower(model, component, precision, backend)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_path_and_a_graph_lower_to_the_same(exported: Open, name: str, backend: str) -> None:
    found = exported(name)
    assert lower(found.path, found.component, "fp16", backend) == lower(found.model, found.component, "fp16", backend)


@pytest.mark.parametrize("form", ["in memory", "to a file"])
def test_a_lowered_graph_keeps_its_opset_and_producer(exported: Open, tmp_path: Path, form: str) -> None:
    found = exported("omni talker")
    make: dict[str, Callable[[], onnx.ModelProto]] = {
        "in memory": lambda: lower(found.model, "talker", "bf16", "tensorrt-rtx"),
        "to a file": lambda: written(found.path, tmp_path / "low.onnx"),
    }
    lowered = make[form]()
    assert [(entry.domain, entry.version) for entry in lowered.opset_import] == [("", 24)]
    assert (lowered.ir_version, lowered.producer_name) == (found.model.ir_version, "cpspec_trt")


def written(source: Path, target: Path) -> onnx.ModelProto:
    lower_file(source, target, "talker", "bf16", "tensorrt-rtx")
    return onnx.load(target, load_external_data=False)
