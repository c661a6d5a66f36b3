"""Sparsity of padding: the terms of a convolution that are products with zeros, left out.

A tile of rows lies in one line of an image, so the terms that read padding above and below of it
are known from its place. They may be left out as long as 0 times the right operand is 0, which
packing finds out: of inf and nan it is nan.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import final_loop, index, multiply_add, scalar_type
from symgrad.codegen.contract.kernels.spans import TermSpan, at_least, at_most, emit_next
from symgrad.codegen.contract.plans.borders import cuts_pieces, inner_borders, is_outermost
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.loops.strided import ZeroBorder
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a block that a tile needs: a span, and of each inner digit a span of its own.

    `within` has these for each of the plan's `inner_borders`, in steps of k.
    """

    span: TermSpan
    within: tuple[TermSpan, ...]


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
        if is_outermost(plan, border):
            begin, end = at_least(builder, begin, first), at_most(builder, end, stop)
            continue
        within.append((first, stop))
        is_any = builder.icmp_signed("<", first, stop)
        end = builder.select(is_any, end, begin)
    if not cuts_pieces(plan):
        begin = emit_next(builder, inner_borders(plan), begin, tuple(within))
    return Terms((begin, at_least(builder, end, begin)), tuple(within))


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
    inside = at_least(builder, apart, index(0))
    reached = builder.udiv(inside, index(border.term_step))
    return at_most(builder, reached, index(border.term_count))


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
