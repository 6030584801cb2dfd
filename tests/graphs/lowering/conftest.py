"""The tiny checkpoints, exported once per worker."""

from __future__ import annotations

import json
from collections.abc import Callable

import onnx
import pytest

from cpspec_trt.graphs.export import export_checkpoint
from tests.conftest import Maker
from tests.graphs.lowering.exports import GRAPHS, Exported

SEED = 3

Open = Callable[[str], Exported]


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory, synthetic_checkpoint: Maker, omni_checkpoint: Maker) -> Open:
    """Open an exported graph by its name in ``GRAPHS``."""
    roots = {"tts": synthetic_checkpoint, "omni": omni_checkpoint}
    exports = {
        family: (tmp_path_factory.mktemp(f"export-{family}"), make("tiny", SEED)) for family, make in roots.items()
    }
    for target, checkpoint in exports.values():
        export_checkpoint(checkpoint, target)

    def open_graph(name: str) -> Exported:
        family, component, directory = GRAPHS[name]
        path = exports[family][0] / directory / "model.onnx"
        config = json.loads((path.parent / "config.json").read_text(encoding="utf-8"))
        return Exported(component, onnx.load(path), config, path)

    return open_graph
