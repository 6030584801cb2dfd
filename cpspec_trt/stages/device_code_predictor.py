"""The CodePredictor on a device: what all its rounds share, and the probe of its rows.

Its tables and heads are resident, in the engine's precision; the state of the frames in work lies on the device and
is downloaded whole after each round, which is one copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpspec_trt.devices.arrays import DeviceArray
from cpspec_trt.devices.device import Device
from cpspec_trt.devices.packed import Contents, Packed
from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import MAX_TREE_ROWS, MAX_VERIFY_ROWS, CodePredictorConfig
from cpspec_trt.files.sidecars import CodePredictorTables
from cpspec_trt.kernels.device import DeviceKernels
from cpspec_trt.kernels.device_arrays import DeviceFrameState, DeviceTables
from cpspec_trt.speculation.tree import TreeLayout
from cpspec_trt.stages.device_decoder import INT64, DeviceCache, PlannedPass, PositionTable, tensor_dtype
from cpspec_trt.stages.row_probe import FRAMES, RowProbe, compare_rows

PREFILL_ROWS = 2
FLOAT32, INT32 = np.dtype(np.float32), np.dtype(np.int32)


class DeviceCodePredictor:
    """Owns the CodePredictor's engine, cache, tables and the state of the frames in work.

    Attributes:
        groups: G.
        codebook: V.
        hidden_size: H.
        max_rows: new positions a verify pass may have.
        batch: frames decoded together.
        embeddings: G codec embedding tables [codes, T] on the device, the Talker's own first.
        heads: [G-1, V, H] on the device.
        state: codes [batch, G + 1] (the last column is the Talker's), last code, context row.
        results: what a round leaves for the host, the state's codes among it.
        draft_logits, draft: float32 [drafts, V], of the largest round.
        target_logits, target: float32 [verified rows, V], likewise.
        drafts: int64 [drafts], likewise.
    """

    def __init__(
        self,
        engine: TensorRTEngine,
        config: CodePredictorConfig,
        tables: CodePredictorTables,
        codec_embedding: np.ndarray,
        kernels: DeviceKernels,
        batch: int = 1,
    ) -> None:
        """Allocate the cache and the state, and upload the tables.

        Args:
            engine: the CodePredictor's engine.
            config: its config.
            tables: codec embeddings of c1 … and the heads.
            codec_embedding: the Talker's table, float32 [vocab, talker_hidden], for c0.
            kernels: of the engine's device.
            batch: frames decoded together.

        Raises:
            EngineError: the KV capacity is smaller than a frame, or there is no room on the device.
        """
        device, manifest, capacity = engine.device, engine.manifest, engine.manifest.max_kv_capacity
        self.groups, self.codebook = config.num_code_groups, int(tables.lm_heads.shape[1])
        self.hidden_size, self.batch = config.decoder.hidden_size, batch
        if capacity < self.groups + 1:
            raise EngineError(
                f"CodePredictor engine: its KV capacity is {capacity}, a frame needs {self.groups + 1}; "
                "rebuild the engine with cpspec-build"
            )
        self.max_rows = min(manifest.max_new_positions("generation"), capacity - self.groups)
        self.engine, self.kernels, self.device = engine, kernels, device
        self._config = config
        self._host_tables, self._codec_embedding = tables, codec_embedding
        rows_dtype, hidden_dtype = tensor_dtype(manifest, "inputs_embeds"), tensor_dtype(manifest, "hidden_states")
        planes = device.uploaded(tables.codec_embeddings, rows_dtype)
        first = device.uploaded(codec_embedding, rows_dtype)
        self.embeddings: Sequence[DeviceArray] = [first, *(_plane(planes, at) for at in range(self.groups - 1))]
        self.tables = DeviceTables(device, self.embeddings)
        self.heads = device.uploaded(tables.lm_heads, hidden_dtype)
        self.cache = DeviceCache(device, manifest, batch)
        self.positions = PositionTable(manifest, config.decoder)
        drafts = batch * (MAX_VERIFY_ROWS - 1)
        rows = batch * max(MAX_VERIFY_ROWS, min(self.max_rows, MAX_TREE_ROWS))
        self.results = Packed(device, self._results(drafts, rows))
        context = device.array((batch, self.hidden_size), hidden_dtype)
        self.state = DeviceFrameState(self.results.device["codes"], self.results.device["last"], context)
        self.draft_logits, self.draft = _rows_of_logits(device, drafts, self.codebook)
        self.target_logits, self.target = _rows_of_logits(device, rows, self.codebook)
        self.drafts = device.array((drafts,), INT64)

    def planned_pass(self, rows: int, plan: Contents) -> PlannedPass:
        """A new pass of so many positions per sequence; ``plan`` is what else the host plans for it."""
        dimensions = self._config.decoder
        return PlannedPass(self.engine, dimensions, self.positions, self.cache, self.batch, rows, plan)

    def reset(self) -> None:
        """Begin a request: a NaN that an earlier one left in the cache would spread through masked rows."""
        self.cache.clear()

    def probe(self, prefill: PlannedPass, single: PlannedPass, several: Sequence[PlannedPass]) -> RowProbe:
        """Compare passes of several rows with single steps over whole frames of random input.

        The cache holds garbage afterwards.

        Args:
            prefill: of positions 0 and 1.
            single: of one row per sequence.
            several: of more, each size that will run.
        """
        generator = np.random.default_rng(len(several))
        pairs = []
        for _ in range(FRAMES):
            embeds = self._random_frame(generator)
            ones = self._rows_of(prefill, single, embeds)
            pairs += [(ones, self._rows_of(prefill, each, embeds)) for each in several]
        return compare_rows(pairs, PREFILL_ROWS - 1, self._host_tables.lm_heads)

    def probe_tree(
        self, prefill: PlannedPass, single: PlannedPass, together: PlannedPass, tree: TreeLayout
    ) -> RowProbe:
        """Compare rows of a tree with those of the chains in it, fed one by one, on random input.

        The first and the last path are compared, as far as a frame reaches. The cache holds garbage afterwards.

        Args:
            prefill: of positions 0 and 1.
            single: of one row per sequence.
            together: of the tree's rows.
            tree: its nodes.
        """
        generator = np.random.default_rng(len(tree.depths))
        batch, width = self.batch, self._codec_embedding.shape[1]
        pairs = []
        for leaf in (int(np.argmax(tree.depths)), len(tree.depths) - 1):
            path = tree.path(leaf)[: self.groups - PREFILL_ROWS]
            frame = self._random_frame(generator)
            codes = generator.integers(self.codebook, size=(batch, len(tree.depths)))
            planes = np.minimum(tree.depths, self.groups - PREFILL_ROWS)
            embeds = self._host_tables.codec_embeddings[planes, codes].reshape(batch, -1, width)
            prefill.evaluate(0, frame[:, :PREFILL_ROWS])
            many = together.evaluate(PREFILL_ROWS, embeds, tree)[:, path]
            prefill.evaluate(0, frame[:, :PREFILL_ROWS])
            ones = [single.evaluate(PREFILL_ROWS + at, embeds[:, node : node + 1]) for at, node in enumerate(path)]
            pairs.append((np.concatenate(ones, axis=1), many))
        return compare_rows(pairs, PREFILL_ROWS - 1, self._host_tables.lm_heads)

    def _random_frame(self, generator: np.random.Generator) -> np.ndarray:
        """float32 [batch, G, T]: a Talker row and the embeddings of random codes, position by position."""
        batch, width = self.batch, self._codec_embedding.shape[1]
        codes = generator.integers(self.codebook, size=(batch, self.groups - 1))
        embeds = np.empty((batch, self.groups, width), np.float32)
        embeds[:, 0] = generator.standard_normal((batch, width))
        embeds[:, 1] = self._codec_embedding[codes[:, 0]]
        for position in range(PREFILL_ROWS, self.groups):
            embeds[:, position] = self._host_tables.codec_embeddings[position - PREFILL_ROWS, codes[:, position - 1]]
        return embeds

    def _rows_of(self, prefill: PlannedPass, step: PlannedPass, embeds: np.ndarray) -> np.ndarray:
        """Hidden rows of the positions behind the prefill, as far as whole steps reach."""
        prefill.evaluate(0, embeds[:, :PREFILL_ROWS])
        starts = range(PREFILL_ROWS, self.groups - step.rows + 1, step.rows)
        parts = [step.evaluate(start, embeds[:, start : start + step.rows]) for start in starts]
        empty = np.empty((self.batch, 0, self.hidden_size), step.hidden.dtype)
        return np.concatenate([empty, *parts], axis=1)

    def _results(self, drafts: int, rows: int) -> Contents:
        single = ((self.batch,), INT64)
        return {
            "codes": ((self.batch, self.groups + 1), INT64),
            "last": single,
            "accepted": single,
            "commits": single,
            "first_errors": ((self.batch,), INT32),
            "draft_errors": ((drafts,), INT32),
            "target_errors": ((rows,), INT32),
        }


def _plane(planes: DeviceArray, index: int) -> DeviceArray:
    plane = planes.row(index)
    return DeviceArray(plane.address, plane.dtype, plane.shape[1:])


def _rows_of_logits(device: Device, rows: int, codebook: int) -> tuple[DeviceArray, DeviceArray]:
    return device.array((rows, codebook), FLOAT32), device.array((rows, codebook), FLOAT32)
