"""Dependences of what computes with elements: scalar bodies, reductions, scans, products.

An element depends on what any element that it is computed of depends on. What is multiplied by a
zero that is known, or not selected by a condition that is known, is none of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from symgrad.graph.dtypes import DType, bool_
from symgrad.graph.scalars import SCALAR_OPS
from symgrad.graph.structures import Body, ColumnMap, Contract, PrefixScan
from symgrad.graph.types import Array
from symgrad.passes.sparsity.index_sets import IndexSets, Numbers
from symgrad.passes.sparsity.moved_indices import seen
from symgrad.records import dataclass

Shape = tuple[int, ...]

# Terms of a product that are looked at one by one, where zeros of an operand are known.
MOST_TERMS = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class Dependent:
    """A scalar expression: what it depends on, None for nothing, and how to get its value."""

    dtype: DType
    numbers: Numbers | None = None
    value: Callable[[], Array | None] = lambda: None


class _BodyOfSets:
    """A `Scalars` whose values are what expressions depend on."""

    def __init__(self, sets: IndexSets) -> None:
        self._sets = sets

    def call(self, name: str, *args: Dependent) -> Dependent:
        row = SCALAR_OPS[name]
        numbers = [arg.numbers for arg in args]
        if name == "mul" and (numbers[0] is None) != (numbers[1] is None):
            factor, other = (args[1], 0) if numbers[1] is None else (args[0], 1)
            numbers[other] = _where_not_zero(numbers[other], factor.value())
        return Dependent(
            bool_ if row.gives == "bool" else args[0].dtype, self._sets.union_of_all(numbers)
        )

    def select(self, condition: Dependent, chosen: Dependent, otherwise: Dependent) -> Dependent:
        numbers = [chosen.numbers, otherwise.numbers]
        is_moot = all(n is None for n in numbers) or condition.numbers is not None
        known = None if is_moot else condition.value()
        if known is not None:
            numbers = [_where_not_zero(numbers[0], known), _where_not_zero(numbers[1], ~known)]
        total = self._sets.union_of_all([*numbers, condition.numbers])
        return Dependent(chosen.dtype, total)

    def cast(self, value: Dependent, dtype: DType) -> Dependent:
        return Dependent(dtype, value.numbers, value.value)

    def const(self, value: float, dtype: DType) -> Dependent:
        return Dependent(dtype, None, lambda: np.asarray(value))

    def dtype_of(self, value: Dependent) -> DType:
        return value.dtype


def _where_not_zero(numbers: Numbers | None, factor: Array | None) -> Numbers | None:
    if numbers is None or factor is None:
        return numbers
    is_there = factor != 0
    return numbers if is_there.all() else np.where(is_there, numbers, 0)


def computed(sets: IndexSets, body: Body, operands: Sequence[Dependent]) -> Numbers | None:
    """Return the numbers of what a scalar body gives."""
    found = body(_BodyOfSets(sets), *operands)
    assert isinstance(found, Dependent), f"a body gives {found!r}"
    return found.numbers


def of_columns(
    sets: IndexSets, operands: Sequence[Numbers | None], spec: ColumnMap, shape: Shape
) -> Numbers:
    """Return the numbers of columns that are computed of whole columns."""
    columns = [None if n is None else sets.union_over(n, (0,)) for n in operands]
    total = sets.union_of_all(columns)
    assert total is not None, "no operand depends on anything"
    return np.broadcast_to(np.expand_dims(total, spec.axes), shape)


def scanned_along(sets: IndexSets, operands: Sequence[Numbers | None], spec: PrefixScan) -> Numbers:
    """Return the numbers of a prefix scan."""
    total = sets.union_of_all(operands)
    assert total is not None, "no operand depends on anything"
    turned = np.flip(total, spec.axis) if spec.reverse else total
    found = sets.union_along(turned, spec.axis)
    return np.flip(found, spec.axis) if spec.reverse else found


def contracted(
    sets: IndexSets,
    operands: Sequence[Numbers | None],
    values: Sequence[Callable[[], Array | None]],
    spec: Contract,
    shapes: tuple[Shape, Shape],
) -> Numbers:
    """Return the numbers of a product of two operands."""
    sizes = spec.sizes(*shapes)
    total: Numbers | None = None
    sides = ((spec.lhs, spec.rhs), (spec.rhs, spec.lhs))
    for position, (own, other) in enumerate(sides):
        numbers = operands[position]
        if numbers is None:
            continue
        if position == 0 and spec.windows is not None:
            numbers = seen(numbers, spec.windows.index, spec.windows.shape)
        factor = values[1 - position]() if operands[1 - position] is None else None
        is_usable = factor is not None and (position == 1) <= (spec.windows is None)
        terms = int(np.prod([*sizes.values()], dtype=np.int64))
        if is_usable and factor is not None and terms <= MOST_TERMS and not factor.all():
            found = _terms_that_are_there(sets, (numbers, own), (factor, other), spec.out, sizes)
        else:
            found = _summed(sets, numbers, own, spec.out, sizes)
        total = found if total is None else sets.union(total, found)
    assert total is not None, "no operand depends on anything"
    return total


def _summed(
    sets: IndexSets, numbers: Numbers, labels: str, out: str, sizes: Mapping[str, int]
) -> Numbers:
    """Return the unions over what is summed, repeated along the labels of the other operand."""
    total = sets.union_over(numbers, [i for i, label in enumerate(labels) if label not in out])
    kept = [label for label in labels if label in out]
    return _spread(total, kept, out, sizes)


def _spread(x: Array, labels: Sequence[str], out: str, sizes: Mapping[str, int]) -> Array:
    """Return `x` of these labels with the axes of `out`, repeated along those it lacks."""
    ordered = x.transpose([list(labels).index(label) for label in out if label in labels])
    wide = ordered.reshape([sizes[label] if label in labels else 1 for label in out])
    return np.broadcast_to(wide, [sizes[label] for label in out])


def _terms_that_are_there(
    sets: IndexSets,
    operand: tuple[Numbers, str],
    factor: tuple[Array, str],
    out: str,
    sizes: Mapping[str, int],
) -> Numbers:
    """Return the unions over the terms of a product whose other factor is not zero."""
    labels = "".join(sizes)
    numbers = _spread(*operand, labels, sizes)
    is_there = (numbers != 0) & (_spread(*factor, labels, sizes) != 0)
    shape = [sizes[label] for label in out]
    count = int(np.prod(shape, dtype=np.int64))
    places = _spread(np.arange(count).reshape(shape), out, labels, sizes)
    return sets.united(places[is_there], numbers[is_there], count).reshape(shape)
