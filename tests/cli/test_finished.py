"""What is left of a run that did not get to its end, and what a run keeps in memory while it goes on."""

from __future__ import annotations

import gc
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy
import soundfile

from cpspec_trt.api.omni import Omni
from cpspec_trt.api.speech import Speech
from cpspec_trt.api.tts import TTS
from tests.cli import runs
from tests.cli.runs import OmniRun, TtsRun, command, infer_here, omni_document, saying
from tests.conftest import ROOT, Maker

MANY = 60


@pytest.fixture(params=["tts", "omni"])
def run(
    request: pytest.FixtureRequest, tmp_path: Path, synthetic_engines: Maker, omni_engines: Maker
) -> TtsRun | OmniRun:
    if request.param == "tts":
        return TtsRun(tmp_path, synthetic_engines("tiny", 54) / "talker")
    return OmniRun(tmp_path, omni_engines("tiny", 1))


def content_of(run: TtsRun | OmniRun, count: int, frames: int) -> dict[str, Any]:
    """A file of several requests."""
    content = saying("hello world") if isinstance(run, TtsRun) else omni_document()
    return content | {"max_audio_length": frames, "requests": content["requests"] * count}


def started(line: str) -> int | None:
    """The request that a line of the debug log says is running now."""
    running = line.startswith("debug: requests[") and (" prompt rows" in line or " prompt tokens" in line)
    return int(line.split("[")[1].split("]")[0]) if running else None


def interrupt(run: TtsRun | OmniRun, at: int, *extra: object, frames: int = 60) -> tuple[int, list[str]]:
    """Send Ctrl-C while request ``at`` runs; exit code and the lines of stderr since then."""
    run.write(content_of(run, MANY, frames))
    call = command(*run.arguments("--debug", *extra))
    with subprocess.Popen(call, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if started(line) == at:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read().splitlines()
        return process.wait(timeout=60), rest


def test_ctrl_c_keeps_the_finished_requests_and_says_how_many_and_where(run: TtsRun | OmniRun, tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    code, lines = interrupt(run, 3, "--profileOutputFile", profile)
    done = len(run.responses)
    assert code == 130
    assert 3 <= done < MANY
    where = f"what they gave is in {run.output} and {run.audio}"
    assert lines[-1] == f"error: interrupted: {done} of {MANY} requests are done; {where}"
    assert not [line for line in lines if "Traceback" in line]
    assert any(line.split()[:2] == ["all", str(60 * done)] for line in lines), "no summary of what was done"
    assert json.loads(profile.read_text())["talker"]["total_runs"] == done
    assert [response["request_idx"] for response in run.responses] == list(range(done))
    for response in run.responses:
        assert soundfile.info(response["audio_file"]).frames == response["audio_samples"]
        assert safetensors.numpy.load_file(response["rvq_file"])["rvq_codes"].shape == (60, 16)
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".part")]


def test_ctrl_c_before_the_first_request_is_done_writes_nothing(run: TtsRun | OmniRun) -> None:
    run.output.parent.mkdir()
    run.output.write_text("earlier")
    code, lines = interrupt(run, 0, frames=300)
    assert code == 130
    assert lines[-1] == f"error: interrupted: 0 of {MANY} requests are done; nothing was written"
    assert run.output.read_text() == "earlier"
    assert list(run.audio.iterdir()) == []


def test_a_reader_of_stdout_that_leaves_early_does_not_take_the_results_along(run: TtsRun | OmniRun) -> None:
    run.write(content_of(run, 40, 20))
    call = command(*run.arguments("--dumpOutput"))
    with subprocess.Popen(call, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
    assert process.returncode == 1
    assert 1 <= len(run.responses) <= 40


def test_samples_and_codes_of_finished_requests_are_let_go(
    run: TtsRun | OmniRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[int] = []

    def counting(speak: Any) -> Any:
        def counted(*arguments: Any, **named: Any) -> Any:
            gc.collect()
            alive.append(sum(isinstance(found, Speech) for found in gc.get_objects()))
            return speak(*arguments, **named)

        return counted

    monkeypatch.setattr(TTS, "run", counting(TTS.run))
    monkeypatch.setattr(Omni, "say", counting(Omni.say))
    monkeypatch.setattr(runs, "infer", infer_here)
    result = run(content_of(run, 6, 3), "--dumpProfile")
    assert result.returncode == 0, result.stderr
    assert len(run.responses) == 6
    assert alive == [alive[0]] * 6, "speeches pile up"
