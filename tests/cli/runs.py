"""Invocations of ``cpspec-infer`` as a user makes them: a process, files, an exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from click.testing import CliRunner

from cpspec_trt.cli.infer import main
from tests.conftest import ROOT
from tests.engine_edits import accept_edits, edit_manifest

Result = subprocess.CompletedProcess[str]

SYSTEM = {"role": "system", "content": "Speak slowly."}
USER = {"role": "user", "content": "hello world, how are you today?"}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "cpspec_trt.cli.infer", *map(str, arguments)]


def infer(*arguments: object) -> Result:
    return subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def infer_here(*arguments: object) -> Result:
    """As ``infer`` without a process of its own, for what ends before an engine is opened."""
    words = list(map(str, arguments))
    result = CliRunner().invoke(main, words)
    return Result(words, result.exit_code, result.stdout, result.stderr)


def tts_document(**fields: Any) -> dict[str, Any]:
    """A Qwen3-TTS request file that works, with fields changed."""
    request = {"messages": [{"role": "assistant", "content": "hello world"}]}
    base = {"speaker": "ryan", "language": "english", "max_audio_length": 6, "requests": [request]}
    return base | {"do_sample": False, "subtalker_do_sample": False} | fields


def saying(*texts: Any) -> dict[str, Any]:
    return tts_document(requests=[{"messages": [{"role": "assistant", "content": text}]} for text in texts])


def omni_document(**fields: Any) -> dict[str, Any]:
    """A Qwen3-Omni request file that works, with fields changed."""
    base = {"max_generate_length": 6, "max_audio_length": 5, "requests": [{"messages": [SYSTEM, USER]}]}
    return base | {"do_sample": False, "talker_do_sample": False, "subtalker_do_sample": False} | fields


def assert_one_clear_line(result: Result, code: int, *parts: str) -> None:
    lines = [line for line in result.stderr.splitlines() if not line.startswith(("warning:", "info:"))]
    assert result.returncode == code, result.stderr
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    for part in parts:
        assert part in lines[0], lines[0]


class Run:
    """One invocation in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.input = directory / "input.json"
        self.output = directory / "out" / "output.json"
        self.audio = directory / "audio"

    def write(self, content: Any) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        self.input.write_text(text, encoding="utf-8")

    @property
    def responses(self) -> list[dict[str, Any]]:
        responses: list[dict[str, Any]] = json.loads(self.output.read_text())["responses"]
        return responses

    def codes(self, index: int = 0) -> np.ndarray:
        codes: np.ndarray = safetensors.numpy.load_file(self.responses[index]["rvq_file"])["rvq_codes"]
        return codes

    def left_nothing(self) -> bool:
        found = [*self.output.parent.rglob("*"), *self.audio.rglob("*")]
        return not [path for path in found if path.is_file()]


class TtsRun(Run):
    """``cpspec-infer`` for Qwen3-TTS."""

    def __init__(self, directory: Path, talker: Path) -> None:
        super().__init__(directory)
        self.talker = talker

    def arguments(self, *extra: object, talker: Path | None = None) -> tuple[object, ...]:
        return (
            *("--inputFile", self.input, "--talkerEngineDir", talker or self.talker),
            *("--outputFile", self.output, f"--outputAudioDir={self.audio}", *extra),
        )

    def __call__(self, content: Any, *extra: object, talker: Path | None = None) -> Result:
        self.write(content)
        return infer(*self.arguments(*extra, talker=talker))


class OmniRun(Run):
    """``cpspec-infer --engineDir`` for Qwen3-Omni."""

    def __init__(self, directory: Path, engines: Path) -> None:
        super().__init__(directory)
        self.engines = engines

    def arguments(self, *extra: object, audio: bool = True) -> tuple[object, ...]:
        spoken = ["--talkerEngineDir", self.engines / "talker", "--enableAudioOutput", "--outputAudioDir", self.audio]
        return (
            *("--inputFile", self.input, "--engineDir", self.engines / "thinker", "--outputFile", self.output),
            *(spoken if audio else ()),
            *extra,
        )

    def __call__(self, content: Any, *extra: object, audio: bool = True) -> Result:
        self.write(content)
        return infer(*self.arguments(*extra, audio=audio))


def narrowed(engines: Path) -> None:
    """Make a copy's CodePredictor engine say that it was built without the widening."""

    def narrow(manifest: dict[str, Any]) -> None:
        for found in manifest["profiles"]["generation"].values():
            if found["max"][1:2] == [8]:
                found["max"][1] = 1

    edit_manifest(engines / "code_predictor", narrow)


def shrunk(directory: Path, capacity: int) -> None:
    """Make a copy's engine say that it was built for a smaller KV cache."""

    def shrink(manifest: dict[str, Any]) -> None:
        for profile in manifest["profiles"].values():
            for name, found in profile.items():
                if name.startswith("past_"):
                    for bound in ("min", "opt", "max"):
                        found[bound][2] = min(found[bound][2], capacity)

    edit_manifest(directory, shrink)


def overflowing(engines: Path, head: str) -> None:
    """Make the logits of one head overflow, by weights that are finite."""
    path = engines / "code_predictor" / "lm_heads.safetensors"
    tensors = safetensors.numpy.load_file(path)
    tensors[head] = np.full_like(tensors[head], 3e38)
    path.unlink()
    safetensors.numpy.save_file(tensors, path)
    accept_edits(path.parent)
