"""SIMD vectors in LLVM IR: their types, broadcasts and shuffles.

What is put together here are lanes, whatever they hold. Arithmetic on them is in
`llvm/lanes.py`, their conversions in `contract/elements.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from symgrad.codegen import ir

_I32 = ir.IntType(32)


@lru_cache(maxsize=1024)  # a type keeps its text
def vector_type(element: ir.Type, width: int) -> ir.Type:
    """Return `<width x element>`, or `element` itself when `width` is 1."""
    return element if width == 1 else ir.VectorType(element, width)


def splat(builder: ir.IRBuilder, scalar: ir.Value, width: int) -> ir.Value:
    """Broadcast `scalar` to a vector of `width` lanes."""
    if width == 1:
        return scalar
    nothing = ir.Constant(ir.VectorType(scalar.type, width), ir.Undefined)
    first = builder.insert_element(nothing, scalar, _I32(0))
    return shuffled(builder, [first], (0,) * width)


def first_lanes(builder: ir.IRBuilder, count: ir.Value, width: int) -> ir.Value:
    """Return a mask of the first `count` of `width` lanes, of all of them if it is more."""
    lanes = ir.Constant(ir.VectorType(_I32, width), list(range(width)))
    some = splat(builder, builder.trunc(count, _I32), width)
    return builder.icmp_signed("<", lanes, some)


def masked_load(builder: ir.IRBuilder, kind: ir.Type, place: ir.Value, mask: ir.Value) -> ir.Value:
    """Return the lanes of a vector in memory that are in a mask, and 0 in the others."""
    load = _of_masked(builder, "load", kind, kind, [place.type, mask.type, kind])
    return builder.call(load, [place, mask, ir.Constant(kind, None)])


def masked_store(builder: ir.IRBuilder, value: ir.Value, place: ir.Value, mask: ir.Value) -> None:
    """Store the lanes of a vector that are in a mask."""
    takes = [value.type, place.type, mask.type]
    builder.call(
        _of_masked(builder, "store", value.type, ir.VoidType(), takes), [value, place, mask]
    )


def _of_masked(
    builder: ir.IRBuilder, name: str, kind: ir.Type, result: ir.Type, takes: list[ir.Type]
) -> ir.LLVMFunction:
    """Return LLVM's function of vectors under a mask, declared if it is not there."""
    assert isinstance(kind, ir.VectorType), f"{kind} has no lanes"
    module, element = builder.module, kind.element.text
    element = {"float": "f32", "double": "f64"}.get(element, element)
    name = f"llvm.masked.{name}.v{kind.count}{element}.p0"
    known = module.globals.get(name)
    return known or ir.LLVMFunction(module, ir.FunctionType(result, takes), name)


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
    return builder.shuffle_vector(first, other, _order(tuple(lanes)))


def part_of(builder: ir.IRBuilder, vector: ir.Value, start: int, width: int) -> ir.Value:
    """Return lanes of a vector that lie beside each other, from `start` on."""
    if width == 1:
        return builder.extract_element(vector, _I32(start))
    return shuffled(builder, [vector], range(start, start + width))


def moved_lanes(
    builder: ir.IRBuilder,
    incoming: Sequence[ir.Value],
    vectors: Sequence[ir.Value],
    distance: int,
) -> list[ir.Value]:
    """Return vectors with each lane moved to a later one, lanes of `incoming` ones before them."""
    width = vectors[0].type.count
    order = [*range(width - distance, width), *range(width, 2 * width - distance)]
    pairs = zip(incoming, vectors, strict=True)
    return [shuffled(builder, [before, lanes], order) for before, lanes in pairs]


def last_lane(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return the last lane of a vector in every lane."""
    width = lanes.type.count
    return shuffled(builder, [lanes], [width - 1] * width)


def transposed(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Return the columns of squares of vectors: of as many lanes as there are rows, a power of two.

    Vectors of more lanes are squares beside each other. In each step the two off-diagonal squares
    of all squares of twice their size change places.
    """
    kind = rows[0].type
    width = kind.count if isinstance(kind, ir.VectorType) else 1
    result = list(rows)
    half = 1
    while half < len(rows):
        low = [n - half + width if n & half else n for n in range(width)]
        high = [n + width if n & half else n + half for n in range(width)]
        for number in range(len(rows)):
            if not number & half:
                pair = [result[number], result[number + half]]
                result[number] = shuffled(builder, pair, low)
                result[number + half] = shuffled(builder, pair, high)
        half *= 2
    return result


def joined(builder: ir.IRBuilder, vectors: Sequence[ir.Value], width: int) -> ir.Value:
    """Return vectors of `width` lanes, a power of two of them, beside each other."""
    result = list(vectors)
    while len(result) > 1:
        width *= 2
        pairs = zip(result[::2], result[1::2], strict=True)
        result = [shuffled(builder, pair, range(width)) for pair in pairs]
    return result[0]


def all_of(builder: ir.IRBuilder, holds: ir.Value) -> ir.Value:
    """Return whether a condition holds in every lane."""
    if not isinstance(holds.type, ir.VectorType):
        return holds
    bits = ir.IntType(holds.type.count)
    return builder.icmp_unsigned("==", builder.bitcast(holds, bits), bits(-1))


def first_without(builder: ir.IRBuilder, holds: ir.Value, vector: ir.Value) -> ir.Value:
    """Return the first lane in which a condition does not hold, the last if it holds in all."""
    if not isinstance(holds.type, ir.VectorType):
        return vector
    *before, last = elements_of(builder, vector)
    found = last
    for lane, value in reversed([*enumerate(before)]):
        found = builder.select(builder.extract_element(holds, _I32(lane)), found, value)
    return found


@lru_cache(maxsize=1024)
def _order(lanes: tuple[int, ...]) -> ir.Constant:
    kind = ir.VectorType(_I32, len(lanes))
    return ir.Constant(kind, list(lanes)) if any(lanes) else ir.Constant(kind, None)


def elements_of(builder: ir.IRBuilder, value: ir.Value) -> list[ir.Value]:
    """Return the elements of a vector; a scalar is its only one."""
    if not isinstance(value.type, ir.VectorType):
        return [value]
    return [builder.extract_element(value, _I32(lane)) for lane in range(value.type.count)]
