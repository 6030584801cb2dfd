"""How a backend is to build an engine: what was asked for, checked against what it can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal, get_args

from cpspec_trt.builder.flavour import FLAVOURS, Flavour, gpu_compute_capability
from cpspec_trt.errors import EngineError, UsageError
from cpspec_trt.files.manifest import PORTABLE

Precision = Literal["fp32", "fp16", "bf16"]
EmbeddedPrecision = Literal["fp32", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
EMBEDDED_PRECISIONS: tuple[EmbeddedPrecision, ...] = get_args(EmbeddedPrecision)
OPTIMIZATION_LEVELS = range(6)
DEFAULT_OPTIMIZATION_LEVEL = 3  # TensorRT's own
_BF16_SINCE = (8, 0)
_NO_WIDE_PRODUCTS = "7.5"  # TensorRT for RTX 1.7: "FP32 GEMM is not supported" for Turing
_MIB = 1 << 20

#: The flag of each option.
FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "precision": "--precision",
        "optimization_level": "--optimizationLevel",
        "workspace_mib": "--workspaceMiB",
        "compute_capabilities": "--computeCapabilities",
        "timing_cache": "--timingCache",
        "version_compatible": "--versionCompatible",
        "hardware_compatible": "--hardwareCompatible",
        "build_log": "--buildLog",
    }
)
_REFUSED_BY_RTX = {
    "timing_cache": "it times no kernels when it builds, so it has nothing to keep; leave it out",
    "version_compatible": "it has no lean runtime to open engines of other versions with; build again after an update",
    "hardware_compatible": "its engines run on every GPU from compute capability 8.0 as they are; "
    "for others name them with --computeCapabilities",
}
_REFUSED_BY_FULL = {
    "compute_capabilities": "it builds for the GPU of this machine; use --hardwareCompatible for all from compute "
    "capability 8.0, or --backend tensorrt-rtx",
}


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What a build is asked for; None, False and empty leave the choice to the builder. Most is for TensorRT alone.

    Attributes:
        precision: TensorRT: fp32, fp16 or bf16; by itself bf16 if every GPU that the engine is for has it, else fp16.
            ONNX Runtime: fp32, or int8 for the weights of decoders; by itself fp32.
        optimization_level: 0 … 5; more takes longer to build.
        workspace_mib: most scratch memory a layer may take, in MiB.
        compute_capabilities: GPUs to build for ("8.9"), tensorrt-rtx only.
        timing_cache: file of kernel times, read and extended, tensorrt only.
        version_compatible: let later versions of TensorRT open the engine, tensorrt only.
        hardware_compatible: let every GPU from compute capability 8.0 run it, tensorrt only.
        build_log: file that gets every line TensorRT writes.
        origins: for messages, pairs of an option and words for its place, where that is not its flag.
    """

    precision: str | None = None
    optimization_level: int | None = None
    workspace_mib: int | None = None
    compute_capabilities: tuple[str, ...] = ()
    timing_cache: Path | None = None
    version_compatible: bool = False
    hardware_compatible: bool = False
    build_log: Path | None = None
    origins: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def origin(self, name: str) -> str:
        """Where an option was given: its flag, or a key of a preset."""
        return dict(self.origins).get(name) or FLAGS[name]

    def given(self) -> list[str]:
        """Names of the options that were asked for; a 0 was, too."""
        values = {found.name: getattr(self, found.name) for found in fields(self) if found.name in FLAGS}
        return [name for name, value in values.items() if value is not None and value is not False and value != ()]


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Options in force for one flavour, all decided; see ``EngineOptions``, and ``BuildFacts`` for the GPUs."""

    static_capacity: ClassVar[bool] = True  # a TensorRT engine has a KV cache of one size

    flavour: Flavour
    precision: Precision
    optimization_level: int
    workspace_bytes: int | None
    compute_capabilities: tuple[str, ...]
    timing_cache: Path | None
    version_compatible: bool
    hardware_compatible: bool
    build_log: Path | None

    def sentence(self) -> str:
        """What will be built, for people."""
        gpus = ", ".join(self.compute_capabilities)
        where = "every GPU from compute capability 8.0" if gpus == PORTABLE else f"compute capability {gpus}"
        return f"{self.flavour.backend} in {self.precision} for {where}, optimization level {self.optimization_level}"


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """Options in force for ONNX Runtime."""

    static_capacity: ClassVar[bool] = False
    precision: EmbeddedPrecision = "fp32"

    def sentence(self) -> str:
        """What will be built, for people."""
        weights = "; the weights of decoders are int8" if self.precision == "int8" else ""
        return f"onnxruntime in fp32{weights}"


Settings = EngineSettings | EmbeddedSettings


def check_options(options: EngineOptions, backend: str) -> Settings:
    """Decide everything that was left open.

    Args:
        options: what was asked for.
        backend: the backend that will build, never auto.

    Raises:
        UsageError: a value that no backend takes, or an option that this backend cannot honour.
        EngineError: the flavour cannot build here.
    """
    _check_values(options)
    if backend not in FLAVOURS:
        return _embedded(options, backend)
    flavour = FLAVOURS[backend]
    for name, reason in (_REFUSED_BY_FULL if flavour.needs_gpu else _REFUSED_BY_RTX).items():
        if name in options.given():
            raise UsageError(f"{options.origin(name)}: {backend} cannot do this: {reason}")
    capabilities = _gpus(flavour) if flavour.needs_gpu else _targets(flavour, options)
    level = options.optimization_level
    return EngineSettings(
        flavour=flavour,
        precision=_precision(options, backend, capabilities),
        optimization_level=DEFAULT_OPTIMIZATION_LEVEL if level is None else level,
        workspace_bytes=None if options.workspace_mib is None else options.workspace_mib * _MIB,
        compute_capabilities=capabilities,
        timing_cache=options.timing_cache,
        version_compatible=options.version_compatible,
        hardware_compatible=_hardware_compatible(options, capabilities),
        build_log=options.build_log,
    )


def _check_values(options: EngineOptions) -> None:
    known = (*PRECISIONS, *EMBEDDED_PRECISIONS[1:])
    if options.precision is not None and options.precision not in known:
        raise UsageError(
            f"{options.origin('precision')} {options.precision!r}: is unknown; use one of {', '.join(known)}"
        )
    level, workspace = options.optimization_level, options.workspace_mib
    if level is not None and level not in OPTIMIZATION_LEVELS:
        last = OPTIMIZATION_LEVELS[-1]
        raise UsageError(f"{options.origin('optimization_level')} is {level}; it must lie in 0 … {last}")
    if workspace is not None and workspace < 1:
        raise UsageError(f"{options.origin('workspace_mib')} is {workspace}; it must be at least 1")


def _embedded(options: EngineOptions, backend: str) -> EmbeddedSettings:
    for name in options.given():
        if name != "precision":
            raise UsageError(
                f"{options.origin(name)}: means nothing for {backend} engines; "
                "leave it out, or build with --backend tensorrt or tensorrt-rtx"
            )
    if options.precision is None:
        return EmbeddedSettings()
    if options.precision not in EMBEDDED_PRECISIONS:
        known = " or ".join(EMBEDDED_PRECISIONS)
        raise UsageError(
            f"{options.origin('precision')} {options.precision}: {backend} engines are {known}; "
            "build for TensorRT with --backend tensorrt or tensorrt-rtx"
        )
    return EmbeddedSettings(options.precision)


def _gpus(flavour: Flavour) -> tuple[str, ...]:
    flavour.check_usable()
    capability = gpu_compute_capability()
    if capability is None:  # it was there a moment ago
        raise EngineError(f"--backend {flavour.backend}: the GPU of this machine has gone; check it with nvidia-smi")
    return (capability,)


def _targets(flavour: Flavour, options: EngineOptions) -> tuple[str, ...]:
    """The compute capabilities asked for, each once, in order; ``PORTABLE`` if none was."""
    if not options.compute_capabilities:
        return (PORTABLE,)
    known = known_targets(flavour)
    for capability in options.compute_capabilities:
        origin = f"{options.origin('compute_capabilities')} {capability!r}: {flavour.backend}"
        if capability == _NO_WIDE_PRODUCTS:
            raise UsageError(
                f"{origin} has no fp32 matrix products for it, and no component can do without; "
                "build on that machine with --backend tensorrt, or with --backend onnxruntime"
            )
        if capability not in known:
            usable = ", ".join(name for name in known if name != _NO_WIDE_PRODUCTS)
            raise UsageError(f"{origin} does not build for it; use some of {usable}")
    return tuple(name for name in known if name in options.compute_capabilities)


def known_targets(flavour: Flavour) -> dict[str, str]:
    """Compute capability -> its name in the flavour's module ("8.9": "SM89"), in ascending order."""
    members = flavour.load().ComputeCapability.__members__
    return {f"{name[2:-1]}.{name[-1]}": name for name in members if name.startswith("SM")}


def _precision(options: EngineOptions, backend: str, capabilities: tuple[str, ...]) -> Precision:
    without = [found for found in capabilities if found != PORTABLE and _version(found) < _BF16_SINCE]
    if options.precision == "bf16" and without:
        raise UsageError(
            f"{options.origin('precision')} bf16: GPUs of compute capability {without[0]} do not have it; "
            f"use fp16, or build with {backend} for others"
        )
    if options.precision is None:
        return "fp16" if without else "bf16"
    if options.precision not in PRECISIONS:
        raise UsageError(
            f"{options.origin('precision')} {options.precision}: {backend} engines are {', '.join(PRECISIONS)}; "
            "int8 weights are for the CPU: build with --backend onnxruntime"
        )
    return options.precision


def _hardware_compatible(options: EngineOptions, capabilities: tuple[str, ...]) -> bool:
    if options.hardware_compatible and _version(capabilities[0]) < _BF16_SINCE:
        raise UsageError(
            f"{options.origin('hardware_compatible')}: needs a GPU of compute capability 8.0 or later, "
            f"this machine's has {capabilities[0]}; leave it out"
        )
    return options.hardware_compatible


def _version(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))
