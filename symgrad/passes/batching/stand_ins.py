"""vmap of custom gradients and of what is computed again, as one node for all cases.

Such a node stands for some of its operands, which have the axis already; what is left is its
gradient. That of a custom gradient is what the user's function gives for one case, traced when it
is asked for and built with the axis; that of `recompute` follows from its graph with the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.graph.batch_rules import Entry, Operands
from symgrad.graph.build import enter, rebuild_here
from symgrad.graph.graph import Graph
from symgrad.graph.nested import Traced
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.stand_in import custom_gradient_node, recompute_node
from symgrad.graph.types import PythonFunction, TensorType

Build = Callable[[Graph, Sequence[Entry]], Sequence[Entry]]


def batch_custom_gradient(operands: Operands, build: Build) -> list[Entry]:
    """Stand for the results with the axis; an argument without it has the sum of all gradients."""
    node = operands.node
    first, function = node.attrs["first"], node.attrs["function"]
    assert isinstance(first, int), f"{node!r} does not say where its results are"
    assert isinstance(function, PythonFunction), f"{node!r} has no gradient"
    end = first + len(node.outputs)
    flags = [e.is_batched for e in operands.entries]
    flags[first:end] = [True] * len(node.outputs)
    given = [
        operands.lift(e) if f else e.tensor for e, f in zip(operands.entries, flags, strict=True)
    ]

    def gradient(copy: Node, gs: Sequence[Tensor | None]) -> list[Tensor | None]:
        inputs = [Entry(t, flag) for t, flag in zip(copy.inputs, flags, strict=True)]
        return _gradient_of_cases(operands, function, inputs, gs, build)[:first]

    xs, ys, others = given[:first], given[first:end], given[end:]
    outputs = custom_gradient_node(xs, ys, others, gradient, function.name).outputs
    return [Entry(t, True) for t in outputs]


def _gradient_of_cases(
    operands: Operands,
    function: PythonFunction,
    inputs: Sequence[Entry],
    gs: Sequence[Tensor | None],
    build: Build,
) -> list[Tensor | None]:
    """Return the gradients of `inputs`, for gradients `gs` that have the axis."""
    node = operands.node
    stacks = [*(e.tensor for e in inputs if e.is_batched), *(g for g in gs if g is not None)]
    is_there: list[bool] = []

    def of_one(*slices: Tensor) -> list[Tensor]:
        rest = iter(slices)
        of_case = [next(rest) if e.is_batched else enter(e.tensor) for e in inputs]
        seeds = [None if g is None else next(rest) for g in gs]
        found = function.call(rebuild_here(node, tuple(of_case)), seeds)
        is_there.extend(g is not None for g in found)
        return [g for g in found if g is not None]

    traced = Traced(f"{function.name}_grad", [_slice_type(t) for t in stacks])
    traced.run(of_one)
    captures = traced.captures
    entries = [*(Entry(t, True) for t in stacks), *(Entry(t, False) for t in captures)]
    built = iter(build(traced.graph(captures), entries))
    grads = [operands.lift(next(built)) if is_given else None for is_given in is_there]
    return [
        g if g is None or e.is_batched else sum_over(g, axis=0)
        for g, e in zip(grads, inputs, strict=False)
    ]


def _slice_type(stack: Tensor) -> TensorType:
    return stack.type.with_shape(stack.shape[1:])


def batch_recompute(operands: Operands, build: Build) -> list[Entry] | None:
    """Stand for the results with the axis, which the graph with the axis computes again."""
    node, entries = operands.node, operands.entries
    forward, arguments = node.attrs["forward"], node.attrs["arguments"]
    assert isinstance(forward, Graph), f"{node!r} computes nothing again"
    assert isinstance(arguments, int), f"{node!r} does not say how many arguments it has"
    width = len(forward.inputs)

    def of_all(*params: Tensor) -> list[Tensor]:
        pairs = zip(params, entries[:width], strict=True)
        found = build(forward, [Entry(t, entry.is_batched) for t, entry in pairs])
        return [operands.lift(entry) for entry in found]

    traced = Traced(forward.name, [e.tensor.type for e in entries[:width]])
    traced.run(of_all)
    if traced.captures:
        return None  # a gradient of the user's used something of the place it was asked for
    given = [e.tensor for e in entries[:width]]
    ys = [operands.lift(e) for e in entries[width:]]
    again = recompute_node(
        *(given[:arguments], given[arguments:], ys, traced.graph(())),
        keeps_results=bool(node.attrs["keeps_results"]),
    )
    return [Entry(t, True) for t in again.outputs]
