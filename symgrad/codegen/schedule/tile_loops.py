"""Loop tiling of transposes: a line of the cache is written, or read, as a whole.

    for i in 0..64 {
      for j in 0..3136 vector(16) {
        t: f32 = x[3136*i + j]
        y[i + 64*j] = t
      }
    }

becomes

    for j_tile in 0..196 {
      for i in 0..64 {
        for j in 0..16 vector(16) {
          t: f32 = x[3136*i + j + 16*j_tile]
          y[i + 64*j + 1024*j_tile] = t
        }
      }
    }

Before, each iteration of the outer loop comes back to every line of y for one more element. Where
rows are of a power of two bytes these lines share few sets of the cache, and each has left it by
then (conflict misses); in a tile, there are few. What tiles leave over of either loop is a nest of
its own behind them. No element depends on another: no result changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Check,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
    has_check,
)
from symgrad.codegen.loops.rewrite import map_indices, substitute_variable
from symgrad.codegen.schedule.vectorize import nested
from symgrad.codegen.target import MemoryHierarchy
from symgrad.cost_model import (
    FEW_SETS,
    LEAST_TRANSPOSED,
    ROWS_OF_TRANSPOSE,
    TILE_OF_TRANSPOSE,
)
from symgrad.records import replace


def tile_transposes(kernel: Kernel, memory: MemoryHierarchy) -> Kernel:
    """Return `kernel` with its loops that walk across the rows of a buffer taken in tiles."""
    return replace(kernel, body=_tiled(kernel.body, memory))


def _tiled(body: Sequence[Stmt], memory: MemoryHierarchy) -> tuple[Stmt, ...]:
    result: list[Stmt] = []
    for statement in body:
        if not isinstance(statement, For):
            result.append(statement)
        elif (inner := _inner(statement)) is not None and _walks_across(statement, inner, memory):
            result += _tiles(statement, inner)
        else:
            result.append(replace(statement, body=_tiled(statement.body, memory)))
    return tuple(result)


def _inner(outer: For) -> For | None:
    """Return the vectorized loop that is all of the body of `outer`, None if there is none."""
    if len(outer.body) != 1 or not isinstance(inner := outer.body[0], For):
        return None
    if has_check(inner.body) or any(isinstance(statement, Loop) for statement in inner.body):
        return None
    if outer.vector > 1:
        return None  # squares in registers take whole lines
    return inner if inner.vector > 1 and not (outer.ordered or inner.ordered) else None


def _walks_across(outer: For, inner: For, memory: MemoryHierarchy) -> bool:
    """Return whether `inner` takes an element of each of many lines, and `outer` the next ones."""
    return inner.extent >= LEAST_TRANSPOSED and any(
        abs(index.coefficient(outer.var)) == 1
        and _leave_cache(inner.extent, abs(index.coefficient(inner.var)) * itemsize, memory)
        for index, itemsize in _accesses(inner.body)
    )


def _leave_cache(lines: int, step: int, memory: MemoryHierarchy) -> bool:
    """Return whether lines `step` bytes apart are in few sets of the cache, and too many for these.

    What is in all sets is in the next cache at least, and rows that are read as wholes are fetched
    ahead, which pieces of them are not.
    """
    if step == 0 or step % memory.line_bytes:
        return False
    kept = memory.lines_kept(step)
    return lines > kept and kept * FEW_SETS <= memory.l1_bytes // memory.line_bytes


def _accesses(body: Sequence[Stmt]) -> list[tuple[Index, int]]:
    """Return what is loaded and stored, with the bytes of an element."""
    found = []
    for statement in body:
        match statement:
            case Let(_, Load(_, index, dtype)):
                found.append((index, dtype.itemsize))
            case Store(_, index, value):
                found.append((index, value.dtype.itemsize))
            case Let() | Check() | For() | Fold() | Prefix() | Product() | SortRows():
                pass
    return found


def _tiles(outer: For, inner: For) -> list[Stmt]:
    """Return the loops over tiles, and nests of what they leave over of either loop."""
    columns, rows = TILE_OF_TRANSPOSE, ROWS_OF_TRANSPOSE
    cut = inner.extent // columns * columns
    result = _strips(outer, replace(inner, extent=cut), columns, rows)
    if cut < inner.extent:
        behind = index_of((inner.var, 1), const=cut)
        rest = replace(_shifted(inner, inner.var, behind), extent=inner.extent - cut)
        result.append(replace(outer, body=(rest,)))
    return result


def _strips(outer: For, inner: For, columns: int, rows: int) -> list[Stmt]:
    """Return the loops over whole tiles of `columns`, in strips of `rows` if there are several."""
    tile = For(f"{inner.var}_tile", inner.extent // columns, ())
    within = index_of((inner.var, 1), (tile.var, columns))
    inner = replace(_shifted(inner, inner.var, within), extent=columns)
    if outer.extent < 2 * rows:
        return [nested([tile, outer], (inner,))]
    block = For(f"{outer.var}_tile", outer.extent // rows, ())
    within = index_of((outer.var, 1), (block.var, rows))
    whole = nested(
        [block, tile, replace(outer, extent=rows)], (_shifted(inner, outer.var, within),)
    )
    cut = block.extent * rows
    if cut == outer.extent:
        return [whole]
    behind = index_of((outer.var, 1), const=cut)
    rest = replace(outer, extent=outer.extent - cut)
    return [whole, nested([tile, rest], (_shifted(inner, outer.var, behind),))]


def _shifted(loop: For, variable: str, by: Index) -> For:
    """Return `loop` with `by` in the place of a variable in its body."""
    body = map_indices(loop.body, lambda index: substitute_variable(index, variable, by))
    return replace(loop, body=body)
