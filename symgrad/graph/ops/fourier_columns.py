"""Fourier transforms of columns, written out: one pass of a longer transform (Stockham, 1966)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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


def fourier_columns(re: Tensor, im: Tensor, *turns: Tensor, axes: tuple[int, int]) -> Tensor:
    """Transform columns along axis 0; multiply each element but the first by a number of `turns`.

    These are real and imaginary parts, too. The result has an axis of the two parts and one of the
    elements of a column, in the places `axes`, among the other axes of the operands.
    """
    return apply(fourier_columns_op, re, im, *turns, axes=axes)


def _infer(re: TensorType, im: TensorType, *turns: TensorType, axes: Axes) -> TensorType:
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


def _reference(re: Array, im: Array, *turns: Array, axes: Axes) -> Array:
    found = np.fft.fft(re.astype(np.float64) + 1j * im.astype(np.float64), axis=0)
    if turns:
        found[1:] *= turns[0].astype(np.float64) + 1j * turns[1]
    parts = np.moveaxis(np.stack([found.real, found.imag]), (0, 1), axes)
    return np.ascontiguousarray(parts, re.dtype)


def _transformed(
    re: Sequence[FloatExpr], im: Sequence[FloatExpr], *turns: Sequence[FloatExpr]
) -> Sequence[FloatExpr]:
    found = transform([Complex(a, b) for a, b in zip(re, im, strict=True)])
    if turns:
        found[1:] = [x.times(a, b) for x, a, b in zip(found[1:], *turns, strict=True)]
    return [x.re for x in found] + [x.im for x in found]


def _kernel(re: TensorType, _im: TensorType, *turns: TensorType, axes: Axes) -> ColumnMap:
    n = re.static_shape[0]
    flops = flops_of_transform(n) + (6 * (n - 1) if turns else 0)
    return replace(column_map(_transformed, flops), axes=axes)


def _batch(operands: Operands, *, axes: Axes) -> Tensor:
    inner = [permute_dims(t, (1, 0, *range(2, t.ndim))) for t in operands.lifted()]
    return operands.apply(*inner, axes=tuple(axis + 1 for axis in axes))


fourier_columns_op = define(
    "fourier_columns",
    infer=_infer,
    reference=_reference,
    grad="none",
    kernel=_kernel,
    batch=_batch,
)
