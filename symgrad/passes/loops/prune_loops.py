"""Dead code elimination in branches and loops, and legalisation of ops that stand for operands.

What branches and loops compute and nobody reads is left out.

Before:

    %0, %1, %2, %3 = while %x, %y {capacity = 8, carried = 2} {...}
        : i64[], f32[], f32[], f32[8]
    return %1

After, where the second loop variable only feeds itself:

    %0, %1 = while %x {capacity = 8, carried = 1} {...} : i64[], f32[]
    return %1

Left out are results of a `switch_case`, stacks, loop variables whose last value is not read and
which nothing else in the loop depends on, and operands that no nested graph reads; then the same
in the nested graphs. A loop none of whose results is read is not in the graph to begin with.
Nodes that stand for operands are replaced by these: all else in them is for their gradient. No
computation is changed: equal loops are merged elsewhere, and values that stay the same in every
iteration remain loop variables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from symgrad.graph.build import are_same, with_attrs
from symgrad.graph.compare import has_nested_graphs
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LOOPS, LoopView
from symgrad.graph.node import Attrs, Node, Tensor
from symgrad.graph.ops.branches import switch_case_op
from symgrad.graph.ops.stand_in import stands_for
from symgrad.passes.rewrites.rewrite import with_inputs
from symgrad.records import dataclass


def prune_loops(graph: Graph) -> Graph:
    """Eliminate dead code in branches and loops, at any depth: they compute only what is read."""
    if not has_nested_graphs(graph) and not any(stands_for(n) for n in graph.nodes):
        return graph
    cuts = _cuts(graph)
    mapping: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        same = stands_for(node)
        if same is not None:
            pairs = zip(node.outputs, same, strict=True)
            mapping.update((t, mapping[operand]) for t, operand in pairs if operand in mapping)
        elif node in cuts:  # otherwise, what it is an operand of has been cut
            new = cuts[node].apply_to(node, mapping)
            kept = (node.outputs[i] for i in cuts[node].results)
            mapping.update(zip(kept, new.outputs, strict=True))
    is_same = all(old is new for old, new in mapping.items())
    return graph if is_same else graph.with_roots(mapping)


@dataclass(frozen=True, slots=True, eq=False)
class _PrunedNode:
    """What remains of a node: operands and results, by their positions, and its attributes."""

    operands: Sequence[int]
    results: Sequence[int]
    attrs: Attrs

    def apply_to(self, node: Node, mapping: Mapping[Tensor, Tensor]) -> Node:
        """Return what remains of `node` on what stands for its operands."""
        inputs = tuple(mapping[node.inputs[i]] for i in self.operands)
        is_whole = self.attrs is node.attrs
        return with_inputs(node, inputs) if is_whole else with_attrs(node, inputs, self.attrs)


def _cuts(graph: Graph) -> dict[Node, _PrunedNode]:
    """Return what remains of each node, from the results of `graph` down."""
    read: set[Tensor] = {*graph.roots, *graph.inputs}
    cuts: dict[Node, _PrunedNode] = {}
    for node in reversed(graph.nodes):
        results = [t.index for t in node.outputs if t in read]
        if not results:
            continue
        same = stands_for(node)
        if same is not None:
            read.update(same[i] for i in results)
            continue
        if node.definition is switch_case_op:
            cut = _cut_branches(node, results)
        elif node.definition in LOOPS:
            cut = _cut_loop(node, results)
        else:
            cut = _PrunedNode(range(len(node.inputs)), range(len(node.outputs)), node.attrs)
        cuts[node] = cut
        read.update(node.inputs[i] for i in cut.operands)
    return cuts


def _cut_branches(node: Node, results: Sequence[int]) -> _PrunedNode:
    branches = node.attrs["branches"]
    assert isinstance(branches, tuple), f"{node!r} has no branches"
    graphs = [prune_loops(select_outputs(g, results)) for g in branches if isinstance(g, Graph)]
    kept = sorted(inputs_read(graphs))
    graphs = [take_inputs(g, kept) for g in graphs]
    is_same = are_same(graphs, branches)
    attrs = node.attrs if is_same else {"branches": tuple(graphs)}
    return _PrunedNode((0, *(1 + i for i in kept)), results, attrs)


def _cut_loop(node: Node, results: Sequence[int]) -> _PrunedNode:
    """Cut a loop: its variables, in the order of operands and of results, then its stacks."""
    view = LoopView(node)
    carried = view.carried
    before = view.first_stack - carried  # results before the loop variables
    read = [i - before for i in results if i >= before]
    tests = [] if view.condition is None else [prune_loops(view.condition)]
    state = {i for i in read if i < carried}
    stacks = [i for i in read if i >= carried]
    # What the condition reads is needed, and what loop variables are computed from, and so on.
    while True:
        body = prune_loops(select_outputs(view.body, [*sorted(state), *stacks]))
        needed = inputs_read([body, *tests])
        found = {i for i in needed if i < carried}
        if found <= state:
            break
        state |= found
    inputs = sorted(state | needed)
    outputs = [*sorted(state), *stacks]
    after = len(node.inputs) - len(body.inputs)  # operands before the loop variables
    return _PrunedNode(
        (*range(after), *(after + i for i in inputs)),
        (*range(before), *(before + i for i in outputs)),
        _loop_attrs(node, body, tests, inputs),
    )


def _loop_attrs(node: Node, body: Graph, tests: Sequence[Graph], inputs: Sequence[int]) -> Attrs:
    """Return the attributes of a loop of which the operands at `inputs` remain."""
    view = LoopView(node)
    carried = view.carried
    graphs = {"body": take_inputs(body, inputs)}
    graphs |= zip(("condition",), (take_inputs(test, inputs) for test in tests), strict=False)
    if all(graph is node.attrs[key] for key, graph in graphs.items()):
        return node.attrs
    attrs = {**node.attrs, **graphs, "carried": sum(i < carried for i in inputs)}
    if not view.is_while:
        attrs["scanned"] = sum(carried <= i < view.changing for i in inputs)
    return attrs


def select_outputs(graph: Graph, outputs: Sequence[int]) -> Graph:
    """Return `graph` with those of its outputs only."""
    return graph if len(outputs) == len(graph.outputs) else _nested(graph, outputs, graph.inputs)


def take_inputs(graph: Graph, inputs: Sequence[int]) -> Graph:
    """Return `graph` with those of its inputs only; nothing depends on the others."""
    if len(inputs) == len(graph.inputs):
        return graph
    return _nested(graph, range(len(graph.outputs)), [graph.inputs[i] for i in inputs])


def _nested(graph: Graph, outputs: Sequence[int], inputs: Sequence[Tensor]) -> Graph:
    chosen = [graph.outputs[i] for i in outputs]
    return Graph(chosen, inputs, name=graph.name, region=graph.region)


def inputs_read(graphs: Collection[Graph]) -> set[int]:
    """Return the positions of the inputs that any of `graphs` depends on."""
    return {i for graph in graphs for i in _positions_read(graph)}


def _positions_read(graph: Graph) -> Iterator[int]:
    read = {*graph.outputs, *(t for node in graph.nodes for t in node.inputs)}
    return (i for i, t in enumerate(graph.inputs) if t in read)
