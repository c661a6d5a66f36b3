"""Loop interleaving: several vectors of a long elementwise loop beside each other.

    for i in 0..4096 vector(16) { ... }   ->   for i in 0..4096 vector(16) interleave(4) { ... }

A chain of operations waits for each of them: a core that has one vector of a long chain in its
window does one operation where it could do eight. With four vectors, operation by operation, it has
four chains that do not depend on each other. What is gained is lost where far more values are live
than there are registers, or where many elements are gathered one by one; and it is four times the
code, which only loops that take milliseconds are worth; those of microseconds are worth two
vectors. Four are worth it as well where a short loop calls a math function again and again, or one
of microseconds makes calls that wait for each other, since there is one copy of what is called. No
result changes: no element depends on another.
"""

from __future__ import annotations

from symgrad.codegen.kernel_costs import calls_often, count_calls, statement_cycles
from symgrad.codegen.loops.access import body_flops, dependents, looked_up_along, names_used
from symgrad.codegen.loops.early_stores import store_early
from symgrad.codegen.loops.language import (
    Fold,
    For,
    Kernel,
    Let,
    Loop,
    Op,
    Ref,
    Stmt,
    Store,
    has_check,
)
from symgrad.codegen.loops.rewrite import index_names, indices
from symgrad.codegen.loops.short_rows import row_accesses
from symgrad.codegen.target import Target
from symgrad.cost_model import (
    FEW_APART,
    LEAST_INTERLEAVED_FLOPS,
    LIVE_A_REGISTER,
    MOST_INTERLEAVED_FLOPS,
    VECTORS_IN_FLIGHT,
)
from symgrad.graph.scalars import SCALAR_OPS
from symgrad.records import replace


def interleave(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with its long elementwise loops marked for several vectors at a time."""
    if calls_often(kernel.body):
        most = max(VECTORS_IN_FLIGHT)
        marked = [_marked(s, target, most, calls=True) for s in kernel.body]
    else:
        marked = [_marked(s, target, _most_vectors(s), calls=False) for s in kernel.body]
    return replace(kernel, body=tuple(marked))


def _most_vectors(statement: Stmt) -> int:
    """Return how many vectors beside each other, at most, the time a loop takes is worth."""
    cycles = statement_cycles(statement) if isinstance(statement, For) else 0
    return max((count for count, least in VECTORS_IN_FLIGHT.items() if cycles >= least), default=1)


def _marked(statement: Stmt, target: Target, most: int, *, calls: bool) -> Stmt:
    if not isinstance(statement, For):
        return statement
    if statement.vector > 1:
        count = vectors_in_flight(statement, target, most, calls=calls)
        return replace(statement, interleave=count)
    body = tuple(_marked(s, target, most, calls=calls) for s in statement.body)
    return replace(statement, body=body)


def vectors_in_flight(loop: For, target: Target, most: int, *, calls: bool = False) -> int:
    """Return how many vectors of a loop to compute beside each other, a power of 2 up to `most`.

    If it `calls` math functions, their code is no part of it, and it stores early.
    """
    if most == 1 or has_check(loop.body) or any(isinstance(s, Loop) for s in loop.body):
        return 1
    flops = body_flops(loop.body)
    if flops < LEAST_INTERLEAVED_FLOPS or not _are_mostly_vectors(loop):
        return 1
    emitted = replace(loop, body=store_early(loop.body)) if calls else loop
    count, live = most, live_values(emitted)
    code = body_flops([s for s in loop.body if not (calls and count_calls([s]))])
    while count > 1 and (
        count * live > LIVE_A_REGISTER * target.vector_registers
        or count * code > MOST_INTERLEAVED_FLOPS
        or count * loop.vector > loop.extent
    ):
        count //= 2
    return count


def _are_mostly_vectors(loop: For) -> bool:
    """Return whether few of the elements that an iteration reaches are gathered one by one."""
    accesses = list(indices(loop.body))
    looked_up = looked_up_along(loop.body, loop.var)
    apart = sum(
        index.coefficient(loop.var) not in (0, 1) or not looked_up.isdisjoint(index_names(index))
        for index in accesses
    )
    rows = row_accesses(loop.body, loop.var, loop.vector, looked_up)
    apart -= sum(len(list(row)) for row in rows)
    return apart * FEW_APART <= len(accesses)


def vectors_in_turn(fold: Fold, target: Target) -> int:
    """Return how many vectors of a fold in lanes are computed one after another, 1 if beside.

    They are where sums fill half of the registers or more, and what else is live does not fit
    beside them: their chains are short, and a core has those of the next vector in its window. A
    math function is a long chain, of which several hide the latency.
    """
    if fold.lanes == 1 or any(isinstance(s, Loop) for s in fold.body):
        return 1
    size = max(a.identity.dtype.itemsize for a in fold.accumulators)
    vectors = max(1, fold.lanes // target.lanes(size))
    carried = vectors * len(fold.accumulators)
    ops = [s.value for s in fold.body if isinstance(s, Let) and isinstance(s.value, Op)]
    has_function = any(SCALAR_OPS[op.name].flops >= LEAST_INTERLEAVED_FLOPS for op in ops)
    is_tight = 2 * carried >= target.vector_registers
    needed = carried + vectors * live_values(fold)
    return vectors if is_tight and not has_function and needed > target.vector_registers else 1


def live_values(loop: For | Fold) -> int:
    """Liveness: return the most values needed at a time of those that differ between lanes."""
    varying = dependents(loop.body, loop.var)
    used = [_uses(statement) & varying for statement in loop.body]
    last: dict[str, int] = {}
    for number, names in enumerate(used):
        last.update(dict.fromkeys(names, number))
    live = most = 0
    for number, (statement, names) in enumerate(zip(loop.body, used, strict=True)):
        if isinstance(statement, Let) and statement.name in last:
            live += 1
        most = max(most, live)
        live -= sum([last[name] == number for name in names])
    return most


def _uses(statement: Stmt) -> set[str]:
    if isinstance(statement, Let):
        return names_used(statement.value)
    if isinstance(statement, Store) and isinstance(statement.value, Ref):
        return {statement.value.name}
    return set()
