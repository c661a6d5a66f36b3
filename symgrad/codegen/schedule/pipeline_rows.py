"""Software pipelining of rows: each iteration does every stage, each one of another row.

    for i in 0..8192 ordered {                     for i in 0..8193 ordered {
      fold m: f32 = ... x[128*i + j] ...             known a = min(i, 8191) in 8192
      greatest[i] = m                                known b = max(i - 1, 0) in 8192
      t0: f32 = greatest[i]                 ->       t0: f32 = greatest[b]
      for k in 0..128 vector(16) {                   fold m: f32 = ... for k in 0..128 lanes(32) {
        ... y[128*i + k] = exp(x[128*i + k] - t0)      ... x[128*a + k] ...
      }                                                ... y[128*b + k] = exp(x[128*b + k] - t0)
    }                                                } ...
                                                     greatest[a] = m
                                                   }

A stage needs what a fold of the one before has come to (`distribute_rows.py`). Here it needs what
was found an iteration before, so that nothing waits for the steps in which partial results become
one, and the stages are one loop along rows: what one of them computes overlaps with loads and
stores of another one.

In the first iterations a later stage works on the first row before an earlier one has, where it
finds zeros that are stored before the loop, and in the last ones an earlier stage does the last row
again. Each buffer is written by one stage, before it is read, so that what is there in the end is
what belongs there. Scratch memory is a ring of as many rows as there are from the first stage that
uses it to the last one, and of a power of two if rows are short: the place of one in it is then
some bits of its number, where a division would be as many instructions as a vector has. No result
changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from symgrad.codegen.loops.language import (
    Check,
    Const,
    Fold,
    For,
    Index,
    IndexValue,
    Let,
    Loop,
    Op,
    Param,
    Plain,
    Ref,
    Stmt,
    Store,
)
from symgrad.codegen.loops.next_rows import read_first
from symgrad.codegen.loops.rewrite import accesses, buffers_used, index_names, substitute_variable
from symgrad.codegen.schedule.contract_rows import change_indices, of_row
from symgrad.codegen.schedule.stage_parts import StageBody, StagePart, carried_vectors, joined_folds
from symgrad.codegen.target import Target
from symgrad.cost_model import (
    LEAST_PIPELINED,
    LEAST_ROW_PREFETCHED,
    MOST_ROWS_ON_THEIR_WAY,
    SHARE_HELD,
    SHARE_OF_ROWS_APART,
    SHARE_OF_ROWS_TOGETHER,
)
from symgrad.graph.dtypes import DType, int64
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipelined loop, what is stored before it, and of how many `rows` its scratch memory is."""

    before: tuple[Stmt, ...]
    loop: For
    rows: int


def pipeline_rows(
    loop: For,
    stages: Sequence[StageBody],
    params: Mapping[str, Param],
    scratch: Mapping[str, int],
    sums: Collection[str],
    target: Target,
    nbytes: int,
) -> Pipeline | None:
    """Return a loop over rows of `nbytes` each with its stages side by side.

    None where they do not fit in one loop, or in registers. `scratch` is what a row has of its
    own, and to each of `sums` every row adds.
    """
    apart = _rows_apart(len(stages), nbytes, target)
    delay = (len(stages) - 1) * apart
    if (
        not apart
        or loop.extent < LEAST_PIPELINED * delay
        or not _are_repeatable(stages, params, sums)
    ):
        return None
    column = f"{loop.var}.column"
    parts = [StagePart(stage, column) for stage in stages]
    if not all(part.is_one_loop for part in parts):
        return None
    extents = {extent for part in parts for extent, _ in part.shapes}
    lanes = {count for part in parts for _, count in part.shapes if count}
    if len(lanes) != 1 or len(extents) != 1 or min(extents) % min(lanes):
        return None
    count = _rows_kept(stages, scratch, apart)
    cleared = _cleared(loop, stages, scratch, sums, count)
    if cleared is None:
        return None
    placed: list[Plain] = []
    for number, part in enumerate(parts):
        row = f"{loop.var}.stage{number}"
        placed += _placed(loop, row, number * apart, delay)
        part.move(loop.var, row, scratch, count)
    if carried_vectors(parts, min(lanes), target) > SHARE_HELD * target.vector_registers:
        return None
    before = (s for part in parts for s in part.before)
    after = (s for part in parts for s in part.after)
    joined = joined_folds(parts, column, min(extents), min(lanes))
    if apart == 1 and not _are_near(joined, params, target):
        return None
    prefetching = replace(joined, prefetches=_prefetches(joined, params, target))
    body = (*placed, *before, prefetching, *after)
    pipelined = replace(loop, extent=loop.extent + delay, body=body, ordered=True)
    return Pipeline(cleared, pipelined, count)


def _prefetches(fold: Fold, params: Mapping[str, Param], target: Target) -> bool:
    """Return whether a fold prefetches what is further on: long rows that no cache of a core holds.

    Short rows are read as fast as they are computed with, where a processor follows these walks.
    """
    read = [params[buffer].dtype.itemsize for buffer, _ in read_first(fold)]
    total = sum(params[name].nbytes for name in set().union(*buffers_used(fold.body)))
    least = LEAST_ROW_PREFETCHED if target.follows_pages else 1
    return fold.extent * min(read, default=0) >= least and total > target.memory.l2_bytes


