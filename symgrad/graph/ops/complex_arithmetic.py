"""Arithmetic of complex numbers: modulus and direction, and the rules of arithmetic on pairs.

The rules of `add` and the like are in their records: they are applied to each part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.late_binding import provide
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.operands import require_dtype
from symgrad.graph.ops.arithmetic import (
    abs_op,
    add,
    divide,
    divide_op,
    multiply,
    multiply_op,
    negative,
    subtract,
)
from symgrad.graph.ops.comparison import (
    equal,
    equal_op,
    greater,
    logical_and,
    logical_or,
    not_equal,
    not_equal_op,
    where,
)
from symgrad.graph.ops.complex_parts import complex_op, conj, real
from symgrad.graph.ops.conversion import astype, astype_op, dim_size_op
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.powers import hypot, nonzero_length
from symgrad.graph.ops.slicing import place, place_op
from symgrad.graph.ops.subgraph import is_zero
from symgrad.graph.pair_rules import Parts, Split, splits
from symgrad.graph.scalars import Scalars
from symgrad.graph.sizes import Dim
from symgrad.graph.structures import ScalarExpr
from symgrad.graph.types import Array, TensorType


def product(x: Parts, y: Parts) -> Parts:
    """Multiply pairs: (a + ib) (c + id) = ac - bd + i (ad + bc).

    What is known to be real multiplies each part.
    """
    if is_zero(y.im):
        return scaled(x, y.re)
    if is_zero(x.im):
        return scaled(y, x.re)
    return Parts(
        subtract(multiply(x.re, y.re), multiply(x.im, y.im)),
        add(multiply(x.re, y.im), multiply(x.im, y.re)),
    )


def scaled(x: Parts, factor: Tensor | float) -> Parts:
    """Multiply a pair by real numbers."""
    return Parts(multiply(x.re, factor), multiply(x.im, factor))


def total(x: Parts, y: Parts) -> Parts:
    """Add pairs."""
    return Parts(add(x.re, y.re), add(x.im, y.im))


def difference(x: Parts, y: Parts) -> Parts:
    """Subtract pairs."""
    return Parts(subtract(x.re, y.re), subtract(x.im, y.im))


def chosen(condition: Tensor, x: Parts, y: Parts) -> Parts:
    """Take `x` where `condition` holds and `y` elsewhere."""
    return Parts(where(condition, x.re, y.re), where(condition, x.im, y.im))


splits(multiply_op)(product)


@splits(divide_op)
def quotient(x: Parts, y: Parts) -> Parts:
    """Divide pairs by Smith's algorithm (Communications of the ACM 5, 1962).

    The smaller part of the divisor is divided by the greater one, so that no square overflows. By
    zero each part is divided by the modulus of the divisor, as in NumPy, and by what is known to be
    real it is divided, too.
    """
    if is_zero(y.im):
        return Parts(divide(x.re, y.re), divide(x.im, y.re))
    is_steep = greater(abs_of(y.im), abs_of(y.re))
    large, small = where(is_steep, y.im, y.re), where(is_steep, y.re, y.im)
    # Of (b - ia) / (d - ic), which is the quotient, the steep case is the other one.
    a, b = where(is_steep, x.im, x.re), where(is_steep, negative(x.re), x.im)
    ratio = divide(small, large)
    # Beside a nan a zero is no divisor: the greater part is told by comparing.
    is_nothing = logical_and(equal(large, 0), equal(small, 0))
    turned = where(is_steep, negative(ratio), ratio)
    scale = where(is_nothing, abs_of(large), add(large, multiply(small, ratio)))
    across = where(is_nothing, 0.0, multiply(b, turned))
    along = where(is_nothing, 0.0, multiply(a, turned))
    return Parts(divide(add(a, across), scale), divide(subtract(b, along), scale))


def abs_of(x: Tensor) -> Tensor:
    """Return the absolute value of reals."""
    return apply(abs_op, x)


@splits(equal_op)
def _split_equal(x: Parts, y: Parts) -> Tensor:
    return logical_and(equal(x.re, y.re), equal(x.im, y.im))


@splits(not_equal_op)
def _split_not_equal(x: Parts, y: Parts) -> Tensor:
    return logical_or(not_equal(x.re, y.re), not_equal(x.im, y.im))


@splits(astype_op)
def _split_astype(x: Split, *, dtype: DType) -> Split:
    if not isinstance(x, Parts):
        re = astype(x, dtype.real)
        return Parts(re, filled_like(re, 0))
    if dtype.is_bool:
        return logical_or(not_equal(x.re, 0), not_equal(x.im, 0))
    return Parts(astype(x.re, dtype.real), astype(x.im, dtype.real))


@splits(dim_size_op)
def _split_dim_size(*, value: Dim, dtype: DType) -> Parts:
    size = apply(dim_size_op, value=value, dtype=dtype.real)
    return Parts(size, filled_like(size, 0))


@splits(place_op)
def _split_pad(x: Parts, *, value: float, **places: Any) -> Parts:
    return Parts(place(x.re, value=value, **places), place(x.im, value=0, **places))


# --------------------------------------------------------------------------- modulus, direction


def _is_complex(dtype: DType) -> bool:
    return dtype.is_complex


def _modulus_body(s: Scalars[ScalarExpr], z: ScalarExpr) -> ScalarExpr:
    return s.call("sqrt", s.call("mul", z, z))  # what it costs: no code is made of it


@provide
def modulus(z: Tensor) -> Tensor:
    """Return the absolute values of complex numbers; at 0 the gradient is 0."""
    return apply(modulus_op, z)


def _modulus_infer(z: TensorType) -> TensorType:
    require_dtype("modulus", "x", z, _is_complex)
    return z.with_dtype(z.dtype.real)


def _modulus_grad(node: Node, g: Tensor) -> Grads:
    # d|z| = Re(conj(z) dz) / |z|
    seed = apply(complex_op, g, filled_like(g, 0))
    return (multiply(seed, conj(direction(node.inputs[0]))),)


modulus_op = elementwise(
    "modulus",
    infer=_modulus_infer,
    reference=lambda z: np.asarray(np.abs(z)),
    grad=_modulus_grad,
    body=_modulus_body,
    of_pairs="rule",
)


@splits(modulus_op)
def _split_modulus(z: Parts) -> Tensor:
    return hypot(z.re, z.im)


@provide
def direction(z: Tensor) -> Tensor:
    """Return z / |z|, 0 for 0: the sign of complex numbers."""
    return apply(direction_op, z)


def _direction_infer(z: TensorType) -> TensorType:
    require_dtype("direction", "x", z, _is_complex)
    return z


def _direction_reference(z: Array) -> Array:
    length = np.abs(z)
    with np.errstate(all="ignore"):
        return np.where(length == 0, 0, z / np.where(length == 0, 1, length)).astype(z.dtype)


def _direction_grad(node: Node, g: Tensor) -> Grads:
    # dy = (dz - y d|z|) / |z| and d|z| = Re(conj(y) dz), so that the gradient to z is
    # (g - Re(g y) conj(y)) / |z|; at 0 it is 0.
    z, y = node.inputs[0], node.output
    length = modulus(z)
    along = real(multiply(g, y))
    seed = apply(complex_op, along, filled_like(along, 0))
    across = subtract(g, multiply(seed, conj(y)))
    divisor = nonzero_length(length)
    found = divide(across, apply(complex_op, divisor, filled_like(divisor, 0)))
    return (where(equal(length, 0), filled_like(g, 0), found),)


direction_op = elementwise(
    "direction",
    infer=_direction_infer,
    reference=_direction_reference,
    grad=_direction_grad,
    body=lambda s, z: s.call("div", z, _modulus_body(s, z)),
    of_pairs="rule",
)


@splits(direction_op)
def _split_direction(z: Parts) -> Parts:
    length = hypot(z.re, z.im)
    is_nothing, divisor = equal(length, 0), nonzero_length(length)
    return Parts(*(where(is_nothing, 0.0, divide(part, divisor)) for part in (z.re, z.im)))
