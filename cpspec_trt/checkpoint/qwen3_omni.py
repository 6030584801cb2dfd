"""Qwen3-Omni as published: from its ``config.json`` to the configs of our four components.

Only text is read in: the towers for audio and vision are left aside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

from cpspec_trt.checkpoint.common_fields import (
    read_code2wav_fields,
    read_code_predictor,
    read_decoder,
)
from cpspec_trt.checkpoint.family import QWEN3_OMNI
from cpspec_trt.checkpoint.reader import Checkpoint
from cpspec_trt.checkpoint.section import Section, read_section
from cpspec_trt.errors import UnsupportedError
from cpspec_trt.files.engine_config import (
    OMNI_CODE2WAV_MODEL,
    OMNI_CODE_PREDICTOR_MODEL,
    OMNI_TALKER_MODEL,
    THINKER_MODEL,
    CodePredictorConfig,
    MoeDimensions,
    OmniCode2WavConfig,
    OmniTalkerConfig,
    ThinkerConfig,
)

_SAMPLE_RATE = 24_000  # a property of the family; no field of the configuration holds it


def has_audio_output(checkpoint: Checkpoint) -> bool:
    """Whether the checkpoint can speak: without Talker, CodePredictor and code2wav it only writes.

    Raises:
        CheckpointError: the field ``enable_audio_output`` is missing.
    """
    return _root(checkpoint).flag("enable_audio_output")


def read_thinker_config(checkpoint: Checkpoint, fingerprint: str) -> ThinkerConfig:
    """The Thinker's config.

    Raises:
        CheckpointError: a needed field is missing, of the wrong type or out of range; it is named.
        UnsupportedError: another architecture, or a feature that is not implemented.
    """
    root = _root(checkpoint)
    thinker = root.section("thinker_config")
    text = thinker.section("text_config")
    for section in (thinker, text):
        section.require("tie_word_embeddings", False)
    decoder = read_decoder(text)
    audio = has_audio_output(checkpoint)

    def token(field: str) -> int:
        return root.integer(field, minimum=0, limit=decoder.vocab_size)

    return ThinkerConfig(
        model=THINKER_MODEL,
        checkpoint_fingerprint=fingerprint,
        decoder=decoder,
        moe=_experts(text, shared=0, dense_layers=_dense_layers(text)),
        accept_hidden_layer=_accepted_layer(root.section("talker_config"), text) if audio else 0,
        im_start_token_id=token("im_start_token_id"),
        im_end_token_id=token("im_end_token_id"),
        user_token_id=token("user_token_id"),
        assistant_token_id=token("assistant_token_id"),
        system_token_id=token("system_token_id"),
        tts_pad_token_id=token("tts_pad_token_id"),
        tts_bos_token_id=token("tts_bos_token_id"),
        tts_eos_token_id=token("tts_eos_token_id"),
        enable_audio_output=audio,
    )


def read_talker_config(checkpoint: Checkpoint, fingerprint: str) -> OmniTalkerConfig:
    """The Talker's config. Raises as ``read_thinker_config``, also if it was made for a Thinker of another width."""
    root = _root(checkpoint)
    thinker = root.section("thinker_config").section("text_config")
    talker = root.section("talker_config")
    text = talker.section("text_config")
    decoder = read_decoder(text)
    width = talker.integer("thinker_hidden_size")
    if width != thinker.integer("hidden_size"):
        found = thinker.integer("hidden_size")
        raise talker.error("thinker_hidden_size", f"is {width}, but {thinker.name}.hidden_size is {found}")
    speakers = talker.ids("speaker_id", decoder.vocab_size)
    if not speakers:
        raise talker.error("speaker_id", "names no speaker")

    def code(field: str) -> int:
        return talker.integer(field, minimum=0, limit=decoder.vocab_size)

    return OmniTalkerConfig(
        model=OMNI_TALKER_MODEL,
        checkpoint_fingerprint=fingerprint,
        decoder=decoder,
        # Unlike the Thinker's, every layer has experts: the reference looks at no list of dense layers here.
        moe=_experts(text, shared=text.integer("shared_expert_intermediate_size"), dense_layers=()),
        thinker_hidden_size=width,
        accept_hidden_layer=_accepted_layer(talker, thinker),
        num_code_groups=talker.integer("num_code_groups", minimum=2),
        codec_pad_id=code("codec_pad_id"),
        codec_bos_id=code("codec_bos_id"),
        codec_eos_id=code("codec_eos_token_id"),
        codec_nothink_id=code("codec_nothink_id"),
        codec_think_bos_id=code("codec_think_bos_id"),
        codec_think_eos_id=code("codec_think_eos_id"),
        speakers=MappingProxyType(speakers),
    )


