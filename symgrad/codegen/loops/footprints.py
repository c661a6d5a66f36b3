"""Footprints: how much of a buffer statements touch, of products whole operands.

A loop over matrices prefetches by them what its next iteration touches, and kernels over one batch
are fused where each touches what is of one matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symgrad.codegen.loops.index_arithmetic import operand_bounds
from symgrad.codegen.loops.language import Index, Let, Load, Loop, Product, Stmt, Store
from symgrad.codegen.loops.rewrite import statements
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Access:
    """Elements of a buffer that are touched: from an index on, so many beside each other."""

    buffer: str
    index: Index
    reach: int
    is_written: bool


def touched(body: Sequence[Stmt]) -> Iterator[Access]:
    """Yield what statements touch of buffers."""
    extents = counted_extents(body)
    for statement in statements(body):
        if isinstance(statement, Store):
            yield Access(statement.buffer, statement.index, 1, True)
        elif isinstance(statement, Let) and isinstance(statement.value, Load):
            yield Access(statement.value.buffer, statement.value.index, 1, False)
        elif isinstance(statement, Product):
            (_, m), (_, n), (_, k) = statement.rows, statement.columns, statement.inner
            for operand, shape in ((statement.lhs, (m, k)), (statement.rhs, (k, n))):
                flat = replace(operand, index=Index())
                low, high = operand_bounds(flat, shape, extents)
                index = replace(operand.index, const=operand.index.const + low)
                yield Access(operand.buffer, index, 1 + high - low, False)


def counted_extents(body: Sequence[Stmt]) -> dict[str, int]:
    """Return the extents of all that counts in statements."""
    found: dict[str, int] = {}
    for statement in statements(body):
        if isinstance(statement, Product):
            axes = [statement.rows, statement.columns, statement.inner]
        elif isinstance(statement, Loop):
            axes = [(statement.var, statement.extent)]
        else:
            continue
        for name, extent in axes:
            found[name] = max(extent, found.get(name, 0))
    return found
