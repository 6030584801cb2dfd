"""What is done to which component: the one table of the lowering, and the passes in their order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import onnx

from cpspec_trt.errors import UsageError
from cpspec_trt.graphs.lowering.precision import ELEMENT_TYPES, Precision, Typed, set_precision
from cpspec_trt.graphs.lowering.weights import Rounded, convert_in_memory, write_converted

_TRANSFORMER = ("norms", "rotation", "scores", "residual")
#: Component -> its fp32 islands (``islands.py``) in fp16. A sum of many terms, a gate and a router are part of them.
ISLANDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "thinker": (*_TRANSFORMER, "sums", "gates"),
        "talker": (*_TRANSFORMER, "sums", "gates", "logits"),
        "code_predictor": (*_TRANSFORMER, "silu product", "down projection"),
        "code2wav": (*_TRANSFORMER, "sums", "snake", "waveform"),
    }
)
#: Islands that exist for the range of fp16 alone; bf16 reaches as far as fp32.
ONLY_IN_FP16 = frozenset({"down projection"})


def islands_of(component: str, precision: Precision) -> tuple[str, ...]:
    """Names of the fp32 islands of a component.

    Raises:
        UsageError: no such component or precision.
    """
    if component not in ISLANDS:
        raise UsageError(f"component {component!r} is unknown; use one of {', '.join(ISLANDS)}")
    if precision not in ELEMENT_TYPES:
        raise UsageError(f"precision {precision!r} is unknown; use one of {', '.join(ELEMENT_TYPES)}")
    return tuple(name for name in ISLANDS[component] if precision == "fp16" or name not in ONLY_IN_FP16)


def lower(model: onnx.ModelProto | Path, component: str, precision: Precision, backend: str) -> onnx.ModelProto:
    """The form of an exported graph that ``backend`` builds in ``precision``. Names of inputs and outputs stay.

    Args:
        model: fp32, as ``cpspec-export`` writes it, holding its weights; of a path everything is loaded.
        component: thinker, talker, code_predictor or code2wav.
        precision: fp32, fp16 or bf16.
        backend: onnxruntime, tensorrt or tensorrt-rtx.

    Raises:
        UsageError: no such component or precision.
        EngineError: a weight beyond the range of the precision.
        UnsupportedError: an operator that a pass does not know.
    """
    loaded = onnx.load(model) if isinstance(model, Path) else model
    typed = _passes(loaded, component, precision, backend)
    return convert_in_memory(typed.model, typed.weights)[0]


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
    typed = _passes(onnx.load(source, load_external_data=False), component, precision, backend)
    return write_converted(typed.model, typed.weights, source, target)


def _passes(model: onnx.ModelProto, component: str, precision: Precision, backend: str) -> Typed:
    return set_precision(model, precision, islands_of(component, precision))
