"""Op structures, the lowering classes: all that code generation knows about any op.

A spec is data or a function over scalar expressions; it names no op and no backend. Indices are
affine maps between the axes of the operands and of the result:

    Map        result[i] = body(operands[i])
    Iota       result[i] = i[axis]
    View       result[i] = operand[affine(i)]
    Reshape    result[i] = operand at the same position in row-major order
    Place      result = fill;  result[affine_p(j)] = operand_p[j]   for each operand p, or +=
    Reduce     result[i] = combine over j of item(operand[i, j])
    PrefixScan result[i, j] = combine over k <= j of item(operands[i, k])
    Contract   result[o] = sum over the labels not in o of lhs[affine(l)] * rhs[r]
    ColumnMap  result[i, :, j] = body(operands[:, i, j])
    Gather     result[a, j, b] = operand[a, indices...[j], b]
    Scatter    result = base;  result[a, indices...[j], b] combined with updates[a, j, b]
    Sort       result[a, i, b] = operand[a, order[a, i, b], b], or that order
    Search     result[i, j] = the number of elements of rows[i] that stand before queries[i, j]
    Extern     results = what a function of C writes, given the operands

Every structure has one lowering. Shapes are static when a spec is made. What passes ask of a
structure are its `Traits`: they list no classes, so that a new member of `KernelSpec` is known to
all of them by what it declares, and the type checker names the few matches that must learn it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, assert_never

from symgrad.graph.axis_maps import AxisMap as AxisMap
from symgrad.graph.axis_maps import Windows as Windows
from symgrad.graph.dtypes import DType
from symgrad.graph.foreign_functions import ForeignFunction, Layout
from symgrad.graph.scalars import Scalars
from symgrad.graph.traits import LEAF
from symgrad.graph.traits import Traits as Traits
from symgrad.graph.types import NestedGraph
from symgrad.records import dataclass

# The type of a scalar expression is for each implementation of `Scalars` to choose.
ScalarExpr = Any
Body = Callable[..., ScalarExpr]
Number = bool | int | float


@dataclass(frozen=True, slots=True)
class Map:
    """`body(s, *elements)` gives the element of the result from those of the operands."""

    traits: ClassVar = Traits(
        home="users", reads="own", operands="values", writes="once", is_free=False
    )

    body: Body


@dataclass(frozen=True, slots=True)
class Iota:
    """The index along `axis`."""

    traits: ClassVar = Traits(
        home="users", reads="none", operands="values", writes="once", is_free=True
    )

    axis: int


@dataclass(frozen=True, slots=True)
class View:
    """One map for each axis of the operand, in the axes of the result."""

    traits: ClassVar = Traits(
        home="users", reads="one", operands="values", writes="once", is_free=True
    )

    index: tuple[AxisMap, ...]


@dataclass(frozen=True, slots=True)
class Reshape:
    """Same elements in row-major order, another shape."""

    traits: ClassVar = Traits(
        home="operand", reads="own", operands="values", writes="once", is_free=True
    )


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One map for each axis of the result, in the axes of the operand, for each operand.

    The maps are injective and no two operands meet. `fill` is the value elsewhere, None if the
    operands cover the result. With `adds` elements may meet, and are added to `fill` in an order
    that the shapes alone decide; two that meet then differ in the last axes of their operand, those
    that are second in a map, and the operand has another axis before these.
    """

    traits: ClassVar = Traits(
        home="kernel", reads="many", operands="values", writes="pieces", is_free=False
    )

    operands: tuple[tuple[AxisMap, ...], ...]
    fill: Number | None
    adds: bool = False


Accumulators = tuple[ScalarExpr, ...]


@dataclass(frozen=True, slots=True)
class Reduce:
    """Fold the operand over `axes` with one or more accumulators.

    `item(s, x, position)` gives what one element contributes, where `position` is its row-major
    index within the reduced axes (an int64); `combine(s, a, b)` is associative and commutative up
    to rounding; `identity` and `dtypes` describe the accumulators; the result is
    `finish(s, accumulators)`, in the dtype of the result.
    """

    traits: ClassVar = Traits(
        home="kernel", reads="many", operands="values", writes="once", is_free=False
    )

    axes: tuple[int, ...]
    dtypes: tuple[DType, ...]
    identity: tuple[Number, ...]
    item: Callable[[Scalars[ScalarExpr], ScalarExpr, ScalarExpr], Accumulators]
    combine: Callable[[Scalars[ScalarExpr], Accumulators, Accumulators], Accumulators]
    finish: Callable[[Scalars[ScalarExpr], Accumulators], ScalarExpr]


