"""Lowering of convolutions that are no matrix products, such as depthwise ones.

What is inside of a window is written out rather than looped over: a sum over it is one expression,
and results for each place in it are accumulators of one fold, so that either operand is walked
through once. All else is loops, of which one will have the vectors.

Where the windowed operand is padded, loops are cut where its border begins and ends, and there the
value of the border is written in the place of an element:

    { 0.0 * w[0] + x[0] * w[1] }  for i in 0..54 { x[i] * w[0] + x[i + 1] * w[1] }  ...
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import Accumulator, Atom, Fold, For, Index, Ref, Stmt, Store
from symgrad.codegen.lower.folding import lower_combination
from symgrad.codegen.lower.places import load_anew
from symgrad.codegen.lower.scope import Names, Scope, constant
from symgrad.codegen.lower.values import GroupValues
from symgrad.cost_model import PARTS_OF_SUMS
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Contract, Place
from symgrad.passes.fusion.windows import pieces_of, sizes_of, summed_in_memory, written_out

_Positions = dict[str, Index]
_Body = Callable[[_Positions], Sequence[Stmt]]
_Write = Callable[[_Positions, Scope, Sequence[Atom]], None]
_Store = Callable[[tuple[int, ...], Scope, tuple[Index, ...]], None]


class _PartialSums:
    """Sums of the elements of `output` in scratch memory, apart for each of the `parts`."""

    def __init__(self, values: GroupValues, output: Tensor, dtype: DType, parts: int) -> None:
        self._shape = (parts, *output.type.static_shape)
        self._values = values
        self._dtype = dtype
        self._buffer = values.scratch(dtype, math.prod(self._shape))

    def _at(self, part: str, element: Sequence[Index]) -> Index:
        return self._values.linear((Index(0, ((part, 1),)), *element), self._shape)

    def clear(self, scope: Scope, part: str, element: Sequence[Index]) -> None:
        zero = constant(0, self._dtype)
        scope.statements.append(Store(self._buffer, self._at(part, element), zero))

    def load(self, scope: Scope, part: str, element: Sequence[Index]) -> Atom:
        return load_anew(scope, self._buffer, self._at(part, element), self._dtype)

    def add(self, scope: Scope, part: str, element: Sequence[Index], value: Atom) -> None:
        total = scope.call("add", self.load(scope, part, element), value)
        scope.statements.append(Store(self._buffer, self._at(part, element), total))


class WindowFolds:
    """The loops and folds of one contraction of windows; `pad` is what it reads them through."""

    def __init__(
        self, values: GroupValues, names: Names, anchor: Node, spec: Contract, pad: Place | None
    ) -> None:
        self._values = values
        self._names = names
        self._anchor = anchor
        self._spec = spec
        self._sizes = sizes_of(anchor, spec)
        # Of the labels that windows are walked through by, the few that are inside of them.
        self._taps = written_out(anchor, spec)
        padded = anchor.inputs[0].node
        inside = () if pad is None else padded.inputs[0].type.static_shape
        self._pieces = pieces_of(anchor, spec, self._taps, pad, inside)
        self._summed = [k for k in self._sizes if k not in spec.out and k not in self._taps]

    def lower(self, store: _Store) -> tuple[Stmt, ...]:
        """Return the loops; `store` writes what is done with each element of the result."""
        output = self._anchor.output

        def write(places: _Positions, scope: Scope, totals: Sequence[Atom]) -> None:
            for element, total in zip(self._elements(places), totals, strict=True):
                scope.remember((output, element), scope.cast(total, output.dtype))
                store(output.type.static_shape, scope, element)

        if in_memory := summed_in_memory(self._anchor, self._spec):
            return tuple(self._lower_in_memory(in_memory, write))

        def whole(places: _Positions) -> list[Stmt]:
            scope = Scope(self._names)
            write(places, scope, self._totals(scope, self._summed, places))
            return scope.statements

        return tuple(self._loops([k for k in self._spec.out if k not in self._taps], {}, whole))

    def _lower_in_memory(self, in_memory: Sequence[str], write: _Write) -> list[Stmt]:
        """Return loops that add up rows in memory, so that operands are walked through once.

        The outermost label is cut into parts, which threads may share, with sums of their own:

            for p in 0..8 {
              for c in 0..128 { s[p, c] = 0.0 }
              for i in 0..56 ordered { for c in 0..128 { fold t for j in 0..56 ... s[p, c] += t } }
            }
            for c in 0..128 { fold t for p in 0..8 { s[p, c] } w[c] = t }
        """
        spec, (outer, *ordered) = self._spec, in_memory
        extent = self._sizes[outer]
        count = max(n for n in range(1, PARTS_OF_SUMS + 1) if extent % n == 0)
        labels = [k for k in spec.out if k not in self._taps]
        sums = _PartialSums(self._values, self._anchor.output, spec.accumulate, count)
        part, within = self._values.loop(count), self._values.loop(extent // count)
        first = {outer: index_of((part, extent // count), (within, 1))}

        def clear(places: _Positions) -> list[Stmt]:
            scope = Scope(self._names)
            for element in self._elements(places):
                sums.clear(scope, part, element)
            return scope.statements

        def add(places: _Positions) -> list[Stmt]:
            scope = Scope(self._names)
            totals = self._totals(scope, self._summed[len(in_memory) :], places)
            for element, total in zip(self._elements(places), totals, strict=True):
                sums.add(scope, part, element, total)
            return scope.statements

        def finish(places: _Positions) -> list[Stmt]:
            scope = Scope(self._names)
            variable, inner = self._values.loop(count), scope.inner()
            items = [sums.load(inner, variable, element) for element in self._elements(places)]
            write(places, scope, self._folded(scope, (variable, count), inner, items))
            return scope.statements

        def rows(places: _Positions) -> list[Stmt]:
            return self._loops(labels, places, add)

        added = self._loops(ordered, first, rows, is_ordered=True)
        adding = For(within, extent // count, tuple(added), ordered=True)
        whole = (*self._loops(labels, {}, clear), adding)
        return [For(part, count, whole), *self._loops(labels, {}, finish)]

    def _loops(
        self, labels: Sequence[str], places: _Positions, body: _Body, *, is_ordered: bool = False
    ) -> list[Stmt]:
        """Return loops over `labels` around what `body` writes, each piece of a label by itself."""
        if not labels:
            return list(body(places))
        label, *rest = labels
        found: list[Stmt] = []
        for start, stop in self._pieces[label]:
            variable = self._values.loop(stop - start) if stop - start != 1 else None
            at = places | {label: _piece(start, variable)}
            inside = self._loops(rest, at, body, is_ordered=is_ordered)
            if variable is None:
                found += inside
            else:
                found.append(For(variable, stop - start, tuple(inside), ordered=is_ordered))
        return found

    def _elements(self, places: _Positions) -> list[tuple[Index, ...]]:
        """Return the elements of the result that `places` say but for places within windows."""
        results = [k for k in self._taps if k in self._spec.out]
        everywhere = (places | at for at in self._each(results))
        return [tuple(at[k] for k in self._spec.out) for at in everywhere]

    def _each(self, labels: Sequence[str]) -> list[_Positions]:
        """Return the indices of labels that are written out, in row-major order."""
        ranges = (range(self._sizes[k]) for k in labels)
        return [
            dict(zip(labels, map(Index, place), strict=True))
            for place in itertools.product(*ranges)
        ]

    def _totals(self, scope: Scope, labels: Sequence[str], places: _Positions) -> Sequence[Atom]:
        """Write the folds over `labels`; return the sums for each place within windows."""
        if not labels:
            results = [k for k in self._taps if k in self._spec.out]
            within = [k for k in self._taps if k not in results]
            return [self._sum(scope, places | at, within) for at in self._each(results)]
        label, *rest = labels
        totals: Sequence[Atom] = ()
        for start, stop in self._pieces[label]:
            if stop - start == 1 and len(self._pieces[label]) > 1:
                sums = self._totals(scope, rest, places | {label: Index(start)})
            else:
                sums = self._fold(scope, label, (start, stop), rest, places)
            pairs = zip(totals, sums, strict=True) if totals else ()
            totals = [scope.call("add", a, b) for a, b in pairs] or sums
        return totals

    def _fold(
        self,
        scope: Scope,
        label: str,
        piece: tuple[int, int],
        rest: Sequence[str],
        places: _Positions,
    ) -> Sequence[Atom]:
        """Write a fold over a piece of `label`, around folds over the `rest`."""
        start, stop = piece
        variable, inner = self._values.loop(stop - start), scope.inner()
        items = self._totals(inner, rest, places | {label: _piece(start, variable)})
        return self._folded(scope, (variable, stop - start), inner, items)

    def _folded(
        self, scope: Scope, loop: tuple[str, int], inner: Scope, items: Sequence[Atom]
    ) -> Sequence[Atom]:
        """Write a fold that adds up the `items` that `inner` computes; return the sums."""
        identity = [constant(0, self._spec.accumulate)] * len(items)

        def combine(s: Scope, a: tuple[Atom, ...], b: tuple[Atom, ...]) -> tuple[Atom, ...]:
            return tuple(s.call("add", x, y) for x, y in zip(a, b, strict=True))

        accumulators = tuple(Accumulator(self._names.value(), c) for c in identity)
        combination = lower_combination(self._names, identity, combine)
        body = tuple(inner.statements)
        variable, extent = loop
        fold = Fold(accumulators, variable, extent, 1, body, tuple(items), *combination)
        scope.statements.append(fold)
        return [Ref(a.name, a.identity.dtype) for a in accumulators]

    def _sum(self, scope: Scope, places: _Positions, within: list[str]) -> Atom:
        """Write the sum of products over the places in a window."""
        spec, (lhs, rhs) = self._spec, self._anchor.inputs
        total: Atom | None = None
        for at in self._each(within):
            everywhere = places | at
            left = self._values.windowed(spec, tuple(everywhere[k] for k in spec.lhs))
            a = scope.cast(self._values.value(scope, lhs, left), spec.accumulate)
            right = tuple(everywhere[k] for k in spec.rhs)
            b = scope.cast(self._values.value(scope, rhs, right), spec.accumulate)
            product = scope.call("mul", a, b)
            total = product if total is None else scope.call("add", total, product)
        assert total is not None, "a window that is written out has an element"
        return total


def _piece(start: int, variable: str | None) -> Index:
    """Return the index of a loop over a piece that begins at `start`, if it takes a loop."""
    return Index(start, () if variable is None else ((variable, 1),))
