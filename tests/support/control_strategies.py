"""Rows that give a random graph branches, loops, functions, tensor arrays, and views around them.

What goes into a nested graph and what comes out of it is seen through a random view or reshape:
then the operand or result of an op with graphs of its own lies in memory that belongs to a tensor
of another shape. The graphs inside grow by the same rows as the graph around.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import symgrad as sg
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.node import Tensor
from symgrad.graph.ops.extern import extern_node
from symgrad.graph.types import Attr
from tests.support.pool import Pool, Recipe, Row, bounded

MAX_TRIPS = 4  # of each loop

Shape = tuple[int, ...]


# --------------------------------------------------------------------------------------- views


def reshaped(pool: Pool, shape: Shape) -> Shape:
    """Return another shape of as many elements."""
    sizes: list[int] = []
    left = math.prod(shape)
    while left > 1 and len(sizes) < 3:
        fitting = [n for n in range(1, left + 1) if left % n == 0]
        sizes.append(fitting[pool.integer(0, len(fitting) - 1)])
        left //= sizes[-1]
    return (*sizes, left) if left != 1 or pool.chance() else tuple(sizes)


def _reshape(pool: Pool, x: Tensor) -> Tensor:
    return sg.reshape(x, reshaped(pool, x.type.static_shape))


def _of_a_batch(_pool: Pool, x: Tensor) -> Tensor:
    return sg.reshape(x, (1, *x.shape))[0]


def _permuted(pool: Pool, x: Tensor) -> Tensor:
    return sg.permute_dims(x, tuple(int(a) for a in pool.rng.permutation(x.ndim)))


def _flipped(pool: Pool, x: Tensor) -> Tensor:
    return sg.flip(x, axis=pool.axis(x)) if x.ndim else x


def _strided(pool: Pool, x: Tensor) -> Tensor:
    return x[:: pool.integer(1, 2)] if x.ndim else x


def _tail(pool: Pool, x: Tensor) -> Tensor:
    return x[pool.integer(0, x.type.static_shape[0] - 1) :] if x.ndim else x


def _stretched(pool: Pool, x: Tensor) -> Tensor:
    return sg.broadcast_to(x, (pool.integer(1, 2), *x.shape)) if x.ndim < 3 else x


def _with_an_axis(_pool: Pool, x: Tensor) -> Tensor:
    return sg.expand_dims(x, axis=0) if x.ndim < 3 else x


# A reshape costs no code and so is what hides in other memory: it is the most frequent.
_VIEWS: tuple[Callable[[Pool, Tensor], Tensor], ...] = (
    _reshape, _reshape, _reshape, _of_a_batch, _with_an_axis,
    _permuted, _flipped, _strided, _tail, _stretched, lambda _pool, x: x,
)  # fmt: skip


def seen(pool: Pool, x: Tensor, min_ndim: int = 0) -> Tensor:
    """Return `x` through a random view, of at least `min_ndim` axes."""
    y = _VIEWS[pool.integer(0, len(_VIEWS) - 1)](pool, x)
    return y if y.ndim >= min_ndim else sg.reshape(y, (-1,))


def seen_as(pool: Pool, x: Tensor, shape: Shape) -> Tensor:
    """Return `x` in another shape of as many elements, by way of one more view."""
    way = pool.integer(0, 2)
    if way == 0 and x.ndim:
        x = sg.flip(x, axis=0)
    if way == 1:
        x = _reshape(pool, x).T if x.ndim <= 2 else x
    return sg.reshape(x, shape)


# -------------------------------------------------------------------------------- nested graphs


def grown_inside(pool: Pool, x: Tensor, *others: Tensor) -> Tensor:
    """Return a tensor like `x`, grown in the region that is open from it and from around."""
    inner = pool.inside(*others, x)
    inner.grow(pool.integer(1, 2))
    reduce = sg.mean if pool.dtype.is_trainable else sg.max
    return bounded(x + reduce(inner.tensors[-1]))


def _branch_functions(pool: Pool, count: int) -> list[Callable[[], Tensor]]:
    x = seen(pool, pool.any())
    shape = reshaped(pool, x.type.static_shape)
    return [lambda: seen_as(pool, grown_inside(pool, x), shape) for _ in range(count)]


def _switch_case(pool: Pool) -> Tensor:
    functions = _branch_functions(pool, pool.integer(1, 3))
    index = sg.constant(pool.integer(-1, len(functions)), "int64")
    return seen(pool, sg.switch_case(index, functions))


def _cond(pool: Pool) -> Tensor:
    is_chosen = sg.max(pool.any()) < sg.max(pool.any())
    first, second = _branch_functions(pool, 2)
    return seen(pool, sg.cond(is_chosen, first, second))


def _while_loop(pool: Pool) -> Tensor:
    """Run a loop with a bound, without one (its gradient reads a tape), or with checkpoints."""
    trips = sg.constant(pool.integer(0, MAX_TRIPS), "int64")
    kinds: list[dict[str, Any]] = [
        {"maximum_iterations": MAX_TRIPS}, {}, {"maximum_iterations": MAX_TRIPS, "checkpoint": 2},
        {"checkpoint": 2},
    ]  # fmt: skip
    x = seen(pool, pool.any())
    shape = x.type.static_shape
    _, y = sg.while_loop(
        lambda i, _: i < trips,
        lambda i, v: (i + 1, seen_as(pool, grown_inside(pool, v), shape)),
        (sg.constant(0, "int64"), x),
        **kinds[pool.integer(0, len(kinds) - 1)],
    )
    return seen(pool, y)


def _fori_loop(pool: Pool) -> Tensor:
    x = seen(pool, pool.any())
    shape = x.type.static_shape
    trips = pool.integer(0, MAX_TRIPS)
    y = sg.fori_loop(0, trips, lambda _i, v: seen_as(pool, grown_inside(pool, v), shape), x)
    return seen(pool, y)


def _few_rows(xs: Tensor) -> Tensor:
    return xs[: 2 * MAX_TRIPS]


def _scan(pool: Pool) -> Tensor:
    xs = _few_rows(seen(pool, pool.any(1), min_ndim=1))
    shape = reshaped(pool, xs.type.static_shape[1:])
    after = reshaped(pool, shape)

    def body(carry: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        grown = grown_inside(pool, carry, x)
        return grown, bounded(seen_as(pool, grown, after) + seen_as(pool, x, after))

    first = seen_as(pool, sg.constant(pool.array(shape)), shape)
    last, ys = sg.scan(body, first, xs, reverse=pool.chance())
    return seen(pool, ys if pool.chance() else last)


def _map(pool: Pool) -> Tensor:
    xs = _few_rows(seen(pool, pool.any(1), min_ndim=1))
    shape = reshaped(pool, xs.type.static_shape[1:])
    return seen(pool, sg.map(lambda x: seen_as(pool, grown_inside(pool, x), shape), xs))


def _map_of_nothing(pool: Pool) -> Tensor:
    """Return the sum of no slices: 0, whatever the function is."""
    xs = seen(pool, pool.any(1), min_ndim=1)
    ys = sg.map(lambda x: seen(pool, bounded(x * 2)), xs[:0])
    return sg.astype(sg.sum(ys), pool.dtype)


def _function(pool: Pool) -> Tensor:
    """Call one function twice, on what is seen through different views."""
    first = seen(pool, pool.any())
    shape = first.type.static_shape

    def body(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        grown = grown_inside(pool, x, y)
        return grown, seen_as(pool, bounded(grown + y), reshaped(pool, shape))

    traced = sg.function(body)
    second = seen_as(pool, first, shape)
    a, _ = traced(first, second)
    b, c = traced(a, seen_as(pool, a, shape))
    return seen(pool, c if pool.chance() else b)


def _tensor_array(pool: Pool) -> Tensor:
    """Write slots of an array in a loop, read some, and stack it."""
    rows = _few_rows(seen(pool, pool.any(1), min_ndim=1))
    size, *shape = rows.type.static_shape
    array = sg.TensorArray(size, tuple(shape), pool.dtype).unstack(rows)
    start = array.read(pool.integer(0, size - 1))

    def body(i: Tensor, carried: tuple[Any, Tensor]) -> tuple[Any, Tensor]:
        slots, v = carried
        after = seen_as(pool, grown_inside(pool, v), tuple(shape))
        return slots.write(i, after), bounded(slots.read(size - 1 - i) + after)

    slots, last = sg.fori_loop(0, pool.integer(0, size), body, (array, start))
    return seen(pool, slots.stack() if pool.chance() else last)


# ----------------------------------------------------------------------------- functions of C


def copied(x: Tensor, *, way: int, is_pure: bool) -> Tensor:
    """Return `x` as a function of the C library copies it, which every process has.

    It returns where it copied to, which says nothing; so the status is one more argument.
    """
    passed: list[tuple[Attr, ...]] = [
        ("out", 0),
        ("in", 0),
        ("int64", x.size * x.dtype.itemsize),
        ("status*",),
    ]
    workspace = 0
    filled: list[tuple[int, int]] = []
    if way == 1:  # what is there already, onto itself
        passed[1], filled = ("out", 0), [(0, 0)]
    if way == 2:  # nothing of what it copies from
        passed[1], passed[2], filled = ("workspace", 8), ("int64", 0), [(0, 0)]
        workspace = 16
    node = extern_node(
        ForeignFunction("memmove"), [x], [x.type],
        layout=passed, workspace=workspace, copied=filled, is_pure=is_pure,
    )  # fmt: skip
    return node.output


def copied_through(x: Tensor, *, way: int, is_pure: bool) -> Tensor:
    """Return `x` as `copied` does, with the gradient that this has."""

    def call(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return copied(x, way=way, is_pure=is_pure), sg.custom_gradient(call)

    found: Tensor = sg.custom_gradient(call)(x)
    return found


def _extern(pool: Pool) -> Tensor:
    """Call a function of C on what is seen through a view; its gradient is such a call too."""
    way, is_pure = pool.integer(0, 2), pool.chance()
    return seen(pool, copied_through(seen(pool, pool.any()), way=way, is_pure=is_pure))


def _nested(name: str, recipe: Recipe, *, is_smooth: bool = True) -> Row:
    return Row(name, recipe, is_float_only=False, is_smooth=is_smooth, is_nested=True)


# Not in the table of ops: not all who draw from that can run these.
CONTROL: Sequence[Row] = (
    _nested("switch_case", _switch_case),
    _nested("cond", _cond, is_smooth=False),
    _nested("while_loop", _while_loop),
    _nested("fori_loop", _fori_loop),
    _nested("scan", _scan),
    _nested("map", _map),
    _nested("map_of_nothing", _map_of_nothing),
    _nested("function", _function),
    _nested("tensor_array", _tensor_array),
    Row("extern", _extern, is_float_only=False, is_smooth=True),
)
