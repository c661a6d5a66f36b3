"""Software prefetch in loops: lines of the next row, or of the next page, are asked for."""

from __future__ import annotations

from dataclasses import replace

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import prefetch
from symgrad.codegen.llvm.expressions import emit_pointer
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.loops.language import For, Index
from symgrad.codegen.loops.next_pages import rows_written, walks
from symgrad.codegen.loops.next_rows import next_rows


def emit_asking(scope: KernelScope, loop: For) -> None:
    """Ask for what comes next at the place of the vector that `loop` is at, if it asks for it.

    That is the same place of the next row of the loop around, which is read over and over, and so
    is to be in the nearest cache; or, with no loop around, what is a page further. A loop without
    vectors asks for the rows that are written a page further.
    """
    if not loop.asks or scope.written_out is not None:
        return
    if loop.vector == 1:
        _ask_for_rows(scope, loop)
        return
    if scope.vector.width == 1:
        return
    if scope.around is not None:
        for buffer, index in next_rows(scope.around, loop):
            _ask_for(scope, buffer, index, is_near=True)
        return
    asked = set()
    for buffer, index in walks(loop):
        itemsize = scope.params[buffer].dtype.itemsize
        further = index.const + scope.target.memory.page_bytes // itemsize
        line = buffer, index.terms, further * itemsize // scope.target.memory.line_bytes
        if line not in asked:
            asked.add(line)
            _ask_for(scope, buffer, replace(index, const=further), is_near=False)


def _ask_for_rows(scope: KernelScope, loop: For) -> None:
    """Ask for as many elements as an iteration writes of each buffer, from a page further on."""
    for buffer, row in rows_written(loop).items():
        ahead = scope.target.memory.page_bytes // scope.params[buffer].dtype.itemsize
        index = Index(ahead, ((loop.var, row),))
        _ask_for(scope, buffer, index, is_near=False, count=row)


def _ask_for(
    scope: KernelScope, buffer: str, index: Index, *, is_near: bool, count: int | None = None
) -> None:
    """Ask the nearest cache, or the next one, for the lines of some elements, else of a vector."""
    # Behind the last row or page is the end of the buffer: nothing fails there, or is read.
    pointer = emit_pointer(scope, buffer, index, is_inside=False)
    elements = scope.vector.width if count is None else count
    nbytes = elements * scope.params[buffer].dtype.itemsize
    for start in range(0, nbytes, scope.target.memory.line_bytes):
        at = ir.Constant(ir.IntType(64), start)
        place = scope.builder.gep(pointer, [at], source_etype=ir.IntType(8))
        prefetch(scope.builder, place, is_write=False, is_near=is_near)
