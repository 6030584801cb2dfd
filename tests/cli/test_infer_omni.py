"""``cpspec-infer --engineDir`` as a user runs it: text, audio, exit codes and one line per error."""

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
from tests.cli.runs import (
    SYSTEM,
    USER,
    OmniRun,
    assert_one_clear_line,
    infer,
    infer_here,
    narrowed,
    overflowing,
    shrunk,
)
from tests.cli.runs import omni_document as document
from tests.conftest import Maker

SEED = 1


@pytest.fixture
def run(tmp_path: Path, omni_engines: Maker) -> OmniRun:
    return OmniRun(tmp_path, omni_engines("tiny", SEED))


def test_text_and_speech_are_written_and_agree(run: OmniRun) -> None:
    result = run(document(), "--cpSpecVerifySize", 3)
    assert result.returncode == 0, result.stderr
    (response,) = run.responses
    samples, rate = soundfile.read(response["audio_file"], dtype="int16")
    codes = safetensors.numpy.load_file(response["rvq_file"])["rvq_codes"]
    assert Path(response["audio_file"]).name == "audio_req0_batch0.wav"
    assert (rate, codes.shape) == (24_000, (5, 16))
    assert response["audio_samples"] == len(samples) == 5 * 48 - 15  # both trims together remove 15 samples
    assert response["finish_reason"] == "length"
    assert response["audio_finish_reason"] == "length"
    assert response["generated_token_count"] == 6
    assert response["formatted_system_prompt"] == "<|im_start|>system\nSpeak slowly.<|im_end|>\n"
    assert response["formatted_complete_request"].endswith("<|im_start|>assistant\n")
    assert response["output_text"]
    assert response["code_predictor"]["effective"] == 3


def test_without_audio_output_only_the_thinker_is_needed(tmp_path: Path, run: OmniRun) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(run.engines / "thinker", alone / "thinker")
    run.engines = alone
    result = run(document(), audio=False)
    assert result.returncode == 0, result.stderr
    (response,) = run.responses
    assert response["output_text"]
    assert not [key for key in response if key.startswith(("audio", "rvq", "code_predictor"))]


@pytest.mark.parametrize("window", range(2, 9))
def test_greedy_codes_do_not_depend_on_the_window(run: OmniRun, window: int) -> None:
    codes = []
    for size in (0, window):
        assert run(document(), f"--cpSpecVerifySize={size}").returncode == 0
        codes.append(safetensors.numpy.load_file(run.responses[0]["rvq_file"])["rvq_codes"])
    assert np.array_equal(*codes)


def test_requests_of_a_batch_are_named_by_group_and_slot(run: OmniRun) -> None:
    requests = [{"messages": [USER], "speaker": name} for name in ("chelsie", "ethan", "aiden")]
    result = run(document(requests=requests), "--batchSize", 2)
    assert result.returncode == 0, result.stderr
    names = [Path(response["audio_file"]).name for response in run.responses]
    assert names == ["audio_req0_batch0.wav", "audio_req0_batch1.wav", "audio_req1_batch0.wav"]
    assert [response["batch_idx"] for response in run.responses] == [0, 1, 0]
    codes = [safetensors.numpy.load_file(response["rvq_file"])["rvq_codes"] for response in run.responses]
    assert not np.array_equal(codes[0], codes[1])


def test_max_generate_length_wins_over_the_file(run: OmniRun) -> None:
    assert run(document(), "--maxGenerateLength", 3, audio=False).returncode == 0
    assert run.responses[0]["generated_token_count"] == 3


def test_a_stop_string_ends_the_answer_and_is_cut_off(run: OmniRun) -> None:
    assert run(document(max_generate_length=12), audio=False).returncode == 0
    whole = run.responses[0]["output_text"]
    stop = whole[3:6]
    assert (
        run(
            document(max_generate_length=12, requests=[{"messages": [SYSTEM, USER], "stop": [stop]}]), audio=False
        ).returncode
        == 0
    )
    (response,) = run.responses
    assert response["output_text"] == whole[: whole.index(stop)]
    assert response["finish_reason"] == "stop"


