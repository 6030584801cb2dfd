"""Qwen3-TTS as published: from its two ``config.json`` files to the configs of our three components."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cpspec_trt.checkpoint.common_fields import (
    read_code2wav_fields,
    read_code_predictor,
    read_decoder,
)
from cpspec_trt.checkpoint.reader import Checkpoint
from cpspec_trt.checkpoint.section import Section, read_section
from cpspec_trt.errors import CheckpointError, UnsupportedError
from cpspec_trt.files.engine_config import (
    CODE2WAV_MODEL,
    CODE_PREDICTOR_MODEL,
    TALKER_MODEL,
    Code2WavConfig,
    CodePredictorConfig,
    TalkerConfig,
)

_CODEC = "qwen3_tts_tokenizer_12hz"
_FIRST_CODEBOOK = "decoder.quantizer.rvq_first.vq.layers.0._codebook.embedding_sum"


def read_talker_config(checkpoint: Checkpoint, fingerprint: str) -> TalkerConfig:
    """The Talker's config.

    Raises:
        CheckpointError: a needed field is missing, of the wrong type or out of range; it is named.
        UnsupportedError: another architecture, a Base (voice cloning) checkpoint, or a feature that is not implemented.
    """
    root = _model_config(checkpoint)
    talker = root.section("talker_config")
    decoder = read_decoder(talker)
    text_vocabulary, codec_vocabulary = talker.integer("text_vocab_size"), decoder.vocab_size

    def text_id(field: str) -> int:
        return root.integer(field, minimum=0, limit=text_vocabulary)

    def codec_id(field: str) -> int:
        return talker.integer(field, minimum=0, limit=codec_vocabulary)

    languages = talker.ids("codec_language_id", codec_vocabulary)
    has_speakers = root.text("tts_model_type") == "custom_voice"
    speakers = talker.ids("spk_id", codec_vocabulary) if has_speakers else {}
    if has_speakers and not speakers:
        raise talker.error("spk_id", "names no speaker, but tts_model_type is 'custom_voice'")
    return TalkerConfig(
        model=TALKER_MODEL,
        checkpoint_fingerprint=fingerprint,
        model_type=root.text("tts_model_type"),
        model_size=root.text("tts_model_size"),
        decoder=decoder,
        text_hidden_size=talker.integer("text_hidden_size"),
        text_vocab_size=text_vocabulary,
        num_code_groups=talker.integer("num_code_groups", minimum=2),
        im_start_token_id=text_id("im_start_token_id"),
        im_end_token_id=text_id("im_end_token_id"),
        assistant_token_id=text_id("assistant_token_id"),
        tts_pad_token_id=text_id("tts_pad_token_id"),
        tts_bos_token_id=text_id("tts_bos_token_id"),
        tts_eos_token_id=text_id("tts_eos_token_id"),
        codec_pad_id=codec_id("codec_pad_id"),
        codec_bos_id=codec_id("codec_bos_id"),
        codec_eos_id=codec_id("codec_eos_token_id"),
        codec_think_id=codec_id("codec_think_id"),
        codec_nothink_id=codec_id("codec_nothink_id"),
        codec_think_bos_id=codec_id("codec_think_bos_id"),
        codec_think_eos_id=codec_id("codec_think_eos_id"),
        languages=MappingProxyType(languages),
        speakers=MappingProxyType(speakers),
        dialects=MappingProxyType(_dialects(talker, speakers, languages) if has_speakers else {}),
    )


def read_code_predictor_config(checkpoint: Checkpoint, fingerprint: str) -> CodePredictorConfig:
    """The CodePredictor's config. Raises as ``read_talker_config``; a missing section is an error, never a default."""
    talker = _model_config(checkpoint).section("talker_config")
    return read_code_predictor(talker, CODE_PREDICTOR_MODEL, fingerprint, talker.integer("hidden_size"))


def read_code2wav_config(checkpoint: Checkpoint, fingerprint: str) -> Code2WavConfig:
    """The 12 Hz decoder's config, from ``speech_tokenizer/config.json``.

    Raises:
        CheckpointError: as ``read_talker_config``, or rates whose product contradicts ``decode_upsample_rate``.
        UnsupportedError: another codec.
    """
    root = read_section(checkpoint.speech_config_path, "codec configuration")
    if root.text("model_type") != _CODEC:
        raise UnsupportedError(f"{root.path}: codec {root.text('model_type')!r} is not supported, only {_CODEC!r}")
    decoder = root.section("decoder_config")
    fields = read_code2wav_fields(decoder, decoder.integer("head_dim"))
    samples = fields["samples_per_frame"]
    if root.integer("decode_upsample_rate") != samples:
        raise root.error("decode_upsample_rate", f"is {root.integer('decode_upsample_rate')}, the rates give {samples}")
    return Code2WavConfig(
        model=CODE2WAV_MODEL,
        checkpoint_fingerprint=fingerprint,
        codebook_dim=_codebook_dim(checkpoint, decoder),
        latent_dim=decoder.integer("latent_dim"),
        sample_rate=root.integer("output_sample_rate"),
        **fields,
    )


def _model_config(checkpoint: Checkpoint) -> Section:
    root = read_section(checkpoint.config_path, "model configuration")
    if root.text("model_type") != "qwen3_tts":
        raise UnsupportedError(
            f"{root.path}: model_type {root.text('model_type')!r} is not supported, only 'qwen3_tts'"
        )
    kind = root.text("tts_model_type")
    if kind == "base":
        advice = "voice cloning is not supported; use a CustomVoice or VoiceDesign checkpoint"
        raise UnsupportedError(f"{root.path}: tts_model_type is 'base': {advice}")
    if kind not in ("custom_voice", "voice_design"):
        raise UnsupportedError(f"{root.path}: tts_model_type {kind!r} is neither 'custom_voice' nor 'voice_design'")
    if root.text("tokenizer_type") != _CODEC:
        raise UnsupportedError(f"{root.path}: tokenizer_type {root.text('tokenizer_type')!r} is not {_CODEC!r}")
    return root


def _dialects(talker: Section, speakers: Mapping[str, int], languages: Mapping[str, int]) -> dict[str, str]:
    """Speaker -> language of its dialect; ``spk_is_dialect`` says false for the others."""
    section = talker.section("spk_is_dialect")
    dialects = {}
    for speaker in speakers:
        found = section.value.get(speaker)
        if found is False:
            continue
        language = section.text(speaker)
        if language not in languages:
            raise section.error(speaker, f"is {language!r}, which talker_config.codec_language_id does not list")
        dialects[speaker] = language
    return dialects


def _codebook_dim(checkpoint: Checkpoint, decoder: Section) -> int:
    """``codebook_dim`` is not declared by the published config class: without the field its tensors tell it."""
    found = checkpoint.speech_tensors.entry(_FIRST_CODEBOOK).shape
    if len(found) != 2:
        message = f"tensor {_FIRST_CODEBOOK!r} has shape {list(found)}, expected two dimensions"
        raise CheckpointError(f"{checkpoint.speech_tensors.path}: {message}")
    if decoder.value.get("codebook_dim") is None:
        return 2 * found[1]
    return decoder.integer("codebook_dim")
