"""Tensor contraction: the op `einsum`, products of two tensors summed over labels; and matmul.

The op is its own adjoint: the gradient to one operand is a contraction of the gradient with the
other. What needs more than one op (any number of operands, diagonals) is in `summation`.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, called, user_source
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import (
    as_tensor,
    broadcast_shapes,
    normalize_axis,
    promote_operands,
    require_dtype,
)
from symgrad.graph.ops.arithmetic import multiply
from symgrad.graph.ops.complex_parts import conj
from symgrad.graph.ops.elementwise import is_number, rounded_once
from symgrad.graph.ops.structure import accumulator_dtype, reshape
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim
from symgrad.graph.structures import Contract
from symgrad.graph.types import Array, TensorType

# The order in which labels are given out: the familiar ones first.
LABELS = "ijklmnopqrstuvwxyzabcdefgh" + string.ascii_uppercase


def contract(lhs: Tensor, rhs: Tensor, lhs_labels: str, rhs_labels: str, out: str) -> Tensor:
    """Multiply two tensors and sum over the labels that `out` lacks.

    Labels are not repeated within an operand, and each is in the other operand or in `out`.
    """
    seen = dict.fromkeys(lhs_labels + rhs_labels)
    # Labels are renamed by first appearance, so that equal contractions are equal nodes.
    names = str.maketrans(dict(zip(seen, LABELS, strict=False)))
    spec = f"{lhs_labels},{rhs_labels}->{out}".translate(names)
    return apply(einsum_op, lhs, rhs, spec=spec)


def _labels(spec: str) -> tuple[str, str, str]:
    operands, _, out = spec.partition("->")
    lhs, _, rhs = operands.partition(",")
    return lhs, rhs, out


def _check_labels(spec: str) -> None:
    lhs, rhs, out = _labels(spec)
    repeated = any(len(set(labels)) != len(labels) for labels in (lhs, rhs, out))
    unknown = set(out) - set(lhs) - set(rhs)
    lone = (set(lhs) ^ set(rhs)) - set(out)
    if repeated or unknown or lone:
        raise ShapeError("einsum", f"{spec!r} is not a contraction of two operands")


def _einsum_infer(lhs: TensorType, rhs: TensorType, *, spec: str) -> TensorType:
    _check_labels(spec)
    require_dtype("einsum", "lhs", lhs, is_number)
    if lhs.dtype != rhs.dtype:
        raise DTypeError("einsum", f"dtypes differ: lhs: {lhs}, rhs: {rhs}", hint="use astype")
    lhs_labels, rhs_labels, out = _labels(spec)
    sizes: dict[str, Dim] = {}
    for name, operand, labels in (("lhs", lhs, lhs_labels), ("rhs", rhs, rhs_labels)):
        if operand.ndim != len(labels):
            raise ShapeError("einsum", f"{len(labels)} labels {labels!r} for {name}: {operand}")
        for label, size in zip(labels, operand.shape, strict=True):
            known = sizes.get(label, size)
            if known != size and isinstance(known, int) and isinstance(size, int):
                raise ShapeError(
                    "einsum", f"sizes of {label!r} differ in {spec!r}: lhs: {lhs}, rhs: {rhs}"
                )
            sizes[label] = size if isinstance(size, int) else known
    return TensorType(lhs.dtype, tuple(sizes[label] for label in out))


def _einsum_reference(lhs: Array, rhs: Array, *, spec: str) -> Array:
    return rounded_once(lambda a, b: np.einsum(spec, a, b, optimize=True))(lhs, rhs)


def _einsum_grad(node: Node, g: Tensor, *, spec: str) -> Grads:
    lhs, rhs = node.inputs
    lhs_labels, rhs_labels, out = _labels(spec)
    return (
        contract(g, rhs, out, rhs_labels, lhs_labels),
        contract(lhs, g, lhs_labels, out, rhs_labels),
    )


def _einsum_kernel(lhs: TensorType, _rhs: TensorType, *, spec: str) -> Contract:
    return Contract(*_labels(spec), accumulate=accumulator_dtype(lhs.dtype))


def _einsum_batch(operands: Operands, *, spec: str) -> Tensor:
    """Give the axis a label of its own, in the operands that have it."""
    *labels, out = _labels(spec)
    new = next(label for label in LABELS if label not in spec)
    lhs, rhs = (
        new + own if entry.is_batched else own
        for own, entry in zip(labels, operands.entries, strict=True)
    )
    first, second = operands.tensors
    return contract(first, second, lhs, rhs, new + out)


einsum_op = define(
    "einsum",
    infer=_einsum_infer,
    reference=_einsum_reference,
    grad=_einsum_grad,
    kernel=_einsum_kernel,
    batch=_einsum_batch,
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.matmul], known_as=["mm", "bmm", "matvec"])
def matmul(a: Any, b: Any, /, *, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """Multiply matrices; leading axes are a batch and broadcast, a vector is a row or a column.

    With `transpose_a` or `transpose_b` the last two axes of that operand are exchanged first,
    which costs nothing. Raises `ShapeError` for a scalar and for sizes that differ.

    >>> a, b = sg.constant([[1.0, 2.0], [3.0, 4.0]]), sg.constant([1.0, 10.0])
    >>> sg.run([a @ b, sg.matmul(a, b, transpose_a=True)])
    [array([21., 43.], dtype=float32), array([31., 42.], dtype=float32)]
    """
    a, b = _numbers("matmul", a, b)
    if not (a.ndim and b.ndim):
        raise ShapeError(
            "matmul", f"a: {a.type} and b: {b.type}: no operand may be a scalar",
            hint="use multiply", source=user_source(),
        )  # fmt: skip
    _check_inner_sizes(a, b, transpose_a, transpose_b)
    a_rest, a_batch = _batch(a, b)
    b_rest, b_batch = _batch(b, a)
    row, column = "i" if a.ndim > 1 else "", "j" if b.ndim > 1 else ""
    a_core = "k" + row if transpose_a else row + "k"
    b_core = column + "k" if transpose_b else "k" + column
    batch = sorted({*a_batch, *b_batch}, key=LABELS.index, reverse=True)
    out = "".join(batch) + row + column
    return contract(a_rest, b_rest, a_batch + a_core, b_batch + b_core, out)


def _numbers(op: str, *values: Any) -> list[Tensor]:
    first, *rest = promote_operands(op, *values)
    if first.dtype.is_bool:
        raise DTypeError(op, "bools are not multiplied", hint="use astype", source=user_source())
    return [first, *rest]


def _check_inner_sizes(a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> None:
    m = a.shape[-2] if transpose_a and a.ndim > 1 else a.shape[-1]
    n = b.shape[-1] if transpose_b or b.ndim == 1 else b.shape[-2]
    if m == n or not (isinstance(m, int) and isinstance(n, int)):
        return
    raise ShapeError(
        "matmul",
        f"inner sizes differ: {m} in a: {a.type}, {n} in b: {b.type}",
        hint=_transposition_that_fits(a, b, m, n, transpose_a, transpose_b),
        source=user_source(),
    )


def _transposition_that_fits(
    a: Tensor, b: Tensor, m: int, n: int, transpose_a: bool, transpose_b: bool
) -> str | None:
    # Only where the operand is not transposed already: taking that back is seldom what was meant.
    if not transpose_b and b.shape[-1] == m:  # which is no vector: that would fit as it is
        return "b fits transposed: matmul(a, b, transpose_b=True)"
    if a.ndim > 1 and not transpose_a and a.shape[-2] == n:
        return "a fits transposed: matmul(a, b, transpose_a=True)"
    return None


def _batch(x: Tensor, other: Tensor) -> tuple[Tensor, str]:
    """Return `x` without the batch axes along which it is repeated, and labels of the others.

    An axis that is left out is broadcast by the contraction itself, at no cost.
    """
    labels, sizes = "", []
    for axis in range(x.ndim - 2):
        from_right = x.ndim - 3 - axis
        lead = other.ndim - 3 - from_right
        size, facing = x.shape[axis], other.shape[lead] if lead >= 0 else 1
        if size == 1 and facing != 1:
            continue
        if facing not in (1, size) and isinstance(size, int) and isinstance(facing, int):
            raise ShapeError(
                "matmul",
                f"batch sizes differ: {size} in {x.type}, {facing} in {other.type}",
                source=user_source(),
            )
        labels += LABELS[3 + from_right]
        sizes.append(size)
    return reshape(x, (*sizes, *x.shape[-2:])), labels


@public(functions=[np.dot])
def dot(a: Any, b: Any, /) -> Tensor:
    """Multiply as NumPy's `dot`.

    A scalar multiplies each element; otherwise sums run over the last axis of `a` and the second
    to last of `b`, or its only one. The dtype is the common one, and the gradient that of `matmul`.
    Raises `ShapeError` if the sizes of these axes differ.

    >>> sg.run(sg.dot([1.0, 2.0], [3.0, 4.0]))
    array(11., dtype=float32)
    """
    with called("dot"):
        a, b = _numbers("dot", a, b)
        if a.ndim == 0 or b.ndim == 0:
            return multiply(a, b)
        return tensordot(a, b, axes=((-1,), (-1 if b.ndim == 1 else -2,)))


@public(is_standard=True, ufuncs=[np.vecdot])
def vecdot(x: Any, y: Any, /, *, axis: int = -1) -> Tensor:
    """Multiply element by element and sum over `axis`; the other axes broadcast.

    Of a complex `x` the conjugate is taken.

    >>> sg.run(sg.vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]))
    array([21., 43.], dtype=float32)
    """
    x, y = _numbers("vecdot", x, y)
    x = conj(x)
    places = [normalize_axis("vecdot", axis, t.ndim) for t in (x, y)]
    m, n = (t.shape[place] for t, place in zip((x, y), places, strict=True))
    if m != n and isinstance(m, int) and isinstance(n, int):
        problem = f"sizes differ: {m} in axis {axis} of x: {x.type}, {n} of y: {y.type}"
        raise ShapeError("vecdot", problem, source=user_source())
    with called("vecdot"):
        broadcast_shapes(
            "vecdot",
            **{
                name: t.type.with_shape((*t.shape[:place], 1, *t.shape[place + 1 :]))
                for name, t, place in zip(("x", "y"), (x, y), places, strict=True)
            },
        )
        x, y = (moveaxis(t, place, -1) for t, place in zip((x, y), places, strict=True))
        column, row = (*y.shape, 1), (*x.shape[:-1], 1, x.shape[-1])
        product = matmul(reshape(x, row), reshape(y, column))
        return reshape(product, product.shape[:-2])


@public(is_standard=True)
def tensordot(a: Any, b: Any, /, *, axes: int | Sequence[Any] = 2) -> Tensor:
    """Sum products over `axes`: the last n of `a` and first n of `b`, or a pair of axes of each.

    The result has the other axes of `a`, then those of `b`.

    >>> sg.run(sg.tensordot(sg.ones((2, 3, 4)), sg.ones((4, 3)), axes=([1, 2], [1, 0])))
    array([12., 12.], dtype=float32)
    """
    a, b = _numbers("tensordot", a, b)
    a_axes, b_axes = _contracted_axes(a, b, axes)
    for p, q in zip(a_axes, b_axes, strict=True):
        m, n = a.shape[p], b.shape[q]
        if m != n and isinstance(m, int) and isinstance(n, int):
            raise ShapeError(
                "tensordot",
                f"sizes differ: {m} in axis {p} of a: {a.type}, {n} in axis {q} of b: {b.type}",
                source=user_source(),
            )
    a_labels = LABELS[: a.ndim]
    fresh = iter(LABELS[a.ndim :])
    by_axis = {q: a_labels[p] for p, q in zip(a_axes, b_axes, strict=True)}
    b_labels = "".join(by_axis.get(axis) or next(fresh) for axis in range(b.ndim))
    summed = set(by_axis.values())
    out = "".join(label for label in a_labels + b_labels if label not in summed)
    return contract(a, b, a_labels, b_labels, out)


def _contracted_axes(
    a: Tensor, b: Tensor, axes: int | Sequence[Any]
) -> tuple[list[int], list[int]]:
    if isinstance(axes, int):
        if not 0 <= axes <= (a.ndim if a.ndim < b.ndim else b.ndim):
            raise ShapeError(
                "tensordot", f"{axes} axes of a: {a.type} and b: {b.type}", source=user_source()
            )
        return list(range(a.ndim - axes, a.ndim)), list(range(axes))
    if len(axes) != 2:
        raise ShapeError("tensordot", f"axes {axes!r} are not of two", source=user_source())
    first, second = (
        [normalize_axis("tensordot", axis, t.ndim) for axis in _as_tuple(given)]
        for t, given in zip((a, b), axes, strict=True)
    )
    if len(first) != len(second) or len(set(first)) + len(set(second)) < 2 * len(first):
        raise ShapeError("tensordot", f"axes {axes!r} do not pair", source=user_source())
    return first, second


def _as_tuple(axes: Any) -> tuple[int, ...]:
    return tuple(axes) if isinstance(axes, list | tuple) else (axes,)


@public(functions=[np.outer])
def outer(a: Any, b: Any, /) -> Tensor:
    """Multiply every element of `a` with every element of `b`, both flattened.

    >>> sg.run(sg.outer([1, 2, 3], [1, 10]))
    array([[ 1, 10],
           [ 2, 20],
           [ 3, 30]], dtype=int32)
    """
    with called("outer"):
        a, b = (reshape(as_tensor(t), (-1,)) for t in (a, b))
        return tensordot(a, b, axes=0)
