"""Software prefetch of the next row, where a kernel sweeps over each row several times.

    for i in 0..256 ordered {
      fold ... x[1024*i + j] ...
      for k in 0..1024 vector(16) { ... exp ... }
    }

becomes

    for i in 0..256 ordered {
      fold ... x[1024*i + j] ...
      for k in 0..1024 vector(16) prefetches { ... exp ... }
    }

The first sweep over a row waits for memory, and the others read what is in the nearest cache then,
while memory rests: a processor reads ahead only of what is read. So the sweep that computes most
prefetches the next row, or one behind it if rows are short: those of one array alone, of which it
computes a function, since memory does not rest for long there. A row that is read before
that sweep, and not by the first one, the last fold before prefetches.

So it is with rows that this sweep changes where they are, as the scores of a block of queries,
where no near cache has the block and the shared one is slow.

Blocks of rows, of each of which something is folded before all of them are read again,

    for i in 0..1024 ordered {
      for r in 0..8 { fold ... for k in 0..1024 lanes(32) { ... x[8192*i + 1024*r + k] ... } }
      for j in 0..1024 vector(64) { fold ... for r in 0..8 { ... x[8192*i + 1024*r + j] ... } }
    }

are in a near cache when they are read again, and memory rests then too. There it is the first folds
that prefetch what is further on, where no cache holds all rows: each computes little beside what it
reads, so memory has the time of both loops.

Stages of short rows that are taken some at a time (`distribute_rows.py`) are such blocks. Each goes
in bursts through other arrays than the one before, which no processor follows that does not follow
walks across pages: the first stage that reads an array prefetches the next rows of it, even if a
shared cache holds all of them.

A loop that prefetches does so with what it writes, too, a little further on, where a processor does
not follow that by itself. No result changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.kernel_costs import statement_cycles
from symgrad.codegen.loops.access import body_flops
from symgrad.codegen.loops.language import Fold, For, Kernel, Param, Stmt
from symgrad.codegen.loops.next_rows import (
    changed_next,
    loops_along,
    next_of_blocks,
    next_rows,
    results_ahead,
    rows_behind,
    sweeps,
)
from symgrad.codegen.loops.rewrite import has_loops_in_loops
from symgrad.codegen.schedule.distribute_rows import rows_in_stages
from symgrad.codegen.target import Target
from symgrad.cost_model import (
    BYTES_SWEPT,
    LEAST_INTERLEAVED_FLOPS,
    LEAST_ONLY_ROW_PREFETCHED,
    LEAST_ROW_PREFETCHED,
    SHARES_OF_BLOCKS,
)
from symgrad.records import replace


def prefetch_rows(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with one sweep over each long row marked to prefetch the next one."""
    if not has_loops_in_loops(kernel.body):
        return kernel
    params = {param.name: param for param in kernel.params}
    return replace(kernel, body=_marked(kernel.body, params, target))


