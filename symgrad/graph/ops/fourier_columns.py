"""Fourier transforms of columns, written out: one pass of a longer transform (Stockham, 1966).

The last pass of a transform of real numbers takes apart those of the even and of the odd ones, and
the first pass of an inverse puts them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes, require_dtype
from symgrad.graph.ops.butterflies import Complex, flops_of_transform, transform
from symgrad.graph.ops.small_matrices import column_map, is_wide_float
from symgrad.graph.ops.structure import Axes, permute_dims
from symgrad.graph.structures import ColumnMap
from symgrad.graph.types import Array, TensorType
from symgrad.records import replace


def fourier_columns(
    re: Tensor, im: Tensor, *turns: Tensor, axes: Axes, is_swapped: bool = False
) -> Tensor:
    """Transform columns along axis 0; multiply each element but the first by a number of `turns`.

    These are real and imaginary parts, too. The result has an axis of the two parts and one of the
    elements of a column, in the places `axes`, among the other axes of the operands. If it
    `is_swapped`, imaginary parts come first.
    """
    return apply(fourier_columns_op, re, im, *turns, axes=axes, is_swapped=is_swapped)


def _infer(
    re: TensorType, im: TensorType, *turns: TensorType, axes: Axes, is_swapped: bool
) -> TensorType:
    op = "fourier_columns"
    require_dtype(op, "re", re, is_wide_float)
    meet_shapes(op, "re", re, "im", im)
    if not re.ndim or not isinstance(re.shape[0], int):
        raise ShapeError(op, f"re: {re} has no known number of elements on axis 0")
    n, *rest = re.shape
    for turn in turns:
        meet_shapes(op, "re", re.with_shape((n - 1, *rest)), "turns", turn)
    for axis, size in sorted(zip(axes, (2, n), strict=True)):
        rest.insert(axis, size)
    return re.with_shape(tuple(rest))


def _reference(re: Array, im: Array, *turns: Array, axes: Axes, is_swapped: bool) -> Array:
    found = np.fft.fft(re.astype(np.float64) + 1j * im.astype(np.float64), axis=0)
    if turns:
        found[1:] *= turns[0].astype(np.float64) + 1j * turns[1]
    pair = [found.imag, found.real] if is_swapped else [found.real, found.imag]
    parts = np.moveaxis(np.stack(pair), (0, 1), axes)
    return np.ascontiguousarray(parts, re.dtype)


def _transformed(
    re: Sequence[FloatExpr],
    im: Sequence[FloatExpr],
    *turns: Sequence[FloatExpr],
    is_swapped: bool,
) -> Sequence[FloatExpr]:
    found = transform([Complex(a, b) for a, b in zip(re, im, strict=True)])
    if turns:
        found[1:] = [x.times(a, b) for x, a, b in zip(found[1:], *turns, strict=True)]
    re, im = [x.re for x in found], [x.im for x in found]
    return [*im, *re] if is_swapped else [*re, *im]


def _kernel(
    re: TensorType, _im: TensorType, *turns: TensorType, axes: Axes, is_swapped: bool
) -> ColumnMap:
    n = re.static_shape[0]
    flops = flops_of_transform(n) + (6 * (n - 1) if turns else 0)
    algorithm = partial(_transformed, is_swapped=is_swapped)
    return replace(column_map(algorithm, flops), axes=axes)


def _batch(operands: Operands, *, axes: Axes, is_swapped: bool) -> Tensor:
    inner = [permute_dims(t, (1, 0, *range(2, t.ndim))) for t in operands.lifted()]
    return operands.apply(*inner, axes=tuple(axis + 1 for axis in axes), is_swapped=is_swapped)


fourier_columns_op = define(
    "fourier_columns",
    infer=_infer,
    reference=_reference,
    grad="none",
    kernel=_kernel,
    batch=_batch,
)


# ---------------------------------------------------------------------------- of real numbers


def even_odd_columns(x: Tensor, mirrored: Tensor, roots: Tensor) -> Tensor:
    """Transform n real numbers, by that of x = even + i odd: y[k] = even[k] + roots[k] * odd[k].

    Along axis 0 are the real and the imaginary part, of x[k], of x[n / 2 - k] and of roots. Those
    of the result are along its last axis.
    """
    return apply(even_odd_columns_op, x, mirrored, roots)


def _even_odd_infer(x: TensorType, mirrored: TensorType, roots: TensorType) -> TensorType:
    op = "even_odd_columns"
    require_dtype(op, "x", x, is_wide_float)
    meet_shapes(op, "x", x, "mirrored", mirrored)
    meet_shapes(op, "x", x, "roots", roots)
    if not x.ndim or x.shape[0] != 2:
        raise ShapeError(op, f"x: {x} does not have two parts on axis 0")
    return x.with_shape((*x.shape[1:], 2))


def _even_odd_reference(x: Array, mirrored: Array, roots: Array) -> Array:
    a, b, w = (t[0].astype(np.float64) + 1j * t[1] for t in (x, mirrored, roots))
    found = (a + b.conj()) / 2 + w * (a - b.conj()) / 2j
    return np.stack([found.real, found.imag], -1).astype(x.dtype)


def _even_and_odd(
    x: Sequence[FloatExpr], mirrored: Sequence[FloatExpr], roots: Sequence[FloatExpr]
) -> Sequence[FloatExpr]:
    a, b = Complex(*x), Complex(*mirrored)
    odd = Complex(a.im + b.im, b.re - a.re).times(*roots)
    return [(a.re + b.re + odd.re) * 0.5, (a.im - b.im + odd.im) * 0.5]


def _even_odd_kernel(x: TensorType, _mirrored: TensorType, _roots: TensorType) -> ColumnMap:
    return replace(column_map(_even_and_odd, 14), axes=(x.ndim - 1,))


def _even_odd_batch(operands: Operands) -> Tensor:
    return operands.apply(*(permute_dims(t, (1, 0, *range(2, t.ndim))) for t in operands.lifted()))


even_odd_columns_op = define(
    "even_odd_columns",
    infer=_even_odd_infer,
    reference=_even_odd_reference,
    grad="none",
    kernel=_even_odd_kernel,
    batch=_even_odd_batch,
)


# ------------------------------------------------------------------------------ to real numbers


def paired_columns(
    x: tuple[Tensor, Tensor], mirrored: tuple[Tensor, Tensor], roots: Tensor
) -> Tensor:
    """Return of y the transform of odd + i even, whose inverse has n real numbers in turns.

    `x` has the parts of y[k], `mirrored` those of y[n / 2 - k], with an axis 0 of size 1; roots and
    result have both along axis 0, of the result the imaginary one first.
    """
    return apply(paired_columns_op, *x, *mirrored, roots)


def _paired_infer(*parts: TensorType) -> TensorType:
    op = "paired_columns"
    first, *_, roots = parts
    require_dtype(op, "re", first, is_wide_float)
    for part in parts[:4]:
        meet_shapes(op, "re", first, "another part", part)
    if not first.ndim or first.shape[0] != 1:
        raise ShapeError(op, f"re: {first} does not have one part on axis 0")
    meet_shapes(op, "both parts of x", first.with_shape((2, *first.shape[1:])), "roots", roots)
    return roots


def _paired_reference(
    re: Array, im: Array, mirrored_re: Array, mirrored_im: Array, roots: Array
) -> Array:
    a, b, w = (
        t[0].astype(np.float64) + 1j * t[1]
        for t in (np.concatenate([re, im]), np.concatenate([mirrored_re, mirrored_im]), roots)
    )
    found = (a - b.conj()) * w.conj() + 1j * (a + b.conj())
    return np.stack([found.imag, found.real]).astype(re.dtype)


def _paired(
    re: Sequence[FloatExpr],
    im: Sequence[FloatExpr],
    mirrored_re: Sequence[FloatExpr],
    mirrored_im: Sequence[FloatExpr],
    roots: Sequence[FloatExpr],
) -> Sequence[FloatExpr]:
    a, b = Complex(re[0], im[0]), Complex(mirrored_re[0], mirrored_im[0])
    odd = Complex(a.re - b.re, a.im + b.im).times(roots[0], -roots[1])
    return [odd.im + (a.re + b.re), odd.re - (a.im - b.im)]


def _paired_kernel(*_parts: TensorType) -> ColumnMap:
    return column_map(_paired, 14)


def _paired_batch(operands: Operands) -> Tensor:
    inner = [permute_dims(t, (1, 0, *range(2, t.ndim))) for t in operands.lifted()]
    result = operands.apply(*inner)
    return permute_dims(result, (1, 0, *range(2, result.ndim)))


paired_columns_op = define(
    "paired_columns",
    infer=_paired_infer,
    reference=_paired_reference,
    grad="none",
    kernel=_paired_kernel,
    batch=_paired_batch,
)