def read_code_predictor_config(checkpoint: Checkpoint, fingerprint: str) -> CodePredictorConfig:
    """The CodePredictor's config. Raises as ``read_thinker_config``; it must be as wide as the Talker."""
    talker = _root(checkpoint).section("talker_config")
    text, predictor = talker.section("text_config"), talker.section("code_predictor_config")
    width, hidden = text.integer("hidden_size"), predictor.integer("hidden_size")
    if hidden != width:  # the family has no projection between the two
        raise predictor.error("hidden_size", f"is {hidden}, but {text.name}.hidden_size is {width}")
    return read_code_predictor(talker, OMNI_CODE_PREDICTOR_MODEL, fingerprint, width)


def read_code2wav_config(checkpoint: Checkpoint, fingerprint: str) -> OmniCode2WavConfig:
    """The config of code2wav. Raises as ``read_thinker_config``."""
    section = _root(checkpoint).section("code2wav_config")
    fields = read_code2wav_fields(section, _head_dim(section))
    return OmniCode2WavConfig(
        model=OMNI_CODE2WAV_MODEL,
        checkpoint_fingerprint=fingerprint,
        trimmed_samples=trimmed_samples(fields["upsample_rates"]),
        sample_rate=_SAMPLE_RATE,
        **fields,
    )


def trimmed_samples(upsample_rates: Sequence[int]) -> int:
    """Samples that a sequence is short of ``frames * samples_per_frame``.

    A transposed convolution of stride r and kernel 2 r turns n columns into (n + 1) r and loses r on
    either side: r fewer than n r, which every later stage multiplies. (8, 5, 4, 3) gives 480 + 60 + 12 + 3.
    """
    return sum(math.prod(upsample_rates[stage:]) for stage in range(len(upsample_rates)))


def _root(checkpoint: Checkpoint) -> Section:
    root = read_section(checkpoint.config_path, "model configuration")
    if root.text("model_type") != QWEN3_OMNI:
        found = f"model_type {root.text('model_type')!r} is not supported"
        raise UnsupportedError(f"{root.path}: {found}, only {QWEN3_OMNI!r}")
    return root


def _experts(section: Section, shared: int, dense_layers: tuple[int, ...]) -> MoeDimensions:
    # transformers 5 saves the Talker's number of experts under the newer of its two names
    newer = section.value.get("num_local_experts") is not None
    experts = section.integer("num_local_experts" if newer else "num_experts")
    chosen = section.integer("num_experts_per_tok")
    if chosen > experts:
        raise section.error("num_experts_per_tok", f"is {chosen}, but there are {experts} experts")
    return MoeDimensions(
        num_experts=experts,
        num_experts_per_tok=chosen,
        moe_intermediate_size=section.integer("moe_intermediate_size"),
        norm_topk_prob=section.flag("norm_topk_prob"),
        shared_expert_intermediate_size=shared,
        dense_layers=dense_layers,
    )


def _dense_layers(section: Section) -> tuple[int, ...]:
    """Layers without experts: those that are listed, and those between the steps."""
    layers, step = section.integer("num_hidden_layers"), section.integer("decoder_sparse_step")
    listed = section.indices("mlp_only_layers", limit=layers)
    return tuple(layer for layer in range(layers) if layer in listed or (layer + 1) % step)


def _accepted_layer(talker: Section, thinker: Section) -> int:
    """Layers of the Thinker before the hidden state the Talker takes; after the last one would come the final norm."""
    return talker.integer("accept_hidden_layer", minimum=1, limit=thinker.integer("num_hidden_layers"))


def _head_dim(section: Section) -> int:
    """The published section does not declare ``head_dim``: it is then the hidden size shared among the heads."""
    if section.value.get("head_dim") is not None:
        return section.integer("head_dim")
    hidden, heads = section.integer("hidden_size"), section.integer("num_attention_heads")
    if hidden % heads:
        raise section.error("num_attention_heads", f"is {heads}, which does not divide the hidden size {hidden}")
    return hidden // heads
