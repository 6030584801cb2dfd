"""A mixture of experts whose cost follows the experts that are used, and whose rows never influence each other.

All experts are in the graph as constant matrices of their own. The rows are sorted by expert and each
expert multiplies its own rows; an expert without rows multiplies an empty matrix, which costs the runtime
about a microsecond. Against the two other forms: gathering the weights of the chosen experts copies them
for every row, and one three-dimensional constant is not packed by ONNX Runtime, whose kernels then differ
with the number of rows (by 2e-5). Here every row comes out bit-identical whatever the rows beside it.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from cpspec_trt.files.engine_config import DecoderDimensions, MoeDimensions
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.checkpoint_weights import CheckpointWeights
from cpspec_trt.graphs.decoder_layer import Mlp
from cpspec_trt.graphs.layers import gated_mlp, linear


def expert_mlp(moe: MoeDimensions) -> Mlp:
    """The feed-forward part of a layer with experts, for ``decoder_layer``.

    y = sum over chosen experts e of share_e * expert_e(x), plus sigmoid(shared_expert_gate(x)) *
    shared_expert(x) where there is a shared expert. Each expert is down(SiLU(gate(x)) * up(x)). The
    chosen are the ``num_experts_per_tok`` largest of softmax(gate(x)), the lower index first among
    equals; their shares are those probabilities, divided by their sum if ``norm_topk_prob``. The sum
    runs from the largest share to the smallest, so it does not depend on other rows either.
    """
    return partial(_expert_mlp, moe)


def _expert_mlp(
    moe: MoeDimensions, weights: CheckpointWeights, dimensions: DecoderDimensions, prefix: str, x: str
) -> str:
    author, hidden = weights.author, dimensions.hidden_size
    rows = author.op("Reshape", x, author.constant([-1, hidden]))
    chosen, shares = choose_experts(weights, moe, f"{prefix}.gate", rows, hidden)
    y = _apply_chosen(weights, moe, f"{prefix}.experts", rows, hidden, chosen, shares)
    if moe.shared_expert_intermediate_size:
        shared = gated_mlp(weights, f"{prefix}.shared_expert", rows, hidden, moe.shared_expert_intermediate_size)
        opening = author.op("Sigmoid", linear(weights, f"{prefix}.shared_expert_gate", rows, hidden, 1, bias=False))
        y = author.op("Add", y, author.op("Mul", opening, shared))
    return author.op("Reshape", y, author.op("Shape", x))


def choose_experts(
    weights: CheckpointWeights, moe: MoeDimensions, name: str, rows: str, hidden: int
) -> tuple[str, str]:
    """The router: the chosen experts, int64 [rows, k], and their shares [rows, k], largest first.

    Args:
        weights: holds ``<name>.weight`` [experts, hidden].
        moe: k is ``num_experts_per_tok``.
        name: of the router.
        rows: [rows, hidden].
        hidden: width of a row.
    """
    author = weights.author
    scores = linear(weights, name, rows, hidden, moe.num_experts, bias=False)
    probabilities = author.op("Softmax", scores, axis=-1)
    count = author.constant([moe.num_experts_per_tok])
    shares, chosen = author.op_many("TopK", probabilities, count, outputs=2, axis=-1)  # lower index first among equals
    if moe.norm_topk_prob:
        shares = author.op("Div", shares, author.op("ReduceSum", shares, author.constant([-1]), keepdims=1))
    return chosen, shares


def _apply_chosen(
    weights: CheckpointWeights, moe: MoeDimensions, prefix: str, rows: str, hidden: int, chosen: str, shares: str
) -> str:
    """The weighted sum of the chosen experts, [rows, hidden]."""
    author, count = weights.author, moe.num_experts_per_tok
    expert = author.op("Reshape", chosen, author.constant([-1]))  # of every assignment: row 0's first, second, …
    order, place = _sort(author, expert)
    sizes = _group_sizes(author, expert, moe.num_experts)
    sorted_rows = author.op("Gather", rows, author.op("Div", order, author.constant([count])), axis=0)
    y = _experts(weights, moe, prefix, sorted_rows, sizes, hidden)
    y = author.op("Gather", y, place, axis=0)  # back in the order of the assignments
    y = author.op("Mul", y, author.op("Reshape", shares, author.constant([-1, 1])))
    y = author.op("Reshape", y, author.constant([-1, count, hidden]))
    # Sum adds its inputs one after the other, element by element; a reduction's order may follow the shape
    terms = author.op_many("Split", y, outputs=count, axis=1, num_outputs=count) if count > 1 else (y,)
    return author.op("Reshape", author.op("Sum", *terms), author.constant([-1, hidden]))


def _sort(author: GraphAuthor, expert: str) -> tuple[str, str]:
    """The stable permutation that sorts assignments by expert, and its inverse, both int64 [assignments]."""
    length = author.op("Shape", expert)
    numbers = author.op("Range", author.constant(0), author.op("Squeeze", length), author.constant(1))
    keys = author.op("Add", author.op("Mul", expert, length), numbers)  # all different: the order is defined
    _, order = author.op_many("TopK", keys, length, outputs=2, axis=0, largest=0)
    return order, author.op("ScatterElements", numbers, order, numbers, axis=0)


def _group_sizes(author: GraphAuthor, expert: str, experts: int) -> str:
    """How many assignments each expert has, int64 [experts]."""
    ones = author.op("Expand", author.constant([1]), author.op("Shape", expert))
    nothing = author.constant(np.zeros(experts, np.int64))
    return author.op("ScatterElements", nothing, expert, ones, axis=0, reduction="add")


def _experts(weights: CheckpointWeights, moe: MoeDimensions, prefix: str, rows: str, sizes: str, hidden: int) -> str:
    """Each expert over its own rows of [assignments, hidden], which lie group after group."""
    author, inner = weights.author, moe.moe_intermediate_size

    def apply(x: str, matrices: list[str]) -> str:
        groups = author.op_many("Split", x, sizes, outputs=len(matrices), axis=0)
        parts = [author.op("MatMul", group, matrix) for group, matrix in zip(groups, matrices, strict=True)]
        return author.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    experts = [f"{prefix}.{number}" for number in range(moe.num_experts)]
    both = apply(rows, [_gate_and_up(weights, expert, hidden, inner) for expert in experts])
    gate, up = author.op_many("Split", both, outputs=2, axis=1, num_outputs=2)
    x = author.op("Mul", author.op("Swish", gate), up)
    return apply(x, [weights.transposed(f"{expert}.down_proj.weight", inner, hidden) for expert in experts])


def _gate_and_up(weights: CheckpointWeights, expert: str, hidden: int, inner: int) -> str:
    """Both input matrices side by side: one product instead of two for every expert."""
    gate, up = f"{expert}.gate_proj.weight", f"{expert}.up_proj.weight"
    return weights.made(
        f"{expert}.gate_up_proj.weight",
        (hidden, 2 * inner),
        {gate: (inner, hidden), up: (inner, hidden)},
        lambda tensors: np.concatenate([tensors[gate].T, tensors[up].T], axis=1),
    )
