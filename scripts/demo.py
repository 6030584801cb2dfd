"""Speak one sentence with the demo voice, autoregressively and with a verify window of 3; then the Omni path.

Builds engines from ``assets/demo-voice/checkpoint`` with ``cpspec-build``, writes a request file, runs ``cpspec-infer``
once per window, and prints a table and each wav's path. ``make demo TEXT="…"`` chooses the sentence. There is no small
trained Qwen3-Omni, so that path (thinker → talker → CodePredictor → code2wav) runs a synthetic checkpoint of random
weights: it shows that everything connects, not how it sounds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
CHECKPOINT = ROOT / "assets" / "demo-voice" / "checkpoint"
WINDOWS = (0, 3)


def run(module: str, *arguments: str | Path) -> None:
    """Run one of the package's commands as a user would; end with its exit code if it fails."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    finished = subprocess.run(command, check=False)
    if finished.returncode:
        sys.exit(finished.returncode)


def speak(output: Path, text: str, speaker: str, window: int) -> dict[str, Any]:
    """Run ``cpspec-infer`` once and return its response."""
    directory = output / f"window-{window}"
    request = directory / "request.json"
    directory.mkdir(parents=True, exist_ok=True)
    request.write_text(
        json.dumps({"speaker": speaker, "requests": [{"messages": [{"role": "assistant", "content": text}]}]}, indent=2)
    )
    result = directory / "output.json"
    run(
        "cpspec_trt.cli.infer",
        *("--inputFile", request),
        *("--talkerEngineDir", output / "engines" / "talker"),
        *("--outputFile", result),
        *("--outputAudioDir", directory),
        *("--cpSpecVerifySize", str(window)),
    )
    response: dict[str, Any] = json.loads(result.read_text())["responses"][0]
    return response


def answer(output: Path, window: int) -> dict[str, Any]:
    """Run ``cpspec-infer --engineDir`` once over the synthetic Qwen3-Omni engines and return its response."""
    directory, engines = output / f"omni-window-{window}", output / "omni-engines"
    request = directory / "request.json"
    directory.mkdir(parents=True, exist_ok=True)
    conversation = [{"role": "user", "content": "Hello, how are you today?"}]
    caps = {"max_generate_length": 8, "max_audio_length": 12}
    request.write_text(json.dumps({"requests": [{"messages": conversation}], "speaker": "chelsie"} | caps, indent=2))
    result = directory / "output.json"
    run(
        "cpspec_trt.cli.infer",
        *("--inputFile", request),
        *("--engineDir", engines / "thinker"),
        *("--talkerEngineDir", engines / "talker"),
        "--enableAudioOutput",
        *("--outputFile", result),
        *("--outputAudioDir", directory),
        *("--cpSpecVerifySize", str(window)),
    )
    response: dict[str, Any] = json.loads(result.read_text())["responses"][0]
    return response


def build_omni(output: Path) -> None:
    """Make a tiny synthetic Qwen3-Omni checkpoint and build its engines."""
    from cpspec_trt.synthetic.omni import write_omni_checkpoint
    from cpspec_trt.synthetic.omni_spec import OMNI_SPECS

    with tempfile.TemporaryDirectory() as directory:
        checkpoint = Path(directory) / "checkpoint"
        write_omni_checkpoint(checkpoint, OMNI_SPECS["tiny"], seed=1)
        run("cpspec_trt.cli.build", "--checkpoint", checkpoint, "--engineDir", output / "omni-engines")


def show(title: str, responses: dict[int, dict[str, Any]]) -> None:
    """Print what the runs did, side by side, and where the audio is."""
    table = Table(box=box.SIMPLE_HEAD, title=title)
    for heading in (
        "window",
        "frames",
        "audio\ns",
        "CodePredictor\npasses",
        "passes\n/frame",
        "codes\n/round",
        "finish",
    ):
        table.add_column(heading, justify="right")
    for window, response in responses.items():
        predictor, frames = response["code_predictor"], response["frames"]
        table.add_row(
            str(window) if window else "off",
            str(frames),
            f"{response['audio_duration_ms'] / 1000:.2f}",
            str(predictor["passes"]),
            f"{predictor['passes'] / max(frames, 1):.1f}",
            f"{predictor['codes_per_round']:.2f}" if window else "–",
            response.get("audio_finish_reason", response["finish_reason"]),
        )
    Console().print(table)
    for window, response in responses.items():
        print(f"window {window or 'off'}: {response['audio_file']}")


@click.command()
@click.option("--text", required=True, help="What to say; the voice knows the words of vocabulary.txt only.")
@click.option("--speaker", required=True, help="vivian or ryan.")
@click.option("--output", type=click.Path(path_type=Path), required=True, help="Where engines and speech go.")
def main(text: str, speaker: str, output: Path) -> None:
    """Build the demo engines and speak."""
    preset = ROOT / "configs" / "demo-voice.yaml"
    run("cpspec_trt.cli.build", "--checkpoint", CHECKPOINT, "--engineDir", output / "engines", "--config", preset)
    build_omni(output)
    spoken = {window: speak(output, text, speaker, window) for window in WINDOWS}
    answered = {window: answer(output, window) for window in WINDOWS}
    show("Qwen3-Omni, synthetic checkpoint of random weights", answered)
    show("demo voice: a small trained checkpoint, closed vocabulary", spoken)


if __name__ == "__main__":
    main()
