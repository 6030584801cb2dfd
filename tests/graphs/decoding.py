"""Runs a code2wav graph chunk by chunk, as a stage would, for the tests of this room."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from cpspec_trt.errors import CheckpointError
from cpspec_trt.files.engine_config import CODE2WAV_MODEL, AnyCode2WavConfig, Code2WavConfig, OmniCode2WavConfig
from cpspec_trt.files.tensors import open_tensors
from cpspec_trt.graphs.code2wav import author_code2wav
from cpspec_trt.graphs.omni_code2wav import author_omni_code2wav
from cpspec_trt.stages.positions import rope_rows, sliding_mask
from cpspec_trt.synthetic.safetensors_files import write_file
from cpspec_trt.synthetic.spec import TtsSpec
from cpspec_trt.synthetic.speech_layout import samples_per_frame, speech_tensors
from cpspec_trt.synthetic.weights import Law, TensorPlan

TTS_GOLDEN = Path(__file__).with_name("code2wav_golden.npz")  # of scripts/make_decoder_goldens.py
TTS_SEED = 21  # of the tiny decoders in it

State = dict[str, np.ndarray]


def open_session(graph: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


@dataclass(frozen=True, slots=True)
class Decoder:
    """A code2wav graph in ONNX Runtime. Codes are integers [batch, groups, frames]."""

    config: AnyCode2WavConfig
    session: ort.InferenceSession

    @property
    def absent(self) -> int:
        """Samples at the start of what the graph gives for a sequence that do not exist."""
        return self.config.trimmed_samples if isinstance(self.config, OmniCode2WavConfig) else 0

    def zero_state(self, batch: int = 1) -> State:
        inputs = [info for info in self.session.get_inputs() if info.name.startswith("state_")]
        return {info.name: np.zeros((batch, *info.shape[1:]), np.float32) for info in inputs}

    def step(self, codes: np.ndarray, start: int | Sequence[int], state: State) -> tuple[np.ndarray, State]:
        """Decode the frames from number ``start`` (of all sequences, or of each) on.

        Returns the waveform [batch, samples], absent samples included, and the state after the frames.
        """
        batch, _, frames = codes.shape
        config, starts = self.config, np.broadcast_to(start, batch)
        cos, sin = rope_rows(starts[:, None] + np.arange(frames), config.head_dim, config.rope_theta)
        mask = np.stack([sliding_mask(int(first), frames, config.sliding_window) for first in starts])
        feeds = {"codes": codes.astype(np.int64), "attention_mask": mask, "rope_cos": cos, "rope_sin": sin}
        outputs = self.session.run(None, feeds | state)
        named = dict(zip([info.name for info in self.session.get_outputs()], outputs, strict=True))
        return named.pop("waveform")[:, 0], {name.removeprefix("next_"): value for name, value in named.items()}

    def decode(self, codes: np.ndarray, chunks: Iterable[int] | None = None) -> np.ndarray:
        """Waveform [batch, samples], decoded in chunks of the given lengths, or in one."""
        state, start, parts = self.zero_state(len(codes)), 0, []
        for frames in chunks or [codes.shape[2]]:
            waveform, state = self.step(codes[:, :, start : start + frames], start, state)
            parts.append(waveform)
            start += frames
        assert start == codes.shape[2]
        return np.concatenate(parts, axis=1)[:, self.absent :]


def equal_chunks(frames: int, size: int) -> list[int]:
    """Chunk lengths of ``size``, the last one shorter if need be."""
    return [min(size, frames - start) for start in range(0, frames, size)]


def load_decoder(speech_tokenizer: Path, graph: Path) -> Decoder:
    """Author the decoder of a ``speech_tokenizer/`` directory, save it as ``graph`` and open it."""
    config = json.loads((speech_tokenizer / "config.json").read_text(encoding="utf-8"))
    shape = config_from(config["decoder_config"], config["decode_upsample_rate"])
    author_code2wav(shape, open_tensors(speech_tokenizer / "model.safetensors", CheckpointError)).save(graph)
    return Decoder(shape, open_session(graph))


def synthetic_decoder(spec: TtsSpec, seed: int, directory: Path, plans: Sequence[TensorPlan] = ()) -> Decoder:
    """The decoder of a synthetic checkpoint, or of its tensors made by other ``plans``."""
    config = synthetic_config(spec)
    write_file(directory / "model.safetensors", plans or speech_tensors(spec), "F32", seed)
    tensors = open_tensors(directory / "model.safetensors", CheckpointError)
    author_code2wav(config, tensors).save(directory / "model.onnx")
    return Decoder(config, open_session(directory / "model.onnx"))


def omni_decoder(config: OmniCode2WavConfig, plans: Sequence[TensorPlan], seed: int, directory: Path) -> Decoder:
    """The decoder of Qwen3-Omni whose tensors are made by ``plans``."""
    directory.mkdir(exist_ok=True)
    write_file(directory / "model.safetensors", plans, "F32", seed)
    tensors = open_tensors(directory / "model.safetensors", CheckpointError)
    author_omni_code2wav(config, tensors).save(directory / "model.onnx")
    return Decoder(config, open_session(directory / "model.onnx"))


def louder(plans: Iterable[TensorPlan], convolution: str) -> list[TensorPlan]:
    """Plans in which weight and bias of a convolution are 20 times as large."""

    def times_20(plan: TensorPlan) -> TensorPlan:
        return replace(plan, law=Law(20 * plan.law.center, 20 * plan.law.half_width))

    return [times_20(plan) if plan.name.startswith(f"{convolution}.") else plan for plan in plans]


def synthetic_config(spec: TtsSpec) -> Code2WavConfig:
    fields = asdict(spec.decoder) | {
        "num_quantizers": spec.num_code_groups,
        "codebook_size": spec.codebook_size,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e4,
    }
    return config_from(fields, samples_per_frame(spec.decoder))


def config_from(fields: Mapping[str, Any], samples: int) -> Code2WavConfig:
    """The config of ``decoder_config`` as a checkpoint spells it."""
    known = {name: fields[name] for name in Code2WavConfig.__slots__ if name in fields}
    known |= {name: tuple(fields[name]) for name in ("upsample_rates", "upsampling_ratios")}
    return Code2WavConfig(
        **known,
        model=CODE2WAV_MODEL,
        checkpoint_fingerprint="none",
        samples_per_frame=samples,
        sample_rate=24_000,
    )
