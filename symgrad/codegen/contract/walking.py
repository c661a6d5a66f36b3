"""Addresses in a microkernel of a GEMM: where it is in the operands, and how it goes on.

Of a left whose rows are a distance apart that the microkernel is told, each three rows have a
pointer: row and twice that are all that is beside it in registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from symgrad.codegen import ir
from symgrad.codegen.contract.asking import (
    AskedResults,
    Met,
    emit_asking,
    emit_asking_for_met,
    emit_asking_for_results,
)
from symgrad.codegen.contract.elements import Elements, as_it_is, index
from symgrad.codegen.contract.register_tile import Microkernel, Told

_ROWS_BY_POINTER = 3  # of a left whose rows are a distance apart that is told: 0, 1 and 2 of these


class Walk(NamedTuple):
    """Where some steps of k begin in the operands, and all of a run in what is asked for.

    `steps` are how far the steps of k of the left are from its first, and `ahead` how far what is
    asked for is from the step that is added up. Of a left whose rows are `rows` elements apart, and
    two of them, `lower` are the rows below that each begin three of them. The right is packed where
    `packed` says, if it is.
    """

    left: ir.Value
    right: ir.Value
    asked: tuple[ir.Value, ...]
    steps: Sequence[ir.Value]
    ahead: ir.Value
    right_step: ir.Value
    lower: tuple[ir.Value, ...] = ()
    rows: tuple[ir.Value, ...] = ()
    met: Met | None = None
    results: AskedResults | None = None
    packed: ir.Value | None = None


def walk_of(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    places: tuple[ir.Value, ir.Value],
    asked: tuple[ir.Value, ...],
    told: Mapping[Told, ir.Value],
) -> Walk:
    """Return where operands begin, given the distances that the kernel is told."""
    left, right = places
    step = told.get("left_k", index(kernel.left_k.stride))
    count = max(kernel.piece or 0, kernel.unrolled) + 1
    steps = [builder.mul(index(number), step) for number in range(count)]
    ahead = builder.mul(index(kernel.left_ahead), step)
    right_step = told.get("right_k", index(kernel.right_k.stride))
    if "left_row" not in told:
        return Walk(left, right, asked, steps, ahead, right_step)
    # LLVM would have a register for each row, and these are more than there are.
    row = as_it_is(builder, told["left_row"])
    rows = row, as_it_is(builder, builder.add(row, row))
    lower = tuple(
        as_it_is(builder, kernel.left.address(builder, left, builder.mul(row, index(first))))
        for first in range(_ROWS_BY_POINTER, kernel.rows, _ROWS_BY_POINTER)
    )
    return Walk(left, right, asked, steps, ahead, right_step, lower, rows)


def further(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    operands: Walk,
    along: tuple[ir.Value, ir.Value],
) -> Walk:
    """Return where the operands are so many elements of the left and of the right further.

    LLVM would look for other ways to find these places, as of a `final_loop`.
    """

    def moved(elements: Elements, place: ir.Value, count: ir.Value) -> ir.Value:
        return as_it_is(builder, elements.address(builder, place, count))

    return operands._replace(
        left=moved(kernel.left, operands.left, along[0]),
        right=moved(kernel.right, operands.right, along[1]),
        lower=tuple(moved(kernel.left, place, along[0]) for place in operands.lower),
    )


def row_of_left(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    operands: Walk,
    left: ir.Value,
    at: tuple[int, int],
) -> ir.Value:
    """Return where the left has row and step `at`, the first row of which is at `left`."""
    row, number = at
    if not operands.rows:
        return kernel.left.address(builder, left, index(row * kernel.left_row))
    first, within = divmod(row, _ROWS_BY_POINTER)
    begin = (operands.left, *operands.lower)[first]
    if within:
        begin = kernel.left.address(builder, begin, operands.rows[within - 1])
    return kernel.left.address(builder, begin, operands.steps[number])


def ask(
    builder: ir.IRBuilder, kernel: Microkernel, operands: Walk, steps: tuple[ir.Value, int]
) -> None:
    """Ask for what is multiplied or stored later, in a step of k and so many that follow it."""
    emit_asking(builder, kernel, operands.asked, operands.steps[1], steps)
    if operands.results is not None:
        emit_asking_for_results(builder, kernel, operands.results, steps[0])
    if operands.met is not None:
        emit_asking_for_met(builder, kernel, operands.met, steps[0])
