"""Calls, branches and loops on complex numbers: each part is an operand and a result of its own."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.graph.build import apply_node
from symgrad.graph.node import Attrs, Node, Tensor
from symgrad.graph.ops.branches import switch_case_op
from symgrad.graph.ops.calls import call_op
from symgrad.graph.ops.scan import scan_op
from symgrad.graph.ops.subgraph import graph_of
from symgrad.graph.ops.while_loop import while_loop_op
from symgrad.graph.pair_rules import Split, SplitGraph, flattened, joined, splits_node
from symgrad.graph.types import NestedGraph


def _rebuilt(node: Node, inputs: Sequence[Tensor], attrs: Attrs) -> list[Split]:
    made = apply_node(node.definition, tuple(inputs), {**node.attrs, **attrs})
    return joined(node.outputs, made.outputs)


def _count(operands: Sequence[Split]) -> int:
    return len(flattened(operands))


def _nested(node: Node, name: str) -> NestedGraph:
    graph = node.attrs[name]
    assert isinstance(graph, NestedGraph), f"{name} of {node!r} is a graph"
    return graph


def _number(node: Node, name: str) -> int:
    number = node.attrs[name]
    assert isinstance(number, int), f"{name} of {node!r} is a number"
    return number


@splits_node(call_op)
def _split_call(node: Node, operands: Sequence[Split], split: SplitGraph) -> Sequence[Split]:
    return _rebuilt(node, flattened(operands), {"callee": split(_nested(node, "callee"))})


@splits_node(switch_case_op)
def _split_switch(node: Node, operands: Sequence[Split], split: SplitGraph) -> Sequence[Split]:
    branches = node.attrs["branches"]
    assert isinstance(branches, tuple), f"{node!r} has branches"
    made = tuple(split(graph_of(b)) for b in branches if isinstance(b, NestedGraph))
    return _rebuilt(node, flattened(operands), {"branches": made})


@splits_node(while_loop_op)
def _split_while(node: Node, operands: Sequence[Split], split: SplitGraph) -> Sequence[Split]:
    carried = operands[: _number(node, "carried")]
    attrs: Attrs = {
        "condition": split(_nested(node, "condition")),
        "body": split(_nested(node, "body")),
        "carried": _count(carried),
    }
    return _rebuilt(node, flattened(operands), attrs)


@splits_node(scan_op)
def _split_scan(node: Node, operands: Sequence[Split], split: SplitGraph) -> Sequence[Split]:
    first = 1 + _number(node, "carried")  # the number of iterations is before them
    carried, scanned = operands[1:first], operands[first : first + _number(node, "scanned")]
    attrs: Attrs = {
        "body": split(_nested(node, "body")),
        "carried": _count(carried),
        "scanned": _count(scanned),
    }
    return _rebuilt(node, flattened(operands), attrs)
