"""Eager evaluation of symbolic tensors by NumPy: slow, and what tests compare with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import optree

from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array

Feed = Mapping[Tensor, Any] | Sequence[Any]


def interpret(outputs: Any, feed: Feed = ()) -> Any:
    """Return the values of `outputs`, a `Graph` or any nest of tensors, in the same nest.

    `feed` gives the inputs: by placeholder, or in the order of the graph's inputs (for tensors:
    the order in which they reach their placeholders). Variables have their present value, and
    updates of a graph are not done. Raises `GraphError`, `ShapeError` or `DTypeError` for a feed
    that does not fit.

    >>> x = sg.placeholder((2,), name="x")
    >>> sg.testing.interpret(sg.exp(x) - 1, {x: np.float32([0.0, 1.0])})
    array([0.      , 1.718282], dtype=float32)
    """
    if isinstance(outputs, Graph):
        return evaluate(outputs, arrange_feed(outputs, feed))[0]
    leaves, structure = optree.tree_flatten(outputs)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise DTypeError("interpret", f"{leaf!r} is no tensor")
    graph = Graph(leaves, name="interpret")
    values: list[Any] = evaluate(graph, arrange_feed(graph, feed))[0]
    return optree.tree_unflatten(structure, values)


def arrange_feed(graph: Graph, feed: Feed) -> list[Array]:
    """Return what `feed` gives as arrays of the inputs' dtypes, in the order of the inputs."""
    if not isinstance(feed, Mapping):
        if len(feed) != len(graph.inputs):
            counts = f"{len(feed)} values are fed to {len(graph.inputs)} inputs"
            raise GraphError(graph.name, counts)
        feed = dict(zip(graph.inputs, feed, strict=True))
    missing = [t for t in graph.inputs if t not in feed]
    if missing:
        raise GraphError(graph.name, f"{missing[0]!r} is not fed", source=missing[0].node.source)
    return [_as_input(t, feed[t]) for t in graph.inputs]


def _as_input(tensor: Tensor, value: Any) -> Array:
    array = np.asarray(value)
    wanted = tensor.dtype.numpy
    # Python numbers are weak, as they are in a graph; an array must have the dtype or be safe.
    is_array = isinstance(value, np.ndarray | np.generic)
    if not np.can_cast(array.dtype, wanted, "safe" if is_array else "same_kind"):
        label = tensor.name or tensor.node.op
        problem = f"{label}: {array.dtype.name} is fed, {tensor.type} is wanted"
        raise DTypeError("interpret", problem, source=user_source())
    return array.astype(wanted)
