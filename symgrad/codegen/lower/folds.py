"""Lowering of a Reduce, and of a Contract that is no matrix product: folds around each other.

The sums of several elements of the result, those of a short row, are accumulators of one fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from symgrad.codegen.loops.language import Accumulator, Atom, Const, Fold, Index, Ref, Stmt
from symgrad.codegen.lower.folding import lower_combination
from symgrad.codegen.lower.scope import Names, Scope, constant
from symgrad.codegen.lower.short_rows import ShortRows, places_within
from symgrad.codegen.lower.values import GroupValues
from symgrad.graph.node import Node
from symgrad.graph.structures import Contract, Reduce

_Atoms = tuple[Atom, ...]
# Where along the axes, or labels, that are folded over an element is.
_Along = Mapping[int | str, Index]
_Item = Callable[[Scope, _Along], _Atoms]
_Where = tuple[Index, ...]


class Folds:
    """The folds of one anchor; what `rows` says of it is written out."""

    def __init__(self, values: GroupValues, names: Names, anchor: Node, rows: ShortRows) -> None:
        self._values = values
        self._names = names
        self._anchor = anchor
        self._rows = rows

    def reduce(self, scope: Scope, spec: Reduce, elements: Sequence[_Where]) -> list[Atom]:
        """Write the folds of a Reduce; return the result at each of `elements`."""
        (operand,) = self._anchor.inputs
        shape = operand.type.static_shape
        sizes = [shape[axis] for axis in spec.axes]

        def items(inner: Scope, along: _Along) -> _Atoms:
            position = self._values.linear([along[axis] for axis in spec.axes], sizes)
            found: list[Atom] = []
            for element in elements:
                outer = iter(element)
                full = tuple(
                    along[axis] if axis in along else next(outer) for axis in range(len(shape))
                )
                value = self._values.value(inner, operand, full)
                found += spec.item(inner, value, inner.index_value(position))
            return tuple(found)

        identity = [constant(v, d) for v, d in zip(spec.identity, spec.dtypes, strict=True)]
        axes = list(zip(spec.axes, sizes, strict=True))
        totals = self._fold(scope, axes, identity, items, len(elements), spec.combine)
        return [spec.finish(scope, part) for part in totals]

    def contract(self, scope: Scope, spec: Contract, elements: Sequence[_Where]) -> list[Atom]:
        """Write the folds of a Contract; return the result at each of `elements`."""
        lhs, rhs = self._anchor.inputs
        sizes = spec.sizes(lhs.type.static_shape, rhs.type.static_shape)
        wide = spec.accumulate

        def items(inner: Scope, along: _Along) -> _Atoms:
            found: list[Atom] = []
            for element in elements:
                places: dict[int | str, Index] = {**along}
                places.update(zip(spec.out, element, strict=True))
                left = self._values.windowed(spec, tuple(places[k] for k in spec.lhs))
                a = self._values.value(inner, lhs, left)
                b = self._values.value(inner, rhs, tuple(places[k] for k in spec.rhs))
                found.append(inner.call("mul", inner.cast(a, wide), inner.cast(b, wide)))
            return tuple(found)

        def combine(s: Scope, a: _Atoms, b: _Atoms) -> _Atoms:
            return (s.call("add", a[0], b[0]),)

        labels = [(label, sizes[label]) for label in sizes if label not in spec.out]
        zero = constant(0, wide)
        totals = self._fold(scope, labels, [zero], items, len(elements), combine)
        return [scope.cast(total, self._anchor.output.dtype) for (total,) in totals]

    def _fold(
        self,
        scope: Scope,
        axes: Sequence[tuple[int | str, int]],
        identity: Sequence[Const],
        items: _Item,
        count: int,
        combine: Callable[..., _Atoms],
    ) -> list[_Atoms]:
        """Write folds over `axes`, the last one innermost; return what each of `count` comes to.

        Without axes that is the one item.
        """
        width = len(identity)

        def combined(s: Scope, a: _Atoms, b: _Atoms) -> _Atoms:
            parts = range(0, count * width, width)
            return tuple(
                atom for at in parts for atom in combine(s, a[at : at + width], b[at : at + width])
            )

        if not axes:
            totals = items(scope, {})
        elif self._rows.has_short_folds:
            totals = tuple(identity) * count
            for along in places_within(axes):
                totals = combined(scope, totals, items(scope, along))
        else:
            totals = self._nested(scope, axes, tuple(identity) * count, items, combined)
        return [totals[at : at + width] for at in range(0, count * width, width)]

    def _nested(
        self,
        scope: Scope,
        axes: Sequence[tuple[int | str, int]],
        identity: tuple[Const, ...],
        items: _Item,
        combine: Callable[..., _Atoms],
    ) -> _Atoms:
        """Write the folds, each carrying on what the one inside of it comes to."""
        variables = [self._values.loop(extent) for _, extent in axes]
        along = {key: Index(0, ((v, 1),)) for (key, _), v in zip(axes, variables, strict=True)}
        inner = scope.inner()
        innermost = [inner.inner() for _ in axes][-1]
        found = items(innermost, along)
        body: tuple[Stmt, ...] = tuple(innermost.statements)
        for (_, extent), variable in reversed(list(zip(axes, variables, strict=True))):
            accumulators = tuple(Accumulator(self._names.value(), c) for c in identity)
            combination = lower_combination(self._names, identity, combine)
            body = (Fold(accumulators, variable, extent, 1, body, found, *combination),)
            found = tuple(Ref(a.name, a.identity.dtype) for a in accumulators)
        scope.statements.extend(body)
        return found
