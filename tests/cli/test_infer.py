"""``cpspec-infer`` as a user runs it: a process, files, exit codes and one line per error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import soundfile

from tests.cli import runs
from tests.cli.runs import TtsRun, assert_one_clear_line, infer, infer_here, narrowed, overflowing, saying
from tests.cli.runs import tts_document as document
from tests.conftest import Maker

SEED = 54


@pytest.fixture
def engines(synthetic_engines: Maker) -> Path:
    return synthetic_engines("tiny", SEED)


@pytest.fixture
def run(tmp_path: Path, engines: Path) -> TtsRun:
    return TtsRun(tmp_path, engines / "talker")


def test_a_run_writes_json_wav_and_codes_that_agree(run: TtsRun) -> None:
    result = run(document())
    assert result.returncode == 0, result.stderr
    (response,) = run.responses
    samples, rate = soundfile.read(response["audio_file"], dtype="int16")
    codes = safetensors.numpy.load_file(response["rvq_file"])["rvq_codes"]
    assert (rate, codes.dtype, codes.shape) == (24_000, np.int32, (6, 16))
    assert response["frames"] == 6
    assert response["audio_samples"] == len(samples) == 6 * 48
    assert response["finish_reason"] == "length"
    assert response["output_text"] == ""
    assert response["sampling"]["sampling_seed"] == 42
    assert response["code_predictor"]["passes"] == 6 * 15
    assert "ended at the frame cap of 6 frames" in result.stderr


def test_without_an_audio_directory_there_are_no_audio_files_and_no_audio_keys(tmp_path: Path, engines: Path) -> None:
    source, output = tmp_path / "in.json", tmp_path / "out.json"
    source.write_text(json.dumps(document()))
    result = infer("--inputFile", source, "--talkerEngineDir", engines / "talker", "--outputFile", output)
    assert result.returncode == 0, result.stderr
    (response,) = json.loads(output.read_text())["responses"]
    assert response["frames"] == 6
    assert not [key for key in response if key.startswith(("audio_", "rvq_"))]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.json", "out.json"]


@pytest.mark.parametrize("window", [2, 3, 8])
def test_greedy_codes_do_not_depend_on_the_window(run: TtsRun, window: int) -> None:
    assert run(document()).returncode == 0
    plain = safetensors.numpy.load_file(run.responses[0]["rvq_file"])["rvq_codes"]
    result = run(document(), "--cpSpecVerifySize", window)
    assert f"speculative decoding enabled: verify window {window}" in result.stderr
    (response,) = run.responses
    assert response["code_predictor"]["effective"] == window
    assert np.array_equal(plain, safetensors.numpy.load_file(response["rvq_file"])["rvq_codes"])


def test_the_same_input_gives_the_same_output_on_every_run(run: TtsRun) -> None:
    sampled = document(do_sample=True, subtalker_do_sample=True, sampling_seed=7)
    found = []
    for _ in range(2):
        assert run(sampled, "--cpSpecVerifySize=3").returncode == 0
        found.append(safetensors.numpy.load_file(run.responses[0]["rvq_file"])["rvq_codes"])
    assert np.array_equal(*found)


def test_several_requests_are_answered_in_order_with_seeds_of_their_own(run: TtsRun) -> None:
    texts = ["hello", "hello", "world"]
    requests = [{"messages": [{"role": "assistant", "content": text}]} for text in texts]
    result = run(document(requests=requests, batch_size=2, sampling_seed=10, subtalker_do_sample=True))
    assert result.returncode == 0, result.stderr
    assert [response["request_idx"] for response in run.responses] == [0, 1, 2]
    assert [response["messages"][0]["content"] for response in run.responses] == texts
    assert [response["sampling"]["sampling_seed"] for response in run.responses] == [10, 11, 12]
    assert [Path(response["audio_file"]).name for response in run.responses] == [f"audio_req{i}.wav" for i in range(3)]


def test_a_frame_cap_exits_3_only_with_fail_on_length(run: TtsRun) -> None:
    assert run(document()).returncode == 0
    assert run(document(), "--failOnLength").returncode == 3
    assert run.responses[0]["finish_reason"] == "length"


def test_a_request_that_stops_by_itself_says_stop(tmp_path: Path, synthetic_engines: Maker) -> None:
    run = TtsRun(tmp_path, synthetic_engines("tiny_square", 14) / "talker")
    result = run(saying("hello world, how are you today?") | {"max_audio_length": 60}, "--failOnLength")
    assert result.returncode == 0, result.stderr
    assert run.responses[0]["finish_reason"] == "stop"
    assert 2 <= run.responses[0]["frames"] < 60


def test_a_name_of_the_voice_map_speaks_as_its_speaker_and_a_request_overrides_it(
    tmp_path: Path, engines: Path
) -> None:
    copy = Path(shutil.copytree(engines, tmp_path / "engines"))
    (copy / "talker" / "voice_map.json").write_text('{"Narrator": "vivian", "host": "Ryan"}')
    run = TtsRun(tmp_path, copy / "talker")
    requests = saying("hello world", "hello world", "hello world", "hello world")["requests"]
    for request, speaker in zip(requests, ("narrator", "vivian", "HOST", "ryan"), strict=True):
        request |= {"speaker": speaker} if speaker != "narrator" else {}
    result = run(document(speaker="narrator", requests=requests))
    assert result.returncode == 0, result.stderr
    assert "voice_map" not in result.stderr
    narrator, vivian, host, ryan = (run.codes(index) for index in range(4))
    np.testing.assert_array_equal(narrator, vivian)
    np.testing.assert_array_equal(host, ryan)
    assert not np.array_equal(ryan, vivian)


def test_a_voice_map_with_an_unknown_speaker_is_named_before_anything_runs(tmp_path: Path, engines: Path) -> None:
    copy = Path(shutil.copytree(engines, tmp_path / "engines"))
    (copy / "talker" / "voice_map.json").write_text('{"narrator": "rayn"}')
    run = TtsRun(tmp_path, copy / "talker")
    found = (str(copy / "talker" / "voice_map.json"), "'narrator' is 'rayn'", "did you mean 'ryan'?")
    assert_one_clear_line(run(document()), 2, *found)
    assert run.left_nothing()


@pytest.mark.parametrize("penalty", [0.001, 1000])
def test_the_widest_penalties_give_codes(run: TtsRun, penalty: float) -> None:
    result = run(document(repetition_penalty=penalty, do_sample=True, max_audio_length=20))
    assert result.returncode == 0, result.stderr
    assert run.responses[0]["frames"] > 2


def test_where_code2wav_lies_means_nothing_without_a_place_for_sound(tmp_path: Path, engines: Path) -> None:
    source = tmp_path / "in.json"
    source.write_text(json.dumps(document()))
    result = infer("--inputFile", source, "--talkerEngineDir", engines / "talker", "--code2wavEngineDir", engines)
    assert result.returncode == 0, result.stderr
    assert "warning: --code2wavEngineDir has no effect without --outputAudioDir" in result.stderr


def test_the_number_of_threads_changes_no_code(run: TtsRun) -> None:
    found = []
    for threads in (1, 2):
        assert run(document(), "--threads", threads).returncode == 0
        found.append(safetensors.numpy.load_file(run.responses[0]["rvq_file"])["rvq_codes"])
    assert np.array_equal(*found)


def test_progress_is_silent_when_stderr_is_no_terminal(run: TtsRun) -> None:
    assert "s of audio" not in run(document()).stderr


def test_dump_output_prints_the_response_as_json(run: TtsRun) -> None:
    result = run(document(), "--dumpOutput")
    assert json.loads(result.stdout)["frames"] == 6


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--cpSpecRule=greedy",), ("--cpSpecRule", "greedy")),
        (("--cpSpecTreeWidth=2",), ("--cpSpecTreeWidth", "needs a verify window")),
        (("--cpSpecTreeWidth=2", "--cpSpecVerifySize=3"), ("--cpSpecTreeWidth", "needs the rule coupled")),
        (("--cpSpecTreeWidth=4,x",), ("--cpSpecTreeWidth", "4,x")),
        (
            ("--cpSpecTreeWidth=4", "--cpSpecVerifySize=4", "--cpSpecRule=coupled"),
            ("--cpSpecTreeWidth", "has 85 rows", "4 with windows up to 3"),
        ),
        (
            ("--cpSpecTreeWidth=4,2", "--cpSpecVerifySize=4", "--cpSpecRule=coupled"),
            ("--cpSpecTreeWidth", "2 entries for the 3 drafted depths"),
        ),
        (
            ("--cpSpecTreeWidth=2", "--cpSpecVerifySize=auto", "--cpSpecRule=coupled"),
            ("--cpSpecTreeWidth", "needs a fixed verify window"),
        ),
    ],
)
def test_a_rule_or_tree_that_cannot_work_is_a_usage_error_before_anything_is_loaded(
    run: TtsRun, flags: tuple[str, ...], said: tuple[str, ...]
) -> None:
    assert_one_clear_line(run(document(), *flags, talker=Path("/nonexistent")), 2, *said)
    assert run.left_nothing()


@pytest.mark.parametrize("value", ["1", "-1", "9", "x", "2.5", ""])
def test_a_window_that_cannot_work_is_a_usage_error_before_anything_is_loaded(run: TtsRun, value: str) -> None:
    result = run(document(), f"--cpSpecVerifySize={value}", talker=Path("/nonexistent"))
    assert_one_clear_line(result, 2, "--cpSpecVerifySize", value)
    assert run.left_nothing()


BAD_INPUT: list[tuple[str, Any, tuple[str, ...]]] = [
    ("empty text", saying(""), ("input.json", "requests[0].messages[0].content", "''", "write the text")),
    ("whitespace", saying(" \n"), ("requests[0].messages[0].content", "write the text")),
    ("unknown speaker", document(speaker="ryam"), ("requests[0]", "'speaker'", "'ryam'", "did you mean 'ryan'")),
    ("no speaker", document(speaker=""), ("requests[0]", "'speaker'", "needs one of", "vivian")),
    ("unknown language", document(language="englisch"), ("'language'", "'englisch'", "did you mean 'english'")),
    ("no messages", document(requests=[{}]), ("requests[0].messages is missing",)),
    ("no requests", document(requests=[]), ("requests is empty",)),
    ("wrong type", document(talker_top_k="many"), ("talker_top_k", '"many"'.replace('"', "'"), "write")),
    ("negative temperature", document(subtalker_temperature=-1), ("subtalker_temperature", "-1")),
    ("voice cloning", document(ref_audio="me.wav"), ("ref_audio", "voice cloning is not supported")),
    ("not JSON", "{", ("input.json", "not JSON", "line 1")),
    ("a list", "[]", ("input.json", "must be a JSON object")),
    ("prompt too long", saying("hello " * 400), ("requests[0]", "prompt has", "--maxInputLen")),
    ("cap too high", document(max_audio_length=600), ("max_audio_length is 600", "--maxKVCacheCapacity")),
]


@pytest.mark.parametrize(("content", "parts"), [case[1:] for case in BAD_INPUT], ids=[case[0] for case in BAD_INPUT])
def test_bad_input_is_one_line_and_leaves_nothing(run: TtsRun, content: Any, parts: tuple[str, ...]) -> None:
    assert_one_clear_line(run(content), 2, *parts)
    assert run.left_nothing()


def test_a_missing_input_file_is_named(run: TtsRun) -> None:
    result = infer("--inputFile", "/no/such.json", "--talkerEngineDir", run.talker)
    assert_one_clear_line(result, 2, "/no/such.json", "does not exist")


def test_unknown_fields_warn_with_the_nearest_name_and_strict_refuses_them(run: TtsRun) -> None:
    content = document(temprature=0.5)
    result = run(content)
    assert result.returncode == 0
    assert "warning: " in result.stderr
    assert "temprature is not a known field" in result.stderr
    assert_one_clear_line(run(content, "--strict"), 2, "temprature is not a known field")


def rename(path: str) -> Callable[[Path], None]:
    return lambda root: (root / path).rename(root / "elsewhere")


def reshape_heads(root: Path) -> None:
    path = root / "code_predictor" / "lm_heads.safetensors"
    heads = safetensors.numpy.load_file(path)
    heads["lm_head_3.weight"] = np.ascontiguousarray(heads["lm_head_3.weight"][:, :-1])
    path.unlink()
    safetensors.numpy.save_file(heads, path)


def drop_head(root: Path) -> None:
    path = root / "code_predictor" / "lm_heads.safetensors"
    heads = safetensors.numpy.load_file(path)
    del heads["lm_head_3.weight"]
    path.unlink()
    safetensors.numpy.save_file(heads, path)


def truncate_text_embedding(root: Path) -> None:
    path = root / "talker" / "text_embedding.safetensors"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-100])


def damage_manifest(root: Path) -> None:
    path = root / "talker" / "engine_manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["profiles"]["generation"]
    path.unlink()
    path.write_text(json.dumps(manifest))


BAD_ENGINES: list[tuple[str, Callable[[Path], None], tuple[str, ...]]] = [
    ("no talker", rename("talker"), ("talker: the talker engine directory does not exist", "cpspec-build")),
    ("no CodePredictor", rename("code_predictor"), ("code_predictor", "does not exist", "cpspec-build")),
    ("no code2wav", rename("code2wav"), ("code2wav", "does not exist", "cpspec-build")),
    ("no config", rename("talker/config.json"), ("talker/config.json", "does not exist")),
    ("no manifest", rename("code2wav/engine_manifest.json"), ("code2wav/engine_manifest.json", "cpspec-build")),
    ("damaged manifest", damage_manifest, ("talker/engine_manifest.json", "damaged", "rebuild")),
    ("no engine", rename("talker/llm.onnx"), ("talker/llm.onnx", "missing", "cpspec-build")),
    ("no weights", rename("talker/llm.onnx.data"), ("talker/llm.onnx.data", "missing", "cpspec-build")),
    ("no tokenizer", rename("talker/vocab.json"), ("vocab.json",)),
    ("no text projection", rename("talker/text_projection.safetensors"), ("talker/text_projection.safetensors",)),
    ("no heads", rename("code_predictor/lm_heads.safetensors"), ("code_predictor/lm_heads.safetensors",)),
    ("head missing", drop_head, ("lm_heads.safetensors", "lm_head_3.weight")),
    ("head of another shape", reshape_heads, ("lm_heads.safetensors", "lm_head_3.weight")),
    ("truncated table", truncate_text_embedding, ("text_embedding.safetensors",)),
]


@pytest.mark.parametrize(("break_it", "parts"), [case[1:] for case in BAD_ENGINES], ids=[c[0] for c in BAD_ENGINES])
def test_broken_engines_are_one_line_that_names_the_file(
    tmp_path: Path, engines: Path, break_it: Callable[[Path], None], parts: tuple[str, ...]
) -> None:
    copy = Path(shutil.copytree(engines, tmp_path / "engines"))
    break_it(copy)
    run = TtsRun(tmp_path, copy / "talker")
    assert_one_clear_line(run(document()), 1, *parts)
    assert run.left_nothing()


def test_every_file_of_the_engines_that_cannot_be_read_is_named(
    tmp_path: Path, engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "infer", infer_here)
    copy = Path(shutil.copytree(engines, tmp_path / "engines"))
    run = TtsRun(tmp_path, copy / "talker")
    files = sorted(path for path in copy.rglob("*") if path.is_file())
    assert len(files) > 20
    for path in files:
        aside = path.rename(tmp_path / "aside")
        path.mkdir()  # no permission keeps the administrator from reading a file, but nobody can read a directory
        assert_one_clear_line(run(document()), 1, path.name, str(path.parent.parent))
        assert run.left_nothing()
        path.rmdir()
        aside.rename(path)


def test_components_of_different_checkpoints_are_refused(tmp_path: Path, synthetic_engines: Maker) -> None:
    copy = Path(shutil.copytree(synthetic_engines("tiny", SEED), tmp_path / "engines"))
    shutil.rmtree(copy / "code_predictor")
    shutil.copytree(synthetic_engines("tiny", SEED + 1) / "code_predictor", copy / "code_predictor")
    run = TtsRun(tmp_path, copy / "talker")
    assert_one_clear_line(run(document()), 1, "code_predictor", "come from different checkpoints", "cpspec-build")
    assert run.left_nothing()


def test_a_narrow_engine_falls_back_with_a_warning_that_names_the_rebuild(tmp_path: Path, engines: Path) -> None:
    copy = Path(shutil.copytree(engines, tmp_path / "engines"))
    narrowed(copy)
    run = TtsRun(tmp_path, copy / "talker")
    result = run(document(), "--cpSpecVerifySize", 3)
    assert result.returncode == 0, result.stderr
    assert "speculative decoding disabled: the engine's generation profile accepts 1 new positions" in result.stderr
    found = run.responses[0]["code_predictor"]
    assert (found["requested"], found["effective"]) == (3, 0)
    assert f"cpspec-build --onnxDir ONNX_DIR --engineDir {copy / 'code_predictor'} --backend onnx" in found["reason"]


def test_require_speculation_turns_the_fallback_into_an_error(tmp_path: Path, engines: Path) -> None:
    copy = Path(shutil.copytree(engines, tmp_path / "engines"))
    narrowed(copy)
    run = TtsRun(tmp_path, copy / "talker")
    result = run(document(), "--cpSpecVerifySize", 3, "--requireSpeculation")
    assert_one_clear_line(result, 1, "speculation is required", "generation profile accepts 1", "cpspec-build")
    assert run.left_nothing()


def test_require_speculation_without_a_window_is_a_usage_error_before_anything_is_loaded(run: TtsRun) -> None:
    result = run(document(), "--requireSpeculation", talker=Path("/nonexistent"))
    assert_one_clear_line(result, 2, "--requireSpeculation needs a verify window", "--cpSpecVerifySize 2 to 8")
    assert run.left_nothing()


def test_logits_that_overflow_fail_the_request_by_name_and_write_no_audio(tmp_path: Path, engines: Path) -> None:
    copy = Path(shutil.copytree(engines, tmp_path / "engines"))
    overflowing(copy, "lm_head_4.weight")
    run = TtsRun(tmp_path, copy / "talker")
    result = run(document(), "--cpSpecVerifySize", 3)
    assert result.returncode == 1
    assert "error: requests[0], frame 0, RVQ depth 5: the logits hold NaN or +inf" in result.stderr
    assert "Traceback" not in result.stderr
    (response,) = run.responses
    assert response["finish_reason"] == "error"
    assert response["output_text"] == "FAILED"
    assert "RVQ depth 5" in response["error"]
    assert not list(run.audio.rglob("*.wav"))
