"""Software prefetch in a microkernel: what later steps, the next tile or panel and epilogue read.

A processor fetches ahead by itself what follows in memory. A tile of a product reads short pieces
of many rows, and what comes after it somewhere else: that is prefetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import TypeVar

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import INDEX, POINTER, Elements, index, prefetch
from symgrad.codegen.contract.kernels.register_tile import Microkernel
from symgrad.codegen.contract.operand import NextSteps, PrefetchedLines
from symgrad.codegen.target import Target
from symgrad.cost_model.products import CODE_BYTES, STEPS_A_LINE
from symgrad.records import dataclass

Shared = TypeVar("Shared")


@dataclass(frozen=True, slots=True)
class Met:
    """What the next epilogue meets: a table of where its rows begin, and which is the last."""

    table: ir.Value
    last: ir.Value


@dataclass(frozen=True, slots=True)
class PrefetchedResults:
    """Where a tile is stored, and how far its rows are apart; it is prefetched before a step."""

    begin: ir.Value
    row: ir.Value
    stop: ir.Value


def elements_prefetched(right: Elements) -> int:
    """Return how many elements of the next panel a microkernel prefetches in a step of k."""
    return right.target.memory.line_bytes // right.stored.itemsize // STEPS_A_LINE


def emit_prefetch_of_next(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    prefetched: Sequence[ir.Value],
    apart: ir.Value,
    span: tuple[ir.Value, int],
) -> None:
    """Prefetch what is read next, from `prefetched` on, at a `span` of k: its first step, how many.

    Steps of k of the left are so far `apart`, or lines of what the next panel is packed from.
    """
    step, steps = span
    if kernel.next_steps is not None:
        _emit_prefetch_of_steps(builder, kernel, kernel.next_steps, prefetched, span)
    if kernel.prefetches_next and kernel.left_row == 1:
        _emit_prefetch_of_columns(builder, kernel, (prefetched[0], apart), step, steps)
    elif kernel.prefetches_next:
        _emit_prefetch_of_rows(builder, kernel, prefetched[0], step, steps)
    if kernel.next_source is not None and not kernel.packs_next:
        _emit_prefetch_of_source(builder, kernel, kernel.next_source, (prefetched[0], apart), span)
    if kernel.right_lines:
        prefetch_right(builder, kernel.right, prefetched[0], step, (steps, kernel.right_lines))
    for place, nbytes in zip(prefetched, kernel.next_bytes, strict=False):
        begin = builder.mul(step, index(nbytes))
        for start in range(0, nbytes * steps, kernel.left.target.memory.line_bytes):
            offset = builder.add(begin, index(start))
            line = builder.gep(place, [offset], source_etype=ir.IntType(8))
            prefetch(builder, line, is_write=False, is_near=kernel.brings_next_near)
    if kernel.prefetches_panel:
        (following,) = prefetched
        offset = builder.mul(step, index(elements_prefetched(kernel.right)))
        line = kernel.right.address(builder, following, offset)
        if steps >= STEPS_A_LINE:
            kernel.right.prefetch(builder, line, 1)
            return
        turn = builder.and_(step, index(STEPS_A_LINE - 1))
        with builder.if_then(builder.icmp_signed("==", turn, index(0))):
            kernel.right.prefetch(builder, line, 1)


def prefetch_right(
    builder: ir.IRBuilder,
    right: Elements,
    following: ir.Value,
    step: ir.Value,
    counts: tuple[int, int],
) -> None:
    """Prefetch lines side by side, in `counts` of steps from `step` on and of lines in each."""
    steps, lines = counts
    line = right.target.memory.line_bytes // right.stored.itemsize
    for number in range(steps * lines):
        offset = builder.add(builder.mul(step, index(lines * line)), index(number * line))
        prefetch(builder, right.address(builder, following, offset), is_write=False)


def prefetch_code(
    builder: ir.IRBuilder,
    function: ir.LLVMFunction,
    elements: Elements,
    walk: tuple[ir.Value, int],
    lines: int,
) -> None:
    """Prefetch one of so many lines, a power of two, of a function, another one in each call.

    Which it is follows from a `walk`: a place, and how many elements further on it is in the next
    call. A second-level cache that includes the first one drops lines that are used there alone.
    """
    (place, apart), line = walk, elements.target.memory.line_bytes
    shift = max(0, (apart * elements.stored.itemsize // line).bit_length() - 1)
    along = builder.lshr(builder.ptrtoint(place, INDEX), index(shift))
    offset = builder.and_(along, index((lines - 1) * line))
    code = builder.gep(function, [offset], source_etype=ir.IntType(8))
    prefetch(builder, code, is_write=False)


def code_lines(target: Target, instructions: int) -> int:
    """Return how many lines of code are prefetched: a power of two, of so many instructions."""
    lines = -(-instructions * CODE_BYTES // target.memory.line_bytes)
    return 1 << (lines - 1).bit_length() if target.includes_code else 0


def _emit_prefetch_of_steps(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    further: NextSteps,
    prefetched: Sequence[ir.Value],
    turns: tuple[ir.Value, int],
) -> None:
    """Prefetch some elements of a row of both operands, in the order of memory."""
    step, count = turns
    row = builder.udiv(step, index(further.turns))
    turn = builder.and_(step, index(further.turns - 1))
    operands = (kernel.left, further.left), (kernel.right, further.right)
    for place, (elements, rows) in zip(prefetched, operands, strict=True):
        offset = builder.mul(row, index(rows.pitch))
        offset = builder.add(offset, builder.mul(turn, index(rows.elements)))
        elements.prefetch(builder, elements.address(builder, place, offset), rows.elements * count)


def _emit_prefetch_of_source(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    source: PrefetchedLines,
    lines: tuple[ir.Value, ir.Value],
    span: tuple[ir.Value, int],
) -> None:
    """Prefetch lines of what the next panel is packed from, each after so many steps of k.

    `lines` are where they begin, and how far they go on.
    """
    (following, along), (step, count) = lines, span
    is_turn = builder.icmp_signed("==", builder.and_(step, index(source.steps - 1)), index(0))
    with nullcontext() if count >= source.steps else builder.if_then(is_turn):
        first = builder.udiv(step, index(source.steps))
        for number in range(max(1, count // source.steps)):
            line = builder.add(first, index(number))
            turn = builder.and_(line, index(source.turns - 1))
            row = builder.udiv(line, index(source.turns))
            offset = builder.mul(turn, index(source.apart))
            offset = builder.add(offset, builder.mul(row, along))
            # Elements of the right as it is in memory, of which the kernel reads a packed panel.
            kernel.right.prefetch(builder, kernel.right.address(builder, following, offset), 1)


def _emit_prefetch_of_columns(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    rows: tuple[ir.Value, ir.Value],
    step: ir.Value,
    steps: int,
) -> None:
    """Prefetch steps of k of rows that lie side by side: a line has one step of all of them."""
    following, apart = rows
    for number in range(steps):
        offset = builder.mul(builder.add(step, index(number)), apart)
        kernel.left.prefetch(builder, kernel.left.address(builder, following, offset), kernel.rows)


def _emit_prefetch_of_rows(
    builder: ir.IRBuilder, kernel: Microkernel, following: ir.Value, step: ir.Value, steps: int
) -> None:
    """Prefetch lines of the next tile, at the `steps` steps of k from `step` on.

    Where rows follow one another the lines are prefetched in that order, which a processor then
    follows by itself. Else each row has its turn once in a line of steps.
    """
    if kernel.prefetches_in_order:
        offset = builder.mul(step, index(kernel.rows))
        place = kernel.left.address(builder, following, offset)
        kernel.left.prefetch(builder, place, kernel.rows * steps)
        return
    of_line = kernel.left.target.memory.line_bytes // kernel.left.stored.itemsize
    turn = builder.and_(step, index(of_line - 1))
    if steps == 1 or kernel.rows > of_line:
        _emit_prefetch_in_turns(builder, kernel, following, (step, turn), steps)
        return
    together = -(-kernel.rows * steps // of_line)
    first = builder.mul(builder.udiv(turn, index(steps)), index(together))
    # Beyond the tile may be beyond the operand.
    first = _last_of(builder, first, kernel.rows - together + 1)
    offset = builder.add(builder.mul(first, index(kernel.left_row)), step)
    for number in range(together):
        at = builder.add(offset, index(number * kernel.left_row))
        kernel.left.prefetch(builder, kernel.left.address(builder, following, at), 1)


def _emit_prefetch_in_turns(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    following: ir.Value,
    at: tuple[ir.Value, ir.Value],
    steps: int,
) -> None:
    """Prefetch a row in a step, and none when all rows have had their turn.

    An access more in each step takes from what the second-level cache gives the tile.
    """
    step, turn = at
    of_line = kernel.left.target.memory.line_bytes // kernel.left.stored.itemsize
    for first in range(0, kernel.rows, of_line):
        left = kernel.rows - first
        is_whole = left >= of_line
        has_turn = builder.icmp_signed("<", turn, index(left))
        with nullcontext() if is_whole else builder.if_then(has_turn):
            # Beyond the tile may be beyond the operand.
            may_exceed = not is_whole and left % steps > 0
            for number in range(min(steps, of_line)):
                row = builder.add(turn, index(first + number))
                row = _last_of(builder, row, kernel.rows) if may_exceed else row
                offset = builder.add(builder.mul(row, index(kernel.left_row)), step)
                kernel.left.prefetch(builder, kernel.left.address(builder, following, offset), 1)


def _last_of(builder: ir.IRBuilder, row: ir.Value, rows: int) -> ir.Value:
    is_there = builder.icmp_signed("<", row, index(rows))
    return builder.select(is_there, row, index(rows - 1))


def emit_prefetching(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    left: tuple[ir.Value, ir.Value],
    right: tuple[ir.Value, ir.Value],
) -> None:
    """Prefetch what steps of k behind a step read on other pages.

    `left` and `right` are where they begin in this step, and how many elements ahead is prefetched.
    """
    if kernel.left_ahead:
        place = kernel.left.address(builder, *left)
        kernel.left.prefetch(builder, place, kernel.rows)
    if kernel.right_ahead:
        place = kernel.right.address(builder, *right)
        if kernel.brings_right_near:
            _bring_near(builder, kernel, place)
            last = kernel.right.address(builder, place, index(kernel.columns - 1))
            prefetch(builder, last, is_write=False)
        else:
            kernel.right.prefetch(builder, place, kernel.columns)
    if kernel.right_near:
        offset = index(kernel.right_near // kernel.right.stored.itemsize)
        _bring_near(builder, kernel, kernel.right.address(builder, right[0], offset))


def _bring_near(builder: ir.IRBuilder, kernel: Microkernel, row: ir.Value) -> None:
    """Prefetch one line after the other of a row of the right into the nearest cache."""
    line = kernel.right.target.memory.line_bytes // kernel.right.stored.itemsize
    for start in range(0, kernel.columns, line):
        place = kernel.right.address(builder, row, index(start))
        prefetch(builder, place, is_write=False)


def prefetched_further(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    prefetched: Sequence[ir.Value],
    piece: tuple[ir.Value, ir.Value],
) -> tuple[ir.Value, ...]:
    """Return where what is prefetched goes on in a piece: its step in the panel, its place."""
    if not prefetched:
        return ()
    (following,), (step, place) = prefetched, piece
    if kernel.prefetches_panel:
        offset = builder.mul(step, index(elements_prefetched(kernel.right)))
        return (kernel.right.address(builder, following, offset),)
    return (kernel.left.address(builder, following, place),)


def emit_prefetch_of_met(
    builder: ir.IRBuilder, kernel: Microkernel, met: Met, step: ir.Value
) -> None:
    """Prefetch the lines of a row that the next epilogue meets, each row for some steps of k.

    When all had their turn the last one has it. They come line by line since few can be on their
    way at a time: a processor that prefetches more waits, with all that comes behind.
    """
    turn = builder.udiv(step, index(kernel.steps_a_row))
    is_inside = builder.icmp_signed("<", turn, met.last)
    number = builder.select(is_inside, turn, met.last)
    place = builder.gep(met.table, [number], source_etype=POINTER)
    row = builder.load(place, typ=POINTER)
    _emit_prefetch_of_lines(builder, kernel, (row, kernel.tile_columns), step)


def emit_prefetch_of_results(
    builder: ir.IRBuilder, kernel: Microkernel, results: PrefetchedResults, step: ir.Value
) -> None:
    """Prefetch the lines where the tile is stored, row by row, in the first steps of k.

    They come while its sums are added up. Each is prefetched once, since what is prefetched takes
    from what the second-level cache gives the tile.
    """
    with builder.if_then(builder.icmp_signed("<", step, results.stop)):
        number = builder.udiv(step, index(kernel.steps_a_row))
        row = kernel.right.address(builder, results.begin, builder.mul(number, results.row))
        _emit_prefetch_of_lines(builder, kernel, (row, kernel.columns), step)


def _emit_prefetch_of_lines(
    builder: ir.IRBuilder, kernel: Microkernel, elements: tuple[ir.Value, int], step: ir.Value
) -> None:
    """Prefetch those lines that have their turn at a step of k, of so many elements from one on."""
    row, count = elements
    of_line = kernel.right.target.memory.line_bytes // kernel.right.stored.itemsize
    lines = -(-count // of_line)
    within = builder.and_(step, index(kernel.steps_a_row - 1))
    first = builder.udiv(builder.mul(within, index(lines)), index(kernel.steps_a_row))
    place = kernel.right.address(builder, row, builder.mul(first, index(of_line)))
    prefetched = -(-lines * kernel.unrolled // kernel.steps_a_row)
    kernel.right.prefetch(builder, place, prefetched * of_line)


def shared_out(places: Sequence[Shared], products: int) -> list[tuple[Shared, ...]]:
    """Return which places each of so many products prefetches: all of them, evenly."""
    ends = [number * len(places) // products for number in range(products + 1)]
    return [tuple(places[start:end]) for start, end in pairwise(ends)]
