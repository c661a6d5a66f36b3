"""Algebraic rewriting of reductions and products: views become a change of axes or labels.

They may change in which order a sum is taken, and so the last bits of a float.
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.cost_model import MAX_SHORT_SUM
from symgrad.graph.build import apply
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import multiply
from symgrad.graph.ops.contraction import contract, einsum_op
from symgrad.graph.ops.greatest_numbers import fmax_op
from symgrad.graph.ops.reduction import all_op, any_op, max_op, min_op, prod, prod_op
from symgrad.graph.ops.reduction import any as any_over
from symgrad.graph.ops.reduction import max as max_over
from symgrad.graph.ops.structure import (
    broadcast_axes,
    broadcast_to,
    broadcast_to_op,
    permute_dims,
    permute_dims_op,
    reduce_sum,
    reshape,
    reshape_op,
    sum_op,
)
from symgrad.graph.sizes import Dim
from symgrad.graph.types import static
from symgrad.passes.rewrites.rules import Holds
from symgrad.passes.rewrites.structure import axes_of, structural

_REDUCTIONS = (sum_op, prod_op, max_op, min_op, fmax_op, any_op, all_op)
_Labels = tuple[str, str, str]


# --------------------------------------------------------------------------------------- reductions


@structural(
    "sum(x) -> reshape(x), over axes of size 1; so for every reduction",
    *_REDUCTIONS,
    holds=Holds.CLOSE,
    examples=(
        lambda x: reduce_sum(reshape(x, (2, 1, 3, 4)), (1,)),
        lambda x: reduce_sum(reshape(x, (2, 1, 3, 4)), (1, 2)),
        lambda x: max_over(reshape(x, (2, 1, 3, 4)), (1, 3)),
        lambda x: any_over(reshape(x, (2, 1, 3, 4)), 1),
    ),
)
def _reduce_unit_axes(node: Node) -> Tensor | None:
    (x,) = node.inputs
    units = [a for a in axes_of(node) if x.shape[a] == 1]
    if not units:
        return None
    kept = [a for a in range(x.ndim) if a not in units]
    squeezed = reshape(x, tuple(x.shape[a] for a in kept))
    rest = tuple(i for i, a in enumerate(kept) if a in axes_of(node))
    return apply(node.definition, squeezed, axes=rest) if rest else squeezed


@structural(
    "sum(permute_dims(x)) -> permute_dims(sum(x)); so for every reduction",
    *_REDUCTIONS,
    operands=permute_dims_op,
    holds=Holds.CLOSE,
    examples=(
        lambda x: reduce_sum(permute_dims(x, (2, 0, 1)), (0,)),
        lambda x: reduce_sum(permute_dims(x, (2, 1, 0)), (1,)),
        lambda x: prod(permute_dims(x, (2, 1, 0)), (0, 1)),
    ),
)
def _reduce_of_permute(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    order = axes_of(inner)
    axes = tuple(sorted(order[a] for a in axes_of(node)))
    reduced = apply(node.definition, inner.inputs[0], axes=axes)
    kept = [a for i, a in enumerate(order) if i not in axes_of(node)]
    return permute_dims(reduced, [sorted(kept).index(a) for a in kept])


@structural(
    "sum(sum(x)) -> sum(x); so for every reduction",
    *_REDUCTIONS,
    holds=Holds.CLOSE,
    needs_sole_use=True,
    examples=(
        lambda x: reduce_sum(reduce_sum(x, (1,)), (1,)),
        lambda x: max_over(max_over(x, (0, 2)), 0),
    ),
)
def _reduce_of_reduce(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    if inner.definition is not node.definition:
        return None
    (x,) = inner.inputs
    left = [a for a in range(x.ndim) if a not in axes_of(inner)]
    axes = {*axes_of(inner), *(left[a] for a in axes_of(node))}
    return apply(node.definition, x, axes=tuple(sorted(axes)))


@structural(
    "sum(broadcast_to(x)) -> n * x",
    sum_op,
    operands=broadcast_to_op,
    holds=Holds.INTEGERS,
    examples=(
        lambda x: reduce_sum(broadcast_to(x, (5, 2, 3, 4)), (0,)),
        lambda x: reduce_sum(broadcast_to(x, (6, 5, 2, 3, 4)), (0, 3)),
        lambda x: reduce_sum(broadcast_to(reshape(x, (6, 1, 4)), (6, 5, 4)), (1, 2)),
    ),
)
def _sum_of_broadcast(node: Node) -> Tensor | None:
    outer = node.inputs[0]
    if outer.dtype.is_bool:
        return None
    (x,) = outer.node.inputs
    lead, axes = outer.ndim - x.ndim, axes_of(node)
    repeated = [a for a in broadcast_axes(x.type, outer.shape) if a in axes]
    sizes = [outer.shape[a] for a in repeated]
    if not repeated or not all(isinstance(n, int) for n in sizes):
        return None
    total = reduce_sum(x, tuple(a - lead for a in axes if a >= lead and a not in repeated))
    kept = [a for a in range(outer.ndim) if a not in axes]
    placed = reshape(total, tuple(x.shape[a - lead] if a >= lead else 1 for a in kept))
    count = np.asarray(math.prod(map(static, sizes))).astype(x.dtype.numpy)
    return multiply(broadcast_to(placed, node.output.shape), constant(count))


# ----------------------------------------------------------------------------------------- products


def _labels(node: Node) -> _Labels:
    spec = node.attrs["spec"]
    assert isinstance(spec, str), f"the labels of {node!r} are a string"
    operands, _, out = spec.partition("->")
    lhs, _, rhs = operands.partition(",")
    return lhs, rhs, out


def _sizes(node: Node) -> dict[str, Dim]:
    lhs, rhs, _out = _labels(node)
    shapes = (*node.inputs[0].shape, *node.inputs[1].shape)
    return dict(zip(lhs + rhs, shapes, strict=True))


def _without(x: Tensor, labels: str, dropped: set[str]) -> tuple[Tensor, str]:
    """Return `x` without the axes `dropped`, all of size 1, and the labels of the others."""
    kept = [(n, c) for n, c in zip(x.shape, labels, strict=True) if c not in dropped]
    return reshape(x, tuple(n for n, _ in kept)), "".join(c for _, c in kept)


def _contract_without(node: Node, dropped: set[str]) -> Tensor:
    """Return the product of `node` without the labels `dropped`, whose axes are of size 1."""
    labels = _labels(node)
    lhs, lhs_labels = _without(node.inputs[0], labels[0], dropped)
    rhs, rhs_labels = _without(node.inputs[1], labels[1], dropped)
    out = "".join(c for c in labels[2] if c not in dropped)
    return contract(lhs, rhs, lhs_labels, rhs_labels, out)


@structural(
    "einsum(permute_dims(x), y) -> einsum(x, y) with other labels",
    einsum_op,
    holds=Holds.CLOSE,
    examples=(
        lambda x, y: contract(permute_dims(x, (2, 0, 1)), y, "kij", "lik", "jl"),
        lambda x, y: contract(x, permute_dims(y, (0, 2, 1)), "bij", "bjk", "bik"),
        lambda x, y: contract(
            permute_dims(x, (2, 0, 1)), permute_dims(y, (1, 2, 0)), "ijk", "kil", "jl"
        ),
    ),
)
def _einsum_of_permute(node: Node) -> Tensor | None:
    lhs_labels, rhs_labels, out = _labels(node)
    lhs, lhs_labels = _unpermuted(node.inputs[0], lhs_labels)
    rhs, rhs_labels = _unpermuted(node.inputs[1], rhs_labels)
    if lhs is node.inputs[0] and rhs is node.inputs[1]:
        return None
    return contract(lhs, rhs, lhs_labels, rhs_labels, out)


def _unpermuted(x: Tensor, labels: str) -> tuple[Tensor, str]:
    """Return what `x` is a permutation of, if it is one, and the labels of its axes."""
    if x.node.definition is not permute_dims_op:
        return x, labels
    label_of = dict(zip(axes_of(x.node), labels, strict=True))
    return x.node.inputs[0], "".join(label_of[a] for a in range(x.ndim))


@structural(
    "permute_dims(einsum(x, y)) -> einsum(x, y) with other labels",
    permute_dims_op,
    operands=einsum_op,
    holds=Holds.CLOSE,
    needs_sole_use=True,
    examples=(lambda x, y: permute_dims(contract(x, y, "bij", "bkj", "bik"), (2, 0, 1)),),
)
def _permute_of_einsum(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    lhs, rhs, out = _labels(inner)
    x, y = inner.inputs
    return contract(x, y, lhs, rhs, "".join(out[a] for a in axes_of(node)))


@structural(
    "einsum(x, y) -> einsum(reshape(x), reshape(y)), without sums over an axis of size 1",
    einsum_op,
    holds=Holds.CLOSE,
    examples=(
        lambda x, y: contract(reshape(x, (6, 1, 4)), reshape(y, (1, 4, 6)), "iuj", "ujk", "ik"),
        lambda x, y: contract(reshape(x, (24, 1)), reshape(y, (1, 24)), "iu", "uj", "ij"),
    ),
)
def _einsum_over_unit_axes(node: Node) -> Tensor | None:
    lhs, rhs, out = _labels(node)
    sizes = _sizes(node)
    dropped = {c for c in lhs if c in rhs and c not in out and sizes[c] == 1}
    return _contract_without(node, dropped) if dropped else None


@structural(
    "reshape(einsum(x, y)) -> einsum(reshape(x), reshape(y)), if it drops axes of size 1",
    reshape_op,
    operands=einsum_op,
    holds=Holds.CLOSE,
    needs_sole_use=True,
    examples=(
        lambda x, y: reshape(
            contract(reshape(x, (6, 1, 4)), reshape(y, (6, 4, 1)), "bij", "bjk", "bik"), (6,)
        ),
    ),
)
def _squeeze_of_einsum(node: Node) -> Tensor | None:
    inner = node.inputs[0].node
    if node.output.shape == inner.output.shape:
        return None
    out = _labels(inner)[2]
    sizes = _sizes(inner)
    dropped = {c for c in out if sizes[c] == 1}
    kept = tuple(n for n in inner.output.shape if n != 1)
    return _contract_without(inner, dropped) if node.output.shape == kept else None


@structural(
    "einsum(broadcast_to(x), y) -> einsum(x, y), without the axes along which x is repeated",
    einsum_op,
    holds=Holds.CLOSE,
    examples=(
        lambda x, y: contract(
            broadcast_to(reshape(x, (1, 6, 4)), (2, 6, 4)), y, "bij", "bkj", "bik"
        ),
        lambda x, y: contract(y, broadcast_to(reshape(x, (6, 4)), (2, 6, 4)), "bkj", "bij", "bik"),
    ),
)
def _einsum_of_broadcast(node: Node) -> Tensor | None:
    lhs_labels, rhs_labels, out = _labels(node)
    lhs, lhs_kept = _unrepeated(node.inputs[0], lhs_labels, set(rhs_labels) & set(out))
    rhs, rhs_kept = _unrepeated(node.inputs[1], rhs_labels, set(lhs_kept) & set(out))
    if (lhs_kept, rhs_kept) == (lhs_labels, rhs_labels):
        return None
    return contract(lhs, rhs, lhs_kept, rhs_kept, out)


def _unrepeated(x: Tensor, labels: str, elsewhere: set[str]) -> tuple[Tensor, str]:
    """Return `x` without those axes among `elsewhere` along which it is only repeated."""
    if x.node.definition is not broadcast_to_op:
        return x, labels
    (source,) = x.node.inputs
    lead = x.ndim - source.ndim
    repeated = broadcast_axes(source.type, x.shape)
    dropped = {a for a in repeated if labels[a] in elsewhere}
    if not dropped:
        return x, labels
    kept = [a for a in range(x.ndim) if a not in dropped]
    small = reshape(source, tuple(source.shape[a - lead] for a in kept if a >= lead))
    narrowed = broadcast_to(small, tuple(x.shape[a] for a in kept))
    return narrowed, "".join(labels[a] for a in kept)


@structural(
    "einsum(einsum(x, y), z) -> einsum(einsum(x, y), z), the last axis of the result last in both",
    einsum_op,
    holds=Holds.CLOSE,
    needs_sole_use=True,
    examples=(
        lambda x, y: contract(contract(x, y, "bij", "bkj", "jik"), x[0, :, 0], "jik", "k", "ij"),
    ),
)
def _layout_of_left_product(node: Node) -> Tensor | None:
    return _laid_out(node, 0)


@structural(
    "einsum(z, einsum(x, y)) -> einsum(z, einsum(x, y)), the last axis of the result last in both",
    einsum_op,
    holds=Holds.CLOSE,
    needs_sole_use=True,
    sole=1,
    examples=(
        lambda x, y: contract(x[0, :, 0], contract(x, y, "bij", "bkj", "jik"), "k", "jik", "ij"),
    ),
)
def _layout_of_right_product(node: Node) -> Tensor | None:
    return _laid_out(node, 1)


def _laid_out(node: Node, number: int) -> Tensor | None:
    """Return a short product whose operand `number`, a product, has the last axis of `node` last.

    A sum of a few terms is no product of matrices: its operand is read once, and what counts is
    whether the elements that are read and written lie side by side.
    """
    inner, labels = node.inputs[number].node, [*_labels(node)]
    is_known = all(isinstance(size, int) for size in _sizes(node).values())
    if inner.definition is not einsum_op or not labels[2] or not labels[number] or not is_known:
        return None
    sizes, last = _sizes(node), labels[2][-1]
    counts = [size for label, size in sizes.items() if label not in labels[2]]
    is_short = math.prod(map(static, counts)) <= MAX_SHORT_SUM
    before = labels[number][-1]
    if last not in labels[number] or last in labels[1 - number] or before == last or not is_short:
        return None
    if static(sizes[last]) <= static(sizes[before]):
        return None
    order = [a for a, label in enumerate(labels[number]) if label != last]
    order.append(labels[number].index(last))
    lhs, rhs, out = _labels(inner)
    x, y = inner.inputs
    moved = contract(x, y, lhs, rhs, "".join(out[a] for a in order))
    labels[number] = "".join(labels[number][a] for a in order)
    left, right = (moved if i == number else t for i, t in enumerate(node.inputs))
    return contract(left, right, *labels)


REDUCTION = (
    _reduce_unit_axes,
    _reduce_of_permute,
    _reduce_of_reduce,
    _sum_of_broadcast,
    _einsum_of_permute,
    _permute_of_einsum,
    _einsum_over_unit_axes,
    _squeeze_of_einsum,
    _einsum_of_broadcast,
    _layout_of_left_product,
    _layout_of_right_product,
)
