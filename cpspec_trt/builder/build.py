"""From an exported component to an engine directory, and from a checkpoint to all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cpspec_trt.builder import onnxruntime as embedded
from cpspec_trt.builder.backends import choose_backend
from cpspec_trt.builder.build_progress import BuildListener
from cpspec_trt.builder.engine_options import (
    EmbeddedSettings,
    EngineOptions,
    EngineSettings,
    Settings,
    check_options,
)
from cpspec_trt.builder.exported import ExportedComponent, read_export
from cpspec_trt.builder.preview import plan_checkpoint
from cpspec_trt.builder.profiles import CODE2WAV, COMPONENTS, BuildLimits, BuildPlan, plan
from cpspec_trt.checkpoint.reader import open_checkpoint
from cpspec_trt.errors import EngineError, UsageError
from cpspec_trt.files.atomic import atomic_directory, scratch_directory
from cpspec_trt.files.json_io import write_json_atomic
from cpspec_trt.files.manifest import (
    MANIFEST_NAME,
    BuildFacts,
    Manifest,
    TensorInfo,
    describe_file,
    read_manifest,
    write_manifest,
)
from cpspec_trt.files.placement import (
    CONFIG_NAME,
    ENGINE,
    check_apart,
    check_replaceable,
    keep_foreign_files,
    place,
    unmade_by_failure,
    written_to,
)
from cpspec_trt.graphs.export import directories_of, export_checkpoint

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """A finished engine directory; ``notes`` are what its user should know, one sentence each."""

    directory: Path
    plan: BuildPlan
    manifest: Manifest
    notes: tuple[str, ...]


def engine_directory(engine_dir: Path, component: str) -> Path:
    """Where one component's engine goes: code2wav into a directory of that name, as ``audio_build`` does."""
    if component == CODE2WAV and CODE2WAV not in (engine_dir.name, engine_dir.resolve().name):
        return engine_dir / CODE2WAV
    return engine_dir


def build_engine(
    onnx_dir: Path,
    engine_dir: Path,
    limits: BuildLimits,
    backend: str = "auto",
    options: EngineOptions | None = None,
    *,
    link_weights: bool = False,
) -> BuiltEngine:
    """Build the engine of one exported component.

    The engine directory is swapped in as a whole: an interrupted build leaves what was there, and
    of two builds into one directory one whole engine stays. Files that no build wrote are kept.

    Args:
        onnx_dir: one component as ``cpspec-export`` writes it.
        engine_dir: where the engine goes (code2wav: into ``code2wav/`` inside, unless that is its name).
        limits: sizes of the profiles.
        backend: see ``backends.choose_backend``.
        options: how it is to be built; None leaves everything to the builder.
        link_weights: share the bytes of weights and tables with the export; only if the export will not change any
            more.

    Raises:
        UsageError: limits that fit no engine, no such directory, an option that the backend cannot honour, or an
            engine directory that must not be replaced.
        EngineError: the export is damaged, the engine cannot be written or loaded, or TensorRT cannot build it or not
            here.
        UnsupportedError: another system's export.
    """
    chosen = choose_backend(backend)
    settings = check_options(options or EngineOptions(), chosen.backend)
    built = build_exported(read_export(onnx_dir), engine_dir, limits, settings, link_weights=link_weights)
    return replace(built, notes=(*chosen.notes, *built.notes))


def build_exported(
    exported: ExportedComponent,
    engine_dir: Path,
    limits: BuildLimits,
    settings: Settings,
    *,
    link_weights: bool,
    listener: BuildListener | None = None,
) -> BuiltEngine:
    """As ``build_engine``, for an export that was read already and settings of ``check_options``.

    ``listener`` hears of TensorRT's phases.
    """
    _check_settings(settings)
    return _build(exported, engine_dir, limits, settings, link_weights, listener)


def _build(
    exported: ExportedComponent,
    engine_dir: Path,
    limits: BuildLimits,
    settings: Settings,
    link_weights: bool,
    listener: BuildListener | None,
) -> BuiltEngine:
    build_plan = plan(exported.config, exported.inputs, limits, static_capacity=settings.static_capacity)
    target = engine_directory(engine_dir, build_plan.component)
    with written_to(target, "engine"), unmade_by_failure(target.parent):
        check_replaceable(target, ENGINE)
        check_apart(exported.directory, target)
        with atomic_directory(target) as directory:
            manifest, notes = _fill(directory, exported, build_plan, settings, link_weights, listener)
            keep_foreign_files(target, directory, ENGINE, _written_by_a_build(target))
    return BuiltEngine(target, build_plan, manifest, (*build_plan.notes, *notes))


