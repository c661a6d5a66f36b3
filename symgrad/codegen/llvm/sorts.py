"""Emission of the sort statement, and the scratch memory of what has a generator of its own."""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.llvm.expressions import emit_pointer
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.loops.language import SortRows

_I64 = ir.IntType(64)


def scratch_of_part(scope: KernelScope, name: str | None, size: int) -> ir.Value | None:
    """Return the address of the scratch memory of the part that is emitted."""
    if name is None:
        return None
    scratch = scope.buffers[name]
    if scope.part is None:
        return scratch
    # What runs several parts runs them one after the other.
    offset = scope.builder.mul(scope.part[0], _I64(size))
    return scope.builder.gep(scratch, [offset], source_etype=ir.IntType(8))


def emit_sort_rows(scope: KernelScope, sort: SortRows) -> None:
    """Emit a sort of all rows, or of those of the part that is emitted."""
    # A fifteenth of the compiler's files, which no program without a sort needs.
    from symgrad.codegen.sorting.emit import emit_sort

    builder = scope.builder
    scratch = scratch_of_part(scope, sort.scratch, sort.scratch_bytes)
    assert scratch is not None, "a sort has scratch memory"
    rows: tuple[ir.Value, ir.Value] = _I64(0), _I64(sort.rows)
    if scope.part is not None and sort.parallel is not None:
        start, end = (builder.mul(number, _I64(sort.parallel)) for number in scope.part)
        is_inside = builder.icmp_signed("<", end, _I64(sort.rows))
        rows = start, builder.select(is_inside, end, _I64(sort.rows))
    source = emit_pointer(scope, sort.source.buffer, sort.source.index)
    result = emit_pointer(scope, sort.result.buffer, sort.result.index)
    emit_sort(builder, sort, scope.target, source, result, scratch, rows)
