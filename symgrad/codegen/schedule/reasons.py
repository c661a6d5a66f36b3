"""Optimization remarks on schedules: what the marks of a kernel were weighed against.

The reasons are read off a scheduled kernel, by the costs its schedule was chosen by; nothing is
decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from symgrad.codegen.contract.plans.packing import packs_next
from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.contract.plans.split import pairs_of
from symgrad.codegen.kernel_costs import calls_often, count_calls, shared_cycles
from symgrad.codegen.loops.access import body_flops
from symgrad.codegen.loops.few_rows import takes_few_rows
from symgrad.codegen.loops.language import (
    Binding,
    Check,
    Fold,
    For,
    Generated,
    Kernel,
    Let,
    Parallel,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
    square_of,
)
from symgrad.codegen.loops.next_matrices import next_matrices, prefetching_loops, products_run_once
from symgrad.codegen.loops.next_pages import lines_written, rows_prefetched, walks
from symgrad.codegen.loops.next_rows import (
    are_stages_prefetched,
    bytes_ahead,
    next_of_blocks,
    next_rows,
    read_first,
    results_ahead,
    rows_ahead,
    rows_behind,
    sweeps,
)
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule.distribute_rows import rows_in_stages
from symgrad.codegen.schedule.distribute_scalars import late_flops
from symgrad.codegen.schedule.interleave import live_values, vectors_in_turn
from symgrad.codegen.schedule.last_vectors import repeats_elements
from symgrad.codegen.schedule.pipeline_rows import rows_in_pipeline
from symgrad.codegen.schedule.split_matches import matches_apart
from symgrad.codegen.schedule.vectorize import element_cost, fold_nest, lane_steps
from symgrad.codegen.sorting.plan import sort_plan
from symgrad.codegen.target import Target
from symgrad.cost_model import (
    BYTES_PREFETCHED_AHEAD,
    BYTES_WRITTEN_AHEAD,
    SHARE_OF_LOOP,
    SHARING_CYCLES,
)


def schedule_reasons(kernel: Kernel, target: Target) -> tuple[str, ...]:
    """Return why the loops, folds and products of a kernel are computed as they are, each once."""
    sizes = {param.name: param.dtype.itemsize for param in kernel.params}
    found = [*_apart_reasons(kernel.body, target), *_result_reasons(kernel, target)]
    found += _streamed_reasons(kernel)
    for statement in kernel.body:
        if isinstance(statement, For):
            found += _page_reasons(statement, target, sizes)
        found += _reasons((statement,), target, sizes)
    return tuple(dict.fromkeys(found))


def _reasons(
    body: Sequence[Stmt], target: Target, sizes: Mapping[str, int], around: For | None = None
) -> Iterator[str]:
    for statement in body:
        match statement:
            case For():
                yield from _shared(statement)
                loops, inner = _nest(statement)
                for loop in loops:
                    yield from _matrix_reasons(loop, sizes)
                has_nests = any(isinstance(s, For) for s in inner)
                if not has_nests and not any(isinstance(s, Generated) for s in inner):
                    yield _loop_reason(loops, inner)
                blocks = loops[-2] if len(loops) > 1 else around
                yield from _row_reasons(loops[-1], blocks, sizes)
                yield from _few_rows_reasons(loops[-1], blocks, sizes)
                yield from _stage_reasons(loops[-1])
                yield from _apart_reasons(inner, target)
                yield from _reasons(inner, target, sizes, loops[-1])
            case Fold():
                innermost = fold_nest(statement)[-1]
                yield _fold_reason(innermost)
                yield from _turn_reasons(innermost, target)
            case Prefix():
                yield _prefix_reason(statement)
            case Product():
                yield from _shared(statement)
                yield _product_reason(statement, target)
            case SortRows():
                yield from _shared(statement)
                yield sort_plan(statement, target).reason
            case Let() | Store() | Check():
                pass


def _result_reasons(kernel: Kernel, target: Target) -> Iterator[str]:
    params = {param.name: param for param in kernel.params}
    for rows in statements(kernel.body):
        inner = rows.body if isinstance(rows, For) and rows.vector == 1 else ()
        loops: list[For | Fold] = [s for s in inner if isinstance(s, Fold)]
        loops += [s for s in inner if isinstance(s, For)]
        for loop in loops:
            if found := results_ahead(loop, params, target):
                yield (
                    f"{loop.var} prefetches what it writes {BYTES_WRITTEN_AHEAD:,} bytes further "
                    f"on in {len(found)} results: no cache of a core has these lines"
                )


def _streamed_reasons(kernel: Kernel) -> Iterator[str]:
    stores = (s for s in statements(kernel.body) if isinstance(s, Store))
    streamed = {store.buffer for store in stores if store.is_streamed}
    if size := sum(param.nbytes for param in kernel.params if param.name in streamed):
        yield (
            f"what a loop records goes past the caches, {size:,} bytes an iteration: they have "
            "left these when all iterations have run"
        )


def _page_reasons(outermost: For, target: Target, sizes: Mapping[str, int]) -> Iterator[str]:
    if outermost.prefetches and outermost.vector == 1:
        count = len(rows_prefetched(outermost, sizes, target.memory.l2_bytes))
        yield (
            f"{outermost.var} prefetches the next page of {count} buffers: {outermost.extent} "
            "rows of each are more than a core has of its caches"
        )
    elif outermost.prefetches and lines_written(
        outermost, sizes, target.memory.line_bytes, target.memory.followed_bytes
    ):
        yield (
            f"{outermost.var} prefetches the lines that it writes while it computes: "
            f"{body_flops(outermost.body)} operations an element come before"
        )
    elif outermost.prefetches:
        count = len({buffer for buffer, _ in walks(outermost)})
        yield (
            f"{outermost.var} prefetches the next page of {count} buffers: {outermost.extent} "
            "elements of each are more than a core has of its caches"
        )


def _row_reasons(around: For, blocks: For | None, sizes: Mapping[str, int]) -> Iterator[str]:
    for loop in around.body:
        if isinstance(loop, For) and loop.prefetches and are_stages_prefetched(blocks, sizes):
            yield from _block_reasons(around, blocks, loop, sizes)
        elif isinstance(loop, For) and loop.prefetches and loop.vector > 1:
            count = len(sweeps(around, loop.extent))
            read = {sizes[buffer] for buffer, _ in next_rows(around, loop)}
            ahead = max((rows_ahead(loop.extent * size) for size in read), default=1)
            row = "the next row" if ahead == 1 else f"row {ahead} from here"
            yield (
                f"{loop.var} prefetches {row} of {loop.extent} elements: {count} loops sweep "
                "over each, of which the first alone would read from memory"
            )
        if isinstance(loop, Fold) and loop.prefetches and loop.lanes > 1:
            yield from _fold_reasons(around, blocks, loop, sizes)


def _fold_reasons(
    around: For, blocks: For | None, fold: Fold, sizes: Mapping[str, int]
) -> Iterator[str]:
    if next_of_blocks(blocks, around, fold, sizes) or are_stages_prefetched(blocks, sizes):
        yield from _block_reasons(around, blocks, fold, sizes)
    elif behind := rows_behind(around, fold):
        yield (
            f"{fold.var} prefetches this row of {len(behind)} buffers: loops behind it are the "
            "first ones to read it, and would wait for memory"
        )
    elif read := read_first(fold):
        yield (
            f"{fold.var} prefetches what is {BYTES_PREFETCHED_AHEAD:,} bytes further on in "
            f"{len(read)} buffers: rows of {fold.extent} elements come from beyond the caches of a "
            "core"
        )


def _block_reasons(
    around: For, blocks: For | None, loop: For | Fold, sizes: Mapping[str, int]
) -> Iterator[str]:
    if prefetched := next_of_blocks(blocks, around, loop, sizes):
        ahead = max(bytes_ahead(around, loop, sizes[buffer]) for buffer, _ in prefetched)
        yield (
            f"{loop.var} prefetches what is {ahead:,} bytes further on in {len(prefetched)} "
            f"buffers: memory rests while {around.extent} rows of {loop.extent} elements are read "
            "again"
        )


def _few_rows_reasons(loop: For, around: For | None, sizes: Mapping[str, int]) -> Iterator[str]:
    for fold in loop.body if loop.vector > 1 else ():
        if isinstance(fold, Fold) and takes_few_rows(around, loop.var, fold, sizes):
            flops = body_flops((*fold.body, *fold.combine))
            yield (
                f"{fold.var} is written out, flops for each of {fold.extent} rows: {flops}; one "
                "load for all of them would go back and forth, which no processor follows"
            )


def _matrix_reasons(around: For, sizes: Mapping[str, int]) -> Iterator[str]:
    loops, matrices = prefetching_loops(around), next_matrices(around)
    if loops and matrices:
        steps = (first.coefficient(around.var) * sizes[b] for b, first in matrices.items())
        yield (
            f"{', '.join(loop.var for loop in loops)} prefetch the next of {around.extent} "
            f"matrices, {sum(steps):,} bytes in {len(matrices)} buffers: all of these are more "
            "than a near cache holds, and memory rests while one is computed with"
        )
    given = {p.name: p.prefetches for p in products_run_once(around.body)}
    if prefetched := {name: part for name, part in given.items() if part is not None}:
        lines = sum(part.lines for part in prefetched.values())
        rate = max(part.steps for part in prefetched.values())
        yield (
            f"{', '.join(prefetched)} prefetch {lines:,} lines of the next of {around.extent} "
            f"matrices, one in {rate} steps of k: memory rests while one is computed with"
        )


def _stage_reasons(loop: For) -> Iterator[str]:
    if count := rows_in_stages(loop):
        yield (
            f"{loop.var} takes {count} rows at a time, in {len(loop.body)} stages: each needs what "
            f"folds of the one before come to, for which {count} rows wait together"
        )
    rows, stages, apart = rows_in_pipeline(loop)
    if rows:
        yield (
            f"{loop.var} does {stages} stages of {rows} rows beside each other, each of a row "
            f"{apart} before: none waits for what folds of the one before come to"
        )


def _apart_reasons(body: Sequence[Stmt], target: Target) -> Iterator[str]:
    for place, loop, store in matches_apart(body):
        beside = target.lanes(store.value.dtype.itemsize)
        width = loop.vector if isinstance(loop, For) else beside
        yield (
            f"iteration {place} of {loop.var} is apart: it alone matches, and each of "
            f"{loop.extent // width} vectors would be compared"
        )
    for first, second in pairwise(body):
        if flops := late_flops(first, second):
            assert isinstance(second, For), "it is a loop"
            yield (
                f"{second.var} is apart: {flops} operations that cost as much for {second.vector} "
                "rows as for one, and that no loop over a row needs"
            )


def _nest(loop: For) -> tuple[list[For], tuple[Stmt, ...]]:
    """Return loops around each other, with at most values between them, and the innermost body."""
    loops = [loop]
    while sum(not isinstance(s, Binding) for s in loops[-1].body) == 1:
        inner = next(s for s in loops[-1].body if not isinstance(s, Binding))
        if not isinstance(inner, For):
            break
        loops.append(inner)
    return loops, loops[-1].body


def _loop_reason(loops: Sequence[For], body: Sequence[Stmt]) -> str:
    alone = element_cost(body, None, 1)
    for loop in loops:
        if (inner := square_of(loop)) is not None:
            return (
                f"squares of {loop.vector} by {inner.vector} along {loop.var} and {inner.var}, "
                "transposed in registers"
            )
        if loop.vector > 1:
            beside = element_cost(body, loop.var, loop.vector)
            return (
                f"vectors along {loop.var}: an element costs {beside:.2f} operations there, "
                f"{alone:.2f} one by one{_interleave_reason(loop, loops[0])}"
                f"{_last_reason(loop, loops[0])}"
            )
    innermost = loops[-1]
    if any(isinstance(s, Fold) for s in body):
        return f"{innermost.var} one by one: its folds have the lanes"
    if innermost.ordered:
        return f"{innermost.var} one by one: its iterations depend on each other"
    return f"{innermost.var} one by one: no loop has as many elements side by side as a vector"


def _turn_reasons(fold: Fold, target: Target) -> Iterator[str]:
    if (count := vectors_in_turn(fold, target)) > 1:
        sums = count * len(fold.accumulators)
        yield (
            f"{fold.var} computes {count} vectors one after another: {sums} of "
            f"{target.vector_registers} registers hold partial results"
        )


def _interleave_reason(loop: For, outermost: For) -> str:
    if loop.interleave == 1:
        return ""
    if calls_often([outermost]):
        return (
            f"; {loop.interleave} of them at a time, which are no more code: its "
            f"{count_calls(loop.body)} calls of math functions are of one copy of each"
        )
    return (
        f"; {loop.interleave} of them at a time, for {body_flops(loop.body)} operations an element "
        f"would wait for each other, and {live_values(loop)} values are live at most"
    )


def _last_reason(loop: For, outermost: For) -> str:
    calls = calls_often([outermost])
    for width in (loop.vector * loop.interleave, loop.vector):
        if loop.parallel is None and repeats_elements(loop, width, calls=calls):
            again = -loop.extent % width
            return f"; the last {width} iterations are taken together, {again} of them once more"
    return ""


def _fold_reason(fold: Fold) -> str:
    if fold.lanes > 1:
        dtype = fold.accumulators[0].identity.dtype
        return (
            f"{fold.lanes} partial results: for {fold.extent} elements of {dtype.name} these are "
            f"the cheapest, whatever the machine: {lane_steps(fold, fold.lanes)} steps"
        )
    return f"{fold.var} one by one: its loop has the vectors, or {fold.extent} elements are few"


def _prefix_reason(prefix: Prefix) -> str:
    if prefix.lanes > 1:
        dtype = prefix.accumulators[0].identity.dtype
        return (
            f"blocks of {prefix.lanes} along {prefix.var}: a vector of {dtype.name}, whatever the "
            f"machine, is scanned in {prefix.lanes.bit_length() - 1} steps"
        )
    if prefix.ordered:
        return f"{prefix.var} one by one: its elements are combined in their order only"
    if prefix.has_values_as_indices:
        return f"{prefix.var} one by one: an index in it is data"
    return f"{prefix.var} one by one: a loop around has the vectors, or {prefix.extent} are few"


def _product_reason(product: Product, target: Target) -> str:
    high, wide = product.blocking.tile
    packed = " and ".join(product.blocking.pack) or "nothing"
    plan = product_plan(product, target)
    held = ", the right held in registers" if plan.method == "held" else ""
    held += f", lanes in pairs of {pairs_of(plan)}" if plan.method == "split" else ""
    ahead = ", each panel by tiles of the one before" if packs_next(plan) else ""
    rows = "; the epilogue goes through whole rows of sums that are kept" if plan.keeps_rows else ""
    return (
        f"a tile of {high} by {wide} along {product.blocking.along}, {packed} packed{ahead}{held}: "
        f"at {plan.cycles:,.0f} cycles the cheapest way for {product.rows[1]} by "
        f"{product.columns[1]} sums of {product.inner[1]}{rows}"
    )


def _shared(statement: Parallel) -> Iterator[str]:
    if statement.parts > 1:
        cycles = shared_cycles(statement)
        reason = (
            f"{statement.parts} threads: it takes {cycles:,.0f} cycles, and sharing pays from "
            f"{SHARING_CYCLES:,} on"
        )
        if cycles < SHARING_CYCLES:
            reason += f", or {SHARE_OF_LOOP * SHARING_CYCLES:,.0f} where threads are awake"
        share = statement.parallel if isinstance(statement, Product) else None
        if share is not None and share.by is not None:
            reason += f", in equal parts: tiles begin anew every {share.by} along {share.axis}"
        yield reason
