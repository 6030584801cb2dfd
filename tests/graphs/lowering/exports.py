"""The tiny checkpoints as exported graphs, and feeds for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from cpspec_trt.stages.positions import MASKED, rope_rows, sliding_mask

#: A name of ours -> family, component, and its directory in an export.
GRAPHS = {
    "tts talker": ("tts", "talker", "llm"),
    "tts code_predictor": ("tts", "code_predictor", "code_predictor"),
    "tts code2wav": ("tts", "code2wav", "code2wav"),
    "omni thinker": ("omni", "thinker", "thinker"),
    "omni talker": ("omni", "talker", "talker"),
    "omni code_predictor": ("omni", "code_predictor", "code_predictor"),
    "omni code2wav": ("omni", "code2wav", "code2wav"),
}
DECODERS = tuple(name for name in GRAPHS if not name.endswith("code2wav"))
BATCH, NEW, SLOTS, FRAMES = 3, 6, 24, 4
STARTS = np.array([0, 3, 11])

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Exported:
    """One exported graph that holds its weights, its config file's fields, and where it lies."""

    component: str
    model: onnx.ModelProto
    config: dict[str, object]
    path: Path

    def number(self, field: str) -> int:
        value = self.config[field]
        assert isinstance(value, int)
        return value


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    """All outputs in ONNX Runtime; feeds are cast to the types of the inputs."""
    opened = session(model)
    types = {"tensor(float16)": np.float16, "tensor(float)": np.float32, "tensor(int64)": np.int64}
    typed = {info.name: feeds[info.name].astype(types[info.type]) for info in opened.get_inputs()}
    return dict(zip([info.name for info in opened.get_outputs()], opened.run(None, typed), strict=True))


def feeds_of(exported: Exported, seed: int = 3) -> Arrays:
    """A pass over several sequences that started at different times, with random state.

    Under the seed no router of the tiny checkpoints is nearly tied: bf16 could choose another expert there.
    """
    return code2wav_feeds(exported, seed) if exported.component == "code2wav" else decoder_feeds(exported, seed)


def decoder_feeds(exported: Exported, seed: int) -> Arrays:
    rng, positions = np.random.default_rng(seed), STARTS[:, None] + np.arange(NEW)
    theta = exported.config["rope_theta"]
    assert isinstance(theta, float)
    cos, sin = rope_rows(positions, exported.number("head_dim"), theta)
    mask = np.where(np.arange(SLOTS) <= positions[..., None], np.float32(0), MASKED)
    feeds = {"attention_mask": mask, "rope_cos": cos, "rope_sin": sin, "write_indices": STARTS.copy()}
    sizes = {"batch": BATCH, "new": NEW, "capacity": SLOTS}
    for value in exported.model.graph.input:
        if value.name == "last_row":
            feeds[value.name] = np.array([[NEW - 1], [2], [0]])
        elif value.name not in feeds:
            shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim]
            feeds[value.name] = rng.standard_normal(shape, np.float32)
    return feeds


def code2wav_feeds(exported: Exported, seed: int) -> Arrays:
    rng, window = np.random.default_rng(seed), exported.number("sliding_window")
    theta = exported.config["rope_theta"]
    assert isinstance(theta, float)
    cos, sin = rope_rows(STARTS[:, None] + np.arange(FRAMES), exported.number("head_dim"), theta)
    mask = np.stack([sliding_mask(int(start), FRAMES, window) for start in STARTS])
    codes = rng.integers(exported.number("codebook_size"), size=(BATCH, exported.number("num_quantizers"), FRAMES))
    feeds = {"codes": codes, "attention_mask": mask, "rope_cos": cos, "rope_sin": sin}
    for value in exported.model.graph.input:
        if value.name == "state_frames":
            feeds[value.name] = STARTS.reshape(-1, 1, 1, 1).astype(np.float32)
        elif value.name not in feeds:
            shape = [dim.dim_value or BATCH for dim in value.type.tensor_type.shape.dim]
            feeds[value.name] = rng.standard_normal(shape, np.float32)
    return feeds
