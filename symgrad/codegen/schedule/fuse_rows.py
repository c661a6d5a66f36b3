"""Loop fusion of a kernel over rows with one that adds these rows up: they are read once.

    for i in 0..8192 { ... x[1024*i + k] ...  r[i] = t }          // a product with a vector, row
                                                                  // by row
    for p in 0..32 {                                              // its gradient: rows of x,
      for b in 0..32 ordered {                                    // 8 at a time, times r
        for j in 0..1024 vector(64) { fold ... x[262144*p + 8192*b + 1024*k + j], r[...] ... }
      }
    }

becomes

    for p in 0..32 {
      for b in 0..32 ordered {
        for i in 0..8 { ... x[262144*p + 8192*b + 1024*i + k] ...  r[256*p + 8*b + i] = t }
        for j in 0..1024 vector(64) { fold ... }
      }
    }

so that the second loop finds rows in the cache that the first has just read: a step over data that
no cache holds then reads it from memory once instead of twice. Each element is computed by the
same operations in the same order as before, so no result changes. One of the two is a reduction:
elementwise kernels that could be one were fused before, and pools and pads gain nothing by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.loops.index_arithmetic import bounds, index_of
from symgrad.codegen.loops.language import (
    BinarySearch,
    For,
    Generated,
    Index,
    Kernel,
    Let,
    Param,
    Reduction,
    Stmt,
    has_check,
)
from symgrad.codegen.loops.rewrite import (
    accesses,
    buffers_used,
    index_extents,
    is_free_of,
    map_indices,
    statements,
    substitute_variable,
)
from symgrad.cost_model import BYTES_OF_ROWS_AGAIN, BYTES_SWEPT, PIECES
from symgrad.records import dataclass, replace


def fuse_rows(first: Kernel, second: Kernel) -> Kernel | None:
    """Return a kernel that does what `first` and then `second` do, None unless that saves a sweep.

    A parameter of both has one name in both, and nothing else has.
    """
    rows = _rows_of(first)
    if (
        rows is None
        or not _is_plain(second.body)
        or is_free_of((rows.loop, *second.body), Reduction)
    ):
        return None
    fusion = _Fusion(rows, second.body, [*first.params, *second.params])
    body = fusion.fused(second.body)
    if body is None:
        return None
    params = {param.name: param for param in first.params}
    for param in second.params:
        params[param.name] = _joined(params.get(param.name), param)
    return replace(first, params=tuple(params.values()), body=(*rows.before, *body))


def _joined(first: Param | None, second: Param) -> Param:
    """Return a parameter as the fused kernel has it: what is read before it is stored to is in."""
    if first is None or first.mode == second.mode or first.mode in ("out", "inout"):
        return second if first is None else first
    return replace(first, mode="inout")


@dataclass(frozen=True, slots=True)
class _RowKernel:
    """A kernel that computes rows in a loop; `pitches` is how far apart they are where it stores.

    Stored for a row is what lies between its place and the next one's, in each buffer.
    """

    before: tuple[Stmt, ...]
    loop: For
    pitches: dict[str, int]
    loaded: set[str]


def rows_loop(kernel: Kernel) -> For | None:
    """Return the loop in which a kernel computes one row after another, None if it has none."""
    if not kernel.body:
        return None
    *before, loop = kernel.body
    if not isinstance(loop, For) or not all(isinstance(s, Let) for s in before):
        return None
    has_rows = not loop.ordered and loop.vector == 1 and loop.extent > 0
    return loop if has_rows and _is_plain(loop.body) else None


def _rows_of(kernel: Kernel) -> _RowKernel | None:
    """Return how a kernel computes rows one by one, None if it does not."""
    loop = rows_loop(kernel)
    if loop is None or any(isinstance(s, For) and s.parallel for s in statements(loop.body)):
        return None
    pitches: dict[str, int] = {}
    extents = index_extents(loop.body)
    loaded, stored = buffers_used(kernel.body)
    for buffer, index in accesses(loop.body):
        if buffer not in stored:
            continue
        pitch = pitches.setdefault(buffer, index.coefficient(loop.var))
        within = substitute_variable(index, loop.var, Index())
        low, high = bounds(within, extents)
        is_inside = 0 <= low <= high < pitch
        if not is_inside or not _is_sum(index, within, [(loop.var, pitch)]):
            return None
    return _RowKernel(kernel.body[:-1], loop, pitches, loaded)


@dataclass(frozen=True, slots=True)
class _Site:
    """A place in `loops` that reads `count` rows from `start` on, `steps` further with each."""

    loops: tuple[For, ...]
    steps: tuple[int, ...]
    start: int
    count: int


class _Fusion:
    """Puts the rows of a kernel in front of what reads them; counts how many are there so far."""

    def __init__(self, rows: _RowKernel, body: Sequence[Stmt], params: Sequence[Param]) -> None:
        self._rows = rows
        self._extents = index_extents(body)
        self._bytes = {p.name: p.nbytes for p in params}
        self._computed = 0
        self._is_fitting = True

    def fused(self, body: Sequence[Stmt]) -> list[Stmt] | None:
        """Return the statements of a kernel with the rows among them, None if they do not fit."""
        rows = self._rows
        result: list[Stmt] = []
        for statement in body:
            _, stored = buffers_used((statement,))
            if not stored.isdisjoint(rows.pitches):
                return None
            if self._computed == rows.loop.extent:
                result.append(statement)
                continue
            # What rows read must be as it was until all of them are computed.
            if not stored.isdisjoint(rows.loaded):
                return None
            before = self._computed
            result += self._placed((statement,), ())
            self._is_fitting &= self._keeps_threads(statement, self._computed - before)
            if not self._is_fitting:
                return None
        return result if self._computed == rows.loop.extent else None

    def _keeps_threads(self, statement: Stmt, count: int) -> bool:
        """Return whether threads share `count` rows as before; few that are left over need not."""
        loop = self._rows.loop
        is_shared = isinstance(statement, For) and statement.parallel is not None
        return is_shared or loop.parallel is None or count * PIECES <= loop.extent

    def _placed(self, body: Sequence[Stmt], loops: tuple[For, ...]) -> tuple[Stmt, ...]:
        """Return statements within `loops`, behind the rows that they read or around them."""
        result: list[Stmt] = []
        computed: _Site | None = None
        for statement in body:
            read = [(b, i) for b, i in accesses((statement,)) if b in self._rows.pitches]
            if isinstance(statement, For) and read and self._walks_over(statement, read):
                inside = self._placed(statement.body, (*loops, statement))
                result.append(replace(statement, body=inside))
                continue
            site = self._site(statement, loops, read) if read else None
            if site is not None and site != computed:
                self._is_fitting &= self._goes_on(site) and self._gains(body, site.count)
                result += self._rows_at(site)
                computed = site
            result.append(statement)
        return tuple(result)

    def _walks_over(self, loop: For, read: Sequence[tuple[str, Index]]) -> bool:
        """Return whether each iteration of `loop` reads rows of its own."""
        pitches = self._rows.pitches
        return loop.vector == 1 and all(
            (step := index.coefficient(loop.var)) and step % pitches[buffer] == 0
            for buffer, index in read
        )

    def _site(
        self, statement: Stmt, loops: tuple[For, ...], read: Sequence[tuple[str, Index]]
    ) -> _Site | None:
        """Return which rows `statement` reads, None if they do not follow from `loops` alone."""
        steps: set[tuple[int, ...]] = set()
        lows, highs = [], []
        for buffer, index in read:
            pitch, within = self._rows.pitches[buffer], index
            for loop in loops:
                within = substitute_variable(within, loop.var, Index())
            around = [(loop.var, index.coefficient(loop.var)) for loop in loops]
            self._is_fitting &= _is_sum(index, within, around)
            steps.add(tuple(coefficient // pitch for _, coefficient in around))
            low, high = bounds(within, self._extents)
            lows.append(low // pitch)
            highs.append(high // pitch)
        self._is_fitting &= len(steps) == 1
        start, end = min(lows), max(highs) + 1
        return _Site(loops, min(steps), start, end - start) if self._is_fitting else None

    def _rows_at(self, site: _Site) -> tuple[Stmt, ...]:
        """Return the statements that compute the rows of `site`."""
        rows = self._rows.loop
        own = () if site.count == 1 else ((rows.var, 1),)
        around = zip((loop.var for loop in site.loops), site.steps, strict=True)
        at = index_of(*around, *own, const=site.start)
        body = map_indices(rows.body, lambda index: substitute_variable(index, rows.var, at))
        return body if not own else (replace(rows, extent=site.count, parallel=None, body=body),)

    def _goes_on(self, site: _Site) -> bool:
        """Return whether the rows of `site` come once each, from those computed before on."""
        is_next, count = site.start == self._computed, site.count
        for loop, step in zip(reversed(site.loops), reversed(site.steps), strict=True):
            is_next &= step == count
            count *= loop.extent
        self._computed += count
        return is_next

    def _gains(self, body: Sequence[Stmt], count: int) -> bool:
        """Return whether what rows and `body` have in common is found in the cache then."""
        again = buffers_used(body)[0] & (self._rows.loaded | set(self._rows.pitches))
        swept = sum(self._bytes[buffer] for buffer in again)
        return (
            swept >= BYTES_SWEPT and swept * count <= BYTES_OF_ROWS_AGAIN * self._rows.loop.extent
        )


def _is_sum(index: Index, within: Index, around: Sequence[tuple[str, int]]) -> bool:
    """Return whether `index` is `within` and steps `around`, and no division hides one."""
    whole = index_of(*index.terms, const=index.const)
    return whole == index_of(*within.terms, *around, const=within.const)


def _is_plain(body: Sequence[Stmt]) -> bool:
    """Return whether a body can fail nowhere, calls nothing and searches nothing."""
    searches = (isinstance(s, Let) and isinstance(s.value, BinarySearch) for s in statements(body))
    return is_free_of(body, Generated) and not has_check(tuple(body)) and not any(searches)
