"""The execution context of the TensorRT stand-ins: shapes and addresses are checked, a pass is put into a stream."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, SupportsInt

from tests.simulation.memory import ALIGNMENT, Allocation
from tests.simulation.streams import Lifetime, Work
from tests.simulation.tensorrt_types import NUMPY_TYPES, Dims, volume

if TYPE_CHECKING:
    from tests.simulation.tensorrt_engine import ICudaEngine, LoadedEngine

Bound = dict[str, tuple[tuple[int, ...], int]]  # name -> shape, address


class IExecutionContext:
    """Runs an engine.

    Stricter than TensorRT where a program that is right has no reason to come near: a profile is chosen explicitly,
    outputs that share memory share all of it, and a context from which a graph was captured is not changed any more.
    """

    __slots__ = (
        "__weakref__",
        "_addresses",
        "_captured",
        "_lifetime",
        "_loaded",
        "_memory",
        "_needs_memory",
        "_profile",
        "_runs",
        "_shapes",
        "_stream",
        "engine",
    )

    def __init__(self, engine: ICudaEngine, loaded: LoadedEngine, lifetime: Lifetime, *, needs_memory: bool) -> None:
        self.engine = engine
        self._loaded = loaded
        self._lifetime = lifetime
        self._needs_memory = needs_memory
        self._memory: Allocation | None = None
        self._profile: int | None = None
        self._stream: int | None = None
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._runs: set[tuple[tuple[str, tuple[int, ...]], ...]] = set()
        self._captured = False

    # ---- settings

    @property
    def active_optimization_profile(self) -> int:
        return -1 if self._profile is None else self._profile

    @property
    def all_binding_shapes_specified(self) -> bool:
        return not self.infer_shapes()

    def set_device_memory(self, memory: SupportsInt, size: SupportsInt) -> None:
        self._change("set_device_memory")
        if not self._needs_memory:
            raise self._fault("set_device_memory: the context allocates its own memory")
        if int(size) < self._loaded.scratch or int(memory) % ALIGNMENT:
            raise self._fault(f"set_device_memory: {self._loaded.scratch} bytes aligned to {ALIGNMENT} are needed")
        self._memory = self._loaded.device.live_at("set_device_memory", int(memory), int(size))

    def set_optimization_profile_async(self, profile_index: SupportsInt, stream_handle: SupportsInt) -> bool:
        device = self._loaded.device
        device.forbid_in_capture("set_optimization_profile_async")
        self._change("set_optimization_profile_async")
        if not 0 <= int(profile_index) < len(self._loaded.profiles):
            raise self._fault(f"set_optimization_profile_async: there is no profile {int(profile_index)}")
        device.enqueue(
            int(stream_handle), Work("set_optimization_profile_async", lambda: None, needs=(self._lifetime,))
        )
        self._profile, self._stream = int(profile_index), int(stream_handle)
        self._shapes.clear()
        self._runs.clear()
        return True

    def set_input_shape(self, name: str, shape: Any) -> bool:
        tensor = self._loaded.graph.tensors.get(name)
        if tensor is None or not tensor.is_input:
            raise self._fault(f"set_input_shape: the engine has no input {name!r}")
        if self._profile is None:
            raise self._fault(f"set_input_shape({name!r}): no optimization profile was set")
        found = tuple(int(size) for size in shape)
        if self._shapes.get(name) != found:
            self._change(f"set_input_shape({name!r})")
        low, _, high = self._loaded.profiles[self._profile].get(name, (tensor.shape,) * 3)
        inside = len(found) == len(low) and all(a <= size <= b for a, size, b in zip(low, found, high, strict=True))
        if not inside:
            raise self._fault(
                f"set_input_shape({name!r}): {list(found)} lies outside profile {self._profile} "
                f"({list(low)} … {list(high)})"
            )
        self._shapes[name] = found
        return True

    def set_tensor_address(self, name: str, memory: SupportsInt) -> bool:
        if name not in self._loaded.graph.tensors:
            raise self._fault(f"set_tensor_address: the engine has no tensor {name!r}")
        if self._addresses.get(name) != int(memory):
            self._change(f"set_tensor_address({name!r})")
        self._addresses[name] = int(memory)
        return True

    # ---- questions

    def get_tensor_address(self, name: str) -> int:
        return self._addresses.get(name, 0)

    def get_tensor_shape(self, name: str) -> Dims:
        tensor = self._loaded.graph.tensors[name]
        if tensor.is_input:
            return Dims(self._shapes.get(name, tensor.shape))
        return self._outputs()[name] if not self.infer_shapes() else tensor.shape

    def infer_shapes(self) -> list[str]:
        return [tensor.name for tensor in self._loaded.graph.inputs if self._shape_of(tensor.name) is None]

    def is_stream_capturable(self, stream: SupportsInt) -> bool:
        return self._shapes_now() in self._runs

    # ---- running

    def execute_async_v3(self, stream_handle: SupportsInt) -> bool:
        device, stream = self._loaded.device, int(stream_handle)
        bound, touched = self._checked(stream)
        capturing = stream in device.streams and device.streams[stream].capture is not None
        shapes = self._shapes_now()
        if capturing:
            if shapes not in self._runs:
                raise self._fault("execute_async_v3: captured before a run of these shapes outside a capture")
            self._captured = True
        else:
            self._runs.add(shapes)
        needs = (self._lifetime, self._loaded.lifetime)
        memory = () if self._memory is None else (self._memory,)
        work = Work(f"execute_async_v3 of {self.engine.name}", self._loaded.bound(bound), touched + memory, needs)
        device.enqueue(stream, work, self._count)
        return True

    def _count(self) -> None:
        self._loaded.device.counts.engine_runs += 1

    def _checked(self, stream: int) -> tuple[Bound, tuple[Allocation, ...]]:
        """What is bound, once all of it is right."""
        if self._profile is None:
            raise self._fault("execute_async_v3: no optimization profile was set")
        if stream != self._stream:
            raise self._fault("execute_async_v3: another stream than the one its profile was set on")
        if self._needs_memory and self._memory is None:
            raise self._fault("execute_async_v3: the context was given no device memory")
        if missing := self.infer_shapes():
            raise self._fault(f"execute_async_v3: the shape of {', '.join(missing)} is not set")
        outputs = self._outputs()
        bound: Bound = {}
        touched = []
        for name, tensor in self._loaded.graph.tensors.items():
            address = self._addresses.get(name, 0)
            if address == 0:
                raise self._fault(f"execute_async_v3: tensor {name!r} is bound to no address")
            shape = self._shape_of(name) if tensor.is_input else outputs[name]
            assert shape is not None
            size = volume(shape) * NUMPY_TYPES[tensor.dtype].itemsize
            found = self._loaded.device.live_at(
                f"execute_async_v3: tensor {name!r} of shape {list(shape)}", address, size
            )
            if found.kind != "device":
                raise self._fault(f"execute_async_v3: tensor {name!r} lies in {found.kind} memory")
            if address % ALIGNMENT:
                raise self._fault(f"execute_async_v3: the address of {name!r} is not aligned to {ALIGNMENT} bytes")
            bound[name] = (tuple(shape), address)
            touched.append(found)
        self._check_aliases(bound)
        return bound, tuple(dict.fromkeys(touched))

    def _check_aliases(self, bound: Bound) -> None:
        graph = self._loaded.graph
        for output, source in graph.aliases.items():
            if bound[output][1] != bound[source][1]:
                raise self._fault(
                    f"execute_async_v3: {output!r} must lie where {source!r} lies: it is updated in place"
                )
        spans = sorted(
            (address, address + volume(shape) * NUMPY_TYPES[graph.tensors[name].dtype].itemsize, name)
            for name, (shape, address) in bound.items()
            if name not in graph.aliases
        )
        for (_, end, name), (begin, _, other) in pairwise(spans):
            written = not (graph.tensors[name].is_input and graph.tensors[other].is_input)
            if begin < end and written:
                raise self._fault(f"execute_async_v3: {name!r} and {other!r} overlap in memory")

    def _outputs(self) -> dict[str, Dims]:
        shapes = {tensor.name: self._shape_of(tensor.name) for tensor in self._loaded.graph.inputs}
        try:
            return self._loaded.graph.output_shapes(
                {name: shape for name, shape in shapes.items() if shape is not None}
            )
        except ValueError as fault:
            raise self._fault(f"execute_async_v3: {fault}") from fault

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        shape = self._loaded.graph.tensors[name].shape
        return self._shapes.get(name, None if -1 in shape else tuple(shape))

    def _shapes_now(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return tuple(sorted(self._shapes.items()))

    def _change(self, what: str) -> None:
        """Note that the context changes; graphs captured from it must not run any more."""
        if self._captured:
            raise self._fault(f"{what}: a graph was captured from this context, which must stay as it was")

    def _fault(self, message: str) -> BaseException:
        return self._loaded.device.fault(message)
