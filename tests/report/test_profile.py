"""Profiles add up, and their percentiles are what the words say."""

from __future__ import annotations

import io

from rich.console import Console

from cpspec_trt.devices.device import DeviceWork, Submissions
from cpspec_trt.pipelines.times import CODE2WAV, LLM_GENERATION, LLM_PREFILL, TALKER_GENERATION, StageTimes
from cpspec_trt.report.profile import Profile, print_profile
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus


def times(**runs: list[float]) -> StageTimes:
    found = StageTimes()
    for stage, seconds in runs.items():
        for value in seconds:
            found.add(stage, value)
    return found


def test_stages_of_several_requests_are_pooled() -> None:
    profile = Profile()
    statistics = SpeculationStatistics(SpeculationStatus(3, 3))
    for _ in range(2):
        laps = {TALKER_GENERATION: [n / 1000 for n in range(1, 51)], CODE2WAV: [0.25]}
        profile.add_speech(times(**laps), 50, statistics)
    content = profile.to_json(groups=16)
    stages = {stage["stage_id"]: stage for stage in content["stages"]}
    talker = stages[TALKER_GENERATION]["gpu_time_stats"]
    assert stages[CODE2WAV]["total_gpu_time_ms"] == 500
    assert talker["count"] == 100
    assert (talker["min_ms"], talker["max_ms"], talker["median_ms"]) == (1, 50, 25.5)
    assert (talker["p95_ms"], talker["p99_ms"]) == (48, 50)
    assert content["talker"] == {
        "total_runs": 2,
        "total_audio_outputs": 2,
        "total_audio_codes": 1600,
        "average_codes_per_output": 800,
    }


def test_what_a_gpu_was_given_is_told_per_frame_and_its_memory_is_the_largest_seen() -> None:
    profile = Profile()
    statistics = SpeculationStatistics(SpeculationStatus(3, 3))
    for memory in (5 << 20, 3 << 20):
        counts = Submissions(kernels=60, passes=20, copies=40, graph_launches=14, direct=6, synchronisations=12)
        profile.add_speech(times(), 4, statistics, DeviceWork(counts, memory))
    profile.add_speech(times(), 0, statistics, DeviceWork(Submissions(), 0))
    content = profile.to_json(groups=16)
    first, _, silent = content["gpu_submissions"]
    assert first["graph_launches"] == 14
    assert first["per_frame"]["synchronisations"] == 3
    assert silent["per_frame"] is None
    assert content["peak_gpu_memory_bytes"] == 5 << 20
    assert "no GPU" not in content["gpu_memory_metric"]
    assert "GPU events" in content["time_source"]


def test_text_counts_prompt_tokens_iterations_and_speed() -> None:
    profile = Profile()
    profile.add_text(times(**{LLM_PREFILL: [0.5], LLM_GENERATION: [0.1, 0.1]}), 20, 3)
    content = profile.to_json(groups=0)
    assert content["prefill"] == {"total_runs": 1, "total_tokens": 20}
    assert content["generation"]["total_iterations"] == 2
    assert content["generation"]["overall_tokens_per_second_excluding_base_prefill"] == 10
    assert "talker" not in content


def test_the_table_lists_every_stage_that_ran() -> None:
    profile = Profile()
    profile.add_text(times(**{LLM_PREFILL: [0.5], LLM_GENERATION: [0.1]}), 2, 2)
    stream = io.StringIO()
    print_profile(profile.to_json(groups=0), Console(file=stream, width=80))
    assert "llm_prefill" in stream.getvalue()
    assert "500.00" in stream.getvalue()
    assert "code2wav" not in stream.getvalue()
