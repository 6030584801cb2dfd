"""A whole Qwen3-Omni checkpoint from a seed, in the published layout."""

from __future__ import annotations

from pathlib import Path

from cpspec_trt.files.json_io import write_json_atomic
from cpspec_trt.synthetic.chat_template import write_chat_template
from cpspec_trt.synthetic.new_checkpoint import new_checkpoint
from cpspec_trt.synthetic.omni_configs import omni_config, omni_generation_config, omni_processor_config
from cpspec_trt.synthetic.omni_layout import omni_tensors
from cpspec_trt.synthetic.omni_spec import OmniSpec
from cpspec_trt.synthetic.safetensors_files import write_model
from cpspec_trt.synthetic.tokenizer import write_tokenizer


def write_omni_checkpoint(directory: Path, spec: OmniSpec, seed: int) -> None:
    """Write a checkpoint with random weights; the same spec and seed give the same bytes everywhere.

    Weights are streamed, so memory stays at some ten megabytes even for the published sizes.

    Args:
        directory: made, with its parents; it must not exist or must be empty.
        spec: every dimension; ``omni_spec.OMNI_SPECS`` has named ones.
        seed: any integer.

    Raises:
        UsageError: the directory holds something already.
    """
    with new_checkpoint(directory) as new:
        vocabulary = write_tokenizer(new, spec.text_base_vocab)
        write_chat_template(new, spec.style)
        write_json_atomic(new / "config.json", omni_config(spec, vocabulary))
        write_json_atomic(new / "generation_config.json", omni_generation_config())
        write_json_atomic(new / "preprocessor_config.json", omni_processor_config(spec))
        write_model(new, omni_tensors(spec), spec.dtype, seed, spec.shard_bytes)
