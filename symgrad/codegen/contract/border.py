"""Sparsity of padding: the terms of a convolution that are products with zeros, left out.

A tile of rows lies in one line of an image, so the terms that read padding above and below of it
are known from its place. They may be left out as long as 0 times the right operand is 0, which
packing finds out: of inf and nan it is nan.
"""

from __future__ import annotations

import math

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import final_loop, index, multiply_add, scalar_type
from symgrad.codegen.contract.plan import ContractPlan
from symgrad.codegen.loops.strided import ZeroBorder
from symgrad.cost_model.products import looking_cycles
from symgrad.records import dataclass, replace

# Where a block of steps of k starts, and where it stops.
TermSpan = tuple[ir.Value, ir.Value]


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a block that a tile needs: a span, and of each inner digit a span of its own.

    `within` has these for each of the plan's `inner_borders`, in steps of k.
    """

    span: TermSpan
    within: tuple[TermSpan, ...]


def with_borders(plan: ContractPlan, borders: tuple[ZeroBorder, ...]) -> ContractPlan:
    """Return `plan` with terms left out, if it has a tile for each line and gains by that.

    Terms where the left has no elements are left out in any case.
    """
    if not borders and not plan.borders:
        return plan
    plan = replace(plan, borders=())
    if (
        plan.vector_axis != "n"
        or plan.method != "tile"
        or plan.pack_left not in ("none", "windows")
    ):
        assert not any(border.absent for border in borders), f"{plan} reads padding"
        return plan
    used = tuple(b for b in borders if b.row_place % plan.row_run == 0 and _cuts(plan, b))
    used = tuple(sorted(used, key=lambda border: -border.term_place))
    left_out = replace(plan, borders=used)
    assert all(b in used for b in borders if b.absent), f"{plan} reads padding"
    if not used or plan.pack_right != "none":
        return left_out
    gained = (1 - share_outside(used)) * plan.rows * plan.columns * plan.k / plan.lanes / 2
    if left_out.lacks_padding or gained > looking_cycles(plan.k * plan.columns):
        # The right is read where it is, so its columns lie side by side.
        return replace(left_out, pack_right="copy")
    return plan


def share_outside(borders: tuple[ZeroBorder, ...]) -> float:
    """Return which part of all terms is left where those in `borders` are left out."""
    return math.prod(1 - border.share_left_out for border in borders)


def _cuts(plan: ContractPlan, border: ZeroBorder) -> bool:
    """Return whether a border can be left out: whole pieces of k, or the outermost digit of it.

    Or the ends of pieces, where a microkernel reads what it takes of each.
    """
    if _is_outermost(plan, border) or border.term_place % plan.k_piece == 0:
        return True
    return plan.pack_left == "none" and border.is_along(plan.k_run)


def _is_outermost(plan: ContractPlan, border: ZeroBorder) -> bool:
    return border.term_place * border.term_count == plan.k


def inner_borders(plan: ContractPlan) -> tuple[ZeroBorder, ...]:
    """Return the borders of digits of k that are not the highest one."""
    return tuple(border for border in plan.borders if not _is_outermost(plan, border))


def cuts_pieces(plan: ContractPlan) -> bool:
    """Return whether a border is at the ends of pieces, which a microkernel leaves out itself."""
    return any(border.is_along(plan.k_run) for border in inner_borders(plan))


def emit_inside(
    builder: ir.IRBuilder,
    borders: tuple[ZeroBorder, ...],
    piece: tuple[ir.Value, int],
    within: tuple[TermSpan, ...],
) -> TermSpan:
    """Return from which to which of its steps a piece of a line is inside of all `borders`.

    It is given by its first step of k and its size; the last border is along the line.
    """
    step, size = piece
    *above, (border, line) = zip(borders, within, strict=True)
    place = builder.urem(step, index(border.term_count))
    first = _at_least(builder, builder.sub(line[0], place), index(0))
    stop = _at_most(builder, builder.sub(line[1], place), index(size))
    for digit, span in above:
        at = builder.urem(step, index(digit.term_place * digit.term_count))
        is_behind = builder.icmp_signed(">=", at, span[0])
        is_inside = builder.and_(is_behind, builder.icmp_signed("<", at, span[1]))
        stop = builder.select(is_inside, stop, first)
    return first, _at_least(builder, stop, first)


def emit_terms(
    builder: ir.IRBuilder, plan: ContractPlan, row: ir.Value, steps: TermSpan, is_finite: ir.Value
) -> Terms:
    """Return which of `steps` the tile that begins with `row` needs.

    Those are all if not `is_finite`, but for terms where the left has no elements.
    """
    begin, end = steps
    within = []
    for border in plan.borders:
        first, stop = _needed(builder, plan, border, row)
        if not border.absent:
            first = builder.select(is_finite, first, index(0))
            every = index(border.term_place * border.term_count)
            stop = builder.select(is_finite, stop, every)
        if _is_outermost(plan, border):
            begin, end = _at_least(builder, begin, first), _at_most(builder, end, stop)
            continue
        within.append((first, stop))
        is_any = builder.icmp_signed("<", first, stop)
        end = builder.select(is_any, end, begin)
    if not cuts_pieces(plan):
        begin = emit_next(builder, inner_borders(plan), begin, tuple(within))
    return Terms((begin, _at_least(builder, end, begin)), tuple(within))


def emit_next(
    builder: ir.IRBuilder,
    borders: tuple[ZeroBorder, ...],
    step: ir.Value,
    within: tuple[TermSpan, ...],
) -> ir.Value:
    """Return the first step of k from `step` on that is `within` the spans of inner digits.

    What is behind the last one of a digit begins with its first one in the next higher digit; that
    may be one to leave out, so there are as many rounds as digits.
    """
    for _ in within:
        for border, (first, stop) in zip(borders, within, strict=True):
            cycle = border.term_place * border.term_count
            at = builder.urem(step, index(cycle))
            is_before = builder.icmp_signed("<", at, first)
            is_behind = builder.icmp_signed(">=", at, stop)
            ahead = builder.sub(first, at)
            behind = builder.add(ahead, index(cycle))
            skipped = builder.select(is_behind, behind, index(0))
            skipped = builder.select(is_before, ahead, skipped)
            step = builder.add(step, skipped)
    return step


def _needed(
    builder: ir.IRBuilder, plan: ContractPlan, border: ZeroBorder, row: ir.Value
) -> TermSpan:
    """Return from which to which step of its digit, and those below, a row is no padding."""
    line = builder.udiv(row, index(border.row_place))
    if border.row_place * border.row_count < plan.rows:
        line = builder.urem(line, index(border.row_count))
    line = builder.mul(line, index(border.row_step))
    first = _first_digit(builder, border, line, border.first)
    stop = _first_digit(builder, border, line, border.stop)
    place = index(border.term_place)
    return builder.mul(first, place), builder.mul(stop, place)


def _first_digit(builder: ir.IRBuilder, border: ZeroBorder, line: ir.Value, bound: int) -> ir.Value:
    """Return the first digit of the terms, `term_count` at most, to reach `bound` from `line`."""
    apart = builder.sub(index(bound + border.term_step - 1), line)
    inside = _at_least(builder, apart, index(0))
    reached = builder.udiv(inside, index(border.term_step))
    return _at_most(builder, reached, index(border.term_count))


def _at_least(builder: ir.IRBuilder, value: ir.Value, bound: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed("<", value, bound), bound, value)


def _at_most(builder: ir.IRBuilder, value: ir.Value, bound: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed("<", value, bound), value, bound)


def emit_zero_products(
    builder: ir.IRBuilder,
    plan: ContractPlan,
    operands: tuple[ir.Value, ir.Value],
    tile: tuple[ir.Value, ir.Value, ir.Value],
    steps: TermSpan,
) -> None:
    """Add to a tile the products of the zeros that its left does not have: nan, where one is.

    `operands` are the packed panel of the right and how many elements one step of k is in it;
    `tile` is where the sums are, the first row and how many there are.
    """
    (panel, across), (sums, row, rows) = operands, tile
    element, vector = (
        scalar_type(plan.compute),
        ir.VectorType(scalar_type(plan.compute), plan.lanes),
    )
    align = plan.lanes * plan.compute.itemsize
    spans = [(border, _needed(builder, plan, border, row)) for border in plan.borders]
    with final_loop(builder, *steps) as step:
        is_read: ir.Value = ir.Constant(ir.IntType(1), 1)
        for border, (first, stop) in spans:
            at = builder.urem(step, index(border.term_place * border.term_count))
            is_behind = builder.icmp_signed(">=", at, first)
            is_inside = builder.and_(is_behind, builder.icmp_signed("<", at, stop))
            is_read = builder.and_(is_read, is_inside)
        begin = builder.mul(builder.sub(step, steps[0]), across)
        line = builder.gep(panel, [begin], source_etype=element)
        rows_left_out = builder.select(is_read, index(0), rows)
        with (
            final_loop(builder, index(0), rows_left_out) as i,
            final_loop(builder, index(0), across, plan.lanes) as j,
        ):
            value = builder.load(
                builder.gep(line, [j], source_etype=element), typ=vector, align=align
            )
            offset = builder.add(builder.mul(i, index(plan.tile_row)), j)
            place = builder.gep(sums, [offset], source_etype=element)
            total = builder.load(place, typ=vector, align=plan.compute.itemsize)
            nothing = ir.Constant(vector, None)
            total = multiply_add(builder, plan.compute, value, nothing, total)
            builder.store(total, place, plan.compute.itemsize)


def emit_is_finite(builder: ir.IRBuilder, zeros: ir.Value) -> ir.Value:
    """Return whether no lane of `zeros`, sums of 0 times what was seen, is nan."""
    lanes = zeros.type.count
    is_nan = builder.fcmp_unordered("uno", zeros, zeros)
    bits = builder.bitcast(is_nan, ir.IntType(lanes))
    return builder.icmp_signed("==", bits, ir.Constant(ir.IntType(lanes), 0))
