"""Random graphs over the ops users call, with inputs on which every op is defined.

A graph grows from a pool of tensors of one dtype: a row of the table takes some and adds one.
Rows keep values small, so that a long chain neither overflows nor amplifies rounding beyond what
comparing two evaluations can bear. New ops become reachable by a row here.

The rows of `CONTROL` make branches and loops, whose graphs grow by the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph, Update
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops import (
    arithmetic,
    branches,
    comparison,
    contraction,
    conversion,
    gathering,
    indexing,
    reduction,
    scan,
    slicing,
    structure,
    transcendental,
    views,
    while_loop,
)
from symgrad.graph.ops.leaf import placeholder, variable_node
from symgrad.graph.types import Array, State

MAX_ELEMENTS = 200
MAX_DEPTH, MAX_TRIPS = 2, 4  # of branches and loops within one another, and of each loop
# Repeated, scoped, illegal and absent names, and one that looks like a suffix.
_NAMES = ("x", "x", "layer/w", "layer/w", "my x", "7", "x_1", None, None)


class Pool:
    """The tensors a graph has grown so far, and the random choices among them."""

    def __init__(self, rng: np.random.Generator, dtype: DType, depth: int = 0) -> None:
        self.rng = rng
        self.dtype = dtype
        self.depth = depth
        self.tensors: list[Tensor] = []

    def integer(self, low: int, high: int) -> int:
        """Return an int from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, ndim: int | None = None) -> tuple[int, ...]:
        count = self.integer(0, 3) if ndim is None else ndim
        return tuple(self.integer(1, 3) for _ in range(count))

    def array(self, shape: tuple[int, ...]) -> Array:
        """Return small values: between -2 and 2, of one decimal for floats."""
        if self.dtype.is_bool:
            return self.rng.integers(0, 2, shape).astype(np.bool_)
        low = 0 if self.dtype.kind == "unsigned" else -2
        values = self.rng.integers(10 * low, 21, shape) / 10
        return np.asarray(values).astype(self.dtype.numpy)

    def name(self) -> str | None:
        return _NAMES[self.integer(0, len(_NAMES) - 1)]

    def any(self, min_ndim: int = 0) -> Tensor:
        """Return a tensor of at least `min_ndim` axes, later ones more often."""
        fitting = [t for t in self.tensors if t.ndim >= min_ndim]
        if not fitting:
            shape = self.shape(ndim=min_ndim)
            return constant(self.array(shape), name=self.name())
        at = max(self.integer(0, len(fitting) - 1), self.integer(0, len(fitting) - 1))
        return fitting[at]

    def axis(self, x: Tensor) -> int:
        return self.integer(-x.ndim, x.ndim - 1)

    def axes(self, x: Tensor) -> tuple[int, ...]:
        """Return some axes of `x`, perhaps none or all."""
        return tuple(a for a in range(x.ndim) if self.integer(0, 1))

    def like(self, x: Tensor) -> Tensor:
        """Return a tensor that broadcasts with `x`."""
        same = [t for t in self.tensors if t.shape in (x.shape, x.shape[1:], ())]
        if same and self.integer(0, 3):
            return same[self.integer(0, len(same) - 1)]
        return constant(self.array(x.type.static_shape[self.integer(0, x.ndim) :]))

    def indices(self, size: int) -> Tensor:
        """Return positions in an axis of `size`, as a constant or computed from the pool."""
        if self.integer(0, 1):
            shape = self.shape(self.integer(0, 2))
            return constant(self.rng.integers(-size, size, shape))
        computed = conversion.astype(self.any(), "int64")
        return arithmetic.remainder(computed, constant(np.int64(size)))


Recipe = Callable[[Pool], Tensor]


@dataclass(frozen=True, slots=True)
class Row:
    """A way to grow a graph. `is_smooth`: rounding of the operands moves the result but little."""

    name: str
    recipe: Recipe
    is_float_only: bool
    is_smooth: bool


def _matmul(pool: Pool) -> Tensor:
    x = pool.any(1)
    size = x.type.static_shape[-1]
    y = constant(pool.array((size, pool.integer(1, 3))))
    if x.ndim == 2 and x.shape[0] == size and pool.integer(0, 1):
        y = x
    return contraction.matmul(x, y)


def _tensordot(pool: Pool) -> Tensor:
    x = pool.any(1)
    axes = tuple(range(pool.integer(0, x.ndim)))
    return contraction.tensordot(x, pool.array(x.type.static_shape), axes=(axes, axes))


