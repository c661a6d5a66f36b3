"""Memory access patterns: strides of loops, and what vectors along a variable would cost.

Costs are in element operations of one vector iteration, so a cost divided by the width compares
variables and widths with one another; it is not a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from symgrad.codegen.loops.language import (
    BinarySearch,
    Check,
    Expr,
    Fold,
    For,
    Index,
    Indexed,
    IndexValue,
    Let,
    Load,
    Op,
    Prefix,
    Product,
    Reduction,
    Ref,
    SortRows,
    Stmt,
    Store,
    inside,
)
from symgrad.codegen.loops.rewrite import (
    arguments,
    index_names,
    mentions,
    statements,
    substitute_variable,
)
from symgrad.codegen.loops.short_rows import RowAccess, row_accesses
from symgrad.cost_model import (
    DIVIDED_ACCESS,
    EVEN_ACCESS,
    LANE_ACCESS,
    REVERSED_ACCESS,
    ROW_SHUFFLE,
    SEARCH_STEP,
    UNIFORM_ACCESS,
)
from symgrad.graph.scalars import SCALAR_OPS


class Accesses:
    """The loads, stores and operations of a body, folds inside included."""

    def __init__(self, body: Sequence[Stmt]) -> None:
        self._indices: list[Index] = []
        self._bodies: list[Sequence[Stmt]] = []
        self._operations = 0
        self._sizes: set[int] = set()
        self._collect(body)

    def _collect(self, body: Sequence[Stmt]) -> None:
        self._bodies.append(body)
        for statement in body:
            match statement:
                case Let(_, Load() as load):
                    self._indices.append(load.index)
                    # One element for all lanes is in no vector that is read.
                    is_vector = load.dtype.is_float and load.index.terms
                    self._sizes.add(load.dtype.itemsize if is_vector else 1)
                case Let(_, IndexValue() as value):
                    self._operations += 1 if value.index.terms else 0
                case Let(_, BinarySearch(length=length)):
                    self._operations += SEARCH_STEP * length.bit_length()
                case Let():
                    self._operations += 1
                case Store():
                    self._indices.append(statement.index)
                    self._sizes.add(statement.value.dtype.itemsize)
                case Fold() | Prefix():
                    self._sizes.update(a.identity.dtype.itemsize for a in statement.accumulators)
                    self._operations += len(statement.combine)
                    self._collect(inside(statement))
                case For() | Product():
                    self._collect(statement.body)
                case Check() | SortRows():
                    self._operations += 1

    def _looked_up(self, variable: str) -> frozenset[str]:
        """Return the indices that are data and depend on `variable`."""
        checked = frozenset(s.name for body in self._bodies for s in body if isinstance(s, Check))
        names = {variable}
        for body in self._bodies if checked else ():  # those around come first
            _spread(body, names)
        return checked & names

    @property
    def itemsize(self) -> int:
        """The bytes of the widest element that is stored or added up."""
        return max(self._sizes, default=4)

    def cost(self, variable: str | None, width: int) -> float:
        """Return what one iteration over `width` values of `variable` side by side costs."""
        if variable is None:
            return float(self._operations + len(self._indices))
        looked_up = self._looked_up(variable)
        total = self._operations + sum(_cost(i, variable, width, looked_up) for i in self._indices)
        if looked_up or any(index.coefficient(variable) >= 2 for index in self._indices):
            rows = (
                row
                for body in self._bodies
                for row in row_accesses(body, variable, width, looked_up)
            )
            total += sum(_saved(row, variable, width, looked_up) for row in rows)
        return total


def _saved(row: RowAccess, variable: str, width: int, looked_up: frozenset[str]) -> float:
    """Return by how much rows of memory cost less than their elements one by one, below 0."""
    count = len(row.members)
    together = count * (EVEN_ACCESS + (count - 1) * ROW_SHUFFLE)
    if row.is_run:
        shuffles = width - count + count * (count.bit_length() - 1)
        together = width * EVEN_ACCESS + shuffles * ROW_SHUFFLE
    return together - sum(_cost(row.start, variable, width, looked_up) for _ in row)


def _cost(
    index: Index, variable: str, width: int, looked_up: frozenset[str] = frozenset()
) -> float:
    coefficient = index.coefficient(variable)
    if looked_up and not looked_up.isdisjoint(index_names(index)):
        return LANE_ACCESS * width
    rest = Index(0, tuple(term for term in index.terms if term[0] != variable))
    if mentions(rest, variable):
        return DIVIDED_ACCESS * width
    if coefficient in (0, 1):
        return EVEN_ACCESS if coefficient else UNIFORM_ACCESS
    return REVERSED_ACCESS if coefficient == -1 else LANE_ACCESS * width


def body_flops(body: Sequence[Stmt]) -> int:
    """Return the arithmetic of one element, as `SCALAR_OPS` counts it."""
    values = (s.value for s in body if isinstance(s, Let))
    return sum(SCALAR_OPS[value.name].flops for value in values if isinstance(value, Op))


def dependents(body: Sequence[Stmt], variable: str) -> set[str]:
    """Return the names in `body` whose values depend on the loop variable."""
    found = {variable}
    _spread(body, found)
    return found


def looked_up_along(body: Sequence[Stmt], variable: str) -> frozenset[str]:
    """Return the indices in `body` that are data and depend on the loop variable."""
    checked = frozenset(s.name for s in statements(body) if isinstance(s, Check))
    return checked & dependents(body, variable) if checked else checked


def checks_differ(product: Product, along: str) -> bool:
    """Return whether an index that is data differs along an axis of a product.

    What is done to each element is then done to one after another, and not in vectors.
    """
    differing = dependents(product.body, along) | dependents(product.body, product.name)
    checks = (s.value for s in statements(product.body) if isinstance(s, Check))
    return any(isinstance(value, Ref) and value.name in differing for value in checks)


def _spread(body: Sequence[Stmt], found: set[str]) -> None:
    for statement in body:
        match statement:
            case Let(name, value):
                if not found.isdisjoint(names_used(value)):
                    found.add(name)
            case Check(name, Ref(used, _), _, _):
                found.update({name} if used in found else ())
            case Fold() | Prefix():
                _spread_reduction(statement, found)
            case For() | Product():
                _spread(statement.body, found)
            case Store() | Check() | SortRows():
                pass


def _spread_reduction(loop: Reduction, found: set[str]) -> None:
    _spread(loop.body, found)
    deciding = {a.name for a in loop.items if isinstance(a, Ref)}
    if isinstance(loop, Prefix):
        deciding.add(loop.var)  # how many elements it is of differs, if nothing else does
    if deciding & found:
        found.update(a.name for a in loop.accumulators)
    if isinstance(loop, Prefix):
        _spread(loop.each, found)


def names_used(value: Expr) -> set[str]:
    """Return the names and loop variables that an expression is computed from."""
    names = {a.name for a in arguments(value) if isinstance(a, Ref)}
    if isinstance(value, Indexed):
        names.update(index_names(value.index))
    return names


def walks_on(everywhere: Iterable[Index], outer: str, inner: str, extent: int) -> bool:
    """Return whether loops coalesce: in each index, a step of `outer` is `extent` of `inner`."""
    for index in everywhere:
        if index.coefficient(outer) != index.coefficient(inner) * extent:
            return False
        rest = Index(0, tuple(t for t in index.terms if t[0] not in (outer, inner)))
        if _hides(rest, outer) or _hides(rest, inner):
            return False
    return True


def _hides(index: Index, variable: str) -> bool:
    return substitute_variable(index, variable, Index(1)) != index
