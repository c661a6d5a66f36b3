"""Sparsity of padding: the terms of a convolution that are products with zeros, left out.

A tile of rows lies in one line of an image, so the terms that read padding above and below of it
are known from its place. They may be left out as long as 0 times the right operand is 0, which
packing finds out: of inf and nan it is nan.
"""

from __future__ import annotations

from dataclasses import replace

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import index
from symgrad.codegen.contract.plan import ContractPlan, Packing
from symgrad.codegen.loops.strided import ZeroBorder
from symgrad.cost_model import packing_cycles

# Where a block of steps of k starts, and where it stops.
_TermSpan = tuple[ir.Value, ir.Value]


def with_border(plan: ContractPlan, border: ZeroBorder | None) -> ContractPlan:
    """Return `plan` with terms left out, if it has a tile for each line and gains by that."""
    if border is None or plan.vector_axis != "n" or plan.method != "tile":
        return plan
    if border.row_place % plan.row_run or plan.pack_left != "none":
        return plan
    share = border.share_left_out(plan.k)
    if plan.pack_right != "none" and share > 0:
        return replace(plan, border=border)
    how: Packing = "copy" if plan.right.column_stride == 1 else "transpose"
    gained = share * plan.rows * plan.columns * plan.k / plan.lanes / 2
    if gained <= packing_cycles(how, plan.k * plan.columns):
        return plan
    return replace(plan, border=border, pack_right=how)


def emit_terms(
    builder: ir.IRBuilder, plan: ContractPlan, row: ir.Value, steps: _TermSpan, is_finite: ir.Value
) -> _TermSpan:
    """Return which of `steps` the tile that begins with `row` needs: all if not `is_finite`."""
    border = plan.border
    assert border is not None, "the plan leaves terms out"
    line = builder.udiv(row, index(border.row_place))
    if border.row_place * border.row_count < plan.rows:
        line = builder.urem(line, index(border.row_count))
    line = builder.mul(line, index(border.row_step))
    most = plan.k // border.term_place
    first = _first_digit(builder, border, line, border.first, most)
    stop = _first_digit(builder, border, line, border.stop, most)
    place = index(border.term_place)
    needed = builder.mul(first, place), builder.mul(stop, place)
    begin = builder.select(is_finite, needed[0], steps[0])
    end = builder.select(is_finite, needed[1], steps[1])
    begin = _at_least(builder, begin, steps[0])
    end = _at_most(builder, end, steps[1])
    return begin, _at_least(builder, end, begin)


def _first_digit(
    builder: ir.IRBuilder, border: ZeroBorder, line: ir.Value, bound: int, most: int
) -> ir.Value:
    """Return the first digit of the terms, `most` at most, that reaches `bound` from `line`."""
    apart = builder.sub(index(bound + border.term_step - 1), line)
    inside = _at_least(builder, apart, index(0))
    return _at_most(builder, builder.udiv(inside, index(border.term_step)), index(most))


def _at_least(builder: ir.IRBuilder, value: ir.Value, bound: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed("<", value, bound), bound, value)


def _at_most(builder: ir.IRBuilder, value: ir.Value, bound: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed("<", value, bound), value, bound)


def emit_is_finite(builder: ir.IRBuilder, zeros: ir.Value) -> ir.Value:
    """Return whether no lane of `zeros`, sums of 0 times what was seen, is nan."""
    lanes = zeros.type.count
    is_nan = builder.fcmp_unordered("uno", zeros, zeros)
    bits = builder.bitcast(is_nan, ir.IntType(lanes))
    return builder.icmp_signed("==", bits, ir.Constant(ir.IntType(lanes), 0))
