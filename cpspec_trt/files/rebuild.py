"""The ``cpspec-build`` command that makes an engine again: what its manifest recorded, as flags to paste."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cpspec_trt.files.manifest import BuildFacts, Manifest

ONNXRUNTIME, FULL, RTX = "onnxruntime", "tensorrt", "tensorrt-rtx"
_SOURCE = "ONNX_DIR"  # the export of the checkpoint; where it lies is nothing that an engine knows
_MIB = 1 << 20


def flag_of(name: str) -> str:
    """The flag of ``cpspec-build`` for a name of the manifest (max_kv_cache_capacity: --maxKVCacheCapacity)."""
    first, *rest = name.split("_")
    return "--" + first + "".join("KV" if word == "kv" else word.capitalize() for word in rest)


def rebuild_command(
    directory: Path,
    manifest: Manifest,
    backend: str | None = None,
    compute_capability: str | None = None,
    limits: Mapping[str, int] | None = None,
) -> str:
    """The command that builds the engine of a directory again, with the same limits.

    Args:
        directory: the engine directory.
        manifest: what was recorded there.
        backend: another backend than the one that built it, or None. It chooses its own precision.
        compute_capability: a GPU that the new engine must run on ("8.9"), where the old one does not; or None.
        limits: sizes that the new engine must have instead of the old one's.

    Returns:
        One line for a shell. ``ONNX_DIR`` stands in it for the export, which the caller has or makes with
        ``cpspec-export``.
    """
    chosen = backend or manifest.backend
    words = ["cpspec-build", "--onnxDir", _SOURCE, "--engineDir", shlex.quote(str(directory)), "--backend", chosen]
    if chosen == manifest.backend and (manifest.build is not None or manifest.precision != "fp32"):
        words += ["--precision", manifest.precision]
    if chosen == manifest.backend and manifest.build is not None:
        words += _options(manifest.build)
    if chosen == RTX and (capabilities := _capabilities(manifest, compute_capability)):
        words += ["--computeCapabilities", ",".join(capabilities)]
    for name, size in {**manifest.limits, **(limits or {})}.items():
        words += [flag_of(name), str(size)]
    return " ".join(words)


def _options(facts: BuildFacts) -> list[str]:
    words = ["--optimizationLevel", str(facts.optimization_level)]
    if facts.workspace_bytes is not None:
        words += ["--workspaceMiB", str(facts.workspace_bytes // _MIB)]
    return (
        words
        + ["--versionCompatible"] * facts.version_compatible
        + ["--hardwareCompatible"] * facts.hardware_compatible
    )


def _capabilities(manifest: Manifest, wanted: str | None) -> tuple[str, ...]:
    """The GPUs to name: those that the engine was built for by name, and the one that is wanted."""
    facts = manifest.build
    named = facts.named_capabilities if facts is not None and manifest.backend == RTX else ()
    return named if wanted is None else (*named, wanted)
