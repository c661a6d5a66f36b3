"""Reuse across iterations: which elements a loop over rows reads in its next iteration.

    for i in 0..256 ordered {
      fold ... x[1024*i + j] ...
      for k in 0..1024 vector(16) prefetches { ... x[1024*i + k] ... }
    }

reads `x[1024*i + k + 1024]` then; of shorter rows it is one of those behind it that is far enough
away. What a loop reads that none before it does, the last fold before it may prefetch, of this row:

    for i in 0..256 ordered {
      fold ... for j in 0..1024 lanes(32) prefetches { ... x[1024*i + j] ... }
      fold ... g[1024*i + k] ...
    }

Rows that a loop changes where they are, `y[1040*i + k]`, may be further apart than they are long:
in the next iteration they are `y[1040*i + k + 1040]`.

Of windows it reads all rows but one again:

    for i in 0..54 ordered {
      for c in 0..128 vector(32) {
        fold ... for k in 0..54 prefetches {
          ... x[7168*i + 128*k + c] ... x[7168*i + 128*k + c + 14336]
        }
      }
    }

A loop over blocks of rows that are read again before the next block,

    for i in 0..1024 ordered {
      for r in 0..8 {
        fold ... for k in 0..1024 lanes(32) prefetches { ... x[8192*i + 1024*r + k] ... }
      }
      for j in 0..1024 vector(64) { fold ... for r in 0..8 { ... x[8192*i + 1024*r + j] ... } }
    }

reads `x[8192*i + 1024*r + k + 4096]` soon: what is so far on, and no block further than that.

A loop along rows of which each stage has another one, as of a pipeline,

    for i in 0..259 ordered {
      fold ... for k in 0..1024 lanes(32) prefetches { ... x[1024*a + k] ... x[1024*b + k] ... }
    }

reads one of them first, `x[1024*a + k]`, and further on what is behind that place: rows follow one
another. What any loop along rows writes goes on behind that place, too. Which loop prefetches, and
where it pays, is decided in `schedule/prefetch_rows.py`, in `schedule/prefetch_windows.py` and in
`schedule/pipeline_rows.py`; how, in `llvm/prefetching.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from symgrad.codegen.loops.language import Fold, For, Index, Param, Reduction, Stmt
from symgrad.codegen.loops.rewrite import (
    accesses,
    buffers_used,
    index_extents,
    substitute_variable,
)
from symgrad.codegen.loops.strided import IndexAtom
from symgrad.codegen.target import Target
from symgrad.cost_model import BYTES_OF_BLOCKS_AHEAD, BYTES_PREFETCHED_AHEAD, BYTES_WRITTEN_AHEAD
from symgrad.records import replace


def sweeps(around: For, extent: int) -> list[For | Reduction]:
    """Return the loops over so many elements that each iteration of `around` runs."""
    return [s for s in around.body if isinstance(s, For | Reduction) and s.extent == extent]


def next_rows(around: For, loop: For) -> list[tuple[str, Index]]:
    """Return what the next iteration of `around` reads where `loop` is in this one.

    Rows lie side by side, are as long as `loop`, and nothing in `around` writes to them. What folds
    prefetch is not among them.
    """
    every = sweeps(around, loop.extent)
    folds = [sweep for sweep in every if isinstance(sweep, Fold) and sweep.prefetches]
    prefetched = {buffer for fold in folds for buffer, _ in rows_behind(around, fold)}
    found: dict[tuple[str, Index], None] = {}
    for sweep in every:
        for buffer, here in _rows_of(around, sweep, loop.var):
            if buffer not in prefetched:
                found[buffer, replace(here, const=here.const + loop.extent)] = None
    return list(found)


def changed_next(around: For, loop: For) -> list[tuple[str, Index]]:
    """Return what `loop` changes, where it is, of rows in the next iteration of `around`."""
    loaded, stored = buffers_used(loop.body)
    found: dict[tuple[str, Index], None] = {}
    for buffer, index in accesses(loop.body):
        step = index.coefficient(around.var)
        is_row = index.coefficient(loop.var) == 1 and step >= loop.extent
        if buffer in loaded & stored and is_row:
            found[buffer, replace(index, const=index.const + step)] = None
    return list(found)


def rows_behind(around: For, fold: Fold) -> list[tuple[str, Index]]:
    """Return what loops behind `fold` read where it is, of rows that none before them reads.

    These are the loops up to the next fold, but none from one on that prefetches the next row.
    """
    every = sweeps(around, fold.extent)
    number = [sweep.var for sweep in every].index(fold.var) + 1
    known = set().union(*(buffers_used(sweep.body)[0] for sweep in every[:number]))
    behind = list(
        takewhile(lambda sweep: not (isinstance(sweep, For) and sweep.prefetches), every[number:])
    )
    folds = (n for n, sweep in enumerate(behind, 1) if isinstance(sweep, Reduction))
    last = next(folds, len(behind))
    places = (place for sweep in behind[:last] for place in _rows_of(around, sweep, fold.var))
    return list(dict.fromkeys(place for place in places if place[0] not in known))


def _rows_of(around: For, sweep: For | Reduction, variable: str) -> Iterator[tuple[str, Index]]:
    """Yield what a sweep reads of rows that nothing in `around` writes to, at `variable`."""
    _, stored = buffers_used((around,))
    for buffer, index in accesses(sweep.body):
        if buffer not in stored and _is_row(index, around, sweep):
            yield buffer, substitute_variable(index, sweep.var, Index(0, ((variable, 1),)))


def next_of_windows(around: For, along: str, fold: Fold) -> list[tuple[str, Index]]:
    """Return what `fold` reads in the next iteration of `around`, and in this one does not.

    It goes along rows by steps, at each of which it reads elements side by side `along` a vector,
    of several rows of a buffer; what else it reads goes from row to row as well, and nothing in
    `around` writes to that. Of any other fold nothing is returned.
    """
    _, stored = buffers_used((around,))
    read: dict[tuple[str, tuple[tuple[IndexAtom, int], ...]], list[Index]] = {}
    for buffer, index in accesses(fold.body):
        steps = index.coefficient(around.var), index.coefficient(fold.var)
        if buffer not in stored and min(steps) > 0 and index.coefficient(along) == 1:
            read.setdefault((buffer, index.terms), []).append(index)
    last = {key: max(places, key=lambda index: index.const) for key, places in read.items()}
    row = {key: index.coefficient(around.var) for key, index in last.items()}
    is_window = any(
        last[key].const - min(index.const for index in places) >= row[key]
        for key, places in read.items()
    )
    following = [(key[0], replace(i, const=i.const + row[key])) for key, i in last.items()]
    return following if is_window else []


def next_of_blocks(
    blocks: For | None, rows: For, loop: For | Fold, sizes: Mapping[str, int]
) -> list[tuple[str, Index]]:
    """Return what `loop` reads further on of rows in `rows`, which `blocks` reads once more then.

    Rows and blocks of them lie side by side, `loop` is the first one to read them, and nothing in
    `blocks` writes to them. Of any other loop nothing is returned. `sizes` are those of elements.
    """
    if blocks is None or rows not in blocks.body:
        return []
    place = blocks.body.index(rows)
    _, stored = buffers_used((blocks,))
    before, _ = buffers_used(blocks.body[:place])
    again, _ = buffers_used(blocks.body[place + 1 :])
    block = loop.extent * rows.extent
    found: dict[tuple[str, Index], None] = {}
    for buffer, index in accesses(loop.body):
        steps = tuple(index.coefficient(each.var) for each in (loop, rows, blocks))
        if steps == (1, loop.extent, block) and buffer in again - before - stored:
            ahead = bytes_ahead(rows, loop, sizes[buffer]) // sizes[buffer]
            found[buffer, replace(index, const=index.const + ahead)] = None
    return list(found)


def are_stages_prefetched(blocks: For | None, sizes: Mapping[str, int]) -> bool:
    """Return whether stages in `blocks` prefetch rows further on, so that others have them near.

    Stages are loops over the rows of a block, and there is nothing else in it.
    """
    if blocks is None:
        return False
    stages = [rows for rows in blocks.body if isinstance(rows, For) and rows.vector == 1]
    extents = {rows.extent for rows in stages}
    return len(stages) == len(blocks.body) > len(extents) == 1 and any(
        loop.prefetches and next_of_blocks(blocks, rows, loop, sizes)
        for rows in stages
        for loop in loops_along(rows.body)
    )


def loops_along(body: Sequence[Stmt]) -> list[For | Fold]:
    """Return the loops of a body that may prefetch, and then its folds."""
    loops: list[For | Fold] = [s for s in body if isinstance(s, For)]
    return loops + [s for s in body if isinstance(s, Fold)]


def bytes_ahead(rows: For, loop: For | Fold, size: int) -> int:
    """Return how far on a loop prefetches in blocks of `rows`, of elements of `size` bytes."""
    return min(loop.extent * rows.extent * size, BYTES_OF_BLOCKS_AHEAD)


def read_first(fold: Fold) -> list[tuple[str, Index]]:
    """Return where a fold along rows reads first of each buffer that it walks through by rows.

    Rows lie side by side, are as long as the fold, and it writes to none of them.
    """
    _, stored = buffers_used(fold.body)
    found: dict[str, Index] = {}
    for buffer, index in accesses(fold.body):
        factors = [factor for atom, factor in index.terms if atom != fold.var]
        if buffer not in stored and index.coefficient(fold.var) == 1 and fold.extent in factors:
            found.setdefault(buffer, index)
    return list(found.items())


def results_ahead(
    loop: For | Fold, params: Mapping[str, Param], target: Target
) -> list[tuple[str, Index]]:
    """Return what a loop along rows that prefetches will write a little later, and does not read.

    That is none where the caches of a core hold all that a kernel reaches, or where a processor
    follows what is written by itself. Rows lie side by side and are as long as the loop.
    """
    total = sum(param.nbytes for param in params.values())
    if not loop.prefetches or target.follows_pages or total <= target.memory.l2_bytes:
        return []
    loaded, stored = buffers_used(loop.body)
    found: dict[str, Index] = {}
    for buffer, index in accesses(loop.body):
        if buffer not in stored - loaded or params[buffer].mode != "out":
            continue
        factors = [factor for atom, factor in index.terms if atom != loop.var]
        if index.coefficient(loop.var) == 1 and loop.extent in factors:
            ahead = index.const + BYTES_WRITTEN_AHEAD // params[buffer].dtype.itemsize
            found.setdefault(buffer, replace(index, const=ahead))
    return list(found.items())


def rows_ahead(nbytes: int) -> int:
    """Return which of the rows that follow one of so many bytes is prefetched: 1 is the next."""
    return max(1, -(-BYTES_PREFETCHED_AHEAD // nbytes))


def _is_row(index: Index, around: For, sweep: For | Reduction) -> bool:
    """Return whether `sweep` reads a row of `around`, at a place that no other loop in it knows."""
    is_even = index.coefficient(sweep.var) == 1 and index.coefficient(around.var) == sweep.extent
    bound = index_extents(around.body).keys() - {sweep.var}
    return is_even and all(isinstance(a, str) and a not in bound for a, _ in index.terms)
