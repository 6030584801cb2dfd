"""The GPU check's comparison of engines, without a GPU: commands, agreement, faults, and a run over ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cpspec_trt.cli.build import main as build
from scripts.gpu import engines
from scripts.gpu.engines import Agreement, Engines, FrameClock, Spoken, faults, speak, table, tensorrt_backend, unlike
from tests.conftest import DEMO_CHECKPOINT
from tests.simulation.conftest import build_simulated
from tests.simulation.simulation import simulated

CODES = np.arange(12, dtype=np.int32).reshape(3, 4)


def _spoken(window: int, codes: np.ndarray = CODES, milliseconds: float = 10.0, name: str = "tensorrt-fp32") -> Spoken:
    return Spoken(name, window, codes, milliseconds, 15.0, 2)


def _changed(frame: int, depth: int) -> np.ndarray:
    codes = CODES.copy()
    codes[frame:, depth:] += 1
    return codes


@pytest.mark.parametrize("precision", [None, "fp32"])
def test_the_build_command_is_one_that_cpspec_build_takes(tmp_path: Path, precision: str | None) -> None:
    command = Engines("onnxruntime", precision).build_command(tmp_path / "engines")
    assert command[1:3] == ["-m", "cpspec_trt.cli.build"]
    done = CliRunner().invoke(build, [*command[3:], "--dryRun"])
    assert done.exit_code == 0, done.output
    assert ("--precision" in command) == (precision is not None)


@pytest.mark.parametrize(
    ("others", "equal", "first", "said"),
    [
        (CODES, 3, None, "all"),
        (_changed(1, 2), 1, (1, 2), "1 of 3, then depth 2"),
        (CODES[:2], 2, (2, 0), "2 of 3, then depth 0"),
        (np.vstack([CODES, CODES]), 3, (3, 0), "3 of 6, then depth 0"),
        (CODES[:0], 0, (0, 0), "0 of 3, then depth 0"),
    ],
)
def test_agreement_counts_frames_up_to_the_first_difference(
    others: np.ndarray, equal: int, first: tuple[int, int] | None, said: str
) -> None:
    agreement = Agreement.of(CODES, others)
    assert (agreement.equal, agreement.first, str(agreement)) == (equal, first, said)


def test_in_fp32_a_window_whose_codes_are_not_the_autoregressive_loops_is_a_fault() -> None:
    (fault,) = faults([_spoken(0), _spoken(3), _spoken(4, _changed(2, 1))], _spoken(0), True)
    assert fault.startswith("tensorrt-fp32: greedy codes with a window of 4 are not")
    assert fault.endswith("2 of 3, then depth 1")


def test_in_less_than_fp32_such_a_window_is_counted_in_the_table_instead() -> None:
    spoken = [_spoken(0), _spoken(4, _changed(2, 1))]
    assert faults(spoken, _spoken(0), False) == []
    head, _, *rows = table(spoken, None)
    assert [row.split(" | ")[6] for row in (head, *rows)] == ["codes unlike off", "–", "25.00%"]


@pytest.mark.parametrize(
    ("others", "share"),
    [(CODES, 0), (_changed(1, 2), 4 / 12), (CODES[:2], 4 / 12), (CODES[:0], 1), (np.vstack([CODES, CODES]), 0.5)],
)
def test_the_share_of_codes_that_differ_counts_frames_that_one_run_lacks(others: np.ndarray, share: float) -> None:
    assert unlike(CODES, others) == pytest.approx(share)
    assert unlike(others, CODES) == pytest.approx(share)
    assert unlike(CODES[:0], CODES[:0]) == 0


@pytest.mark.parametrize(
    ("backend", "precision", "strict"),
    [("onnxruntime", None, True), ("tensorrt", "fp32", True), ("tensorrt-rtx", None, False), ("tensorrt", None, False)],
)
def test_only_engines_that_compute_in_fp32_are_held_to_every_code(
    backend: str, precision: str | None, strict: bool
) -> None:
    assert Engines(backend, precision).is_fp32 is strict


def test_a_first_frame_that_is_not_onnx_runtimes_is_a_fault_where_it_counts_and_later_ones_are_not() -> None:
    late, early = [_spoken(0, _changed(1, 0))], [_spoken(0, _changed(0, 3))]
    assert faults(late, _spoken(0), True) == []
    assert faults(early, _spoken(0), False) == faults(early, None, True) == []
    (fault,) = faults(early, _spoken(0), True)
    assert "the first frame is not ONNX Runtime's; frames like it: 0 of 3, then depth 3" in fault


def test_the_table_shows_each_window_beside_the_autoregressive_loop_of_its_engines() -> None:
    rows = table([_spoken(0, milliseconds=12), _spoken(3, _changed(1, 2), 8), _spoken(0, name="other")], _spoken(0))
    assert rows[2:] == [
        "| tensorrt-fp32 | off | 12.00 | 1.00 | 15.0 | 2 | – | all |",
        "| tensorrt-fp32 | 3 | 8.00 | 1.50 | 15.0 | 2 | 33.33% | 1 of 3, then depth 2 |",
        "| other | off | 10.00 | 1.00 | 15.0 | 2 | – | all |",
    ]
    assert table([_spoken(0)], None)[2].endswith("| – |")


@pytest.mark.parametrize(
    ("capability", "installed", "backend"),
    [
        (90, ["tensorrt", "tensorrt-rtx"], "tensorrt"),
        (89, ["tensorrt-rtx"], "tensorrt-rtx"),
        (90, ["tensorrt-rtx"], None),
        (120, [], None),
    ],
)
def test_full_tensorrt_comes_first_and_the_other_flavour_only_for_gpus_it_takes(
    capability: int, installed: list[str], backend: str | None
) -> None:
    assert tensorrt_backend(capability, installed) == backend


def test_a_frame_takes_the_time_from_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([10.0, 10.5, 10.501, 10.503])  # the first frame's own time, the prefill, does not count
    monkeypatch.setattr(engines.time, "perf_counter", lambda: next(moments))
    clock = FrameClock()
    for frame in range(4):
        clock.frame_finished(frame + 1)
    assert clock.median_milliseconds == pytest.approx(2.0)


def test_every_window_speaks_with_the_same_greedy_codes_over_onnx_runtime(
    demo_engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "TEXT", "yes")
    monkeypatch.setattr(engines, "WINDOWS", (0, 3))
    spoken = speak("onnxruntime-default", demo_engines)
    assert [each.window for each in spoken] == [0, 3]
    assert faults(spoken, spoken[0], True) == []
    assert spoken[0].passes == 15 > spoken[1].passes
    assert all(each.milliseconds > 0 for each in spoken)


def test_on_the_simulated_gpu_every_window_speaks_the_codes_of_onnx_runtime(
    demo_engines: Path, shared_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "TEXT", "yes")
    monkeypatch.setattr(engines, "WINDOWS", (0, 3))
    reference, *_ = speak("onnxruntime-default", demo_engines)
    root = build_simulated(shared_directory / "device-engines-demo", DEMO_CHECKPOINT)
    with simulated() as simulation:
        spoken = speak("tensorrt-fp32", root)
        assert simulation.counts.graph_launches > 0
    assert faults(spoken, reference, True) == []
    assert [row.split(" | ")[-1] for row in table(spoken, reference)[2:]] == ["all |", "all |"]


def test_engines_that_cannot_be_built_cost_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "CHECKPOINT", tmp_path / "none")
    lines, found = engines.check_engines("tensorrt", tmp_path)
    assert lines == []
    names = ["onnxruntime-default", "tensorrt-fp32", "tensorrt-default"]
    assert [fault.split(":")[0] for fault in found] == names
    assert all(": cpspec-build ended with " in fault for fault in found)
