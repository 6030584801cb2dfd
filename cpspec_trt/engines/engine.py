"""The face of an engine: passes bound once over caller-owned memory, then run without further arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from cpspec_trt.errors import EngineError
from cpspec_trt.files.manifest import Manifest, ProfileName

Tensors = Mapping[str, np.ndarray]


class Tensor(Protocol):
    """What an engine can be bound to: a numpy array, or an array on a device."""

    @property
    def dtype(self) -> np.dtype: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


class BoundPass(Protocol):
    """One pass over fixed memory: inputs are read from, and outputs written to, the arrays it was bound to."""

    def run(self) -> None:
        """Run the pass. Returns when the outputs are written; on a device, when the pass stands in the stream."""
        ...


class Engine(Protocol):
    """A built network over host memory. ``bind`` is called once per shape, ``BoundPass.run`` once per pass.

    Its counterpart over device memory is ``engines.tensorrt.TensorRTEngine``.
    """

    manifest: Manifest

    def bind(self, profile: ProfileName, tensors: Tensors) -> BoundPass:
        """Bind every input and output by name to C-contiguous arrays that the caller keeps alive.

        An output bound to the memory of an input is updated in place (KV caches).

        Raises:
            EngineError: a name is missing or unknown, or a dtype or shape lies outside the profile.
        """
        ...


def check_tensors(manifest: Manifest, profile: ProfileName, tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that an engine was not built for.

    Raises:
        EngineError: names component, profile, tensor, and what was expected.
    """
    where = f"{manifest.component} engine, {profile} profile"
    known = {info.name: info for info in (*manifest.inputs, *manifest.outputs)}
    for name in known.keys() - tensors.keys():
        raise EngineError(f"{where}: tensor {name!r} is not bound")
    ranges = manifest.profile(profile).inputs
    for name, array in tensors.items():
        info = known.get(name)
        if info is None:
            raise EngineError(f"{where}: the engine has no tensor {name!r}; it has {', '.join(sorted(known))}")
        if array.dtype.name != info.dtype:
            raise EngineError(f"{where}: tensor {name!r} is {array.dtype.name}, expected {info.dtype}")
        if isinstance(array, np.ndarray) and not array.flags.c_contiguous:
            raise EngineError(f"{where}: tensor {name!r} is not contiguous")
        reason = ranges[name].violation(array.shape) if name in ranges else None
        if reason is not None:
            raise EngineError(f"{where}: the shape of {name!r} {reason}; rebuild the engine with cpspec-build")
