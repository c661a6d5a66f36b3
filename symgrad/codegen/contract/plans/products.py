"""GEMM plan of a product, and the places of its epilogue that want a software prefetch.

Shapes and strides decide on the plan.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any

from symgrad.codegen.contract import ContractPlan, Operand, plan_contract
from symgrad.codegen.contract.diagonal import with_diagonal
from symgrad.codegen.contract.methods import GoesOn
from symgrad.codegen.contract.plans.blocks import has_digits, with_kept_rows
from symgrad.codegen.contract.plans.borders import with_borders
from symgrad.codegen.contract.plans.panels_beside import has_panel_beside, loads_by_element
from symgrad.codegen.contract.plans.parts import in_parts
from symgrad.codegen.contract.plans.prefetching import (
    can_meet_next,
    can_pack_next,
    can_prefetch_product,
    packing_next,
    with_next_steps,
)
from symgrad.codegen.contract.plans.prefetching_matrices import with_prefetched_part
from symgrad.codegen.contract.plans.scratch import scratch_bytes
from symgrad.codegen.contract.unread import with_unread
from symgrad.codegen.loops.access import checks_differ
from symgrad.codegen.loops.blocking import Blocking
from symgrad.codegen.loops.index_arithmetic import even_run, step_within
from symgrad.codegen.loops.language import (
    Check,
    Index,
    Product,
    Ref,
    Store,
    StridedOperand,
)
from symgrad.codegen.loops.rewrite import index_names
from symgrad.codegen.loops.strided import ZeroBorder
from symgrad.codegen.target import Target
from symgrad.cost_model import BYTES_BETWEEN_PIECES
from symgrad.cost_model.products import CACHES_STREAMED, SHORT_BLOCK, epilogue_cycles
from symgrad.forks import held_over_forks
from symgrad.records import replace


class _PlanKey:
    """A product on a target, by identity: to compare them would read all that a product is."""

    __slots__ = ("product", "target")

    def __init__(self, product: Product, target: Target) -> None:
        self.product, self.target = product, target

    def __hash__(self) -> int:
        return hash((id(self.product), id(self.target)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _PlanKey)
            and other.product is self.product
            and other.target is self.target
        )


_CACHE_SIZE = 256
# Who emits a product asks three times. What is kept is alive, so no other product has its id.
_plans: OrderedDict[_PlanKey, ContractPlan] = OrderedDict()
_lock = held_over_forks()


def product_plan(product: Product, target: Target) -> ContractPlan:
    """Return how `product` is computed on `target`: the same whenever it is asked for."""
    plan = _plans.get(_PlanKey(product, target))
    return keep_plan(product, _planned(product, target), target) if plan is None else plan


def hand_on_plan(product: Product, renamed: Product, target: Target) -> None:
    """Keep the plan of a product, if there is one, for one that differs in names and blocking.

    A plan has no names, so it is the one that would be made anew.
    """
    plan = _plans.get(_PlanKey(product, target))
    if plan is not None:
        keep_plan(renamed, plan, target)


def keep_plan(product: Product, plan: ContractPlan, target: Target) -> ContractPlan:
    """Have a product computed as `plan` says, which is returned."""
    with _lock:
        _plans[_PlanKey(product, target)] = plan
        if len(_plans) > _CACHE_SIZE:
            _plans.popitem(last=False)
    return plan


def _planned(product: Product, target: Target) -> ContractPlan:
    plan = _plan_by_runs(product, target)
    packs_next = can_pack_next(plan, target) and not product.borders
    if product.parallel is not None and product.parallel.by is not None:
        plan = in_parts(plan, product.parallel, target)
    borders = _padding_of(product)
    if plan.padding is not None:
        borders = tuple(replace(border, absent=False) for border in borders)  # it is packed
    plan = with_borders(plan, borders)
    goes_on = _goes_on(product, plan)
    if goes_on is None and has_panel_beside(product, plan, target):
        goes_on = "columns"
    if goes_on is not None:
        # A microkernel prefetches one thing: here it is the next product, not the next panel.
        plan = replace(plan, prefetches_next=goes_on == "rows", prefetches_panel=False)
        plan = replace(plan, goes_on=goes_on, next_source=None)
    packs_next = packs_next and can_pack_next(plan, target)
    if packs_next and _tiles_of_part(product, plan) == plan.row_tiles:
        plan = packing_next(plan)
    plan = with_next_steps(plan, _tiles_of_part(product, plan))
    plan = _without_followed(plan, target)
    plan = _with_results(product, plan, target)
    plan = _with(plan, met=len(places_to_prefetch(product, plan, target)))
    plan = with_kept_rows(plan, target.memory) if target.follows_pages else plan
    plan = _with(plan, next_right=_next_right(product, plan, target))
    plan = _with(plan, next_sides=_next_sides(product, plan, target))
    is_next = plan.next_right > 0 or any(plan.next_sides)
    plan = _with(plan, prefetches_product=is_next and can_prefetch_product(plan, target))
    if product.parallel is None:
        plan = with_diagonal(plan, product.borders)
        plan = with_unread(plan, product.read, target)
    plan = with_prefetched_part(plan, product.prefetches)
    # An index that is data is checked one by one: the epilogue then gets single elements.
    is_single = checks_differ(product, _along(product, plan))
    return replace(plan, vector_width=1) if is_single else plan


def _with(plan: ContractPlan, **decided: Any) -> ContractPlan:
    """Return `plan` with what was decided, itself where that is what it says already."""
    is_new = any(getattr(plan, name) != value for name, value in decided.items())
    return replace(plan, **decided) if is_new else plan


def _plan_by_runs(product: Product, target: Target) -> ContractPlan:
    """Return the plan of the sums, with tiles in runs of rows that lie evenly in the result.

    Such tiles are stored there and have no epilogue. More of them than the operands prefetch are
    taken where that costs less.
    """
    lhs = _operand(product.lhs, product.element.itemsize)
    plan = _plan_of_sums(product, lhs, target)
    run = even_run(_result_of(product).index, product.rows[0], plan.row_run)
    is_even = run == plan.row_run or run < plan.tile_rows
    if is_even or plan.vector_axis == "m" or plan.pack_left == "windows":
        return plan
    digits = (run, run * lhs.row_stride), *lhs.row_digits
    cut = _plan_of_sums(product, replace(lhs, row_digits=digits), target)
    after = epilogue_cycles(plan.rows, plan.columns, plan.vector_width, 1)
    is_stored = _with_results(product, cut, target).result_row > 0
    return cut if is_stored and cut.cycles - after <= plan.cycles else plan


def _plan_of_sums(product: Product, lhs: Operand, target: Target) -> ContractPlan:
    """Return how the sums of a product are added up, of which `lhs` is the left operand."""
    store = _result_of(product)
    result = Operand(
        store.index.coefficient(product.rows[0]),
        store.index.coefficient(product.columns[0]),
        store.value.dtype.itemsize,
    )
    planned = partial(
        plan_contract,
        product.rows[1],
        product.columns[1],
        product.inner[1],
        product.element,
        lhs,
        _operand(product.rhs, product.element.itemsize),
        result,
        target,
        streams=_streams(product),
        borders=_padding_of(product),
    )
    plan = planned()
    # Tiles that prefetch what the next product reads are worth more than full vectors.
    is_other = plan.method in ("split", "held")
    prefetches = is_other and _goes_on(product, replace(plan, method="tile")) is not None
    return planned(only_tiles=True) if prefetches else plan


def _padding_of(product: Product) -> tuple[ZeroBorder, ...]:
    return tuple(border for border in product.borders if not border.is_diagonal)


def _result_of(product: Product) -> Store:
    return next(s for s in product.body if isinstance(s, Store))


def _with_results(product: Product, plan: ContractPlan, target: Target) -> ContractPlan:
    """Return `plan` with tiles stored where results are, if nothing is done with these.

    They are to fill whole vectors there. What is much more than any cache holds goes past them: a
    line that is written at once need not be read before, nor has to push out what is needed.
    """
    match product.body:
        case (Store(_, index, Ref(name)),) if name == product.name:
            pass
        case _:
            return plan
    is_plain = plan.dtype == plan.compute == plan.accumulate == product.dtype
    is_direct = plan.method in ("tile", "split", "held") and plan.k > 0
    size = plan.rows * plan.columns * plan.dtype.itemsize
    memory = target.memory
    # Sums wait for their next block of k in the result as well, unless the second-level cache has
    # them in tiles that follow one another, or they come and go too often to be prefetched.
    waits_there = size > memory.l2_bytes and plan.block_k >= SHORT_BLOCK
    is_direct = is_direct and (plan.k_blocks == 1 or waits_there)
    across, down = product.columns[0], product.rows[0]
    if plan.vector_axis == "m":
        across, down = down, across
    row = step_within(index, down, plan.row_run)
    whole = {"split": plan.lanes // 2, "held": 1}.get(plan.method, plan.lanes)
    is_whole = plan.edge_columns % whole == 0
    is_whole = is_whole and step_within(index, across, plan.column_run) == 1
    if not (is_plain and is_direct and is_whole) or row is None:
        return plan
    is_aligned = row * plan.dtype.itemsize % memory.line_bytes == 0
    is_streamed = (
        plan.method == "tile"
        and plan.k_blocks == 1
        and size >= CACHES_STREAMED * memory.shared_bytes
        and is_aligned
        and target.vector_bytes == memory.line_bytes
        and target.architecture == "x86_64"
    )
    return replace(plan, result_row=row, is_streamed=is_streamed)


def _without_followed(plan: ContractPlan, target: Target) -> ContractPlan:
    """Return `plan` whose tiles do not prefetch the next rows of the left where a processor does.

    Where rows lie side by side each step of k reads a line as far behind the last as that was
    behind the one before. What follows such walks across pages has these lines in time, and to
    prefetch those of the next tile as well takes from what the second-level cache gives.
    """
    is_across = plan.left.row_stride == 1 and not has_digits(plan) and plan.goes_on is None
    follows = target.follows_pages and is_across and plan.k_blocks == 1
    return _with(plan, prefetches_next=plan.prefetches_next and not follows)


def _tiles_of_part(product: Product, plan: ContractPlan) -> int:
    """Return how many tiles of each panel a thread has."""
    share = product.parallel
    is_down = share is not None and share.axis != plan.vector_axis
    return min(share.tiles, plan.row_tiles) if share is not None and is_down else plan.row_tiles


def _goes_on(product: Product, plan: ContractPlan) -> GoesOn | None:
    """Return along which axis the next product of a loop around begins where this one ends.

    It has to be told so if it reaches but a piece of each of many rows that lie apart: a processor
    follows no such walk, and what begins a block of them is in no cache.
    """
    across, down = product.lhs, product.rhs
    if plan.vector_axis == "m":
        across, down = down, across
    left, right = plan.left, plan.right
    has_digits = (left.row_digits, left.column_digits, right.row_digits) != ((), (), ())
    is_direct = plan.method == "tile" and plan.pack_left == "none" and plan.k_blocks == 1
    if has_digits or not is_direct:
        return None
    pitch = BYTES_BETWEEN_PIECES // plan.dtype.itemsize
    if left.column_stride == 1 and left.row_stride > max(pitch, plan.k):
        return "rows" if _steps_by(across, plan.rows * left.row_stride) else None
    steps = left.column_stride, right.row_stride
    are_pieces = steps[0] > max(pitch, plan.rows) and steps[1] > max(pitch, plan.columns)
    if left.row_stride == 1 and plan.pack_right == "none" and are_pieces:
        is_next = _steps_by(across, plan.k * steps[0]) and _steps_by(down, plan.k * steps[1])
        return "k" if is_next else None
    return None


def _next_right(product: Product, plan: ContractPlan, target: Target) -> int:
    """Return how far behind a right that of the next product of a batch is, if that is prefetched.

    So is one that is transposed, and one that is met late. It is to be so small that the nearest
    cache has room for it, or the second one, if it is a panel or all of the product is prefetched;
    else 0 is returned.
    """
    right = product.rhs if plan.vector_axis == "n" else product.lhs
    size = plan.k * plan.columns
    is_turned = plan.pack_right in ("transpose", "split") and plan.right.row_stride == 1
    is_late = is_turned or plan.method == "held" or can_prefetch_product(plan, target)
    # Tiles have time for more lines than a packer.
    share = 2 if can_prefetch_product(plan, target) else 4
    nbytes, memory = size * plan.dtype.itemsize, target.memory
    is_small = nbytes <= memory.l1_bytes // share
    # A loop around reads weights of which a near cache has no room for all, panel by panel.
    is_panel = plan.has_panel and can_prefetch_product(plan, target)
    has_room = is_small or (is_panel and nbytes <= memory.l2_bytes // 2)
    has_room = has_room or (can_prefetch_product(plan, target) and can_meet_next(plan, memory))
    is_next = is_late and has_room and _steps_by(right, size) and not _stays(product, plan, right)
    return size if is_next else 0


def _stays(product: Product, plan: ContractPlan, right: StridedOperand) -> bool:
    """Return whether a loop around reads a right again for the next rows of the result.

    What comes behind it would be prefetched with each of these, and wait where this one is read.
    """
    moved = {variable for variable, _ in right.index.terms}
    block = plan.rows * plan.columns
    terms = _result_of(product).index.terms
    return any(by == block and variable not in moved for variable, by in terms)


def _next_sides(product: Product, plan: ContractPlan, target: Target) -> tuple[int, int]:
    """Return how far behind the left and the result of a batch those of the next product begin.

    They are prefetched where a held right is transposed: then no product overlaps with the next one
    as much as it waits for them. So they are where they are met late, and a near cache has room for
    both products; tiles of split vectors prefetch where they are stored anyway. What is not dense,
    or no part of a batch, has 0.
    """
    is_turned = plan.method == "held" and plan.right.column_stride != 1
    are_late = can_prefetch_product(plan, target) and can_meet_next(plan, target.memory)
    if not plan.next_right or not (is_turned or are_late):
        return 0, 0
    left = product.lhs if plan.vector_axis == "n" else product.rhs
    read, written = plan.rows * plan.k, plan.rows * plan.columns
    is_stored = plan.result_row == plan.columns and plan.method != "split"
    is_next = any(by == written for _, by in _result_of(product).index.terms)
    return read if _steps_by(left, read) else 0, written if is_stored and is_next else 0


def _steps_by(operand: StridedOperand, step: int) -> bool:
    """Return whether a loop around goes through an operand in steps of so many elements."""
    return any(coefficient == step for _, coefficient in operand.index.terms)


def _along(product: Product, plan: ContractPlan) -> str:
    """Return the axis that vectors of the epilogue lie along."""
    return (product.columns if plan.vector_axis == "n" else product.rows)[0]


def _operand(operand: StridedOperand, align: int) -> Operand:
    return Operand(operand.rows, operand.columns, align, operand.row_digits, operand.column_digits)


def _streams(product: Product) -> int:
    """Return how many buffers the epilogue walks through, those of a row or a column aside."""
    stored = {s.buffer for s in product.body if isinstance(s, Store)}
    return len(stored | {load.buffer for load in loads_by_element(product)})


def places_to_prefetch(
    product: Product, plan: ContractPlan, target: Target
) -> list[tuple[str, Index]]:
    """Return what the epilogue reads and writes in memory and no cache, along the plan's lanes.

    All of it together is larger than a near cache; or each buffer is, by far, where a microkernel
    has not the time to prefetch one row after another. Of whole rows a processor fetches it.
    """
    along = _along(product, plan)
    stores = [s for s in product.body if isinstance(s, Store)]
    met = [(load.buffer, load.index) for load in loads_by_element(product)]
    met += [(s.buffer, s.index) for s in stores if plan.goes_on != "columns"]
    checked = {s.name for s in product.body if isinstance(s, Check)}  # known in the epilogue only
    places = [
        (buffer, index)
        for buffer, index in dict.fromkeys(met)
        if index.coefficient(along) == 1 and checked.isdisjoint(index_names(index))
    ]
    if plan.is_streamed or plan.keeps_rows:
        return []
    size, near = plan.rows * plan.columns * plan.compute.itemsize, target.memory.l2_bytes
    has_time = replace(plan, met=len(places)).steps_a_row > 0
    is_large = len(places) * size > near if has_time else size > 2 * near
    return places if is_large or plan.goes_on in ("rows", "columns") else []


def blocking_of(plan: ContractPlan) -> Blocking:
    """Return what of `plan` a kernel's text shows."""
    along_n = plan.vector_axis == "n"
    high = min(plan.block_tiles * plan.tile_rows, plan.rows)
    across = min(plan.block_panels * plan.tile_columns, plan.columns)
    ways = {"lhs": plan.pack_left, "rhs": plan.pack_right}
    if not along_n:
        ways = {"lhs": plan.pack_right, "rhs": plan.pack_left}
    return Blocking(
        tile=(plan.tile_rows, plan.tile_columns),
        block=(*((high, across) if along_n else (across, high)), min(plan.block_k, plan.k)),
        pack=tuple(name for name, how in ways.items() if how != "none"),
        along=plan.vector_axis,
        scratch=scratch_bytes(plan),
    )
