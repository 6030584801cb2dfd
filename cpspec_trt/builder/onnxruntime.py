"""The embedded backend: an ONNX Runtime engine is the exported graph under the engine's own file names.

The CodePredictor's attention is rewritten, so that a row of a draft tree has the bits of a chain's; and the matrices of
a decoder become int8 if that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime

from cpspec_trt.builder.engine_options import EmbeddedPrecision
from cpspec_trt.builder.exported import ExportedComponent, external_fields
from cpspec_trt.builder.profiles import CODE2WAV, CODE_PREDICTOR
from cpspec_trt.errors import EngineError
from cpspec_trt.files.placement import place
from cpspec_trt.graphs.lowering.int8 import write_int8
from cpspec_trt.graphs.slot_order import sum_in_slot_order

BACKEND = "onnxruntime"
_ERRORS_ONLY = 3


def backend_version() -> str:
    """Version of the ONNX Runtime that is installed here."""
    return str(onnxruntime.__version__)


@dataclass(frozen=True, slots=True)
class WrittenEngine:
    """What was written.

    Attributes:
        files: the graph, then the weights if they lie in a file of their own.
        precision: fp32, or int8 if the matrices are.
        notes: what the user should know, one sentence each.
    """

    files: Sequence[Path]
    precision: str
    notes: tuple[str, ...]


def write_engine(
    exported: ExportedComponent, component: str, directory: Path, link_weights: bool, precision: EmbeddedPrecision
) -> WrittenEngine:
    """Write the engine's files into ``directory`` and open them once.

    Args:
        exported: the component.
        component: its name, which decides the file's name (``llm.onnx`` or ``code2wav.onnx``).
        directory: exists.
        link_weights: give the weights a second name instead of a copy. Only safe when nobody will
            write to the exported file again.
        precision: int8 quantizes the matrices of a decoder; code2wav stays fp32.

    Raises:
        EngineError: ONNX Runtime cannot load the graph; its message is part of the error.
    """
    graph = directory / ("code2wav.onnx" if component == CODE2WAV else "llm.onnx")
    weights = directory / f"{graph.name}.data"
    model = sum_in_slot_order(exported.model) if component == CODE_PREDICTOR else exported.model
    if precision == "int8" and component != CODE2WAV:
        done = write_int8(model, exported.directory, graph)
        _check_loads(graph)
        kept = f"; {done.kept} routers of experts stay fp32" if done.kept else ""
        note = f"{done.matrices} matrices with {done.parameters / 1e6:.1f} million weights are int8{kept}"
        return WrittenEngine([graph, weights], precision, (note,))
    files = [graph]
    if exported.data_file is not None:
        place(exported.data_file, weights, link_weights)
        files.append(weights)
    graph.write_bytes(_with_location(model, weights.name).SerializeToString(deterministic=True))
    _check_loads(graph)
    notes = ("stays fp32: int8 is for decoders",) if precision == "int8" else ()
    return WrittenEngine(files, exported.precision, notes)


def _with_location(model: onnx.ModelProto, location: str) -> onnx.ModelProto:
    renamed = onnx.ModelProto()
    renamed.CopyFrom(model)
    for tensor in renamed.graph.initializer:
        if external_fields(tensor):
            next(entry for entry in tensor.external_data if entry.key == "location").value = location
    return renamed


def _check_loads(graph: Path) -> None:
    """Open the engine without optimising or repacking, so that the weights are mapped and not copied."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    try:
        onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as fault:  # ONNX Runtime raises a class per status code, without a common base
        message = " ".join(str(fault).split())
        raise EngineError(f"ONNX Runtime {backend_version()} cannot load the exported graph: {message}") from fault
