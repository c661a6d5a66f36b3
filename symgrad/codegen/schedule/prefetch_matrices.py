"""Software prefetch of the next matrix of a batch, where much is done with each.

    for b in 0..128 ordered {
      product s: f32 ... q[8192*b] by (64, 1) * x[8192*b] by (1, 64) ...
      for i in 0..64 { ... exp ... }
      product s: f32 ... * v[8192*b] by (64, 1) ...
    }

becomes

    for b in 0..128 ordered {
      product s: f32 ... q[8192*b] by (64, 1) * x[8192*b] by (1, 64) ...
      for i in 0..64 prefetches { ... exp ... }
      product s: f32 ... * v[8192*b] by (64, 1) ...
    }

What is done first with a matrix waits for memory, which rests while the others compute on what is
in caches. So the loops over rows between products prefetch the next matrix, some lines with each
row. The larger matrices are, the less that is beside their products.

These loops are short: lines come in a third of the time, more than are on their way at once. Where
a processor meets matrices late (`Target.meets_products_late`) tiles of products prefetch as well,
for a line in some steps of k (`prefetches(0, 352, 2)`), evenly over an iteration, and rows for what
is left. No result changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from symgrad.codegen.contract.plans.prefetching_matrices import (
    can_prefetch_matrices,
    steps_of_tiles,
)
from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.loops.language import For, Kernel, Param, Product, Stmt
from symgrad.codegen.loops.next_matrices import (
    lines_of_matrices,
    next_matrices,
    products_run_once,
    row_loops,
)
from symgrad.codegen.loops.rewrite import has_loops_in_loops
from symgrad.codegen.loops.strided import PrefetchedPart
from symgrad.codegen.target import Target
from symgrad.cost_model import (
    LINES_PREFETCHED,
    MOST_RESULTS_PREFETCHED,
    STEPS_OF_LINE,
    TERMS_OF_BYTE,
)
from symgrad.records import replace


def prefetch_matrices(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with loops over rows marked to prefetch the next matrix."""
    if not has_loops_in_loops(kernel.body):
        return kernel
    params = {param.name: param for param in kernel.params}
    return replace(kernel, body=tuple(_marked(s, params, target, 1) for s in kernel.body))


def _marked(statement: Stmt, params: Mapping[str, Param], target: Target, parts: int) -> Stmt:
    if not isinstance(statement, For) or statement.vector > 1:
        return statement
    parts *= statement.parts
    inner = tuple(_marked(s, params, target, parts) for s in statement.body)
    loop = replace(statement, body=inner)
    rows = list(row_loops(loop.body))
    if not rows or any(row.prefetches for row in rows):
        return loop
    scratch = sum(p.nbytes for p in params.values() if p.mode == "scratch") // parts
    loop = _with_prefetching_products(loop, params, scratch, target)
    if not _pays(loop, rows, params, scratch, target):
        return loop
    return replace(loop, body=tuple(_prefetching(s, {row.var for row in rows}) for s in loop.body))


def _with_prefetching_products(
    loop: For, params: Mapping[str, Param], scratch: int, target: Target
) -> For:
    """Return a loop whose products prefetch the next matrices, as many as they have time for.

    It is for a processor that meets them late, whose second cache is to have room for one iteration
    and what is not done with: what was read of this one is in the way no more.
    """
    memory, read = target.memory, next_matrices(loop)
    sizes = {name: param.dtype.itemsize for name, param in params.items()}
    matrices = lines_of_matrices(loop, sizes, memory.line_bytes)
    lines = max((end for _, end in matrices.values()), default=0)
    is_far = sum(params[name].nbytes for name in read) > memory.l2_bytes
    # Rows are enough for what is written only: stores wait for their lines, and nothing for them.
    is_far = is_far and any(params[name].mode == "in" for name in read)
    # The second cache of such a processor has twice the bytes that blocks are sized to.
    has_room = lines * memory.line_bytes + scratch <= 2 * memory.l2_bytes
    is_waited_for = _terms(loop.body) < TERMS_OF_BYTE * lines * memory.line_bytes
    if not (target.meets_products_late and is_far and has_room and is_waited_for):
        return loop
    plans = {p.name: product_plan(p, target) for p in products_run_once(loop.body)}
    steps = {name: steps_of_tiles(p) for name, p in plans.items() if can_prefetch_matrices(p)}
    prefetched = _parts_prefetched(steps, [end for _, end in matrices.values()])
    return replace(loop, body=tuple(_prefetching_products(s, prefetched) for s in loop.body))


def _parts_prefetched(steps: Mapping[str, int], ends: Sequence[int]) -> dict[str, PrefetchedPart]:
    """Return which lines each product prefetches, given its steps, and where matrices end in these.

    A line comes in as many steps as leave time for all; else some of the matrices are left out.
    """
    most = {rate: sum(count // rate for count in steps.values()) for rate in STEPS_OF_LINE}
    fastest = min(STEPS_OF_LINE)
    rate = max((r for r, lines in most.items() if lines >= max(ends)), default=fastest)
    stop = max((end for end in ends if end <= most[rate]), default=0)
    prefetched, first = dict[str, PrefetchedPart](), 0
    for name, count in steps.items():
        lines = min(count // rate, stop - first)
        if lines > 0:
            prefetched[name] = PrefetchedPart(first, lines, rate)
        first += lines
    return prefetched


def _prefetching_products(statement: Stmt, prefetched: Mapping[str, PrefetchedPart]) -> Stmt:
    if isinstance(statement, Product) and statement.name in prefetched:
        return replace(statement, prefetches=prefetched[statement.name])
    if isinstance(statement, For) and statement.extent == 1:
        return replace(
            statement, body=tuple(_prefetching_products(s, prefetched) for s in statement.body)
        )
    return statement


def _prefetching(statement: Stmt, rows: set[str]) -> Stmt:
    if not isinstance(statement, For):
        return statement
    if statement.var in rows:
        return replace(statement, prefetches=True)
    return replace(statement, body=tuple(_prefetching(s, rows) for s in statement.body))


def _pays(
    loop: For, rows: list[For], params: Mapping[str, Param], scratch: int, target: Target
) -> bool:
    """Return whether matrices come from no near cache, and have room there, as the next ones do.

    Where much of them is results, `scratch` memory has to have room as well: whatever a line puts
    out has been written then, and is written back before.

    And there is time to prefetch them, but not so much that waiting for them is nothing beside it.
    """
    memory = target.memory
    read = next_matrices(loop)
    total = sum(params[name].nbytes for name in read)
    sizes = {
        name: first.coefficient(loop.var) * params[name].dtype.itemsize
        for name, first in read.items()
    }
    nbytes = sum(sizes.values())
    results = sum(size for name, size in sizes.items() if params[name].mode != "in")
    lines = nbytes / memory.line_bytes / sum(row.extent for row in rows)
    beside = scratch if results > MOST_RESULTS_PREFETCHED * nbytes else 0
    is_far = total > memory.l2_bytes and 2 * nbytes + beside <= memory.l2_bytes
    is_waited_for = _terms(loop.body) < TERMS_OF_BYTE * nbytes
    return is_far and is_waited_for and lines <= LINES_PREFETCHED


def _terms(body: Sequence[Stmt]) -> int:
    """Return how many terms of products statements add up."""
    total = 0
    for statement in body:
        if isinstance(statement, Product):
            total += math.prod(n for _, n in (statement.rows, statement.columns, statement.inner))
        elif isinstance(statement, For):
            total += statement.extent * _terms(statement.body)
    return total
