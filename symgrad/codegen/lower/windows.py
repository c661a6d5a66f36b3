"""Lowering of convolutions that are no matrix products, such as depthwise ones.

What is inside of a window is written out rather than looped over: a sum over it is one expression,
and results for each place in it are accumulators of one fold, so that either operand is walked
through once. All else is loops, of which one will have the vectors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from symgrad.codegen.loops.language import Accumulator, Atom, Fold, Index, Ref, Stmt
from symgrad.codegen.lower.folding import lower_combination
from symgrad.codegen.lower.scope import Names, Scope, constant
from symgrad.codegen.lower.values import GroupValues
from symgrad.cost_model import MAX_TAPS
from symgrad.graph.node import Node
from symgrad.graph.structures import Contract

_Write = Callable[[Scope, tuple[Index, ...]], None]
_Store = Callable[[tuple[int, ...], Scope, tuple[Index, ...]], None]


class WindowFolds:
    """The loops and folds of one contraction of windows."""

    def __init__(self, values: GroupValues, names: Names, anchor: Node, spec: Contract) -> None:
        self._values = values
        self._names = names
        self._anchor = anchor
        self._spec = spec
        lhs, rhs = (t.type.static_shape for t in anchor.inputs)
        self._sizes = spec.sizes(lhs, rhs)
        # Of the labels that windows are walked through by, the few that are inside of them.
        self._taps = self._written_out()

    def _written_out(self) -> list[str]:
        assert self._spec.windows is not None, "the left operand has windows"
        pairs = [m.terms for m in self._spec.windows.index if len(m.terms) == 2]
        inner = [self._spec.lhs[second[0]] for _, second in pairs]
        return inner if 0 < math.prod(self._sizes[k] for k in inner) <= MAX_TAPS else []

    def lower(self, nest: Callable[..., tuple[Stmt, ...]], store: _Store) -> tuple[Stmt, ...]:
        """Return the loops; `store` writes what is done with each element of the result."""
        spec, sizes = self._spec, self._sizes
        outside = [k for k in spec.out if k not in self._taps]
        shape = tuple(sizes[k] for k in spec.out)

        def write(scope: Scope, index: tuple[Index, ...]) -> None:
            places = dict(zip(outside, index, strict=True))
            results = [k for k in self._taps if k in spec.out]
            totals = self._totals(scope, places, results)
            for at, total in zip(self._each(results), totals, strict=True):
                everywhere = places | at
                element = tuple(everywhere[k] for k in spec.out)
                value = scope.cast(total, self._anchor.output.dtype)
                scope.remember((self._anchor.output, element), value)
                store(shape, scope, element)

        return nest([sizes[k] for k in outside], write)

    def _each(self, labels: Sequence[str]) -> list[dict[str, Index]]:
        """Return the indices of labels that are written out, in row-major order."""
        ranges = (range(self._sizes[k]) for k in labels)
        return [
            dict(zip(labels, map(Index, place), strict=True))
            for place in itertools.product(*ranges)
        ]

    def _totals(self, scope: Scope, places: dict[str, Index], results: list[str]) -> Sequence[Atom]:
        """Write the folds over all labels that are summed over and no taps; return their sums."""
        spec = self._spec
        summed = [k for k in self._sizes if k not in spec.out and k not in self._taps]
        loops = {k: self._values.loop(self._sizes[k]) for k in summed}
        places = places | {k: Index(0, ((v, 1),)) for k, v in loops.items()}
        within = [k for k in self._taps if k not in results]
        inner = [scope.inner() for _ in summed]
        deepest = inner[-1] if inner else scope
        items: Sequence[Atom] = [
            self._sum(deepest, places | at, within) for at in self._each(results)
        ]
        body = tuple(deepest.statements) if inner else ()
        identity = [constant(0, spec.accumulate)] * len(items)

        def combine(s: Scope, a: tuple[Atom, ...], b: tuple[Atom, ...]) -> tuple[Atom, ...]:
            return tuple(s.call("add", x, y) for x, y in zip(a, b, strict=True))

        for label in reversed(summed):
            accumulators = tuple(Accumulator(self._names.value(), c) for c in identity)
            combination = lower_combination(self._names, identity, combine)
            extent = self._sizes[label]
            fold = Fold(accumulators, loops[label], extent, 1, body, tuple(items), *combination)
            body, items = (fold,), [Ref(a.name, a.identity.dtype) for a in accumulators]
        scope.statements.extend(body)
        return items

    def _sum(self, scope: Scope, places: dict[str, Index], within: list[str]) -> Atom:
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
