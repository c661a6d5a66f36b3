"""Software prefetch of what a GEMM microkernel reads itself: how far ahead, and of what.

What is prefetched of other tiles and panels is planned in `plans/prefetching.py`.
"""

from __future__ import annotations

from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.prefetching import is_source_far
from symgrad.codegen.target import Target
from symgrad.cost_model.products import SEVERAL_READS


def steps_ahead(plan: ContractPlan, stride: int, elements: Elements) -> int:
    """Return how many steps of k before it is read an operand is prefetched; 0 if it is not.

    That is where steps lie far apart, and are so many that most are not the first ones; or where
    the next product has the steps behind these.
    """
    if plan.goes_on == "k":
        return plan.k
    if plan.next_steps is not None:
        return 0
    memory = elements.target.memory
    is_far = abs(stride) * elements.stored.itemsize >= memory.followed_bytes
    steps = plan.k_piece if plan.has_pieces else min(plan.k, plan.block_k)
    return memory.steps_ahead if is_far and steps >= 2 * memory.steps_ahead else 0


def near_ahead(plan: ContractPlan, stride: int, right: Elements) -> int:
    """Return how many bytes before it is read a panel of the right is prefetched; 0 if it is not.

    So it is with one that leaves the first-level cache little room, and is packed here or was so
    before a loop of products, or lies so, where several tiles read it and that cache has no room
    for it: prefetching what it keeps, as 64 by 64 float32, takes longer.
    """
    memory = right.target.memory
    panel = min(plan.k, plan.block_k) * stride * right.stored.itemsize
    is_read_again = plan.row_tiles >= SEVERAL_READS and panel >= memory.l1_bytes
    is_read_again = is_read_again or plan.prefetches_product
    is_packed = plan.pack_right != "none" or (plan.has_panel and is_read_again)
    is_packed = is_packed and plan.next_steps is None and plan.goes_on is None
    return right.target.near_ahead if is_packed and panel >= memory.l1_bytes // 2 else 0


def left_near(plan: ContractPlan, left: Elements) -> int:
    """Return how many bytes before it is read a left is prefetched; 0 if it is not.

    So is a packed one beside a panel that leaves it no room. Rows that lie whole pages apart fall
    on one set of the first-level cache, where what is fetched ahead by itself has no room to wait:
    each line is to come shortly before it is read.
    """
    if plan.pack_left in ("copy", "transpose"):
        return left.target.near_ahead
    memory, apart = left.target.memory, abs(plan.left.row_stride) * left.stored.itemsize
    is_along = plan.pack_left == "none" and plan.left.column_stride == 1
    return memory.line_bytes if is_along and apart > 0 and apart % memory.page_bytes == 0 else 0


def is_left_near(plan: ContractPlan, left: Elements) -> bool:
    """Return whether the second-level cache has a left whose rows lie side by side.

    Each step of k is another line of it, which the first one has no more when the next tile comes.
    """
    target = left.target
    span = min(plan.k, plan.block_k) * abs(plan.left.column_stride) * left.stored.itemsize
    is_plain = plan.dtype == plan.compute and not (plan.has_pieces or plan.borders)
    is_plain = is_plain and plan.next_steps is None and plan.goes_on is None
    return target.near_ahead > 0 and is_plain and span <= target.memory.l2_bytes


def is_right_near(plan: ContractPlan, right: Elements) -> bool:
    """Return whether a right whose rows lie far apart is prefetched into the nearest cache.

    A vector that begins within a line, as rows of an array may that a user hands over, reaches into
    two, and few such loads at a time wait for lines: so both are to be there before. Rows whole
    pages apart fall on one set of that cache, which has room for few. What is read once, to be
    packed, is prefetched so if the second-level cache has it, also because tiles have prefetched
    it.
    """
    target = right.target
    is_there = plan.next_source is not None or not is_source_far(plan, target.memory)
    is_read_near = plan.pack_right == "none" or is_there
    return target.near_ahead > 0 and plan.goes_on is None and is_read_near


def prefetches_apart(plan: ContractPlan, target: Target) -> bool:
    """Return whether a tile prefetches what the next epilogue meets in a loop of its own.

    That comes first, and most steps are behind it. So it is where few instructions are issued.
    """
    steps = plan.met * plan.tile_rows * plan.steps_a_row
    is_told = steps > 0 and not plan.prefetches_results and not plan.walks_pieces
    return target.issues_few and is_told and 2 * steps <= min(plan.k, plan.block_k)
