"""Talker and Thinker on a device: prompt passes, then a step that is one graph, from the last code to the next.

A step is captured: upload the plan, look up or sum the embeddings of what was drawn last, run the pass, draw, download
what was drawn. The host only fills the plan, and reads what was drawn when it next waits.

An engine reads as many cache slots as its mask is wide. So there is one captured step per width, each twice as wide
as the one before, and a step's cost follows the tokens so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cpspec_trt.devices.arrays import DeviceArray
from cpspec_trt.devices.device import Graph
from cpspec_trt.devices.packed import Contents, Packed
from cpspec_trt.engines.tensorrt import TensorRTEngine, TensorRTPass
from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.stages.decoder_pass import RopeTable
from cpspec_trt.stages.device_decoder import INT64, MASK, DeviceCache, position_contents, tensor_dtype, tensor_info
from cpspec_trt.stages.positions import MASKED
from cpspec_trt.stages.sequence import cache_is_full, prompt_too_long

PROMPT_ROWS = 512  # of one pass: bounds the mask of a long prompt; later passes read what earlier ones cached
FIRST_WIDTH = 128  # of a mask; the others double it


_STEP_INPUTS = ("rope_cos", "rope_sin", "write_indices", "last_row")


class DeviceSequence:
    """Owns one decoder engine, its cache and its step.

    Attributes:
        lengths: int64 [batch], positions fed so far, those in the stream included.
        outputs: what a pass writes, by name: logits [batch, vocab], …
        plan: what the host plans for a step.
        results: what a draw leaves for the host.
        max_prompt: rows of the longest prompt.
        max_length: positions of the longest sequence.
    """

    def __init__(
        self, engine: TensorRTEngine, dimensions: DecoderDimensions, batch: int, plan: Contents, results: Contents
    ) -> None:
        """Allocate everything.

        Args:
            engine: a decoder engine.
            dimensions: of its stack.
            batch: sequences run together.
            plan: further contents of the plan.
            results: contents of the results.
        """
        device, manifest = engine.device, engine.manifest
        self._engine, self._device = engine, device
        self._width, self._batch = dimensions.hidden_size, batch
        self.max_prompt = manifest.max_new_positions("context")
        self.max_length = manifest.max_kv_capacity
        self.lengths = np.zeros(batch, np.int64)
        self._rope = RopeTable(dimensions, self.max_length)
        self._slots = np.arange(self.max_length)
        self._widths = _widths(manifest.profile("generation").inputs[MASK].min[2], self.max_length)
        self._cache = DeviceCache(device, manifest, batch)
        self._chunk = min(self.max_prompt, PROMPT_ROWS)
        embeds = {"inputs_embeds": ((1, self._chunk, self._width), tensor_dtype(manifest, "inputs_embeds"))}
        last_row: Contents = {"last_row": ((batch, 1), INT64)}
        prompt = {**position_contents(manifest, dimensions, 1, self._chunk), **embeds, "last_row": ((1, 1), INT64)}
        self._prompt = {name: device.array(shape, dtype) for name, (shape, dtype) in prompt.items()}
        positions = position_contents(manifest, dimensions, batch, 1)
        self.plan = Packed(device, {**positions, **last_row, **plan})
        self.results = Packed(device, results)
        self.outputs = {
            info.name: device.array(
                self._output_shape(info.shape, batch, max(self._chunk, batch)), tensor_dtype(manifest, info.name)
            )
            for info in manifest.outputs
            if not info.name.startswith("present_")
        }
        self.embeds = device.array((batch, 1, self._width), tensor_dtype(manifest, "inputs_embeds"))
        self._steps: dict[int, Graph] = {}  # by width of the mask; ``capture`` makes them
        self._planned_width = 0

    def start(self, row: int, prompt: np.ndarray) -> None:
        """Forget the sequence of a row and feed its prompt, float32 [rows, hidden]; the logits follow in the stream.

        Raises:
            EngineError: the prompt is longer than the engine's context profile.
        """
        length = len(prompt)
        if length > self.max_prompt:
            raise prompt_too_long(self._engine.manifest.component, length, self.max_prompt)
        if self._batch == 1:
            self._cache.clear()
        else:
            self._cache.clear_row(row)
        for begin in range(0, length, self._chunk):
            self._feed(row, begin, prompt[begin : begin + self._chunk])
        self.lengths[row] = length
        self._planned_width = 0

    def capture(self, feed: Callable[[], None], draw: Callable[[], None]) -> None:
        """Make the steps graphs. The caches hold garbage afterwards, which ``start`` clears.

        Args:
            feed: enqueues what writes ``embeds``.
            draw: enqueues what draws from ``outputs`` into ``results``.
        """
        inputs = {name: self.plan.device[name] for name in _STEP_INPUTS}
        fixed = {"inputs_embeds": self.embeds, **inputs, **self._outputs_of(None, 1), **self._cache.tensors()}
        for width in self._widths:
            mask = self.plan.device[MASK].leading(self._batch, 1, width)
            bound = self._engine.bind("generation", {**fixed, MASK: mask}, captured=True)

            def step(bound: TensorRTPass = bound) -> None:
                self.plan.upload()
                feed()
                bound.run()
                draw()
                self.results.download()

            step()  # what is compiled or set up at the first run must not be inside a capture
            self._device.synchronise()
            self._steps[width] = self._device.capture(step)

    def step(self) -> None:
        """Feed one row per sequence; what was drawn can be read after the next wait.

        Raises:
            EngineError: the KV cache is full.
        """
        longest = int(self.lengths.max())
        if longest >= self.max_length:
            raise cache_is_full(self._engine.manifest.component, self.max_length)
        width = self._width_for(longest + 1)
        host, mask = self.plan.host, self._planned_mask(width)
        for row, position in enumerate(self.lengths.tolist()):
            mask[row, position] = 0
            host["rope_cos"][row, 0] = self._rope.cos[position]
            host["rope_sin"][row, 0] = self._rope.sin[position]
            host["write_indices"][row] = position
        self.lengths += 1
        self._steps[width].launch()

    def _planned_mask(self, width: int) -> np.ndarray:
        """The mask of a step, [batch, width], in the plan; sequences as they stand are visible in it."""
        mask = self.plan.host[MASK].reshape(-1)[: self._batch * width].reshape(self._batch, width)
        if width != self._planned_width:
            mask.fill(MASKED)
            np.copyto(mask, 0, where=self._slots[:width] < self.lengths[:, None])
            self._planned_width = width
        return mask

    def _width_for(self, positions: int) -> int:
        return next(width for width in self._widths if width >= positions)

    def _feed(self, row: int, begin: int, part: np.ndarray) -> None:
        """Put one prompt pass into the stream."""
        rows, device = len(part), self._device
        positions = np.arange(begin, begin + rows)
        slots = self._slots[: self._width_for(begin + rows)]
        values = {
            "inputs_embeds": part[None],
            MASK: np.where(slots <= positions[:, None], np.float32(0), MASKED)[None],
            "rope_cos": self._rope.cos[positions][None],
            "rope_sin": self._rope.sin[positions][None],
            "write_indices": np.array([begin]),
            "last_row": np.array([[rows - 1]]),
        }
        tensors = {name: self._prompt[name].leading(*array.shape) for name, array in values.items()}
        for name, array in values.items():
            device.write(tensors[name], array)
        bound = self._engine.bind("context", {**tensors, **self._outputs_of(row, rows), **self._cache.tensors(row)})
        bound.run()

    def _outputs_of(self, row: int | None, rows: int) -> dict[str, DeviceArray]:
        """Where a pass of that many positions writes: of one sequence, or of all."""
        manifest, found = self._engine.manifest, {}
        for name, array in self.outputs.items():
            if len(tensor_info(manifest, name).shape) == 3:  # a row per position, which nobody reads
                found[name] = array.leading(self._batch if row is None else 1, rows, array.shape[-1])
            else:
                found[name] = array if row is None else array.row(row)
        return found

    @staticmethod
    def _output_shape(shape: tuple[int, ...], batch: int, most_rows: int) -> tuple[int, ...]:
        return (batch, shape[1]) if len(shape) == 2 else (most_rows, math.prod(shape[2:]))


def _widths(smallest: int, largest: int) -> list[int]:
    """Widths of masks, ascending: powers of two times ``FIRST_WIDTH`` that the profile takes, and the largest."""
    widths, width = [], FIRST_WIDTH
    while width < largest:
        if width >= smallest:
            widths.append(width)
        width *= 2
    return [*widths, largest]
