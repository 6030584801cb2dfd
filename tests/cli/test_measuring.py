"""``cpspec-build --measureCosts`` and adaptive windows that rest on it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from cpspec_trt import TTS
from cpspec_trt.api.costs import measure_pass_costs
from cpspec_trt.cli.build import main as build
from cpspec_trt.cli.measuring import measure_engine
from cpspec_trt.errors import EngineError, UsageError
from cpspec_trt.files.pass_costs import PASS_COSTS_FILE, read_pass_costs
from tests.conftest import Maker


@pytest.fixture
def engines(tmp_path: Path, synthetic_engines: Maker) -> Path:
    """A copy that a test may write to."""
    return Path(shutil.copytree(synthetic_engines("tiny", 54), tmp_path / "engines"))


def _speak(engines: Path, **arguments: object) -> tuple[list[list[int]], dict[str, object]]:
    with TTS(engines, threads=1) as tts:
        speech = tts.speak("hello world", speaker="ryan", max_frames=6, **arguments)  # type: ignore[arg-type]
    return speech.codes.tolist(), speech.statistics.to_json()


def test_times_are_printed_and_kept_beside_the_engine(engines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure_engine(engines, alone=True)
    costs = read_pass_costs(engines / "code_predictor")
    assert costs is not None
    assert costs.rows == (1, 2, 3, 4, 5, 6, 8)
    assert 0 < costs.seconds[0] <= costs.seconds[-1]
    assert "8 rows:" in capsys.readouterr().out
    assert measure_pass_costs(engines / "code_predictor")[0] == engines / "code_predictor" / PASS_COSTS_FILE


@pytest.mark.parametrize("alone", [True, False])
def test_an_engine_is_needed_and_nothing_else(tmp_path: Path, alone: bool) -> None:
    with pytest.raises(UsageError, match="--measureCosts"):
        measure_engine(tmp_path if alone else None, alone)


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_an_adaptive_window_needs_stored_times_where_codes_depend_on_windows(engines: Path, rule: str) -> None:
    with pytest.raises(EngineError, match=rf"rule {rule} needs stored pass costs.*cpspec-build --measureCosts"):
        _speak(engines, speculate="auto", rule=rule)
    measure_pass_costs(engines)
    first, second = (_speak(engines, speculate="auto", rule=rule) for _ in range(2))
    assert first == second
    assert first[1]["requested"] == "auto"
    assert sum(json.loads(json.dumps(first[1]["choices"])).values()) == first[1]["rounds"]


def test_an_adaptive_window_under_coupled_measures_by_itself_and_changes_no_code(engines: Path) -> None:
    plain, _ = _speak(engines, seed=5)
    codes, statistics = _speak(engines, seed=5, speculate="auto", rule="coupled")
    assert codes == plain
    assert statistics["rows_exact"] is True


def test_times_measured_for_coupled_are_none_that_rejection_may_use(engines: Path) -> None:
    with TTS(engines, threads=1) as tts:
        tts.speak("hello world", speaker="ryan", max_frames=2, speculate="auto", rule="coupled")
        with pytest.raises(EngineError, match="rule rejection needs stored pass costs"):
            tts.speak("hello world", speaker="ryan", max_frames=2, speculate="auto")


@pytest.mark.parametrize("flag", ["--maxVerifyRows=0", "--optInputLen=0", "--optimizationLevel=0", "--dryRun"])
def test_a_flag_beside_it_is_refused_whatever_its_value(tmp_path: Path, flag: str) -> None:
    done = CliRunner().invoke(build, ["--measureCosts", "--engineDir", str(tmp_path), flag])
    assert done.exit_code == 2
    assert "--measureCosts times an engine that exists: give it --engineDir only" in done.output


def test_every_rule_and_tree_reaches_the_rounds_and_the_record(engines: Path) -> None:
    plain, _ = _speak(engines, seed=5)
    for arguments, tree in (({"rule": "coupled"}, None), ({"rule": "coupled", "tree_width": 2}, [2, 2])):
        codes, statistics = _speak(engines, seed=5, speculate=3, **arguments)
        assert codes == plain
        assert (statistics["rule"], statistics["tree_width"], statistics["guarded"]) == ("coupled", tree, 0)
    _, statistics = _speak(engines, seed=5, speculate=3, rule="block")
    assert statistics["rule"] == "block"


def test_a_tree_wider_than_the_engine_names_the_command_that_builds_a_wider_one(engines: Path) -> None:
    with pytest.raises(EngineError, match=r"widths 4,4 has 21 rows.*accepts 8 new positions.*--maxVerifyRows 21"):
        _speak(engines, speculate=3, rule="coupled", tree_width=4)
