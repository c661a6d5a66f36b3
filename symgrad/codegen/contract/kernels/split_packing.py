"""Packing in pairs of terms: for each two steps of k the elements across a panel, two terms each.

    a[k, 0]  a[k+1, 0]  a[k, 1]  a[k+1, 1]  ...

So the microkernel of split vectors reads the right where it does not lie so.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import (
    INDEX,
    POINTER,
    Elements,
    counted_loop,
    index,
    scalar_type,
)
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.kernels.pack import prefetch_next, transpose, transpose_sectors
from symgrad.codegen.contract.kernels.split import interleaved_steps
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class SplitPacker:
    """What one packing function does: `count` elements across, in whole vectors of `lanes`.

    Elements lie `across` apart across the panel and `along` apart along k; one of them is 1. `rest`
    terms, an even number, are no whole vector. What lies beyond the elements across is zero.
    Where lines are transposed, those `next_panel` elements further are prefetched, if it is not 0.
    """

    count: int
    across: int
    along: int
    rest: int
    lanes: int
    elements: Elements
    next_panel: int = 0

    @property
    def half(self) -> int:
        """Elements across in a vector."""
        return self.lanes // 2

    @property
    def pair_elements(self) -> int:
        """Elements of a packed pair of steps."""
        return -(-self.count // self.half) * self.lanes


def emit_split_packer(module: ir.Module, packer: SplitPacker) -> ir.LLVMFunction:
    """Emit the function `(source, packed, k)` that packs `k` terms of a panel."""
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, INDEX])
    function = kernel_function(module, kind, "contract.split_pack")
    source, packed, k = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    if packer.across == 1:
        with counted_loop(builder, index(0), k, 2) as step:
            _emit_pairs(builder, packer, (source, packed), step)
    else:
        whole = builder.and_(k, index(-packer.lanes))
        with counted_loop(builder, index(0), whole, packer.lanes) as step:
            _emit_squares(builder, packer, (source, packed), step, packer.lanes)
        if packer.rest:
            _emit_squares(builder, packer, (source, packed), whole, packer.rest)
    builder.ret_void()
    return function


def _emit_pairs(
    builder: ir.IRBuilder, packer: SplitPacker, panels: tuple[ir.Value, ir.Value], step: ir.Value
) -> None:
    """Interleave two steps of k whose elements lie side by side."""
    source, packed = panels
    elements = packer.elements
    terms = [builder.mul(builder.add(step, index(term)), index(packer.along)) for term in (0, 1)]
    for start in range(0, packer.count, packer.half):
        count = min(packer.half, packer.count - start)
        offsets = [builder.add(term, index(start)) for term in terms]
        places = [elements.address(builder, source, offset) for offset in offsets]
        values = interleaved_steps(builder, elements, places, count, packer.lanes)
        _store(builder, packer, packed, (step, 2 * start), values)


def _emit_squares(
    builder: ir.IRBuilder,
    packer: SplitPacker,
    panels: tuple[ir.Value, ir.Value],
    step: ir.Value,
    terms: int,
) -> None:
    """Transpose `terms` steps of k from `step` on, as pairs: squares of half a vector of these."""
    source, packed = panels
    elements, half = packer.elements, packer.half
    words = ir.VectorType(ir.DoubleType(), packer.lanes * elements.compute.itemsize // 8)
    vector = ir.VectorType(scalar_type(elements.compute), packer.lanes)
    for start in range(0, packer.count, half):
        lines: list[ir.Value] = [ir.Constant(words, None)] * half
        for number in range(min(half, packer.count - start)):
            across = builder.add(step, index((start + number) * packer.across))
            place = elements.address(builder, source, across)
            line = elements.load(builder, place, terms, packer.lanes)
            prefetch_next(builder, elements, place, packer.next_panel)
            lines[number] = builder.bitcast(line, words)
        # Pairs of doubles are sectors.
        turn = transpose if elements.compute.bits == 32 else transpose_sectors
        turned = turn(builder, lines, 2, elements.target)
        for pair, line in enumerate(turned[: terms // 2]):
            at = builder.add(step, index(2 * pair))
            _store(builder, packer, packed, (at, 2 * start), builder.bitcast(line, vector))


def _store(
    builder: ir.IRBuilder,
    packer: SplitPacker,
    packed: ir.Value,
    at: tuple[ir.Value, int],
    value: ir.Value,
) -> None:
    """Store a vector of a pair of steps, so many elements behind the first one."""
    step, start = at
    offset = builder.mul(step, index(packer.pair_elements // 2))
    place = packer.elements.address(builder, packed, builder.add(offset, index(start)))
    builder.store(value, place, align=packer.elements.target.vector_bytes)
