"""Where a graph in fp16 or bf16 must stay in fp32: each island is a rule that finds its nodes.

Nodes are found by what they compute and by their neighbours, never by their names. ``lowered.py`` says which
component has which islands, and docs/lowering.md why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from cpspec_trt.graphs.lowering.surgery import Node, producer

Rule = Callable[[Any], Iterator[Node]]  # of a graph


def _of_type(*op_types: str) -> Rule:
    def find(graph: Any) -> Iterator[Node]:
        return (node for node in graph.nodes if node.op in op_types)

    return find


def _scores(graph: Any) -> Iterator[Node]:
    """Softmax with what leads to it: the product of query and key (or of row and router), scale and mask."""
    for softmax in _of_type("Softmax")(graph):
        yield softmax
        node = producer(softmax.inputs[0])
        while node is not None and node.op in ("Add", "Mul"):
            yield node
            node = producer(node.inputs[0])
        if node is not None and node.op == "MatMul":
            yield node


def _residual(graph: Any) -> Iterator[Node]:
    """Sums that a normalisation reads: the stream that every layer adds to. Sums behind them follow."""
    for norm in _of_type("RMSNormalization")(graph):
        node = producer(norm.inputs[0])
        if node is not None and node.op == "Add":
            yield node


def _silu_product(graph: Any) -> Iterator[Node]:
    """SiLU(gate) · up of a gated MLP."""
    for swish in _of_type("Swish")(graph):
        yield from (swish, swish.o())


def _down_projection(graph: Any) -> Iterator[Node]:
    """The product that reads SiLU(gate) · up."""
    for swish in _of_type("Swish")(graph):
        yield swish.o().o()


def _transformer(graph: Any) -> Iterator[Node]:
    """Everything in front of the last RMSNormalization: from codes to rows, with the state in between."""
    nodes = list(graph.nodes)
    last = max(place for place, node in enumerate(nodes) if node.op == "RMSNormalization")
    yield from nodes[: last + 1]


def _snake(graph: Any) -> Iterator[Node]:
    """x + sin(x · frequency)² · magnitude; what follows the sine is fp32 because the sine is."""
    for sine in _of_type("Sin")(graph):
        yield from (sine.i(), sine)


def _logits(graph: Any) -> Iterator[Node]:
    """The head."""
    for output in graph.outputs:
        if output.name == "logits":
            yield output.inputs[0]


def _waveform(graph: Any) -> Iterator[Node]:
    """The last convolution, with the state in front of it."""
    for output in graph.outputs:
        if output.name == "waveform":
            last: Node = output.inputs[0]
            while last.op != "Conv":
                last = last.i()
            yield last
            before = producer(last.inputs[0])
            if before is not None and before.op == "Concat":
                yield before


#: Name -> the rule that finds the island's nodes.
ISLANDS: Mapping[str, Rule] = MappingProxyType(
    {
        "scores": _scores,
        "norms": _of_type("RMSNormalization", "LayerNormalization"),
        "residual": _residual,
        "silu product": _silu_product,
        "down projection": _down_projection,
        "transformer": _transformer,
        "snake": _snake,
        "logits": _logits,
        "waveform": _waveform,
    }
)