def test_a_thinker_that_says_nothing_gives_a_clear_response_without_audio(tmp_path: Path, omni_engines: Maker) -> None:
    run = OmniRun(tmp_path, omni_engines("tiny_terse", SEED))
    silent = {"role": "user", "content": "Der Zug fährt um 17:45 Uhr ab – in 3 Minuten! 🙂"}
    result = run(document(requests=[{"messages": [silent]}]))
    assert result.returncode == 0, result.stderr
    (response,) = run.responses
    assert response["output_text"] == ""
    assert response["finish_reason"] == "stop"
    assert response["audio_finish_reason"] == "nothing_to_say"
    assert "no audio: the Thinker ended its answer before the first word" in result.stderr
    assert list(run.audio.iterdir()) == []


def test_warm_up_thinks_the_first_request_and_changes_nothing(run: OmniRun) -> None:
    assert run(document(), audio=False).returncode == 0
    plain = run.responses[0]["output_text"]
    assert run(document(), "--warmup", 2, audio=False).returncode == 0
    assert run.responses[0]["output_text"] == plain


def test_the_profile_counts_every_stage(run: OmniRun, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    result = run(document(), "--cpSpecVerifySize=3", "--profileOutputFile", path, "--dumpProfile")
    assert result.returncode == 0, result.stderr
    profile = json.loads(path.read_text())
    runs = {stage["stage_id"]: stage["total_runs"] for stage in profile["stages"]}
    assert runs == {
        "llm_prefill": 1,
        "llm_generation": 5,
        "talker_prefill": 1,
        "talker_generation": 5,
        "codepredictor_prefill": 5,
        "codepredictor_generation": 5,
        "code2wav": 1,
    }
    for stage in profile["stages"]:
        found = stage["gpu_time_stats"]
        assert found["min_ms"] <= found["median_ms"] <= found["p95_ms"] <= found["max_ms"]
        assert found["count"] == stage["total_runs"]
    assert profile["generation"]["total_generated_tokens"] == 6
    assert profile["talker"]["total_audio_codes"] == 5 * 16
    assert profile["code_predictor"][0]["effective"] == 3
    assert "codepredictor_generation" in result.stderr


BAD_INPUT: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("no messages", document(requests=[{}]), ("requests[0].messages", "missing")),
    ("empty user", document(requests=[{"messages": [{"role": "user", "content": " "}]}]), ("content", "' '")),
    ("image", document(requests=[{"messages": [{"role": "user", "content": [{"type": "image", "image": "a.png"}]}]}]),
     ("requests[0].messages[0].content[0]", "not supported")),
    ("guided decoding", document(guided_decoding={"regex": "a"}), ("guided_decoding", "not supported")),
    ("log-probabilities", document(num_logprobs=3), ("num_logprobs", "not supported")),
    ("unknown speaker", document(speaker="chelsea"), ("'chelsea'", "did you mean 'chelsie'")),
    ("prompt too long", document(requests=[{"messages": [{"role": "user", "content": "hello " * 900}]}]),
     ("requests[0]", "the thinker engine takes 256", "--maxInputLen")),
    ("token cap too high", document(max_generate_length=600), ("max_generate_length is 600", "--maxKVCacheCapacity")),
    ("frame cap too high", document(max_audio_length=600), ("max_audio_length is 600", "--maxKVCacheCapacity")),
]  # fmt: skip


@pytest.mark.parametrize(("content", "parts"), [case[1:] for case in BAD_INPUT], ids=[case[0] for case in BAD_INPUT])
def test_bad_input_is_one_line_and_leaves_nothing(run: OmniRun, content: Any, parts: tuple[str, ...]) -> None:
    assert_one_clear_line(run(content), 2, *parts)
    assert run.left_nothing()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--requireSpeculation", "--cpSpecVerifySize", "3"), "--requireSpeculation needs speech; add --enableAudioO"),
        (("--requireSpeculation",), "--requireSpeculation needs a verify window; add --cpSpecVerifySize 2 to 8"),
        (("--cpSpecVerifySize", "1"), "--cpSpecVerifySize: the verify window is 1"),
        (("--enableAudioOutput",), "--talkerEngineDir is required when --enableAudioOutput is set"),
        (("--warmup", "-1"), "--warmup is -1"),
        (("--threads", "0"), "--threads is 0; give a whole number of at least 1"),
        (("--maxGenerateLength", "0"), "--maxGenerateLength is 0"),
        (("--tokenizerDir", "x"), "--tokenizerDir: it belongs to Qwen3-TTS"),
        (("--specDecode",), "--specDecode"),
        (("--enableThinkerTalkerStreaming",), "--enableThinkerTalkerStreaming"),
    ],
)
def test_flags_that_cannot_work_are_usage_errors_before_anything_is_loaded(
    run: OmniRun, arguments: tuple[str, ...], part: str
) -> None:
    run.engines = Path("/nonexistent")
    assert_one_clear_line(run(document(), *arguments, audio=False), 2, part)
    assert run.left_nothing()


