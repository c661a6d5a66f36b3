"""Regions (nested graphs) as ops see them: checked, built again, differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.errors import DTypeError
from symgrad.graph.graph import Graph
from symgrad.graph.nested import inline
from symgrad.graph.node import Tensor
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.conversion import identity
from symgrad.graph.ops.structure import broadcast_to_op
from symgrad.graph.types import ArrayLiteral, NestedGraph, TensorType

Arrived = Callable[[Tensor], Tensor | None]
Differentiate = Callable[
    [Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor | None]
]


def graph_of(nested: NestedGraph) -> Graph:
    """Return an attribute that is a nested graph as what it is."""
    assert isinstance(nested, Graph), "a nested graph is a graph"
    return nested


def check_operands(op: str, graph: Graph, operands: Sequence[TensorType]) -> None:
    """Raise unless `operands` have the types of the inputs of `graph`."""
    wanted = [t.type for t in graph.inputs]
    assert len(wanted) == len(operands), f"{op}: {graph.name} takes {len(wanted)} operands"
    for position, (want, given) in enumerate(zip(wanted, operands, strict=True)):
        if want.dtype != given.dtype:
            raise DTypeError(op, f"operand {position} of {graph.name}: {given}, not {want}")
        meet_shapes(op, f"operand {position}", given, f"that of {graph.name}", want)


def grads_of_graph(
    graph: Graph,
    operands: Sequence[Tensor],
    gs: Sequence[Tensor | None],
    asked: Sequence[bool],
    differentiate: Differentiate,
    sums: Sequence[Tensor | None] = (),
) -> list[Tensor | None]:
    """Build `graph` again on `operands`; return the gradients with respect to those `asked` for.

    `gs` are those of its outputs, None for one that is not trainable; `sums` are added to the
    gradients of the operands.
    """
    arguments = [inline_argument(t) for t in operands]
    outputs = inline(graph, arguments)
    pairs = [(y, g) for y, g in zip(arguments, sums, strict=False) if g is not None]
    pairs += [(y, g) for y, g in zip(outputs, gs, strict=True) if g is not None]
    if not pairs:
        return [None] * len(operands)
    ys, seeds = zip(*pairs, strict=True)
    xs = [t for t, is_asked in zip(arguments, asked, strict=True) if is_asked]
    grads = iter(differentiate(ys, xs, seeds))
    return [next(grads) if is_asked else None for is_asked in asked]


def inline_argument(tensor: Tensor) -> Tensor:
    """Return a tensor of this region that stands for `tensor` and for nothing else.

    Two operands may be one tensor, and each has a gradient of its own.
    """
    return identity(tensor)


def is_zero(g: Tensor) -> bool:
    """Return whether `g` is the zeros that stand for a gradient that did not arrive."""
    while g.node.definition is broadcast_to_op:
        (g,) = g.node.inputs
    value = g.node.attrs.get("value")
    return isinstance(value, ArrayLiteral) and not value.array.any()
