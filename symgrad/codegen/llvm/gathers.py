"""Gathers in LLVM IR: a vector of elements that lie apart, loaded by one instruction where it can.

Where a target has none, LLVM loads and inserts them one by one. What an index is, is in
`expressions.py`.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import declare
from symgrad.codegen.llvm.lanes import Lanes, memory_type
from symgrad.codegen.llvm.math.values import type_suffix
from symgrad.codegen.vectors import vector_type
from symgrad.graph.dtypes import DType

SMALLEST_GATHERED = 4  # bytes of an element: a gather takes four or eight


def emit_gather(lanes: Lanes, start: ir.Value, places: ir.Value, dtype: DType) -> ir.Value:
    """Load the element of each lane, so many behind `start`."""
    builder, kind = lanes.builder, memory_type(dtype)
    pointer = builder.gep(start, [places], inbounds=True, source_etype=kind)
    if lanes.width == 1:
        return lanes.load(pointer, dtype, dtype.itemsize)
    loaded = vector_type(kind, lanes.width)
    name = f"llvm.masked.gather.{type_suffix(loaded)}.v{lanes.width}p0"
    everywhere = ir.Constant(ir.VectorType(ir.IntType(1), lanes.width), 1)
    nothing = ir.Constant(loaded, None)
    gather = declare(builder.module, name, loaded, [pointer.type, everywhere.type, nothing.type])
    return builder.call(gather, [pointer, everywhere, nothing])