def test_flags_of_speech_without_speech_are_each_warned_about(run: OmniRun) -> None:
    given = {
        "--talkerEngineDir": run.engines / "talker",
        "--code2wavEngineDir": run.engines / "code2wav",
        "--multimodalEngineDir": run.engines,
        "--outputAudioDir": run.audio,
        "--cpSpecVerifySize": 3,
        "--cpSpecRule": "coupled",
        "--cpSpecTreeWidth": 2,
    }
    result = run(document(), *(word for pair in given.items() for word in pair), audio=False)
    assert result.returncode == 0, result.stderr
    for flag in given:
        assert f"warning: {flag} has no effect without --enableAudioOutput" in result.stderr
    assert list(run.audio.iterdir()) == []


def test_where_code2wav_lies_means_nothing_without_a_place_for_sound(run: OmniRun) -> None:
    extra = ("--enableAudioOutput", "--talkerEngineDir", run.engines / "talker", "--code2wavEngineDir", run.engines)
    result = run(document(), *extra, audio=False)
    assert result.returncode == 0, result.stderr
    assert "warning: --code2wavEngineDir has no effect without --outputAudioDir" in result.stderr
    assert run.responses[0]["frames"] == 5


def test_a_narrow_engine_falls_back_with_a_warning_that_names_the_rebuild(tmp_path: Path, omni_engines: Maker) -> None:
    copy = Path(shutil.copytree(omni_engines("tiny", SEED), tmp_path / "engines"))
    narrowed(copy)
    run = OmniRun(tmp_path, copy)
    result = run(document(), "--cpSpecVerifySize", 3)
    assert result.returncode == 0, result.stderr
    assert "speculative decoding disabled: the engine's generation profile accepts 1 new positions" in result.stderr
    found = run.responses[0]["code_predictor"]
    assert (found["requested"], found["effective"]) == (3, 0)
    assert f"cpspec-build --onnxDir ONNX_DIR --engineDir {copy / 'code_predictor'} --backend onnx" in found["reason"]


def test_require_speculation_turns_the_fallback_into_an_error(tmp_path: Path, omni_engines: Maker) -> None:
    copy = Path(shutil.copytree(omni_engines("tiny", SEED), tmp_path / "engines"))
    narrowed(copy)
    run = OmniRun(tmp_path, copy)
    result = run(document(), "--cpSpecVerifySize", 3, "--requireSpeculation")
    assert_one_clear_line(result, 1, "speculation is required", "generation profile accepts 1", "cpspec-build")
    assert run.left_nothing()


@pytest.mark.parametrize("explicit", [True, False])
def test_the_caps_in_force_are_reported_and_a_smaller_one_than_asked_for_is_said_once(
    run: OmniRun, explicit: bool
) -> None:
    content = document()
    if not explicit:
        del content["max_audio_length"]  # 4095 frames, more than the engine of the tests can hold
    result = run(content, "--cpSpecVerifySize", 3)
    assert result.returncode == 0, result.stderr
    (response,) = run.responses
    cap = response["sampling"]["max_audio_length"]
    assert response["sampling"]["max_generate_length"] == response["generated_token_count"] == 6
    assert response["frames"] == cap
    assert response["audio_finish_reason"] == "length"
    said = [line for line in result.stderr.splitlines() if f"max_audio_length is {cap}" in line]
    assert len(said) == (0 if explicit else 1), result.stderr
    assert (cap == 5) == explicit


def test_a_token_cap_below_the_default_is_the_one_reported(tmp_path: Path, omni_engines: Maker) -> None:
    copy = Path(shutil.copytree(omni_engines("tiny", SEED), tmp_path / "engines"))
    shrunk(copy / "thinker", 64)
    run = OmniRun(tmp_path, copy)
    content = document()
    del content["max_generate_length"]
    result = run(content, audio=False)
    assert result.returncode == 0, result.stderr
    (response,) = run.responses
    cap = response["sampling"]["max_generate_length"]
    assert response["generated_token_count"] == cap < 64
    assert f"the text ended at the token cap of {cap} tokens, it may be cut (finish length)" in result.stderr


