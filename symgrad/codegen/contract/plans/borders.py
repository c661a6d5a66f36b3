"""Sparsity of padding in a GEMM plan: which borders of a convolution's input are left out.

A border may be left out where a tile is in one line of an image, and where what it has in a block
of k is whole pieces of it, or ends of pieces.
"""

from __future__ import annotations

import math

from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.loops.strided import ZeroBorder
from symgrad.cost_model.products import looking_cycles
from symgrad.records import replace


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
    if is_outermost(plan, border) or border.term_place % plan.k_piece == 0:
        return True
    return plan.pack_left == "none" and border.is_along(plan.k_run)


def is_outermost(plan: ContractPlan, border: ZeroBorder) -> bool:
    """Return whether a border is one of the highest digit of k."""
    return border.term_place * border.term_count == plan.k


def inner_borders(plan: ContractPlan) -> tuple[ZeroBorder, ...]:
    """Return the borders of digits of k that are not the highest one."""
    return tuple(border for border in plan.borders if not is_outermost(plan, border))


def cuts_pieces(plan: ContractPlan) -> bool:
    """Return whether a border is at the ends of pieces, which a microkernel leaves out itself."""
    return any(border.is_along(plan.k_run) for border in inner_borders(plan))
