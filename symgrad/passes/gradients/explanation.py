"""Diagnosis of a gradient that is None: the first place at which the way from x to y is cut.

This reads the graph and answers in words; it decides nothing about gradients.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from symgrad.graph.build import current_region, outer_tensors
from symgrad.graph.gradient_registry import has_gradient
from symgrad.graph.leaf import constant_op
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.calls import call_op, callee_of
from symgrad.graph.ops.conversion import stop_gradient_op
from symgrad.graph.ops.stand_in import differentiated_inputs
from symgrad.graph.traverse import NOTHING_OUTSIDE, operands_of, topological
from symgrad.passes.gradients.sweep import ArrivedGradients, live_tensors, sweep


def explain_none(y: Any, x: Any) -> str:
    """Say why the gradient of `y` with respect to `x` is None, and at which line of the user's.

    >>> x, y = sg.placeholder((), name="x"), sg.placeholder((), name="y")
    >>> print(sg.explain_none(y * 2, x).partition(" is ")[2].splitlines()[0])
    None: y is not computed from x
    """
    y, x = as_tensor(y), as_tensor(x)
    reason = _reason(y, x, outer_tensors())
    claim = f"the gradient of {y!r} with respect to {x!r} is"
    return f"{claim} not None" if reason is None else f"{claim} None: {reason}"


def _reason(y: Tensor, x: Tensor, outer: Mapping[Tensor, Tensor]) -> str | None:
    """Return why the gradient is None, and where; None if there is one."""
    if not x.dtype.is_trainable:
        return f"only floats carry a gradient{_place(x.node)}"
    order = topological([y], (), outer)
    if y not in _dependents(order, x, outer):
        return _beyond_reach(y, x) or f"{_unused(order, x)}{_place(x.node)}"
    live = live_tensors(order, [x], (), outer)
    if y not in live:
        node, output = _first_cut(order, y, live, outer)
        return f"{_cut_reason(node, output)}{_place(node)}"
    arrived = ArrivedGradients()
    sweep([y], [None], order, live, arrived, outer=outer)
    if arrived.total(x) is not None:
        return None
    node, position = _first_refusal(order, live, arrived)
    if node.definition is call_op:
        return _reason_within(node, position, arrived)
    return f"the gradient of {node.op} is None for its input {position}{_place(node)}"


def _reason_within(call: Node, position: int, arrived: ArrivedGradients) -> str:
    """Return why no gradient comes from the results of a function to one of its operands."""
    callee = callee_of(call)
    x = callee.inputs[position]
    results = zip(callee.outputs, call.outputs, strict=True)
    asked = [y for y, result in results if arrived.total(result) is not None]
    dependents = _dependents(callee.nodes, x, NOTHING_OUTSIDE)
    y = next((y for y in asked if y in dependents), asked[0])
    return f"in {callee.name}, {_reason(y, x, NOTHING_OUTSIDE)}"


def _place(node: Node) -> str:
    return "" if node.source is None else f"\n  --> {node.source}"


def _dependents(order: Sequence[Node], x: Tensor, outer: Mapping[Tensor, Tensor]) -> set[Tensor]:
    found = {x}
    for node in order:
        if any(t in found for t in operands_of(node, outer)):
            found.update(node.outputs)
    return found


def _beyond_reach(y: Tensor, x: Tensor) -> str | None:
    """Say which of y and x is of a region that is not open, as the body of a loop that was built.

    What is outside of a region is computed from its results, whatever they are made of.
    """
    here = current_region()
    for name, tensor in ("x", x), ("y", y):
        owner = tensor.node.region
        if owner is not None and not owner.encloses(here):
            closed = f"{name} is of region {owner.name!r}, which is not open here"
            return f"{closed}: return it, or differentiate within{_place(tensor.node)}"
    return None


def _unused(order: Sequence[Node], x: Tensor) -> str:
    """Say that y does not use x, and what x was made from that y does use."""
    used = set(order)
    reason = "y is not computed from x"
    for node in reversed(topological([x])):
        if node in used and node is not x.node and node.definition is not constant_op:
            return f"{reason}, but from {node.outputs[0]!r}, of which x is made too"
    return reason


def _first_cut(
    order: Sequence[Node],
    y: Tensor,
    live: Collection[Tensor],
    outer: Mapping[Tensor, Tensor],
) -> tuple[Node, Tensor]:
    """Return the node nearest to x where a way to `y` stops being live, with its output there."""
    leading_to_y = {y}
    cut: tuple[Node, Tensor] | None = None
    for node in reversed(order):
        output = next((t for t in node.outputs if t in leading_to_y), None)
        if output is None:
            continue
        if any(t in live for t in operands_of(node, outer)):
            cut = node, output
        else:
            leading_to_y.update(operands_of(node, outer))
    assert cut is not None, f"{y!r} depends on x, is not live, and nothing cuts the way"
    return cut


def _cut_reason(node: Node, output: Tensor) -> str:
    if not output.dtype.is_trainable:
        return f"{node.op} gives {output.type}, and only floats carry a gradient"
    if has_gradient(node):
        assert len(differentiated_inputs(node)) < len(node.inputs), f"{node!r} cuts nothing"
        return f"{node.op} gives gradients to its arguments, not to what else its function uses"
    if node.definition is stop_gradient_op:
        return "stop_gradient ends it"
    if node.gradient_key is not None:
        return f"{node.op} has the gradient {node.gradient_key!r}, which is not differentiable"
    return f"{node.op} is not differentiable"


def _first_refusal(
    order: Sequence[Node], live: Collection[Tensor], arrived: ArrivedGradients
) -> tuple[Node, int]:
    """Return the node nearest to x whose rule was called and gave None for a live input."""
    for node in order:
        if all(arrived.total(t) is None for t in node.outputs):
            continue
        for position, operand in enumerate(node.inputs):
            if operand in live and arrived.total(operand) is None:
                return node, position
    raise AssertionError("no gradient arrived at x and no rule withheld it")
