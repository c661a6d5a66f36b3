"""Triangular products: terms with zeros beside a diagonal of the left, left out tile by tile.

Weights of a causal attention are 0 for keys behind a query, so a tile of queries needs the terms up
to its last row alone, and one of keys those from its first row on. They may be left out as long as
0 times the right operand is 0: of inf and nan it is nan, so the right is looked through before.
"""

from __future__ import annotations

from collections.abc import Callable

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import INDEX, index
from symgrad.codegen.contract.lifted import PlanSizes, can_lift
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.loops.strided import ZeroBorder
from symgrad.cost_model.products import MOST_LOOKED_THROUGH, looking_through_cycles
from symgrad.records import replace

_CHAINS = 8  # maxima that are taken side by side


def with_diagonal(plan: ContractPlan, borders: tuple[ZeroBorder, ...]) -> ContractPlan:
    """Return `plan` with terms left out beside a diagonal of zeros, if it gains by that.

    Its rows are those of the operand with zeros, both operands are read where they are, and the
    loops are those of products of any size, which are told where the diagonal is.
    """
    found = [border for border in borders if border.is_diagonal]
    if not found:
        return plan
    is_whole = plan.columns % plan.lanes == 0
    is_direct = plan.method == "tile" and plan.vector_axis == "n" and plan.pack_right == "none"
    is_plain = can_lift(plan) and plan.next_steps is None and plan.right.column_stride == 1
    is_float = plan.compute == plan.dtype and plan.compute.is_float
    if not (is_whole and is_direct and is_plain and is_float):
        return plan
    gained = found[0].share_left_out * plan.rows * plan.columns * plan.k / plan.lanes / 2
    is_short = plan.columns <= MOST_LOOKED_THROUGH * plan.lanes
    pays = is_short and gained > looking_through_cycles(plan.k * plan.columns // plan.lanes)
    return replace(plan, diagonal=found[0]) if pays else plan


def emit_span(
    builder: ir.IRBuilder,
    sizes: PlanSizes,
    rows: tuple[ir.Value, ir.Value],
    is_left_out: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """Return from which to which term a tile needs, one at least, given its first row and count."""
    assert sizes.diagonal is not None, "no zeros are beside a diagonal"
    (row, count), (first, stop) = rows, sizes.diagonal
    behind = builder.add(builder.add(row, count), builder.sub(stop, index(1)))
    last = builder.sub(sizes.k, index(1))
    begin = clamped(builder, builder.add(row, first), index(0), last)
    end = clamped(builder, behind, builder.add(begin, index(1)), sizes.k)
    return (
        builder.select(is_left_out, begin, index(0)),
        builder.select(is_left_out, end, sizes.k),
    )


def emit_is_right_finite(
    builder: ir.IRBuilder,
    plan: ContractPlan,
    right_at: Callable[[ir.Value, ir.Value], ir.Value],
    sizes: PlanSizes,
    last_row: ir.Value,
) -> ir.Value:
    """Return whether all rows of the right are finite that a tile leaves out.

    The last tile begins at `last_row`. Bits of a float without its sign are those of an integer,
    which are the greater the greater it is, and those of nan behind those of inf.
    """
    assert sizes.diagonal is not None, "no zeros are beside a diagonal"
    bits = plan.compute.bits
    kind = ir.VectorType(ir.IntType(bits), plan.lanes)
    zero = ir.Constant(kind, None)
    magnitude = ir.Constant(kind, [(1 << (bits - 1)) - 1] * plan.lanes)
    begin, end = _left_out(builder, sizes, last_row)
    columns = range(0, plan.columns, plan.lanes)
    before = builder.block
    loop, after = (builder.append_basic_block(name) for name in ("look", "looked"))
    builder.cbranch(builder.icmp_signed("<", begin, end), loop, after)
    builder.position_at_end(loop)
    step = builder.phi(INDEX, "step")
    carried = [builder.phi(kind) for _ in columns[:_CHAINS]]
    greatest: list[ir.Value] = list(carried)
    for number, column in enumerate(columns):
        place = right_at(step, index(column))
        seen = builder.and_(builder.load(place, typ=kind, align=bits // 8), magnitude)
        chain = number % _CHAINS
        greatest[chain] = _greater(builder, greatest[chain], seen)
    following = builder.add(step, index(1))
    for phi, start, value in zip(
        (step, *carried), (begin, *[zero] * len(carried)), (following, *greatest), strict=True
    ):
        phi.add_incoming(start, before)
        phi.add_incoming(value, loop)
    total = greatest[0]
    for value in greatest[1:]:
        total = _greater(builder, total, value)
    infinite = ir.Constant(
        kind, [plan.compute.numpy.type(float("inf")).view(f"i{bits // 8}").item()] * plan.lanes
    )
    is_large = builder.bitcast(builder.icmp_signed(">=", total, infinite), ir.IntType(plan.lanes))
    is_finite = builder.icmp_signed("==", is_large, ir.Constant(is_large.type, 0))
    builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
    builder.position_at_end(after)
    found = builder.phi(ir.IntType(1))
    found.add_incoming(ir.Constant(ir.IntType(1), 1), before)
    found.add_incoming(is_finite, loop)
    return found


def _left_out(
    builder: ir.IRBuilder, sizes: PlanSizes, last_row: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return from which to which term there may be some that a tile leaves out."""
    assert sizes.diagonal is not None, "no zeros are beside a diagonal"
    first, stop = sizes.diagonal
    below = clamped(builder, builder.add(last_row, first), index(0), sizes.k)
    above = clamped(builder, stop, index(0), sizes.k)
    is_below = builder.icmp_signed("<", index(0), below)
    is_above = builder.icmp_signed("<", above, sizes.k)
    return builder.select(is_below, index(0), above), builder.select(is_above, sizes.k, below)


def clamped(builder: ir.IRBuilder, value: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """Return what of the numbers from `low` to `high` is next to `value`."""
    value = builder.select(builder.icmp_signed("<", value, low), low, value)
    return builder.select(builder.icmp_signed("<", value, high), value, high)


def _greater(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)
