"""TensorRT engines, of both flavours: a lowered graph is parsed, given its two profiles, and built.

A graph's own types decide what is computed in which precision (strong typing), so the precision is chosen by the
lowering and not here. An engine is never opened here: that takes a driver, which a build machine may lack.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from cpspec_trt.builder.build_log import BuildLog, check_log, opened_log
from cpspec_trt.builder.build_progress import BuildListener, Interrupts, SilentListener, monitor
from cpspec_trt.builder.engine_options import EngineSettings, known_targets
from cpspec_trt.builder.exported import ExportedComponent, tensors_of
from cpspec_trt.builder.profiles import CODE2WAV, BuildPlan
from cpspec_trt.builder.timing_cache import check_place, keep_timing_cache, use_timing_cache
from cpspec_trt.errors import EngineError
from cpspec_trt.files.atomic import scratch_directory
from cpspec_trt.files.manifest import PORTABLE, BuildFacts, Profile, TensorInfo
from cpspec_trt.files.placement import MODEL_NAME
from cpspec_trt.graphs.lowering.lowered import lower_file
from cpspec_trt.graphs.lowering.weights import Rounded

_CAPACITY = "capacity"  # the name our exports give to the KV slots of a cache


@dataclass(frozen=True, slots=True)
class TensorRTEngineFile:
    """An engine that was written, and what its manifest needs to say.

    Attributes:
        path: ``llm.engine`` or ``code2wav.engine``.
        inputs: of the engine, in the precision it was built in.
        outputs: likewise.
        facts: what it was built with and for.
        notes: what the user of the engine should know, one sentence each.
    """

    path: Path
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    facts: BuildFacts
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Lowered:
    """A graph to build, on disk with its weights beside it."""

    path: Path
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    rounded: Rounded


def check_settings(settings: EngineSettings) -> None:
    """Find out what would stop a build only once its graph is there: the flavour, the log's place, the timing cache.

    Raises:
        EngineError: the flavour cannot build here, the log or the timing cache cannot be written, or TensorRT refuses
            the timing cache.
    """
    trt = settings.flavour.load()
    check_log(settings.build_log)
    if settings.timing_cache is not None:
        check_place(settings.timing_cache)
        with BuildLog(trt, settings.flavour, "--timingCache") as log:
            builder = trt.Builder(log.logger)
            use_timing_cache(builder.create_builder_config(), settings.timing_cache, log)


def write_engine(
    exported: ExportedComponent,
    build_plan: BuildPlan,
    settings: EngineSettings,
    directory: Path,
    listener: BuildListener | None = None,
) -> TensorRTEngineFile:
    """Build the engine of one component.

    Args:
        exported: the component, in fp32.
        build_plan: of ``plan(…, static_capacity=True)``: TensorRT's caches have one size.
        settings: options in force.
        directory: exists; gets the engine, and while it is built the lowered graph.
        listener: hears of the phases.

    Raises:
        KeyboardInterrupt: Ctrl-C, when TensorRT has come to the end of a step.
        EngineError: the flavour cannot build here, a weight does not fit the precision, or TensorRT fails, whose words
            are part of the message.
        UnsupportedError: an operator that has no lowering.
    """
    trt = settings.flavour.load()
    path = directory / ("code2wav.engine" if build_plan.component == CODE2WAV else "llm.engine")
    with (
        opened_log(settings.build_log) as stream,
        BuildLog(trt, settings.flavour, build_plan.component, stream) as log,
        scratch_directory(directory / "lowered") as scratch,
    ):
        lowered = _lower(exported, build_plan, settings, scratch / MODEL_NAME)
        with Interrupts() as interrupts:
            engine = _build(trt, lowered, build_plan, settings, log, listener or SilentListener(), interrupts)
        _write(path, engine)
    notes = _notes(lowered.rounded, settings)
    return TensorRTEngineFile(path, lowered.inputs, lowered.outputs, _facts(trt, settings), notes)


def _notes(rounded: Rounded, settings: EngineSettings) -> tuple[str, ...]:
    if not rounded.flushed:
        return ()
    return (f"{rounded.flushed} of {rounded.values} weights are too small for {settings.precision} and became 0",)


def parse(trt: Any, builder: Any, graph: Path, log: BuildLog) -> tuple[Any, Any]:
    """Network and parser of a graph whose weights lie beside it.

    Raises:
        EngineError: TensorRT does not take the graph; names the nodes.
    """
    network = builder.create_network(_strongly_typed(trt))
    parser = trt.OnnxParser(network, log.logger)
    if not parser.parse_from_file(str(graph)):
        errors = [parser.get_error(number) for number in range(parser.num_errors)]
        raise log.failure(
            "does not take the graph",
            *(" ".join(filter(None, (error.node_operator(), error.node_name(), error.desc()))) for error in errors),
        )
    _let_attention_decompose(trt, network)
    return network, parser


def _strongly_typed(trt: Any) -> int:
    """Flags of a network whose types are those of the graph; TensorRT 11 knows no other kind and may drop the flag."""
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def _let_attention_decompose(trt: Any, network: Any) -> None:
    """Attention that no fused kernel fits (in fp32 none does) becomes several kernels instead of an error."""
    kind = getattr(trt.LayerType, "ATTENTION_INPUT", None)
    for number in range(network.num_layers) if kind is not None else ():
        layer = network.get_layer(number)
        if layer.type == kind:
            layer.__class__ = trt.IAttentionInputLayer
            layer.attention.decomposable = True


def configure(trt: Any, config: Any, settings: EngineSettings, log: BuildLog) -> None:
    """Everything but the profiles.

    Raises:
        EngineError: TensorRT refuses a value, or the timing cache.
    """
    config.builder_optimization_level = settings.optimization_level
    config.clear_flag(trt.BuilderFlag.TF32)  # fp32 means fp32: the islands are there for their precision
    if settings.workspace_bytes is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, settings.workspace_bytes)
    if settings.version_compatible:
        config.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
    if settings.hardware_compatible:
        config.hardware_compatibility_level = trt.HardwareCompatibilityLevel.AMPERE_PLUS
    if not settings.flavour.needs_gpu and settings.compute_capabilities != (PORTABLE,):
        names = known_targets(settings.flavour)
        config.num_compute_capabilities = len(settings.compute_capabilities)
        for number, capability in enumerate(settings.compute_capabilities):
            if not config.set_compute_capability(getattr(trt.ComputeCapability, names[capability]), number):
                raise log.failure(f"refuses compute capability {capability}")
    if settings.timing_cache is not None:
        use_timing_cache(config, settings.timing_cache, log)


def check_inputs(network: Any, inputs: tuple[TensorInfo, ...], log: BuildLog) -> None:
    """The network must have the inputs the plan was made for, by name.

    Raises:
        EngineError: one is missing, or there is one more: TensorRT drops an input that nothing reads.
    """
    found = {network.get_input(number).name for number in range(network.num_inputs)}
    if differing := found ^ {info.name for info in inputs}:
        raise log.failure(f"has other inputs than the graph ({', '.join(sorted(differing))})")


def add_profile(builder: Any, config: Any, profile: Profile, log: BuildLog) -> Any:
    """Add one profile to ``config`` and read it back; TensorRT itself accepts ranges that are none.

    Returns:
        TensorRT's profile.

    Raises:
        EngineError: a range breaks min <= opt <= max, or TensorRT holds something else than it was given.
    """
    added = builder.create_optimization_profile()
    for name, found in profile.inputs.items():
        if fault := found.fault():
            raise EngineError(f"{profile.name} profile, input {name!r}: {fault}; report this build plan")
        added.set_shape(name, found.min, found.opt, found.max)
        held = tuple(tuple(shape) for shape in added.get_shape(name))
        if held != (found.min, found.opt, found.max):
            raise log.failure(f"holds other shapes for {name!r} under the {profile.name} profile ({held})")
    if config.add_optimization_profile(added) < 0:
        raise log.failure(f"refuses the {profile.name} profile")
    return added


def _lower(exported: ExportedComponent, build_plan: BuildPlan, settings: EngineSettings, graph: Path) -> _Lowered:
    source, component = exported.directory / MODEL_NAME, build_plan.component
    rounded = lower_file(source, graph, component, settings.precision, settings.flavour.backend)
    model = onnx.load(graph, load_external_data=False)
    if component != CODE2WAV:
        _fix_capacity(model, build_plan.limits)
        graph.write_bytes(model.SerializeToString(deterministic=True))
    return _Lowered(graph, tensors_of(model.graph.input), tensors_of(model.graph.output), rounded)


def _fix_capacity(model: onnx.ModelProto, limits: Mapping[str, int]) -> None:
    """TensorRT updates a cache in place only if its number of slots is part of the graph."""
    for value in (*model.graph.input, *model.graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param == _CAPACITY:
                dimension.dim_value = limits["max_kv_cache_capacity"]


def _build(
    trt: Any,
    lowered: _Lowered,
    build_plan: BuildPlan,
    settings: EngineSettings,
    log: BuildLog,
    listener: BuildListener,
    interrupts: Interrupts,
) -> Any:
    """The serialized engine, as a buffer."""
    builder = trt.Builder(log.logger)
    network, parser = parse(trt, builder, lowered.path, log)
    check_inputs(network, lowered.inputs, log)
    config = builder.create_builder_config()
    configure(trt, config, settings, log)
    for profile in build_plan.profiles:
        add_profile(builder, config, profile, log)
    progress = monitor(trt, listener, interrupts)
    if progress is not None:
        config.progress_monitor = progress
    engine = builder.build_serialized_network(network, config)
    del parser  # not before: it owns the weights
    if engine is None:
        raise _unbuilt(log, settings)
    if settings.timing_cache is not None:
        keep_timing_cache(config, settings.timing_cache)
    return engine


def _unbuilt(log: BuildLog, settings: EngineSettings) -> EngineError:
    failure = log.failure("cannot build the engine")
    if settings.workspace_bytes is None:
        return failure
    limit = settings.workspace_bytes >> 20
    return EngineError(f"{failure}; a layer may take {limit} MiB: raise --workspaceMiB or leave it out if that is why")


def _write(path: Path, engine: Any) -> None:
    with path.open("wb") as stream:
        stream.write(memoryview(engine))


def _facts(trt: Any, settings: EngineSettings) -> BuildFacts:
    return BuildFacts(
        tensorrt_version=trt.__version__,
        os=platform.system(),
        machine=platform.machine(),
        compute_capabilities=settings.compute_capabilities,
        optimization_level=settings.optimization_level,
        workspace_bytes=settings.workspace_bytes,
        version_compatible=settings.version_compatible,
        hardware_compatible=settings.hardware_compatible,
    )
