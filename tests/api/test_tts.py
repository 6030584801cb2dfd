"""``cpspec_trt.TTS``: what Python callers rely on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from cpspec_trt import TTS
from cpspec_trt.errors import EngineError, NumericError, RequestError, SpeculationRefused, UsageError
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.pipelines.events import Silence
from cpspec_trt.text.tokenizer import load_tokenizer
from tests.conftest import Maker
from tests.engine_edits import accept_edits

TEXT = "your doctor has a new white dog"


@pytest.fixture(scope="module")
def tts(demo_engines: Path) -> TTS:
    return TTS(demo_engines, threads=1)


class Recorder(Silence):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def request_started(self, name: str, max_frames: int) -> None:
        self.events.append(("started", max_frames))

    def frame_finished(self, frames: int) -> None:
        self.events.append(("frame", frames))

    def request_finished(self, name: str, frames: int, finish_reason: str) -> None:
        self.events.append(("finished", frames, finish_reason))


def test_speak_returns_samples_codes_and_statistics_that_agree(tts: TTS) -> None:
    speech = tts.speak(TEXT, speaker="vivian", speculate=3)
    frames = len(speech.codes)
    assert speech.finish_reason == "stop"
    assert speech.codes.shape == (frames, 16)
    assert speech.samples.shape == (frames * 1920,)
    assert speech.samples.dtype == np.float32
    assert speech.sample_rate == 24_000
    assert speech.statistics.passes < 15 * frames
    assert sum(speech.statistics.accepted) + speech.statistics.rounds == 14 * frames
    assert speech.times.total > 0


def test_the_same_seed_gives_the_same_codes_and_another_seed_others(tts: TTS) -> None:
    first = tts.speak(TEXT, speaker="ryan", speculate=3, seed=1).codes
    again = tts.speak(TEXT, speaker="ryan", speculate=3, seed=1).codes
    other = tts.speak(TEXT, speaker="ryan", speculate=3, seed=2).codes
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_request_does_not_depend_on_the_one_before_it(demo_engines: Path) -> None:
    alone = TTS(demo_engines, threads=1).speak(TEXT, speaker="ryan", speculate=4, max_frames=8)
    tts = TTS(demo_engines, threads=1)
    tts.speak("the mother is in the kitchen now", speaker="vivian", speculate=2)
    after = tts.speak(TEXT, speaker="ryan", speculate=4, max_frames=8)
    assert np.array_equal(alone.codes, after.codes)
    assert np.array_equal(alone.samples, after.samples)


@pytest.mark.parametrize(
    "code_predictor",
    [FilterParameters(0.3, 50, 1.0), FilterParameters(0.9, 2, 1.0), FilterParameters(0.9, 50, 0.3)],
    ids=["temperature", "top_k", "top_p"],
)
def test_each_sampling_parameter_of_the_code_predictor_changes_the_codes(
    tts: TTS, code_predictor: FilterParameters
) -> None:
    talker = FilterParameters(0.9, 50, 1.0, do_sample=False)
    plain = tts.speak(TEXT, speaker="ryan", talker=talker, max_frames=6)
    changed = tts.speak(TEXT, speaker="ryan", talker=talker, code_predictor=code_predictor, max_frames=6)
    assert not np.array_equal(plain.codes, changed.codes)


def test_a_tiny_temperature_is_greedy(tts: TTS) -> None:
    tiny = FilterParameters(1e-9, 50, 1.0)
    greedy = tts.speak(TEXT, speaker="ryan", greedy=True, max_frames=6)
    assert np.array_equal(
        greedy.codes, tts.speak(TEXT, speaker="ryan", talker=tiny, code_predictor=tiny, max_frames=6).codes
    )


def test_listeners_hear_every_frame_in_order(tts: TTS) -> None:
    recorder = Recorder()
    speech = tts.speak(TEXT, speaker="ryan", max_frames=5, listener=recorder)
    assert speech.finish_reason == "length"
    assert recorder.events == [("started", 5), *(("frame", n) for n in range(1, 6)), ("finished", 5, "length")]


def test_without_audio_only_codes_are_made(demo_engines: Path) -> None:
    speech = TTS(demo_engines, audio=False, threads=1).speak(TEXT, speaker="ryan", max_frames=3)
    assert speech.samples.shape == (0,)
    assert speech.codes.shape == (3, 16)


def test_a_frame_cap_beyond_the_cache_is_refused_when_it_was_asked_for(tts: TTS) -> None:
    with pytest.raises(RequestError, match=r"max_audio_length is 600.*leaves \d+ after.*--maxKVCacheCapacity"):
        tts.speak(TEXT, speaker="ryan", max_frames=600)


def test_the_default_cap_is_lowered_to_the_cache_with_a_warning(synthetic_engines: Maker) -> None:
    speech = TTS(synthetic_engines("tiny", 54), threads=1).speak("hello world", speaker="ryan", greedy=True)
    assert speech.finish_reason == "length"
    assert 400 < len(speech.codes) < 512
    assert f"max_audio_length is {len(speech.codes)}: KV capacity 512" in speech.warnings[0]
    assert speech.max_frames == len(speech.codes)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"text": " "}, RequestError, "empty or whitespace"),
        ({"speaker": None}, RequestError, "needs one of: ryan, vivian"),
        ({"speaker": "vivien"}, RequestError, "did you mean 'vivian'"),
        ({"language": "klingon"}, RequestError, "'klingon'"),
        ({"speculate": 1}, UsageError, "1 leaves no draft slot"),
        ({"speculate": 9}, UsageError, "the range is 2 to 8"),
        ({"speculate": 3.0}, UsageError, "the verify window is 3.0"),
        ({"seed": -1}, UsageError, "seed is -1"),
        ({"seed": 1.5}, UsageError, "seed is 1.5"),
        ({"seed": True}, UsageError, "seed is True"),
        ({"text": None}, UsageError, "text is None"),
        ({"speaker": 3}, UsageError, "speaker is 3"),
        ({"max_frames": 2.5}, UsageError, "max_frames is 2.5"),
        ({"repetition_penalty": 1e-300}, UsageError, "repetition_penalty is 1e-300"),
        ({"max_frames": 0}, UsageError, "max_frames is 0"),
        ({"repetition_penalty": float("nan")}, UsageError, "repetition_penalty is nan"),
        ({"talker": FilterParameters(-1.0, 50, 1.0)}, UsageError, "talker.temperature"),
        ({"code_predictor": FilterParameters(1.0, -2, 1.0)}, UsageError, "code_predictor.top_k"),
        ({"require_speculation": True}, SpeculationRefused, "no verify window was given"),
    ],
)
def test_bad_arguments_say_what_is_wrong(
    tts: TTS, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    call: dict[str, object] = {"text": TEXT, "speaker": "ryan"} | arguments
    with pytest.raises(error, match=message):
        tts.speak(**call)  # type: ignore[arg-type]


def test_a_directory_without_engines_says_how_to_build_them(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"talker engine directory does not exist.*cpspec-build --checkpoint"):
        TTS(tmp_path)


def test_a_request_that_fails_leaves_nothing_behind(tmp_path: Path, demo_engines: Path) -> None:
    """NaN in the KV caches would spread through masked rows into every later request."""
    copy = Path(shutil.copytree(demo_engines, tmp_path / "engines"))
    path = copy / "talker" / "text_embedding.safetensors"
    table = safetensors.numpy.load_file(path)
    poisoned = load_tokenizer(copy / "talker").encode(" kitchen")[0]
    table["text_embedding"][poisoned] = np.nan
    path.unlink()
    safetensors.numpy.save_file(table, path)
    accept_edits(copy / "talker")
    tts = TTS(copy, threads=1)
    call: dict[str, Any] = {"speaker": "ryan", "speculate": 3, "max_frames": 6}
    before = tts.speak(TEXT, **call)
    with pytest.raises(NumericError, match=r"speak\(\), frame 0, RVQ depth 0: the logits hold NaN"):
        tts.speak("the mother is in the kitchen", **call)
    after = tts.speak(TEXT, **call)
    assert np.array_equal(before.codes, after.codes)
    assert np.array_equal(before.samples, after.samples)


def test_the_probe_at_load_finds_rows_exact_and_says_so(tts: TTS) -> None:
    speech = tts.speak(TEXT, speaker="ryan", speculate=4, max_frames=2)
    assert speech.statistics.to_json()["rows_exact"] is True
    assert tts.speak(TEXT, speaker="ryan", max_frames=2).statistics.to_json()["rows_exact"] is None
