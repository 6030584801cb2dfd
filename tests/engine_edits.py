"""Changes to built engines that a test makes on purpose."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cpspec_trt.files.manifest import MANIFEST_NAME, SEAL, describe_file, read_manifest, seal, write_manifest


def accept_edits(directory: Path) -> None:
    """Write the manifest of an engine directory again, so that the files as they are now pass for what was built."""
    manifest = read_manifest(directory)
    files, sidecars = (
        tuple(describe_file(directory / file.name) for file in listed) for listed in (manifest.files, manifest.sidecars)
    )
    (directory / MANIFEST_NAME).unlink()  # a copied tree may share it with the engines of other tests
    write_manifest(directory, replace(manifest, files=files, sidecars=sidecars))


def edit_manifest(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the JSON of a manifest and seal it again, as if the engine had been built that way."""
    path = directory / MANIFEST_NAME
    value = json.loads(path.read_text())
    change(value)
    path.unlink()
    path.write_text(json.dumps(value | {SEAL: seal(value)}))
