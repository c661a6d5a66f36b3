"""Loop tiling by blocks of rows, and array contraction to a block: what a stage is for some rows.

    product s: f32 for (i in 0..1024) (j in 0..1024) (k in 0..64) q[0] by (64, 1) * ... {
      x[1024*i + j] = s
    }

is for 128 rows from `start` on, where nothing else reads `x`,

    product s: f32 for (i in 0..128) (j in 0..1024) (k in 0..64) q[64*start] by (64, 1) * ... {
      x[1040*i + j] = s
    }

so that a block of `x` stays in cache, where the next stages find it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from symgrad.codegen.loops.index_arithmetic import index_of, scaled_sum
from symgrad.codegen.loops.language import (
    Check,
    Fold,
    For,
    Index,
    IndexValue,
    Let,
    Load,
    Param,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.codegen.loops.rewrite import substitute_variable
from symgrad.codegen.schedule.row_stages import (
    Layouts,
    MatrixRows,
    Stage,
    accesses,
    row_accesses,
)
from symgrad.codegen.target import MemoryHierarchy, Target
from symgrad.cost_model import (
    BLOCK_MULTIPLE,
    BLOCKS_WITHOUT_SUMS,
    BYTES_OF_ROW_BLOCK,
    BYTES_READ_AGAIN,
    LEAST_ROW_BLOCK,
    LEAST_SUMS_APART,
    ROWS_READING_FAR,
)
from symgrad.records import dataclass, replace


def rows_of_block(rows: MatrixRows, row_bytes: int, *, has_sums: bool = True) -> int:
    """Return how many rows a block has, 0 if none of a good size divides them.

    Where blocks add to no sums more of them cost nothing, and a second-level cache has room beside.

    >>> from symgrad.codegen.schedule.row_blocks import rows_of_block
    >>> from symgrad.codegen.schedule.row_stages import MatrixRows
    >>> rows_of_block(MatrixRows((8,), 1024), 4096), rows_of_block(MatrixRows((8,), 1021), 4096)
    (128, 0)
    """
    nbytes = BYTES_OF_ROW_BLOCK if has_sums else BYTES_OF_ROW_BLOCK // BLOCKS_WITHOUT_SUMS
    most = max(LEAST_ROW_BLOCK, nbytes // row_bytes)
    # Threads share batches, or else blocks.
    most = min(most, rows.count // -(-LEAST_SUMS_APART // max(1, math.prod(rows.batch))))
    sizes = range(max(2, most // 4), most + 1)
    fitting = [size for size in sizes if rows.count % size == 0]
    # Tiles lie within a block, so even blocks come before large ones.
    return max(fitting, key=lambda size: (size % BLOCK_MULTIPLE == 0, size), default=0)


def rows_without_sums(rows: MatrixRows, row_bytes: int, beside: int, target: Target) -> int:
    """Return how many rows a block has that adds to no sums; 0 if it is to stay as it is.

    All blocks of all matrices read `beside` bytes that have no rows, as keys and values. A cache
    that has those of a matrix has fewer rows as well. Where they come from a slow shared cache for
    each block, a block is to read them for many rows, though these come from there then, too.
    """
    batch = math.prod(rows.batch)
    if target.shares_slowly and beside >= BYTES_READ_AGAIN * batch:
        most = min(ROWS_READING_FAR, target.memory.shared_bytes // row_bytes, rows.count // 2)
        most = min(most, rows.count // -(-LEAST_SUMS_APART // max(1, batch)))
        sizes = range(most // BLOCK_MULTIPLE * BLOCK_MULTIPLE, LEAST_ROW_BLOCK, -BLOCK_MULTIPLE)
        return next((size for size in sizes if rows.count % size == 0), 0)
    is_near = beside <= BYTES_READ_AGAIN * batch
    return rows_of_block(rows, row_bytes, has_sums=False) if is_near else 0


@dataclass(frozen=True, slots=True)
class Kept:
    """The rows of a block, which a buffer has from `base` on, `pitch` elements apart."""

    buffer: str
    base: Index
    pitch: int


@dataclass(frozen=True, slots=True)
class RowBlock:
    """`size` rows from `start` on; of the buffers in `kept` no others are in memory."""

    size: int
    start: Index
    kept: Mapping[str, Kept]


def keep_blocks(
    stages: Sequence[Stage],
    params: Mapping[str, Param],
    layouts: Layouts,
    block: int,
    memory: MemoryHierarchy,
    chunked: int | None = None,
) -> tuple[dict[str, Kept], list[Param]]:
    """Return where `block` rows of buffers are in scratch memory, from 0 on, and this memory.

    `params` are those that nothing but the stages reads. What a stage writes takes the place of
    what no stage reads any more, or of what it reads itself, element by element, for the last time.
    Stages from number `chunked` on are done again for each chunk of columns: what they read of
    others is read until the last of them. Rows a page apart would share a few sets of the
    first-level cache; no such gap is behind the last one: if the block of another part began where
    a next row would, products would take that for the rows that they read next, and prefetch it.
    """
    spans: dict[str, tuple[int, int]] = {}
    again = len(stages) if chunked is None else chunked
    for number, stage in enumerate(stages):
        for buffer, _, _ in row_accesses(stage):
            first = spans.get(buffer, (number, number))[0]
            spans[buffer] = first, len(stages) - 1 if first < again <= number else number
    kept: dict[str, Kept] = {}
    scratch: list[Param] = []
    ends: dict[str, int] = {}  # the last stage that uses scratch memory
    held: dict[str, str] = {}  # the last buffer that is there
    for name in sorted(params, key=lambda name: spans[name]):
        layout, dtype = layouts[name], params[name].dtype
        assert layout is not None, "it has rows"
        pitch = layout.length
        if pitch * dtype.itemsize % memory.page_bytes == 0:
            pitch += memory.line_bytes // dtype.itemsize
        first, last = spans[name]
        count = (block - 1) * pitch + layout.length
        alike = [p for p in scratch if (p.dtype, p.count) == (dtype, count)]
        free = [p for p in alike if ends[p.name] < first]
        # What is written where it was read comes from no cache again, and takes no room in one.
        over = [
            p
            for p in alike
            if ends[p.name] == first
            and layouts[held[p.name]] == layout
            and _writes_over(stages[first], held[p.name], name)
        ]
        place = next(iter([*over, *free]), None)
        if place is None:
            place = Param(name, dtype, count, "scratch")
            scratch.append(place)
        ends[place.name], held[place.name] = last, name
        kept[name] = Kept(place.name, Index(), pitch)
    return kept, scratch


def _writes_over(stage: Stage, old: str, new: str) -> bool:
    """Return whether a stage may write `new` where `old` is, which has the same layout.

    It may if it reads `old` before, in loops of their own, or at the same place in the same loops.
    """
    if isinstance(stage.statement, Product):
        return False
    parts = [list(accesses((part,))) for part in stage.statement.body]
    writing = next(n for n, part in enumerate(parts) if any(_writes(place, new) for place in part))
    if any(buffer == old for part in parts[writing + 1 :] for buffer, _, _ in part):
        return False
    met = [place for place in parts[writing] if place[0] in (old, new)]
    return all(place == (old, met[-1][1], False) for place in met[:-1]) and _writes(met[-1], new)


def _writes(place: tuple[str, Index, bool], buffer: str) -> bool:
    return place[0] == buffer and place[2]


def in_block(stage: Stage, rows: MatrixRows, block: RowBlock) -> Stmt:
    """Return a stage for the rows of a block."""
    statement, row = stage.statement, stage.row
    own = Index(0, ((row, 1),))
    place = scaled_sum([(own, 1), (block.start, 1)])

    def change(buffer: str, index: Index) -> tuple[str, Index]:
        kept = block.kept.get(buffer)
        if kept is None:
            return buffer, substitute_variable(index, row, place)
        within = _without(index, (*rows.names, row))
        return kept.buffer, scaled_sum([(within, 1), (own, kept.pitch), (kept.base, 1)])

    body = with_places(statement.body, change)
    if isinstance(statement, For):
        return replace(statement, extent=block.size, body=body)
    lhs, rhs, size = statement.lhs, statement.rhs, (row, block.size)
    match stage.axis:
        case "rows":
            lhs = _operand_in(lhs, "rows", rows, block)
            return replace(statement, lhs=lhs, body=body, rows=size)
        case "columns":
            rhs = _operand_in(rhs, "columns", rows, block)
            return replace(statement, rhs=rhs, body=body, columns=size)
        case _:
            lhs = _operand_in(lhs, "columns", rows, block)
            rhs = _operand_in(rhs, "rows", rows, block)
            return replace(statement, lhs=lhs, rhs=rhs, body=body, inner=size)


def _operand_in(
    operand: StridedOperand, along: Literal["rows", "columns"], rows: MatrixRows, block: RowBlock
) -> StridedOperand:
    """Return an operand that goes through the rows `along` one of its strides, for a block."""
    kept = block.kept.get(operand.buffer)
    if kept is None:
        stride = operand.rows if along == "rows" else operand.columns
        return replace(operand, index=scaled_sum([(operand.index, 1), (block.start, stride)]))
    at = scaled_sum([(_without(operand.index, rows.names), 1), (kept.base, 1)])
    moved = replace(operand, buffer=kept.buffer, index=at)
    if along == "rows":
        return replace(moved, rows=kept.pitch)
    return replace(moved, columns=kept.pitch)


def _without(index: Index, names: Sequence[str]) -> Index:
    return index_of(*((a, c) for a, c in index.terms if a not in names), const=index.const)


# What a place in a buffer becomes; of an index that is a value the buffer is "".
ChangePlace = Callable[[str, Index], tuple[str, Index]]


def with_places(body: Sequence[Stmt], change: ChangePlace) -> tuple[Stmt, ...]:
    """Return statements, of which products are as they are, with each place in a buffer changed."""
    return tuple(_changed_statement(statement, change) for statement in body)


def _changed_statement(statement: Stmt, change: ChangePlace) -> Stmt:
    match statement:
        case Let(name, Load(buffer, index) as load):
            buffer, index = change(buffer, index)
            return Let(name, replace(load, buffer=buffer, index=index))
        case Let(name, IndexValue(index) as value):
            _, index = change("", index)
            return Let(name, replace(value, index=index))
        case Store(buffer, index):
            buffer, index = change(buffer, index)
            return replace(statement, buffer=buffer, index=index)
        case For() | Fold():
            return replace(statement, body=with_places(statement.body, change))
        case Let() | Check() | Product() | Prefix() | SortRows():
            return statement
