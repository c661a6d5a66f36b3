"""Debug nans: where what is not finite began, found by the reference interpreter.

A program that was stopped knows which of its results is nan or infinite. Its variables have their
old values, so it can be run again, by NumPy: from that result backwards, as long as an operand is
not finite either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from symgrad.errors import NotFiniteError
from symgrad.graph.effects import has_effects
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.numeric_checks import stopped_by
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array, is_unbounded
from symgrad.passes.calls.check_numerics import checked_roots


def not_finite_error(
    graph: Graph, check: Node, index: int, inputs: Sequence[Array]
) -> NotFiniteError:
    """Return the error for a program of `graph` that `check` stopped with an index."""
    label = stopped_by(check, index)
    problem, source = f"{label} is not finite", check.source
    origin = None if has_effects(graph) else _origin(graph, label, inputs)
    if origin is not None:
        source = origin.node.source
        operands = ", ".join(str(t.type) for t in origin.node.inputs)
        problem += (
            f", since {origin.name or origin.node.op} is not"
            if origin.node.definition.is_leaf
            else f": {origin.node.op} makes nan or inf of {operands}"
        )
    return NotFiniteError(graph.name, problem, source=source)


def _origin(graph: Graph, label: str, inputs: Sequence[Array]) -> Tensor | None:
    """Return what nan or infinity comes from: the first tensor of which no operand has one.

    None where NumPy makes neither, as it may where a number is near the end of the range.
    """
    # Variables may share a name.
    labelled = [t for t, name in checked_roots(graph).items() if name == label]
    values = _values(Graph(labelled, graph.inputs), inputs)
    origin, candidates = None, labelled
    while found := [t for t in candidates if not _is_finite(t, values)]:
        origin, candidates = found[0], [*found[0].node.inputs]
    return origin


def _values(graph: Graph, inputs: Sequence[Array]) -> Mapping[Tensor, Array]:
    every = [t for node in graph.nodes for t in node.outputs if not is_unbounded(t.type)]
    found, _ = evaluate(Graph(every, graph.inputs), inputs)
    return dict(zip(every, found, strict=True))


def _is_finite(tensor: Tensor, values: Mapping[Tensor, Array]) -> bool:
    value = values.get(tensor)
    return value is None or value.dtype.kind in "biuO" or bool(np.isfinite(value).all())
