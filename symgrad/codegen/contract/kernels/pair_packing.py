"""Packing of bfloat16 in pairs of terms, as instructions that add up such pairs read it (VNNI).

A packed panel holds one chunk of terms after another, each as squares that lie beside each other
across the panel: `SIDE` elements across by as many pairs, every one a word of 32 bits. A row of a
square has the pairs of one element of the left, or one pair of all columns of the right. Terms that
a chunk lacks are zeros, and so are columns beyond a panel; rows beyond one have any values.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import INDEX, POINTER, Elements, counted_loop, index
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.kernels.pack import transpose
from symgrad.codegen.target import Target
from symgrad.graph.dtypes import int16
from symgrad.records import dataclass

SIDE = 16  # of a square
CHUNK = 2 * SIDE  # terms of a sum
AHEAD = 2 * CHUNK
_WORD = ir.IntType(32)
_HALF = ir.IntType(16)
_LINE = ir.VectorType(_WORD, SIDE)


@dataclass(frozen=True, slots=True)
class PairPacker:
    """What one packing function does: `count` elements across, of `padded` in whole squares.

    Elements lie `across` apart across the panel and `along` apart along k. The last block of k ends
    with `rest` terms that are no whole chunk. With `is_left` a row of a square is an element. What
    the processor does not fetch ahead is prefetched, `AHEAD` terms before.
    """

    count: int
    padded: int
    across: int
    along: int
    rest: int
    is_left: bool
    target: Target
    is_far: bool = False

    @property
    def elements(self) -> Elements:
        """The operand, whose values are only moved."""
        return Elements(int16, int16, self.target)


def emit_pair_packer(module: ir.Module, packer: PairPacker) -> ir.LLVMFunction:
    """Emit the function `(source, packed, k)` that packs `k` terms of a panel."""
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, INDEX])
    function = kernel_function(module, kind, "contract.pair_pack")
    source, packed, k = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    whole = builder.and_(k, index(-CHUNK))
    with counted_loop(builder, index(0), whole, CHUNK) as step:
        _emit_chunk(builder, packer, (source, packed), step, CHUNK)
    if packer.rest:
        with builder.if_then(builder.icmp_signed("<", whole, k)):
            _emit_chunk(builder, packer, (source, packed), whole, packer.rest)
    builder.ret_void()
    return function


def _emit_chunk(
    builder: ir.IRBuilder,
    packer: PairPacker,
    panels: tuple[ir.Value, ir.Value],
    step: ir.Value,
    terms: int,
) -> None:
    """Pack the chunk of `terms` that begins with the term `step`."""
    source, packed = panels
    elements = packer.elements
    base = elements.address(builder, source, builder.mul(step, index(packer.along)))
    # A term is half a pair.
    offset = builder.mul(step, index(packer.padded // 2))
    chunk = builder.gep(packed, [offset], source_etype=_WORD)
    if packer.is_far and packer.across == 1:
        _emit_prefetch_of_next(builder, packer, base)
    squares = packer.count // SIDE
    if squares:
        with counted_loop(builder, index(0), index(squares)) as number:
            _emit_square(builder, packer, (base, chunk), number, (SIDE, terms))
    if packer.count % SIDE:
        _emit_square(builder, packer, (base, chunk), index(squares), (packer.count % SIDE, terms))


def _emit_prefetch_of_next(builder: ir.IRBuilder, packer: PairPacker, base: ir.Value) -> None:
    """Prefetch the rows of a chunk to come, each of which lies on another line."""
    for term in range(AHEAD, AHEAD + CHUNK):
        place = packer.elements.address(builder, base, index(term * packer.along))
        packer.elements.prefetch(builder, place, packer.count)


def _emit_square(
    builder: ir.IRBuilder,
    packer: PairPacker,
    places: tuple[ir.Value, ir.Value],
    number: ir.Value,
    size: tuple[int, int],
) -> None:
    """Pack a square of a chunk: so many elements across, so many terms along k."""
    base, chunk = places
    across = builder.mul(number, index(SIDE * packer.across))
    source = packer.elements.address(builder, base, across)
    square = builder.gep(chunk, [builder.mul(number, index(SIDE * SIDE))], source_etype=_WORD)
    if 1 not in (packer.across, packer.along):
        _emit_one_by_one(builder, packer, (source, square), size)
        return
    is_by_element = packer.along == 1
    read = _read_elements if is_by_element else _read_pairs
    lines = read(builder, packer, source, size)
    if is_by_element != packer.is_left:
        lines = transpose(builder, lines, 4, packer.elements.target)
    used = size[0] if packer.is_left else SIDE
    for at, line in enumerate(lines[:used]):
        place = builder.gep(square, [index(at * SIDE)], source_etype=_WORD)
        builder.store(line, place, align=4 * SIDE)


def _read_elements(
    builder: ir.IRBuilder, packer: PairPacker, source: ir.Value, size: tuple[int, int]
) -> list[ir.Value]:
    """Return for each element across a line of its pairs, which lie side by side in memory."""
    count, terms = size
    elements = packer.elements
    lines: list[ir.Value] = [ir.Constant(_LINE, None)] * SIDE
    for at in range(count):
        place = elements.address(builder, source, index(at * packer.across))
        lines[at] = builder.bitcast(elements.load(builder, place, terms, CHUNK), _LINE)
    return lines


def _read_pairs(
    builder: ir.IRBuilder, packer: PairPacker, source: ir.Value, size: tuple[int, int]
) -> list[ir.Value]:
    """Return for each pair a line of the elements across, which lie side by side in memory."""
    count, terms = size
    elements = packer.elements

    def halves(term: int) -> ir.Value:
        if term >= terms:
            return ir.Constant(_LINE, None)
        place = elements.address(builder, source, index(term * packer.along))
        return builder.zext(elements.load(builder, place, count, SIDE), _LINE)

    sixteen = ir.Constant(_LINE, 16)
    return [
        builder.or_(halves(term), builder.shl(halves(term + 1), sixteen))
        for term in range(0, CHUNK, 2)
    ]


def _emit_one_by_one(
    builder: ir.IRBuilder,
    packer: PairPacker,
    places: tuple[ir.Value, ir.Value],
    size: tuple[int, int],
) -> None:
    """Pack a square of an operand that has no neighbours in memory."""
    source, square = places
    count, terms = size
    if terms < CHUNK or (count < SIDE and not packer.is_left):
        for at in range(SIDE):
            place = builder.gep(square, [index(at * SIDE)], source_etype=_WORD)
            builder.store(ir.Constant(_LINE, None), place, align=4 * SIDE)
    with (
        counted_loop(builder, index(0), index(count)) as element,
        counted_loop(builder, index(0), index(terms)) as term,
    ):
        across = builder.mul(element, index(packer.across))
        offset = builder.add(across, builder.mul(term, index(packer.along)))
        item = builder.load(packer.elements.address(builder, source, offset), typ=_HALF, align=2)
        pair = builder.lshr(term, index(1))
        row, column = (element, pair) if packer.is_left else (pair, element)
        word = builder.add(builder.mul(row, index(SIDE)), column)
        half = builder.add(builder.mul(word, index(2)), builder.and_(term, index(1)))
        builder.store(item, builder.gep(square, [half], source_etype=_HALF), align=2)
