"""Planning software prefetch in a GEMM: what is read late unless a microkernel prefetches it.

A microkernel prefetches one thing at most. How it does is in `prefetching`.
"""

from __future__ import annotations

from symgrad.codegen.contract.operand import (
    NextSteps,
    PrefetchedLines,
    PrefetchedRows,
    PrefetchedSource,
)
from symgrad.codegen.contract.plans.blocks import has_digits
from symgrad.codegen.contract.plans.packing import packs_within
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.target import MemoryHierarchy, Target
from symgrad.cost_model.products import (
    FEW_PANELS,
    MOST_STEPS_A_PACKED_ROW,
    MOST_STEPS_A_RIGHT_LINE,
    SEVERAL_READS,
    SHORT_PIECE,
    STEPS_A_LINE,
)
from symgrad.graph.aligned import ALIGNMENT
from symgrad.records import replace


def with_prefetching(plan: ContractPlan, target: Target) -> ContractPlan:
    """Return `plan` with what its tiles prefetch: one thing at most.

    Where the shared cache is slow, tiles of the block that packs panels prefetch what the next one
    is packed from, if those of others prefetch packed ones.
    """
    memory = target.memory
    in_place = _next_in_place(plan, target)
    if in_place is not None:
        return replace(plan, next_source=in_place)
    reads_pixels = plan.pack_left == "windows" or plan.has_pixels_in_place
    prefetches_block = reads_pixels and plan.k_blocks > 1 and not _has_images_beside(plan)
    prefetches_next = not prefetches_block and _is_met_late(plan, memory)
    prefetches = prefetches_block or prefetches_next
    source = _next_source(plan, memory) if not prefetches and is_source_far(plan, memory) else None
    is_late = not prefetches and source is None and _is_panel_met_late(plan, memory)
    if is_late and plan.packs_late and target.shares_slowly:
        source = _source_for_block(plan, memory)
    return replace(
        plan,
        prefetches_next=prefetches_next,
        prefetches_panel=is_late and source is None,
        prefetches_block=prefetches_block,
        next_source=source,
        packs_late=plan.packs_late or source is not None,
    )


