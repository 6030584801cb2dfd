"""An exported directory, read and checked without its weights: what the builders start from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from cpspec_trt.builder.profiles import DYNAMIC, component_of
from cpspec_trt.errors import EngineError, UnsupportedError, UsageError
from cpspec_trt.files.engine_config import (
    AnyCode2WavConfig,
    CodePredictorConfig,
    ComponentConfig,
    OmniTalkerConfig,
    TalkerConfig,
    ThinkerConfig,
    read_component_config,
)
from cpspec_trt.files.json_io import read_json
from cpspec_trt.files.manifest import MANIFEST_NAME, TensorInfo
from cpspec_trt.files.placement import CONFIG_NAME, MODEL_NAME
from cpspec_trt.files.sidecars import (
    CODE_PREDICTOR_SIDECARS,
    OMNI_TALKER_SIDECARS,
    TALKER_SIDECARS,
    THINKER_SIDECARS,
    read_code_predictor_sidecars,
    read_omni_talker_sidecars,
    read_talker_sidecars,
    read_thinker_sidecars,
)

_SIDECAR_SUFFIXES = (".safetensors", ".json", ".txt", ".jinja")
_NOT_SIDECARS = (CONFIG_NAME, MANIFEST_NAME)
_PRECISIONS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_EXPORT = "export it again with cpspec-export CHECKPOINT ONNX_DIR"


@dataclass(frozen=True, slots=True)
class ExportedComponent:
    """One exported component.

    Attributes:
        directory: where it lies.
        config: its checked config.
        config_json: ``config.json`` as it stands.
        model: the graph; weights stay in ``data_file``.
        data_file: the external data, or None if the graph holds all its weights.
        inputs: the graph's inputs, -1 for dynamic dimensions.
        outputs: the graph's outputs.
        precision: fp32, fp16 or bf16, the type of the floating-point inputs.
    """

    directory: Path
    config: ComponentConfig
    config_json: dict[str, Any]
    model: onnx.ModelProto
    data_file: Path | None
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    precision: str

    @property
    def component(self) -> str:
        """thinker, talker, code_predictor or code2wav."""
        return component_of(self.config)

    def sidecars(self) -> list[Path]:
        """Tables, tokenizer and sampling files: everything that travels with the engine as it is."""
        return sorted(
            path
            for path in self.directory.iterdir()
            if path.suffix in _SIDECAR_SUFFIXES and path.name not in _NOT_SIDECARS and path.is_file()
        )


def read_export(directory: Path) -> ExportedComponent:
    """Read a component that cpspec-export wrote.

    Raises:
        UsageError: there is no such directory.
        EngineError: a file is missing or damaged, or files do not belong together.
        UnsupportedError: the directory was exported for the reference system.
    """
    if not directory.is_dir():
        raise UsageError(f"onnx directory {directory} does not exist; {_EXPORT}")
    if not (directory / "config.json").is_file():
        raise EngineError(f"config.json not found in onnx directory: {directory}; {_what_to_pass(directory)}")
    model = _read_model(directory / MODEL_NAME)
    _refuse_foreign_nodes(directory / MODEL_NAME, model)
    config = read_component_config(directory)
    inputs, outputs = tensors_of(model.graph.input), tensors_of(model.graph.output)
    rows = _hidden_rows(config)
    if rows not in {info.name for info in outputs}:
        raise _foreign(directory / MODEL_NAME, f"it has no output {rows!r}")
    data_file = _data_file(directory, model)
    _check_sidecars(directory, config)
    return ExportedComponent(
        directory=directory,
        config=config,
        config_json=read_json(directory / "config.json", EngineError, "engine config"),
        model=model,
        data_file=data_file,
        inputs=inputs,
        outputs=outputs,
        precision=_precision(directory / MODEL_NAME, inputs),
    )


def external_fields(tensor: onnx.TensorProto) -> dict[str, str]:
    """Location, offset and length of a weight that lies outside the graph; empty if it does not."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return {}
    return {entry.key: entry.value for entry in tensor.external_data}


def _what_to_pass(directory: Path) -> str:
    parts = sorted(path.parent.name for path in directory.glob("*/config.json"))
    if parts:
        return f"it holds the components {', '.join(parts)}: pass one of them, for example {directory / parts[0]}"
    return _EXPORT


