"""Goldens of Qwen3-Omni's code2wav, made with the PyTorch reference: waveforms of whole sequences.

Run from the project's root where this package, torch and transformers 5.24 are installed:

    python scripts/make_omni_decoder_goldens.py

Writes tests/graphs/omni_code2wav_golden.npz. Neither weights nor codes are stored: they follow from the
seed in tests/graphs/omni_decoders.py. Every sequence is decoded as a whole, also where the reference
itself would cut it: its chunks lose samples and see too little of the past.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import Qwen3OmniMoeCode2WavConfig
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoeCode2Wav

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from cpspec_trt.synthetic.omni_spec import Code2WavSpec  # noqa: E402
from cpspec_trt.synthetic.safetensors_files import write_file  # noqa: E402
from tests.graphs import omni_decoders as decoders  # noqa: E402


def reference_decoder(shape: Code2WavSpec) -> Qwen3OmniMoeCode2Wav:
    """The reference's decoder; loading its weights checks names and shapes."""
    fields = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(shape).items()}
    config = Qwen3OmniMoeCode2WavConfig(
        **fields,
        codebook_size=decoders.CODEBOOK,
        num_quantizers=decoders.GROUPS,
        rms_norm_eps=decoders.EPSILON,
        rope_parameters={"rope_type": "default", "rope_theta": decoders.THETA},
    )
    decoder = Qwen3OmniMoeCode2Wav(config).eval()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "decoder.safetensors"
        write_file(path, decoders.decoder_tensors(shape), "F32", decoders.SEED)
        decoder.load_state_dict({name.removeprefix("code2wav."): tensor for name, tensor in load_file(path).items()})
    return decoder


def main() -> None:
    """Decode the sequences of every case, and of their first frames alone."""
    arrays: dict[str, np.ndarray] = {}
    for name, case in decoders.CASES.items():
        decoder, codes = reference_decoder(case.shape), torch.from_numpy(decoders.random_codes(case))
        with torch.inference_mode():
            waveform = decoder(codes)[:, 0].numpy()
            lengths = [decoder(codes[:, :, :frames]).shape[-1] for frames in (*decoders.SHORT, case.frames)]
        print(f"{name}: {lengths} samples, none beyond {np.abs(waveform).max():.2f}")
        arrays |= {f"{name}_waveform": waveform[:, :: case.stride], f"{name}_lengths": np.array(lengths)}
    np.savez_compressed(ROOT / "tests/graphs/omni_code2wav_golden.npz", **arrays)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
