"""Shuffles: vectors put together from elements and from lanes of other vectors.

Arithmetic on lanes is in `lanes.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

_I32 = ir.IntType(32)


def gathered(builder: ir.IRBuilder, elements: Sequence[ir.Value]) -> ir.Value:
    """Return a vector of `elements`, of which there is at least one."""
    kind = ir.VectorType(elements[0].type, len(elements))
    vector: ir.Value = ir.Constant(kind, ir.Undefined)
    for lane, element in enumerate(elements):
        vector = builder.insert_element(vector, element, _I32(lane))
    return vector


def shuffled(builder: ir.IRBuilder, vectors: Sequence[ir.Value], lanes: Sequence[int]) -> ir.Value:
    """Return some lanes of one or two vectors, those of the second behind those of the first."""
    first, *second = vectors
    other = second[0] if second else ir.Constant(first.type, ir.Undefined)
    order = ir.Constant(ir.VectorType(_I32, len(lanes)), list(lanes))
    return builder.shuffle_vector(first, other, order)


def lanes_of(builder: ir.IRBuilder, value: ir.Value) -> list[ir.Value]:
    """Return the elements of a vector; a scalar is its only one."""
    if not isinstance(value.type, ir.VectorType):
        return [value]
    return [builder.extract_element(value, _I32(lane)) for lane in range(value.type.count)]