def prefetch_results(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with folds that write rows prefetching these, where others prefetch rows.

    A store waits for the line that it changes, as a load does, and rows that are swept are written
    in bursts.
    """
    if not has_loops_in_loops(kernel.body):
        return kernel
    params = {param.name: param for param in kernel.params}
    return replace(kernel, body=_prefetching_results(kernel.body, params, target))


def prefetch_stages(kernel: Kernel, target: Target) -> Kernel:
    """Return `kernel` with stages of short rows prefetching the next rows, and what they write.

    A stage is too short for a processor to follow what it reads, and the next one reads elsewhere.
    """
    total = sum(param.nbytes for param in kernel.params)
    if target.follows_pages or total <= target.memory.l2_bytes:
        return kernel
    params = {param.name: param for param in kernel.params}
    return replace(kernel, body=tuple(_in_stages(s, params, target) for s in kernel.body))


def _in_stages(statement: Stmt, params: dict[str, Param], target: Target) -> Stmt:
    if not isinstance(statement, For) or statement.vector > 1:
        return statement
    loops = [s for rows in statement.body if isinstance(rows, For) for s in loops_along(rows.body)]
    if not rows_in_stages(statement) or any(s.prefetches for s in loops):
        body = tuple(_in_stages(s, params, target) for s in statement.body)
        return replace(statement, body=body)
    sizes = {name: param.dtype.itemsize for name, param in params.items()}

    def marked(rows: For) -> For:
        new: dict[int, Stmt] = {}
        for loop in loops_along(rows.body):
            prefetching = replace(loop, prefetches=True)
            found = next_of_blocks(statement, rows, loop, sizes)
            if _width(loop) > 1 and (found or results_ahead(prefetching, params, target)):
                new[id(loop)] = prefetching
        return replace(rows, body=tuple(new.get(id(s), s) for s in rows.body))

    stages = (s for s in statement.body if isinstance(s, For))  # there is nothing else
    return replace(statement, body=tuple(map(marked, stages)))


def _width(loop: For | Fold) -> int:
    return loop.vector if isinstance(loop, For) else loop.lanes


def _prefetching_results(
    body: Sequence[Stmt], params: dict[str, Param], target: Target
) -> tuple[Stmt, ...]:
    found: list[Stmt] = []
    for statement in body:
        new = statement
        if isinstance(statement, For) and statement.vector == 1:
            inner = _prefetching_results(statement.body, params, target)
            if any(s.prefetches for s in loops_along(inner)):
                inner = tuple(_prefetching(statement, s, params, target) for s in inner)
            new = replace(statement, body=inner)
        found.append(new)
    return tuple(found)


def _prefetching(around: For, statement: Stmt, params: dict[str, Param], target: Target) -> Stmt:
    if not isinstance(statement, Fold) or statement.lanes == 1 or rows_behind(around, statement):
        return statement
    prefetching = replace(statement, prefetches=True)
    return prefetching if results_ahead(prefetching, params, target) else statement


def _marked(body: Sequence[Stmt], params: dict[str, Param], target: Target) -> tuple[Stmt, ...]:
    return tuple(_of_rows(s, params, target) if isinstance(s, For) else s for s in body)


def _of_rows(loop: For, params: dict[str, Param], target: Target) -> For:
    body = (_of_block(loop, s, params, target) if isinstance(s, For) else s for s in loop.body)
    loop = replace(loop, body=_marked(tuple(body), params, target))
    vectors = [s for s in loop.body if isinstance(s, For) and s.vector > 1 and not s.parallel]
    if loop.vector > 1 or not vectors:
        return loop
    longest = max(vectors, key=statement_cycles)
    are_long = _are_long(loop, longest, params) or _come_back(loop, longest, params, target)
    if len(sweeps(loop, longest.extent)) < 2 or not are_long:
        return loop
    marked = replace(longest, prefetches=True)
    loop = replace(loop, body=tuple(marked if s is longest else s for s in loop.body))
    place = loop.body.index(marked)
    folds = (
        replace(s, prefetches=True) if isinstance(s, Fold) and _prefetches(loop, s) else s
        for s in loop.body[:place]
    )
    return replace(loop, body=(*folds, *loop.body[place:]))


def _of_block(blocks: For, rows: For, params: dict[str, Param], target: Target) -> For:
    """Return a loop over the rows of a block, with folds that prefetch what is further on."""
    if blocks.vector > 1 or rows.vector > 1:
        return rows
    sizes = {name: param.dtype.itemsize for name, param in params.items()}
    least = SHARES_OF_BLOCKS * target.memory.shared_bytes

    def prefetches(fold: Fold) -> bool:
        read = [params[buffer] for buffer, _ in next_of_blocks(blocks, rows, fold, sizes)]
        return fold.lanes > 1 and any(
            fold.extent * p.dtype.itemsize >= LEAST_ROW_PREFETCHED and p.nbytes > least
            for p in read
        )

    body = (
        replace(s, prefetches=True) if isinstance(s, Fold) and prefetches(s) else s
        for s in rows.body
    )
    return replace(rows, body=tuple(body))


def _prefetches(around: For, fold: Fold) -> bool:
    """Return whether a loop behind a fold is the first one to read some rows."""
    return fold.lanes > 1 and bool(rows_behind(around, fold))


def _come_back(around: For, loop: For, params: dict[str, Param], target: Target) -> bool:
    """Return whether rows that a loop changes come from a slow shared cache, and no others do."""
    changed = [params[buffer] for buffer, _ in changed_next(around, loop)]
    is_far = any(param.nbytes > target.memory.l2_bytes for param in changed)
    return target.shares_slowly and is_far and not next_rows(around, loop)


def _are_long(around: For, loop: For, params: dict[str, Param]) -> bool:
    """Return whether rows are long, and there are more of them than a cache holds."""
    read = [params[buffer] for buffer, _ in next_rows(around, loop)]
    is_only = len(read) == 1 and body_flops(loop.body) >= LEAST_INTERLEAVED_FLOPS
    least = LEAST_ONLY_ROW_PREFETCHED if is_only else LEAST_ROW_PREFETCHED
    return any(
        loop.extent * param.dtype.itemsize >= least and param.nbytes >= BYTES_SWEPT
        for param in read
    )
