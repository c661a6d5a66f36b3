"""Loop unrolling of a microkernel: how many steps of k an iteration takes, and in how many sums."""

from __future__ import annotations

from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.target import Target
from symgrad.cost_model.products import (
    COUNTED_LOOP,
    LEAST_FILLED,
    LEAST_UNROLLED,
    SHORT_LOOP,
    SPARE_REGISTERS,
    UNROLLED_CYCLES,
    UNROLLED_STEPS,
)


def turns_of(plan: ContractPlan, target: Target, rows: int, columns: int) -> tuple[int, int]:
    """Return how many chains each sum of a tile is, and how many steps an iteration takes."""
    whole = plan.whole_vectors(columns)
    sums = rows * whole // plan.lanes
    chains = _chains(sums, plan.k_run, target)
    return chains, chains if chains > 1 else _unrolled(plan, sums + whole // plan.lanes, target)


def _chains(sums: int, k: int, target: Target) -> int:
    """Return the power of two of chains that keeps the units busy, if k is worth it.

    They are to leave registers for what is loaded.
    """
    chains, held = 1, target.vector_registers - SPARE_REGISTERS
    while chains * sums < min(target.adds_in_flight, held // 2 + 1) and 8 * chains <= k:
        chains *= 2
    return chains


def _unrolled(plan: ContractPlan, registers: int, target: Target) -> int:
    """Return how many steps of k an iteration takes, of a microkernel that holds `registers`.

    Four where that pays and registers are left for the elements that LLVM then loads ahead; two
    steps need fewer.
    """
    is_folded = target.architecture == "x86_64" and target.has_fma  # loads, by multiply-adds
    if not _takes_steps(plan, target):
        return 1
    steps, left = _steps(plan), target.vector_registers - registers
    # What is left over of each piece is a loop, too.
    several = 2 if plan.walks_pieces and steps % UNROLLED_STEPS == 2 else UNROLLED_STEPS
    if left >= (4 if is_folded else 5):
        return several
    # AVX2 has no multiply-add that broadcasts its operand: an element takes one register more.
    return min(several, 2) if is_folded and left >= (2 if target.vector_bytes == 64 else 3) else 1


def _takes_steps(plan: ContractPlan, target: Target) -> bool:
    """Return whether it pays that an iteration of a microkernel takes several steps of k.

    That is where its loop is short: the exit of such a loop is never predicted, and the
    multiply-add units wait for what follows a tile or a piece. And it is where a product takes
    long, or where a processor issues few instructions.
    """
    steps = _steps(plan)
    is_short = LEAST_UNROLLED <= steps <= SHORT_LOOP
    # What goes round a long loop takes instructions as well.
    is_short = is_short or (steps > SHORT_LOOP and target.issues_few)
    return is_short and (plan.cycles >= UNROLLED_CYCLES or _is_counted(plan, steps, target))


def fills_iterations(plan: ContractPlan, target: Target) -> bool:
    """Return whether iterations take several steps of k of which no register is free for loads.

    So it is where a multiply-add broadcasts no operand, and a loop has enough of such iterations.
    """
    is_long = _steps(plan) >= LEAST_FILLED
    return is_long and not target.folds_broadcasts and _takes_steps(plan, target)


def _steps(plan: ContractPlan) -> int:
    """Return how many steps of k a microkernel takes before something else follows."""
    return plan.walked_piece if plan.walks_pieces else min(plan.k, plan.block_k)


def _is_counted(plan: ContractPlan, steps: int, target: Target) -> bool:
    """Return whether instructions around products take time that a small product notices.

    It is where a processor issues few instructions at a time, and loops are so short that what is
    around them comes often, or where multiply-adds themselves leave none to spare. Such kernels are
    assembled: more code takes LLVM no time.
    """
    is_float = plan.compute.is_float and plan.compute == plan.dtype
    is_plain = is_float and plan.method == "tile" and not plan.has_pieces
    is_noticed = steps <= COUNTED_LOOP or not target.folds_broadcasts
    return target.issues_few and is_plain and is_noticed


def is_even(plan: ContractPlan, unrolled: int) -> bool:
    """Return whether all steps of k that a microkernel is called with are whole iterations."""
    if plan.borders or (plan.diagonal is not None and unrolled > 1):
        return False
    last = plan.k - (plan.k_blocks - 1) * plan.block_k
    runs = [plan.walked_piece] if plan.walks_pieces else [min(plan.k, plan.block_k), last]
    return all(run > 0 and run % unrolled == 0 for run in runs)
