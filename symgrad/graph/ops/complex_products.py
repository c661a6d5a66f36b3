"""Products of complex numbers: contractions by real products, products along axes by trees."""

from __future__ import annotations

import math
from collections.abc import Callable

from symgrad.graph.build import apply
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import add, subtract
from symgrad.graph.ops.complex_arithmetic import product, total
from symgrad.graph.ops.contraction import einsum_op
from symgrad.graph.ops.convolution import convolution_op
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.reduction import prod_op
from symgrad.graph.ops.running_products import cumprod_op, linear_recurrence_op
from symgrad.graph.ops.slicing import concat, flip
from symgrad.graph.ops.structure import Axes, drop_axes, permute_dims, reshape
from symgrad.graph.ops.subgraph import is_zero
from symgrad.graph.ops.views import narrow
from symgrad.graph.pair_rules import Parts, splits
from symgrad.graph.types import Shape, static


@splits(einsum_op)
def _split_einsum(lhs: Parts, rhs: Parts, *, spec: str) -> Parts:
    return _real_products(lhs, rhs, lambda x, y: apply(einsum_op, x, y, spec=spec))


@splits(convolution_op)
def _split_convolution(lhs: Parts, rhs: Parts, *, spec: str, sizes: Shape) -> Parts:
    return _real_products(
        lhs, rhs, lambda x, y: apply(convolution_op, x, y, spec=spec, sizes=sizes)
    )


def _real_products(lhs: Parts, rhs: Parts, multiplied: Callable[[Tensor, Tensor], Tensor]) -> Parts:
    """Return four real products, or two where an operand is known to be real."""
    if is_zero(rhs.im):
        return Parts(multiplied(lhs.re, rhs.re), multiplied(lhs.im, rhs.re))
    if is_zero(lhs.im):
        return Parts(multiplied(lhs.re, rhs.re), multiplied(lhs.re, rhs.im))
    return Parts(
        subtract(multiplied(lhs.re, rhs.re), multiplied(lhs.im, rhs.im)),
        add(multiplied(lhs.re, rhs.im), multiplied(lhs.im, rhs.re)),
    )


def _on_parts(x: Parts, function: object, *args: object, **options: object) -> Parts:
    assert callable(function), "a function is applied to each part"
    return Parts(function(x.re, *args, **options), function(x.im, *args, **options))


def _ones(shape: Shape, like: Parts) -> Parts:
    dtype = like.re.dtype
    return Parts(filled(shape, 1, dtype), filled(shape, 0, dtype))


@splits(prod_op)
def _split_prod(x: Parts, *, axes: Axes) -> Parts:
    """Multiply halves until one element is left, so that roundings are few."""
    type_ = x.re.type
    kept = drop_axes(type_, axes)
    count = math.prod(static(type_.shape[a]) for a in axes)
    if count == 0:
        return _ones(kept, x)
    order = [*axes, *(a for a in range(type_.ndim) if a not in axes)]
    rows = _on_parts(_on_parts(x, permute_dims, order), reshape, (count, *kept))
    while count > 1:
        half = count // 2
        first, second = (_on_parts(rows, narrow, 0, start, half) for start in (0, half))
        met = product(first, second)
        if count % 2:
            last = _on_parts(rows, narrow, 0, count - 1, 1)
            met = Parts(concat([met.re, last.re]), concat([met.im, last.im]))
        rows, count = met, half + count % 2
    return _on_parts(rows, reshape, kept)


def _shifted(x: Parts, axis: int, distance: int, first: int) -> Parts:
    """Return `x` moved by `distance` along `axis`, with `first` in the places left behind."""
    shape = x.re.shape
    head = (*shape[:axis], distance, *shape[axis + 1 :])
    rest = _on_parts(x, narrow, axis, 0, static(shape[axis]) - distance)
    parts = ((filled(head, first, x.re.dtype), rest.re), (filled(head, 0, x.re.dtype), rest.im))
    return Parts(*(concat(pair, axis=axis) for pair in parts))


# Note [Complex scans]
# A scan of pairs would have two results, and PrefixScan has one. So a product of prefixes is made
# by recursive doubling (Hillis and Steele 1986): after step k an element has the product of the
# 2**k up to it. That is n log n multiplications, in maps that run on vectors.


@splits(cumprod_op)
def _split_cumprod(x: Parts, *, axis: int, reverse: bool, exclusive: bool) -> Parts:
    found = _on_parts(x, flip, axis) if reverse else x
    size = static(x.re.shape[axis])
    if exclusive and size:
        found = _shifted(found, axis, 1, 1)
    distance = 1
    while distance < size:
        found = product(_shifted(found, axis, distance, 1), found)
        distance *= 2
    return _on_parts(found, flip, axis) if reverse else found


@splits(linear_recurrence_op)
def _split_linear_recurrence(a: Parts, b: Parts, *, axis: int, reverse: bool) -> Parts:
    """Compose the maps h -> a h + b of all elements before each: see Note [Complex scans]."""
    size = static(b.re.shape[axis])
    if size == 0:
        return b
    if reverse:
        a, b = _on_parts(a, flip, axis), _on_parts(b, flip, axis)
    a, b = _shifted(a, axis, 1, 1), _shifted(b, axis, 1, 0)
    distance = 1
    while distance < size:
        before = _shifted(b, axis, distance, 0)
        b = total(product(a, before), b)
        a = product(_shifted(a, axis, distance, 1), a)
        distance *= 2
    return _on_parts(b, flip, axis) if reverse else b
