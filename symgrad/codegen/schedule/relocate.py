"""Base-address normalisation, so that more kernels are equal.

What only says where a kernel is called is taken out of it, and the call says it.

A step of an unrolled loop reads the rows of its turn. Before, each has a kernel of its own:

    kernel @kernel(in b0: f32[1000], out b1: f32[10]) { for i0 in 0..10 { t0 = b0[i0 + 70] ... } }

After, all have one, and the call says where in the buffer it begins:

    kernel @kernel(in b0: f32[10], out b1: f32[10]) { for i0 in 0..10 { t0 = b0[i0] ... } }

In the same way the statuses of checks, which name nodes of the graph, become 1, 2, ... of the
kernel, and the call says what they stand for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from symgrad.codegen.loops.index_arithmetic import bounds, operand_bounds
from symgrad.codegen.loops.language import (
    BinarySearch,
    Check,
    Expr,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
    StridedOperand,
    ZeroBorder,
    inside,
)
from symgrad.codegen.loops.rewrite import statements
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Relocated:
    """A kernel, and for a call of it: where in each buffer it begins, and what statuses mean.

    `starts` are in elements, one for each parameter; a status s of the kernel is that of the
    program which `statuses[s - 1]` says.
    """

    kernel: Kernel
    starts: tuple[int, ...]
    statuses: tuple[int, ...]


def unmoved(kernel: Kernel) -> Relocated:
    """Return `kernel` as it is: it begins where its buffers do, and its statuses are its own."""
    return Relocated(kernel, (0,) * len(kernel.params), (*range(1, statuses_of(kernel) + 1),))


def statuses_of(kernel: Kernel) -> int:
    """Return the largest status of the checks of `kernel`, 0 if it has none."""
    checks = (s for s in statements(kernel.body) if isinstance(s, Check) and s.can_fail)
    return max((check.status for check in checks), default=0)


def relocate(kernel: Kernel) -> Relocated:
    """Normalise base addresses: `kernel` on buffers that begin and end where it touches them."""
    touched = _Touched()
    touched.visit(kernel.body)
    starts: dict[str, int] = {}
    params = []
    for param in kernel.params:
        low, high = touched.ranges[param.name]
        # What loops that never run touch may lie outside.
        start, end = (low, high + 1) if 0 <= low <= high < param.count else (0, param.count)
        starts[param.name] = start
        params.append(replace(param, count=end - start))
    numbers = {status: i for i, status in enumerate(dict.fromkeys(touched.statuses), 1)}
    body = _moved(kernel.body, starts, numbers) if numbers or any(starts.values()) else kernel.body
    moved = replace(kernel, params=tuple(params), body=body)
    return Relocated(moved, tuple(starts.values()), tuple(numbers))


class _Touched:
    """The first and the last element of each buffer that statements touch, and their statuses."""

    def __init__(self) -> None:
        self.ranges: dict[str, tuple[int, int]] = {}
        self.statuses: list[int] = []
        self._extents: dict[str, int] = {}

    def visit(self, body: Sequence[Stmt]) -> None:
        for statement in body:
            match statement:
                case Let(_, Load(buffer, index, _)) | Store(buffer, index, _):
                    self._touch(buffer, index)
                case Check():
                    self._extents[statement.name] = statement.extent
                    self.statuses.extend([statement.status] if statement.can_fail else [])
                case For() | Fold() | Prefix():
                    self._extents[statement.var] = statement.extent
                    self.visit(inside(statement))
                case Product():
                    self._product(statement)
                case SortRows():
                    rows = statement.rows
                    self._touch_operand(statement.source, (rows, statement.length))
                    self._touch_operand(statement.result, (rows, statement.count))
                case Let(_, BinarySearch() as search):
                    row = StridedOperand(search.buffer, search.index, 0, search.stride)
                    self._touch_operand(row, (1, search.length))
                case Let():
                    pass

    def _touch(self, buffer: str, index: Index) -> None:
        self._touch_range(buffer, *bounds(index, self._extents))

    def _touch_operand(
        self,
        operand: StridedOperand,
        shape: tuple[int, int],
        borders: tuple[ZeroBorder, ...] = (),
    ) -> None:
        reached = operand_bounds(operand, shape, self._extents, borders)
        self._touch_range(operand.buffer, *reached)

    def _touch_range(self, buffer: str, low: int, high: int) -> None:
        least, greatest = self.ranges.get(buffer, (low, high))
        self.ranges[buffer] = (min(least, low), max(greatest, high))

    def _product(self, product: Product) -> None:
        rows, columns, inner = product.rows, product.columns, product.inner
        self._extents |= dict((rows, columns, inner))
        self._touch_operand(product.lhs, _at_least_one(rows[1], inner[1]), product.borders)
        self._touch_operand(product.rhs, _at_least_one(inner[1], columns[1]))
        self.visit(product.body)


def _at_least_one(rows: int, columns: int) -> tuple[int, int]:
    return max(rows, 1), max(columns, 1)


_Touching = TypeVar("_Touching", Load, BinarySearch, Store, StridedOperand)


def _moved_place(of: _Touching, starts: Mapping[str, int]) -> _Touching:
    return replace(of, index=Index(of.index.const - starts[of.buffer], of.index.terms))


def _moved_value(value: Expr, starts: Mapping[str, int]) -> Expr:
    if isinstance(value, Load):
        return _moved_place(value, starts)
    return _moved_place(value, starts) if isinstance(value, BinarySearch) else value


def _moved(
    body: Sequence[Stmt], starts: Mapping[str, int], numbers: Mapping[int, int]
) -> tuple[Stmt, ...]:
    """Return `body` with its buffers begun at `starts` and its statuses renumbered."""
    result: list[Stmt] = []
    for statement in body:
        match statement:
            case Let(name, value):
                result.append(Let(name, _moved_value(value, starts)))
            case Store():
                result.append(_moved_place(statement, starts))
            case Check():
                result.append(replace(statement, status=numbers.get(statement.status, 0)))
            case For() | Fold():
                result.append(replace(statement, body=_moved(statement.body, starts, numbers)))
            case Prefix():
                own, each = (_moved(p, starts, numbers) for p in (statement.body, statement.each))
                result.append(replace(statement, body=own, each=each))
            case Product(lhs=lhs, rhs=rhs):
                own = _moved(statement.body, starts, numbers)
                lhs, rhs = _moved_place(lhs, starts), _moved_place(rhs, starts)
                result.append(replace(statement, lhs=lhs, rhs=rhs, body=own))
            case SortRows(result=lhs, source=rhs):
                lhs, rhs = _moved_place(lhs, starts), _moved_place(rhs, starts)
                result.append(replace(statement, result=lhs, source=rhs))
    return tuple(result)
