"""NumPy's numerical functions on tensors that are formulas of ops: differences, polynomials, sums.

Those for which an op of ours stands are in `numpy_values.py`, those about positions in
`numpy_positions.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.errors import GraphError, ShapeError, user_source
from symgrad.frontend.numpy_arguments import adapts, refuse
from symgrad.graph.dtypes import DTypeLike, as_dtype
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, normalize_axes, normalize_axis, promote_operands
from symgrad.graph.ops import (
    arithmetic,
    bessel,
    comparison,
    complex_parts,
    contraction,
    counting,
    cumulative,
    differences,
    indexing,
    joining,
    padding,
    powers,
    reduction,
    slicing,
    structure,
    transcendental,
    trigonometry,
    views,
)
from symgrad.graph.ops.elementwise import filled, float_operand
from symgrad.graph.types import require_node_count

# ------------------------------------------------------------------------------------- differences


@adapts("diff", np.gradient)
def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return the slope at each point, by its neighbours: second order within, see NumPy."""
    x = float_operand(f)
    axes = normalize_axes("gradient", axis, x.ndim)
    spacings = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    if len(spacings) != len(axes):
        problem = f"{len(varargs)} spacings for {len(axes)} axes of f: {x.type}"
        raise ShapeError("numpy.gradient", problem, source=user_source())
    if edge_order not in (1, 2):
        problem = f"edge_order {edge_order} is neither 1 nor 2"
        raise GraphError("numpy.gradient", problem, source=user_source())
    found = tuple(_slopes(x, place, h, edge_order) for place, h in zip(axes, spacings, strict=True))
    return found[0] if len(found) == 1 else found


def _slopes(x: Tensor, axis: int, spacing: Any, order: int) -> Tensor:
    size = x.shape[axis]
    if isinstance(size, int) and size <= order:
        problem = f"axis {axis} of f: {x.type} is too short, of {size} and not {order + 1} or more"
        raise ShapeError("numpy.gradient", problem, source=user_source())
    x, h = promote_operands("gradient", x, spacing)
    if h.ndim > 1:
        problem = f"spacing: {h.type} is neither a scalar nor a vector"
        raise ShapeError("numpy.gradient", problem, source=user_source())
    if h.ndim:
        steps = structure.reshape(differences.diff(h), (-1, *(1,) * (x.ndim - axis - 1)))
        place = steps.ndim - x.ndim + axis
        before = views.narrow(steps, place, 0, size - 2)
        after = views.narrow(steps, place, 1, size - 2)
    else:
        before = after = h

    def part(start: Any, count: Any) -> Tensor:
        return views.narrow(x, axis, start, count)

    # The slope of the parabola through three points (B. Fornberg, "Generation of finite difference
    # formulas on arbitrarily spaced grids", 1988).
    up = (part(2, size - 2) - part(1, size - 2)) / after
    down = (part(1, size - 2) - part(0, size - 2)) / before
    within = (up * before + down * after) / (before + after)
    first, last = _ends(x, axis, steps if h.ndim else h, order)
    return slicing.concat([first, within, last], axis=axis)


