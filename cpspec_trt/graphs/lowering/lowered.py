"""What is done to which component: the two tables of the lowering, and the passes in their order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import onnx

from cpspec_trt.errors import UsageError
from cpspec_trt.graphs.lowering.attention import fuse_attention, slice_keys
from cpspec_trt.graphs.lowering.experts import tile_experts
from cpspec_trt.graphs.lowering.precision import ELEMENT_TYPES, Precision, set_precision
from cpspec_trt.graphs.lowering.weights import Rounded, convert_in_memory, write_converted

_DECODER = ("norms", "scores", "residual")
#: Component -> its fp32 islands (``islands.py``).
ISLANDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "thinker": _DECODER,
        "talker": (*_DECODER, "logits"),
        "code_predictor": (*_DECODER, "silu product", "down projection"),
        "code2wav": ("transformer", "norms", "snake", "waveform"),
    }
)
#: Component -> inputs that stay fp32: the Talker's rows are sums of embeddings, taken in fp32, and go into the residual
#: stream, which is fp32 too.
WIDE_INPUTS_OF: Mapping[str, tuple[str, ...]] = MappingProxyType({"talker": ("inputs_embeds",)})
#: Islands that exist for the range of fp16 alone; bf16 reaches as far as fp32.
ONLY_IN_FP16 = frozenset({"down projection"})

BACKENDS = ("onnxruntime", "tensorrt", "tensorrt-rtx")
#: Components whose attention and experts take another form on TensorRT; the others stay as they were exported.
REFORMED_ON_TENSORRT = frozenset({"thinker", "talker"})


@dataclass(frozen=True, slots=True)
class _Lowered:
    """A lowered graph whose weights are still those of its source: see ``weights.convert_in_memory``."""

    model: onnx.ModelProto
    types: Mapping[str, int]
    parts: Mapping[str, tuple[str, ...]]


def islands_of(component: str, precision: Precision) -> tuple[str, ...]:
    """Names of the fp32 islands of a component.

    Raises:
        UsageError: no such component or precision.
    """
    _choose("component", component, ISLANDS)
    _choose("precision", precision, ELEMENT_TYPES)
    return tuple(name for name in ISLANDS[component] if precision == "fp16" or name not in ONLY_IN_FP16)


def lower(model: onnx.ModelProto | Path, component: str, precision: Precision, backend: str) -> onnx.ModelProto:
    """The form of an exported graph that ``backend`` builds in ``precision``. Names of inputs and outputs stay.

    Args:
        model: fp32, as ``cpspec-export`` writes it, holding its weights; of a path everything is loaded. The dimension
            ``capacity`` may have been given a number.
        component: thinker, talker, code_predictor or code2wav.
        precision: fp32, fp16 or bf16.
        backend: onnxruntime, tensorrt or tensorrt-rtx.

    Raises:
        UsageError: no such component, precision or backend.
        EngineError: a weight beyond the range of the precision.
        UnsupportedError: an operator that a pass does not know.
    """
    source = onnx.load(model) if isinstance(model, Path) else model
    lowered = _passes(source, component, precision, backend)
    return convert_in_memory(lowered.model, lowered.types, lowered.parts, source)[0]


def lower_file(source: Path, target: Path, component: str, precision: Precision, backend: str) -> Rounded:
    """As ``lower``, from file to file: weights go through memory block by block, whatever the size of the model.

    Args:
        source: ``model.onnx`` of an export.
        target: the graph to write; its weights go to ``<target>.data``.
        component: as for ``lower``.
        precision: as for ``lower``.
        backend: as for ``lower``.

    Returns:
        How many values were rounded, and how many of them became 0.
    """
    model = onnx.load(source, load_external_data=False)
    lowered = _passes(model, component, precision, backend)
    return write_converted(lowered.model, lowered.types, lowered.parts, model, source.parent, target)


def _passes(model: onnx.ModelProto, component: str, precision: Precision, backend: str) -> _Lowered:
    islands = islands_of(component, precision)
    _choose("backend", backend, BACKENDS)
    parts: Mapping[str, tuple[str, ...]] = {}
    if backend != "onnxruntime" and component in REFORMED_ON_TENSORRT:
        model = slice_keys(model) if precision == "fp32" else fuse_attention(model)
        stacked = tile_experts(model)
        model, parts = stacked.model, stacked.parts
    typed = set_precision(model, precision, islands, WIDE_INPUTS_OF.get(component, ()))
    return _Lowered(typed.model, typed.weights, parts)


def _choose(what: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise UsageError(f"{what} {value!r} is unknown; use one of {', '.join(known)}")
