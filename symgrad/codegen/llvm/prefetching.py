"""Software prefetch in loops: lines further on, of the next row or page, or of results."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import counted_loop, prefetch
from symgrad.codegen.contract.tile_prefetching import PrefetchedMatrix
from symgrad.codegen.llvm.expressions import emit_pointer
from symgrad.codegen.llvm.scope import KernelScope, PrefetchedLine
from symgrad.codegen.loops.language import Fold, For, Index, Let, Op, Product, Stmt
from symgrad.codegen.loops.next_matrices import prefetched_by, prefetched_by_product
from symgrad.codegen.loops.next_pages import lines_written, rows_prefetched, walks
from symgrad.codegen.loops.next_rows import (
    are_stages_prefetched,
    changed_next,
    next_of_blocks,
    next_of_windows,
    next_rows,
    read_first,
    results_ahead,
    rows_ahead,
    rows_behind,
    sweeps,
)
from symgrad.cost_model import BYTES_PREFETCHED_AHEAD
from symgrad.records import replace

# Each is an instruction; a row of more is prefetched by a loop, or it takes seconds to compile.
LINES_WRITTEN_OUT = 64
LINES_AT_ONCE = 2  # prefetched between values: more wait for one another, fewer hold LLVM up


def emit_prefetch_of_next(scope: KernelScope, loop: For) -> None:
    """Prefetch what comes next at the place of the vector that `loop` is at, if it prefetches it.

    That is the same place of a row that follows in the loop around, which is read over and over,
    and so is to be in the nearest cache; or that of the next row which it changes, in the second
    one; or, with no loop around, what is a page further. A loop without vectors prefetches the rows
    that are written a page further, or within a loop over matrices for the next one.
    """
    if not loop.prefetches or scope.written_out is not None or lines_of_results(scope, loop):
        return
    if loop.vector == 1:
        if scope.matrices is None:
            _prefetch_rows(scope, loop)
        else:
            _prefetch_matrices(scope, scope.matrices, loop)
        return
    if scope.vector.width == 1:
        return
    if scope.around is not None:
        following = next_rows(scope.around, loop)
        for buffer, index in [] if following else changed_next(scope.around, loop):
            _emit_prefetch(scope, buffer, index, is_near=False)
        for buffer, index in _prefetched_by_loop(scope, scope.around, loop):
            _emit_prefetch(scope, buffer, index, is_near=True)
        _prefetch_results(scope, loop)
        return
    prefetched = set()
    for buffer, index in walks(loop):
        itemsize = scope.params[buffer].dtype.itemsize
        further = index.const + scope.target.memory.page_bytes // itemsize
        line = buffer, index.terms, further * itemsize // scope.target.memory.line_bytes
        if line not in prefetched:
            prefetched.add(line)
            _emit_prefetch(scope, buffer, replace(index, const=further), is_near=False)


def emit_prefetch_in_fold(scope: KernelScope, fold: Fold) -> None:
    """Prefetch what comes next of windows, or of rows that vectors of `fold` are along.

    Of windows it is the place that the loop around the vectors reads next; of rows in blocks it is
    what is further on; of other rows what the loop behind the fold reads at this place, or where no
    loop is, what is further on as well.
    """
    along = scope.vector.variable
    if (
        not fold.prefetches
        or scope.around is None
        or along is None
        or scope.written_out is not None
    ):
        return
    if along == fold.var:
        for buffer, index in _prefetched_by_fold(scope, scope.around, fold):
            _emit_prefetch(scope, buffer, index, is_near=True)
        _prefetch_results(scope, fold)
        return
    for buffer, index in next_of_windows(scope.around, along, fold):
        _emit_prefetch(scope, buffer, index, is_near=False)


def _prefetched_by_loop(scope: KernelScope, around: For, loop: For) -> list[tuple[str, Index]]:
    """Return what a loop along rows prefetches into the nearest cache, but for results."""
    sizes = {name: param.dtype.itemsize for name, param in scope.params.items()}
    if are_stages_prefetched(scope.blocks, sizes):
        return next_of_blocks(scope.blocks, around, loop, sizes)
    found: list[tuple[str, Index]] = []
    for buffer, index in next_rows(around, loop):
        further = (rows_ahead(loop.extent * sizes[buffer]) - 1) * loop.extent
        found.append((buffer, replace(index, const=index.const + further)))
    return found


def _prefetched_by_fold(scope: KernelScope, around: For, fold: Fold) -> list[tuple[str, Index]]:
    """Return what a fold along rows prefetches, but for results."""
    sizes = {name: param.dtype.itemsize for name, param in scope.params.items()}
    prefetched = next_of_blocks(scope.blocks, around, fold, sizes)
    if prefetched or are_stages_prefetched(scope.blocks, sizes):
        return prefetched
    if len(sweeps(around, fold.extent)) > 1:
        return rows_behind(around, fold)
    return [
        (buffer, replace(index, const=index.const + BYTES_PREFETCHED_AHEAD // sizes[buffer]))
        for buffer, index in read_first(fold)
    ]


def _prefetch_results(scope: KernelScope, loop: For | Fold) -> None:
    """Prefetch what a loop along rows writes soon: a store waits for the line that it changes."""
    for buffer, index in results_ahead(loop, scope.params, scope.target):
        _emit_prefetch(scope, buffer, index, is_near=True, is_write=True)


def lines_of_results(scope: KernelScope, loop: For) -> list[PrefetchedLine]:
    """Return the lines that a vector of `loop` stores runs to, in the order of memory."""
    is_written_out = scope.written_out is not None
    is_whole = 1 < scope.vector.width == loop.vector
    if not loop.prefetches or is_written_out or scope.around is not None or not is_whole:
        return []
    sizes = {name: param.dtype.itemsize for name, param in scope.params.items()}
    memory = scope.target.memory
    lines = lines_written(loop, sizes, memory.line_bytes, memory.followed_bytes)
    return [(buffer, at, lane) for lane in range(scope.vector.width) for buffer, at in lines]


def prefetched_behind(
    scope: KernelScope, body: Sequence[Stmt]
) -> dict[int, Sequence[PrefetchedLine]]:
    """Return some of the lines to prefetch for each of the values that they are prefetched behind.

    Values are named by their identity. They are evenly apart among all that a body computes of
    floats that fill a register.
    """
    lines = scope.prefetched
    if not lines:
        return {}
    size = scope.target.vector_bytes // scope.vector.width
    values = [let for let in body if isinstance(let, Let) and _is_float(let, size)]
    turns = min(len(lines) // LINES_AT_ONCE, len(values))
    found: dict[int, Sequence[PrefetchedLine]] = {}
    for turn in range(turns):
        let = values[(turn + 1) * len(values) // turns - 1]
        first, end = (len(lines) * at // turns for at in (turn, turn + 1))
        found[id(let)] = lines[first:end]
    return found


def _is_float(let: Let, size: int) -> bool:
    """Return whether a float of `size` bytes, and no half of one, is computed."""
    if not isinstance(let.value, Op):
        return False
    dtype = let.value.dtype
    return dtype.is_float and not dtype.is_half and dtype.itemsize == size


def emit_prefetch_behind(scope: KernelScope, let: Let, lines: Sequence[PrefetchedLine]) -> None:
    """Prefetch lines that are to be written, and hold a value up until they have been prefetched.

    LLVM would move all of them to one place otherwise, since no value depends on them: there they
    wait for one another, and what comes next for them.
    """
    builder = scope.builder
    for buffer, index, lane in lines:
        pointer = emit_pointer(scope, buffer, index, lane, is_inside=False)
        prefetch(builder, pointer, is_write=True)
    value, width = scope.values[let.name]
    same = ir.FunctionType(value.type, [value.type])
    constraints = f"={scope.target.register_constraint},0,~{{memory}}"
    held = builder.asm(same, "", constraints, [value], side_effect=True)
    scope.values[let.name] = held, width


def _prefetch_rows(scope: KernelScope, loop: For) -> None:
    """Prefetch as many elements as an iteration writes of each buffer, from a page further on."""
    sizes = {name: param.dtype.itemsize for name, param in scope.params.items()}
    memory = scope.target.memory
    for buffer, row in rows_prefetched(loop, sizes, memory.l2_bytes).items():
        ahead = memory.page_bytes // sizes[buffer]
        index = Index(ahead, ((loop.var, row),))
        _emit_prefetch(scope, buffer, index, is_near=False, count=row)


def _prefetch_matrices(scope: KernelScope, around: For, loop: For) -> None:
    """Prefetch some of what the next iteration of `around` touches, a loop over matrices."""
    sizes = {name: param.dtype.itemsize for name, param in scope.params.items()}
    line = scope.target.memory.line_bytes
    for buffer, index, count in prefetched_by(around, loop, sizes, line):
        is_write = scope.params[buffer].mode != "in"
        _emit_prefetch(scope, buffer, index, is_near=False, is_write=is_write, count=count)


def matrices_prefetched(scope: KernelScope, product: Product) -> list[PrefetchedMatrix]:
    """Return what tiles of a product prefetch of the next iteration of a loop over matrices."""
    if product.prefetches is None or scope.matrices is None:
        return []
    sizes = {name: param.dtype.itemsize for name, param in scope.params.items()}
    line = scope.target.memory.line_bytes
    return [
        PrefetchedMatrix(emit_pointer(scope, buffer, first, is_inside=False), begin, end)
        for buffer, first, begin, end in prefetched_by_product(
            scope.matrices, product.prefetches, sizes, line
        )
    ]


def _emit_prefetch(
    scope: KernelScope,
    buffer: str,
    index: Index,
    *,
    is_near: bool,
    is_write: bool = False,
    count: int | None = None,
) -> None:
    """Prefetch the lines of some elements, else of a vector, into the nearest cache or the next."""
    # Behind the last row or page is the end of the buffer: nothing fails there, or is read.
    pointer = emit_pointer(scope, buffer, index, is_inside=False)
    elements = scope.vector.width if count is None else count
    nbytes = elements * scope.params[buffer].dtype.itemsize
    line = scope.target.memory.line_bytes
    zero, end = (ir.Constant(ir.IntType(64), n) for n in (0, nbytes))

    def emit_at(at: ir.Value) -> None:
        place = scope.builder.gep(pointer, [at], source_etype=ir.IntType(8))
        prefetch(scope.builder, place, is_write=is_write, is_near=is_near)

    if nbytes > LINES_WRITTEN_OUT * line:
        with counted_loop(scope.builder, zero, end, line) as at:
            emit_at(at)
        return
    for start in range(0, nbytes, line):
        emit_at(ir.Constant(ir.IntType(64), start))