@dataclass(frozen=True, slots=True)
class PrefixScan:
    """Fold the elements up to each along `axis`, from its end with `reverse`.

    The operands and the result have one shape. `item(s, *elements)` gives what the elements at a
    place contribute; `combine(s, a, b)`, of what comes first and what comes after it, is
    associative up to rounding; `identity` and `dtypes` describe the accumulators. The result is
    `finish(s, accumulators, *elements)` of all up to the place, which `exclusive` leaves out.
    `in_order` says that no order but one element after another will do.
    """

    traits: ClassVar = Traits(
        home="kernel", reads="many", operands="values", writes="once", is_free=False
    )

    axis: int
    reverse: bool
    exclusive: bool
    dtypes: tuple[DType, ...]
    identity: tuple[Number, ...]
    item: Callable[..., Accumulators]
    combine: Callable[[Scalars[ScalarExpr], Accumulators, Accumulators], Accumulators]
    finish: Callable[..., ScalarExpr]
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class Contract:
    """A product of two operands summed over the labels the result does not have.

    Labels are characters, one an axis, without repeats in an operand; every label of an operand is
    in the other operand or in the result. Sums are taken in `accumulate`. With `windows` the labels
    of the left operand are the axes of these, and so a convolution is a product.
    """

    traits: ClassVar = Traits(
        home="kernel", reads="many", operands="all", writes="once", is_free=False
    )

    lhs: str
    rhs: str
    out: str
    accumulate: DType
    windows: Windows | None = None

    def sizes(self, lhs: tuple[int, ...], rhs: tuple[int, ...]) -> dict[str, int]:
        """Return the size of each label, for operands of these shapes."""
        shape = lhs if self.windows is None else self.windows.shape
        return {
            **dict(zip(self.lhs, shape, strict=True)),
            **dict(zip(self.rhs, rhs, strict=True)),
        }


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """`body(s, *columns)` gives the column of the result from those of the operands.

    A column of an operand is all elements along axis 0; that of the result runs through `axes`, in
    row-major order, and the other axes are those of the operands. It is an algorithm on a small
    matrix, written out, of about `flops` flops: a lane has one matrix.
    """

    traits: ClassVar = Traits(
        home="kernel", reads="many", operands="values", writes="pieces", is_free=False
    )

    body: Callable[..., Sequence[ScalarExpr]]
    flops: int
    axes: tuple[int, ...] = (0,)

    def around(self, shape: Sequence[int]) -> list[int]:
        """Return the axes of a result of `shape` that count columns."""
        return [axis for axis in range(len(shape)) if axis not in self.axes]


# Of an index that is data "wrap" counts a negative one from the end and "strict" does not, and then
# one outside stops the program; "clamp" takes the nearest inside, and a "known" one is inside.
Bound = Literal["wrap", "strict", "clamp", "known"]
CHECKED: frozenset[Bound] = frozenset(("wrap", "strict"))


@dataclass(frozen=True, slots=True)
class Gather:
    """Operands: x, then `count` index tensors of one shape, for axes `axis, axis+1, ...` of x.

    With a `window`, one size for each of these axes, an index is where a block of that size begins,
    and the axes of the block follow those of the index tensors.
    """

    traits: ClassVar = Traits(
        home="users", reads="many", operands="first", writes="once", is_free=False
    )

    axis: int
    count: int
    window: tuple[int, ...] | None = None
    bound: Bound = "wrap"


@dataclass(frozen=True, slots=True)
class Scatter:
    """Operands: base, updates, then `count` index tensors; they say where, as in a `Gather`.

    `combine(s, old, update)` gives the new element, None that it is the update. Updates that meet
    are combined one after another, in row-major order: without `combine` the last one stays.
    """

    traits: ClassVar = Traits(
        home="kernel", reads="many", operands="values", writes="rows", is_free=False
    )

    axis: int
    count: int
    combine: Callable[[Scalars[ScalarExpr], ScalarExpr, ScalarExpr], ScalarExpr] | None
    window: tuple[int, ...] | None = None
    bound: Bound = "wrap"