def _reshape(pool: Pool) -> Tensor:
    x = pool.any()
    if x.ndim and pool.integer(0, 1):
        return structure.reshape(x, (1, -1))
    return structure.reshape(x, (-1, *x.shape[1:]))


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
    widths = [(pool.integer(0, 1), pool.integer(0, 1)) for _ in x.shape]
    return slicing.pad(x, widths, constant_values=1)


def _concat(pool: Pool) -> Tensor:
    x = pool.any(1)
    others = [t for t in pool.tensors if t.shape == x.shape][:2]
    return slicing.concat([x, *others], axis=pool.axis(x))


def _take(pool: Pool) -> Tensor:
    x = pool.any(1)
    axis = pool.axis(x)
    return indexing.take(x, pool.indices(x.type.static_shape[axis]), axis=axis)


def _scatter_add(pool: Pool) -> Tensor:
    x = pool.any(1)
    indices = pool.indices(x.type.static_shape[0])
    shape = (*indices.shape, *x.shape[1:])
    return indexing.scatter_add(x, indices, structure.broadcast_to(pool.array(()), shape))


def _scatter_set(pool: Pool) -> Tensor:
    x = pool.any(1)
    indices = pool.indices(x.type.static_shape[0])
    shape = (*indices.shape, *x.shape[1:])
    # Updates that meet differ from each other.
    updates = structure.broadcast_to(pool.array(()), shape)
    if indices.ndim and updates.type.count:
        order = gathering.iota(shape, 0)
        updates = arithmetic.add(updates, conversion.astype(order, updates.dtype))
    return gathering.set_rows(x, updates, [indices], 0)


def _argmax(pool: Pool) -> Tensor:
    x = pool.any(1)
    return conversion.astype(reduction.argmax(x, axis=pool.axis(x)), pool.dtype)


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
    _number("maximum", _binary(arithmetic.maximum)),
    _number("minimum", _binary(arithmetic.minimum)),
    _number("abs", _unary(_absolute)),
    _number("square", _unary(arithmetic.square)),
    _number("sign", _unary(arithmetic.sign), is_smooth=False),
    _number("floor_divide", _unary(lambda x: arithmetic.floor_divide(x, 3)), is_smooth=False),
    _number("remainder", _unary(lambda x: arithmetic.remainder(x, 3)), is_smooth=False),
    _number("clip", _unary(lambda x: arithmetic.clip(x, 0, 2))),
    _number("where", _where),
    _number("argmax", _argmax, is_smooth=False),
    _number("sum", _reduce(reduction.sum)),
    _number("prod", _reduce(reduction.prod)),
    _number("max", _reduce(reduction.max)),
    _number("min", _reduce(reduction.min)),
    _number("any", _reduce(reduction.any), is_smooth=False),
    _number("all", _reduce(reduction.all), is_smooth=False),
    _number("matmul", _matmul),
    _number("tensordot", _tensordot),
    _number("reshape", _reshape),
    _number("transpose", _unary(views.reverse_axes)),
    _number("broadcast_to", _broadcast),
    _number("slice", _slice),
    _number("strided_slice", _strided_slice),
    _number("flip", _unary(slicing.flip)),
    _number("pad", _pad),
    _number("concat", _concat),
    _number("roll", _unary(lambda x: views.roll(x, 1))),
    _number("repeat", _unary(lambda x: views.repeat(x, 2))),
    # Positions computed from floats jump where the floats are rounded otherwise.
    _number("take", _take, is_smooth=False),
    _number("scatter_add", _scatter_add, is_smooth=False),
    _number("scatter_set", _scatter_set, is_smooth=False),
    _float("divide", _binary(lambda x, y: arithmetic.divide(x, 1 + _absolute(y)))),
    _float("mean", _reduce(reduction.mean)),
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
    _float("pow", _binary(lambda x, y: transcendental.pow(1 + _absolute(_tanh(x)), _tanh(y)))),
    _float("floor", _unary(arithmetic.floor), is_smooth=False),
    _float("ceil", _unary(arithmetic.ceil), is_smooth=False),
    _float("round", _unary(arithmetic.round), is_smooth=False),
)


def _branch(pool: Pool, index: Tensor, count: int) -> Tensor:
    x = pool.any()
    functions = [Traced(f"branch_{i}", ()) for i in range(count)]
    for function in functions:
        function.run(lambda: [_grown_inside(pool, x)])
    return branches.branch(index, functions).output


def _switch_case(pool: Pool) -> Tensor:
    count = pool.integer(1, 3)
    return _branch(pool, constant(np.int64(pool.integer(-1, count))), count)