def test_the_output_file_is_required(run: OmniRun, tmp_path: Path) -> None:
    source = tmp_path / "in.json"
    source.write_text(json.dumps(document()))
    result = infer("--inputFile", source, "--engineDir", run.engines / "thinker")
    assert_one_clear_line(result, 2, "--outputFile is required with --engineDir")


def edit_config(component: str, **fields: Any) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        path = root / component / "config.json"
        content = json.loads(path.read_text())
        path.unlink()
        path.write_text(json.dumps(content | fields))

    return edit


def rename(path: str) -> Callable[[Path], None]:
    return lambda root: (root / path).rename(root / "elsewhere")


BAD_ENGINES: list[tuple[str, Callable[[Path], None], tuple[str, ...]]] = [
    ("no thinker", rename("thinker"), ("thinker", "does not exist", "cpspec-build")),
    ("no CodePredictor", rename("code_predictor"), ("code_predictor", "does not exist", "cpspec-build")),
    ("no code2wav", rename("code2wav"), ("code2wav", "does not exist", "cpspec-build")),
    ("other width", edit_config("talker", thinker_hidden_size=32), ("thinker_hidden_size is 32", "cpspec-build")),
    ("text only", edit_config("thinker", enable_audio_output=False), ("enable_audio_output is false",)),
    ("no projection", rename("talker/text_projection.safetensors"), ("text_projection.safetensors",)),
    ("no hidden projection", rename("talker/hidden_projection.safetensors"), ("hidden_projection.safetensors",)),
    ("no embedding", rename("thinker/embedding.safetensors"), ("thinker/embedding.safetensors",)),
    ("no speakers", edit_config("talker", speakers={}), ("speakers",)),
    ("other special tokens", edit_config("thinker", im_start_token_id=3), ("'<|im_start|>'", "config.json has 3")),
    ("no chat template", rename("thinker/chat_template.json"), ("chat template",)),
]


@pytest.mark.parametrize(("break_it", "parts"), [case[1:] for case in BAD_ENGINES], ids=[c[0] for c in BAD_ENGINES])
def test_broken_engines_are_one_line_that_names_the_file(
    tmp_path: Path, omni_engines: Maker, break_it: Callable[[Path], None], parts: tuple[str, ...]
) -> None:
    copy = Path(shutil.copytree(omni_engines("tiny", SEED), tmp_path / "engines"))
    break_it(copy)
    run = OmniRun(tmp_path, copy)
    assert_one_clear_line(run(document()), 1, *parts)
    assert run.left_nothing()


def test_every_file_of_the_engines_that_cannot_be_read_is_named(
    tmp_path: Path, omni_engines: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "infer", infer_here)
    copy = Path(shutil.copytree(omni_engines("tiny", SEED), tmp_path / "engines"))
    run = OmniRun(tmp_path, copy)
    files = [path for path in sorted(copy.rglob("*")) if path.is_file()]
    assert len(files) > 20
    for path in files:
        aside = path.rename(tmp_path / "aside")
        path.mkdir()
        assert_one_clear_line(run(document()), 1, path.name, str(path.parent.parent))
        assert run.left_nothing()
        path.rmdir()
        aside.rename(path)


def test_code2wav_is_also_found_below_the_multimodal_directory(tmp_path: Path, omni_engines: Maker) -> None:
    copy = Path(shutil.copytree(omni_engines("tiny", SEED), tmp_path / "engines"))
    (copy / "elsewhere").mkdir()
    (copy / "code2wav").rename(copy / "elsewhere" / "code2wav")
    result = OmniRun(tmp_path, copy)(document(), "--multimodalEngineDir", copy / "elsewhere")
    assert result.returncode == 0, result.stderr


def test_a_failed_speech_keeps_the_text_and_exits_1(tmp_path: Path, omni_engines: Maker) -> None:
    copy = Path(shutil.copytree(omni_engines("tiny", SEED), tmp_path / "engines"))
    overflowing(copy, "lm_head_2.weight")
    run = OmniRun(tmp_path, copy)
    result = run(document(), "--cpSpecVerifySize=2")
    assert result.returncode == 1
    (response,) = run.responses
    assert response["output_text"]
    assert response["finish_reason"] == "length"
    assert response["audio_finish_reason"] == "error"
    assert "requests[0], frame 0, RVQ depth 3" in response["error"]
    assert "Traceback" not in result.stderr
