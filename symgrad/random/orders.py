"""Random orders: permutations, and choices from a finite population."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

from symgrad.errors import GraphError, ShapeError, user_source
from symgrad.frontend.creation import as_shape
from symgrad.graph.dtypes import int64
from symgrad.graph.given_arrays import without_axes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.graph.ops.arithmetic import add, negative
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.indexing import take
from symgrad.graph.ops.ordering import argsort
from symgrad.graph.ops.portable import portable_log
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.subscript import getitem
from symgrad.graph.sizes import Dim, Size
from symgrad.graph.types import Shape
from symgrad.random.discrete import categorical_samples
from symgrad.random.distributions import below, unit_gumbel
from symgrad.random.parameters import numbers
from symgrad.random.streams import Stream

_MAX_POPULATION = 2**32  # what one draw can choose from
StreamOf = Callable[[str, Shape], Stream]  # of a draw, by its name and shape


def shuffled(op: str, stream_of: StreamOf, x: Any) -> Tensor:
    """Return `x`, or the integers below it, in a random order along axis 0."""
    x = without_axes(x)
    if isinstance(x, Integral | Size):
        (count,) = as_shape(op, x)
        return random_order(stream_of(op, (count,)), count)
    values = as_tensor(x)
    if not values.ndim:
        problem = f"x: {values.type} has no axis to permute"
        raise ShapeError(op, problem, hint="an int is a number of integers", source=user_source())
    count = values.shape[0]
    return take(values, random_order(stream_of(op, (count,)), count), axis=0)


def random_order(stream: Stream, count: Dim) -> Tensor:
    """Return the int64 positions that sort 64 random bits each, so all orders alike.

    Two of n elements have the same bits, and so a fixed order, with a chance of n**2 / 2**65.
    """
    return argsort(stream.words((count,))[0])


def chosen(op: str, stream_of: StreamOf, a: Any, shape: Shape, replace: bool, p: Any) -> Tensor:
    """Return elements of `a` along axis 0, or integers below it; see `Draws.choice`."""
    count, values = _population(op, a)
    weights = None if p is None else _weights(op, p, count)
    if replace:
        stream = stream_of(op, shape)
        if weights is None:
            positions = cast(below(stream.words(shape)[0], _span(op, count)), int64)
        else:
            positions = categorical_samples(stream, portable_log(weights), shape)
    else:
        positions = _without_replacement(op, stream_of, count, shape, weights)
    return positions if values is None else take(values, positions, axis=0)


def _population(op: str, a: Any) -> tuple[Dim, Tensor | None]:
    a = without_axes(a)
    if isinstance(a, Integral | Size):
        (count,) = as_shape(op, a)
        values = None
    else:
        values = as_tensor(a)
        if not values.ndim:
            raise ShapeError(
                op, f"a: {values.type} has no axis to choose from", source=user_source()
            )
        count = values.shape[0]
    if isinstance(count, int) and not 0 < count <= _MAX_POPULATION:
        problem = f"there are {count} to choose from, not 1 to 2**32"
        raise GraphError(op, problem, source=user_source())
    return count, values


def _span(op: str, count: Dim) -> int:
    if isinstance(count, int):
        return count
    problem = f"the number of elements, {count}, is not known"
    raise ShapeError(op, problem, hint="give p", source=user_source())


def _weights(op: str, p: Any, count: Dim) -> Tensor:
    weights = numbers(op, "p", p)
    if weights.ndim != 1 or (isinstance(count, int) and weights.shape[0] not in (count,)):
        problem = f"p: {weights.type} does not have one chance for each of {count}"
        raise ShapeError(op, problem, source=user_source())
    return stop_gradient(weights)


def _without_replacement(
    op: str, stream_of: StreamOf, count: Dim, shape: Shape, weights: Tensor | None
) -> Tensor:
    """Return the first of a random order; with chances, of one by Gumbel noise added to logits.

    That is the order in which they are drawn one after the other, each by its chance among those
    that are left (P. Yellott, "The relationship between Luce's choice axiom, Thurstone's theory
    of comparative judgment, and the double exponential distribution", 1977).
    """
    wanted = 1
    for size in shape:
        if not isinstance(size, int):
            raise ShapeError(op, f"size {size} is not known", source=user_source())
        wanted *= size
    if isinstance(count, int) and wanted > count:
        problem = f"{wanted} of {count} are not there without replacement"
        raise GraphError(op, problem, source=user_source())
    stream = stream_of(op, (count,))
    if weights is None:
        order = random_order(stream, count)
    else:
        noise = unit_gumbel(stream.words((count,))[0], weights.dtype)
        order = argsort(negative(add(portable_log(weights), noise)))
    return reshape(getitem(order, slice(0, wanted)), shape)
