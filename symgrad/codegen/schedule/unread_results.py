"""Sparsity of triangular results: products are told which diagonals of theirs something reads.

    product s: f32 for (m in 0..64) (n in 0..64) (k in 0..32) q[0] by (32, 1) * v[0] by (1, 32) {
      w[64*m + n] = s
    }
    for i in 0..64 { for j in 0..64 { t1 = m[64*i + j]  t2 = w[64*i + j]
      t3 = select(t1, t2, -inf)  t4 = exp(t3)  w[64*i + j] = t4 } }

where the mask m only holds for j <= i has `read(-63, 1)` behind the operands: whatever else is in w
no select chooses, until all of it is stored anew. What masks hold is given, as for zeros
(`diagonal_zeros.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.codegen.contract.plans.products import blocking_of, product_plan
from symgrad.codegen.loops.language import (
    Atom,
    Combining,
    Expr,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Product,
    Ref,
    Select,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.codegen.loops.rewrite import arguments, buffers_used
from symgrad.codegen.schedule.diagonal_zeros import index_without
from symgrad.codegen.schedule.mask_diagonals import Masks, ShiftedDiagonals, diagonals_of
from symgrad.codegen.target import Target
from symgrad.records import dataclass, replace

_LoopAxis = tuple[str, int]
_RowAndColumn = tuple[_LoopAxis, _LoopAxis]


class _ReadError(Exception):
    """A result may be read that no mask leaves, or where it is read is not known."""


@dataclass(frozen=True, slots=True)
class _StoredResults:
    """Where the results of a product are, as many rows and columns, until they are stored anew."""

    operand: StridedOperand
    shape: tuple[int, int]


def leave_out_unread(kernel: Kernel, masks: Masks, target: Target) -> Kernel:
    """Return `kernel` with products that know what is read of theirs, given what masks hold."""
    return replace(kernel, body=_told_body(kernel.body, {}, masks, target))


def _told_body(
    body: Sequence[Stmt], extents: Mapping[str, int], masks: Masks, target: Target
) -> tuple[Stmt, ...]:
    found: list[Stmt] = []
    for number, statement in enumerate(body):
        if isinstance(statement, For):
            inside = {**extents, statement.var: statement.extent}
            told = _told_body(statement.body, inside, masks, target)
            statement = replace(statement, body=told)
        elif isinstance(statement, Product):
            read = _Readers(masks, extents).of(statement, body[number + 1 :])
            statement = statement if read is None else _told(statement, read, target)
        found.append(statement)
    return tuple(found)


def _told(product: Product, read: ShiftedDiagonals, target: Target) -> Product:
    """Return `product` with what is read of it, if it computes less then and in the same way."""
    if product.read is not None or product.borders or product.parallel is not None:
        return product
    told = replace(product, read=(read.first, read.stop), shift=read.shift)
    plan, other = (product_plan(each, target) for each in (told, product))
    is_same = plan.read is not None and replace(plan, read=None) == other
    return replace(told, blocking=blocking_of(plan)) if is_same else product


class _Readers:
    """Which diagonals of a product's results are read by what a mask does not leave out."""

    def __init__(self, masks: Masks, extents: Mapping[str, int]) -> None:
        self._masks = masks
        self._extents = dict(extents)
        self._values: dict[str, Expr] = {}
        # Values that are made of results, each of the one at these variables.
        self._made: dict[str, _RowAndColumn] = {}
        self._read: list[ShiftedDiagonals] = []
        self._results: _StoredResults | None = None

    def of(self, product: Product, behind: Sequence[Stmt]) -> ShiftedDiagonals | None:
        """Return the diagonals, None if other results are read as well, or may be."""
        axes = product.rows, product.columns
        self._made[product.name] = axes
        try:
            stores = self._stores(product.body, axes)
            if stores:
                self._follow(stores, axes, behind)
        except _ReadError:
            return None
        if len({read.shift for read in self._read}) != 1:
            return None
        first, stop = min(r.first for r in self._read), max(r.stop for r in self._read)
        return ShiftedDiagonals(first, stop, self._read[0].shift)

    def _stores(self, body: Sequence[Stmt], axes: _RowAndColumn) -> list[Store]:
        """Return what stores results as they are, or what is made of them, in a product's body."""
        for statement in body:
            if isinstance(statement, Let):
                self._let(statement, axes)
            elif not isinstance(statement, Store):
                raise _ReadError
        return [s for s in body if isinstance(s, Store) and _name(s.value) in self._made]

    def _follow(self, stores: Sequence[Store], axes: _RowAndColumn, behind: Sequence[Stmt]) -> None:
        """Note what is read of results in a buffer, until all of it is stored anew."""
        (row, rows), (column, columns) = axes
        (store, *others), index = stores, stores[0].index
        strides = index.coefficient(row), index.coefficient(column)
        if others or 0 in strides or strides[0] == strides[1]:
            raise _ReadError
        place = index_without(index, self._extents, row, column)
        operand = StridedOperand(store.buffer, place, *strides)
        self._results = _StoredResults(operand, (rows, columns))
        self._made.clear()
        for statement in behind:
            loaded, stored = buffers_used([statement])
            if store.buffer not in loaded | stored:
                continue
            if not isinstance(statement, For):
                raise _ReadError
            if self._rows(statement):
                return
        raise _ReadError

    def _rows(self, loop: For) -> bool:
        """Go through a loop over rows; return whether all of each is stored anew."""
        assert self._results is not None, "results are stored"
        row, buffer = (loop.var, loop.extent), self._results.operand.buffer
        is_new = False
        for statement in loop.body:
            if isinstance(statement, For):
                is_new |= self._columns(statement, row, (), is_new=is_new)
            elif isinstance(statement, Fold):
                self._columns(statement, row, statement.items, is_new=is_new)
            elif isinstance(statement, Let):
                self._let(statement, None)
            elif isinstance(statement, Store) and statement.buffer != buffer:
                self._refuse([statement.value])
            else:
                raise _ReadError
        return is_new and loop.extent == self._results.shape[0]

    def _columns(
        self, loop: Combining | For, row: _LoopAxis, items: Sequence[Atom], *, is_new: bool
    ) -> bool:
        """Go through a loop in one over rows, which combines `items`.

        Returns whether it stores all of its row anew.
        """
        assert self._results is not None, "results are stored"
        axes, stores = (row, (loop.var, loop.extent)), False
        for statement in loop.body:
            if isinstance(statement, Let):
                self._let(statement, axes, is_new=is_new)
            elif isinstance(statement, Store):
                self._refuse([statement.value])
                stores |= self._is_anew(statement, axes)
            else:
                raise _ReadError
        self._refuse(items)
        return stores and loop.extent == self._results.shape[1]

    def _is_anew(self, store: Store, axes: _RowAndColumn) -> bool:
        """Return whether a store is where results are: then it is at the one of its variables."""
        assert self._results is not None, "results are stored"
        if store.buffer != self._results.operand.buffer:
            return False
        if not self._is_at(store.index, axes):
            raise _ReadError
        return True

    def _let(self, let: Let, axes: _RowAndColumn | None, *, is_new: bool = False) -> None:
        """Note what a value is made of: it is none of results, if a mask chooses another one."""
        value = let.value
        self._made.pop(let.name, None)
        self._values[let.name] = value
        operand = None if self._results is None else self._results.operand
        if operand is not None and getattr(value, "buffer", None) == operand.buffer:
            if not isinstance(value, Load) or axes is None or not self._is_at(value.index, axes):
                raise _ReadError
            if not is_new:
                self._made[let.name] = axes
            return
        made = {self._made[name] for a in arguments(value) if (name := _name(a)) in self._made}
        if not made:
            return
        if isinstance(value, Select) and _name(value.chosen) in self._made:
            self._refuse([value.condition, value.otherwise])
            self._choose(value, *made)
            return
        if len(made) > 1:
            raise _ReadError
        (self._made[let.name],) = made

    def _choose(self, select: Select, axes: _RowAndColumn) -> None:
        """Note where a mask holds by which a value that is made of a result is chosen."""
        name = _name(select.condition)
        found = diagonals_of(name, self._values, self._masks, axes, self._extents)
        if found is None:
            raise _ReadError
        self._read.append(found)

    def _is_at(self, index: Index, axes: _RowAndColumn) -> bool:
        """Return whether an index is the place of a result at the variables `axes`."""
        assert self._results is not None, "results are stored"
        (row, rows), (column, columns) = axes
        operand, shape = self._results.operand, self._results.shape
        strides = index.coefficient(row), index.coefficient(column)
        is_inside = rows <= shape[0] and columns <= shape[1]
        place = index_without(index, self._extents, row, column)
        return is_inside and strides == (operand.rows, operand.columns) and place == operand.index

    def _refuse(self, atoms: Sequence[Atom]) -> None:
        """Raise if any of `atoms` is made of results."""
        if any(_name(atom) in self._made for atom in atoms):
            raise _ReadError


def _name(atom: Atom) -> str:
    return atom.name if isinstance(atom, Ref) else ""
