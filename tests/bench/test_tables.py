"""Results on a terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from cpspec_trt.bench.tables import banner, print_result
from tests.bench.results import code2wav_result, result, setting, spread


def printed(found: dict[str, Any]) -> list[str]:
    stream = io.StringIO()
    print_result(found, Console(file=stream, width=80))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("times", [0.01, 1, 200])
def test_every_line_fits_eighty_columns_and_no_cell_is_cut(times: float) -> None:
    found = result()
    for each in found["settings"]:
        each["time_to_first_audio_ms"] = spread(900 * times, 100 * times)
        each["ms_per_frame"] = spread(60 * times, 5 * times)
        for stage in each["stages"].values():
            stage["ms"] = spread(50 * times, 5 * times)
    lines = printed(found)
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)


def test_a_regression_is_printed_like_a_gain() -> None:
    lines = printed(result())
    rows = {line.split()[0]: line.split() for line in lines if line.strip()[:2] in ("2 ", "3 ")}
    text = "\n".join(lines)
    assert rows
    assert "1.30" in text
    assert "0.80" in text
    assert "0.70–0.90" in text  # its quartiles


def test_what_a_realtime_factor_is_and_the_contract_stand_in_the_output() -> None:
    text = " ".join(" ".join(printed(result())).split())
    for part in ("audio seconds made per second of computing", "fp32", "onnxruntime 1.32.0", "1 thread", "a CPU"):
        assert part in text
    assert "“say [this]”" in text  # brackets are the request's, not markup
    assert "temperature 0.9, top-k 50, top-p 1, seed 42" in text


def test_random_weights_are_labelled_wherever_their_figures_are_shown() -> None:
    assert banner(result()) is None
    synthetic = {"configuration": "0.6B", "acceptance": 0.5}
    lines = printed(result(synthetic=synthetic))
    assert lines[0].startswith("SYNTHETIC: random weights of 0.6B, acceptance set to 0.5")


def test_on_a_device_what_was_not_measured_is_a_dash_and_a_word() -> None:
    unexamined = {"predicted_speedup": None, "acceptance_by_depth": None, "frame_loop": None}
    settings = [setting("off", 1.0, **unexamined), setting("2", 1.2, **unexamined)]
    text = " ".join(" ".join(printed(result(settings=settings, laws=None, passes=None))).split())
    assert "measured on ONNX Runtime engines alone" in text
    assert "None" not in text


def test_code2wav_alone_has_a_line_per_chunk() -> None:
    text = " ".join(" ".join(printed(code2wav_result())).split())
    assert "4 9.00" in text
    assert "CodePredictor" not in text


@pytest.mark.parametrize("offsets", [1, 7])
def test_as_many_offsets_as_were_drafted_are_shown(offsets: int) -> None:
    rows = [{"offset": at + 1, "proposed": 9, "reached": 9, "accepted": 3, "rate": 1 / 3} for at in range(offsets)]
    found = result(settings=[setting("off", 1.0), setting("8", 1.2, acceptance_by_offset=rows)])
    line = next(line for line in printed(found) if line.strip().startswith("accepted, 8"))
    assert line.split().count("33") == offsets


@pytest.mark.parametrize(("load", "said"), [(0.4, False), (3.0, True)])
def test_a_busy_machine_is_said_to_be_busy(load: float, said: bool) -> None:
    found = result()
    found["contract"]["machine"]["load_average"] = [load, load, load]
    assert ("BUSY: trust ratios, not times" in " ".join(" ".join(printed(found)).split())) is said