def _cond(pool: Pool) -> Tensor:
    is_chosen = comparison.less(reduction.max(pool.any()), reduction.max(pool.any()))
    return _branch(pool, conversion.astype(is_chosen, "int64"), 2)


def _while_loop(pool: Pool) -> Tensor:
    start, trips = (constant(np.int64(n)) for n in (0, pool.integer(0, MAX_TRIPS)))
    x = pool.any()
    condition, body = (Traced(name, [start.type, x.type]) for name in ("condition", "body"))
    condition.run(lambda i, _: [comparison.less(i, trips)])
    body.run(lambda i, v: [arithmetic.add(i, 1), _grown_inside(pool, v)])
    return while_loop.loop([start, x], condition, body, MAX_TRIPS).outputs[2]


def _scan(pool: Pool) -> Tensor:
    scanned = pool.any(1)
    size, *item = scanned.type.static_shape
    first, trips = constant(pool.array(tuple(item))), constant(np.int64(pool.integer(0, size)))
    body = Traced("body", [first.type, first.type])
    body.run(lambda v, x: [_grown_inside(pool, v, x), _bounded(arithmetic.add(v, x))])
    reverse, result = bool(pool.integer(0, 1)), pool.integer(0, 1)
    return scan.scan_loop(trips, [first], [scanned], body, size, reverse=reverse).outputs[result]


def _grown_inside(pool: Pool, x: Tensor, *others: Tensor) -> Tensor:
    """Return a tensor like `x`, grown in the region that is open from it and from around."""
    inner = Pool(pool.rng, pool.dtype, pool.depth + 1)
    inner.tensors += [*pool.tensors[-2:], *others, x]
    _grow(inner, pool.integer(1, 3), _rows(pool.dtype, smooth=True, control=True))
    reduce = reduction.mean if pool.dtype.is_float else reduction.max
    return _bounded(arithmetic.add(x, reduce(inner.tensors[-1])))


# Not in the table of ops: not all who draw from that can run these.
CONTROL = (
    _number("switch_case", _switch_case),
    _number("cond", _cond, is_smooth=False),
    _number("while_loop", _while_loop),
    _number("scan", _scan),
)


def _rows(dtype: DType, *, smooth: bool, control: bool) -> list[Row]:
    rows = [*TABLE, *(CONTROL * 10 if control else ())]  # or few graphs would have any
    rows = [r for r in rows if dtype.is_float or not r.is_float_only]
    return [r for r in rows if r.is_smooth or not smooth]


def _grow(pool: Pool, size: int, rows: list[Row]) -> None:
    if pool.depth >= MAX_DEPTH:
        rows = [r for r in rows if r not in CONTROL]
    for _ in range(size):
        row = rows[pool.integer(0, len(rows) - 1)]
        pool.tensors.append(_bounded(row.recipe(pool)))


def random_graph(
    rng: np.random.Generator,
    *,
    dtype: DType = dtypes.float32,
    size: int = 10,
    smooth: bool = False,
    control: bool = False,
) -> tuple[Graph, list[Array]]:
    """Return a graph of about `size` user-level ops on numbers of `dtype`, and inputs for it.

    With `smooth`, only ops whose results rounding of the operands moves but little: what two ways
    of computing must agree on. With `control`, branches and loops too.
    """
    assert not dtype.is_bool, "the table is of ops on numbers"
    pool = Pool(rng, dtype)
    arrays = [pool.array(pool.shape()) for _ in range(pool.integer(1, 3))]
    inputs = [placeholder(a.shape, dtype, pool.name()) for a in arrays]
    state = State(pool.array(pool.shape()), name="w", trainable=True)
    variable = variable_node(state, pool.name())
    pool.tensors += [*inputs, variable]
    _grow(pool, size, _rows(dtype, smooth=smooth, control=control))
    outputs = [pool.any() for _ in range(pool.integer(1, 3))] + pool.tensors[-1:]
    fitting = [t for t in pool.tensors if t.shape == variable.shape]
    updates = [Update(variable, fitting[-1])] if pool.integer(0, 1) else []
    return Graph(outputs, inputs, updates, name="random"), arrays


def _bounded(x: Tensor) -> Tensor:
    """Return `x` made small again: in number of elements, and in values."""
    if x.type.count > MAX_ELEMENTS:
        x = reduction.max(x, axis=0)
    if x.dtype.is_float:
        return transcendental.sin(x)  # which moves no more than x does
    return x if x.dtype.kind == "unsigned" else arithmetic.remainder(x, 7)


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
