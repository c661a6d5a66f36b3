"""Emission of interleaved accesses: vectors of short rows, and shuffles (`loops/short_rows.py`).

A vector of each element is made of as many vectors of memory as a row has elements, whose lanes are
taken in turns. So no element is loaded, or stored, by itself. Runs of longer rows are transposed in
squares, of which several lie beside each other where a vector has more lanes than a run elements.
A run is taken in pieces, which are joined in registers as they are loaded: a join from memory is a
shuffle less, and shorter pieces cross fewer cache lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.expressions import emit_atom, emit_pointer, looked_up_around
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.loops.access import looked_up_along
from symgrad.codegen.loops.language import Index, Let, Load, Stmt, Store
from symgrad.codegen.loops.short_rows import RowAccess, row_accesses
from symgrad.codegen.vectors import joined, part_of, shuffled, transposed
from symgrad.graph.dtypes import DType

BYTES_OF_PIECE = 16  # what instructions put into a register of several such parts from memory


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
    looked_up = looked_up_along(body, variable) | looked_up_around(scope)
    for row in row_accesses(body, variable, scope.vector.width, looked_up):
        members = {id(statement) for statement in row}
        ordered = [statement for statement in body if id(statement) in members]
        rows[id(ordered[-1 if isinstance(ordered[0], Store) else 0])] = row
        together |= members
    return rows, frozenset(together)


def emit_row(scope: KernelScope, row: RowAccess) -> None:
    """Emit the loads, or the stores, of a group."""
    emit = _emit_stores if isinstance(row.members[0][0], Store) else _emit_loads
    for part in _parts(scope, row):
        emit(scope, part)


def _parts(scope: KernelScope, row: RowAccess) -> Iterator[RowAccess]:
    """Yield a run in pieces: those loaded are parts of registers, those stored up to halves.

    A result that no cache holds is stored by whole registers: a line that is written at once is not
    read before.
    """
    first = row.members[0][0]
    size = len(row.members)
    if row.is_run:
        itemsize = _dtype_of(first).itemsize
        least = max(1, BYTES_OF_PIECE // itemsize)
        if not isinstance(first, Store):
            size = min(least, size)
        elif scope.params[first.buffer].nbytes <= scope.target.memory.shared_bytes:
            size = min(max(least, scope.target.lanes(itemsize) // 2), size)
    for place in range(0, len(row.members), size):
        start = Index(row.start.const + place, row.start.terms)
        yield RowAccess(start, row.members[place : place + size], row.is_run)


def _dtype_of(access: Let | Store) -> DType:
    if isinstance(access, Store):
        return access.value.dtype
    assert isinstance(access.value, Load), "rows are loaded"
    return access.value.dtype


def _emit_loads(scope: KernelScope, row: RowAccess) -> None:
    """Load the elements of rows, and bind what each of the loads of `row` binds."""
    first = row.members[0][0]
    assert isinstance(first, Let), "rows are loaded"
    load, width = first.value, scope.vector.width
    assert isinstance(load, Load), "rows are loaded"
    size = len(row.members) if row.is_run else width
    memory = [
        scope.lanes(size).load(pointer, load.dtype, load.dtype.itemsize)
        for pointer in _pointers(scope, load.buffer, row)
    ]
    values = _turned(scope.builder, memory) if row.is_run else _dealt(scope.builder, memory)
    for value, members in zip(values, row.members, strict=True):
        for let in members:
            assert isinstance(let, Let), "rows are loaded"
            scope.values[let.name] = value, width


def _emit_stores(scope: KernelScope, row: RowAccess) -> None:
    """Store the elements of rows, all that the stores of `row` store."""
    width, builder = scope.vector.width, scope.builder
    stores = [members[0] for members in row.members]
    first = stores[0]
    assert isinstance(first, Store), "rows are stored"
    values = [emit_atom(scope, s.value, width) for s in stores if isinstance(s, Store)]
    dtype, size = first.value.dtype, len(values) if row.is_run else width
    memory = _pieces(builder, values, width) if row.is_run else _collected(builder, values, width)
    for lanes, pointer in zip(memory, _pointers(scope, first.buffer, row), strict=True):
        scope.lanes(size).store(lanes, pointer, dtype, dtype.itemsize)


def _pointers(scope: KernelScope, buffer: str, row: RowAccess) -> list[ir.Value]:
    """Return where the vectors of memory begin that hold the rows of all lanes.

    Of runs it is one for each lane.
    """
    variable, width = scope.vector.variable, scope.vector.width
    assert variable is not None, "rows are those of lanes"
    if row.is_run:
        return [emit_pointer(scope, buffer, row.start, lane) for lane in range(width)]
    places = (Index(row.start.const + width * n, row.start.terms) for n in range(len(row.members)))
    return [emit_pointer(scope, buffer, place) for place in places]


def _dealt(builder: ir.IRBuilder, memory: Sequence[ir.Value]) -> list[ir.Value]:
    """Return the vector of each element of rows that fill vectors of memory."""
    count, width = len(memory), memory[0].type.count
    orders = ([count * lane + number for lane in range(width)] for number in range(count))
    return [_taken(builder, memory, order) for order in orders]


def _collected(builder: ir.IRBuilder, values: Sequence[ir.Value], width: int) -> Iterator[ir.Value]:
    """Yield the vectors of memory that rows fill, of which there is a vector of each element."""
    count = len(values)
    for number in range(count):
        places = range(number * width, (number + 1) * width)
        yield _taken(builder, values, [place % count * width + place // count for place in places])


def _turned(builder: ir.IRBuilder, pieces: Sequence[ir.Value]) -> list[ir.Value]:
    """Return the vector of each element of runs, of which there is a piece of memory a lane."""
    size = pieces[0].type.count
    return transposed(builder, [joined(builder, pieces[n::size], size) for n in range(size)])


def _pieces(builder: ir.IRBuilder, values: Sequence[ir.Value], width: int) -> list[ir.Value]:
    """Return the run of each lane, given the vector of each element."""
    size = len(values)
    rows = transposed(builder, values)
    lanes = ((n % size, n - n % size) for n in range(width))
    return [part_of(builder, rows[row], start, size) for row, start in lanes]


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