def _read_model(path: Path) -> onnx.ModelProto:
    if not path.is_file():
        raise EngineError(f"{path}: the exported graph is missing; {_EXPORT}")
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as fault:
        raise EngineError(f"{path}: cannot be read: {fault.strerror}; make it readable") from None
    except Exception as fault:  # protobuf's own error class, which has no typed import
        raise EngineError(f"{path}: is not an ONNX graph ({fault}); {_EXPORT}") from fault
    if not model.graph.node:
        raise EngineError(f"{path}: holds no graph; {_EXPORT}")
    return model


def _refuse_foreign_nodes(path: Path, model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx") or node.op_type.lower().endswith("plugin"):
            raise _foreign(path, f"it holds the operator {'::'.join(filter(None, (node.domain, node.op_type)))}")


def _foreign(path: Path, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"{path}: was not exported by cpspec-export ({reason}); exports of TensorRT Edge-LLM need its plugins and "
        "cannot be built here: run cpspec-export CHECKPOINT ONNX_DIR, or cpspec-build --checkpoint CHECKPOINT"
    )


def _hidden_rows(config: ComponentConfig) -> str:
    """The graph output by which our own export of a component is known."""
    if isinstance(config, AnyCode2WavConfig):
        return "waveform"
    return "accept_hidden" if isinstance(config, ThinkerConfig) else "hidden_states"


def _data_file(directory: Path, model: onnx.ModelProto) -> Path | None:
    """The one file that holds all external weights; checks that none of them reaches beyond its end."""
    model_path, ends, locations = directory / MODEL_NAME, {}, set()
    for tensor in model.graph.initializer:
        if external := external_fields(tensor):
            locations.add(external.get("location", ""))
            ends[tensor.name] = sum(_number(model_path, tensor.name, external, key) for key in ("offset", "length"))
    if not locations:
        return None
    location = locations.pop()
    if locations or not location or Path(location).name != location:
        raise EngineError(f"{model_path}: its weights must lie in one file beside it; {_EXPORT}")
    path = directory / location
    if not path.is_file():
        raise EngineError(f"{path}: the graph's weights are missing; {_EXPORT}")
    size = path.stat().st_size
    for name, end in ends.items():
        if end > size:
            raise EngineError(
                f"{path}: is truncated: weight {name!r} ends at byte {end}, the file at {size}; {_EXPORT}"
            )
    return path


def _number(path: Path, name: str, external: dict[str, str], key: str) -> int:
    text = external.get(key, "")
    if not text.isdecimal():
        raise EngineError(f"{path}: weight {name!r} has {key} {text!r}, which is no number of bytes; {_EXPORT}")
    return int(text)


def tensors_of(values: Iterable[onnx.ValueInfoProto]) -> tuple[TensorInfo, ...]:
    """Graph inputs or outputs as the manifest describes them."""
    return tuple(_tensor(value) for value in values)


def _tensor(value: onnx.ValueInfoProto) -> TensorInfo:
    kind = value.type.tensor_type
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else DYNAMIC for dim in kind.shape.dim)
    if kind.elem_type not in onnx.helper.get_all_tensor_dtypes():
        raise EngineError(f"graph value {value.name!r} is not a tensor of a known type; {_EXPORT}")
    return TensorInfo(value.name, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name, shape)


def _precision(path: Path, inputs: Iterable[TensorInfo]) -> str:
    for info in inputs:
        if info.dtype in _PRECISIONS:
            return _PRECISIONS[info.dtype]
    raise EngineError(f"{path}: has no floating-point input; {_EXPORT}")


def _check_sidecars(directory: Path, config: ComponentConfig) -> None:
    """Open the tables as the runtime will, so that a missing file or tensor or a wrong shape is found now."""
    match config:
        case ThinkerConfig():
            _require(directory, THINKER_SIDECARS)
            read_thinker_sidecars(directory, config)
        case TalkerConfig():
            _require(directory, TALKER_SIDECARS)
            read_talker_sidecars(directory, config)
        case OmniTalkerConfig():
            _require(directory, OMNI_TALKER_SIDECARS)
            # the Thinker's table lies in another directory; an empty one of the expected width stands in
            read_omni_talker_sidecars(directory, config, np.empty((0, config.thinker_hidden_size), np.float32))
        case CodePredictorConfig():
            _require(directory, CODE_PREDICTOR_SIDECARS)
            read_code_predictor_sidecars(directory, config)


def _require(directory: Path, names: Iterable[str]) -> None:
    if missing := [name for name in names if not (directory / name).is_file()]:
        raise EngineError(f"{directory}: missing {', '.join(missing)}; {_EXPORT}")
