"""Op structures, the lowering classes: all that code generation knows about any op.

A spec is data or a function over scalar expressions; it names no op and no backend. Indices are
affine maps between the axes of the operands and of the result:

    Map        result[i] = body(operands[i])
    Iota       result[i] = i[axis]
    View       result[i] = operand[affine(i)]
    Reshape    result[i] = operand at the same position in row-major order
    Place      result = fill;  result[affine_p(j)] = operand_p[j]   for each operand p
    Reduce     result[i] = combine over j of item(operand[i, j])
    Contract   result[o] = sum over the labels not in o of lhs[l] * rhs[r]
    Gather     result[a, j, b] = operand[a, indices...[j], b]
    ScatterAdd result = base;  result[a, indices...[j], b] += updates[a, j, b]
    ScatterSet result = base;  result[a, indices...[j], b] = updates[a, j, b]

Every structure has one lowering. Shapes are static when a spec is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from symgrad.graph.dtypes import DType
from symgrad.graph.scalars import Scalars
from symgrad.graph.types import NestedGraph

# The type of a scalar expression is for each implementation of `Scalars` to choose.
ScalarExpr = Any
Body = Callable[..., ScalarExpr]
Number = bool | int | float


@dataclass(frozen=True, slots=True)
class AxisMap:
    """`offset + sum(coefficient * index[axis])` over the axes of the other side."""

    offset: int = 0
    terms: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def axis(axis: int, coefficient: int = 1, offset: int = 0) -> AxisMap:
        return AxisMap(offset, ((axis, coefficient),))


@dataclass(frozen=True, slots=True)
class Map:
    """`body(s, *elements)` gives the element of the result from those of the operands."""

    body: Body


@dataclass(frozen=True, slots=True)
class Iota:
    """The index along `axis`."""

    axis: int


@dataclass(frozen=True, slots=True)
class View:
    """One map for each axis of the operand, in the axes of the result."""

    index: tuple[AxisMap, ...]


@dataclass(frozen=True, slots=True)
class Reshape:
    """Same elements in row-major order, another shape."""


@dataclass(frozen=True, slots=True)
class Place:
    """One map for each axis of the result, in the axes of the operand, for each operand.

    The maps are injective and no two operands meet. `fill` is the value elsewhere, None if the
    operands cover the result.
    """

    operands: tuple[tuple[AxisMap, ...], ...]
    fill: Number | None


Accumulators = tuple[ScalarExpr, ...]


@dataclass(frozen=True, slots=True)
class Reduce:
    """Fold the operand over `axes` with one or more accumulators.

    `item(s, x, position)` gives what one element contributes, where `position` is its row-major
    index within the reduced axes (an int64); `combine(s, a, b)` is associative and commutative up
    to rounding; `identity` and `dtypes` describe the accumulators; the result is
    `finish(s, accumulators)`, in the dtype of the result.
    """

    axes: tuple[int, ...]
    dtypes: tuple[DType, ...]
    identity: tuple[Number, ...]
    item: Callable[[Scalars[ScalarExpr], ScalarExpr, ScalarExpr], Accumulators]
    combine: Callable[[Scalars[ScalarExpr], Accumulators, Accumulators], Accumulators]
    finish: Callable[[Scalars[ScalarExpr], Accumulators], ScalarExpr]


@dataclass(frozen=True, slots=True)
class Contract:
    """A product of two operands summed over the labels the result does not have.

    Labels are characters, one an axis, without repeats in an operand; every label of an operand is
    in the other operand or in the result. Sums are taken in `accumulate`.
    """

    lhs: str
    rhs: str
    out: str
    accumulate: DType


@dataclass(frozen=True, slots=True)
class Gather:
    """Operands: x, then `count` index tensors of one shape, for axes `axis, axis+1, ...` of x."""

    axis: int
    count: int


@dataclass(frozen=True, slots=True)
class ScatterAdd:
    """Operands: base, updates, then `count` index tensors; rows that meet are added in order."""

    axis: int
    count: int


@dataclass(frozen=True, slots=True)
class ScatterSet:
    """Operands: base, updates, then `count` index tensors; of rows that meet the last one stays."""

    axis: int
    count: int


@dataclass(frozen=True, slots=True)
class Switch:
    """Operands: an int64 index, then those of the branches; one branch runs, the last if none fits.

    Every branch is a graph from those operands to the results.
    """

    graphs: tuple[NestedGraph, ...]


@dataclass(frozen=True, slots=True)
class While:
    """Operands: `carried` loop variables, then invariants. While `condition` holds, `body` runs.

    `condition` and `body` are graphs over both. The body gives the next loop variables and then
    what is stacked: of each iteration one slice. Results are the number of iterations, an int64,
    the last loop variables and the stacks, of `capacity` slices; slices of no iteration are 0.
    """

    condition: NestedGraph
    body: NestedGraph
    carried: int
    capacity: int


@dataclass(frozen=True, slots=True)
class Scan:
    """Operands: a number of iterations, `carried` loop variables, `scanned` stacks, invariants.

    The body is a graph over the loop variables, one slice of each stack, and the invariants; it
    gives the next loop variables and what is stacked. Iteration i reads and writes the slice i,
    with `reverse` the slice of the last iteration first. Results are the last loop variables and
    the stacks, of `capacity` slices; slices of no iteration are 0.
    """

    body: NestedGraph
    carried: int
    scanned: int
    capacity: int
    reverse: bool


@dataclass(frozen=True, slots=True)
class Call:
    """Operands: those of `graph`, whose results are the results. All calls of it share its code."""

    graph: NestedGraph


Nested = Switch | While | Scan | Call
Scatter = ScatterAdd | ScatterSet
KernelSpec = Map | Iota | View | Reshape | Place | Reduce | Contract | Gather | Scatter | Nested
