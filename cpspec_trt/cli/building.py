"""What ``cpspec-build`` does between its flags and the engine directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from cpspec_trt.builder.backends import AUTO, choose_backend
from cpspec_trt.builder.build import BuiltEngine, build_checkpoint, build_exported
from cpspec_trt.builder.engine_options import EmbeddedSettings, EngineOptions, Settings, check_options
from cpspec_trt.builder.exported import read_export
from cpspec_trt.builder.onnxruntime import BACKEND as ONNXRUNTIME
from cpspec_trt.builder.presets import Preset, read_preset
from cpspec_trt.builder.preview import plan_checkpoint
from cpspec_trt.builder.profiles import COMPONENTS, LIMITS, BuildLimits, BuildPlan, flag_of, plan
from cpspec_trt.builder.verify import verify_engines
from cpspec_trt.cli.steps import show_step
from cpspec_trt.errors import UsageError
from cpspec_trt.report.build_progress import BuildProgress
from cpspec_trt.report.plan_table import print_plan

_WIDTH = 200  # more than any plan needs: a narrow terminal wraps lines, which is better than cutting numbers


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The flags of ``cpspec-build``.

    ``given`` holds the sizes and the options of TensorRT on the command line, by field of ``BuildLimits`` and of
    ``EngineOptions``.
    """

    onnx_dir: Path | None
    engine_dir: Path | None
    checkpoint: Path | None
    preset: Path | None
    backend: str | None
    given: Mapping[str, Any]
    dry_run: bool
    verify: bool
    debug: bool

    @property
    def limits(self) -> dict[str, int]:
        """Sizes that were given."""
        return {name: value for name, value in self.given.items() if name in LIMITS}

    def engine_options(self) -> dict[str, Any]:
        """Options of TensorRT that were given, with the types of ``EngineOptions``."""
        found = {name: value for name, value in self.given.items() if name not in LIMITS}
        if "compute_capabilities" in found:
            found["compute_capabilities"] = tuple(part.strip() for part in found["compute_capabilities"].split(","))
        return found


def run_build(options: BuildOptions) -> None:
    """Check the flags, then verify, print the plan, or build.

    Raises:
        CpspecError: as the builder raises it.
    """
    if options.verify:
        _verify(options)
        return
    target = None if options.dry_run else _engine_dir(options)
    preset = read_preset(options.preset) if options.preset else Preset()
    limits = {name: _merged(preset, name, options) for name in COMPONENTS}
    choice = _choice(preset, options)
    if options.checkpoint is not None:
        _build_checkpoint(options, options.checkpoint, target, limits, choice)
    elif options.onnx_dir is not None:
        _build_component(options, options.onnx_dir, target, limits, choice)
    else:
        raise UsageError("--onnxDir is missing: give an exported component, or a checkpoint with --checkpoint")


def _engine_dir(options: BuildOptions) -> Path:
    if options.engine_dir is None:
        raise UsageError("--engineDir is missing: give the directory of the engine")
    return options.engine_dir


def _merged(preset: Preset, component: str, options: BuildOptions) -> BuildLimits:
    kept = {name: size for name, size in preset.limits(component).items() if name not in options.limits}
    origins = tuple((name, f"--config {options.preset}: {component}.{name}") for name in kept)
    return BuildLimits(**{**kept, **options.limits}, origins=origins)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Backend and options as given, and what comes of them."""

    backend: str
    options: EngineOptions
    settings: Settings


def _choice(preset: Preset, options: BuildOptions) -> _Choice:
    backend, origin = options.backend or "", "--backend"
    if options.backend is None:
        backend = AUTO
        if preset.backend is not None:
            backend, origin = preset.backend, f"--config {options.preset}: backend"
    choice, given = choose_backend(backend, origin), options.engine_options()
    for note in choice.notes:
        click.echo(f"note: {note}", err=True)
    chosen = choice.backend
    kept = {} if chosen == ONNXRUNTIME else preset.engine_options()
    kept = {name: value for name, value in kept.items() if name not in given}
    origins = tuple((name, f"--config {options.preset}: tensorrt.{name}") for name in kept)
    wanted = EngineOptions(**{**kept, **given}, origins=origins)
    return _Choice(chosen, wanted, check_options(wanted, chosen))


def _verify(options: BuildOptions) -> None:
    others = (options.onnx_dir, options.checkpoint, options.preset, options.backend)
    if options.dry_run or options.given or any(other is not None for other in others):
        raise UsageError("--verify checks engines that exist: give it --engineDir only")
    for directory, manifest in verify_engines(_engine_dir(options)):
        size = sum(file.bytes for file in (*manifest.files, *manifest.sidecars))
        click.echo(f"{manifest.component}: {directory} is what was built ({size / 1e6:.1f} MB hashed)")


def _build_checkpoint(
    options: BuildOptions, checkpoint: Path, target: Path | None, limits: Mapping[str, BuildLimits], choice: _Choice
) -> None:
    if target is None or options.debug:
        plans = plan_checkpoint(checkpoint, limits, static_capacity=choice.settings.static_capacity)
        _show(plans, choice.settings, target is None)
    if target is not None:
        with BuildProgress() as listener:
            built = build_checkpoint(
                checkpoint, target, limits, choice.backend, options.onnx_dir, show_step, choice.options, listener
            )
        for engine in built:
            _announce(engine)


def _build_component(
    options: BuildOptions, onnx_dir: Path, target: Path | None, limits: Mapping[str, BuildLimits], choice: _Choice
) -> None:
    exported = read_export(onnx_dir)
    wanted = limits[exported.component]
    build_plan = plan(exported.config, exported.inputs, wanted, static_capacity=choice.settings.static_capacity)
    _warn_about_unused(build_plan, options.limits)
    if target is None or options.debug:
        _show([build_plan], choice.settings, target is None)
    if target is not None:
        show_step(f"building {exported.component}")
        with BuildProgress() as listener:
            built = build_exported(exported, target, wanted, choice.settings, link_weights=False, listener=listener)
        _announce(built)


def _warn_about_unused(build_plan: BuildPlan, given: Mapping[str, int]) -> None:
    for name in LIMITS:
        if name in given and name not in build_plan.limits:
            click.echo(f"warning: {flag_of(name)} means nothing for {build_plan.component}", err=True)


def _show(plans: Sequence[BuildPlan], settings: Settings, only_plan: bool) -> None:
    """The plans and what they decided; notes come with the engines, or here if none is built."""
    print_plan(plans, Console(width=_WIDTH))
    if settings != EmbeddedSettings():  # of which there is nothing to say
        click.echo(f"note: {settings.sentence()}", err=True)
    for build_plan in plans:
        _print_notes(build_plan.component, build_plan.details)
        if only_plan:
            _print_notes(build_plan.component, build_plan.notes)


def _announce(built: BuiltEngine) -> None:
    _print_notes(built.plan.component, built.notes)
    manifest, size = built.manifest, sum(file.bytes for file in built.manifest.files)
    what = f"{manifest.files[0].name}, {size / 1e6:.1f} MB, {manifest.backend} {manifest.backend_version}"
    if manifest.build is not None or manifest.precision != "fp32":
        what += f", {manifest.precision}"
    click.echo(f"{manifest.component}: {built.directory} ({what})")


def _print_notes(component: str, notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(f"note: {component}: {note}", err=True)
