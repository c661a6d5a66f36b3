"""Cache blocking of k: how many terms of a sum a tile adds up before it waits for the next ones.

It follows from caches and strides.
"""

from __future__ import annotations

from symgrad.codegen.contract.plans.packing import is_far, is_jumped
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.target import MemoryHierarchy, Target
from symgrad.cost_model.products import LONG_SUM, LONG_SUM_ACROSS, PANEL_SHARE, SHORT_BLOCK


def choose_block_k(plan: ContractPlan, target: Target, across: int) -> int:
    """Return all of k if its panels stay in the second-level cache, else an even part of it.

    A panel is `across` columns.
    """
    if plan.pack_left == "windows":
        return plan.block_k
    size_of, memory = plan.compute.itemsize, target.memory
    whole, part = _terms_at_once(plan, target)
    if plan.pack_left in ("copy", "transpose"):
        # Of a panel and of the left that is packed beside it, the second-level cache has room.
        whole = part = min(memory.near_terms[0], memory.l2_bytes // (4 * across * size_of))
    is_across = plan.left.row_stride == 1 and _lies_evenly(plan)
    long = LONG_SUM_ACROSS if is_across else LONG_SUM
    if plan.k >= long * part and plan.rows * plan.columns * size_of <= memory.l2_bytes:
        # Few results of long sums: what is read for them stays in the cache, too, also of the left
        # where that is prefetched a block ahead; windows read the same again.
        read = plan.columns + (0 if plan.left.column_digits else plan.rows)
        part = min(part, max(plan.lanes, memory.l2_bytes // (2 * read * size_of)))
        if is_across:
            # Rows that lie across come from that cache, so a panel is to come from the first one.
            part = min(part, max(plan.lanes, _terms_near(plan, memory, across)))
    apart = abs(plan.left.column_stride) * size_of
    if plan.left.column_digits and plan.left.row_stride == 1 and plan.k > whole and apart:
        # Tiles beside each other read parts of the same lines: a block of them stays in the cache.
        whole = part = min(part, max(SHORT_BLOCK, memory.l2_bytes // (2 * apart)))
    if plan.has_pixels_in_place:
        # Lines of the left come from that cache, and leave most of the first one to a panel.
        near = int(memory.l1_bytes * PANEL_SHARE) // (across * size_of)
        whole = part = min(part, max(plan.lanes, near))
    blocks = 1 if plan.k <= whole else -(-plan.k // part)
    if plan.left.column_digits:
        return _even_pieces(plan, blocks, part)
    evenly = max(1, -(-plan.k // blocks))
    size = -(-evenly // plan.lanes) * plan.lanes
    # Packing by vectors needs a whole vector of every block.
    while blocks > 1 and 0 < plan.k % size < plan.lanes:
        size += plan.lanes
    return size


def _lies_evenly(plan: ContractPlan) -> bool:
    """Return whether terms of the left are evenly apart, though those of the right be in pieces."""
    apart = plan.left.column_stride
    return all(by == place * apart for place, by in plan.left.column_digits)


def _terms_near(plan: ContractPlan, memory: MemoryHierarchy, across: int) -> int:
    """Return how many terms of a panel, `across` columns, stay in the first-level cache.

    Of a right that is read where it lies, rows some lines apart use a part of its sets only. What
    is jumped over is packed.
    """
    terms = memory.l1_bytes // (across * plan.compute.itemsize)
    apart = abs(plan.right.row_stride) * plan.dtype.itemsize
    if apart < memory.line_bytes or is_jumped(plan, memory):
        return terms
    return min(terms, memory.lines_kept(apart))


def _terms_at_once(plan: ContractPlan, target: Target) -> tuple[int, int]:
    """Return how many terms are added up at once: all up to the first, else parts of the second.

    Of windows they may be more, since tiles read again much of what those before have read; and of
    a result that no near cache holds, whose unfinished sums would go to memory and back. But where
    the shared cache is slow, a panel of so many terms would come from there for each tile.
    """
    memory = target.memory
    if is_far(plan, memory):
        return memory.far_terms
    are_windows = plan.vector_axis == "n" and bool(plan.left.column_digits)
    if are_windows and plan.left.row_stride != 1:
        return memory.window_terms
    is_large = plan.rows * plan.columns * plan.compute.itemsize > memory.shared_bytes
    if is_large and target.shares_slowly:
        return memory.near_terms[0], memory.near_terms[0]
    return memory.large_terms if is_large else memory.near_terms


def _even_pieces(plan: ContractPlan, blocks: int, most: int) -> int:
    """Return the size of `blocks` about even blocks of k, made of whole runs or of parts of one."""
    run = plan.k_run
    piece = max(size for size in range(1, min(run, most) + 1) if run % size == 0)
    if blocks == 1 or piece < plan.lanes:
        piece = run
    return max(1, -(-(plan.k // piece) // blocks)) * piece
