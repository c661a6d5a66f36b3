"""Rules to propagate a sharding: where the result of an op lies, by its structure and operands.

A tensor is whole on every rank, cut along an axis into equal blocks of which each rank has one, or
a sum of which each rank has a term. No op is known by name, but for sums and differences, of which
terms are terms again. Nothing is rewritten here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import assert_never

from symgrad.errors import SymgradError
from symgrad.graph.axis_maps import AxisMap
from symgrad.graph.inference import infer_types
from symgrad.graph.node import Node
from symgrad.graph.structures import (
    Call,
    ColumnMap,
    Contract,
    Extern,
    Gather,
    Iota,
    KernelSpec,
    Map,
    Place,
    PrefixScan,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    Search,
    Sort,
    Switch,
    View,
    While,
)
from symgrad.graph.types import Attr, TensorType
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class Whole:
    """Every rank has all elements."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Every rank has an equal block along `axis`, by its number."""

    axis: int


@dataclass(frozen=True, slots=True)
class Summand:
    """Every rank has a tensor of the whole shape, and their sum is meant."""


Placement = Whole | Cut | Summand
Shape = tuple[int, ...]
WHOLE, TERM = Whole(), Summand()


@dataclass(frozen=True, slots=True)
class Flow:
    """How an op is computed: where it needs each operand, and where its result is then."""

    operands: tuple[Placement, ...]
    result: Placement


@dataclass(frozen=True, slots=True)
class Situation:
    """Where operands lie, and how large they are, with known sizes in the place of unknown ones.

    `is_linear` says that of terms the op gives a term.
    """

    placements: Sequence[Placement]
    shapes: Sequence[Shape]
    result: Shape
    ranks: int
    is_linear: bool

    def cut(self, position: int) -> int | None:
        """Return the axis along which an operand is cut."""
        placement = self.placements[position]
        return placement.axis if isinstance(placement, Cut) else None

    @property
    def largest(self) -> int | None:
        """Which operand is cut, the one with the most elements."""
        found = [i for i in range(len(self.placements)) if self.cut(i) is not None]
        return max(found, key=lambda i: (math.prod(self.shapes[i]), -i), default=None)


def propagate(spec: KernelSpec | None, given: Situation) -> Flow | None:
    """Return how an op of this structure is computed of parts; None if it needs whole operands."""
    flow = _flow(spec, given)
    if flow is not None and isinstance(flow.result, Cut):
        axis = flow.result.axis
        if given.result[axis] % given.ranks:
            return None
    return flow


def _flow(spec: KernelSpec | None, given: Situation) -> Flow | None:
    match spec:
        case Map():
            return _of_map(given)
        case View(index):
            return _of_view(index, given)
        case Reshape():
            return _of_reshape(given)
        case Reduce(axes):
            return _of_reduce(axes, given)
        case Contract():
            return _of_contract(spec, given)
        case Place(operands):
            return _of_place(operands, given)
        case Gather():
            return _of_gather(spec, given)
        case None | Iota() | PrefixScan() | ColumnMap() | Scatter() | Sort() | Search():
            return None
        case Extern() | Switch() | While() | Scan() | Call():
            return None
        case _:
            assert_never(spec)


def _of_map(given: Situation) -> Flow | None:
    """Let all operands be cut as the largest of those that are; a sum of terms is a term."""
    if given.is_linear and all(isinstance(p, Summand) for p in given.placements):
        return Flow(tuple(given.placements), TERM)
    largest = given.largest
    if largest is None:
        return None
    cut = given.placements[largest]
    return Flow((cut,) * len(given.placements), cut)


def _of_view(index: Sequence[AxisMap], given: Situation) -> Flow | None:
    if isinstance(given.placements[0], Summand):
        return Flow((TERM,), TERM)
    axis = given.cut(0)
    if axis is None:
        return None
    result = mapped_axis(index[axis], given.shapes[0][axis], given.result)
    if result is None or any(_reads(m, result) for a, m in enumerate(index) if a != axis):
        return None
    return Flow((Cut(axis),), Cut(result))


