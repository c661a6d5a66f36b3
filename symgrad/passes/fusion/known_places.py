"""Bounds check elimination: which indices that are data lie within their axes whatever the data is.

    %2 = gather %x, %1 {axis = 0} : f64[100, 3]      // %1 is iota % 49, and x has 49 rows

A kernel that reads at `%1` has no index to check, and so nothing that can fail. What values an
integer tensor can have says `graph/ranges.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.graph.node import Node, Range, Tensor
from symgrad.graph.ranges import is_empty, ranges_of
from symgrad.graph.structures import AtIndices, KernelSpec, checked_axes
from symgrad.passes.fusion.partition import Specs
from symgrad.records import replace


def with_known_places(specs: Specs) -> Specs:
    """Return `specs` with gathers and scatters that check nothing where every index is known."""
    checked = {n: spec for n, spec in specs.items() if n.definition.can_fail and checked_axes(spec)}
    if not checked:
        return specs
    ranges = ranges_of([index for node, spec in checked.items() for index in _indices(node, spec)])
    known: dict[Node, KernelSpec] = {
        node: replace(spec, bound="known")
        for node, spec in checked.items()
        if isinstance(spec, AtIndices) and _is_known(node, spec, ranges)
    }
    return {**specs, **known}


def _indices(node: Node, spec: KernelSpec | None) -> tuple[Tensor, ...]:
    return node.inputs[-len(checked_axes(spec)) :]


def _is_known(node: Node, spec: AtIndices, ranges: Mapping[Tensor, Range]) -> bool:
    """Return whether every index of `node` is known to lie where its axis begins and ends.

    In an axis without elements lies none, also where there are no indices.
    """
    shape = node.inputs[0].type.static_shape
    for number, index in enumerate(_indices(node, spec)):
        size = 1 if spec.window is None else spec.window[number]
        range_ = ranges.get(index)
        last = shape[spec.axis + number] - size
        if range_ is None or last < 0:
            return False
        if not (is_empty(range_) or 0 <= range_[0] <= range_[1] <= last):
            return False
    return True
