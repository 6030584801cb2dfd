"""``config.json`` of an exported or engine directory: what a component is and which numbers it needs.

The same dataclasses are filled from a checkpoint (``checkpoint/``) and read back here, so a value
either comes from the checkpoint or is an error; nothing has a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from cpspec_trt.errors import CheckpointError, CpspecError, EngineError, UnsupportedError
from cpspec_trt.files.json_io import read_json

CODE_PREDICTOR_SUFFIX = "_code_predictor"
TALKER_MODEL = "qwen3_tts_talker"
CODE_PREDICTOR_MODEL = "qwen3_tts_code_predictor"
CODE2WAV_MODEL = "qwen3_tts_code2wav"
THINKER_MODEL = "qwen3_omni_moe_thinker"
OMNI_TALKER_MODEL = "qwen3_omni_moe_talker"
OMNI_CODE_PREDICTOR_MODEL = "qwen3_omni_moe_talker_code_predictor"
OMNI_CODE2WAV_MODEL = "qwen3_omni_moe_code2wav"
# Fields of TensorRT Edge-LLM's configurations that ours have not: of its exports and engines, and of its builds.
_REFERENCE_FIELDS = ("edgellm_version", "engine_role", "spec_decode_type", "use_embeddings_input", "code2wav_config")
_REFERENCE_BUILD_FIELDS = ("max_kv_pool_pages", "max_lora_rank", "spec_base", "spec_draft", "ragged_backend")
MAX_VERIFY_ROWS = 8  # widest verify window: rows of one CodePredictor pass, in the engine's profile and at run time
MAX_TREE_ROWS = 64  # most rows of a pass that verifies a tree of drafts, where the engine was built for it


@dataclass(frozen=True, slots=True)
class DecoderDimensions:
    """One stack of decoder layers: grouped-query attention with q/k norms, rotary positions, gated MLP."""

    num_hidden_layers: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float


@dataclass(frozen=True, slots=True)
class TalkerConfig:
    """The Talker of Qwen3-TTS. Ids are token ids of the text vocabulary or of the codec vocabulary."""

    model: str
    checkpoint_fingerprint: str
    model_type: str  # custom_voice, voice_design or base
    model_size: str  # 0b6, 1b7, … as the checkpoint writes it
    decoder: DecoderDimensions
    text_hidden_size: int
    text_vocab_size: int
    num_code_groups: int
    im_start_token_id: int
    im_end_token_id: int
    assistant_token_id: int
    tts_pad_token_id: int
    tts_bos_token_id: int
    tts_eos_token_id: int
    codec_pad_id: int
    codec_bos_id: int
    codec_eos_id: int
    codec_think_id: int
    codec_nothink_id: int
    codec_think_bos_id: int
    codec_think_eos_id: int
    languages: Mapping[str, int]
    speakers: Mapping[str, int]
    dialects: Mapping[str, str]  # speaker name -> language name of its dialect


@dataclass(frozen=True, slots=True)
class MoeDimensions:
    """The routed experts that replace the gated MLP of a decoder layer."""

    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    norm_topk_prob: bool
    shared_expert_intermediate_size: int  # 0: no shared expert
    dense_layers: tuple[int, ...]  # layers that keep the gated MLP, of the decoder's intermediate_size


@dataclass(frozen=True, slots=True)
class ThinkerConfig:
    """The Thinker of Qwen3-Omni, text input only. Ids are token ids of its vocabulary."""

    model: str
    checkpoint_fingerprint: str
    decoder: DecoderDimensions
    moe: MoeDimensions
    accept_hidden_layer: int  # the Talker's: hidden state after this many layers; 0 (the input) without a Talker
    im_start_token_id: int
    im_end_token_id: int
    user_token_id: int
    assistant_token_id: int
    system_token_id: int
    tts_pad_token_id: int
    tts_bos_token_id: int
    tts_eos_token_id: int
    enable_audio_output: bool


@dataclass(frozen=True, slots=True)
class OmniTalkerConfig:
    """The Talker of Qwen3-Omni. Ids are token ids of its codec vocabulary."""

    model: str
    checkpoint_fingerprint: str
    decoder: DecoderDimensions
    moe: MoeDimensions
    thinker_hidden_size: int
    accept_hidden_layer: int
    num_code_groups: int
    codec_pad_id: int
    codec_bos_id: int
    codec_eos_id: int
    codec_nothink_id: int
    codec_think_bos_id: int
    codec_think_eos_id: int
    speakers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CodePredictorConfig:
    """The CodePredictor: ``num_code_groups - 1`` heads and codec embedding tables over one decoder stack."""

    model: str
    checkpoint_fingerprint: str
    decoder: DecoderDimensions
    num_code_groups: int
    talker_hidden_size: int


@dataclass(frozen=True, slots=True)
class Code2WavConfig:
    """The 12 Hz decoder from codes to samples: a sliding-window transformer and causal convolutions."""

    model: str
    checkpoint_fingerprint: str
    num_quantizers: int
    codebook_size: int
    codebook_dim: int
    latent_dim: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    sliding_window: int
    decoder_dim: int
    rms_norm_eps: float
    rope_theta: float
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    samples_per_frame: int
    sample_rate: int


@dataclass(frozen=True, slots=True)
class OmniCode2WavConfig:
    """code2wav of Qwen3-Omni. A sequence of n frames gives ``n * samples_per_frame - trimmed_samples`` samples."""

    model: str
    checkpoint_fingerprint: str
    num_quantizers: int
    codebook_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    sliding_window: int
    decoder_dim: int
    rms_norm_eps: float
    rope_theta: float
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    samples_per_frame: int
    trimmed_samples: int  # taken from the start of a sequence
    sample_rate: int


AnyCode2WavConfig = Code2WavConfig | OmniCode2WavConfig
ComponentConfig = (
    ThinkerConfig | TalkerConfig | OmniTalkerConfig | CodePredictorConfig | Code2WavConfig | OmniCode2WavConfig
)
_KINDS: Mapping[str, type[ComponentConfig]] = {
    TALKER_MODEL: TalkerConfig,
    CODE2WAV_MODEL: Code2WavConfig,
    THINKER_MODEL: ThinkerConfig,
    OMNI_TALKER_MODEL: OmniTalkerConfig,
    OMNI_CODE2WAV_MODEL: OmniCode2WavConfig,
}
_NAMES: Mapping[type[Any], str] = {
    TalkerConfig: "a Talker of Qwen3-TTS",
    CodePredictorConfig: "a CodePredictor",
    Code2WavConfig: "a code2wav decoder of Qwen3-TTS",
    ThinkerConfig: "a Thinker",
    OmniTalkerConfig: "a Talker of Qwen3-Omni",
    OmniCode2WavConfig: "a code2wav decoder of Qwen3-Omni",
}
_JSON_KINDS: Mapping[type[Any], str] = {
    dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a whole number", float: "a number"
}  # fmt: skip
_FLATTENED = (DecoderDimensions, MoeDimensions)  # their fields stand at the top level of config.json
_LARGEST = 2**53  # no size, id or rate comes near it
MAX_COUNT = 65_536  # of layers, heads, experts, code groups: things that are listed one by one
WINDOWS = (2, 65_536)  # a sliding window keeps at least one key of the past, and as state no more than memory takes
_MAY_BE_ZERO = ("accept_hidden_layer", "shared_expert_intermediate_size", "dense_layers")
_Config = TypeVar(
    "_Config", ThinkerConfig, TalkerConfig, OmniTalkerConfig, CodePredictorConfig, Code2WavConfig, OmniCode2WavConfig
)


def is_code_predictor(model: str) -> bool:
    """True if an engine config's ``model`` string names a CodePredictor."""
    return model.endswith(CODE_PREDICTOR_SUFFIX)


