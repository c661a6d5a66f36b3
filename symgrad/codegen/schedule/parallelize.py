"""Loop parallelisation: mark the loops and products whose iterations threads divide.

    for i in 0..1000000 vector(16) { ... }
        ->  for i in 0..1000000 vector(16) parallel(500032) { ... }
    product s: f32 for ... along(n)
        ->  product s: f32 for ... along(n) parallel(n, 8)

It comes last in a schedule, but for hoisting. No mark changes what is computed or in which order
elements are combined, so results do not depend on the number of threads. What is too small to pay
for waking and awaiting threads is left as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.contract.plans.sharing import choose_share
from symgrad.codegen.kernel_costs import shared_cycles
from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    For,
    Generated,
    Kernel,
    Parallel,
    Product,
    SortRows,
    Stmt,
)
from symgrad.codegen.loops.rewrite import map_indices, substitute_variable
from symgrad.codegen.schedule.licm import hoist_uniform
from symgrad.codegen.schedule.vectorize import checks_depend, has_nests, nested, perfect_nest
from symgrad.codegen.sorting.plan import sort_plan
from symgrad.codegen.target import Target
from symgrad.cost_model import EVEN, LEAST_SPEED_UP, SHARE_OF_LOOP, SHARING_CYCLES, UNCUT
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Threads:
    """How many threads share the work, and from how many cycles on work is shared.

    Folds of that many cycles are cut into pieces even if there is one thread.
    """

    count: int = 1
    least_cycles: float = SHARING_CYCLES


ONE_THREAD = Threads()


def share_work(kernel: Kernel, target: Target, threads: Threads) -> Kernel:
    """Parallelise `kernel`: with marks for `threads`, and scratch memory for each of them."""
    if threads.count == 1:
        return kernel
    if _cycles(kernel) >= threads.least_cycles:
        # Threads are awake then, and worth it for less.
        threads = replace(threads, least_cycles=SHARE_OF_LOOP * threads.least_cycles)
    sharing = _WorkSharing(kernel, target, threads)
    body = [sharing.share(statement) for statement in kernel.body]
    parts = dict(scratch_of_parts(body, 1))
    params = (replace(p, count=p.count * parts.get(p.name, 1)) for p in kernel.params)
    return replace(kernel, params=tuple(params), body=tuple(body))


def scratch_of_parts(body: Sequence[Stmt], parts: int) -> list[tuple[str, int]]:
    """Return the scratch buffers of products and sorts, and for how many parts each is."""
    found: list[tuple[str, int]] = []
    for statement in body:
        if isinstance(statement, Generated) and statement.scratch is not None:
            found.append((statement.scratch, parts * statement.parts))
        elif isinstance(statement, For):
            found += scratch_of_parts(statement.body, parts * statement.parts)
    return found


def _cycles(kernel: Kernel) -> float:
    """Return what a kernel takes; what is the same in every iteration is not computed in each."""
    return sum(map(shared_cycles, hoist_uniform(kernel).body))


class _WorkSharing:
    def __init__(self, kernel: Kernel, target: Target, threads: Threads) -> None:
        self._kernel = kernel
        self._target = target
        self._threads = threads

    def share(self, statement: Stmt) -> Stmt:
        """Return a statement of a kernel with its marks."""
        if not isinstance(statement, Parallel):
            return statement
        if _cycles(replace(self._kernel, body=(statement,))) < self._threads.least_cycles:
            return statement
        if isinstance(statement, Product):
            return self._product(statement)
        if isinstance(statement, SortRows):
            return self._sort(statement)
        loops, body = perfect_nest(statement)
        speed_up, shared = self._loops(loops, body)
        is_inside = has_nests(body) or isinstance(body[0], Generated)
        if speed_up >= EVEN * self._threads.count or not is_inside:
            return shared if speed_up >= LEAST_SPEED_UP else statement
        # Few and large products, sorts or nests: threads share each, rather than take some each.
        within = tuple(map(self.share, body))
        is_shared = any(new is not old for new, old in zip(within, body, strict=True))
        return nested(loops, within) if is_shared else shared

    def _product(self, product: Product) -> Product:
        plan = product_plan(product, self._target)
        share, speed_up = choose_share(plan, self._threads.count, self._target)
        return replace(product, parallel=share) if speed_up >= LEAST_SPEED_UP else product

    def _sort(self, sort: SortRows) -> SortRows:
        plan = sort_plan(sort, self._target)
        together = plan.lanes if plan.method == "across" else 1
        size = -(-sort.rows // (together * self._threads.count)) * together
        if sort.rows < LEAST_SPEED_UP * size:
            return sort
        return replace(sort, parallel=size)

    def _loops(self, loops: list[For], body: tuple[Stmt, ...]) -> tuple[float, For]:
        """Return loops with one of them shared, and by how much that is faster.

        It is the outermost that divides evenly enough, else the one that divides best.
        """
        best = 1.0, nested(loops, body)
        for number, loop in enumerate(loops):
            # Which of several indices out of range is met first must not change.
            if loop.ordered or (number and checks_depend(body, loop.var)):
                continue
            others = [*loops[:number], *loops[number + 1 :]]
            if number and loop.vector > 1:
                found = self._divided(others, loop, body)
            else:
                found = self._cut(others, loop, body)
            best = max(best, found, key=lambda way: way[0])
            if best[0] >= EVEN * self._threads.count:
                break
        return best

    def _cut(self, others: list[For], loop: For, body: tuple[Stmt, ...]) -> tuple[float, For]:
        """Cut a loop, which comes first then."""
        unit = max(loop.vector, UNCUT) if loop.vector > 1 else 1
        size = -(-loop.extent // (unit * self._threads.count)) * unit
        shared = nested([replace(loop, parallel=size), *others], body)
        return loop.extent / min(size, loop.extent), shared

    def _divided(self, others: list[For], loop: For, body: tuple[Stmt, ...]) -> tuple[float, For]:
        """Make two of a vector loop, if it divides: a shared one, and one that stays innermost.

        for i { for j in 0..512 vector(16) }
            ->  for j.part in 0..2 parallel(1) { for i { for j in 0..256 vector(16) } }
        """
        count = self._threads.count
        # Where nothing else can be cut, threads may meet in a cache line.
        is_inner = any(other.ordered for other in others)
        if loop.extent % (count if is_inner else max(loop.vector, UNCUT) * count):
            return 1.0, nested([*others, loop], body)
        size, part = loop.extent // count, f"{loop.var}.part"
        whole = index_of((part, size), (loop.var, 1))
        moved = map_indices(body, lambda index: substitute_variable(index, loop.var, whole))
        outer = For(part, count, (), parallel=1)
        return float(count), nested([outer, *others, replace(loop, extent=size)], moved)
