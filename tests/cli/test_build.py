"""``cpspec-build`` as a user runs it: flags, exit codes, messages, and what lies on disk afterwards."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import helper

from cpspec_trt.builder.profiles import LIMITS, BuildLimits, flag_of
from cpspec_trt.files.compatibility import BUILD, rows_for
from tests.builder import tiny_exports

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "assets" / "demo-voice" / "checkpoint"
ORT = ("--backend", "onnxruntime")
Done = subprocess.CompletedProcess[str]


def build(*arguments: object, cwd: Path = ROOT) -> Done:
    command = [sys.executable, "-m", "cpspec_trt.cli.build", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}  # auto means ONNX Runtime
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)


def assert_refused(done: Done, code: int, message: str) -> None:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert re.fullmatch(rf"(warning: .*\n)*error: .*{message}.*\n", done.stderr), done.stderr


def manifest(directory: Path) -> dict[str, dict[str, dict[str, dict[str, list[int]]]]]:
    found: dict[str, dict[str, dict[str, dict[str, list[int]]]]] = json.loads(
        (directory / "engine_manifest.json").read_text()
    )
    return found


@pytest.fixture
def onnx(tmp_path: Path) -> Path:
    """Exports of all three components."""
    tiny_exports.write_talker(tmp_path / "onnx" / "llm")
    tiny_exports.write_code_predictor(tmp_path / "onnx" / "code_predictor")
    tiny_exports.write_code2wav(tmp_path / "onnx" / "code2wav")
    return tmp_path / "onnx"


def test_help_lists_every_flag_that_is_used_and_exits_0() -> None:
    used = [name for name, row in rows_for(BUILD, "flag").items() if row.status == "used"]
    for flag in ("--help", "-h"):
        done = build(flag)
        assert (done.returncode, done.stderr) == (0, "")
        assert [name for name in (*used, "--verify") if name not in done.stdout] == []


def test_help_states_the_defaults_that_are_in_force() -> None:
    text = " ".join(build("--help").stdout.split())
    for field in (field for field in dataclasses.fields(BuildLimits) if field.name in LIMITS):
        description = text[text.index(f"{flag_of(field.name)} INTEGER") :]
        stated = re.search(r"\[default: (\d+)\]", description)
        assert stated is not None
        assert int(stated[1]) == field.default, field.name


def test_both_spellings_of_a_value_work(tmp_path: Path, onnx: Path) -> None:
    first = build("--onnxDir", onnx / "llm", "--engineDir", tmp_path / "a", "--maxInputLen", 77, "--maxBatchSize", 2)
    second = build(f"--onnxDir={onnx}/llm", f"--engineDir={tmp_path}/b", "--maxInputLen=77", "--maxBatchSize=2")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert manifest(tmp_path / "a") == manifest(tmp_path / "b")
    assert manifest(tmp_path / "a")["profiles"]["context"]["inputs_embeds"]["max"] == [2, 77, 8]
    assert re.fullmatch(rf"talker: {tmp_path}/a \(llm.onnx, 0\.0 MB, onnxruntime [\d.]+\)\n", first.stdout)
    assert first.stderr == ""  # no terminal, no progress, nothing to warn about


def test_a_code_predictor_is_widened_without_any_flag(tmp_path: Path, onnx: Path) -> None:
    done = build("--onnxDir", onnx / "code_predictor", "--engineDir", tmp_path / "code_predictor", "--maxBatchSize", 1)
    assert done.returncode == 0, done.stderr
    generation = manifest(tmp_path / "code_predictor")["profiles"]["generation"]
    assert generation["inputs_embeds"] == {"min": [1, 1, 8], "opt": [1, 1, 8], "max": [1, 8, 8]}
    assert generation["attention_mask"] == {"min": [1, 1, 24], "opt": [1, 1, 24], "max": [1, 8, 24]}


def test_the_flags_of_audio_build_build_code2wav(tmp_path: Path, onnx: Path) -> None:
    done = build(
        "-o", onnx / "code2wav", "-e", tmp_path / "engines", "-m", 100, "-M", 6000,
        "--minCodeLen", 2, "--optCodeLen", 20, "--maxCodeLen", 200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    codes = manifest(tmp_path / "engines" / "code2wav")["profiles"]["generation"]["codes"]
    assert codes == {"min": [1, 16, 2], "opt": [4, 16, 20], "max": [4, 16, 200]}
    assert done.stderr.splitlines() == [
        "warning: --minTimeSteps/-m is ignored: audio encoders are not in this release",
        "warning: --maxTimeSteps/-M is ignored: audio encoders are not in this release",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--specBase"], ["--eagleBase"], ["--specDraft"], ["--eagleDraft"], ["--maxLoraRank", "8"], ["--maxLoraRank=8"],
    ],
)  # fmt: skip
def test_flags_of_things_we_do_not_build_are_refused(tmp_path: Path, arguments: list[str]) -> None:
    done = build("--onnxDir", tmp_path, "--engineDir", tmp_path / "engine", *arguments)
    assert_refused(done, 2, "(speculation of the Thinker is|LoRA adapters are) not supported")


def test_flags_without_a_meaning_here_are_ignored_with_a_warning(tmp_path: Path, onnx: Path) -> None:
    done = build(
        "--onnxDir", onnx / "llm", "--engineDir", tmp_path / "talker", "--maxLoraRank", 0, "--maxKVPoolPages", 9,
        "--maxVerifyTreeSize=60", "--maxDraftTreeSize", 60, "--profilingDetailed", "--minCodeLen", 3,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    warned = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert sorted(warned) == [
        "--maxDraftTreeSize", "--maxKVPoolPages", "--maxVerifyTreeSize", "--minCodeLen", "--profilingDetailed",
    ]  # fmt: skip
    assert "warning: --minCodeLen means nothing for talker" in done.stderr


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path, onnx: Path) -> None:
    (tmp_path / "here").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for component in ("llm", "code_predictor", "code2wav"):
        arguments = ("--onnxDir", onnx / component, "--engineDir", tmp_path / "here" / "engines", "--dryRun")
        done = build(*arguments, cwd=tmp_path / "here")
        assert done.returncode == 0, done.stderr
        marked = [line.split("│")[2:4] for line in done.stdout.splitlines() if "widened" in line and "│" in line]
        tensors = ["inputs_embeds", "attention_mask", "rope_cos", "rope_sin"] if component == "code_predictor" else []
        assert [(profile.strip(), tensor.strip()) for profile, tensor in marked] == [
            ("generation", tensor) for tensor in tensors
        ]
        assert all(heading in done.stdout for heading in ("component", "profile", "tensor", "min", "opt", "max"))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_run_of_a_checkpoint_plans_every_component_and_writes_nothing(tmp_path: Path) -> None:
    done = build("--checkpoint", DEMO, "--engineDir", tmp_path / "engines", "--dryRun", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line.split("│")[1].strip() for line in done.stdout.splitlines() if line.startswith("│")]
    assert set(rows) == {"talker", "code_predictor", "code2wav"}
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_is_built_in_one_go_and_verified(tmp_path: Path) -> None:
    arguments = ("--checkpoint", DEMO, "--engineDir", tmp_path / "engines", "--config", "configs/demo-voice.yaml")
    done = build(*arguments, "--maxBatchSize", 3)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["talker", "code_predictor", "code2wav"]
    talker = manifest(tmp_path / "engines" / "talker")["profiles"]["context"]
    assert talker["inputs_embeds"]["opt"] == [3, 32, 256]  # the batch from the flag, the rows from the preset
    assert talker["past_key_0"]["max"] == [3, 2, 2048, 64]
    done = build("--verify", "--engineDir", tmp_path / "engines")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" is what was built (") == 3

    weights = tmp_path / "engines" / "code2wav" / "code2wav.onnx.data"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1  # beyond the first MiB, where only the full hash looks
    weights.write_bytes(content)
    done = build("--verify", "--engineDir", tmp_path / "engines")
    assert_refused(done, 1, "code2wav.onnx.data: its content is not what was built")


def test_auto_is_onnx_runtime(tmp_path: Path, onnx: Path) -> None:
    done = build("--onnxDir", onnx / "llm", "--engineDir", tmp_path / "talker", "--backend", "auto", "--debug")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "talker" / "engine_manifest.json").read_text())["backend"] == "onnxruntime"
    assert "inputs_embeds" in done.stdout  # --debug shows the plan


def test_progress_is_one_line_per_component_on_a_terminal(tmp_path: Path, onnx: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "cpspec_trt.cli.build", f"--onnxDir={onnx}/llm", f"--engineDir={tmp_path}/talker"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs, timeout=120, check=True)
    os.close(theirs)
    assert os.read(ours, 10_000).decode() == "building talker …\r\n"
    os.close(ours)
    assert done.stdout.startswith(b"talker: ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "--engineDir is missing: give the directory of the engine"),
        (["--onnxDir", "llm", "--engineDir", ""], 2, "'--engineDir' / '-e': the path is empty"),
        (["--engineDir", "e"], 2, "--onnxDir is missing: give an exported component, or a checkpoint"),
        (["--onnxDir", "absent", "--engineDir", "e"], 2, "onnx directory absent does not exist; .*cpspec-export"),
        (["--onnxDir", ".", "--engineDir", "e"], 1, r"config.json not found in onnx directory: \.; .*code_predictor"),
        (["--onnxDir", "llm"], 2, "--engineDir is missing"),
        (["--onnxDir", "llm", "--engineDir", "llm/model.onnx"], 2, "llm/model.onnx: is a file"),
        (["--onnxDir", "llm", "--engineDir", "."], 2, r"\.: holds directories \(code2wav, code_predictor, llm\)"),
        (["--onnxDir", "llm", "--engineDir", "e", "--maxInputLen", "0"], 2, "--maxInputLen is 0; it must lie in 1"),
        (["--onnxDir", "llm", "--engineDir", "e", "--maxBatchSize=-2"], 2, "--maxBatchSize is -2; it must lie in 1"),
        (["--onnxDir", "llm", "--engineDir", "e", "--maxInputLen", "x"], 2, "'--maxInputLen': 'x' is not a valid int"),
        (["--onnxDir", "llm", "--engineDir", "e", "--maxInputLen"], 2, "--maxInputLen.* requires an argument"),
        (
            ["--onnxDir", "llm", "--engineDir", "e", "--optInputLen", "9", "--maxInputLen", "8"],
            2,
            "--optInputLen 9 is larger than --maxInputLen 8",
        ),
        (
            ["--onnxDir", "llm", "--engineDir", "e", "--maxKVCacheCapacity", "512"],
            2,
            "--maxInputLen 1024 is larger than --maxKVCacheCapacity 512",
        ),
        (["--onnxDir", "code_predictor", "--engineDir", "e", "--maxInputLen", "1"], 2, "starts with 2 positions"),
        (
            ["--onnxDir", "code2wav", "--engineDir", "e", "--maxCodeLen", "100"],
            2,
            "--optCodeLen 300 is larger than --maxCodeLen 100",
        ),
        (["--onnxDir", "llm", "--engineDir", "e", "--backend", "tensorrt"], 1, "--backend tensorrt: .*; "),
        (["--onnxDir", "llm", "--engineDir", "e", "--backend", "gpu"], 2, "'gpu': is unknown; use one of auto, onnxr"),
        (["--onnxDir", "llm", "--engineDir", "e", "--backend", ""], 2, "--backend '': is unknown; use one of auto"),
        (
            ["--onnxDir", "llm", "--engineDir", "e", *ORT, "--precision", "bf16"],
            2,
            "--precision bf16: onnxruntime engines",
        ),
        (
            ["--onnxDir", "llm", "--engineDir", "e", *ORT, "--buildLog", "l"],
            2,
            "--buildLog: means nothing for onnxruntime",
        ),
        (["--verify", "--engineDir", "llm", "--precision", "fp32"], 2, "--verify checks engines that exist"),
        (["--verify", "--engineDir", "llm", "--versionCompatible"], 2, "--verify checks engines that exist"),
        (["--onnxDir", "llm", "--engineDir", "llm"], 2, r"llm: holds an export \(model.onnx\)"),
        (["--onnxDir", "code2wav", "--engineDir", "."], 2, r"code2wav: holds an export \(model.onnx\)"),
        (["--onnxDir", "llm", "--engineDir", "e", "--config", "absent.yaml"], 2, "absent.yaml: cannot be read"),
        (["--onnxDir", "llm", "--engineDir", "e", "--maxInputLenn", "5"], 2, "No such option.*--maxInputLenn"),
        (["--checkpoint", "absent", "--engineDir", "e"], 1, "absent: is not a directory"),
        (["--checkpoint", "llm", "--engineDir", "e"], 1, "llm/config.json: model_type 'custom_voice' is not su"),
        (["--verify"], 2, "--engineDir is missing"),
        (["--verify", "--engineDir", "llm"], 1, r"llm: holds no engine \(engine_manifest.json\)"),
        (["--verify", "--engineDir", "llm", "--onnxDir", "llm"], 2, "--verify checks engines that exist"),
        (["--verify", "--engineDir", "llm", "--maxInputLen", "0"], 2, "--verify checks engines that exist"),
        (["--verify", "--engineDir", "llm", "--backend", "gpu"], 2, "--verify checks engines that exist"),
        (["--verify", "--engineDir", "llm", "--config", "absent"], 2, "--verify checks engines that exist"),
        (["--verify", "--engineDir", "."], 1, "code2wav/engine_manifest.json: .* does not exist"),
    ],
)
def test_a_mistake_ends_in_one_line_and_leaves_nothing(
    onnx: Path, arguments: list[str], code: int, message: str
) -> None:
    assert_refused(build(*arguments, cwd=onnx), code, message)
    assert not (onnx / "e" / "engine_manifest.json").exists()
    assert sorted(path.name for path in onnx.iterdir() if path.name != "e") == ["code2wav", "code_predictor", "llm"]
    assert not (onnx / "e").exists() or list((onnx / "e").iterdir()) == []


def test_a_preset_with_a_mistake_names_the_file_and_the_nearest_key(tmp_path: Path, onnx: Path) -> None:
    (tmp_path / "mine.yaml").write_text("talker:\n  max_batchsize: 1\n")
    done = build("--onnxDir", onnx / "llm", "--engineDir", tmp_path / "e", "--config", tmp_path / "mine.yaml")
    assert_refused(done, 2, "mine.yaml: unknown key 'talker.max_batchsize'; did you mean 'max_batch_size'")


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("talker: {opt_input_len: 9, max_input_len: 8}", (), "{0}: talker.opt_input_len 9 is larger than {0}: talk"),
        ("talker: {opt_input_len: 9}", ("--maxInputLen=8",), "{0}: talker.opt_input_len 9 is larger than --maxInput"),
        ("talker: {max_input_len: 8}", ("--optInputLen=9",), "--optInputLen 9 is larger than {0}: talker.max_in"),
        ("talker: {max_kv_cache_capacity: 5}", (), "--maxInputLen 1024 is larger than {0}: talker.max_kv_cache"),
        ("code_predictor: {max_input_len: 1}", (), "{0}: code_predictor.max_input_len 1 is too small"),
        ("backend: gpu", (), "{0}: backend 'gpu': is unknown"),
        ("backend: ''", (), "{0}: backend '': is unknown"),
    ],
)  # fmt: skip
def test_a_limit_of_a_preset_is_blamed_on_its_key_and_one_of_a_flag_on_the_flag(
    tmp_path: Path, onnx: Path, text: str, flags: tuple[str, ...], message: str
) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text(text)
    source = onnx / ("code_predictor" if "code_predictor" in text else "llm")
    done = build("--onnxDir", source, "--engineDir", tmp_path / "e", "--config", preset, *flags)
    assert_refused(done, 2, re.escape(message.format(f"--config {preset}")))


def test_notes_are_printed_once_and_what_the_plan_decided_only_beside_it(tmp_path: Path, onnx: Path) -> None:
    frame, capacity = "a frame has 16 positions", "exceeds the 8192 positions the model was made for"
    predictor = ("--onnxDir", onnx / "code_predictor", "--engineDir", tmp_path / "code_predictor")
    assert build(*predictor).stderr == ""
    assert build(*predictor, "--debug").stderr.count(frame) == 1
    assert build(*predictor, "--dryRun").stderr.count(frame) == 1
    talker = ("--onnxDir", onnx / "llm", "--engineDir", tmp_path / "talker", "--maxKVCacheCapacity=9000")
    for flags in ((), ("--debug",), ("--dryRun",)):
        assert build(*talker, *flags).stderr.count(capacity) == 1


def test_an_export_of_the_reference_is_refused_with_what_to_run_instead(tmp_path: Path) -> None:
    graph = tiny_exports.talker_graph()
    graph.node.append(helper.make_node("AttentionPlugin", ["inputs_embeds"], ["attention"], domain="trt"))
    tiny_exports.write_model(tmp_path / "onnx", graph, 0)
    (tmp_path / "onnx" / "config.json").write_text('{"model": "qwen3_tts_talker"}')
    done = build("--onnxDir", tmp_path / "onnx", "--engineDir", tmp_path / "e")
    assert_refused(done, 1, r"trt::AttentionPlugin.*run cpspec-export CHECKPOINT ONNX_DIR")


def test_an_interrupted_build_exits_130_and_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from cpspec_trt.builder import onnxruntime\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "onnxruntime._check_loads = stop\n"
        f"sys.argv = ['cpspec-build', '--checkpoint', {str(DEMO)!r}, '--engineDir', {str(tmp_path / 'engines')!r}]\n"
        "from cpspec_trt.cli.build import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")
    assert not (tmp_path / "engines").exists()
