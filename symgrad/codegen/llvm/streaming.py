"""Non-temporal stores: vectors that go past the caches, into memory, where they are whole lines.

Which stores these are is in `program/stream_stacks.py`. Such a store does not read the line that it
writes. One that is not at the beginning of a line would fault, and where memory lies is known when
a kernel runs: so each vector looks, which a processor foresees.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import emit_streamed
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.loops.language import Stmt, Store
from symgrad.codegen.loops.rewrite import statements
from symgrad.graph.dtypes import DType

_I64 = ir.IntType(64)


def is_of_lines(scope: KernelScope, dtype: DType) -> bool:
    """Return whether a vector of `dtype` fills lines of the cache, all of them."""
    size = scope.vector.width * dtype.itemsize
    return scope.mask is None and size % scope.target.vector_bytes == 0 and not dtype.is_bool


def emit_streamed_store(
    scope: KernelScope, value: ir.Value, pointer: ir.Value, dtype: DType
) -> None:
    """Store a vector past the caches if a line begins at `pointer`, else as any other."""
    builder, line = scope.builder, scope.target.vector_bytes
    begin = builder.and_(builder.ptrtoint(pointer, _I64), _I64(line - 1))
    with builder.if_else(builder.icmp_signed("==", begin, _I64(0))) as (aligned, other):
        with aligned:
            builder.store(value, pointer, align=line, is_streamed=True)
        with other:
            scope.lanes(scope.vector.width).store(value, pointer, dtype, dtype.itemsize)


def emit_fence(scope: KernelScope, loop: Stmt) -> None:
    """Let what `loop` has stored past the caches be seen before what is stored from now on."""
    if any(isinstance(s, Store) and s.is_streamed for s in statements((loop,))):
        emit_streamed(scope.builder, scope.target)
