"""The CodePredictor stage: a tree of drafts is verified in one pass, and its accepted path becomes the sequence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.engines.loading import open_engine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import CodePredictorConfig, read_config_of
from cpspec_trt.files.sidecars import EMBEDDING, read_code_predictor_sidecars
from cpspec_trt.files.tensors import open_tensors
from cpspec_trt.stages.code_predictor import CodePredictorStage

TOLERANCE = 1e-5
# Two children of the root, two below the first of them: paths 0-1-3, 0-1-4 and 0-2.
CODES = np.array([7, 11, 13, 17, 19])
DEPTHS = np.array([0, 1, 1, 2, 2])
PARENTS = np.array([-1, 0, 0, 1, 1])


def stage(engines: Path, batch: int = 1) -> CodePredictorStage:
    directory = engines / "code_predictor"
    config = read_config_of(directory, CodePredictorConfig)
    tables = read_code_predictor_sidecars(directory, config)
    table = open_tensors(engines / "talker" / EMBEDDING, EngineError)
    codec_embedding = table.read("embedding", table.entry("embedding").shape)
    return CodePredictorStage(open_engine(directory, threads=1), config, tables, codec_embedding, batch)


def begun(engines: Path, batch: int = 1) -> CodePredictorStage:
    """A stage whose frames have started and hold one code more in row 0."""
    found = stage(engines, batch)
    width = read_config_of(engines / "code_predictor", CodePredictorConfig).talker_hidden_size
    hidden = np.random.default_rng(4).standard_normal((batch, width)).astype(np.float32)
    found.start_frame(hidden, np.arange(3, 3 + batch))
    found.verify(np.full((batch, 1), 5))
    found.commit(np.array([1] + [0] * (batch - 1)))
    return found


def chain(engines: Path, *nodes: int) -> np.ndarray:
    """The rows of a path, fed as a chain."""
    return begun(engines).verify(CODES[None, list(nodes)])[0].copy()


def tree_rows(found: CodePredictorStage, batch: int = 1) -> np.ndarray:
    codes, depths, parents = (np.tile(array, (batch, 1)) for array in (CODES, DEPTHS, PARENTS))
    return found.verify_tree(codes, depths, parents).copy()


def test_every_path_of_a_tree_has_the_rows_of_its_chain(demo_engines: Path) -> None:
    rows = tree_rows(begun(demo_engines))[0]
    for path in ([0, 1, 3], [0, 1, 4], [0, 2]):
        np.testing.assert_allclose(rows[path], chain(demo_engines, *path), rtol=0, atol=TOLERANCE)
    assert np.abs(rows[3] - rows[4]).max() > 100 * TOLERANCE, "siblings must not look alike"


def test_a_tree_without_branches_is_a_chain_bit_for_bit(demo_engines: Path) -> None:
    codes = CODES[None, :3]
    as_tree = begun(demo_engines).verify_tree(codes, np.array([[0, 1, 2]]), np.array([[-1, 0, 1]]))
    np.testing.assert_array_equal(as_tree[0], chain(demo_engines, 0, 1, 2))


@pytest.mark.parametrize("path", [[0, 1, 4], [0, 2], [0]])
def test_what_follows_a_committed_path_is_what_follows_its_chain(demo_engines: Path, path: list[int]) -> None:
    found = begun(demo_engines)
    tree_rows(found)
    found.commit_path(np.array([0]), np.array([len(path)]), np.array(path))
    expected = begun(demo_engines)
    expected.verify(CODES[None, path])
    expected.commit(np.array([len(path)]))
    following = np.array([[23, 29]])
    np.testing.assert_allclose(found.verify(following), expected.verify(following), rtol=0, atol=TOLERANCE)


def test_sequences_of_a_batch_commit_their_own_paths(demo_engines: Path) -> None:
    """Row 0 keeps a path, row 1 keeps nothing; they stand at different lengths."""
    found = begun(demo_engines, batch=2)
    tree_rows(found, batch=2)
    found.commit_path(np.array([0]), np.array([3]), np.array([0, 1, 4]))
    alone = begun(demo_engines)
    tree_rows(alone)
    alone.commit_path(np.array([0]), np.array([3]), np.array([0, 1, 4]))
    rows, expected = found.verify(np.array([[23], [29]])), alone.verify(np.array([[23]]))
    np.testing.assert_allclose(rows[0], expected[0], rtol=0, atol=TOLERANCE)
    untouched = begun(demo_engines, batch=2).verify(np.array([[23], [29]]))
    np.testing.assert_allclose(rows[1], untouched[1], rtol=0, atol=TOLERANCE)
