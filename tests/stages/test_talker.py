"""The Talker stage: its cache grows with the tokens so far and nothing beyond a sequence's length is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.engines.loading import open_engine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import TalkerConfig, read_config_of
from cpspec_trt.stages.talker import TalkerStage

PROMPT = 20


def stage(engines: Path, batch: int = 1) -> TalkerStage:
    directory = engines / "talker"
    config = read_config_of(directory, TalkerConfig)
    return TalkerStage(open_engine(directory, threads=1), config.decoder, batch)


def rows(engines: Path, seed: int, count: int) -> np.ndarray:
    width = read_config_of(engines / "talker", TalkerConfig).decoder.hidden_size
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def run(talker: TalkerStage, prompt: np.ndarray, steps: np.ndarray) -> np.ndarray:
    talker.start([prompt])
    hidden = [talker.hidden.copy()]
    for step in steps:
        talker.step(step[None])
        hidden.append(talker.hidden.copy())
    return np.concatenate(hidden)


def test_the_cache_grows_in_few_steps_and_the_rows_do_not_notice(demo_engines: Path) -> None:
    """A whole prompt of 200 rows starts in a large cache; 20 rows and 180 steps grow into it."""
    everything = rows(demo_engines, 1, 200)
    grown = stage(demo_engines)
    stepwise = run(grown, everything[:PROMPT], everything[PROMPT:])
    large = stage(demo_engines)
    large.start([everything])  # makes room for 200 positions at once
    assert np.array_equal(run(large, everything[:PROMPT], everything[PROMPT:]), stepwise)


def test_a_prompt_in_one_pass_equals_the_same_rows_one_by_one(demo_engines: Path) -> None:
    everything = rows(demo_engines, 2, 60)
    together = run(stage(demo_engines), everything, everything[:0])[-1]
    one_by_one = run(stage(demo_engines), everything[:1], everything[1:])[-1]
    np.testing.assert_allclose(together, one_by_one, rtol=0, atol=1e-5)


def test_poisoned_rows_beyond_the_length_change_no_bit(demo_engines: Path) -> None:
    everything = rows(demo_engines, 3, PROMPT + 10)
    clean = run(stage(demo_engines), everything[:PROMPT], everything[PROMPT:])
    talker = stage(demo_engines)
    talker.start([everything[:PROMPT]])
    found = [talker.hidden.copy()]
    for number, step in enumerate(everything[PROMPT:]):
        for array in talker._cache.arrays.values():
            array[:, :, PROMPT + number :] = np.where(number % 2, 1e6, 1e4 * array[:, :, :1])
        talker.step(step[None])
        found.append(talker.hidden.copy())
    assert np.array_equal(np.concatenate(found), clean)


def test_a_short_request_after_a_long_one_has_a_small_cache_again(demo_engines: Path) -> None:
    talker = stage(demo_engines)
    run(talker, rows(demo_engines, 4, 200), rows(demo_engines, 5, 100))
    assert talker._cache.capacity == 512
    talker.start([rows(demo_engines, 6, PROMPT)])
    assert talker._cache.capacity == 128


def test_a_new_request_forgets_the_previous_one(demo_engines: Path) -> None:
    everything = rows(demo_engines, 4, 80)
    fresh = run(stage(demo_engines), everything[:PROMPT], everything[PROMPT:30])
    used = stage(demo_engines)
    run(used, everything[:70], everything[70:])
    assert np.array_equal(run(used, everything[:PROMPT], everything[PROMPT:30]), fresh)


def test_ragged_prompts_of_a_batch_equal_each_alone(demo_engines: Path) -> None:
    prompts = [rows(demo_engines, 5, 12), rows(demo_engines, 6, 31)]
    step = rows(demo_engines, 7, 2)
    together = stage(demo_engines, batch=2)
    together.start(prompts)
    together.step(step)
    for row, prompt in enumerate(prompts):
        alone = run(stage(demo_engines), prompt, step[row : row + 1])[-1]
        np.testing.assert_allclose(together.hidden[row], alone, rtol=0, atol=1e-5)


def test_a_prompt_longer_than_the_profile_says_what_to_rebuild(demo_engines: Path) -> None:
    with pytest.raises(EngineError, match=r"the prompt has 257 rows.*takes 256.*--maxInputLen 257"):
        stage(demo_engines).start([rows(demo_engines, 8, 257)])


def test_a_full_cache_is_an_error_that_says_what_to_do(demo_engines: Path) -> None:
    talker = stage(demo_engines)
    talker.start([rows(demo_engines, 9, 256)])
    row = rows(demo_engines, 10, 1)
    for _ in range(256):
        talker.step(row)
    with pytest.raises(EngineError, match=r"KV cache is full \(512 positions\).*--maxKVCacheCapacity 1024"):
        talker.step(row)
    assert talker.lengths[0] == 512
