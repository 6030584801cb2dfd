"""Weights of a graph that come from a checkpoint: checked when the graph is authored, read when it is saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cpspec_trt.files.tensors import TensorSet
from cpspec_trt.graphs.authoring import GraphAuthor, Weight

Array = NDArray[np.float32]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CheckpointWeights:
    """Registers tensors of ``tensors`` as weights of ``author``.

    Every method returns the name of the weight in the graph, and raises the tensor set's error at
    once if a tensor is missing or has another shape or type.
    """

    author: GraphAuthor
    tensors: TensorSet

    def plain(self, name: str, shape: Shape) -> str:
        """A tensor as it is stored."""
        return self.made(name, shape, {name: shape}, lambda tensors: tensors[name])

    def transposed(self, name: str, inputs: int, outputs: int) -> str:
        """The matrix of a linear layer: stored [outputs, inputs], in the graph [inputs, outputs]."""
        return self.made(name, (inputs, outputs), {name: (outputs, inputs)}, lambda tensors: tensors[name].T)

    def made(
        self, name: str, shape: Shape, parts: Mapping[str, Shape], make: Callable[[dict[str, Array]], Array]
    ) -> str:
        """A weight called ``name`` that ``make`` computes from the tensors ``parts`` (name -> stored shape)."""
        for part, stored in parts.items():
            self.tensors.entry(part, stored)
        return self.author.weight(
            Weight(name, shape, lambda: make({part: self.tensors.read(part, stored) for part, stored in parts.items()}))
        )