def _are_near(fold: Fold, params: Mapping[str, Param], target: Target) -> bool:
    """Return whether the nearest cache has what all stages reach of their rows.

    Of rows that are too long for that it has a line each, whose places are alike where rows are
    some pages long: as many as it has ways.
    """
    rows = set(accesses(fold.body))
    nbytes = fold.extent * sum(params[name].dtype.itemsize for name, _ in rows)
    memory = target.memory
    return nbytes <= SHARE_OF_ROWS_TOGETHER * memory.l1_bytes or len(rows) <= memory.l1_ways


def _rows_kept(stages: Sequence[StageBody], scratch: Mapping[str, int], apart: int) -> int:
    """Return of how many rows scratch memory is: those between two stages that use the same.

    Of short rows, of which two are between stages, it is a power of two of them.
    """
    used = [loaded | stored for loaded, stored in map(buffers_used, stages)]
    span = 0
    for name in scratch:
        numbers = [number for number, names in enumerate(used) if name in names]
        span = max(span, numbers[-1] - numbers[0])
    return 1 + span if apart == 1 else 1 << (apart * span).bit_length()


def _placed(loop: For, row: str, delay: int, longest: int) -> Iterator[Plain]:
    """Yield what names the row that is `delay` before, or the nearest one if there is none."""
    place = Let(f"{row}.place", IndexValue(Index(-delay, ((loop.var, 1),)), int64))
    yield place
    limits = {"max": 0} if delay else {}
    if delay < longest:
        limits["min"] = loop.extent - 1
    for op, limit in limits.items():
        place = Let(f"{row}.{op}", Op(op, (Ref(place.name, int64), Const(limit, int64)), int64))
        yield place
    yield Check(row, Ref(place.name, int64), loop.extent, 0, "known")


def _cleared(
    loop: For,
    stages: Sequence[StageBody],
    scratch: Mapping[str, int],
    sums: Collection[str],
    count: int,
) -> tuple[Stmt, ...] | None:
    """Return stores to what later stages read of the first row before an earlier one has done it.

    None where its place is data.
    """
    every = [statement for stage in stages for statement in stage]
    loaded, _ = buffers_used(every)
    data = {s.name for s in every if isinstance(s, Check)}
    found: list[Stmt] = []
    for statement in every:
        inner = statement.body if isinstance(statement, For) else (statement,)
        stores = [
            Store(s.buffer, substitute_variable(s.index, loop.var, Index()), _zero(s.value.dtype))
            for s in inner
            if isinstance(s, Store) and s.buffer in loaded - set(sums)
        ]
        if not all(data.isdisjoint(index_names(store.index)) for store in stores):
            return None
        if stores and isinstance(statement, For):
            found.append(replace(statement, body=tuple(stores), interleave=1, prefetches=False))
        else:
            found += stores
    cleared: tuple[Stmt, ...] = tuple(found)
    for name, size in scratch.items():
        first = partial(of_row, row=None, size=size, count=count)
        cleared = change_indices(cleared, name, first)
    return cleared


def _zero(dtype: DType) -> Const:
    """Return 0 of a dtype."""
    return Const(False if dtype.is_bool else 0.0 if dtype.is_float else 0, dtype)


def rows_in_pipeline(loop: For) -> tuple[int, int, int]:
    """Return the rows of a pipelined loop, its stages, and how many rows these are apart, or 0."""
    values = (s.value for s in loop.body if isinstance(s, Let))
    places = (v.index for v in values if isinstance(v, IndexValue))
    delays = [-index.const for index in places if index.terms == ((loop.var, 1),)]
    checks = [s for s in loop.body if isinstance(s, Check)][: len(delays)]
    extents = {check.extent for check in checks if check.bound == "known"}
    if len(delays) < 2 or len(extents) != 1 or loop.extent != min(extents) + delays[-1]:
        return 0, 0, 0
    return min(extents), len(delays), delays[1]


def _rows_apart(stages: int, nbytes: int, target: Target) -> int:
    """Return how many rows later each stage does a row than the one before, 0 for too long rows.

    With two, a row has the time of one for the last steps of a fold, and the nearest cache has to
    hold twice as many rows. What is on its way is to stay near the core.
    """
    l1_bytes = target.memory.l1_bytes
    if 2 * (stages - 1) * nbytes <= SHARE_OF_ROWS_APART * l1_bytes:
        return 2
    return 1 if (stages - 1) * nbytes <= MOST_ROWS_ON_THEIR_WAY * l1_bytes else 0


def _are_repeatable(
    stages: Sequence[StageBody], params: Mapping[str, Param], sums: Collection[str]
) -> bool:
    """Return whether each buffer is written by one stage, and read by it or later ones alone.

    Then a stage may do a row several times, and a row whose turn comes later. The last one only
    does the first row several times, from which each of `sums` begins again.
    """
    used = [buffers_used(stage) for stage in stages]
    for number, (_, stored) in enumerate(used):
        around = set().union(*(names for _, names in (*used[:number], *used[number + 1 :])))
        before = set().union(*(names for names, _ in used[:number]))
        if not stored.isdisjoint(around | before):
            return False
        added = stored.intersection(sums)
        if added and number + 1 < len(stages):
            return False
        if not all(_is_repeatable(stages[number], params[name]) for name in stored - added):
            return False
    return True


def _is_repeatable(stage: StageBody, param: Param) -> bool:
    """Return whether a stage that writes to a buffer may do so again."""
    return param.mode in ("out", "scratch") and _is_stored_first(stage, param.name)


def _is_stored_first(body: Sequence[Stmt], name: str) -> bool:
    for statement in body:
        inner = statement.body if isinstance(statement, Loop) else (statement,)
        for s in inner:
            if name in buffers_used((s,))[0]:
                return False
            if isinstance(s, Store) and s.buffer == name:
                return True
    return True
