"""Full verification of engines that were built earlier: every byte against the manifest."""

from __future__ import annotations

from pathlib import Path

from cpspec_trt.builder.profiles import COMPONENTS
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import read_component_config
from cpspec_trt.files.manifest import MANIFEST_NAME, Manifest, check_files, read_manifest

_MULTIMODAL = "multimodal"  # where the reference's runtime looks for code2wav


def verify_engines(directory: Path) -> list[tuple[Path, Manifest]]:
    """Hash every file of one engine directory, or of all engine directories below ``directory``.

    Returns:
        Each engine directory with its manifest.

    Raises:
        EngineError: there is no engine, a component has no manifest, a file cannot be read or is not what was
            built, or components of one root come from different checkpoints.
    """
    try:
        directories = [directory] if (directory / MANIFEST_NAME).is_file() else _engines_below(directory)
    except OSError as fault:
        raise EngineError(f"{fault.filename}: cannot be read: {fault.strerror}; make it readable") from None
    if not directories:
        raise EngineError(f"{directory}: holds no engine ({MANIFEST_NAME}); build one with cpspec-build")
    found = [(path, _verify(path)) for path in directories]
    first, reference = found[0]
    for path, manifest in found[1:]:
        if manifest.checkpoint_fingerprint != reference.checkpoint_fingerprint:
            raise EngineError(
                f"{path} and {first} come from different checkpoints; build all with cpspec-build --checkpoint"
            )
    return found


def _engines_below(root: Path) -> list[Path]:
    """Engine directories in ``root`` and ``root/multimodal``; by its name also one that has lost its manifest."""
    if not root.is_dir():
        return []
    inner = sorted(path for path in root.iterdir() if path.is_dir())
    nested = sorted(path for path in (root / _MULTIMODAL).iterdir()) if root / _MULTIMODAL in inner else []
    return [path for path in (*inner, *nested) if path.name in COMPONENTS or (path / MANIFEST_NAME).is_file()]


def _verify(directory: Path) -> Manifest:
    manifest, config = read_manifest(directory), read_component_config(directory)
    if (manifest.model, manifest.checkpoint_fingerprint) != (config.model, config.checkpoint_fingerprint):
        raise EngineError(
            f"{directory}: config.json and {MANIFEST_NAME} belong to different builds; rebuild it with cpspec-build"
        )
    check_files(directory, manifest, full=True)
    return manifest
