"""Packing: a panel of an operand brought to the order the microkernel reads, converted on the way.

A packed panel holds for each step of k the elements across the panel, in whole vectors of the
computing dtype; lanes beyond the panel's elements are zero. The same three ways serve the left,
whose panels run across rows, and the right, whose panels run across columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from symgrad.codegen.contract.elements import (
    INDEX,
    POINTER,
    Elements,
    counted_loop,
    index,
    scalar_type,
    shuffle,
)
from symgrad.codegen.contract.plan import Packing


@dataclass(frozen=True, slots=True)
class PanelPacker:
    """What one packing function does: `count` elements across, `padded` of them in the result.

    Elements lie `across` apart across the panel and `along` apart along k. `tail` is the number of
    steps of k beyond whole vectors in the last block of k.
    """

    how: Packing
    count: int
    padded: int
    across: int
    along: int
    lanes: int
    tail: int
    elements: Elements


def emit_packer(module: ir.Module, packer: PanelPacker) -> ir.Function:
    """Emit the function `(source, packed, k)` that packs `k` steps of a panel."""
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, INDEX])
    function = ir.Function(module, kind, module.get_unique_name("contract.pack"))
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    source, packed, k = function.args
    source.add_attribute("noalias")
    packed.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    match packer.how:
        case "transpose" if packer.lanes <= 16:
            _emit_transposes(builder, packer, source, packed, k)
        case _:
            _emit_steps(builder, packer, source, packed, k)
    builder.ret_void()
    return function


def _emit_steps(
    builder: ir.IRBuilder, packer: PanelPacker, source: ir.Value, packed: ir.Value, k: ir.Value
) -> None:
    """Pack one step of k after the other, a vector at a time."""
    with counted_loop(builder, index(0), k) as step:
        base = packer.elements.address(builder, source, builder.mul(step, index(packer.along)))
        for start in range(0, packer.padded, packer.lanes):
            count = min(packer.lanes, packer.count - start)
            if count <= 0:
                value = ir.Constant(_vector(packer), None)
            elif packer.across == 1:
                place = packer.elements.address(builder, base, index(start))
                value = packer.elements.load(builder, place, count, packer.lanes)
            else:
                place = packer.elements.address(builder, base, index(start * packer.across))
                value = packer.elements.gather(builder, place, packer.across, count, packer.lanes)
            _store(builder, packer, packed, step, start, value)


def _emit_transposes(
    builder: ir.IRBuilder, packer: PanelPacker, source: ir.Value, packed: ir.Value, k: ir.Value
) -> None:
    """Pack squares of `lanes` steps of k by `lanes` elements across, and what is left of k."""
    lanes = packer.lanes
    whole = builder.and_(k, index(-lanes))
    with counted_loop(builder, index(0), whole, lanes) as step:
        _emit_squares(builder, packer, source, packed, step, lanes)
    if packer.tail:
        # Only the last block of k is not a whole number of vectors, and its rest is known.
        with builder.if_then(builder.icmp_signed("<", whole, k)):
            _emit_squares(builder, packer, source, packed, whole, packer.tail)


def _emit_squares(
    builder: ir.IRBuilder,
    packer: PanelPacker,
    source: ir.Value,
    packed: ir.Value,
    step: ir.Value,
    steps: int,
) -> None:
    base = packer.elements.address(builder, source, step)
    for start in range(0, packer.padded, packer.lanes):
        lines = []
        for row in range(start, start + packer.lanes):
            if row < packer.count:
                place = packer.elements.address(builder, base, index(row * packer.across))
                lines.append(packer.elements.load(builder, place, steps, packer.lanes))
            else:
                lines.append(ir.Constant(_vector(packer), None))
        turned = transpose(builder, lines, 16 // packer.elements.compute.itemsize)
        for offset, value in enumerate(turned[:steps]):
            at = builder.add(step, index(offset))
            _store(builder, packer, packed, at, start, value)


def transpose(builder: ir.IRBuilder, lines: list[ir.Value], sector: int) -> list[ir.Value]:
    """Return the columns of a square of vectors.

    First squares of `sector` elements (128 bits) are transposed within each 128 bits, then the
    sectors between vectors: shuffles that are single instructions on every machine.
    """
    lanes = len(lines)
    groups = [
        _interleave(builder, lines[start : start + sector], sector)
        for start in range(0, lanes, sector)
    ]
    # Now group g, vector c, sector s holds column s * sector + c of the rows of group g.
    columns: list[list[ir.Value]] = [
        _deal(builder, [group[c] for group in groups], sector) for c in range(sector)
    ]
    return [columns[i % sector][i // sector] for i in range(lanes)]


def _interleave(builder: ir.IRBuilder, lines: list[ir.Value], sector: int) -> list[ir.Value]:
    """Transpose the squares of `sector` elements that lie side by side in `lines`."""
    lanes = lines[0].type.count
    low, high = [], []
    for start in range(0, lanes, sector):
        for i in range(start, start + sector // 2):
            low += [i, lanes + i]
            high += [i + sector // 2, lanes + i + sector // 2]
    width = sector
    while width > 1:
        half = len(lines) // 2
        pairs = list(zip(lines[:half], lines[half:], strict=True))
        lines = [shuffle(builder, a, b, mask) for a, b in pairs for mask in (low, high)]
        width //= 2
    return lines


def _deal(builder: ir.IRBuilder, lines: list[ir.Value], sector: int) -> list[ir.Value]:
    """Transpose a square of sectors: vector i of the result is sector i of each line."""
    if len(lines) == 1:
        return lines
    lanes = lines[0].type.count
    starts = range(0, 2 * lanes, 2 * sector)
    even = [start + i for start in starts for i in range(sector)]
    odd = [start + sector + i for start in starts for i in range(sector)]
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    evens = _deal(builder, [shuffle(builder, a, b, even) for a, b in pairs], sector)
    odds = _deal(builder, [shuffle(builder, a, b, odd) for a, b in pairs], sector)
    return [line for pair in zip(evens, odds, strict=True) for line in pair]


def _vector(packer: PanelPacker) -> ir.Type:
    return ir.VectorType(scalar_type(packer.elements.compute), packer.lanes)


def _store(
    builder: ir.IRBuilder,
    packer: PanelPacker,
    packed: ir.Value,
    step: ir.Value,
    start: int,
    value: ir.Value,
) -> None:
    offset = builder.add(builder.mul(step, index(packer.padded)), index(start))
    place = builder.gep(packed, [offset], source_etype=scalar_type(packer.elements.compute))
    builder.store(value, place, align=packer.elements.target.vector_bytes)