def to_json(config: ComponentConfig) -> dict[str, Any]:
    """The dictionary written to ``config.json``; dimensions of the decoder and its experts stand at the top level."""
    flat: dict[str, Any] = {}
    for field in fields(config):
        value = getattr(config, field.name)
        flat.update(asdict(value) if isinstance(value, _FLATTENED) else {field.name: value})
    return {key: _plain(value) for key, value in flat.items()}


def read_component_config(directory: Path) -> ComponentConfig:
    """Read ``config.json`` of a directory and return the dataclass of whatever component it names.

    Raises:
        EngineError: the file is missing or damaged, a field is missing or of the wrong type, or
            ``model`` names nothing this package knows.
        UnsupportedError: the directory is another system's.
    """
    path = directory / "config.json"
    value = read_json(path, EngineError, "engine config")
    if foreign := _signs_of_the_reference(value):
        raise UnsupportedError(
            f"{path}: was made by TensorRT Edge-LLM (it has {foreign}), whose exports and engines need its own plugins "
            "and runtime; run cpspec-build --checkpoint CHECKPOINT --engineDir ENGINES"
        )
    model = take(value, "model", str, path, EngineError)
    kind = CodePredictorConfig if is_code_predictor(model) else _KINDS.get(model)
    if kind is None:
        known = f"{', '.join(_KINDS)} or a name ending in {CODE_PREDICTOR_SUFFIX}"
        message = f"field 'model' is {model!r}, expected {known}"
        raise EngineError(f"{path}: {message}; export the directory with cpspec-export")
    return kind(**_read_fields(kind, value, path))


