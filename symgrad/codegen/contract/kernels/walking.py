"""Addresses in a microkernel of a GEMM: where it is in the operands, and how it goes on.

Of a left whose rows are a distance apart that the microkernel is told, several rows have a pointer
and some multiples of the distance are beside it in registers. An address of x86 takes one of these
once, twice, four or eight times, so nine rows are found with the distance and three odd multiples.
Elsewhere it is three rows, with the distance and twice that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import Elements, as_it_is, index
from symgrad.codegen.contract.kernels.next_panel import NextPanel, emit_packing_next
from symgrad.codegen.contract.kernels.prefetching import (
    Met,
    PrefetchedResults,
    emit_prefetch_of_met,
    emit_prefetch_of_next,
    emit_prefetch_of_results,
)
from symgrad.codegen.contract.kernels.register_tile import Microkernel, Told
from symgrad.codegen.target import Target

# Multiples of the distance that is told of rows of the left, each with the powers of two that an
# address takes it times; what they reach is found by one pointer.
_SCALED = {1: (1, 2, 4, 8), 3: (1, 2), 5: (1,), 7: (1,)}
_PLAIN = {1: (1,), 2: (1,)}


class Walk(NamedTuple):
    """Where some steps of k begin in the operands, and all of a run in what is prefetched.

    `steps` are how far the steps of k of the left are from its first, and `ahead` how far what is
    prefetched is from the step that is added up. Rows of the right are `right_step` apart, and
    what is prefetched of it is `right_ahead`. Steps of what is prefetched of the next tile or panel
    are `apart`. Of a left whose rows are a distance apart that is told, `rows` are multiples of it
    in bytes, and `lower` are the rows below that each begin as many as one pointer reaches. The
    right is packed where `packed` says, if it is, and rows of the `next_panel`.
    """

    left: ir.Value
    right: ir.Value
    prefetched: tuple[ir.Value, ...]
    steps: Sequence[ir.Value]
    ahead: ir.Value
    right_step: ir.Value
    right_ahead: ir.Value
    apart: ir.Value
    lower: tuple[ir.Value, ...] = ()
    rows: tuple[ir.Value, ...] = ()
    met: Met | None = None
    results: PrefetchedResults | None = None
    packed: ir.Value | None = None
    next_panel: NextPanel | None = None


def scales_distances(target: Target) -> bool:
    """Return whether an address has a distance once, twice, four or eight times."""
    return target.architecture == "x86_64"


def walk_of(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    places: tuple[ir.Value, ir.Value],
    prefetched: tuple[ir.Value, ...],
    told: Mapping[Told, ir.Value],
) -> Walk:
    """Return where operands begin, given the distances that the kernel is told."""
    left, right = places
    step = told.get("left_k", index(kernel.left_k.stride))
    count = max(kernel.piece or 0, kernel.unrolled) + 1
    steps = [builder.mul(index(number), step) for number in range(count)]
    ahead = builder.mul(index(kernel.left_ahead), step)
    right_step = told.get("right_k", index(kernel.right_k.stride))
    right_ahead = builder.mul(index(kernel.right_ahead), right_step)
    apart = told.get("source_line", step)
    walk = Walk(left, right, prefetched, steps, ahead, right_step, right_ahead, apart)
    if "left_row" not in told:
        return walk
    # LLVM would have a register for each row, and these are more than there are.
    row = as_it_is(builder, builder.mul(told["left_row"], index(kernel.left.stored.itemsize)))
    multiples = _multiples(kernel)
    rows = row, *(as_it_is(builder, builder.mul(row, index(by))) for by in list(multiples)[1:])
    lower = tuple(
        as_it_is(builder, _address(builder, left, builder.mul(row, index(first))))
        for first in range(_reach(kernel), kernel.rows, _reach(kernel))
    )
    return walk._replace(lower=lower, rows=rows)


def multiples_of(kernel: Microkernel) -> int:
    """Return how many multiples of the distance between rows of the left are beside a pointer."""
    return len(_multiples(kernel))


def pointers_of(kernel: Microkernel) -> int:
    """Return how many pointers reach all rows of the left, given multiples of their distance."""
    return -(-kernel.rows // _reach(kernel))


def _multiples(kernel: Microkernel) -> Mapping[int, tuple[int, ...]]:
    return _SCALED if scales_distances(kernel.left.target) else _PLAIN


def _reach(kernel: Microkernel) -> int:
    """Return how many rows of the left are found by a pointer, given multiples of the distance."""
    multiples = _multiples(kernel)
    return 1 + max(by * scale for by, scales in multiples.items() for scale in scales)


def _address(builder: ir.IRBuilder, place: ir.Value, distance: ir.Value) -> ir.Value:
    """Return the address a distance in bytes behind `place`."""
    return builder.gep(place, [distance], source_etype=ir.IntType(8))


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


def next_row(builder: ir.IRBuilder, kernel: Microkernel, operands: Walk) -> Walk:
    """Return where the operands are when the right is a step of k further.

    LLVM would have a register for each step of an iteration whose distance is told.
    """
    right = kernel.right.address(builder, operands.right, operands.right_step)
    is_told = not isinstance(operands.right_step, ir.Constant)
    return operands._replace(right=as_it_is(builder, right) if is_told else right)


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
    begin, multiple, scale = told_row(kernel, operands, row)
    if multiple is not None:
        begin = _address(builder, begin, builder.mul(multiple, index(scale)))
    return kernel.left.address(builder, begin, operands.steps[number])


def told_row(
    kernel: Microkernel, operands: Walk, row: int
) -> tuple[ir.Value, ir.Value | None, int]:
    """Return a pointer to the left, and what multiple of its distance a row is behind how often."""
    first, within = divmod(row, _reach(kernel))
    begin = (operands.left, *operands.lower)[first]
    for multiple, (by, scales) in zip(operands.rows, _multiples(kernel).items(), strict=True):
        scale = within // by
        if within % by == 0 and scale in scales:
            return begin, multiple, scale
    return begin, None, 1


def emit_prefetches(
    builder: ir.IRBuilder, kernel: Microkernel, operands: Walk, steps: tuple[ir.Value, int]
) -> None:
    """Prefetch what is multiplied or stored later, in a step of k and so many that follow it."""
    if operands.next_panel is not None:
        emit_packing_next(builder, kernel, operands.next_panel, steps)
    emit_prefetch_of_next(builder, kernel, operands.prefetched, operands.apart, steps)
    if operands.results is not None:
        emit_prefetch_of_results(builder, kernel, operands.results, steps[0])
    if operands.met is not None:
        emit_prefetch_of_met(builder, kernel, operands.met, steps[0])
