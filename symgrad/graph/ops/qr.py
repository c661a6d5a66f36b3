"""QR factorisation by Householder reflections: the op, its gradient, its algorithm by blocks."""

from __future__ import annotations

import numpy as np

from symgrad.errors import NoGradientError, ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply_node
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import require_dtype
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.block_matrices import block, cuts, expansion, in_parts, to_columns
from symgrad.graph.ops.complex_parts import conj
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.qr_gradient import closed_form, qr_gradient
from symgrad.graph.ops.qr_panels import Reflections, factor_panel
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.small_elimination import BYTES_OF_STEPS
from symgrad.graph.ops.small_matrices import is_wide_float
from symgrad.graph.ops.small_qr import ROWS_WRITTEN_OUT, qr_columns
from symgrad.graph.ops.small_reflections import (
    q_of_steps,
    r_of_steps,
    reflected,
    reflects_by_steps,
)
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reshape
from symgrad.graph.ops.triangles import (
    adjoint,
    arrived,
    identity_like,
    product,
    range_factors,
)
from symgrad.graph.ops.triangular import is_wide
from symgrad.graph.ops.views import narrow
from symgrad.graph.sizes import Dim
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType

_PANEL = 32  # columns of which the reflections are applied together


def qr(a: Tensor, *, complete: bool = False) -> tuple[Tensor, Tensor]:
    """Return Q, of min(m, n) orthonormal columns or, if `complete`, of m, and R of a = Q R."""
    q, r = apply_node(qr_op, (a,), {"complete": complete}).outputs
    return q, r


def check_matrix(op: str, name: str, a: TensorType, *, of_complex: bool = False) -> None:
    """Raise unless `a` is a matrix, or a batch of them, of parts of 32 or 64 bits.

    Complex ones are refused unless `of_complex`.
    """
    require_dtype(op, name, a, is_wide if of_complex else is_wide_float)
    if a.ndim < 2:
        raise ShapeError(op, f"{name}: {a} has fewer than two axes")


def lesser(op: str, name: str, a: TensorType) -> Dim:
    """Return the lesser of the numbers of rows and columns."""
    m, n = a.shape[-2:]
    if m == n:
        return m
    if isinstance(m, int) and isinstance(n, int):
        return min(m, n)
    raise ShapeError(op, f"{name}: {a}: which of unknown sizes is less decides on the result")


def _infer(a: TensorType, *, complete: bool) -> tuple[TensorType, TensorType]:
    check_matrix("qr", "a", a, of_complex=True)
    m, n = a.shape[-2:]
    k = m if complete else lesser("qr", "a", a)
    batch = a.shape[:-2]
    return a.with_shape((*batch, m, k)), a.with_shape((*batch, k, n))


def _reference(a: Array, *, complete: bool) -> tuple[Array, Array]:
    m, n = a.shape[-2:]
    k = m if complete else min(m, n)
    if not a.size:
        q = np.broadcast_to(np.eye(m, k, dtype=a.dtype), (*a.shape[:-2], m, k))
        return np.array(q), np.zeros((*a.shape[:-2], k, n), a.dtype)
    q, r = np.linalg.qr(a, "complete" if complete else "reduced")
    return q, r


def _grad(node: Node, of_q: Tensor | None, of_r: Tensor | None, *, complete: bool) -> Grads:
    (a,) = node.inputs
    q, r = node.outputs
    m, n = a.shape[-2:]
    if complete and m != n and not (isinstance(m, int) and isinstance(n, int) and m < n):
        raise NoGradientError(
            "qr", f"Q of a: {a.type} has columns that a does not determine", source=node.source
        )
    # Of complex matrices the formulas are for the conjugates of gradients, and ' conjugates.
    of_q = None if arrived(of_q) is None else conj(of_q)
    of_r = filled_like(r, 0) if of_r is None else conj(of_r)
    if not (isinstance(m, int) and isinstance(n, int) and m < n):
        if of_q is None and not a.dtype.is_complex:
            return (qr_gradient(a, q, r, of_r),)
        return (conj(closed_form(q, r, of_q, of_r)),)
    # Roberts and Roberts (2020): the first m columns determine Q, and the others are Q R.
    last = a.ndim - 1
    rest = narrow(a, last, m, n - m)
    of_rest = narrow(of_r, last, m, n - m)
    through_rest = product(rest, adjoint(of_rest))
    of_q = through_rest if of_q is None else add(of_q, through_rest)
    of_first = closed_form(q, narrow(r, last, 0, m), of_q, narrow(of_r, last, 0, m))
    return (conj(concat([of_first, product(q, of_rest)], axis=last)),)


