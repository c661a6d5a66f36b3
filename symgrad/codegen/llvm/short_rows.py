"""Emission of interleaved accesses: vectors of short rows, and shuffles (`loops/short_rows.py`).

A vector of each element is made of as many vectors of memory as a row has elements, whose lanes are
taken in turns. So no element is loaded, or stored, by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.expressions import emit_atom, emit_pointer
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.loops.language import Index, Let, Load, Stmt, Store
from symgrad.codegen.loops.short_rows import RowAccess, row_accesses
from symgrad.codegen.vectors import shuffled


def rows_in(
    scope: KernelScope, body: Sequence[Stmt]
) -> tuple[dict[int, RowAccess], frozenset[int]]:
    """Return the groups in a body by the statement that stands for each, and all that are in one.

    Statements are named by their identity. Loads are where the first of them is, and stores where
    the last is, when all values are there.
    """
    variable = scope.vector.variable
    if variable is None or scope.written_out is not None:
        return {}, frozenset()
    rows: dict[int, RowAccess] = {}
    together: set[int] = set()
    for row in row_accesses(body, variable):
        members = {id(statement) for statement in row}
        ordered = [statement for statement in body if id(statement) in members]
        rows[id(ordered[-1 if isinstance(ordered[0], Store) else 0])] = row
        together |= members
    return rows, frozenset(together)


def emit_row(scope: KernelScope, row: RowAccess) -> None:
    """Emit the loads, or the stores, of a group."""
    if isinstance(row.members[0][0], Store):
        _emit_stores(scope, row)
    else:
        _emit_loads(scope, row)


def _emit_loads(scope: KernelScope, row: RowAccess) -> None:
    """Load the elements of rows, and bind what each of the loads of `row` binds."""
    first = row.members[0][0]
    assert isinstance(first, Let), "rows are loaded"
    load, width = first.value, scope.vector.width
    assert isinstance(load, Load), "rows are loaded"
    memory = [
        scope.lanes(width).load(pointer, load.dtype, load.dtype.itemsize)
        for pointer in _pointers(scope, load.buffer, row)
    ]
    for number, members in enumerate(row.members):
        order = [len(row.members) * lane + number for lane in range(width)]
        value = _taken(scope.builder, memory, order)
        for let in members:
            assert isinstance(let, Let), "rows are loaded"
            scope.values[let.name] = value, width


def _emit_stores(scope: KernelScope, row: RowAccess) -> None:
    """Store the elements of rows, all that the stores of `row` store."""
    width, count = scope.vector.width, len(row.members)
    stores = [members[0] for members in row.members]
    first = stores[0]
    assert isinstance(first, Store), "rows are stored"
    values = [emit_atom(scope, s.value, width) for s in stores if isinstance(s, Store)]
    dtype = first.value.dtype
    for number, pointer in enumerate(_pointers(scope, first.buffer, row)):
        places = range(number * width, (number + 1) * width)
        order = [place % count * width + place // count for place in places]
        lanes = _taken(scope.builder, values, order)
        scope.lanes(width).store(lanes, pointer, dtype, dtype.itemsize)


def _pointers(scope: KernelScope, buffer: str, row: RowAccess) -> list[ir.Value]:
    """Return where the vectors of memory begin that hold the rows of all lanes."""
    starts = (number * scope.vector.width for number in range(len(row.members)))
    places = (Index(row.start.const + start, row.start.terms) for start in starts)
    return [emit_pointer(scope, buffer, place) for place in places]


def _taken(builder: ir.IRBuilder, vectors: Sequence[ir.Value], order: Sequence[int]) -> ir.Value:
    """Return the lanes `order` of vectors beside each other; each shuffle takes in one more."""
    width = len(order)
    result = vectors[0]
    for number in range(1, len(vectors)):
        lanes = [
            lane
            if place // width < number
            else width + place % width
            if place // width == number
            else 0
            for lane, place in enumerate(order)
        ]
        if number == 1:
            lanes = [place if place < 2 * width else 0 for place in order]
        result = shuffled(builder, [result, vectors[number]], lanes)
    return result
