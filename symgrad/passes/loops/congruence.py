"""Optimistic value numbering of loops: whether one goes through all that another goes through.

Both bodies are numbered at once. Loop variables that begin with one tensor are taken to be the same
until what they become is not, and then apart, until nothing changes any more. Nothing is rewritten
here; `loops/join_loops.py` does that.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder_op
from symgrad.graph.loop_view import LoopView
from symgrad.graph.node import Node, Tensor
from symgrad.graph.types import UNBOUNDED
from symgrad.passes.rewrites.value_numbering import value_key
from symgrad.records import dataclass

Table = dict[Hashable, int]


@dataclass(frozen=True, slots=True)
class Containment:
    """Where a loop is in another: of each loop variable the place, of each stack the tensor."""

    variables: Sequence[int]
    stacked: Sequence[Tensor]


def value_numbers(graph: Graph, given: Sequence[int], table: Table) -> dict[Tensor, int]:
    """Return numbers of the values of `graph`, of its inputs those of `given`, by `table`.

    Equal values have equal numbers, also in other graphs that are numbered by the same table.
    """
    numbers = dict(zip(graph.inputs, given, strict=True))
    for node in graph.nodes:
        if node.definition is not placeholder_op:
            key = value_key(node, [numbers[t] for t in node.inputs])
            for place, tensor in enumerate(node.outputs):
                numbers[tensor] = table.setdefault((key, place), len(table))
    return numbers


def find_containment(part: Node, whole: Node, numbers: Mapping[Tensor, int]) -> Containment | None:
    """Return where `part` is in `whole`, None if it is not: both are loops.

    `numbers` are those of the operands of both.
    """
    views = LoopView(part), LoopView(whole)
    if runs_alike(part, numbers) != runs_alike(whole, numbers):
        return None
    if not {numbers[t] for t in part.inputs} <= {numbers[t] for t in whole.inputs}:
        return None
    classes, values = _congruent(views, numbers)
    ours, theirs = views
    places = {c: i for i, c in enumerate(classes[1][: theirs.carried])}
    variables = [places.get(c) for c in classes[0][: ours.carried]]
    tensors = {number: tensor for tensor, number in values[1].items()}
    stacked = [tensors.get(values[0][t]) for t in ours.stacked]
    if None in variables or None in stacked or not _end_alike(views, classes):
        return None
    return Containment(
        [place for place in variables if place is not None],
        [tensor for tensor in stacked if tensor is not None],
    )


def runs_alike(loop: Node, numbers: Mapping[Tensor, int]) -> Hashable:
    """Return what two loops have in common if one contains the other, but for their bodies."""
    view = LoopView(loop)
    capacity = (view.capacity or UNBOUNDED) if view.is_while else view.capacity
    count = None if view.is_while else numbers[loop.inputs[0]]
    return loop.op, count, capacity, view.reverse


def _congruent(
    views: Sequence[LoopView], numbers: Mapping[Tensor, int]
) -> tuple[list[list[int]], list[dict[Tensor, int]]]:
    """Return classes of the inputs of each body, and the numbers of its values, which follow."""
    classes = _renumbered([_first_classes(view, numbers) for view in views])
    while True:
        table: Table = {}
        values = [
            value_numbers(view.body, _numbered(of_view, table), table)
            for view, of_view in zip(views, classes, strict=True)
        ]
        refined = _renumbered(
            [
                [
                    (c, found[view.body.outputs[i]] if i < view.carried else None)
                    for i, c in enumerate(of_view)
                ]
                for view, of_view, found in zip(views, classes, values, strict=True)
            ]
        )
        if _count(refined) == _count(classes):
            return classes, values
        classes = refined


def _first_classes(view: LoopView, numbers: Mapping[Tensor, int]) -> list[Hashable]:
    kinds = [(i >= view.carried) + (i >= view.changing) for i in range(len(view.operands))]
    return [(kind, numbers[t]) for kind, t in zip(kinds, view.operands, strict=True)]


def _renumbered(keys: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    table: Table = {}
    return [[table.setdefault(key, len(table)) for key in of_view] for of_view in keys]


def _count(classes: Sequence[Sequence[int]]) -> int:
    return len({c for of_view in classes for c in of_view})


def _numbered(classes: Sequence[int], table: Table) -> list[int]:
    """Return numbers of inputs by their classes, none of which a computed value has."""
    return [table.setdefault(("input", c), len(table)) for c in classes]


def _end_alike(views: Sequence[LoopView], classes: Sequence[Sequence[int]]) -> bool:
    """Return whether both loops go on as long: a `scan` does by its count."""
    table: Table = {}
    found = set()
    for view, of_view in zip(views, classes, strict=True):
        if view.condition is not None:
            numbers = value_numbers(view.condition, _numbered(of_view, table), table)
            found.add(numbers[view.condition.outputs[0]])
    return len(found) <= 1