def _kernel(a: TensorType, *, complete: bool) -> Call:
    *batch, m, n = a.static_shape
    k = m if complete else min(m, n)

    def qr(a: Tensor) -> list[Tensor]:
        matrices = reshape(a, (-1, m, n))
        if reflects_by_steps(matrices.type):
            q, r = in_parts(lambda x: _by_steps(x, k), matrices, nbytes=BYTES_OF_STEPS)
        else:
            q, r = in_parts(lambda x: _factor(x, k), matrices)
        return [reshape(q, (*batch, m, k)), reshape(r, (*batch, k, n))]

    def nothing(a: Tensor) -> list[Tensor]:
        q = filled((*batch, m, k), 0, a.dtype)
        return [identity_like(q), filled((*batch, k, n), 0, a.dtype)]

    return expansion(qr if a.count else nothing, a)


def _written_out(a: Tensor, k: int) -> tuple[Tensor, Tensor]:
    count, m, n = a.type.static_shape
    found = qr_columns(to_columns(a), n=n, k=k)
    q, r = narrow(found, 1, 0, m * k), narrow(found, 1, m * k, k * n)
    return reshape(q, (count, m, k)), reshape(r, (count, k, n))


def _by_steps(a: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Reflect few columns after others, a matrix in each lane. Q is that of scaled columns, too."""
    count, m, n = a.type.static_shape
    factor, inverse = range_factors(a, 1)
    steps = reflected(multiply(a, broadcast_to(factor, a.shape)))
    q = reshape(permute_dims(q_of_steps(steps, m, k), (1, 0)), (count, m, k))
    r = reshape(permute_dims(r_of_steps(steps, m, k), (1, 0)), (count, k, n))
    return q, multiply(r, broadcast_to(inverse, r.shape))


def _factor(a: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Reflect the columns panel by panel, then the columns of an identity in reverse order."""
    count, m, n = a.type.static_shape
    if max(m, n) <= ROWS_WRITTEN_OUT and not a.dtype.is_complex:
        return _written_out(a, k)
    found: list[tuple[int, Reflections]] = []
    rows: list[Tensor] = []
    rest = a
    for low, high in cuts(min(m, n), _PANEL):
        width = high - low
        reflections, corner = factor_panel(block(rest, (0, m - low), (0, width)))
        found.append((low, reflections))
        beside = block(rest, (0, m - low), (width, n - low))
        parts = [filled((count, width, low), 0, a.dtype), corner]
        if n > high:
            beside = reflections.apply_adjoint(beside)
            parts.append(block(beside, (0, width), (0, n - high)))
        rows.append(concat(parts, axis=2))
        rest = block(beside, (width, m - low), (0, n - high)) if n > high and m > high else rest
    if k > min(m, n):
        rows.append(filled((count, k - min(m, n), n), 0, a.dtype))
    q = identity_like(filled((count, m, k), 0, a.dtype))
    for low, reflections in reversed(found):
        below = reflections.apply(block(q, (low, m), (low, k)))
        q = _with_corner(q, below, low)
    return q, concat(rows, axis=1)


def _with_corner(q: Tensor, corner: Tensor, low: int) -> Tensor:
    """Return `q`, an identity outside of it, with its last rows and columns written anew."""
    if low == 0:
        return corner
    count, m, k = q.type.static_shape
    top = block(q, (0, low), (0, k))
    bottom = concat([filled((count, m - low, low), 0, q.dtype), corner], axis=2)
    return concat([top, bottom], axis=1)


def _batch(operands: Operands, *, complete: bool) -> list[Tensor]:
    node = apply_node(qr_op, tuple(operands.lifted()), {"complete": complete})
    return list(node.outputs)


qr_op = define(
    "qr",
    infer=_infer,
    reference=_reference,
    grad=_grad,
    kernel=_kernel,
    batch=_batch,
    of_pairs="expansion",
)
