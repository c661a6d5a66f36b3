"""Packing (GEMM): which operands are packed, and how; what pays by strides and by reuse.

How large the packed blocks are is decided in `planning`.
"""

from __future__ import annotations

from symgrad.codegen.contract.methods import Packing
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.target import MemoryHierarchy, Target
from symgrad.cost_model.products import (
    FEW_READS,
    LEAST_COLUMNS_PACKED,
    LEAST_TERMS_PACKED,
    MANY_READS,
    SEVERAL_READS,
    SHARE_OF_LINES,
)
from symgrad.records import replace


def pack_panels(plan: ContractPlan, target: Target) -> ContractPlan:
    """Return `plan` with the ways its operands are packed.

    The left is read element by element and the right in vectors that must lie along it. Where that
    is possible, packing pays if elements have to be converted, or are read often and lie by
    themselves: each step of k further on than a processor fetches ahead, for the left on another
    page, and so on few lines of the first-level cache.
    """
    converts, memory = plan.dtype != plan.compute, target.memory
    left = _panel_packing(plan.left.row_stride, plan.left.column_stride)
    is_dear = plan.panels >= MANY_READS and is_far(plan, memory)
    span = plan.block_k * abs(plan.left.column_stride) * plan.dtype.itemsize
    is_dear = is_dear or (left == "copy" and plan.panels >= FEW_READS and span > memory.l2_bytes)
    is_dear = is_dear or _has_conflict_misses(plan, target)
    if plan.lacks_padding or not (converts or is_dear):
        left = "none"
    if plan.pack_left != "none":
        left = plan.pack_left
    right = _panel_packing(plan.right.column_stride, plan.right.row_stride)
    # What leaves room in the shared cache is read where it is; more pays for being packed, unless
    # short blocks of it are read.
    is_large = plan.block_k * plan.columns * plan.dtype.itemsize > memory.shared_bytes // 2
    is_large = is_large and not is_jumped(plan, memory)
    is_dear = plan.row_tiles >= SEVERAL_READS and is_jumped(plan, memory)
    if plan.right.row_digits:
        # Steps of k that span more than the second-level cache meet in a few of its sets.
        span = plan.block_k * abs(plan.right.row_stride) * plan.dtype.itemsize
        is_dear = is_dear or span > memory.l2_bytes
    if right == "copy" and (plan.row_tiles < FEW_READS or not (converts or is_dear or is_large)):
        right = "none"
    if left == right == "none":
        return plan
    return replace(plan, pack_left=left, pack_right=right)


def with_packed_left(plan: ContractPlan, target: Target) -> ContractPlan:
    """Return `plan` with a left that is packed for tiles of any width, if it pays.

    It does where panels come late from the second-level cache, and tiles read it often: then a step
    of k of a tile is a part of one line, and a tile of more rows and fewer vectors brings fewer
    lines near. Read where they lie, rows that share few sets of the first-level cache let it have
    few of them, and terms that lie pages apart are packed anyway.
    """
    left, memory = plan.left, target.memory
    is_late = target.near_ahead > 0 and plan.dtype == plan.compute and plan.k >= LEAST_TERMS_PACKED
    size = plan.rows * plan.columns * plan.compute.itemsize
    is_long = plan.columns >= LEAST_COLUMNS_PACKED and size > memory.l2_bytes
    has_digits = left.row_digits or left.column_digits or plan.right.row_digits
    if not (is_late and is_long) or has_digits or plan.borders or plan.pack_left != "none":
        return plan
    apart = abs(left.row_stride) * plan.dtype.itemsize
    is_along = left.column_stride == 1 and apart >= memory.line_bytes
    is_crowded = is_along and memory.lines_kept(apart) <= 2 * memory.l1_ways
    is_across = left.row_stride == 1 and is_far(plan, memory)
    if not (is_crowded or is_across):
        return plan
    return replace(plan, pack_left=_panel_packing(left.row_stride, left.column_stride))


def reads_late(plan: ContractPlan, target: Target) -> bool:
    """Return whether tiles read a left whose rows lie side by side, line by line, and get it late.

    A few terms are lines that the nearest cache keeps from tile to tile.
    """
    is_across = plan.left.row_stride == 1 and plan.pack_left == "none" and plan.rows > 1
    has_digits = plan.left.row_digits or plan.left.column_digits
    memory = target.memory
    is_long = plan.k * memory.line_bytes >= memory.l1_bytes * SHARE_OF_LINES
    return target.near_ahead > 0 and is_across and is_long and not has_digits


def lines_further(plan: ContractPlan, memory: MemoryHierarchy) -> float:
    """Return how many lines of such a left a tile reads in a step of k beyond one, in the mean.

    None if each tile begins with a line, or with a part of one that its rows divide evenly.
    """
    nbytes = plan.tile_rows * plan.dtype.itemsize
    if memory.line_bytes % nbytes == 0 and plan.row_run % plan.tile_rows == 0:
        return 0.0
    return (nbytes - plan.dtype.itemsize) / memory.line_bytes


def packs_within(plan: ContractPlan) -> bool:
    """Return whether the microkernel of the first tile packs a panel of the right as it reads it.

    Its loads and stores come beside multiply-adds, which take all of its time.
    """
    return plan.packs_late and plan.pack_right == "copy" and plan.dtype == plan.compute


def packs_next(plan: ContractPlan) -> bool:
    """Return whether the tiles of a panel pack the next one."""
    return plan.next_source is not None and plan.next_source.lines.packs


def is_far(plan: ContractPlan, memory: MemoryHierarchy) -> bool:
    """Return whether each of many steps of k lies on another page in the left."""
    apart = abs(plan.left.column_stride) * plan.dtype.itemsize
    return plan.k >= memory.near_pages and apart >= memory.page_bytes


def is_jumped(plan: ContractPlan, memory: MemoryHierarchy) -> bool:
    """Return whether each of many steps of k in the right is further on than is fetched ahead."""
    apart = abs(plan.right.row_stride) * plan.dtype.itemsize
    return plan.k >= memory.near_pages and apart >= memory.followed_bytes


def _has_conflict_misses(plan: ContractPlan, target: Target) -> bool:
    """Return whether steps of k of a left whose rows lie side by side share few sets of a cache.

    A tile reads a part of a line in each step, which the nearest cache has no more when the next
    tile reads the rest of it. Packed they follow one another, which pays for several panels; but
    what follows such walks across pages has these lines in time, and of a few the second-level
    cache has them still. A tile of whole lines leaves no rest, if that cache has them all.
    """
    memory, apart = target.memory, abs(plan.left.column_stride) * plan.dtype.itemsize
    is_across = plan.left.row_stride == 1 and not plan.left.column_digits
    if not is_across or target.follows_pages:
        return False
    is_read_again = plan.panels > 1 and plan.row_tiles >= FEW_READS
    is_far = plan.k >= memory.near_pages and apart >= memory.line_bytes
    span = plan.block_k * apart
    is_far = is_far and span > memory.l2_bytes // 2
    is_dropped = is_far and memory.lines_kept(apart) < plan.block_k
    is_whole = plan.tile_rows * plan.dtype.itemsize >= memory.line_bytes
    is_whole = is_whole and reads_late(plan, target) and not lines_further(plan, memory)
    is_dropped = is_dropped and not (is_whole and span <= memory.l2_bytes)
    return is_read_again and is_dropped


def _panel_packing(across: int, along: int) -> Packing:
    if across == 1:
        return "copy"
    return "transpose" if along == 1 else "gather"
