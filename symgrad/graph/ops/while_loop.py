"""`while_loop`: the op that runs a graph for as long as another one says so.

Its gradient is a scan, by what `scan.py` has for loops. What users call is in
`symgrad/frontend/iteration.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.errors import DTypeError
from symgrad.graph import dtypes
from symgrad.graph.build import apply_node
from symgrad.graph.nested import Traced, union_of_captures
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.scan import Backward, kept_type, recorded, stacked_slices
from symgrad.graph.ops.subgraph import Arrived, Differentiate, check_operands, graph_of
from symgrad.graph.reference import evaluate
from symgrad.graph.sizes import Dim
from symgrad.graph.structures import While
from symgrad.graph.types import UNBOUNDED, Array, NestedGraph, TensorType, static


def loop(
    initial: Sequence[Tensor],
    condition: Traced,
    body: Traced,
    capacity: Dim,
    name: str | None = None,
) -> Node:
    """Make the node of a loop; the body's outputs beyond the loop variables are stacked."""
    captures = union_of_captures((condition, body))
    return apply_node(
        while_loop_op,
        (*initial, *captures),
        {
            "condition": condition.graph(captures),
            "body": body.graph(captures),
            "carried": len(initial),
            "capacity": capacity,
        },
        name=name,
    )


def _while_loop_infer(
    *operands: TensorType,
    condition: NestedGraph,
    body: NestedGraph,
    carried: int,
    capacity: Dim,
) -> tuple[TensorType, ...]:
    check_operands("while", graph_of(condition), operands)
    check_operands("while", graph_of(body), operands)
    (test,) = graph_of(condition).outputs
    if test.type != TensorType(dtypes.bool_, ()):
        raise DTypeError("while", f"the condition gives {test.type}, not bool[]")
    results = [t.type for t in graph_of(body).outputs]
    carried_types = []
    for position, (before, after) in enumerate(
        zip(operands[:carried], results[:carried], strict=True)
    ):
        carried_types.append(kept_type(position, before, after))
    stacks = (t.with_shape((capacity, *t.shape)) for t in results[carried:])
    return (TensorType(dtypes.int64, ()), *carried_types, *stacks)


def _while_loop_reference(
    *operands: Array,
    condition: NestedGraph,
    body: NestedGraph,
    carried: int,
    capacity: Dim,
) -> tuple[Array, ...]:
    values, invariants = list(operands[:carried]), operands[carried:]
    results = graph_of(body).outputs[carried:]
    slices: list[dict[int, Array]] = [{} for _ in results]
    count = 0
    while bool(evaluate(graph_of(condition), [*values, *invariants])[0][0]):
        given, _ = evaluate(graph_of(body), [*values, *invariants])
        values = given[:carried]
        for stack, item in zip(slices, given[carried:], strict=True):
            stack[count] = item
        count += 1
    stacks = stacked_slices(slices, [t.type for t in results], capacity, count)
    return (np.asarray(count), *values, *stacks)


def _while_loop_grad(
    node: Node,
    _count: Tensor | None,
    *gs: Tensor | None,
    condition: NestedGraph,
    body: NestedGraph,
    carried: int,
    capacity: Dim,
    differentiate: Differentiate,
    wanted: Sequence[bool],
    arrived: Arrived,
) -> Grads:
    graph = graph_of(body)
    capacity = capacity or UNBOUNDED
    backward = Backward(
        body=graph,
        count=node.outputs[0],
        state=recorded(node, graph, carried, capacity),
        slices=(),
        invariants=node.inputs[carried:],
        final=gs[:carried],
        stacked=gs[carried:],
        capacity=capacity,
        reverse=False,
        wanted=wanted,
        arrived=arrived,
    )
    first, fixed, _ = backward.build(differentiate)
    return (*first, *fixed)


def _while_loop_kernel(
    *_operands: TensorType,
    condition: NestedGraph,
    body: NestedGraph,
    carried: int,
    capacity: Dim,
) -> While:
    return While(condition, body, carried, static(capacity))


while_loop_op = define(
    "while",
    infer=_while_loop_infer,
    reference=_while_loop_reference,
    grad=_while_loop_grad,
    kernel=_while_loop_kernel,
    of_pairs="rule",
)
