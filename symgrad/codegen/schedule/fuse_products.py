"""Loop fusion of products with what is done with their rows: a block of rows stays in cache.

    product s: f32 for (i in 0..1024) (j in 0..1024) (k in 0..64) ... { x[1024*i + j] = s }
    for i in 0..1024 { ... x[1024*i + j] ... y[1024*i + j] = t }
    product s: f32 for (i in 0..1024) (j in 0..64) (k in 0..1024) y[0] by (1024, 1) * ... { ... }

becomes

    for b in 0..8 ordered {
      product s: f32 for (i in 0..128) (j in 0..1024) (k in 0..64) ... { x[1040*i + j] = s }
      for i in 0..128 { ... x[1040*i + j] ... y[1040*i + j] = t }
      product s: f32 for (i in 0..128) (j in 0..64) (k in 0..1024) y[0] by (1040, 1) * ... { ... }
    }

which is attention: no more than a block of the scores is in memory. A product that sums over rows
adds what each block comes to, in order; where batches are few, pieces of the blocks have sums of
their own, so that threads can share them. How rows are cut depends on shapes alone, and so does the
order of sums. What each block reads across is brought into panels before the first one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

from symgrad.codegen.loops.canonical import renamed_apart
from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Const,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Param,
    Product,
    Ref,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.codegen.loops.rewrite import is_free_of, map_indices, substitute_variable
from symgrad.codegen.loops.strided import walk
from symgrad.codegen.schedule.column_chunks import (
    CHUNK,
    ColumnChunks,
    column_chunks,
    in_chunk,
    last_chunk,
)
from symgrad.codegen.schedule.parallelize import scratch_of_parts, share_work
from symgrad.codegen.schedule.passes import Machine
from symgrad.codegen.schedule.register_tiles import transpose_in_registers
from symgrad.codegen.schedule.row_blocks import RowBlock, in_block, keep_blocks
from symgrad.codegen.schedule.row_stages import Layouts, MatrixRows, Stage
from symgrad.codegen.schedule.row_sums import PIECE, SharedSums, adding, adding_to_begun, total_of
from symgrad.codegen.schedule.split_epilogue import result_axes, row_major
from symgrad.codegen.schedule.tile_products import tile_products
from symgrad.codegen.schedule.vectorize import nested, vectorize
from symgrad.cost_model import LEAST_SUMS_APART, PARTS_A_THREAD
from symgrad.cost_model.products import PANEL_BYTES
from symgrad.graph.dtypes import DType
from symgrad.records import dataclass, replace

_BLOCK, PART, _PANEL = "block", "part", "panel"


@dataclass(frozen=True, slots=True)
class RowFusion:
    """Stages over the same rows, `block` of them at a time.

    `params` are all that they touch, of which nothing else reads `own`, and `layouts` says how what
    they write lies there. Sums that would be one of the params may be `shared` by kernels.
    """

    rows: MatrixRows
    stages: tuple[Stage, ...]
    params: tuple[Param, ...]
    layouts: Layouts
    own: frozenset[str]
    block: int
    shared: Mapping[str, SharedSums] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        return self.rows.count // self.block

    @property
    def pieces(self) -> int:
        """Into how many pieces the blocks are cut, each with sums of its own."""
        if not any(stage.is_sum for stage in self.stages):
            return self.blocks
        pieces, batches = 1, math.prod(self.rows.batch)
        while pieces * batches < LEAST_SUMS_APART and self.blocks % (2 * pieces) == 0:
            pieces *= 2
        return pieces

    @property
    def within(self) -> dict[str, Param]:
        """What nothing but the stages reads, by name."""
        return {p.name: p for p in self.params if p.name in self.own}

    @property
    def chunks(self) -> ColumnChunks | None:
        """How the last stages are cut along columns, None if they are not."""
        return column_chunks(self.stages, self.within, self.layouts, self.rows.count, self.block)


def fuse_products(fusion: RowFusion, machine: Machine) -> Kernel:
    """Return the kernel that does all stages; what it works in are parameters of its own."""
    return _Fusing(fusion, machine).kernel()


class _Fusing:
    def __init__(self, fusion: RowFusion, machine: Machine) -> None:
        self._fusion = fusion
        self._machine = machine
        self._batch = list(zip(fusion.rows.names, fusion.rows.batch, strict=True))
        self._loops = [*self._batch, (PIECE, fusion.pieces)]
        self._params = {p.name: p for p in fusion.params if p.name not in fusion.own}
        self._before: list[Stmt] = []
        self._clearing: list[Stmt] = []
        self._behind: list[Stmt] = []
        self._is_near = False
        self._parts = 1

    def kernel(self) -> Kernel:
        """Return the kernel: panels, blocks, and what is done with sums."""
        fusion, machine = self._fusion, self._machine
        shared, parts = shared_loop(self._loops, machine.threads.count)
        self._parts = parts
        own, chunks = fusion.within, fusion.chunks
        layouts, stages = fusion.layouts, fusion.stages
        if chunks is not None:
            layouts = chunks.layouts(layouts)
        chunked = None if chunks is None else chunks.first
        memory = machine.target.memory
        kept, scratch = keep_blocks(stages, own, layouts, fusion.block, memory, chunked)
        sizes = {p.name: p.count for p in scratch}
        kept = {
            name: replace(k, base=index_of((PART, sizes[k.buffer]))) for name, k in kept.items()
        }
        self._is_near = all(p.nbytes <= machine.target.memory.l2_bytes for p in scratch)
        self._params |= {p.name: replace(p, count=p.count * parts) for p in scratch}
        each = fusion.blocks // fusion.pieces
        start = index_of((PIECE, each * fusion.block), (_BLOCK, fusion.block))
        body = self._body(RowBlock(fusion.block, start, kept), chunks)
        inside = (*self._clearing, For(_BLOCK, each, body, ordered=True))
        nest = in_parts(self._loops, shared, parts, inside, by_turns=shared == PIECE)
        params = tuple(self._params.values())
        before, behind = (self._scheduled(part, params) for part in (self._before, self._behind))
        kernel = Kernel("fused", params, (*before, nest, *behind))
        tiled = tile_products(kernel, machine.target)
        times = dict(scratch_of_parts(tiled.body, 1))
        counted = (replace(p, count=p.count * times.get(p.name, 1)) for p in tiled.params)
        return replace(tiled, params=tuple(counted))

    def _body(self, block: RowBlock, chunks: ColumnChunks | None) -> tuple[Stmt, ...]:
        """Return the statements of a block; loops over its rows that follow one another are one.

        But what follows a fold is apart where a near cache has the block: it would wait for the
        fold of its own row, while folds of several rows overlap.
        """
        body: list[Stmt] = []
        stages = self._fusion.stages
        for stage in stages if chunks is None else stages[: chunks.first]:
            panels = self._in_panels(stage)
            statement = in_block(panels, self._fusion.rows, block)
            last = body[-1] if body else None
            waits = self._is_near and last is not None and not is_free_of((last,), Fold)
            both = None if waits else _joined(last, statement)
            if both is not None:
                body[-1] = both
            else:
                body.append(self._summed(stage, statement))
        if chunks is not None:
            body += self._in_chunks(chunks, block)
        return tuple(body)

    def _in_chunks(self, chunks: ColumnChunks, block: RowBlock) -> tuple[Stmt, ...]:
        """Return the last stages of a block, a chunk of columns at a time."""
        before: list[Stmt] = []
        inside: list[Product] = []
        behind: list[Stmt] = []
        buffers = frozenset(block.kept[name].buffer for name in chunks.buffers)
        for axis, stage in zip(chunks.axes, self._fusion.stages[chunks.first :], strict=True):
            statement = in_block(self._in_panels(stage), self._fusion.rows, block)
            product = self._summed(stage, statement)
            assert isinstance(product, Product), "a chunk has products"
            if axis == "inner":
                clear, product, total = self._over_chunks(product)
                before += clear
                behind += total
            inside.append(in_chunk(product, axis, chunks, buffers))
        count = chunks.columns // chunks.size
        if not chunks.is_last_apart:
            return *before, For(CHUNK, count, tuple(inside), ordered=True), *behind
        last = last_chunk(inside, chunks)
        around = (PART, _BLOCK, *(name for name, _ in self._loops))
        apart = renamed_apart(last, [*self._params], around, "last")
        return *before, For(CHUNK, count - 1, tuple(inside), ordered=True), *apart, *behind

    def _over_chunks(self, product: Product) -> tuple[tuple[Stmt, ...], Product, tuple[Stmt, ...]]:
        """Return what clears sums over chunks, what adds to them, and what is done with them."""
        axes = [product.rows, product.columns]
        count, dtype = math.prod(extent for _, extent in axes), product.dtype
        name = self._new_scratch([*axes, (PART, self._parts)], dtype)
        place = index_of((PART, count), *row_major(axes).terms)
        flat = f"{name}.i"
        clear = For(
            flat, count, (Store(name, index_of((PART, count), (flat, 1)), Const(0.0, dtype)),)
        )
        value = Let(product.name, Load(name, place, dtype))
        total = nested([For(*axis, ()) for axis in axes], (value, *product.body))
        params = tuple(self._params.values())
        first, last = (
            vectorize(Kernel("sums", params, (loop,)), self._machine.target).body
            for loop in (clear, total)
        )
        return first, adding(product, name, place), last

    def _scheduled(self, body: Sequence[Stmt], params: tuple[Param, ...]) -> tuple[Stmt, ...]:
        """Return statements before or behind the blocks as they are scheduled."""
        kernel = vectorize(Kernel("part", params, tuple(body)), self._machine.target)
        kernel = transpose_in_registers(kernel)
        return share_work(kernel, self._machine.target, self._machine.threads).body

    def _in_panels(self, stage: Stage) -> Stage:
        """Return a stage whose right operand is in panels, if each block would transpose it."""
        product, fusion = stage.statement, self._fusion
        if not isinstance(product, Product) or stage.axis != "rows" or fusion.blocks == 1:
            return stage
        rhs, panel = product.rhs, PANEL_BYTES // product.element.itemsize
        (column, n), (term, k) = product.columns, product.inner
        is_across = rhs.rows == 1 and rhs.columns > 1 and not rhs.column_digits
        if rhs.buffer in fusion.layouts:
            return stage
        if rhs.columns != 1 and rhs.rows != 1 and not rhs.row_digits:
            return replace(stage, statement=self._in_rows(product))
        if not is_across or n % panel:
            return stage
        batch = [(v, e) for v, e in self._batch if rhs.index.coefficient(v)]
        panels, within = (_PANEL, n // panel), [(term, k), (column, panel)]
        # Of few matrices those of fewer columns are the first ones, which launches may share.
        is_shared = math.prod(extent for _, extent in batch) < LEAST_SUMS_APART
        axes = [panels, *batch, *within] if is_shared else [*batch, panels, *within]
        name = self._new_scratch(axes, product.element)
        own = row_major(axes)
        at = ((_PANEL, panel * rhs.columns), (term, 1), (column, rhs.columns))
        value = Ref(f"{product.name}.packed", product.element)
        load = Load(rhs.buffer, index_of(*rhs.index.terms, *at, const=rhs.index.const), value.dtype)
        loops = [For(variable, extent, ()) for variable, extent in axes]
        self._before.append(nested(loops, (Let(value.name, load), Store(name, own, value))))
        first = index_of(*((v, own.coefficient(v)) for v, _ in batch))
        packed = StridedOperand(name, first, panel, 1, (), ((panel, own.coefficient(_PANEL)),))
        return replace(stage, statement=replace(product, rhs=packed))

    def _in_rows(self, product: Product) -> Product:
        """Return a product whose right operand, which each block would gather, is in rows."""
        rhs, (column, n), (term, k) = product.rhs, product.columns, product.inner
        batch = [(v, e) for v, e in self._batch if rhs.index.coefficient(v)]
        axes = [*batch, product.inner, product.columns]
        name = self._new_scratch(axes, product.element)
        digits = walk(rhs.columns, rhs.column_digits, n)
        columns = [(f"{column}.{place}", size) for place, size, _ in reversed(digits)]
        own = row_major([*batch, (term, k), *columns])
        at = ((term, rhs.rows), *((f"{column}.{place}", by) for place, _, by in digits))
        value = Ref(f"{product.name}.packed", product.element)
        load = Load(rhs.buffer, index_of(*rhs.index.terms, *at, const=rhs.index.const), value.dtype)
        loops = [For(variable, extent, ()) for variable, extent in [*batch, (term, k), *columns]]
        self._before.append(nested(loops, (Let(value.name, load), Store(name, own, value))))
        first = index_of(*((v, own.coefficient(v)) for v, _ in batch))
        return replace(product, rhs=StridedOperand(name, first, n, 1))

    def _new_scratch(self, axes: Sequence[tuple[str, int]], dtype: DType) -> str:
        name = f"scratch.{len(self._params)}"
        count = math.prod(extent for _, extent in axes)
        self._params[name] = Param(name, dtype, count, "scratch")
        return name

    def _summed(self, stage: Stage, statement: Stmt) -> Stmt:
        """Return what a stage does in a block: a product that sums over rows adds to sums."""
        if not stage.is_sum or not isinstance(statement, Product):
            return statement
        stored = [s.buffer for s in statement.body if isinstance(s, Store)]
        shared = self._fusion.shared.get(stored[0]) if stored else None
        if shared is not None:
            return self._into_shared(statement, shared)
        return self._into_sums(statement) if self._fusion.blocks > 1 else statement

    def _into_sums(self, product: Product) -> Product:
        """Return a product that adds to the sums of a piece; note what hands all of them on.

        Those of a piece of one block are what that comes to, those of others are cleared before.
        """
        result = result_axes(product)
        axes = [*self._loops, *result]
        place, dtype = row_major(axes), product.dtype
        name = self._new_scratch(axes, dtype)
        self._hand_on(product, name, place)
        if self._fusion.blocks == self._fusion.pieces:
            return replace(product, body=(Store(name, place, Ref(product.name, dtype)),))
        self._clear(product, name, place, first=0)
        return adding(product, name, place)

    def _into_shared(self, product: Product, shared: SharedSums) -> Product:
        """Return a product that adds to sums that kernels share."""
        fusion = self._fusion
        around = ((v, shared.size * c) for v, c in row_major(self._loops).terms)
        place = index_of(*around, *row_major(result_axes(product)).terms)
        if shared.is_last and fusion.blocks > 1:
            self._hand_on(product, shared.buffer, place)
        if fusion.blocks > fusion.pieces:
            self._clear(product, shared.buffer, place, first=shared.begun)
            return adding(product, shared.buffer, place)
        (store,) = product.body
        assert isinstance(store, Store), "sums that are shared are stored as they are"
        if not shared.is_last or fusion.blocks > 1:
            store = replace(store, buffer=shared.buffer, index=place)
        return adding_to_begun(product, place, shared, store)

    def _hand_on(self, product: Product, sums: str, place: Index) -> None:
        """Note what is done behind the blocks with the sums of all pieces."""
        axes = (*self._batch, *result_axes(product))
        total = total_of(product, sums, place, self._fusion.pieces)
        nest = [For(variable, extent, ()) for variable, extent in axes]
        self._behind.append(nested(nest, (total, *product.body)))

    def _clear(self, product: Product, sums: str, place: Index, first: int) -> None:
        """Note that the sums of a piece are cleared, from row `first` of the result on."""
        (_, rows), (_, columns) = result_axes(product)
        flat, count = f"{sums}.{product.name}", (rows - first) * columns
        if not count:
            return
        own = [(v, place.coefficient(v)) for v, _ in self._loops]
        at = index_of(*own, (flat, 1), const=first * columns)
        clear = For(flat, count, (Store(sums, at, Const(0.0, product.dtype)),))
        alone = Kernel("clear", tuple(self._params.values()), (clear,))
        self._clearing += vectorize(alone, self._machine.target).body


def _joined(first: Stmt | None, second: Stmt) -> For | None:
    """Return one loop for two over the same rows, None if they are not such loops."""
    if not isinstance(first, For) or not isinstance(second, For):
        return None
    is_one_way = first.vector == second.vector == 1
    return replace(first, body=(*first.body, *second.body)) if is_one_way else None


def shared_loop(loops: Sequence[tuple[str, int]], threads: int) -> tuple[str, int]:
    """Return the loop that threads share, and in how many equal parts."""
    if threads == 1:
        return loops[0][0], 1
    ways = [
        (-(-parts // threads) / parts, parts, number)
        for number, (_, extent) in enumerate(loops)
        for parts in range(1, min(extent, PARTS_A_THREAD * threads) + 1)
        if extent % parts == 0
    ]
    _, parts, number = min(ways)
    return loops[number][0], parts


def in_parts(
    loops: Sequence[tuple[str, int]],
    shared: str,
    parts: int,
    body: Sequence[Stmt],
    *,
    by_turns: bool = False,
) -> For:
    """Return `body` in loops, of which one is cut into parts, which come first.

    Iterations of a part use the same scratch memory, one after another. They are neighbours, or
    parts have them `by_turns`: where later rows need more terms, as of a triangle, no part has all
    the long ones.
    """
    size = dict(loops)[shared] // parts
    steps = (1, parts) if by_turns else (size, 1)
    whole = index_of(*zip((PART, shared), steps, strict=True))
    inside = map_indices(body, lambda index: substitute_variable(index, shared, whole))
    extents = ((v, size if v == shared else extent) for v, extent in loops)
    around = (For(variable, extent, (), ordered=True) for variable, extent in extents)
    part = For(PART, parts, (), parallel=1 if parts > 1 else None, ordered=parts == 1)
    return nested([part, *around], inside)