def _ends(x: Tensor, axis: int, steps: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Return the slopes at both ends, of a line or of a parabola."""
    size = x.shape[axis]

    def slope(at: Any) -> Tensor:
        rise = views.narrow(x, axis, at + 1, 1) - views.narrow(x, axis, at, 1)
        return arithmetic.divide(rise, step(at))

    def step(at: Any) -> Tensor:
        place = steps.ndim - x.ndim + axis
        return views.narrow(steps, place, at, 1) if steps.ndim else steps

    first, last = slope(0), slope(size - 2)
    if order == 1:
        return first, last
    h0, h1 = step(0), step(1)
    g0, g1 = step(size - 2), step(size - 3)
    first = first - (slope(1) - first) * h0 / (h0 + h1)
    last = last + (last - slope(size - 3)) * g0 / (g0 + g1)
    return first, last


@adapts("sum", np.trapezoid)
def _trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    values = as_tensor(y)
    axis = normalize_axis("trapezoid", axis, values.ndim)
    size = values.shape[axis]
    before = views.narrow(values, axis, 0, size - 1)
    after = views.narrow(values, axis, 1, size - 1)
    steps: Any = dx
    if x is not None:
        places = as_tensor(x)
        steps = differences.diff(places, axis=0 if places.ndim == 1 else axis)
        if places.ndim == 1:
            steps = structure.reshape(steps, (-1, *(1,) * (values.ndim - axis - 1)))
    areas = arithmetic.multiply(steps, arithmetic.divide(arithmetic.add(before, after), 2.0))
    return reduction.sum(areas, axis)


@adapts("where", np.unwrap)
def _unwrap(
    p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi
) -> Tensor:
    """Return angles without jumps: multiples of `period` are added where neighbours differ."""
    x = float_operand(p)
    axis = normalize_axis("unwrap", axis, x.ndim)
    steps = differences.diff(x, axis=axis)
    half = period / 2
    inside = arithmetic.remainder(steps + half, period) - half
    is_up = comparison.logical_and(comparison.equal(inside, -half), comparison.greater(steps, 0))
    change = comparison.where(is_up, half, inside) - steps
    least = half if discont is None else discont
    change = comparison.where(arithmetic.abs(steps) < least, 0, change)
    first = views.narrow(x, axis, 0, 1)
    rest = views.narrow(x, axis, 1, x.shape[axis] - 1)
    return slicing.concat([first, rest + cumulative.cumsum(change, axis)], axis=axis)


# ------------------------------------------------------------------------------- sums of products


@adapts("matmul", np.convolve)
def _convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    x, y = _vectors("convolve", a, v)
    if _known_size("convolve", y) > _known_size("convolve", x):
        x, y = y, x
    return _correlated("convolve", x, slicing.flip(y), mode)


@adapts("matmul", np.correlate)
def _correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    x, y = _vectors("correlate", a, v)
    if _known_size("correlate", y) > _known_size("correlate", x):
        return slicing.flip(_correlated("correlate", y, x, mode))
    return _correlated("correlate", x, y, mode)


def _vectors(op: str, a: Any, v: Any) -> tuple[Tensor, Tensor]:
    x, y = promote_operands(op, a, v)
    for name, operand in (("a", x), ("v", y)):
        if operand.ndim != 1 or operand.shape[0] in (0,):
            problem = f"{name}: {operand.type} is no vector with elements"
            raise ShapeError(f"numpy.{op}", problem, source=user_source())
    return x, y


def _known_size(op: str, x: Tensor) -> int:
    (size,) = x.shape
    if not isinstance(size, int):
        problem = f"the size of {x.type} is not known"
        raise ShapeError(f"numpy.{op}", problem, source=user_source())
    return size


def _correlated(op: str, x: Tensor, y: Tensor, mode: str) -> Tensor:
    """Return the sums of products of `y` with each part of the longer `x`."""
    count, taps = _known_size(op, x), _known_size(op, y)
    sides = {"valid": (0, 0), "same": (taps // 2, (taps - 1) // 2), "full": (taps - 1, taps - 1)}
    if mode not in sides:
        problem = f"mode {mode!r} is none of {', '.join(sides)}"
        raise GraphError(f"numpy.{op}", problem, source=user_source())
    before, after = sides[mode]
    padded = padding.pad(x, (before, after))
    results = count + before + after - taps + 1
    places = np.arange(results)[:, None] + np.arange(taps)
    return contraction.matmul(indexing.take(padded, places, axis=0), y)


# ------------------------------------------------------------------------------------- polynomials


def _coefficients(op: str, p: Any) -> Tensor:
    tensor = joining.atleast_1d(p)
    if tensor.ndim != 1:
        problem = f"p: {tensor.type} is no vector of coefficients"
        raise ShapeError(f"numpy.{op}", problem, source=user_source())
    _known_size(op, tensor)
    return tensor


@adapts("multiply", np.polyval)
def _polyval(p: Any, x: Any) -> Tensor:
    """Return the polynomial at `x` by Horner's rule, the highest power first."""
    coefficients, at = promote_operands("polyval", _coefficients("polyval", p), x)
    total = filled(at.shape, 0, at.dtype)
    for number in range(_known_size("polyval", coefficients)):
        factor = structure.reshape(views.narrow(coefficients, 0, number, 1), ())
        total = total * at + factor
    return total


def _aligned(op: str, a1: Any, a2: Any) -> list[Tensor]:
    """Return coefficients with zeros before them, as many of each."""
    both = promote_operands(op, _coefficients(op, a1), _coefficients(op, a2))
    size = max(_known_size(op, p) for p in both)
    return [padding.pad(p, (size - _known_size(op, p), 0)) for p in both]


@adapts("add", np.polyadd)
def _polyadd(a1: Any, a2: Any) -> Tensor:
    return arithmetic.add(*_aligned("polyadd", a1, a2))


@adapts("subtract", np.polysub)
def _polysub(a1: Any, a2: Any) -> Tensor:
    return arithmetic.subtract(*_aligned("polysub", a1, a2))


@adapts("multiply", np.polyder)
def _polyder(p: Any, m: int = 1) -> Tensor:
    found = _coefficients("polyder", p)
    for _ in range(min(m, _known_size("polyder", found))):
        degree = _known_size("polyder", found) - 1
        powers_ = cast(as_tensor(np.arange(degree, 0, -1)), found.dtype)
        found = views.narrow(found, 0, 0, degree) * powers_
    return found


@adapts("power", np.vander)
def _vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803
    vector = as_tensor(x)
    if vector.ndim != 1:
        raise ShapeError("numpy.vander", f"x: {vector.type} is no vector", source=user_source())
    count = _known_size("vander", vector) if N is None else N
    require_node_count("numpy.vander", count, "columns")
    column = filled(vector.shape, 1, vector.dtype)
    columns = []
    for _ in range(count):
        columns.append(column)
        column = column * vector
    if not columns:
        return filled((*vector.shape, 0), 0, vector.dtype)
    return slicing.stack(columns if increasing else columns[::-1], axis=1)


# ------------------------------------------------------------------------------------- single ones


@adapts("special.i0e", np.i0)
def _i0(x: Any) -> Tensor:
    number = float_operand(x)
    return bessel.i0e(number) * transcendental.exp(arithmetic.abs(number))


@adapts("angle", np.angle)
def _angle(z: Any, deg: bool = False) -> Tensor:
    found = complex_parts.angle(z)
    return trigonometry.rad2deg(found) if deg else found


@adapts("histogram", np.histogram_bin_edges)
def _histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    return counting.histogram(a, bins, range)[1]


# ----------------------------------------------------------------------------- between two bounds


@adapts("linspace", np.linspace)
def _linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DTypeLike | None = None, axis: int = 0,
) -> Any:  # fmt: skip
    """Return evenly spaced values between tensors, along a new axis; as NumPy, broadcast."""
    first, last = promote_operands("linspace", float_operand(start), float_operand(stop))
    intervals = max(num - 1 if endpoint else num, 1)
    step = (last - first) / intervals
    shape = (num, *step.shape)
    index = structure.reshape(as_tensor(np.arange(num)), (num, *(1,) * step.ndim))
    values = first + cast(index, step.dtype) * step
    if endpoint and num > 1:
        values = comparison.where(structure.broadcast_to(index < num - 1, shape), values, last)
    values = structure.broadcast_to(values, shape)
    values = views.moveaxis(values if dtype is None else cast(values, as_dtype(dtype)), 0, axis)
    return (values, step) if retstep else values


@adapts("linspace", np.logspace)
def _logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0,
    dtype: DTypeLike | None = None, axis: int = 0,
) -> Tensor:  # fmt: skip
    exponents = _linspace(start, stop, num, endpoint)
    if isinstance(base, Tensor) and base.ndim:
        raise refuse(np.logspace, "base= is no scalar", "sg.pow")
    found = views.moveaxis(_powers(base, exponents), 0, axis)
    return found if dtype is None else cast(found, as_dtype(dtype))


def _powers(base: Any, exponents: Tensor) -> Tensor:
    """Return `base` to powers, a number or a scalar tensor."""
    if not isinstance(base, Tensor) and base == 2:
        return powers.exp2(exponents)
    return transcendental.pow(cast(as_tensor(base), exponents.dtype), exponents)