def with_next_steps(plan: ContractPlan, tiles: int) -> ContractPlan:
    """Return `plan` with tiles that prefetch whole rows of the next block of k, if they can.

    A thread has so many `tiles` of each panel. Where rows of the left lie across, what each tile
    reads of them is a part of the same lines, and a processor follows no walk from row to row: so
    tiles prefetch a few rows each, in the order of memory, and of the right for as many.
    """
    left, right = plan.left, plan.right
    is_across = plan.prefetches_next and left.row_stride == 1 and right.column_stride == 1
    is_plain = plan.pack_right == "none" and not plan.rows_first and plan.goes_on is None
    has_digits = left.row_digits or left.column_digits or right.column_digits or right.row_digits
    is_whole = plan.block_tiles == plan.tiles_of_part and plan.block_panels == plan.panels_of_part
    is_dense = 0 < left.column_stride <= 2 * plan.rows and 0 < right.row_stride <= 2 * plan.columns
    if not (is_across and is_plain and is_whole and is_dense) or has_digits or plan.k_blocks == 1:
        return plan
    turns = 1 << min(tiles * plan.panels_of_part, plan.block_k).bit_length() - 1
    rows = min(tiles * plan.tile_rows, plan.rows)
    steps = NextSteps(
        steps=-(-plan.block_k // turns),
        turns=turns,
        left=PrefetchedRows(left.column_stride, -(-rows // turns)),
        right=PrefetchedRows(right.row_stride, -(-plan.columns // turns)),
    )
    return replace(plan, prefetches_next=False, next_steps=steps)


def can_pack_next(plan: ContractPlan, target: Target) -> bool:
    """Return whether the tiles of a panel can pack the next one, instead of prefetching its lines.

    Lines of a panel that are prefetched long before share few sets of the second-level cache with
    those of other rows: where the shared cache is slow, those that it has dropped cost more than to
    pack each row when its lines come. All tiles have all terms.
    """
    source = plan.next_source
    # Then each row takes eight steps of k or more, and no iteration of a microkernel has more.
    is_often = plan.row_tiles >= SEVERAL_READS
    is_read_once = is_often and plan.kept_panels == 1 and plan.k_blocks == 1 and packs_within(plan)
    is_whole = plan.tile_columns % plan.lanes == 0 and plan.column_run >= 2 * plan.tile_columns
    is_prefetched = source is not None and source.lines.turns == 1
    return target.shares_slowly and is_prefetched and is_read_once and is_whole


def packing_next(plan: ContractPlan) -> ContractPlan:
    """Return a plan of which tiles pack the next panel, each the same number of its rows."""
    steps = min(1 << plan.row_tiles.bit_length() - 1, MOST_STEPS_A_PACKED_ROW)
    along, rows = plan.right.row_stride, -(-plan.k // plan.row_tiles)
    lines = PrefetchedLines(steps, packs=True)
    return replace(
        plan, next_source=PrefetchedSource(lines, along, 1, 0, rows * along, plan.row_tiles)
    )


def can_prefetch_product(plan: ContractPlan, target: Target) -> bool:
    """Return whether the tiles of a product of a batch can prefetch all that the next one meets.

    It is for a processor that meets that late, and for tiles that prefetch nothing else.
    """
    prefetches = (
        plan.prefetches_next or plan.prefetches_panel or plan.prefetches_block or plan.next_source
    )
    is_free = not prefetches and plan.next_steps is None and plan.goes_on is None and plan.met == 0
    is_whole = plan.k_blocks == 1 and plan.pack_left == "none" and not plan.borders
    is_plain = is_whole and not has_digits(plan) and plan.part_rows == plan.part_columns == 0
    has_tiles = plan.method in ("tile", "split")
    return target.meets_products_late and has_tiles and is_plain and is_free


def bytes_a_step(plan: ContractPlan) -> tuple[int, ...]:
    """Return how many bytes of the next left, right and result tiles prefetch in a step of k.

    Those of which nothing is prefetched are left out.
    """
    if not plan.prefetches_product:
        return ()
    steps = plan.row_tiles * plan.panels * plan.k
    prefetched = zip(product_bytes(plan), next_places(plan), strict=True)
    return tuple(-(-size // steps) for size, further in prefetched if further)


def can_meet_next(plan: ContractPlan, memory: MemoryHierarchy) -> bool:
    """Return whether a near cache has room for all of the next product beside this one.

    That is the nearest one, or the second for products of up to twice the nearest; but those of
    whole pages, which fall on the same sets, are met no sooner.
    """
    sizes = product_bytes(plan)
    are_pages = any(size % memory.page_bytes == 0 for size in sizes)
    is_second = sum(sizes) <= 2 * memory.l1_bytes and not are_pages
    return 2 * sum(sizes) <= memory.l1_bytes or is_second


def product_bytes(plan: ContractPlan) -> tuple[int, int, int]:
    """Return how many bytes the left, the right and the result of a product are."""
    sizes = plan.rows * plan.k, plan.k * plan.columns, plan.rows * plan.columns
    left, right, result = (size * plan.dtype.itemsize for size in sizes)
    return left, right, result


def is_next_near(plan: ContractPlan, memory: MemoryHierarchy) -> bool:
    """Return whether the nearest cache is to have the next product: it has room for its right.

    Where all of that is prefetched, one product is to leave the nearest cache room.
    """
    is_whole = any(plan.next_sides) and plan.method == "tile"
    has_room = not is_whole or sum(product_bytes(plan)) <= memory.l1_bytes
    return has_room and plan.next_right * plan.dtype.itemsize <= memory.l1_bytes // 2


def next_places(plan: ContractPlan) -> tuple[int, int, int]:
    """Return how far behind left, right and result those of the next product begin; 0 for none."""
    left, result = plan.next_sides
    return left, plan.next_right, result


def right_lines_a_step(plan: ContractPlan) -> int:
    """Return how many lines of the next right a tile prefetches in each step of k, if tiles do.

    A packer that prefetches all of them has more on their way than a processor has room for. Tiles
    do where they are few and that right is dense; else 0 is returned.
    """
    line = ALIGNMENT // plan.dtype.itemsize
    lines = -(-plan.next_right // line)
    steps = plan.row_tiles * plan.panels * plan.k
    prefetches = (
        plan.prefetches_next or plan.prefetches_panel or plan.prefetches_block or plan.next_source
    )
    is_free = (
        not (prefetches or plan.prefetches_product)
        and plan.goes_on is None
        and plan.k_blocks == 1
        and not plan.has_pieces
    )
    is_packed = plan.pack_right in ("transpose", "split") and plan.right.column_stride == plan.k
    is_few = 0 < steps <= MOST_STEPS_A_RIGHT_LINE * lines
    return -(-lines // steps) if is_free and is_packed and is_few else 0


def next_panel_prefetched(plan: ContractPlan) -> int:
    """Return how far behind a line that a packer reads it prefetches another; 0 for none."""
    is_prefetched = plan.prefetches_product or right_lines_a_step(plan)
    return 0 if is_prefetched else plan.next_right


def is_source_far(plan: ContractPlan, memory: MemoryHierarchy) -> bool:
    """Return whether a packed right comes from no near cache."""
    return plan.k * plan.column_run * plan.dtype.itemsize > memory.l2_bytes


def _next_source(plan: ContractPlan, memory: MemoryHierarchy) -> PrefetchedSource | None:
    """Return what tiles prefetch of the right, so that each panel can be packed when it is read.

    Only one panel is in memory then, and packing the next one waits for nothing. It is for a
    product of which all tiles read a panel before the next one, and are enough to prefetch that.
    """
    is_whole = plan.k_blocks == 1 and plan.block_tiles >= plan.row_tiles and not plan.rows_first
    is_plain = is_whole and plan.pack_left == "none"
    return _source_prefetched(plan, plan.row_tiles, memory) if is_plain else None


def _source_for_block(plan: ContractPlan, memory: MemoryHierarchy) -> PrefetchedSource | None:
    """Return what tiles of the first block of a band prefetch, whose panels others read again.

    Lines of both follow one another, so that one microkernel prefetches either. Those of rows would
    share few sets of a cache, which has none any more when they are packed, and those of a large
    panel would be too many for it.
    """
    panel = plan.block_k * plan.tile_columns * plan.dtype.itemsize
    is_kept = plan.pack_right == "transpose" and 4 * panel < memory.l2_bytes
    if not is_kept or plan.block_tiles >= plan.band_tiles:
        return None
    source = _source_prefetched(plan, plan.block_tiles, memory)
    return source if source is not None and source.lines.turns == 1 else None


def _next_in_place(plan: ContractPlan, target: Target) -> PrefetchedSource | None:
    """Return what tiles prefetch of a right that is read where it lies, and no near cache has.

    That is the next of panels that were packed before a loop around, or the next block of k of one
    that lies so. It is for a slow shared cache, and for tiles that read each part one after the
    other, enough of them to prefetch all of the next, but so few that the first one counts.
    """
    memory, size = target.memory, plan.dtype.itemsize
    is_plain = plan.method == "tile" and plan.dtype == plan.compute and not plan.borders
    is_plain = is_plain and plan.pack_left == plan.pack_right == "none" and not plan.rows_first
    is_once = plan.band_tiles >= plan.row_tiles and plan.right.column_stride == 1
    is_far = plan.k * plan.columns * size >= memory.l2_bytes
    if not (target.shares_slowly and is_plain and is_once and is_far) or plan.left.column_digits:
        return None
    runs = [count for count, _ in plan.right.column_digits]
    are_panels = plan.k_blocks == 1 and runs == [plan.tile_columns] == [plan.right.row_stride]
    if not are_panels and not (plan.k_blocks > 1 and plan.has_panel):
        return None
    line, k = memory.line_bytes // size, min(plan.k, plan.block_k)
    for steps in (STEPS_A_LINE, STEPS_A_LINE // 2):
        part = -(-k // steps) * line
        tiles = -(-k * plan.tile_columns // part)
        if tiles <= plan.row_tiles:
            return PrefetchedSource(PrefetchedLines(steps), line, 1, 0, part, tiles)
    return None


def _source_prefetched(
    plan: ContractPlan, tiles: int, memory: MemoryHierarchy
) -> PrefetchedSource | None:
    """Return what so many tiles of a panel prefetch of the right that the next is packed from."""
    is_packed = plan.method == "tile" and plan.pack_right in ("copy", "transpose")
    is_plain = plan.dtype == plan.compute and not plan.borders
    if not (is_packed and is_plain) or has_digits(plan) or plan.panels == 1:
        return None
    k = min(plan.k, plan.block_k)
    line = memory.line_bytes // plan.dtype.itemsize
    wide = -(-plan.tile_columns // line)
    for steps in (STEPS_A_LINE, STEPS_A_LINE // 2):
        lines = -(-k // steps)
        rows = line // steps  # of the right transposed, each with all terms of a column
        if plan.pack_right == "transpose" and tiles * rows > plan.tile_columns:
            apart, prefetching = plan.right.column_stride, -(-plan.tile_columns // rows)
            follow_one_another = apart == k and k % line == 0
            prefetched = (
                PrefetchedLines(steps)
                if follow_one_another
                else PrefetchedLines(steps, rows, apart)
            )
            return PrefetchedSource(prefetched, line, 1, 0, rows * apart, prefetching)
        if plan.pack_right == "copy" and tiles > wide * steps:
            along = plan.right.row_stride
            return PrefetchedSource(
                PrefetchedLines(steps), along, wide, line, lines * along, wide * steps
            )
    return None


def _has_images_beside(plan: ContractPlan) -> bool:
    """Return whether steps of k that follow one another are pixels of images far apart."""
    further = [by for _, by in plan.left.column_digits]
    return bool(further) and plan.left.column_stride > max(further)


def _is_met_late(plan: ContractPlan, memory: MemoryHierarchy) -> bool:
    """Return whether a tile waits for rows of the left that no near cache has.

    They are read along k, one beside the other and each for a few lines at a time, or across, a
    line at each step of k: too short for a processor to follow. Where many panels read a block of
    them, most find it near; and a panel of one vector has no time to prefetch at each step.
    """
    is_across = plan.left.row_stride == 1 and plan.tile_columns > plan.lanes
    is_in_lines = is_across or plan.left.column_stride == 1
    left_bytes = plan.rows * plan.k * plan.dtype.itemsize
    is_far = left_bytes > memory.l2_bytes and plan.panels <= FEW_PANELS
    return plan.method == "tile" and plan.pack_left == "none" and is_in_lines and is_far


def _is_panel_met_late(plan: ContractPlan, memory: MemoryHierarchy) -> bool:
    """Return whether the first tile of a packed panel waits for it, since no near cache holds all.

    A block of tiles prefetches the next panel while it reads one, as many lines as it has steps of
    k in its tiles, so that a few tiles are enough.
    """
    packed_bytes = plan.block_panels * plan.block_k * plan.tile_columns * plan.compute.itemsize
    is_packed = plan.method == "tile" and plan.pack_right != "none" and not plan.rows_first
    is_packed = is_packed and plan.pack_left != "windows"
    is_long = plan.k_piece > SHORT_PIECE
    return is_packed and is_long and plan.block_panels > 1 and packed_bytes > memory.l2_bytes