def _signs_of_the_reference(value: Mapping[str, Any]) -> str:
    """The fields by which a configuration of TensorRT Edge-LLM is known, or nothing."""
    build = value.get("builder_config")
    inner = [name for name in _REFERENCE_BUILD_FIELDS if isinstance(build, Mapping) and name in build]
    return ", ".join([*(name for name in _REFERENCE_FIELDS if name in value), *inner])


def read_config_of(directory: Path, kind: type[_Config]) -> _Config:
    """As ``read_component_config``, but the directory must hold the given kind of component."""
    config = read_component_config(directory)
    if not isinstance(config, kind):
        path = directory / "config.json"
        raise EngineError(f"{path}: field 'model' is {config.model!r}, which is not {_NAMES[kind]}; pass its directory")
    return config


def take(value: Mapping[str, Any], field: str, kind: type[Any], path: Path, error: type[CpspecError]) -> Any:
    """``value[field]`` checked to be of ``kind`` (an int is accepted as float, a bool never as a number).

    Raises:
        error: the field is missing, or null, or has another type; the message names file and field.
    """
    if field not in value or value[field] is None:
        incomplete = issubclass(error, CheckpointError)
        remedy = "the checkpoint is incomplete" if incomplete else "export it again with cpspec-export"
        raise error(f"{path}: required field {field!r} is missing; {remedy}")
    found = value[field]
    if kind is float and isinstance(found, int) and not isinstance(found, bool):
        try:
            found = float(found)
        except OverflowError:
            raise error(f"{path}: field {field!r} is too large: {found!r:.60}") from None
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
        raise error(f"{path}: field {field!r} must be {_JSON_KINDS[kind]}, found {found!r:.60}")
    return found


def _plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _read_fields(kind: type[Any], value: dict[str, Any], path: Path) -> dict[str, Any]:
    return {name: _read_field(value, name, hint, path) for name, hint in get_type_hints(kind).items()}


def _read_field(value: dict[str, Any], name: str, hint: Any, path: Path) -> Any:
    if hint in _FLATTENED:
        return hint(**_read_fields(hint, value, path))
    origin = get_origin(hint)
    if origin is tuple:
        items = take(value, name, list, path, EngineError)
        return tuple(_element(name, item, int, path) for item in items)
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        kind = get_args(hint)[1]
        found = take(value, name, dict, path, EngineError)
        return MappingProxyType({key: _element(f"{name}.{key}", item, kind, path) for key, item in found.items()})
    found = take(value, name, hint, path, EngineError)
    return _in_range(name, found, path)


def _element(name: str, item: Any, kind: type[Any], path: Path) -> Any:
    return _in_range(name, take({name: item}, name, kind, path, EngineError), path)


def _in_range(name: str, found: Any, path: Path) -> Any:
    """Ids (and the numbers of a map of ids) start at 0; nearly every other number is a size or a rate."""
    if name == "num_code_groups" and found < 2:
        raise EngineError(f"{path}: field {name!r} must be at least 2 (c0 and one RVQ depth), found {found}")
    if isinstance(found, int | float) and not isinstance(found, bool):
        from_zero = name.endswith("_id") or "." in name or name in _MAY_BE_ZERO
        if found < 0 or (found == 0 and not from_zero):
            wanted = "0 or more" if from_zero else "positive"
            raise EngineError(f"{path}: field {name!r} must be {wanted}, found {found!r:.60}")
        if name == "sliding_window" and not WINDOWS[0] <= found <= WINDOWS[1]:
            raise EngineError(f"{path}: field {name!r} must lie in {WINDOWS[0]} … {WINDOWS[1]}, found {found!r:.60}")
        if found > (MAX_COUNT if name.startswith("num_") else _LARGEST):
            raise EngineError(f"{path}: field {name!r} is too large: {found!r:.60}")
    return found
