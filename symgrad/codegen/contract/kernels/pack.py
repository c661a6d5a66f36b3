"""Packing: a panel of an operand brought to the order the microkernel reads, converted on the way.

A packed panel holds for each step of k the elements across the panel, in whole vectors of the
computing dtype; lanes beyond the panel's elements are zero. The same ways serve the left, whose
panels run across rows, and the right, whose panels run across columns. Only for kernels whose lanes
run along k a packed panel holds its lines one after the other instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import (
    INDEX,
    POINTER,
    Elements,
    counted_loop,
    final_loop,
    index,
    multiply_add,
    prefetch,
    scalar_type,
)
from symgrad.codegen.contract.kernels.assembled_squares import (
    can_load_halves,
    emit_halves,
    emit_square,
    is_assembled_square,
)
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.methods import Packing
from symgrad.codegen.target import Target
from symgrad.codegen.vectors import shuffled
from symgrad.records import dataclass

_SEARCHED = 8  # lanes: the shuffles of smaller squares are few
_CHAINS = 4  # of additions of zeros, in turns: as many as the latency of one is cycles


@dataclass(frozen=True, slots=True)
class PanelPacker:
    """What one packing function does: `count` elements across, `padded` of them in the result.

    Elements lie `across` apart across the panel and `along` apart along k. No block of k has
    less than `fewest` steps; it is below `lanes` only if k is. Packed lines are `line` apart.
    What the processor does not fetch ahead is prefetched `ahead` steps before, if not 0. One that
    `is_told_apart` has how far lines are apart as an argument, and 0 here: along k if it copies
    them, else across. One that
    `sees_zeros` adds 0 times all it packs to a vector: nan, if not all is finite. Where lines are
    transposed, those `next_panel` elements further are prefetched, if it is not 0.
    """

    how: Packing
    count: int
    padded: int
    across: int
    along: int
    lanes: int
    fewest: int
    line: int
    elements: Elements
    ahead: int = 0
    next_panel: int = 0
    sees_zeros: bool = False

    @property
    def is_told_apart(self) -> bool:
        return self.how in ("copy", "transpose")


@dataclass(frozen=True, slots=True)
class _Panel:
    """Where a panel is packed, and the places where 0 times its elements is added up, if it is.

    Lines of the operand are `apart`.
    """

    packed: ir.Value
    apart: ir.Value
    zeros: tuple[ir.Value, ...] = ()


def emit_packer(module: ir.Module, packer: PanelPacker) -> ir.LLVMFunction:
    """Emit the function `(source, packed, k)` that packs `k` steps of a panel.

    One that `sees_zeros` takes the place of that vector as well, and one that `is_told_apart` that.
    """
    kinds = [POINTER, POINTER, INDEX, *[POINTER] * packer.sees_zeros]
    kinds += [INDEX] * packer.is_told_apart
    kind = ir.FunctionType(ir.VoidType(), kinds)
    function = kernel_function(module, kind, "contract.pack")
    source, packed, k, *seen = function.args
    apart = seen.pop() if packer.is_told_apart else index(packer.along)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    panel = _Panel(packed, apart, _begin_chains(builder, packer))
    match packer.how:
        case "lines":
            _emit_lines(builder, packer, source, panel, k)
        case "transpose":
            _emit_transposes(builder, packer, source, panel, k)
        case _:
            _emit_steps(builder, packer, source, panel, k)
    for total in seen:
        _emit_total(builder, packer, panel, total)
    builder.ret_void()
    return function


def _begin_chains(builder: ir.IRBuilder, packer: PanelPacker) -> tuple[ir.Value, ...]:
    """Return places for sums of zeros, which LLVM keeps in registers: what memory has waits."""
    if not packer.sees_zeros:
        return ()
    places = tuple(builder.alloca(_vector(packer)) for _ in range(_CHAINS))
    for place in places:
        builder.store(ir.Constant(_vector(packer), None), place)
    return places


def _emit_total(builder: ir.IRBuilder, packer: PanelPacker, panel: _Panel, place: ir.Value) -> None:
    """Add the sums of zeros of a panel to the vector at `place`."""
    align = packer.elements.target.vector_bytes
    total = builder.load(place, typ=_vector(packer), align=align)
    for chain in panel.zeros:
        total = builder.fadd(total, builder.load(chain, typ=_vector(packer)))
    builder.store(total, place, align=align)


def _emit_steps(
    builder: ir.IRBuilder, packer: PanelPacker, source: ir.Value, panel: _Panel, k: ir.Value
) -> None:
    """Pack one step of k after the other, a vector at a time."""
    with counted_loop(builder, index(0), k) as step:
        base = packer.elements.address(builder, source, builder.mul(step, panel.apart))
        if packer.ahead and packer.across == 1:
            further = builder.mul(panel.apart, index(packer.ahead))
            later = packer.elements.address(builder, base, further)
            packer.elements.prefetch(builder, later, packer.count)
        first = _packed_place(builder, packer, panel, (step, index(0)))
        for start in range(0, packer.count, packer.lanes):
            count = min(packer.lanes, packer.count - start)
            if packer.across == 1:
                place = packer.elements.address(builder, base, index(start))
                value = packer.elements.load(builder, place, count, _width(packer, count))
            else:
                place = packer.elements.address(builder, base, index(start * packer.across))
                value = packer.elements.gather(builder, place, packer.across, count, packer.lanes)
            _store(builder, packer, panel, (first, start), value, start // packer.lanes)


def _width(packer: PanelPacker, count: int) -> int:
    """Return the width of the vector that copies `count` elements: a short one crosses no line."""
    if packer.padded > packer.count or packer.sees_zeros:
        return packer.lanes
    return min(packer.lanes, 1 << (count - 1).bit_length())


def _emit_transposes(
    builder: ir.IRBuilder, packer: PanelPacker, source: ir.Value, panel: _Panel, k: ir.Value
) -> None:
    """Pack squares of `lanes` steps of k by `lanes` elements across."""
    lanes = packer.lanes
    if packer.fewest < lanes:
        _emit_squares(builder, packer, source, panel, index(0), packer.fewest)
        return
    last = builder.sub(k, index(lanes))
    with final_loop(builder, index(0), k, lanes) as step:
        # The last square reaches back into the one before it, rather than beyond the operand.
        is_inside = builder.icmp_signed("<", step, last)
        at = builder.select(is_inside, step, last)
        _emit_squares(builder, packer, source, panel, at, lanes)


def _emit_squares(
    builder: ir.IRBuilder,
    packer: PanelPacker,
    source: ir.Value,
    panel: _Panel,
    step: ir.Value,
    steps: int,
) -> None:
    """Transpose the squares across a panel, at `steps` steps of k from `step` on."""
    whole = packer.count // packer.lanes * packer.lanes
    base = packer.elements.address(builder, source, step)
    if whole:
        with final_loop(builder, index(0), index(whole), packer.lanes) as start:
            _emit_square(builder, packer, base, panel, (step, steps), (start, packer.lanes))
    if whole < packer.count:
        rest = index(whole), packer.count - whole
        _emit_square(builder, packer, base, panel, (step, steps), rest)


def _emit_square(
    builder: ir.IRBuilder,
    packer: PanelPacker,
    base: ir.Value,
    panel: _Panel,
    along: tuple[ir.Value, int],
    across: tuple[ir.Value, int],
) -> None:
    """Transpose one square: its place and its size, along k and across the panel."""
    (step, steps), (start, count) = along, across
    corner = packer.elements.address(builder, base, builder.mul(start, panel.apart))
    places = [corner]
    for _ in range(1, count):
        places.append(packer.elements.address(builder, places[-1], panel.apart))
    if steps == packer.lanes and can_load_halves(packer.elements, packer.lanes):
        turned = emit_halves(builder, corner, panel.apart, count, packer.elements)
    else:
        turned = _turned(builder, packer, places, steps)
    for place in places:
        prefetch_next(builder, packer.elements, place, packer.next_panel)
    first = _packed_place(builder, packer, panel, (step, start))
    for offset, value in enumerate(turned[:steps]):
        _store(builder, packer, panel, (first, offset * packer.padded), value, offset)


def _turned(
    builder: ir.IRBuilder, packer: PanelPacker, places: Sequence[ir.Value], steps: int
) -> list[ir.Value]:
    """Return the columns of the square whose lines are at `places`, each of them loaded whole."""
    nothing: ir.Value = ir.Constant(_vector(packer), None)
    lines = [packer.elements.load(builder, place, steps, packer.lanes) for place in places]
    lines += [nothing] * (packer.lanes - len(lines))
    dtype, target = packer.elements.compute, packer.elements.target
    if is_assembled_square(lines, dtype, target):
        return emit_square(builder, lines, dtype, target)
    return transpose(builder, lines, 16 // dtype.itemsize, target)


def prefetch_next(
    builder: ir.IRBuilder, elements: Elements, place: ir.Value, distance: int
) -> None:
    """Prefetch the line so many elements behind one that is read, if that is not 0."""
    if distance:
        later = elements.address(builder, place, index(distance))
        prefetch(builder, later, is_write=False)


def _emit_lines(
    builder: ir.IRBuilder, packer: PanelPacker, source: ir.Value, panel: _Panel, k: ir.Value
) -> None:
    """Copy each line of the panel, element by element, to where it is contiguous along k."""
    kind = scalar_type(packer.elements.compute)
    with (
        counted_loop(builder, index(0), index(packer.count)) as line,
        counted_loop(builder, index(0), k) as step,
    ):
        across = builder.mul(line, index(packer.across))
        place = builder.add(across, builder.mul(step, index(packer.along)))
        item = packer.elements.load(builder, packer.elements.address(builder, source, place), 1, 1)
        offset = builder.add(builder.mul(line, index(packer.line)), step)
        target = builder.gep(panel.packed, [offset], source_etype=kind)
        builder.store(item, target, align=packer.elements.compute.itemsize)


def transpose(
    builder: ir.IRBuilder, lines: list[ir.Value], sector: int, target: Target
) -> list[ir.Value]:
    """Return the columns of a square of vectors.

    First squares of `sector` elements (128 bits) are transposed within each 128 bits, then the
    sectors between vectors: shuffles that are single instructions on every machine.
    """
    lanes = len(lines)
    groups = [
        _interleave(builder, lines[start : start + sector], sector, target)
        for start in range(0, lanes, sector)
    ]
    # Now group g, vector c, sector s holds column s * sector + c of the rows of group g.
    columns: list[list[ir.Value]] = [
        transpose_sectors(builder, [group[c] for group in groups], sector, target)
        for c in range(sector)
    ]
    return [columns[i % sector][i // sector] for i in range(lanes)]


def _interleave(
    builder: ir.IRBuilder, lines: list[ir.Value], sector: int, target: Target
) -> list[ir.Value]:
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
        lines = [shuffled(builder, [a, b], mask) for a, b in pairs for mask in (low, high)]
        lines = as_they_are(builder, lines, target)
        width //= 2
    return lines


def transpose_sectors(
    builder: ir.IRBuilder, lines: list[ir.Value], sector: int, target: Target
) -> list[ir.Value]:
    """Transpose a square of sectors: vector i of the result is sector i of each line."""
    if len(lines) == 1:
        return lines
    lanes = lines[0].type.count
    starts = range(0, 2 * lanes, 2 * sector)
    even = [start + i for start in starts for i in range(sector)]
    odd = [start + sector + i for start in starts for i in range(sector)]
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    halves = [[shuffled(builder, [a, b], mask) for a, b in pairs] for mask in (even, odd)]
    if len(pairs) > 1:
        halves = [as_they_are(builder, half, target) for half in halves]
    evens, odds = [transpose_sectors(builder, half, sector, target) for half in halves]
    return [line for pair in zip(evens, odds, strict=True) for line in pair]


def as_they_are(builder: ir.IRBuilder, vectors: list[ir.Value], target: Target) -> list[ir.Value]:
    """Return vectors that LLVM is not to look through when it looks for fewer shuffles.

    It does that for each shuffle, through both operands of those before it: for a square of 16 rows
    half of the time it takes to compile, and finds nothing where each is one instruction.
    """
    return vectors if vectors[0].type.count < _SEARCHED else in_registers(builder, vectors, target)


def in_registers(builder: ir.IRBuilder, vectors: list[ir.Value], target: Target) -> list[ir.Value]:
    """Return vectors of which LLVM is to know nothing but that they are in registers."""
    kind = vectors[0].type
    if target.register_constraint is None:
        return vectors
    same, constraints = ir.FunctionType(kind, [kind]), f"={target.register_constraint},0"
    return [builder.asm(same, "", constraints, [v], side_effect=False) for v in vectors]


def _vector(packer: PanelPacker) -> ir.Type:
    return ir.VectorType(scalar_type(packer.elements.compute), packer.lanes)


def _packed_place(
    builder: ir.IRBuilder, packer: PanelPacker, panel: _Panel, at: tuple[ir.Value, ir.Value]
) -> ir.Value:
    """Return where a packed panel has a step of k and a place across."""
    step, start = at
    offset = builder.add(builder.mul(step, index(packer.padded)), start)
    kind = scalar_type(packer.elements.compute)
    return builder.gep(panel.packed, [offset], source_etype=kind)


def _store(
    builder: ir.IRBuilder,
    packer: PanelPacker,
    panel: _Panel,
    at: tuple[ir.Value, int],
    value: ir.Value,
    turn: int,
) -> None:
    """Store a vector so many elements behind a place.

    Steps are stored in ascending order: where panels are narrower than a vector, each store
    overwrites the spare lanes of the one before.
    """
    first, offset = at
    place = builder.gep(first, [index(offset)], source_etype=scalar_type(packer.elements.compute))
    is_aligned = packer.padded % packer.lanes == 0
    align = packer.elements.target.vector_bytes if is_aligned else packer.elements.compute.itemsize
    builder.store(value, place, align=align)
    if panel.zeros:
        chain = panel.zeros[turn % _CHAINS]
        seen = builder.load(chain, typ=_vector(packer))
        nothing = ir.Constant(_vector(packer), None)
        seen = multiply_add(builder, packer.elements.compute, value, nothing, seen)
        builder.store(seen, chain)