def mapped_axis(index: AxisMap, size: int, result: Shape) -> int | None:
    """Return the axis of a result, of the same size, whose index an affine map is."""
    if index.offset or len(index.terms) != 1:
        return None
    ((axis, coefficient),) = index.terms
    return axis if coefficient == 1 and result[axis] == size else None


def _reads(index: AxisMap, axis: int) -> bool:
    return any(term == axis for term, _ in index.terms)


def _of_reshape(given: Situation) -> Flow | None:
    """Follow an axis that begins where one of the result does, so that blocks are blocks."""
    if isinstance(given.placements[0], Summand):
        return Flow((TERM,), TERM)
    axis = given.cut(0)
    if axis is None:
        return None
    before = math.prod(given.shapes[0][:axis])
    for result, size in enumerate(given.result):
        if math.prod(given.result[:result]) == before and size > 1:
            return Flow((Cut(axis),), Cut(result)) if size % given.ranks == 0 else None
    return None


def _of_reduce(axes: Sequence[int], given: Situation) -> Flow | None:
    """Let a sum over what is cut be a term.

    That of a term is none: the sum of its whole, as of a gradient that goes on, is read elsewhere.
    """
    axis = given.cut(0)
    if axis is None:
        return None
    if axis in axes:
        return Flow((Cut(axis),), TERM) if given.is_linear else None
    return Flow((Cut(axis),), Cut(axis - sum(a < axis for a in axes)))


def _of_contract(spec: Contract, given: Situation) -> Flow | None:
    """Follow the label of the largest operand that is cut; the other is cut along it, or whole."""
    largest = given.largest
    if largest is None or spec.windows is not None:
        return None
    labels = (spec.lhs, spec.rhs)
    axis = given.cut(largest)
    assert axis is not None, "the operand is cut"
    label = labels[largest][axis]
    wanted = tuple(Cut(own.index(label)) if label in own else WHOLE for own in labels)
    return Flow(wanted, Cut(spec.out.index(label)) if label in spec.out else TERM)


def _of_place(operands: Sequence[Sequence[AxisMap]], given: Situation) -> Flow | None:
    """Follow an axis along which each operand covers the result."""
    largest = given.largest
    axis = None if largest is None else given.cut(largest)
    if axis is None:
        return None
    for maps, shape in zip(operands, given.shapes, strict=True):
        if (
            len(shape) != len(given.result)
            or mapped_axis(maps[axis], given.result[axis], shape) != axis
        ):
            return None
    return Flow((Cut(axis),) * len(operands), Cut(axis))


def _of_gather(spec: Gather, given: Situation) -> Flow | None:
    """Follow an axis that has no indices; those are whole."""
    axis = given.cut(0)
    if axis is None or spec.window is not None or spec.axis <= axis < spec.axis + spec.count:
        return None
    moved = len(given.shapes[1]) - spec.count if axis > spec.axis else 0
    indices = (WHOLE,) * (len(given.placements) - 1)
    return Flow((Cut(axis), *indices), Cut(axis + moved))


def attrs_of_part(
    node: Node, operands: Sequence[TensorType], part: TensorType
) -> dict[str, Attr] | None:
    """Return the attributes with which the op of `node` makes a part of its result of `operands`.

    It is None where they have a size of the whole in another way than as the shape of the result.
    """
    whole = node.output.type
    attrs = {k: part.shape if _is_shape(v, whole) else v for k, v in node.attrs.items()}
    try:
        found = infer_types(node.definition, operands, attrs)
    except (SymgradError, AssertionError):
        return None
    return attrs if tuple(found) == (part,) else None


def _is_shape(value: Attr, type_: TensorType) -> bool:
    """Return whether an attribute is the shape of the result."""
    return isinstance(value, tuple) and str(value) == str(type_.shape) and value != ()