# What reads or writes at indices that are data.
AtIndices = Gather | Scatter


@dataclass(frozen=True, slots=True)
class Sort:
    """The rows along `axis` in order, or their first `count`: the values, or their positions.

    The sort is stable, also if it is descending: of equal elements the first comes first. The two
    zeros of a float are equal, and nan comes after every number in either direction.
    """

    traits: ClassVar = Traits(
        home="kernel", reads="many", operands="all", writes="pieces", is_free=False
    )

    axis: int
    count: int
    gives: Literal["values", "positions"]
    descending: bool


@dataclass(frozen=True, slots=True)
class Search:
    """Operands: rows, sorted along their last axis, and queries with the same axes but the last.

    An element is the number of elements of its row that are less than the query or, on the right
    `side`, no greater; nan is greater than every number.
    """

    traits: ClassVar = Traits(
        home="users", reads="many", operands="first", writes="once", is_free=False
    )

    side: Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Switch:
    """Operands: an int64 index, then those of the branches; one branch runs, the last if none fits.

    Every branch is a graph from those operands to the results.
    """

    traits: ClassVar = Traits(
        home="program", reads="many", operands="whole", writes="once", is_free=False
    )

    graphs: tuple[NestedGraph, ...]


@dataclass(frozen=True, slots=True)
class While:
    """Operands: `carried` loop variables, then invariants. While `condition` holds, `body` runs.

    `condition` and `body` are graphs over both. The body gives the next loop variables and then
    what is stacked: of each iteration one slice. Results are the number of iterations, an int64,
    the last loop variables and the stacks, of `capacity` slices; slices of no iteration are 0.
    """

    traits: ClassVar = Traits(
        home="program", reads="many", operands="whole", writes="once", is_free=False
    )

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

    traits: ClassVar = Traits(
        home="program", reads="many", operands="whole", writes="once", is_free=False
    )

    body: NestedGraph
    carried: int
    scanned: int
    capacity: int
    reverse: bool


@dataclass(frozen=True, slots=True)
class Call:
    """Operands: those of `graph`, whose results are the results. All calls of it share its code."""

    traits: ClassVar = Traits(
        home="program", reads="many", operands="whole", writes="once", is_free=False
    )

    graph: NestedGraph


@dataclass(frozen=True, slots=True)
class Extern:
    """A call of `function`, with the arguments that `layout` lists and `workspace` bytes of memory.

    Operands and results are contiguous, in row-major order, and none overlaps another. `copied` are
    pairs of a result and of the operand that it holds before, in whose place it may be. A status
    other than 0 stops the program. With `is_ordered` the last operand and result are empty tokens.
    """

    traits: ClassVar = Traits(
        home="program", reads="many", operands="whole", writes="pieces", is_free=False
    )

    function: ForeignFunction
    layout: Layout
    workspace: int
    copied: tuple[tuple[int, int], ...] = ()
    is_ordered: bool = False


Nested = Switch | While | Scan | Call
Folding = Reduce | PrefixScan
Ordered = Sort | Search
OneByOne = Contract | PrefixScan  # where others look elements up in vectors
Looping = Folding | Contract | ColumnMap | AtIndices | Ordered
KernelSpec = Map | Iota | View | Reshape | Place | Looping | Extern | Nested


def traits_of(spec: KernelSpec | None) -> Traits:
    """Return the traits of a structure, or of a leaf, which has none."""
    return LEAF if spec is None else spec.traits


def checked_axes(spec: KernelSpec | None) -> range:
    """Return the axes of the first operand of which the last ones are indices that are checked."""
    match spec:
        case None | Map() | Iota() | View() | Reshape() | Place():
            return range(0)
        case Reduce() | PrefixScan() | Contract() | ColumnMap():
            return range(0)
        case Gather(axis, count) | Scatter(axis, count):
            return range(axis, axis + count) if spec.bound in CHECKED else range(0)
        case Sort() | Search() | Extern() | Switch() | While() | Scan() | Call():
            return range(0)
        case _:
            assert_never(spec)
