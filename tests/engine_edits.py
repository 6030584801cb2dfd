"""Changes to built engines that a test makes on purpose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cpspec_trt.files.manifest import describe_file, read_manifest, write_manifest


def accept_edits(directory: Path) -> None:
    """Write the manifest of an engine directory again, so that the files as they are now pass for what was built."""
    manifest = read_manifest(directory)
    files, sidecars = (
        tuple(describe_file(directory / file.name) for file in listed) for listed in (manifest.files, manifest.sidecars)
    )
    (directory / "engine_manifest.json").unlink()  # a copied tree may share it with the engines of other tests
    write_manifest(directory, replace(manifest, files=files, sidecars=sidecars))
