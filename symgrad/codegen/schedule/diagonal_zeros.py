"""Sparsity of triangular operands: products are told of zeros beside a diagonal of one.

    for i in 0..64 { for j in 0..64 { ... t4 = select(t1, t3, 0.0)  w[64*i + j] = t4 } }
    product s: f32 for (m in 0..64) (n in 0..32) (k in 0..64) w[0] by (64, 1) * v[0] by (32, 1) ...

where t1 is m[64*i + j] of a mask that only holds for j <= i, becomes, with the same loops,

    product s: f32 for ... w[0] by (64, 1) * v[0] by (32, 1) border(1, 64, -1)(1, 64, 1)(-63, 1) ...

Terms with these zeros may then be left out. What masks hold is given: a kernel reads them as data.
Where a loop around goes through blocks of rows, the diagonals of each are as many rows further on,
`shift[64*b]`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from symgrad.codegen.contract.plans.products import blocking_of, product_plan
from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Atom,
    Const,
    Expr,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Op,
    Product,
    Ref,
    Select,
    SortRows,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.codegen.loops.rewrite import buffers_used, drop_unused, statements
from symgrad.codegen.loops.strided import ZeroBorder
from symgrad.codegen.schedule.mask_diagonals import (
    Masks,
    ShiftedDiagonals,
    diagonals_of,
    holds_everywhere,
)
from symgrad.codegen.target import Target
from symgrad.cost_model.products import LEAST_OF_TRIANGLE
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class _Zeros:
    """A matrix in a buffer that is 0 but on some diagonals."""

    operand: StridedOperand
    shape: tuple[int, int]
    lines: ShiftedDiagonals


def has_masks(kernel: Kernel) -> bool:
    """Return whether a kernel stores elements of an operand of a product that a mask leaves."""
    return bool(_conditions(kernel)[0])


def mask_names(kernel: Kernel) -> list[str]:
    """Return the parameters that say where elements of an operand of a product are zeros."""
    conditions, values = _conditions(kernel)
    loads = (values.get(name) for name in conditions)
    found = {load.buffer for load in loads if isinstance(load, Load)}
    return [p.name for p in kernel.params if p.name in found and p.mode == "in"]


def _conditions(kernel: Kernel) -> tuple[set[str], dict[str, Expr]]:
    """Return by which conditions operands of products are chosen or zeros, and all values."""
    body = list(statements(kernel.body))
    operands = {o.buffer for s in body if isinstance(s, Product) for o in (s.lhs, s.rhs)}
    values = {s.name: s.value for s in body if isinstance(s, Let)}
    stores = (s for s in body if isinstance(s, Store) and s.buffer in operands)
    return {mask for store in stores if (mask := _mask_of(store, values))}, values


def leave_out_zeros(kernel: Kernel, masks: Masks, target: Target) -> Kernel:
    """Return `kernel` with borders of its products, given what some of its parameters hold."""
    return replace(kernel, body=_Walk(masks, target).body(kernel.body))


def _mask_of(store: Store, values: Mapping[str, Expr]) -> str | None:
    """Return the value that chooses between what is stored and 0, None if nothing does."""
    value = _value_of(store.value, values)
    if isinstance(value, Op) and value.name in ("exp", "decay"):
        value, zero = _value_of(value.args[0], values), -math.inf
    else:
        zero = 0.0
    if not isinstance(value, Select) or not isinstance(value.condition, Ref):
        return None
    is_zero = isinstance(value.otherwise, Const) and value.otherwise.value == zero
    return value.condition.name if is_zero else None


def _value_of(atom: Atom, values: Mapping[str, Expr]) -> Expr | None:
    return values.get(atom.name) if isinstance(atom, Ref) else None


def index_without(index: Index, extents: Mapping[str, int], *names: str) -> Index:
    """Return an index without some variables, and those that are always 0."""
    left = [
        (atom, by)
        for atom, by in index.terms
        if atom not in names and extents.get(str(atom), 2) > 1
    ]
    return index_of(*left, const=index.const)


class _Walk:
    """What is known of zeros where statements come one after another."""

    def __init__(self, masks: Masks, target: Target) -> None:
        self._masks, self._target = masks, target
        self._extents: dict[str, int] = {}
        self._values: dict[str, Expr] = {}
        self._known: list[_Zeros] = []

    def body(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(map(self._statement, body))

    def _statement(self, statement: Stmt) -> Stmt:
        if isinstance(statement, Product):
            return self._product(statement)
        if isinstance(statement, For):
            return self._loop(statement)
        self._note_values([statement])
        self._forget(buffers_used([statement])[1])
        return statement

    def _forget(self, buffers: set[str]) -> None:
        self._known = [z for z in self._known if z.operand.buffer not in buffers]

    def _loop(self, loop: For) -> For:
        self._extents[loop.var] = loop.extent
        _, stored = buffers_used([loop])
        self._forget(stored)
        body = self.body(loop.body)
        if loop.extent > 1:
            # What an iteration has written is known in that iteration alone.
            self._forget(stored)
        for inner in loop.body:
            store = _only_store(inner)
            if isinstance(inner, For) and store and _is_written_once(loop.body, store.buffer):
                self._note_values(inner.body)
                self._found(store, (loop.var, loop.extent), (inner.var, inner.extent))
        return replace(loop, body=body)

    def _note_values(self, body: Sequence[Stmt]) -> None:
        self._values |= {s.name: s.value for s in body if isinstance(s, Let)}

    def _found(self, store: Store, row: tuple[str, int], column: tuple[str, int]) -> None:
        """Note the zeros that a store has written, run for all rows and columns."""
        mask = _mask_of(store, self._values)
        if mask is None:
            return
        rows, columns = (store.index.coefficient(var) for var, _ in (row, column))
        index = index_without(store.index, self._extents, row[0], column[0])
        diagonals = diagonals_of(mask, self._values, self._masks, (row, column), self._extents)
        if diagonals is not None and 0 not in (rows, columns):
            operand = StridedOperand(store.buffer, index, rows, columns)
            self._known.append(_Zeros(operand, (row[1], column[1]), diagonals))

    def _product(self, product: Product) -> Product:
        self._extents |= dict((product.rows, product.columns))
        told = self._told(product)
        self._forget(buffers_used([product])[1])
        self._note_values(product.body)
        for store in product.body:
            if isinstance(store, Store):
                self._found(store, product.rows, product.columns)
        return self._without_masks(told)

    def _without_masks(self, product: Product) -> Product:
        """Return `product` without selects of what it stores by masks that hold everywhere."""
        values = {s.name: s.value for s in product.body if isinstance(s, Let)}
        body = tuple(self._without_mask(s, values, product) for s in product.body)
        if body == product.body:
            return product
        return replace(product, body=drop_unused(body, set()))

    def _without_mask(self, store: Stmt, values: Mapping[str, Expr], product: Product) -> Stmt:
        if not isinstance(store, Store):
            return store
        value, axes = _value_of(store.value, values), (product.rows, product.columns)
        if not isinstance(value, Select) or not isinstance(value.condition, Ref):
            return store
        mask, known = value.condition.name, (self._values, self._masks, axes, self._extents)
        return replace(store, value=value.chosen) if holds_everywhere(mask, *known) else store

    def _told(self, product: Product) -> Product:
        """Return `product` with a border, if an operand has enough zeros.

        Its sums are in the order of the terms, as they are with fewer of these.
        """
        if product.borders or product.parallel is not None or not self._known:
            return product
        for turned in (product, _turned(product)):
            shape = turned.rows[1], turned.inner[1]
            lhs = replace(turned.lhs, index=index_without(turned.lhs.index, self._extents))
            found = (_along(zeros, lhs, shape) for zeros in self._known)
            across = next((diagonals for diagonals in found if diagonals is not None), None)
            if across is None:
                continue
            border = ZeroBorder(1, shape[0], -1, 1, shape[1], 1, across.first, across.stop)
            told = replace(turned, borders=(border,), shift=across.shift)
            plan = product_plan(told, self._target)
            is_left_out = plan.diagonal is not None and border.share_left_out >= LEAST_OF_TRIANGLE
            if is_left_out and product_plan(product, self._target).method == plan.method:
                return replace(told, blocking=blocking_of(plan))
        return product


def _only_store(loop: Stmt) -> Store | None:
    """Return the last statement of a loop if that is a store and all others are values."""
    *values, last = loop.body if isinstance(loop, For) and loop.body else (None,)
    are_values = all(isinstance(value, Let) for value in values)
    return last if isinstance(last, Store) and are_values else None


def _is_written_once(body: Sequence[Stmt], buffer: str) -> bool:
    """Return whether one store of a body writes to a buffer, and nothing else does."""
    found = list(statements(body))
    stores = sum(isinstance(s, Store) and s.buffer == buffer for s in found)
    return stores == 1 and not any(isinstance(s, SortRows) for s in found)


def _turned(product: Product) -> Product:
    """Return the product of the transposed operands, whose result is the transposed one."""
    lhs, rhs = (
        replace(
            operand,
            rows=operand.columns,
            columns=operand.rows,
            row_digits=operand.column_digits,
            column_digits=operand.row_digits,
        )
        for operand in (product.rhs, product.lhs)
    )
    return replace(product, rows=product.columns, columns=product.rows, lhs=lhs, rhs=rhs)


def _along(
    zeros: _Zeros, operand: StridedOperand, shape: tuple[int, int]
) -> ShiftedDiagonals | None:
    """Return between which diagonals an operand is not 0, if that is the matrix of `zeros`."""
    if operand == zeros.operand and shape == zeros.shape:
        return zeros.lines
    other = replace(operand, rows=operand.columns, columns=operand.rows)
    if other == zeros.operand and shape[::-1] == zeros.shape:
        return zeros.lines.turned
    return None
