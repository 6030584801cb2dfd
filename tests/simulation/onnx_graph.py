"""What TensorRT would know of a graph: its tensors, the shape of every output, and which outputs lie on inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from tests.simulation.tensorrt_types import ONNX_TYPES, DataType, Dims

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output.

    Attributes:
        name: of the tensor.
        dtype: of its elements.
        dims: name or size of every dimension.
        is_input: whether it is one.
    """

    name: str
    dtype: DataType
    dims: tuple[str | int, ...]
    is_input: bool

    @property
    def shape(self) -> Dims:
        """Sizes, -1 where dynamic."""
        return Dims(dim if isinstance(dim, int) else -1 for dim in self.dims)


class OnnxGraph:
    """A parsed graph.

    Attributes:
        tensors: inputs, then outputs, by name.
        aliases: output -> the input whose memory it must share (caches that are updated in place).
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        graph = model.graph
        infos = [(info, True) for info in graph.input] + [(info, False) for info in graph.output]
        self.tensors: dict[str, Tensor] = {info.name: _tensor(info, is_input) for info, is_input in infos}
        self.aliases = {
            node.output[0]: node.input[0]
            for node in graph.node
            if node.op_type == "TensorScatter" and node.output[0] in self.tensors and node.input[0] in self.tensors
        }
        self._output_shapes: dict[tuple[tuple[str, tuple[int, ...]], ...], dict[str, Dims]] = {}

    @property
    def inputs(self) -> list[Tensor]:
        """Every input."""
        return [tensor for tensor in self.tensors.values() if tensor.is_input]

    @property
    def outputs(self) -> list[Tensor]:
        """Every output."""
        return [tensor for tensor in self.tensors.values() if not tensor.is_input]

    def output_shapes(self, inputs: Shapes) -> dict[str, Dims]:
        """Shapes of the outputs for shapes of all inputs.

        Raises:
            ValueError: the shapes contradict one another, or an output's shape does not follow from them.
        """
        key = tuple(sorted(inputs.items()))
        if key not in self._output_shapes:
            self._output_shapes[key] = self._inferred(inputs)
        return self._output_shapes[key]

    def _inferred(self, inputs: Shapes) -> dict[str, Dims]:
        sizes: dict[str, int] = {}
        for tensor in self.inputs:
            for dim, size in zip(tensor.dims, inputs[tensor.name], strict=True):
                if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
                    raise ValueError(f"dimension {dim!r} is {sizes[dim]} elsewhere and {size} in {tensor.name!r}")
        if any(dim not in sizes for tensor in self.outputs for dim in tensor.dims if isinstance(dim, str)):
            sizes |= self._by_onnx(sizes)
        missing = [
            tensor.name
            for tensor in self.outputs
            if any(sizes.get(str(d), d) == d for d in tensor.dims if isinstance(d, str))
        ]
        if missing:
            raise ValueError(f"the shape of {', '.join(missing)} does not follow from the inputs")
        return {
            tensor.name: Dims(d if isinstance(d, int) else sizes[d] for d in tensor.dims) for tensor in self.outputs
        }

    def _by_onnx(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes of dimensions that no input names, by ONNX's shape inference."""
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        for info in (*model.graph.input, *model.graph.output):
            for dim in info.type.tensor_type.shape.dim:
                if dim.dim_param in sizes:
                    dim.dim_value = sizes[dim.dim_param]
        for info in model.graph.output:
            info.type.tensor_type.ClearField("shape")
        del model.graph.value_info[:]
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        found = {}
        for info in inferred.graph.output:
            for dim, known in zip(self.tensors[info.name].dims, info.type.tensor_type.shape.dim, strict=False):
                if isinstance(dim, str) and known.HasField("dim_value"):
                    found[dim] = known.dim_value
        return found


def _tensor(info: onnx.ValueInfoProto, is_input: bool) -> Tensor:
    kind = info.type.tensor_type
    dims = tuple(dim.dim_param or int(dim.dim_value) for dim in kind.shape.dim)
    return Tensor(info.name, ONNX_TYPES[kind.elem_type], dims, is_input)