def build_checkpoint(
    checkpoint: Path,
    engine_root: Path,
    limits: Mapping[str, BuildLimits],
    backend: str = "auto",
    onnx_dir: Path | None = None,
    progress: Progress = lambda line: None,
    options: EngineOptions | None = None,
    listener: BuildListener | None = None,
) -> list[BuiltEngine]:
    """Export a checkpoint and build every component it has into ``engine_root``, each under its own name.

    Args:
        checkpoint: the directory of a Qwen3-TTS or Qwen3-Omni checkpoint.
        engine_root: made if missing.
        limits: per component.
        backend: see ``backends.choose_backend``.
        onnx_dir: where the export goes and stays; None exports to a temporary directory beside the
            engines, whose weights become the engines' without a copy.
        progress: called with one line per step, and with what there is to know about the choice of ``auto``.
        options: as for ``build_engine``.
        listener: hears of TensorRT's phases.

    Raises:
        CheckpointError: the checkpoint is incomplete or damaged.
        UsageError, EngineError, UnsupportedError: as ``build_engine``.
    """
    chosen = choose_backend(backend)
    settings = check_options(options or EngineOptions(), chosen.backend)
    for note in chosen.notes:
        progress(f"note: {note}")
    plan_checkpoint(checkpoint, limits, static_capacity=settings.static_capacity)
    _check_places(directories_of(open_checkpoint(checkpoint)), engine_root, onnx_dir)
    _check_settings(settings)

    def build_all(exported: Mapping[str, Path], link_weights: bool) -> list[BuiltEngine]:
        built = []
        for component, source in exported.items():
            progress(f"building {component}")
            target, sizes = engine_root / component, limits[component]
            built.append(_build(read_export(source), target, sizes, settings, link_weights, listener))
        return built

    if onnx_dir is not None:
        return build_all(export_checkpoint(checkpoint, onnx_dir, progress=progress), False)
    with (
        written_to(engine_root, "engines"),
        unmade_by_failure(engine_root),
        scratch_directory(engine_root / "onnx") as scratch,
    ):
        return build_all(export_checkpoint(checkpoint, scratch, progress=progress, shown=engine_root), True)


def _check_settings(settings: Settings) -> None:
    """What TensorRT would refuse only once its graph is there."""
    if isinstance(settings, EngineSettings):
        from cpspec_trt.builder import tensorrt  # with the lowering, which the other backend does without

        tensorrt.check_settings(settings)


def _check_places(directories: Mapping[str, str], engine_root: Path, onnx_dir: Path | None) -> None:
    """Everything that can be wrong with the two roots, before the first byte is written.

    Raises:
        UsageError: a directory must not be replaced, two would lie in one another, or an engine of another family is
            in the root, which the runtime would find there.
    """
    with written_to(engine_root, "engines"):
        for component in directories:
            check_replaceable(engine_root / component, ENGINE)
        for other in (name for name in COMPONENTS if name not in directories):
            if (engine_root / other / MANIFEST_NAME).exists():
                raise UsageError(
                    f"{engine_root / other}: is an engine that this checkpoint does not have; "
                    "remove it or choose another --engineDir"
                )
    if onnx_dir is not None:
        for exported in directories.values():
            for component in directories:
                check_apart(onnx_dir / exported, engine_root / component)


def _fill(
    directory: Path,
    exported: ExportedComponent,
    build_plan: BuildPlan,
    settings: Settings,
    link_weights: bool,
    listener: BuildListener | None,
) -> tuple[Manifest, tuple[str, ...]]:
    """Write everything of an engine directory, the manifest last; also returns what the backend has to say."""
    engine = (
        _onnxruntime_engine(directory, exported, build_plan, settings, link_weights)
        if isinstance(settings, EmbeddedSettings)
        else _tensorrt_engine(directory, exported, build_plan, settings, listener)
    )
    sidecars = [directory / path.name for path in exported.sidecars()]
    for path in sidecars:
        place(exported.directory / path.name, path, link_weights)
    config = directory / CONFIG_NAME
    write_json_atomic(config, {**exported.config_json, "builder_config": dict(build_plan.limits)})
    manifest = Manifest(
        backend=engine.backend,
        backend_version=engine.version,
        component=build_plan.component,
        model=build_plan.model,
        checkpoint_fingerprint=exported.config.checkpoint_fingerprint,
        precision=engine.precision,
        inputs=engine.inputs,
        outputs=engine.outputs,
        profiles=build_plan.profiles,
        limits=build_plan.limits,
        files=tuple(describe_file(path) for path in engine.files),
        sidecars=tuple(describe_file(path) for path in (config, *sidecars)),
        build=engine.facts,
    )
    write_manifest(directory, manifest)
    return manifest, engine.notes


@dataclass(frozen=True, slots=True)
class _Engine:
    """What a backend wrote, in the words of the manifest, and notes for the user."""

    backend: str
    version: str
    precision: str
    files: Sequence[Path]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    facts: BuildFacts | None
    notes: tuple[str, ...]


def _onnxruntime_engine(
    directory: Path,
    exported: ExportedComponent,
    build_plan: BuildPlan,
    settings: EmbeddedSettings,
    link_weights: bool,
) -> _Engine:
    built = embedded.write_engine(exported, build_plan.component, directory, link_weights, settings.precision)
    version = embedded.backend_version()
    return _Engine(
        embedded.BACKEND, version, built.precision, built.files, exported.inputs, exported.outputs, None, built.notes
    )


def _tensorrt_engine(
    directory: Path,
    exported: ExportedComponent,
    build_plan: BuildPlan,
    settings: EngineSettings,
    listener: BuildListener | None,
) -> _Engine:
    from cpspec_trt.builder import tensorrt  # with the lowering, which the other backend does without

    built = tensorrt.write_engine(exported, build_plan, settings, directory, listener)
    name, version = settings.flavour.backend, built.facts.tensorrt_version
    return _Engine(
        name, version, settings.precision, [built.path], built.inputs, built.outputs, built.facts, built.notes
    )


def _written_by_a_build(directory: Path) -> set[str]:
    names = {MANIFEST_NAME, CONFIG_NAME}
    try:
        manifest = read_manifest(directory)
    except EngineError:  # no manifest or a damaged one: nothing else is known to be ours, so everything is kept
        return names
    return names | {file.name for file in (*manifest.files, *manifest.sidecars)}
