"""The CodePredictor stage: implements the ``Predictor`` protocol over its engine and its small static KV cache.

Positions of one frame (G code groups): 0 holds the Talker's hidden row, 1 the embedding of c0, and
position j >= 2 the embedding of c_(j-1) from table j-2. The row at position s+1 feeds head s, which
predicts c_(s+1).
"""

from __future__ import annotations

import time

import numpy as np

from cpspec_trt.engines.engine import Engine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import CodePredictorConfig
from cpspec_trt.files.manifest import ProfileName
from cpspec_trt.files.sidecars import CodePredictorTables
from cpspec_trt.speculation.policy import Widths
from cpspec_trt.speculation.tree import TreeLayout
from cpspec_trt.stages.decoder_pass import DecoderPass, KeyValueCache, RopeTable
from cpspec_trt.stages.row_probe import FRAMES, RowProbe, compare_rows

PREFILL_ROWS = 2


class CodePredictorStage:
    """Runs prefill and verify passes for a batch of frames (see ``speculation.predictor.Predictor``).

    Attributes:
        talker_hidden_size: width of the row that starts a frame.
        batch: frames decoded together.
        max_rows: new positions a verify pass may have.
        prefill_seconds: wall-clock time of the last frame's prefill.
    """

    def __init__(
        self,
        engine: Engine,
        config: CodePredictorConfig,
        tables: CodePredictorTables,
        codec_embedding: np.ndarray,
        batch: int = 1,
    ) -> None:
        """Allocate the cache for a batch.

        Args:
            engine: the CodePredictor's engine.
            config: its config.
            tables: codec embeddings of c1 … and the heads.
            codec_embedding: the Talker's table, float32 [vocab, talker_hidden], for c0.
            batch: frames decoded together.

        Raises:
            EngineError: the KV capacity is smaller than a frame.
        """
        self.groups = config.num_code_groups
        self.codebook = int(tables.lm_heads.shape[1])
        self.hidden_size = config.decoder.hidden_size
        self._engine = engine
        self.talker_hidden_size = config.talker_hidden_size
        self.batch = batch
        self._embeddings = tables.codec_embeddings
        self._heads = tables.lm_heads
        self._codec_embedding = codec_embedding
        capacity = engine.manifest.max_kv_capacity
        if capacity < self.groups:
            raise EngineError(
                f"CodePredictor engine: its KV capacity is {capacity}, a frame needs {self.groups}; "
                "rebuild the engine with cpspec-build"
            )
        self.max_rows = min(engine.manifest.max_new_positions("generation"), capacity - self.groups)
        self._cache = KeyValueCache(config.decoder, batch, capacity)
        self._rope = RopeTable(config.decoder, capacity)
        self._passes: dict[int, tuple[DecoderPass, np.ndarray]] = {}
        self._lengths = np.zeros(batch, np.int64)
        self.prefill_seconds = 0.0

    def reset(self) -> None:
        """Begin a request: a NaN that an earlier one left in the cache would spread through masked rows."""
        self._cache.clear()

    def probe(self, rows: int) -> RowProbe:
        """Compare passes of 2 … ``rows`` new positions with single steps over whole frames of random input.

        A window shrinks at a frame's end, so every size up to its own occurs. Where all have the bits of single steps,
        greedy codes do not depend on the window. The cache holds garbage afterwards.
        """
        generator = np.random.default_rng(rows)
        batch = len(self._lengths)
        pairs = []
        for _ in range(FRAMES):
            hidden = generator.standard_normal((batch, self.talker_hidden_size)).astype(np.float32)
            codes = generator.integers(self.codebook, size=(batch, self.groups - 1))
            single = self._rows_of(hidden, codes, 1)
            pairs += [(single, self._rows_of(hidden, codes, size)) for size in range(2, rows + 1)]
        self.reset()
        return compare_rows(pairs, PREFILL_ROWS - 1, self._heads)

    def probe_tree(self, widths: Widths) -> RowProbe:
        """Compare rows of a tree with those of the chains in it, fed one by one, on random input.

        The first and the last path are compared. The cache holds garbage afterwards.
        """
        layout = TreeLayout.of(widths)
        batch, nodes = self.batch, len(layout.depths)
        generator = np.random.default_rng(nodes)
        tree = np.tile(layout.depths, (batch, 1)), np.tile(layout.parents, (batch, 1))
        pairs = []
        for leaf in (int(np.argmax(layout.depths)), nodes - 1):
            path = layout.path(leaf)[: self.groups - PREFILL_ROWS]
            hidden = generator.standard_normal((batch, self.talker_hidden_size)).astype(np.float32)
            codes = generator.integers(self.codebook, size=(batch, nodes))
            self.start_frame(hidden, codes[:, 0])
            together = self.verify_tree(codes, *tree)[:, path].copy()
            self.start_frame(hidden, codes[:, 0])
            single = np.empty_like(together)
            for at, node in enumerate(path):
                single[:, at] = self.verify(codes[:, node : node + 1])[:, 0]
                self.commit(np.ones(batch, np.int64))
            pairs.append((single, together))
        self.reset()
        return compare_rows(pairs, PREFILL_ROWS - 1, self._heads)

    def _rows_of(self, talker_hidden: np.ndarray, codes: np.ndarray, rows: int) -> np.ndarray:
        """Hidden rows of a frame's codes (integer [batch, G - 1]) behind c0, as far as whole passes reach."""
        self.start_frame(talker_hidden, codes[:, 0])
        parts = [np.empty((len(codes), 0, self.hidden_size), np.float32)]
        for begin in range(1, codes.shape[1] - rows + 1, rows):
            parts.append(self.verify(codes[:, begin : begin + rows]).copy())
            self.commit(np.full(len(codes), rows))
        return np.concatenate(parts, axis=1)

    def start_frame(self, talker_hidden: np.ndarray, first_codes: np.ndarray) -> np.ndarray:
        """Begin a frame: forget the previous one and run positions 0 and 1.

        Args:
            talker_hidden: float32 [batch, talker_hidden], post-norm, of the position that produced c0.
            first_codes: integer [batch], c0.

        Returns:
            float32 [batch, hidden]: the row head 0 reads. Valid until the next pass.
        """
        began = time.perf_counter()
        self._lengths.fill(0)
        decoder_pass, hidden = self._pass(PREFILL_ROWS)
        decoder_pass.inputs_embeds[:, 0] = talker_hidden
        decoder_pass.inputs_embeds[:, 1] = self._codec_embedding[first_codes]
        decoder_pass.run(self._positions(PREFILL_ROWS))
        self._lengths.fill(PREFILL_ROWS)
        self.prefill_seconds = time.perf_counter() - began
        return hidden[:, 1]

    def verify(self, codes: np.ndarray) -> np.ndarray:
        """Feed codes at the next positions of every sequence, without committing them.

        Args:
            codes: integer [batch, rows]. Rows past the end of a frame are allowed (finished or
                shorter sequences); their output is meaningless and their KV rows are never read.

        Returns:
            float32 [batch, rows, hidden], valid until the next pass of the same number of rows.
        """
        rows = codes.shape[1]
        decoder_pass, hidden = self._pass(rows)
        positions = self._positions(rows)
        table = np.minimum(positions - PREFILL_ROWS, self.groups - 2)
        decoder_pass.inputs_embeds[:] = self._embeddings[table, codes]
        decoder_pass.run(positions)
        return hidden

    def verify_tree(self, codes: np.ndarray, depths: np.ndarray, parents: np.ndarray) -> np.ndarray:
        """Feed a tree of codes to every sequence, without committing any (see ``Predictor.verify_tree``).

        Args:
            codes: int64 [batch, rows]; row 0 is the last committed code.
            depths: int64 [batch, rows], 0 for row 0; padding has depth 0.
            parents: int64 [batch, rows], a smaller index of the same sequence; -1 for row 0 and padding.

        Returns:
            float32 [batch, rows, hidden], valid until the next pass of the same number of rows.
        """
        batch, rows = codes.shape
        decoder_pass, hidden = self._pass(rows)
        positions = self._lengths[:, None] + depths
        table = np.minimum(positions - PREFILL_ROWS, self.groups - 2)
        decoder_pass.inputs_embeds[:] = self._embeddings[table, codes]
        visible = np.zeros((batch, rows, self._cache.capacity), np.bool_)
        for sequence, length in enumerate(self._lengths.tolist()):
            visible[sequence, :, :length] = True
            for row, parent in enumerate(parents[sequence].tolist()):
                if parent >= 0:
                    visible[sequence, row] = visible[sequence, parent]
                visible[sequence, row, length + row] = True
        decoder_pass.run_at(positions, self._lengths, visible)
        return hidden

    def commit(self, counts: np.ndarray) -> None:
        """Keep the first ``counts`` (integer [batch]) rows of the last verify pass; the rest is garbage from now on."""
        self._lengths += counts

    def commit_path(self, rows: np.ndarray, counts: np.ndarray, sources: np.ndarray) -> None:
        """Keep a path of the last tree: its rows become the next slots, in order.

        Args:
            rows: int64 [A], sequences.
            counts: int64 [A], nodes of each path.
            sources: int64 [sum(counts)], the nodes: ascending within a path, the root (0) first.
        """
        begin = np.cumsum(counts) - counts
        for row, first, count in zip(rows.tolist(), begin.tolist(), counts.tolist(), strict=True):
            length = int(self._lengths[row])
            nodes = length + sources[first : first + count]
            for array in self._cache.arrays.values():
                array[row, :, length : length + count] = array[row, :, nodes].swapaxes(0, 1)
            self._lengths[row] += count

    def _positions(self, rows: int) -> np.ndarray:
        return self._lengths[:, None] + np.arange(rows)

    def _pass(self, rows: int) -> tuple[DecoderPass, np.ndarray]:
        found = self._passes.get(rows)
        if found is None:
            found = self._passes[rows] = self._bind(rows)
        return found

    def _bind(self, rows: int) -> tuple[DecoderPass, np.ndarray]:
        batch = len(self._lengths)
        profile: ProfileName = (
            "generation" if rows <= self._engine.manifest.max_new_positions("generation") else "context"
        )
        embeds = np.zeros((batch, rows, self.talker_hidden_size), np.float32)
        hidden = np.empty((batch, rows, self.hidden_size), np.float32)
        extra = {"hidden_states": hidden}
        return DecoderPass(self._engine, profile, self._cache, self._rope, embeds, extra), hidden
