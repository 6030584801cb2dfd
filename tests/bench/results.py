"""Results as ``run_bench`` makes them, with figures of our own."""

from __future__ import annotations

from typing import Any


def spread(median: float, by: float = 0.1) -> dict[str, float | int]:
    return {"q1": median - by, "median": median, "q3": median + by, "count": 3}


def setting(name: str, speedup: float, **fields: Any) -> dict[str, Any]:
    """A setting of whole requests."""
    drafting = name != "off"
    stages = {"talker_prefill": ("request", 20.0), "talker_generation": ("frame", 30.0)}
    stages |= {"codepredictor_prefill": ("frame", 5.0), "codepredictor_generation": ("frame", 40.0 / speedup)}
    stages |= {"code2wav": ("request", 200.0)}
    rates = [{"offset": 1, "proposed": 40, "reached": 40, "accepted": 20, "rate": 0.5}] if drafting else []
    by_depth = [
        {"depth": depth, "reached": 4, "accepted": 2, "rate": 0.5, "reached_by_offset": [4], "accepted_by_offset": [2]}
        for depth in range(2, 15)
    ]
    parts = ("engine_ms", "heads_ms", "acceptance_ms", "host_ms", "host_us_per_round")
    return {
        "name": name,
        "window": 2 if drafting else 0,
        "rule": "rejection" if drafting else None,
        "tree_width": None,
        "ms_per_frame": spread(75 / speedup),
        "stages": {
            stage: {"per": per, "ms": spread(ms), "ms_per_frame": ms / (10 if per == "request" else 1), "share": 0.2}
            for stage, (per, ms) in stages.items()
        },
        "realtime_factor": spread(1.1 * speedup),
        "time_to_first_frame_ms": spread(90),
        "time_to_first_audio_ms": spread(900),
        "speedup_code_predictor": spread(speedup),
        "speedup_request": spread(0.5 + speedup / 2),
        "frames": 10,
        "passes_per_frame": 10.4 if drafting else 15.0,
        "rounds_per_frame": 9.4 if drafting else 0.0,
        "codes_per_round": 1.49 if drafting else None,
        "guarded": 0,
        "acceptance_by_offset": rates,
        "acceptance_by_depth": by_depth if drafting else [],
        "predicted_speedup": speedup,
        "frame_loop": {part: spread(10.0, 1.0) for part in parts},
    } | fields


def result(**fields: Any) -> dict[str, Any]:
    """A result of whole requests on a CPU."""
    engine = {"model": "qwen3_tts_code_predictor", "backend": "onnxruntime", "backend_version": "1.32.0"}
    engine |= {"dtype": "fp32", "bytes": 314_000_000, "checkpoint": "0" * 64}
    request = {"text": "say [this]", "frames": 25, "sampling_seed": 42, "subtalker_do_sample": True}
    request |= {"subtalker_temperature": 0.9, "subtalker_top_k": 50, "subtalker_top_p": 1.0}
    bandwidth = {"bytes": 1, "bytes_per_second": 6e9, "plain_read_bytes_per_second": 8e9, "share_of_plain_read": 0.75}
    depths = range(15)
    return {
        "version": 1,
        "stage": "all",
        "synthetic": None,
        "definitions": {"realtime_factor": "audio seconds made per second of computing"},
        "contract": {
            "batch": 1,
            "frames_at_most": 25,
            "repetitions": 3,
            "seed": 42,
            "engines": {"code_predictor": engine},
            "threads": 1,
            "requests": [request],
            "versions": {"cpspec_trt": "0.1.0"},
            "machine": {"system": "Linux", "processor": "a CPU", "cores": 2, "load_average": [0.1, 0, 0], "gpu": None},
        },
        "frame_seconds": 0.08,
        "settings": [setting("off", 1.0), setting("2", 1.3), setting("3", 0.8)],
        "laws": {
            "frames": 10,
            "alpha": [[None] + [0.5] * 14, [None, None] + [0.4] * 13],
            "alpha_by_offset": [0.5, 0.4],
            "marginal_alpha": [0.2] * 15,
            "marginal_alpha_mean": 0.2,
            "entropy_bits": [3.0 + depth / 10 for depth in depths],
            "top1": [0.4] * 15,
            "talker": {"entropy_bits": spread(0.5), "top1": spread(0.9)},
        },
        "passes": {
            "rows": [1, 2],
            "ms": [50.0, 52.0],
            "head_ms": 1.0,
            "weight_bytes": 314_000_000,
            "kv_cache_bytes": 900_000,
            "body": bandwidth,
            "head": bandwidth,
            "bytes_of_round": {"off": 1, "2": 2, "3": 3},
        },
        "peak_memory_bytes": 700_000_000,
    } | fields


def code2wav_result() -> dict[str, Any]:
    """A result of code2wav alone."""
    chunks = [{"chunk_frames": size, "ms_per_frame": spread(9), "realtime_factor": spread(size / 2)} for size in (1, 4)]
    whole = result(stage="code2wav", chunks=chunks)
    engines = {"code2wav": whole["contract"]["engines"]["code_predictor"]}
    whole["contract"] |= {"engines": engines, "requests": []}
    return {key: value for key, value in whole.items() if key not in ("settings", "laws", "passes")}
