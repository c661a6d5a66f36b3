"""Closure conversion: a Python function is traced into a closed graph, its captures operands.

A traced function has parameters, and captures: tensors from around it that it used, each with a
placeholder inside. Both are inputs of its graph, parameters first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from symgrad.errors import GraphError
from symgrad.graph.build import apply, enter, inside, rebuild_here, region, require_visible
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder_op
from symgrad.graph.node import Region, Tensor
from symgrad.graph.traverse import topological
from symgrad.graph.types import TensorType


class Traced:
    """A function in the making: its region, its parameters, and what it has returned so far."""

    def __init__(self, name: str, types: Sequence[TensorType]) -> None:
        with region(name) as opened:
            self.region: Region = opened
            self.params = [
                apply(placeholder_op, dtype=t.dtype, shape=t.shape, name=f"p{i}")
                for i, t in enumerate(types)
            ]
            opened.params.extend(self.params)
        self.outputs: list[Tensor] = []

    def run(self, function: Callable[..., Sequence[Tensor]]) -> None:
        """Call `function` on the parameters, inside the region; its results become outputs."""
        with self.open():
            results = function(*self.params)
        self.give(results)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Go on building inside."""
        with inside(self.region):
            yield

    def give(self, results: Sequence[Tensor]) -> None:
        """Add outputs, which may be tensors from around."""
        with self.open():
            for position, tensor in enumerate(results):
                require_visible(self.region.name, f"result {position}", tensor)
                self.outputs.append(enter(tensor))

    @property
    def captures(self) -> list[Tensor]:
        """The tensors from around that are used, in the order of their first use."""
        used = {n.output for n in topological(self.outputs) if n.definition is placeholder_op}
        return [outer for outer, inner in self.region.captures.items() if inner in used]

    def graph(self, captures: Sequence[Tensor]) -> Graph:
        """Return the function as a graph over its parameters and then `captures`."""
        with inside(self.region):
            placeholders = [self._placeholder_for(t) for t in captures]
        inputs = [*self.params, *placeholders]
        graph = Graph(self.outputs, inputs, name=self.region.name, region=self.region)
        for variable in graph.variables:
            raise GraphError(
                self.region.name,
                f"variable {variable.name!r} is made inside and would be one at each run",
                hint="make it before, outside",
                source=variable.node.source,
            )
        return graph

    def _placeholder_for(self, outer: Tensor) -> Tensor:
        inner = self.region.captures.get(outer)
        if inner is not None and inner.node.definition is placeholder_op:
            return inner
        return apply(placeholder_op, dtype=outer.dtype, shape=outer.shape)


def union_of_captures(functions: Sequence[Traced]) -> list[Tensor]:
    """Return what any of `functions` captures, without repeats."""
    return list(dict.fromkeys(t for f in functions for t in f.captures))


def inline(graph: Graph, arguments: Sequence[Tensor]) -> list[Tensor]:
    """Inline `graph`: build its nodes again where we are, on `arguments` in the place of inputs."""
    mapping = dict(zip(graph.inputs, (enter(t) for t in arguments), strict=True))
    for node in graph.nodes:
        if node.definition is not placeholder_op:
            copy = rebuild_here(node, tuple(mapping[t] for t in node.inputs))
            mapping.update(zip(node.outputs, copy.outputs, strict=True))
    return [mapping[t] for t in graph.outputs]
