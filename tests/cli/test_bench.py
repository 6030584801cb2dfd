"""``cpspec-bench`` as a user runs it."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cpspec_trt.cli.bench import main
from tests.bench.requests import write_requests
from tests.cli.runs import Result, assert_one_clear_line, omni_document
from tests.conftest import Maker

QUICK = ("--threads", 1, "--repetitions", 2, "--frames", 4)
FIGURES = {
    *("name", "window", "rule", "tree_width", "ms_per_frame", "stages", "realtime_factor", "time_to_first_frame_ms"),
    *("time_to_first_audio_ms", "speedup_code_predictor", "speedup_request", "frames", "passes_per_frame", "guarded"),
    *("rounds_per_frame", "codes_per_round", "acceptance_by_offset", "acceptance_by_depth", "predicted_speedup"),
    "frame_loop",
}


def bench(*arguments: object) -> Result:
    words = list(map(str, arguments))
    result = CliRunner().invoke(main, words)
    return subprocess.CompletedProcess(words, result.exit_code, result.stdout, result.stderr)


def measured(directory: Path, *arguments: object) -> dict[str, Any]:
    """The JSON of a run that succeeds; its PNG is there too."""
    target, picture = directory / "out" / "bench.json", directory / "out" / "bench.png"
    result = bench(*arguments, *QUICK, "--outputFile", target, "--plotFile", picture)
    assert result.returncode == 0, result.stderr
    assert "realtime factor: audio seconds made per second of computing" in " ".join(result.stdout.split())
    assert picture.read_bytes().startswith(b"\x89PNG")
    found: dict[str, Any] = json.loads(target.read_text())
    return found


def assert_spread(figure: dict[str, float], count: int | None = None) -> None:
    assert 0 < figure["q1"] <= figure["median"] <= figure["q3"]
    assert count is None or figure["count"] == count


def test_whole_requests_of_the_demo_voice_have_every_figure(demo_engines: Path, tmp_path: Path) -> None:
    texts = ("the mother is in the kitchen now", "the dog is in the garden")
    input_file = write_requests(tmp_path, *texts, language="English")
    found = measured(tmp_path, demo_engines, "--inputFile", input_file, "--cpSpecVerifySize", "2,4")
    assert found["stage"] == "all"
    assert found["synthetic"] is None
    off, *settings = found["settings"]
    assert [each["name"] for each in (off, *settings)] == ["off", "2", "4"]
    for each in found["settings"]:
        assert each.keys() == FIGURES
        assert each["frames"] == 2 * 2 * 4
        assert set(each["stages"]) == {
            *("talker_prefill", "talker_generation", "codepredictor_prefill", "codepredictor_generation", "code2wav")
        }
        assert math.isclose(sum(stage["share"] for stage in each["stages"].values()), 1)
        for name in ("speedup_code_predictor", "speedup_request", "time_to_first_audio_ms", "realtime_factor"):
            assert_spread(each[name], count=4)
        for name in ("engine_ms", "heads_ms", "acceptance_ms", "host_ms", "host_us_per_round"):
            assert_spread(each["frame_loop"][name], count=8)
    assert (off["passes_per_frame"], off["rounds_per_frame"], off["codes_per_round"]) == (15, 0, None)
    assert off["predicted_speedup"] == pytest.approx(1)
    assert off["speedup_request"]["q1"] == off["speedup_request"]["q3"] == 1
    for each in settings:
        assert each["passes_per_frame"] == each["rounds_per_frame"] + 1 < 15
        assert each["codes_per_round"] * each["rounds_per_frame"] == pytest.approx(14)
        assert len(each["acceptance_by_offset"]) == each["window"] - 1
        assert {row["depth"] for row in each["acceptance_by_depth"]} <= set(range(2, 15))
    laws = found["laws"]
    assert [len(row) for row in laws["alpha"]] == [15] * 3
    assert [sum(value is None for value in row) for row in laws["alpha"]] == [1, 2, 3]
    assert len(laws["entropy_bits"]) == len(laws["top1"]) == len(laws["marginal_alpha"]) == 15
    assert laws["talker"]["top1"]["count"] == 8
    assert set(found["passes"]["bytes_of_round"]) == {"off", "2", "4"}
    assert found["passes"]["body"]["share_of_plain_read"] > 0
    assert found["peak_memory_bytes"] > 10_000_000


def test_the_contract_of_a_run_is_in_its_output(synthetic_engines: Maker, tmp_path: Path) -> None:
    input_file = write_requests(tmp_path, "hello world", sampling_seed=7, surprise=1, subtalker_temperature=0.8)
    contract = measured(tmp_path, synthetic_engines("tiny", 54), "--inputFile", input_file)["contract"]
    assert contract["family"] == "Qwen3-TTS"
    assert "surprise" in contract["warnings"][0]
    assert set(contract["engines"]) == {"talker", "code_predictor", "code2wav"}
    engine = contract["engines"]["code_predictor"]
    assert (engine["model"], engine["dtype"], engine["backend"]) == ("qwen3_tts_code_predictor", "fp32", "onnxruntime")
    assert (contract["threads"], contract["batch"], contract["repetitions"]) == (1, 1, 2)
    (request,) = contract["requests"]
    assert (request["text"], request["sampling_seed"], request["subtalker_temperature"]) == ("hello world", 7, 0.8)
    assert request["frames"] == 4
    assert {"cpspec_trt", "python", "numpy", "onnxruntime"} <= set(contract["versions"])
    machine = contract["machine"]
    assert machine["processor"]
    assert machine["gpu"] is None
    assert len(machine["load_average"]) == 3


def test_the_frame_loop_alone_has_the_figures_of_the_frame_loop(synthetic_engines: Maker, tmp_path: Path) -> None:
    input_file = write_requests(tmp_path, "hello world")
    rules = ("--cpSpecRule", "rejection", "--cpSpecRule", "coupled", "--cpSpecTreeWidth", 2)
    engines = synthetic_engines("tiny", 54)
    found = measured(
        tmp_path, engines, "--inputFile", input_file, "--stage", "code_predictor", "--cpSpecVerifySize", 3, *rules
    )
    assert [each["name"] for each in found["settings"]] == ["off", "3", "3 coupled", "3 coupled tree 2,2"]
    for each in found["settings"]:
        assert each.keys() == FIGURES
        assert set(each["stages"]) == {"codepredictor_prefill", "codepredictor_generation"}
        assert each["speedup_request"] is None
        assert each["time_to_first_audio_ms"] is None
        assert_spread(each["speedup_code_predictor"], count=2)
    assert found["settings"][3]["tree_width"] == [2, 2]
    assert found["laws"]["talker"]["entropy_bits"]["count"] == 4


def test_omni_answers_are_thought_once_and_spoken_under_every_setting(omni_engines: Maker, tmp_path: Path) -> None:
    input_file = tmp_path / "input.json"
    input_file.write_text(json.dumps(omni_document()))
    found = measured(tmp_path, omni_engines("tiny", 1), "--inputFile", input_file, "--cpSpecVerifySize", "2")
    assert found["contract"]["family"] == "Qwen3-Omni"
    assert found["contract"]["requests"][0]["text"] == "hello world, how are you today?"
    assert [each["frames"] for each in found["settings"]] == [8, 8]
    assert found["laws"]["entropy_bits"] == [0] * 15  # this request is greedy


def test_random_weights_cost_the_same_and_accept_as_asked(tmp_path: Path) -> None:
    given = ("--synthetic", "tiny", "--stage", "code_predictor", "--acceptance", 1, "--cpSpecVerifySize", "auto,8")
    found = measured(tmp_path, *given)
    assert found["synthetic"] == {"configuration": "tiny", "acceptance": 1}
    assert found["contract"]["frames_are"] == "random"
    assert found["settings"][2]["passes_per_frame"] == 3  # c1, then 8 codes, then 6
    assert {row["rate"] for row in found["settings"][2]["acceptance_by_offset"]} == {1}
    assert found["laws"]["talker"] is None


def test_whole_requests_of_random_weights_accept_as_asked_too(tmp_path: Path) -> None:
    found = measured(tmp_path, "--synthetic", "tiny", "--acceptance", 1, "--cpSpecVerifySize", "8")
    assert found["settings"][1]["passes_per_frame"] == 3
    assert found["settings"][1]["frames"] == 8


def test_code2wav_alone_is_measured_by_chunk(tmp_path: Path) -> None:
    found = measured(tmp_path, "--synthetic", "tiny", "--stage", "code2wav")
    assert [each["chunk_frames"] for each in found["chunks"]] == [1, 4]
    for each in found["chunks"]:
        assert_spread(each["ms_per_frame"], count=2)
        assert_spread(each["realtime_factor"], count=2)
    assert "settings" not in found


def test_without_places_for_results_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = bench("--synthetic", "tiny", "--stage", "code2wav", *QUICK)
    assert result.returncode == 0
    assert result.stdout.startswith("SYNTHETIC: random weights of tiny; nothing here says")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((), ("give either ENGINES",)),
        (("--synthetic", "7B"), ("--synthetic", "0.6B, 1.7B, Omni, tiny")),
        (("--synthetic", "tiny", "--cpSpecVerifySize", "2,9"), ("--cpSpecVerifySize", "the range is 2 to 8")),
        (("--synthetic", "tiny", "--cpSpecVerifySize", "2;3"), ("--cpSpecVerifySize", "2;3")),
        (("--synthetic", "tiny", "--cpSpecTreeWidth", "2"), ("--cpSpecTreeWidth", "needs the rule coupled")),
        (("--synthetic", "tiny", "--cpSpecRule", "lossy"), ("--cpSpecRule", "lossy")),
        (("--synthetic", "tiny", "--frames", "0"), ("--frames is 0",)),
        (("--synthetic", "Omni"), ("--synthetic Omni", "--stage code_predictor or code2wav")),
        (("--synthetic", "tiny", "--outputFile", "/proc/none/x.json"), ("--outputFile", "cannot be written")),
        (("--synthetic", "tiny", "--outputFile", "same", "--plotFile", "same"), ("--plotFile same", "--outputFile")),
    ],
)
def test_flags_that_cannot_work_end_in_one_clear_line(
    arguments: tuple[str, ...], parts: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_clear_line(bench(*arguments), 2, *parts)


def test_a_request_that_does_not_fit_is_named_with_its_file(synthetic_engines: Maker, tmp_path: Path) -> None:
    input_file = write_requests(tmp_path, "hello", speaker="nobody")
    result = bench(synthetic_engines("tiny", 54), "--inputFile", input_file, *QUICK)
    assert_one_clear_line(result, 2, str(input_file), "requests[0]", "nobody")


def test_engines_that_are_not_there_are_named(tmp_path: Path) -> None:
    result = bench(tmp_path / "nowhere", "--inputFile", write_requests(tmp_path, "hello"), *QUICK)
    assert_one_clear_line(result, 1, str(tmp_path / "nowhere" / "talker"), "does not exist")
