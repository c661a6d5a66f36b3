"""Conditional: the op that runs one of several graphs, and its gradient.

A branch uses nothing but its inputs: what it captures is an operand of the op. What
users call is in `symgrad/frontend/control.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.errors import DTypeError, ShapeError
from symgrad.graph import dtypes
from symgrad.graph.build import apply_node
from symgrad.graph.nested import Traced, union_of_captures
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.masks import masked, read_mask, split_mask, takes_mask, uniform_mask
from symgrad.graph.ops.stand_in import linear_in
from symgrad.graph.ops.subgraph import (
    Arrived,
    Differentiate,
    check_operands,
    grads_of_graph,
    graph_of,
    is_zero,
)
from symgrad.graph.reference import evaluate
from symgrad.graph.structures import Switch
from symgrad.graph.types import Array, NestedGraph, TensorType


def branch(index: Tensor, functions: Sequence[Traced], name: str | None = None) -> Node:
    """Make the node that runs one of `functions`, traced without parameters."""
    captures = union_of_captures(functions)
    graphs = tuple(f.graph(captures) for f in functions)
    return apply_node(switch_case_op, (index, *captures), {"branches": graphs}, name=name)


def _switch_case_infer(
    index: TensorType, *operands: TensorType, branches: tuple[NestedGraph, ...]
) -> tuple[TensorType, ...]:
    if index != TensorType(dtypes.int64, ()):
        raise DTypeError("switch", f"the index is {index}, not {dtypes.int64.short}[]")
    graphs = [graph_of(b) for b in branches]
    for graph in graphs:
        check_operands("switch", graph, operands)
    first, *others = graphs
    results = [t.type for t in first.outputs]
    for other in others:
        results = [
            _met(position, first.name, a, other.name, b.type)
            for position, (a, b) in enumerate(zip(results, other.outputs, strict=True))
        ]
    return tuple(results)


def _met(position: int, a_name: str, a: TensorType, b_name: str, b: TensorType) -> TensorType:
    if a.dtype != b.dtype:
        raise DTypeError("switch", f"output {position} is {a} in {a_name} and {b} in {b_name}")
    try:
        return a.with_shape(meet_shapes("switch", a_name, a, b_name, b))
    except ShapeError as error:
        raise ShapeError(
            "switch",
            f"output {position} is {a} in {a_name} and {b} in {b_name}",
            hint="give both one shape; what grows goes into a TensorArray of fixed size",
        ) from error


def _switch_case_reference(
    index: Array, *operands: Array, branches: tuple[NestedGraph, ...]
) -> tuple[Array, ...]:
    chosen = int(index) if 0 <= index < len(branches) else len(branches) - 1
    results, _ = evaluate(graph_of(branches[chosen]), operands)
    return tuple(results)


def _switch_case_grad(
    node: Node,
    *gs: Tensor | None,
    branches: tuple[NestedGraph, ...],
    differentiate: Differentiate,
    wanted: Sequence[bool],
    arrived: Arrived,
) -> Grads:
    index, *operands = node.inputs
    asked = wanted[1:]
    graphs = [graph_of(b) for b in branches]
    found: list[list[Tensor | None]] = []
    functions = []
    for graph in graphs:
        function = Traced(f"{graph.name}_grad", ())
        functions.append(function)
        with function.open():
            found.append(grads_of_graph(graph, operands, gs, asked, differentiate))
    has_path = [any(grads[i] is not None for grads in found) for i in range(len(operands))]
    # Zeros in all branches need none of them.
    is_given = [
        any(g is not None and not is_zero(g) for g in of_branches)
        for of_branches in zip(*found, strict=True)
    ]
    has_mask = [
        given and takes_mask(x) and any(read_mask(grads[i]) is not None for grads in found)
        for i, (x, given) in enumerate(zip(operands, is_given, strict=True))
    ]
    for function, grads in zip(functions, found, strict=True):
        with function.open():
            chosen = _given_by_branch(operands, grads, is_given, has_mask)
        function.give(chosen)
    results = iter(branch(index, functions).outputs if any(is_given) else ())
    first = [next(results) if given else None for given in is_given]
    conditions = [next(results) if has else None for has in has_mask]
    # The derivative of a gradient by its operand is zeros where no branch has one, and not None.
    return (
        None,
        *(
            masked(linear_in(g, x), condition)
            if g is not None
            else filled_like(x, 0)
            if has
            else None
            for x, g, condition, has in zip(operands, first, conditions, has_path, strict=True)
        ),
    )


def _given_by_branch(
    operands: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    is_given: Sequence[bool],
    has_mask: Sequence[bool],
) -> list[Tensor]:
    """Return what one branch gives: gradients, zeros where it has none, and masks as conditions."""
    chosen, conditions = [], []
    for x, g, given, is_split in zip(operands, grads, is_given, has_mask, strict=True):
        if not given:
            continue
        inner, condition = split_mask(g) if is_split else (g, None)
        chosen.append(filled_like(x, 0) if inner is None else inner)
        if is_split:
            is_there = g is not None and not is_zero(g)
            conditions.append(uniform_mask(x, is_there) if condition is None else condition)
    return [*chosen, *conditions]


def _switch_case_kernel(
    _index: TensorType, *_operands: TensorType, branches: tuple[NestedGraph, ...]
) -> Switch:
    return Switch(branches)


switch_case_op = define(
    "switch",
    infer=_switch_case_infer,
    reference=_switch_case_reference,
    grad=_switch_case_grad,
    kernel=_switch_case_kernel,
    of_pairs="rule",
)
