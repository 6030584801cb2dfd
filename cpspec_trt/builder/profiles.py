"""The build plan: which shapes each input of an engine may take, under each of its two profiles.

One rule makes self-speculation possible: an engine whose ``model`` ends in ``_code_predictor`` takes
up to ``max_verify_rows`` new positions per sequence under its generation profile, instead of one.
``opt`` stays at one position, so that a backend tunes for the same step as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from cpspec_trt.errors import EngineError, UsageError
from cpspec_trt.files.engine_config import (
    MAX_TREE_ROWS,
    MAX_VERIFY_ROWS,
    AnyCode2WavConfig,
    CodePredictorConfig,
    ComponentConfig,
    DecoderDimensions,
    OmniTalkerConfig,
    TalkerConfig,
    ThinkerConfig,
    is_code_predictor,
)
from cpspec_trt.files.manifest import Profile, ProfileName, ShapeRange, TensorInfo
from cpspec_trt.files.rebuild import flag_of as flag_of

MAX_EXTENT = 131_072  # positions, frames or sequences; a larger limit is a typing error
FRAME_START_ROWS = 2  # a CodePredictor frame begins with the Talker's hidden row and the embedding of c0
CAPACITY_STEP = 8
DYNAMIC = -1
_USUAL_KEYS = 512  # tokens so far that a static cache is tuned for
THINKER, TALKER, CODE_PREDICTOR, CODE2WAV = "thinker", "talker", "code_predictor", "code2wav"
COMPONENTS = (THINKER, TALKER, CODE_PREDICTOR, CODE2WAV)

#: The sizes, in the order of their flags.
LIMITS = (
    "max_input_len", "opt_input_len", "max_batch_size", "max_kv_cache_capacity",
    "max_verify_rows", "min_code_len", "opt_code_len", "max_code_len",
)  # fmt: skip
_DECODER = ("max_batch_size", "max_input_len", "opt_input_len", "max_kv_cache_capacity")
_CODE_PREDICTOR = (*_DECODER, "max_verify_rows")
_CODE2WAV = ("max_batch_size", "min_code_len", "opt_code_len", "max_code_len")

# A window of 8 fits every CodePredictor; more rows are for trees of drafts.
_BOUNDS = {"opt_input_len": (0, MAX_EXTENT), "max_verify_rows": (MAX_VERIFY_ROWS, MAX_TREE_ROWS)}

Extent = tuple[int, int, int]  # min, opt, max of one dynamic dimension
Axis = int | str  # a fixed size, or the name of a dynamic dimension
_BATCH, _NEW, _CAPACITY, _KEYS = "batch", "new positions", "KV capacity", "keys"


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """Sizes a build is asked for; the defaults are those of the reference builders.

    Positions, rows and frames are per sequence. ``opt_input_len`` 0 means half of ``max_input_len``. ``origins`` says
    for messages where a size comes from if it is not a flag: pairs of a field and words for its place.
    """

    max_input_len: int = 1024
    opt_input_len: int = 0
    max_batch_size: int = 4
    max_kv_cache_capacity: int = 4096
    max_verify_rows: int = MAX_VERIFY_ROWS
    min_code_len: int = 1
    opt_code_len: int = 300
    max_code_len: int = 2000
    origins: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        """Refuse sizes that no engine can have.

        Raises:
            UsageError: names the flag or the place in a preset, the value and what is allowed.
        """
        for name in LIMITS:
            low, high = _BOUNDS.get(name, (1, MAX_EXTENT))
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"{self.origin(name)} is {value}; it must lie in {low} … {high}")
        self._ordered("opt_input_len", "max_input_len")
        self._ordered("min_code_len", "opt_code_len")
        self._ordered("opt_code_len", "max_code_len")

    def origin(self, name: str) -> str:
        """Where a size was given: its flag, or a key of a preset."""
        return dict(self.origins).get(name) or flag_of(name)

    def _ordered(self, smaller: str, larger: str) -> None:
        low, high = getattr(self, smaller), getattr(self, larger)
        if low > high:
            raise UsageError(
                f"{self.origin(smaller)} {low} is larger than {self.origin(larger)} {high}; "
                "lower the one or raise the other"
            )


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """What will be built for one component.

    Attributes:
        component: ``thinker``, ``talker``, ``code_predictor`` or ``code2wav``, also the name of its engine directory.
        model: the config's ``model``.
        is_code_predictor: whether the generation profile was widened.
        profiles: context and generation, each with a range for every input.
        limits: the sizes in force for this component, as the manifest records them.
        widened: inputs whose generation max is larger than it would be without speculation.
        details: what the plan decided by itself, one sentence each; of interest beside the plan only.
        notes: what the user of the engine should know, one sentence each.
    """

    component: str
    model: str
    is_code_predictor: bool
    profiles: tuple[Profile, Profile]
    limits: Mapping[str, int]
    widened: tuple[str, ...]
    details: tuple[str, ...]
    notes: tuple[str, ...]


def component_of(config: ComponentConfig) -> str:
    """Name of a component, which is also the name of its engine directory."""
    if isinstance(config, AnyCode2WavConfig):
        return CODE2WAV
    if isinstance(config, ThinkerConfig):
        return THINKER
    return CODE_PREDICTOR if is_code_predictor(config.model) else TALKER


def plan(
    config: ComponentConfig, inputs: Sequence[TensorInfo], limits: BuildLimits, static_capacity: bool = False
) -> BuildPlan:
    """Both profiles of a component.

    Args:
        config: the component's config.
        inputs: the graph's inputs; -1 marks a dynamic dimension.
        limits: the sizes asked for.
        static_capacity: give the KV cache of a Thinker or Talker exactly the largest capacity, as TensorRT needs it.
            Its mask may then cover any number of slots from the first: a step's cost follows the tokens so far.

    Returns:
        A plan in which every input has a range with min <= opt <= max in every dimension. Decoders
        get 1 … ``max_input_len`` new positions under context and one under generation (1, opt 1,
        max ``max_verify_rows`` for a CodePredictor, together with masks and rope rows). The KV cache of
        a Thinker or Talker may have any capacity up to the limit unless it is static; a CodePredictor's is fixed to
        a frame plus one verify pass. code2wav takes ``min_code_len`` … ``max_code_len`` frames under both profiles:
        streaming decodes chunks of the same sizes as whole files.

    Raises:
        UsageError: the limits do not fit this component.
        EngineError: the graph's inputs are not those that the config asks for.
    """
    if isinstance(config, AnyCode2WavConfig):
        return _plan_code2wav(config, inputs, limits)
    if isinstance(config, CodePredictorConfig):
        return _plan_code_predictor(config, inputs, limits)
    return _plan_language_model(config, inputs, limits, static_capacity)


def _plan_language_model(
    config: ThinkerConfig | TalkerConfig | OmniTalkerConfig,
    inputs: Sequence[TensorInfo],
    limits: BuildLimits,
    static_capacity: bool,
) -> BuildPlan:
    capacity, positions = limits.max_kv_cache_capacity, config.decoder.max_position_embeddings
    if limits.max_input_len > capacity:
        raise UsageError(
            f"{limits.origin('max_input_len')} {limits.max_input_len} is larger than "
            f"{limits.origin('max_kv_cache_capacity')} {capacity}: "
            "a prompt must fit into the KV cache"
        )
    notes = []
    if capacity > positions:
        notes.append(f"the KV capacity {capacity} exceeds the {positions} positions the model was made for")
    if isinstance(config, ThinkerConfig) and not config.enable_audio_output:
        notes.append("the checkpoint has no audio output: the Thinker answers in text alone")
    dynamic = {_BATCH: _up_to(limits.max_batch_size), _CAPACITY: _up_to(capacity)}
    axes = _decoder_axes(config.decoder, config.decoder.hidden_size) | {"last_row": (_BATCH, 1)}
    if static_capacity:
        dynamic |= {_CAPACITY: (capacity, capacity, capacity), _KEYS: (1, min(capacity, _USUAL_KEYS), capacity)}
        axes["attention_mask"] = (_BATCH, _NEW, _KEYS)
    profiles = _profiles(axes, inputs, dynamic, _context(limits), (1, 1, 1))
    component = component_of(config)
    return BuildPlan(component, config.model, False, profiles, _in_force(limits, _DECODER), (), (), tuple(notes))


def _plan_code_predictor(config: CodePredictorConfig, inputs: Sequence[TensorInfo], limits: BuildLimits) -> BuildPlan:
    if limits.max_input_len < FRAME_START_ROWS:
        raise UsageError(
            f"{limits.origin('max_input_len')} {limits.max_input_len} is too small: a CodePredictor frame starts with "
            f"{FRAME_START_ROWS} positions"
        )
    groups, details = config.num_code_groups, []
    if limits.max_input_len > groups:
        details.append(f"a frame has {groups} positions, so the context profile ends there")
        limits = replace(limits, max_input_len=groups, opt_input_len=min(limits.opt_input_len, groups))
    capacity = code_predictor_capacity(groups, limits.max_verify_rows)
    limits = replace(limits, max_kv_cache_capacity=capacity)
    details.append(f"the KV cache has {capacity} rows: a frame and one verify pass of {limits.max_verify_rows}")
    dynamic = {_BATCH: _up_to(limits.max_batch_size), _CAPACITY: (capacity, capacity, capacity)}
    axes = _decoder_axes(config.decoder, config.talker_hidden_size)
    profiles = _profiles(axes, inputs, dynamic, _context(limits), (1, 1, limits.max_verify_rows))
    widened = tuple(info.name for info in inputs if _NEW in axes[info.name])
    return BuildPlan(
        CODE_PREDICTOR, config.model, True, profiles, _in_force(limits, _CODE_PREDICTOR), widened, tuple(details), ()
    )


def _plan_code2wav(config: AnyCode2WavConfig, inputs: Sequence[TensorInfo], limits: BuildLimits) -> BuildPlan:
    frames = (limits.min_code_len, limits.opt_code_len, limits.max_code_len)
    past = config.sliding_window - 1
    dynamic = {
        _BATCH: _up_to(limits.max_batch_size),
        _KEYS: (past + frames[0], past + frames[1], past + frames[2]),
    }
    half = config.head_dim // 2
    axes: dict[str, tuple[Axis, ...]] = {
        "codes": (_BATCH, config.num_quantizers, _NEW),
        "attention_mask": (_BATCH, _NEW, _KEYS),
        "rope_cos": (_BATCH, _NEW, half),
        "rope_sin": (_BATCH, _NEW, half),
    }
    axes |= {info.name: (_BATCH, *info.shape[1:]) for info in inputs if info.name.startswith("state_")}
    profiles = _profiles(axes, inputs, dynamic, frames, frames)
    return BuildPlan(CODE2WAV, config.model, False, profiles, _in_force(limits, _CODE2WAV), (), (), ())


def code_predictor_capacity(groups: int, rows: int) -> int:
    """KV slots of a CodePredictor: a whole frame, plus one pass of ``rows`` that overhangs its end, in whole steps."""
    return -(-(groups + rows) // CAPACITY_STEP) * CAPACITY_STEP


def _up_to(size: int) -> Extent:
    return 1, size, size


def _context(limits: BuildLimits) -> Extent:
    return 1, limits.opt_input_len or max(limits.max_input_len // 2, 1), limits.max_input_len


def _in_force(limits: BuildLimits, names: Sequence[str]) -> Mapping[str, int]:
    effective = replace(limits, opt_input_len=_context(limits)[1])
    return MappingProxyType({name: getattr(effective, name) for name in names})


def _decoder_axes(decoder: DecoderDimensions, width: int) -> dict[str, tuple[Axis, ...]]:
    half, cache = decoder.head_dim // 2, (_BATCH, decoder.num_key_value_heads, _CAPACITY, decoder.head_dim)
    axes: dict[str, tuple[Axis, ...]] = {
        "inputs_embeds": (_BATCH, _NEW, width),
        "attention_mask": (_BATCH, _NEW, _CAPACITY),
        "rope_cos": (_BATCH, _NEW, half),
        "rope_sin": (_BATCH, _NEW, half),
        "write_indices": (_BATCH,),
    }
    return axes | {
        f"past_{kind}_{layer}": cache for layer in range(decoder.num_hidden_layers) for kind in ("key", "value")
    }


def _profiles(
    axes: Mapping[str, tuple[Axis, ...]],
    inputs: Sequence[TensorInfo],
    dynamic: Mapping[str, Extent],
    context: Extent,
    generation: Extent,
) -> tuple[Profile, Profile]:
    _check_names(axes, inputs)

    def profile(name: ProfileName, new: Extent) -> Profile:
        extents = {**dynamic, _NEW: new}
        return Profile(name, MappingProxyType({info.name: _range(info, axes[info.name], extents) for info in inputs}))

    return profile("context", context), profile("generation", generation)


def _range(info: TensorInfo, axes: tuple[Axis, ...], extents: Mapping[str, Extent]) -> ShapeRange:
    sizes = [extents[axis] if isinstance(axis, str) else (axis, axis, axis) for axis in axes]
    agree = len(sizes) == len(info.shape) and all(
        size == DYNAMIC or (size, size, size) == extent for size, extent in zip(info.shape, sizes, strict=True)
    )
    if not agree:
        raise EngineError(
            f"graph input {info.name!r} has shape {list(info.shape)}, config.json asks for {list(axes)}; "
            "model.onnx and config.json belong to different exports, export again with cpspec-export"
        )
    found = ShapeRange(*(tuple(extent[bound] for extent in sizes) for bound in range(3)))
    if fault := found.fault():
        raise EngineError(f"graph input {info.name!r}: {fault}; export again with cpspec-export")
    return found


def _check_names(axes: Mapping[str, tuple[Axis, ...]], inputs: Sequence[TensorInfo]) -> None:
    names = [info.name for info in inputs]
    if unknown := [name for name in names if name not in axes]:
        raise EngineError(f"graph input {unknown[0]!r} has no place in the build plan; export again with cpspec-export")
    if missing := [name for name in axes if name not in names]:
        raise EngineError(f"the graph lacks the input {missing[0]!r}; export again with cpspec-export")
