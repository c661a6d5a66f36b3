"""Random graphs over the ops users call, with inputs on which every op is defined.

A graph grows from a pool of tensors of one dtype (`pool.py`) by the rows of a table. New ops become
reachable by a row here, and structures with nested graphs by one of `control_strategies.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import placeholder, variable_node
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops import (
    arithmetic,
    comparison,
    conversion,
    cumulative,
    exponential_scans,
    extrema,
    float_parts,
    gathering,
    hyperbolic,
    indexing,
    ordering,
    padding,
    powers,
    reduction,
    rolling,
    running_extremes,
    scattering,
    slicing,
    structure,
    transcendental,
    trigonometry,
    views,
    whole_numbers,
    windows,
)
from symgrad.graph.types import Array, State
from tests.support.control_strategies import CONTROL
from tests.support.matrix_strategies import columns, matmul, tensordot, triangular_solve
from tests.support.pool import Pool, Recipe, Row


def _reshape(pool: Pool) -> Tensor:
    x = pool.any()
    shape = (1, -1) if x.ndim and pool.integer(0, 1) else (-1, *x.shape[1:])
    return structure.reshape(x, shape)


def _broadcast(pool: Pool) -> Tensor:
    x = pool.any()
    return structure.broadcast_to(x, (*pool.shape(1), *x.shape))


def _slice(pool: Pool) -> Tensor:
    x = pool.any(1)
    sizes = x.type.static_shape
    taken = [pool.integer(1, n) for n in sizes]
    start = [pool.integer(0, n - count) for n, count in zip(sizes, taken, strict=True)]
    return slicing.slice_axes(x, start, taken, [1] * x.ndim)


def _strided_slice(pool: Pool) -> Tensor:
    x = pool.any(1)
    return slicing.slice_axes(
        x, [n - 1 for n in x.shape], [(n + 1) // 2 for n in x.shape], [-2] * x.ndim
    )


def _pad(pool: Pool) -> Tensor:
    x = pool.any(1)
    most = pool.integer(1, 4)  # beyond 1, what is filled may be most of the result
    widths = [(pool.integer(0, most), pool.integer(0, most)) for _ in x.shape]
    return padding.pad(x, widths, constant_values=1)


def _concat(pool: Pool) -> Tensor:
    x = pool.any(1)
    others = [t for t in pool.tensors if t.shape == x.shape][:2]
    return slicing.concat([x, *others], axis=pool.axis(x))


def _take(*, is_known: bool) -> Recipe:
    def recipe(pool: Pool) -> Tensor:
        x = pool.any(1)
        axis = pool.axis(x)
        indices = pool.indices(x.type.static_shape[axis], is_known=is_known)
        return indexing.take(x, indices, axis=axis)

    return recipe


def _scatter_add(*, is_known: bool) -> Recipe:
    def recipe(pool: Pool) -> Tensor:
        x = pool.any(1)
        indices = pool.indices(x.type.static_shape[0], is_known=is_known)
        shape = (*indices.shape, *x.shape[1:])
        return indexing.scatter_add(x, indices, structure.broadcast_to(pool.array(()), shape))

    return recipe


def _updates(pool: Pool, x: Tensor, indices: Tensor) -> Tensor:
    """Return updates of rows of `x`; those that meet differ from each other."""
    shape = (*indices.shape, *x.shape[1:])
    updates = structure.broadcast_to(pool.array(()), shape)
    if indices.ndim and updates.type.count:
        order = gathering.iota(shape, 0)
        updates = arithmetic.add(updates, conversion.astype(order, updates.dtype))
    return updates


def _scatter_set(*, is_known: bool) -> Recipe:
    def recipe(pool: Pool) -> Tensor:
        x = pool.any(1)
        indices = pool.indices(x.type.static_shape[0], is_known=is_known)
        return gathering.set_rows(x, _updates(pool, x, indices), [indices], 0)

    return recipe


def _scatter_modes(*, is_known: bool) -> Recipe:
    def recipe(pool: Pool) -> Tensor:
        x = pool.any(1)
        indices = pool.indices(x.type.static_shape[0], is_known=is_known)
        updates = _updates(pool, x, indices)
        if pool.integer(0, 2) == 0:
            return scattering.multiply_rows(x, updates, [indices], 0)
        extremes = scattering.scatter_min_op, scattering.scatter_max_op
        return scattering.extreme_rows(extremes[pool.chance()], x, updates, [indices], 0)

    return recipe


def _starts(pool: Pool, x: Tensor, *, is_known: bool) -> Tensor:
    """Return where a block begins, in `x` or outside of it."""
    if is_known:
        return constant(pool.rng.integers(-2, 5, x.ndim))
    computed = conversion.astype(pool.any(), "int64")
    return structure.broadcast_to(reduction.max(computed), (x.ndim,))


def _dynamic_slice(*, is_known: bool) -> Recipe:
    def recipe(pool: Pool) -> Tensor:
        x = pool.any(1)
        sizes = [pool.integer(1, n) for n in x.type.static_shape]
        return windows.dynamic_slice(x, _starts(pool, x, is_known=is_known), sizes)

    return recipe


def _dynamic_update_slice(*, is_known: bool) -> Recipe:
    def recipe(pool: Pool) -> Tensor:
        x = pool.any(1)
        block = pool.array(tuple(pool.integer(1, n) for n in x.type.static_shape))
        return windows.dynamic_update_slice(x, block, _starts(pool, x, is_known=is_known))

    return recipe


def _ramp(pool: Pool) -> Tensor:
    x = pool.any(1)
    positions = gathering.iota(x.type.static_shape, x.ndim - 1)
    return arithmetic.multiply(x, conversion.astype(positions, x.dtype))


def _argmax(pool: Pool) -> Tensor:
    x = pool.any(1)
    return conversion.astype(reduction.argmax(x, axis=pool.axis(x)), pool.dtype)


def _ordered(function: Callable[..., Tensor]) -> Recipe:
    def recipe(pool: Pool) -> Tensor:
        x = pool.any(1)
        found = function(x, axis=pool.axis(x), descending=pool.chance())
        return conversion.astype(found, pool.dtype)

    return recipe


def _search(pool: Pool) -> Tensor:
    x, numbers = pool.any(1), np.arange(0, 40, 10)  # so far apart that no rounding matters
    rows = structure.broadcast_to(constant(numbers.astype(pool.dtype.numpy)), (*x.shape[:-1], 4))
    found = ordering.search(rows, extrema.clip(x, 0, 1) + 14, "left")
    return conversion.astype(found, pool.dtype)


def _where(pool: Pool) -> Tensor:
    x = pool.any()
    y = pool.like(x)
    return comparison.where(comparison.less(x, y), x, y)


def _binary(function: Callable[[Tensor, Tensor], Tensor]) -> Recipe:
    def recipe(pool: Pool) -> Tensor:
        x = pool.any()
        return function(x, pool.like(x))

    return recipe


def _reduce(function: Callable[..., Tensor]) -> Recipe:
    def recipe(pool: Pool) -> Tensor:
        x = pool.any()
        keepdims = bool(pool.integer(0, 1))
        return conversion.astype(function(x, axis=pool.axes(x), keepdims=keepdims), pool.dtype)

    return recipe


def _scan(function: Callable[..., Tensor]) -> Recipe:
    def recipe(pool: Pool) -> Tensor:
        x = pool.any(1)
        axis = pool.axis(x)
        if pool.integer(0, 1):
            result = slicing.flip(function(slicing.flip(x, axis=axis), axis=axis), axis=axis)
        else:
            result = function(x, axis=axis)
        return conversion.astype(result, pool.dtype)  # small integers are added up in 64 bits

    return recipe


def _unary(function: Callable[[Tensor], Tensor]) -> Recipe:
    return lambda pool: function(pool.any())


def _number(name: str, recipe: Recipe, *, is_smooth: bool = True) -> Row:
    return Row(name, recipe, is_float_only=False, is_smooth=is_smooth)


def _float(name: str, recipe: Recipe, *, is_smooth: bool = True) -> Row:
    return Row(name, recipe, is_float_only=True, is_smooth=is_smooth)


_tanh, _absolute = transcendental.tanh, arithmetic.abs

TABLE = (
    _number("add", _binary(arithmetic.add)),
    _number("subtract", _binary(arithmetic.subtract)),
    _number("multiply", _binary(arithmetic.multiply)),
    _number("maximum", _binary(extrema.maximum)),
    _number("minimum", _binary(extrema.minimum)),
    _number("abs", _unary(_absolute)),
    _number("square", _unary(arithmetic.square)),
    _number("sign", _unary(arithmetic.sign), is_smooth=False),
    _number("floor_divide", _unary(lambda x: arithmetic.floor_divide(x, 3)), is_smooth=False),
    _number("remainder", _unary(lambda x: arithmetic.remainder(x, 3)), is_smooth=False),
    _number("clip", _unary(lambda x: extrema.clip(x, 0, 2))),
    _number("where", _where),
    _number("argmax", _argmax, is_smooth=False),
    _number("sum", _reduce(reduction.sum)),
    _number("prod", _reduce(reduction.prod)),
    _number("max", _reduce(reduction.max)),
    _number("min", _reduce(reduction.min)),
    _number("any", _reduce(reduction.any), is_smooth=False),
    _number("all", _reduce(reduction.all), is_smooth=False),
    _number("cumsum", _scan(cumulative.cumsum)),
    _number("cumprod", _scan(cumulative.cumprod)),
    _number("cummax", _scan(running_extremes.cummax)),
    _number("cummin", _scan(running_extremes.cummin)),
    _number("matmul", matmul),
    _number("tensordot", tensordot),
    _number("reshape", _reshape),
    _number("transpose", _unary(views.reverse_axes)),
    _number("broadcast_to", _broadcast),
    _number("slice", _slice),
    _number("strided_slice", _strided_slice),
    _number("flip", _unary(slicing.flip)),
    _number("pad", _pad),
    _number("concat", _concat),
    _number("roll", _unary(lambda x: rolling.roll(x, 1))),
    _number("repeat", _unary(lambda x: views.repeat(x, 2))),
    # Positions computed from floats jump where the floats are rounded otherwise.
    _number("take", _take(is_known=False), is_smooth=False),
    _number("scatter_add", _scatter_add(is_known=False), is_smooth=False),
    _number("scatter_set", _scatter_set(is_known=False), is_smooth=False),
    _number("scatter_modes", _scatter_modes(is_known=False), is_smooth=False),
    _number("dynamic_slice", _dynamic_slice(is_known=False), is_smooth=False),
    _number("dynamic_update_slice", _dynamic_update_slice(is_known=False), is_smooth=False),
    _number("scatter_modes_known", _scatter_modes(is_known=True)),
    _number("dynamic_slice_known", _dynamic_slice(is_known=True)),
    _number("dynamic_update_slice_known", _dynamic_update_slice(is_known=True)),
    _number("take_known", _take(is_known=True)),
    _number("scatter_add_known", _scatter_add(is_known=True)),
    _number("scatter_set_known", _scatter_set(is_known=True)),
    _number("ramp", _ramp),
    _number("sort", _ordered(ordering.sort)),
    _number("argsort", _ordered(ordering.argsort), is_smooth=False),
    _number("search", _search),
    _float("triangular_solve", triangular_solve),
    _float("columns", columns),
    _float("divide", _binary(lambda x, y: arithmetic.divide(x, 1 + _absolute(y)))),
    _float("mean", _reduce(reduction.mean)),
    _float("logcumsumexp", _scan(exponential_scans.logcumsumexp)),
    _float("exp", _unary(lambda x: transcendental.exp(_tanh(x)))),
    _float("expm1", _unary(lambda x: transcendental.expm1(_tanh(x)))),
    _float("log", _unary(lambda x: transcendental.log(1 + _absolute(x)))),
    _float("log1p", _unary(lambda x: transcendental.log1p(_absolute(x)))),
    _float("sqrt", _unary(lambda x: transcendental.sqrt(1 + _absolute(x)))),
    _float("rsqrt", _unary(lambda x: transcendental.rsqrt(1 + _absolute(x)))),
    _float("sin", _unary(transcendental.sin)),
    _float("cos", _unary(transcendental.cos)),
    _float("sigmoid", _unary(transcendental.sigmoid)),
    _float("erf", _unary(transcendental.erf)),
    _float("tanh", _unary(_tanh)),
    _float("tan", _unary(lambda x: trigonometry.tan(_tanh(x)))),
    _float("atan", _unary(trigonometry.atan)),
    _float("sinc", _unary(trigonometry.sinc)),
    _float("cosh", _unary(lambda x: hyperbolic.cosh(_tanh(x)))),
    _float("asinh", _unary(hyperbolic.asinh)),
    _float("atan2", _binary(lambda x, y: trigonometry.atan2(x, 1 + _absolute(y)))),
    _float("hypot", _binary(lambda x, y: powers.hypot(x, 1 + _absolute(y)))),
    _float("logaddexp", _binary(powers.logaddexp)),
    _float("copysign", _binary(float_parts.copysign), is_smooth=False),
    _float("trunc", _unary(float_parts.trunc), is_smooth=False),
    _float("pow", _binary(lambda x, y: transcendental.pow(1 + _absolute(_tanh(x)), _tanh(y)))),
    _float("floor", _unary(whole_numbers.floor), is_smooth=False),
    _float("ceil", _unary(whole_numbers.ceil), is_smooth=False),
    _float("round", _unary(whole_numbers.round), is_smooth=False),
)

_RARE = (
    *("ramp", "tensordot", "take_known", "scatter_add_known", "scatter_set_known"),
    *("search", "sort", "columns"),
)
_UNROLLED = ("triangular_solve", "columns")  # whose code grows with the square of an axis


def _rows(dtype: DType, *, smooth: bool, control: bool) -> list[Row]:
    rows = list(TABLE)
    if control:  # or few graphs would have any, and few of them the structures of few ops
        rows += 12 * list(CONTROL) + [row for row in TABLE if row.name in _RARE] * 4
    rows = [r for r in rows if dtype.is_float or not r.is_float_only]
    return [r for r in rows if r.is_smooth or not smooth]


def random_graph(
    rng: np.random.Generator,
    *,
    dtype: DType = dtypes.float32,
    size: int = 10,
    smooth: bool = False,
    control: bool = False,
    long: int | None = None,
) -> tuple[Graph, list[Array]]:
    """Return a graph of about `size` user-level ops on numbers of `dtype`, and inputs for it.

    With `smooth`, only ops whose results rounding of the operands moves but little: what two ways
    of computing must agree on. With `control`, branches and loops too. With `long`, some axes have
    so many elements.
    """
    assert not dtype.is_bool, "the table is of ops on numbers"
    rows = _rows(dtype, smooth=smooth, control=control)
    if long is not None:
        rows = [r for r in rows if r.name not in _UNROLLED]
    pool = Pool(rng, dtype, rows, long=long)
    arrays = [pool.array(pool.shape()) for _ in range(pool.integer(1, 3))]
    inputs = [placeholder(a.shape, dtype, pool.name()) for a in arrays]
    state = State(pool.array(pool.shape()), name="w", trainable=True)
    variable = variable_node(state, pool.name())
    pool.tensors += [*inputs, variable]
    pool.grow(size)
    outputs = [pool.any() for _ in range(pool.integer(1, 3))] + pool.tensors[-1:]
    fitting = [t for t in pool.tensors if t.shape == variable.shape]
    updates = [Update(variable, fitting[-1])] if pool.integer(0, 1) else []
    return Graph(outputs, inputs, updates, name="random"), arrays


def graphs(
    *,
    dtype: DType = dtypes.float32,
    max_size: int = 12,
    smooth: bool = False,
    control: bool = False,
) -> st.SearchStrategy[tuple[Graph, list[Array]]]:
    """Return the strategy of random graphs with inputs; it shrinks towards fewer ops."""

    def build(size: int, seed: int) -> tuple[Graph, list[Array]]:
        rng = np.random.default_rng(seed)
        return random_graph(rng, dtype=dtype, size=size, smooth=smooth, control=control)

    return st.builds(build, st.integers(0, max_size), st.integers(0, 2**32 - 1))
