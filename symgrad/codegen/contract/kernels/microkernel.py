"""Register blocking: the GEMM microkernel holds one tile of sums in registers while k runs.

It is one straight loop of explicit vector code, and stores the sums in the end; a plain one of
x86-64 is assembly (`assembled.py`). It knows nothing of blocks or results: a tile is a small
matrix of the computing dtype, on the stack or among the partial sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import (
    INDEX,
    POINTER,
    index,
)
from symgrad.codegen.contract.kernels.assembled import emit_assembled, is_assembled
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.kernels.next_panel import NextPanel
from symgrad.codegen.contract.kernels.prefetching import (
    Met,
    PrefetchedResults,
    emit_prefetch_of_next,
    prefetched_further,
)
from symgrad.codegen.contract.kernels.register_tile import Microkernel
from symgrad.codegen.contract.kernels.spans import TermSpan, emit_inside, emit_next
from symgrad.codegen.contract.kernels.steps import either, emit_step, emit_steps
from symgrad.codegen.contract.kernels.stored_tile import (
    StoredTile,
    emit_tile,
    places_in_tile,
)
from symgrad.codegen.contract.kernels.walking import (
    Walk,
    next_row,
    walk_of,
)
from symgrad.cost_model.products import EARLY_PIECES
from symgrad.records import replace


class _Pieces(NamedTuple):
    """The steps of k of a call: the first, how many there are, and which of inner digits."""

    first: ir.Value
    total: ir.Value
    within: tuple[TermSpan, ...]


def emit_microkernel(module: ir.Module, kernel: Microkernel) -> ir.LLVMFunction:
    """Emit the function `(left, right, tile, k, resume)` that adds up `k` products in a tile.

    Where k is in pieces it has one argument more, the first step of k, and one for each distance
    that it is told. One that prefetches the next tile or panel has another, where that begins, or
    one for each operand. One that prefetches what the next epilogue meets has a table of it and the
    number of its last entry. One that packs rows of the next panel has three places, and the step
    of k before which it does so. For each inner border come two more, from which to which step of
    its digit terms are needed. The last ones of a kernel that packs say where, and how far rows of
    the right are apart.
    """
    kinds = [POINTER, POINTER, POINTER, INDEX, ir.IntType(1)]
    kinds += [INDEX] * ((kernel.piece is not None) + len(kernel.told))
    kinds += [POINTER] * kernel.places_prefetched + [INDEX] * kernel.packs_next
    is_told = kernel.steps_a_row > 0 and not kernel.prefetches_results
    kinds += [POINTER, INDEX] * is_told
    kinds += [INDEX, INDEX] * len(kernel.inner) + [POINTER, INDEX] * kernel.packs
    kind = ir.FunctionType(ir.VoidType(), kinds)
    function = kernel_function(module, kind, "contract.tile")
    left, right, place, k, resume, *rest = function.args
    right_k = rest.pop() if kernel.packs else None
    packed = rest.pop() if kernel.packs else None
    within = [rest.pop() for _ in range(2 * len(kernel.inner))][::-1]
    met = None
    if is_told:
        *rest, table, last = rest
        met = Met(table, last)
    packs_until = rest.pop() if kernel.packs_next else None
    prefetched = tuple(rest[len(rest) - kernel.places_prefetched :])
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    told = dict(zip(kernel.told, rest[kernel.piece is not None :], strict=False))
    if right_k is not None:
        told["right_k"] = right_k
    operands = walk_of(builder, kernel, (left, right), prefetched, told)
    operands = operands._replace(met=met, packed=packed)
    if packs_until is not None:
        begin, ahead, place_of_next = prefetched
        panel = NextPanel(begin, ahead, place_of_next, operands.apart, packs_until)
        operands = operands._replace(next_panel=panel)
    tile = StoredTile(place, told.get("tile_row", index(kernel.tile_row)))
    if kernel.prefetches_results:
        stop = index(kernel.rows * kernel.steps_a_row)
        operands = operands._replace(results=PrefetchedResults(tile.begin, tile.row, stop))
    if is_assembled(kernel):
        emit_assembled(builder, kernel, operands, (tile, k, resume))
        builder.ret_void()
        return function
    zero: ir.Value = ir.Constant(kernel.vector_type, None)
    sums = [zero] * (kernel.rows * kernel.vectors)
    if kernel.resumes:
        sums = _emit_resume(builder, kernel, tile, resume, sums)
    if kernel.piece and not kernel.is_empty:
        steps = _Pieces(rest[0], k, tuple(zip(within[::2], within[1::2], strict=True)))
        sums = _emit_pieces(builder, kernel, operands, steps, sums)
    elif not kernel.is_empty:
        sums = emit_steps(builder, kernel, operands, k, sums)
    emit_tile(builder, kernel, tile, sums)
    builder.ret_void()
    return function


def _emit_resume(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    tile: StoredTile,
    resume: ir.Value,
    zeros: Sequence[ir.Value],
) -> list[ir.Value]:
    """Return the sums to start with: those of the tile if `resume`, else zeros.

    So terms are added in one order, in however many blocks of k there are: the bits of a result do
    not depend on how many others are computed with it. Sums that were added to the tile in the end
    would wait for nothing, and have other bits.
    """
    before = builder.block
    loading = builder.append_basic_block("resume")
    start = builder.append_basic_block("start")
    builder.cbranch(resume, loading, start)
    builder.position_at_end(loading)
    align = kernel.left.compute.itemsize
    loaded = [
        builder.load(place, typ=kernel.vector_type, align=align)
        for place in places_in_tile(builder, kernel, tile)
    ]
    builder.branch(start)
    builder.position_at_end(start)
    sums: list[ir.Value] = []
    for zero, value in zip(zeros, loaded, strict=True):
        total = builder.phi(kernel.vector_type)
        total.add_incoming(zero, before)
        total.add_incoming(value, loading)
        sums.append(total)
    return sums


def _emit_pieces(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    operands: Walk,
    steps: _Pieces,
    start: Sequence[ir.Value],
) -> list[ir.Value]:
    """Emit the loop over pieces of k, `total` steps from `first` on, and return the sums after.

    The last iteration of a piece may be mispredicted, and what comes after would wait for
    divisions: so where the next one begins is found before. It takes registers, which pays neither
    for short pieces, whose ends are predicted, nor for long ones, which are few.
    """
    assert kernel.piece is not None, "k is in pieces"
    is_early = kernel.piece in EARLY_PIECES
    before = builder.block
    loop = builder.append_basic_block("piece")
    after = builder.append_basic_block("added")
    begin = partial(_begin_piece, builder, kernel, operands, steps)
    begun = begin(index(0)) if is_early else [index(0)]
    builder.cbranch(builder.icmp_signed("<", index(0), steps.total), loop, after)
    builder.position_at_end(loop)
    carried = [builder.phi(value.type) for value in begun]
    sums = [builder.phi(kernel.vector_type) for _ in start]
    at, length, left, right, *prefetched = carried if is_early else begin(carried[0])
    following = begin(_behind_piece(builder, kernel, steps, at, length)) if is_early else []
    results = _prefetched_first(builder, operands.results, at)
    piece = operands._replace(
        left=left, right=right, prefetched=tuple(prefetched), met=None, results=results
    )
    if kernel.is_written_out:
        added: list[ir.Value] = list(sums)
        emit_prefetch_of_next(
            builder, kernel, piece.prefetched, piece.apart, (index(0), kernel.piece)
        )
        for number in range(kernel.piece):
            piece = next_row(builder, kernel, piece) if number else piece
            added = emit_step(builder, kernel, piece, number, added)
    else:
        added = emit_steps(builder, kernel, piece, length, list(sums))
    following = following or [_behind_piece(builder, kernel, steps, at, length)]
    given = zip((*carried, *sums), (*begun, *start), (*following, *added), strict=True)
    for phi, value, next_value in given:
        phi.add_incoming(value, before)
        phi.add_incoming(next_value, builder.block)
    builder.cbranch(builder.icmp_signed("<", following[0], steps.total), loop, after)
    end = builder.block
    builder.position_at_end(after)
    return [
        either(builder, (value, before), (sum_, end))
        for value, sum_ in zip(start, added, strict=True)
    ]


def _begin_piece(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    operands: Walk,
    steps: _Pieces,
    at: ir.Value,
) -> list[ir.Value]:
    """Return `at`, how long the piece that begins there is, and where it is in the operands.

    Then comes where what is prefetched goes on.
    """
    # A packed panel begins with the block; a piece that is read where it lies may be anywhere.
    step = builder.add(steps.first, at)
    left, right = (
        axis.offset(builder, step if axis.digits else at)
        for axis in (kernel.left_k, kernel.right_k)
    )
    length: ir.Value = index(kernel.piece or 0)
    if kernel.cuts_pieces:
        first, stop = emit_inside(builder, kernel.inner, (step, kernel.piece or 0), steps.within)
        length = builder.sub(stop, first)
        left = builder.add(left, builder.mul(first, operands.steps[1]))
        right = builder.add(right, builder.mul(first, index(kernel.right_k.stride)))
    if kernel.joins_pieces:
        rest = step, builder.sub(steps.total, at)
        length = _joined(builder, kernel, rest, steps.within[-1])
    return [
        at,
        length,
        kernel.left.address(builder, operands.left, left),
        kernel.right.address(builder, operands.right, right),
        *prefetched_further(builder, kernel, operands.prefetched, (at, left)),
    ]


def _prefetched_first(
    builder: ir.IRBuilder, results: PrefetchedResults | None, at: ir.Value
) -> PrefetchedResults | None:
    """Return what the piece that begins `at` prefetches of `results`: all in the first one."""
    if results is None:
        return None
    is_first = builder.icmp_signed("==", at, index(0))
    return replace(results, stop=builder.select(is_first, results.stop, index(0)))


def _behind_piece(
    builder: ir.IRBuilder, kernel: Microkernel, steps: _Pieces, at: ir.Value, length: ir.Value
) -> ir.Value:
    """Return which step of a call the next piece begins with."""
    size = index(kernel.piece or 0) if kernel.cuts_pieces else length
    following = builder.add(at, size, flags=("nuw", "nsw"))
    if steps.within and not kernel.cuts_pieces:
        further = builder.add(steps.first, following)
        further = emit_next(builder, kernel.inner, further, steps.within)
        following = builder.sub(further, steps.first)
    return following


def _joined(
    builder: ir.IRBuilder, kernel: Microkernel, steps: tuple[ir.Value, ir.Value], span: TermSpan
) -> ir.Value:
    """Return how many of the steps from the first of `steps` on follow one another: the second are.

    They do to the end of the `span` of the lowest digit that has a border.
    """
    (step, left), border = steps, kernel.inner[-1]
    place = builder.urem(step, index(border.term_place * border.term_count))
    length = builder.sub(span[1], place)
    is_inside = builder.icmp_signed("<", length, left)
    return builder.select(is_inside, length, left)
