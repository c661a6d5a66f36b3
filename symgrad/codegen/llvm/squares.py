"""Emission of squares: two loops of vectors around each other, transposed in registers.

A square is as many rows, iterations of the outer loop, as a vector has lanes, iterations of the
inner one. A row is computed as any vector is. What lies side by side along the outer loop is loaded
as columns, of which shuffles make rows, and stored as columns that shuffles make of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.carrying import emit_carrying
from symgrad.codegen.llvm.expressions import (
    emit_atom,
    emit_pointer,
    emit_store,
    emit_value,
    stride_of,
)
from symgrad.codegen.llvm.scope import KernelScope, Vector
from symgrad.codegen.loops.language import (
    Check,
    Fold,
    For,
    Index,
    Let,
    Load,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
)
from symgrad.codegen.vectors import transposed
from symgrad.records import replace

_I64 = ir.IntType(64)


def emit_squares(scope: KernelScope, inner: For) -> None:
    """Emit the squares of `inner` with the loop around it, whose iterations lie side by side."""
    width = inner.vector
    assert scope.vector.width == width, f"squares of {scope.vector.width} by {width}"
    assert scope.written_out is None, "squares are not written out"

    def square(inside: KernelScope, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
        _emit_square(inside, inner)
        return ()

    emit_carrying(scope, inner.var, (0, inner.extent, width), (), square)


def _emit_square(scope: KernelScope, inner: For) -> None:
    """Emit the square at the indices of `scope`, whose vector is that of the outer loop."""
    outer = scope.vector.variable
    assert outer is not None, "a square has two loops"
    rows = _moved(scope, outer, Vector(inner.var, inner.vector))
    columns = _moved(scope, inner.var, scope.vector)
    for statement in inner.body:
        _emit_statement(statement, rows, columns)


def _moved(scope: KernelScope, variable: str, vector: Vector) -> list[KernelScope]:
    """Return a scope for each iteration of one loop, with those of the other as lanes."""
    builder, start = scope.builder, scope.indices[variable]
    return [
        replace(scope.inside(variable, builder.add(start, _I64(n))), vector=vector).inner()
        for n in range(vector.width)
    ]


def _emit_statement(
    statement: Stmt, rows: Sequence[KernelScope], columns: Sequence[KernelScope]
) -> None:
    builder, width = rows[0].builder, len(rows)
    match statement:
        case Let(name, Load(index=index) as load) if _is_turned(index, rows[0], columns[0]):
            vectors = [emit_value(column, load)[0] for column in columns]
            for row, vector in zip(rows, transposed(builder, vectors), strict=True):
                row.values[name] = vector, width
        case Let(name, value):
            for row in rows:
                row.values[name] = emit_value(row, value)
        case Store(buffer, index, value) if _is_turned(index, rows[0], columns[0]):
            vectors = [emit_atom(row, value, width) for row in rows]
            for column, vector in zip(columns, transposed(builder, vectors), strict=True):
                pointer = emit_pointer(column, buffer, index)
                column.lanes(width).store(vector, pointer, value.dtype, value.dtype.itemsize)
        case Store():
            for row in rows:
                emit_store(row, statement)
        case Check() | For() | Fold() | Prefix() | Product() | SortRows():
            raise AssertionError(f"no statement of a square: {statement}")


def _is_turned(index: Index, row: KernelScope, column: KernelScope) -> bool:
    return stride_of(column, index) == 1 and stride_of(row, index) not in (-1, 0, 1)
