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
same operations in the same order as before, so no result changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from symgrad.codegen.loops.index_arithmetic import bounds, index_of
from symgrad.codegen.loops.language import (
    BinarySearch,
    Check,
    For,
    Generated,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Param,
    Product,
    SortRows,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import (
    buffers_used,
    is_free_of,
    map_indices,
    mentions,
    statements,
    substitute_variable,
)
from symgrad.cost_model import BYTES_OF_ROWS_AGAIN, BYTES_SWEPT


def fuse_rows(first: Kernel, second: Kernel) -> Kernel | None:
    """Return a kernel that does what `first` and then `second` do, None unless that saves a sweep.

    A parameter of both has one name in both, and nothing else has.
    """
    rows = _rows_of(first)
    is_plain = is_free_of(second.body, Check | Generated) and not _searches(second.body)
    if rows is None or not is_plain:
        return None
    fusion = _Fusion(rows, [*first.params, *second.params])
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
class _Rows:
    """A kernel that computes rows in a loop; `pitches` is how far apart they are where it stores.

    Stored for a row is what lies between its place and the next one's, in each buffer.
    """

    before: tuple[Stmt, ...]
    loop: For
    pitches: dict[str, int]
    loaded: set[str]


def _rows_of(kernel: Kernel) -> _Rows | None:
    """Return how a kernel computes rows one by one, None if it does not."""
    if not kernel.body:
        return None
    *before, loop = kernel.body
    if not isinstance(loop, For) or not all(isinstance(s, Let) for s in before):
        return None
    is_plain = is_free_of(loop.body, Check | Generated) and not _searches(loop.body)
    is_plain &= not any(isinstance(s, For) and s.parallel for s in statements(loop.body))
    if loop.ordered or loop.vector > 1 or not loop.extent or not is_plain:
        return None
    pitches: dict[str, int] = {}
    extents = _extents(loop.body)
    loaded, stored = buffers_used(kernel.body)
    for buffer, index in _places(loop.body):
        if buffer not in stored:
            continue
        pitch = pitches.setdefault(buffer, index.coefficient(loop.var))
        within = substitute_variable(index, loop.var, Index())
        low, high = bounds(within, extents)
        is_linear = index == index_of(*within.terms, (loop.var, pitch), const=within.const)
        if not is_linear or not 0 <= low <= high < pitch:
            return None
    return _Rows(tuple(before), loop, pitches, loaded)


class _Fusion:
    """Puts the rows of a kernel in front of what reads them; counts how many are there so far."""

    def __init__(self, rows: _Rows, params: Sequence[Param]) -> None:
        self._rows = rows
        self._bytes = {p.name: p.count * p.dtype.itemsize for p in params}
        self._computed = 0
        self._is_fitting = True

    def fused(self, body: Sequence[Stmt]) -> list[Stmt] | None:
        """Return the statements of a kernel with the rows among them, None if they do not fit."""
        rows = self._rows
        result: list[Stmt] = []
        for statement in body:
            loaded, stored = buffers_used((statement,))
            if not stored.isdisjoint(rows.pitches):
                return None
            if self._computed == rows.loop.extent:
                result.append(statement)
                continue
            # What rows read must be as it was until all of them are computed.
            if not stored.isdisjoint(rows.loaded):
                return None
            if not loaded.isdisjoint(rows.pitches) and not self._keeps_threads(statement):
                return None
            result += self._placed(statement, ())
            if not self._is_fitting:
                return None
        return result if self._computed == rows.loop.extent else None

    def _keeps_threads(self, statement: Stmt) -> bool:
        is_shared = isinstance(statement, For) and statement.parallel is not None
        return is_shared or self._rows.loop.parallel is None

    def _placed(self, statement: Stmt, loops: tuple[For, ...]) -> tuple[Stmt, ...]:
        """Return `statement`, within `loops`, behind the rows that it reads or around them."""
        read = [(b, i) for b, i in _places((statement,)) if b in self._rows.pitches]
        if not read:
            return (statement,)
        if isinstance(statement, For) and self._walks_over(statement, read):
            around = (*loops, statement)
            inside = tuple(s for inner in statement.body for s in self._placed(inner, around))
            return (replace(statement, body=inside),)
        return (*self._rows_for(statement, loops, read), statement)

    def _walks_over(self, loop: For, read: Sequence[tuple[str, Index]]) -> bool:
        """Return whether each iteration of `loop` reads rows of its own."""
        pitches = self._rows.pitches
        return loop.vector == 1 and all(
            (step := index.coefficient(loop.var)) and step % pitches[buffer] == 0
            for buffer, index in read
        )

    def _rows_for(
        self, statement: Stmt, loops: tuple[For, ...], read: Sequence[tuple[str, Index]]
    ) -> tuple[Stmt, ...]:
        """Return the loop over the rows that `statement` reads, next to those so far."""
        extents = _extents((statement,))
        first: set[tuple[tuple[str, int], ...]] = set()
        lows, highs = [], []
        for buffer, index in read:
            pitch, within = self._rows.pitches[buffer], index
            for loop in loops:
                within = substitute_variable(within, loop.var, Index())
            first.add(tuple((p.var, index.coefficient(p.var) // pitch) for p in loops))
            low, high = bounds(within, extents)
            lows.append(low // pitch)
            highs.append(high // pitch)
            around = [(p.var, index.coefficient(p.var)) for p in loops]
            self._is_fitting &= index == index_of(*within.terms, *around, const=within.const)
        start, count = min(lows), max(highs) - min(lows) + 1
        self._is_fitting &= len(first) == 1 and self._goes_on(min(first), loops, start, count)
        self._is_fitting &= self._gains(statement, count)
        if not self._is_fitting:
            return ()
        rows = self._rows.loop
        at = index_of(*min(first), (rows.var, 1), const=start)
        body = map_indices(rows.body, lambda index: substitute_variable(index, rows.var, at))
        return (replace(rows, extent=count, parallel=None, body=body),)

    def _goes_on(
        self,
        steps: tuple[tuple[str, int], ...],
        loops: tuple[For, ...],
        start: int,
        count: int,
    ) -> bool:
        """Return whether rows come once each, from those that were computed before on."""
        is_next = start == self._computed
        for loop, (_, step) in zip(reversed(loops), reversed(steps), strict=True):
            is_next &= step == count
            count *= loop.extent
        self._computed += count
        return is_next

    def _gains(self, statement: Stmt, count: int) -> bool:
        """Return whether what rows and `statement` both read is found in the cache then."""
        again = buffers_used((statement,))[0] & self._rows.loaded
        swept = sum(self._bytes[buffer] for buffer in again)
        return swept >= BYTES_SWEPT and swept * count <= BYTES_OF_ROWS_AGAIN * self._rows.loop.extent


def _places(body: Sequence[Stmt]) -> list[tuple[str, Index]]:
    """Return the places in buffers that statements load from and store to, one by one."""
    found = []
    for statement in statements(body):
        match statement:
            case Let(_, Load(buffer, index, _)) | Store(buffer, index, _):
                found.append((buffer, index))
            case _:
                pass
    return found


def _extents(body: Sequence[Stmt]) -> dict[str, int]:
    """Return the extents of the loops in `body`."""
    loops = (s for s in statements(body) if isinstance(s, Loop) and not isinstance(s, Product))
    return {loop.var: loop.extent for loop in loops}


def _searches(body: Sequence[Stmt]) -> bool:
    return any(isinstance(s, Let) and isinstance(s.value, BinarySearch) for s in statements(body))
