"""Vector quicksort: long rows are partitioned about pivots until what is left fits registers.

There are two arrays, a home and a spare one of equal length. A partition leaves the lesser keys at
the beginning of the home, and what they leave free of the spare array is theirs; the others are at
the beginning of the spare array, and the rest of the home is theirs. So nothing is copied, and
parts are done in the order in which they are wanted.

Whoever sorts a part may write beyond the end of both its arrays: there is what a part before it
has used, what a part behind it does not use yet, or padding.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import POINTER, counted_loop, index
from symgrad.codegen.sorting.elements import I64, Item
from symgrad.codegen.sorting.heapsort import heapsort_function
from symgrad.codegen.sorting.matrix import Matrix, restore
from symgrad.codegen.sorting.partition import FirstPartition, partition_function, pivot_function
from symgrad.codegen.sorting.runs import drain, sort_part
from symgrad.records import dataclass

# The depth of a part that is sorted already.
_SORTED = -1


def emit_quicksort(
    matrix: Matrix, buffers: Sequence[Item], start: ir.Value, stop: ir.Value
) -> None:
    """Sort rows `start` to `stop - 1`; `buffers` are two arrays for the keys of a row."""
    builder, plan = matrix.builder, matrix.plan
    (home,), (spare,) = buffers
    length = index(matrix.sort.length)
    parts = _Parts(matrix)
    with counted_loop(builder, start, stop) as row:
        builder.store(ir.IntType(8)(0), matrix.has_lost)
        parts.sort(row, _Part(home, spare, length, index(plan.depth)))
        restore(matrix, row, builder.add(row, index(1)))


@dataclass(frozen=True, slots=True)
class _Part:
    """Keys at `home`, `count` of them, with as much memory at `spare`; cut up to `depth` times."""

    home: ir.Value
    spare: ir.Value
    count: ir.Value
    depth: ir.Value

    @property
    def fields(self) -> tuple[ir.Value, ...]:
        return self.home, self.spare, self.count, self.depth


class _Parts:
    """The parts of a row: one at a time is cut and sorted, those behind it wait on a stack."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self._builder = builder = matrix.builder
        self._kinds = (POINTER, POINTER, I64, I64)
        # A part that is cut waits with a depth that is less by one, and those equal to a pivot not.
        most = index(matrix.plan.depth + 2)
        with builder.goto_entry_block():
            self._stack = [builder.alloca(kind, most) for kind in self._kinds]
            self._own = [builder.alloca(kind) for kind in self._kinds]
            self._waiting = builder.alloca(I64)
            self._done = builder.alloca(I64)

    def sort(self, row: ir.Value, whole: _Part) -> None:
        """Sort as much of a row as is wanted, part by part, and write its result."""
        builder, count = self._builder, self._matrix.sort.count
        builder.store(index(0), self._waiting)
        builder.store(index(0), self._done)
        pivot, lesser = FirstPartition(self._matrix, row, whole.home, whole.spare).emit()
        self._divide(whole, pivot, lesser)
        self._push(self._part())
        body, after = builder.append_basic_block("part"), builder.append_basic_block("done")
        builder.branch(body)
        builder.position_at_end(body)
        self._pop()
        self._cut()
        self._finish(row)
        has_more = builder.icmp_signed(">", builder.load(self._waiting, typ=I64), index(0))
        is_wanted = builder.icmp_signed("<", builder.load(self._done, typ=I64), index(count))
        builder.cbranch(builder.and_(has_more, is_wanted), body, after)
        builder.position_at_end(after)

    # ------------------------------------------------------------------------------- the stack

    def _part(self) -> _Part:
        pairs = zip(self._own, self._kinds, strict=True)
        return _Part(*(self._builder.load(place, typ=kind) for place, kind in pairs))

    def _take(self, part: _Part) -> None:
        for value, place in zip(part.fields, self._own, strict=True):
            self._builder.store(value, place)

    def _push(self, part: _Part) -> None:
        builder = self._builder
        top = builder.load(self._waiting, typ=I64)
        for value, column, kind in zip(part.fields, self._stack, self._kinds, strict=True):
            builder.store(value, builder.gep(column, [top], source_etype=kind))
        builder.store(builder.add(top, index(1)), self._waiting)

    def _pop(self) -> None:
        builder = self._builder
        top = builder.sub(builder.load(self._waiting, typ=I64), index(1))
        builder.store(top, self._waiting)
        places = zip(self._stack, self._kinds, strict=True)
        pointers = [(builder.gep(at, [top], source_etype=kind), kind) for at, kind in places]
        self._take(_Part(*(builder.load(pointer, typ=kind) for pointer, kind in pointers)))

    # ------------------------------------------------------------------------------ partitions

    def _cut(self) -> None:
        """Partition the part until it fits registers, or has been cut too often."""
        builder, run = self._builder, self._matrix.plan.run
        names = ("ask", "cut", "small")
        ask, cut, small = (builder.append_basic_block(name) for name in names)
        builder.branch(ask)
        builder.position_at_end(ask)
        part = self._part()
        is_long = builder.icmp_signed(">", part.count, index(run))
        may_be_cut = builder.icmp_signed(">", part.depth, index(0))
        builder.cbranch(builder.and_(is_long, may_be_cut), cut, small)
        builder.position_at_end(cut)
        self._cut_once(part)
        builder.branch(ask)
        builder.position_at_end(small)

    def _cut_once(self, part: _Part) -> None:
        """Partition a part about a pivot."""
        matrix, builder = self._matrix, self._builder
        pivot = builder.call(pivot_function(matrix.items), [part.home, part.count])
        self._divide(part, pivot, self._partition(part, part.count, pivot))

    def _divide(self, part: _Part, pivot: ir.Value, lesser: ir.Value) -> None:
        """Go on with the keys less than a pivot, of which there are `lesser`, before the others."""
        builder = self._builder
        has_none = builder.icmp_signed("==", lesser, index(0))
        with builder.if_else(has_none, likely=False) as (none, some):
            with none:
                self._set_equal_aside(part, pivot)
            with some:
                depth = builder.sub(part.depth, index(1))
                self._halve(part, lesser, depth, depth)

    def _set_equal_aside(self, part: _Part, pivot: ir.Value) -> None:
        """Cut a part, which has just been moved, behind the keys that are equal to its least."""
        builder = self._builder
        moved = _Part(part.spare, part.home, part.count, part.depth)
        (most,) = self._matrix.items.greatest(single=True)
        # No key is above the greatest: there it would not be a pivot if there were any other.
        is_most = self._matrix.items.is_equal(pivot, most)
        asked = builder.select(is_most, index(0), part.count)
        above = self._matrix.items.next_above(pivot)
        equal = self._partition(moved, asked, above)
        equal = builder.select(is_most, part.count, equal)
        self._halve(moved, equal, index(_SORTED), builder.sub(part.depth, index(1)))

    def _partition(self, part: _Part, count: ir.Value, limit: ir.Value) -> ir.Value:
        function = partition_function(self._matrix.items)
        return self._builder.call(function, [part.home, part.spare, count, limit])

    def _halve(self, part: _Part, lesser: ir.Value, depth: ir.Value, later: ir.Value) -> None:
        """Go on with the lesser keys, and let the others wait."""
        builder, kind = self._builder, self._matrix.items.scalar
        others = builder.sub(part.count, lesser)
        rest = builder.gep(part.home, [lesser], source_etype=kind)
        self._push(_Part(part.spare, rest, others, later))
        spare = builder.gep(part.spare, [others], source_etype=kind)
        self._take(_Part(part.home, spare, lesser, depth))

    # ---------------------------------------------------------------------------------- results

    def _finish(self, row: ir.Value) -> None:
        """Sort what cannot be cut, and write it."""
        builder, matrix = self._builder, self._matrix
        part = self._part()
        is_unsorted = builder.icmp_signed("!=", part.depth, index(_SORTED))
        with builder.if_then(is_unsorted):
            is_long = builder.icmp_signed(">", part.count, index(matrix.plan.run))
            with builder.if_else(is_long, likely=False) as (long, short):
                with long:
                    builder.call(heapsort_function(matrix.items), [part.home, part.count])
                with short:
                    sort_part(matrix.items, part.home, part.count)
        done = builder.load(self._done, typ=I64)
        drain(matrix, (part.home,), row, done, part.count)
        builder.store(builder.add(done, part.count), self._done)
