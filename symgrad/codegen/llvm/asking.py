"""Software prefetch in loops over rows: what the next row reads is asked for in this one."""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import prefetch
from symgrad.codegen.llvm.expressions import emit_pointer
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.loops.language import For
from symgrad.codegen.loops.next_rows import next_rows


def emit_asking(scope: KernelScope, loop: For) -> None:
    """Ask for the elements of the next row at the place of the vector that `loop` is at."""
    if not loop.asks or scope.around is None or scope.written_out is not None:
        return
    line = scope.target.memory.line_bytes
    for buffer, index in next_rows(scope.around, loop):
        # Behind the last row is the end of the buffer: nothing fails there, and nothing is read.
        pointer = emit_pointer(scope, buffer, index, is_inside=False)
        count = scope.vector.width * scope.params[buffer].dtype.itemsize
        for start in range(0, count, line):
            at = ir.Constant(ir.IntType(64), start)
            place = scope.builder.gep(pointer, [at], source_etype=ir.IntType(8))
            prefetch(scope.builder, place, is_write=False)
