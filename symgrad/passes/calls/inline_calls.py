"""Function inlining: put a function where it is called, unless the program would grow much.

Before, where the function has two ops:

    %1, %2 = call %x, %w {callee = ...} : f32[32], f32[32, 10]

After:

    %2 = matmul %x, %w : f32[32, 10]
    %1 = sum %2 {axes = [1]} : f32[32]

Within a function nothing is known of its operands, and nothing is fused with what is around it;
so a call remains only where code is saved by it. See `_Rule`.

Of nodes that would be equal, one is built: the gradient of a function computes parts of it again,
and where both are inlined that is the same part. This runs on the graph as it was built, since
loops are compared by the identity of what is in their bodies (`loops/merge_loops.py`): a tensor
becomes one tensor, in however many graphs it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence

from symgrad.cost_model import FUNCTION_GROWTH, FUSED_FUNCTION, SMALL_FUNCTION
from symgrad.graph.build import are_same, current_region, inside, rebuild, rebuild_here
from symgrad.graph.compare import graphs_of, has_nested_graphs
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder_op
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.calls import call_op, callee_of
from symgrad.graph.ops.stand_in import stands_for
from symgrad.graph.types import Attr, attr_key, is_unbounded
from symgrad.passes.calls.callees import Callees, calls_in, graphs_within

# Of a rule and a node: told why the rule has changed the node, or has not.
Explain = Callable[[str, Node, str], None]


def inline_calls(graph: Graph, explain: Explain | None = None) -> Graph:
    """Return `graph` without the calls, at any depth, that are better inlined.

    `explain` is told of each function, by its first call, what was weighed.
    """
    if not has_nested_graphs(graph):
        return graph
    rule = _Rule(graph)
    if explain is not None:
        for call, reason in rule.reasons():
            explain("inline-calls", call, reason)
    return _Inliner(rule.keeps).graph(graph) if rule.has_calls else graph


def inline_calls_of_tapes(graph: Graph) -> Graph:
    """Return `graph` without the calls, at any depth, that cannot remain calls."""
    calls = (node for inner in graphs_within(graph) for node in calls_in(inner))
    return _Inliner(_can_remain).graph(graph) if not all(map(_can_remain, calls)) else graph


def _can_remain(node: Node) -> bool:
    """Return whether `node` is a call that can remain one: a function takes and gives no tape."""
    is_call = node.definition is call_op
    return is_call and not any(is_unbounded(t.type) for t in (*node.inputs, *node.outputs))


class _Rule:
    """Which functions remain functions.

    Those of more than `SMALL_FUNCTION` ops, whose calls after the first one would add more than
    `FUNCTION_GROWTH` ops if they were inlined, and that compute more than an elementwise function
    of up to `FUSED_FUNCTION` ops: one that does not belongs into the kernels around it. A tape
    cannot be handed to a function.

    The ops of a function are those it has when it is inlined, with those of the functions that are
    inlined in it, once for each way to call them. They are counted from the innermost function
    out, each of which is looked at once: there may be 2 ** 20 ways to a function 20 levels down.
    """

    def __init__(self, graph: Graph) -> None:
        self._callees = Callees()
        calls = [node for inner in graphs_within(graph) for node in calls_in(inner)]
        self._sites = Counter(self._callees.first_of(callee_of(node)) for node in calls)
        self._calls = {self._callees.first_of(callee_of(node)): node for node in reversed(calls)}
        self._sizes: dict[Graph, tuple[int, bool]] = {}

    @property
    def has_calls(self) -> bool:
        return bool(self._sites)

    def keeps(self, node: Node) -> bool:
        """Return whether `node` is a call that remains one."""
        if not _can_remain(node):
            return False
        callee = self._callees.first_of(callee_of(node))
        size, is_elementwise = self._size(callee)
        growth = (self._sites[callee] - 1) * size
        is_fused = is_elementwise and size <= FUSED_FUNCTION
        return size > SMALL_FUNCTION and growth > FUNCTION_GROWTH and not is_fused

    def reasons(self) -> Iterator[tuple[Node, str]]:
        """Yield the first call of each function and why it is inlined or stays a call."""
        for callee, node in self._calls.items():
            size, is_elementwise = self._size(callee)
            sites = self._sites[callee]
            counted = f"{size} ops, {sites} call{'s' if sites > 1 else ''}"
            if not _can_remain(node):
                yield node, f"inlined: it takes or gives a tape ({counted})"
            elif self.keeps(node):
                growth = (sites - 1) * size
                yield (
                    node,
                    f"kept: inlining adds {growth} ops, more than {FUNCTION_GROWTH} ({counted})",
                )
            elif size <= SMALL_FUNCTION:
                yield node, f"inlined: no more than {SMALL_FUNCTION} ops ({counted})"
            elif (growth := (sites - 1) * size) <= FUNCTION_GROWTH:
                yield (
                    node,
                    f"inlined: adds {growth} ops, no more than {FUNCTION_GROWTH} ({counted})",
                )
            else:
                assert is_elementwise, "what is kept is told of above"
                yield node, f"inlined: elementwise, no more than {FUSED_FUNCTION} ops ({counted})"

    def _size(self, graph: Graph) -> tuple[int, bool]:
        """Return how many ops `graph` has with all that is in it, and if all are elementwise."""
        if graph not in self._sizes:
            sizes = [self._size_of_node(node) for node in _without_repeated_calls(graph)]
            self._sizes[graph] = sum(n for n, _ in sizes), all(flag for _, flag in sizes)
        return self._sizes[graph]

    def _size_of_node(self, node: Node) -> tuple[int, bool]:
        if node.definition is call_op and not self.keeps(node):
            return self._size(self._callees.first_of(callee_of(node)))
        size, is_elementwise = int(not node.definition.is_leaf), node.definition.is_fusible
        if node.definition is call_op or stands_for(node) is not None:
            return size, is_elementwise
        for _, inner in graphs_of(node):
            more, is_inner_elementwise = self._size(inner)
            size += more
            is_elementwise &= is_inner_elementwise
        return size, is_elementwise


def _without_repeated_calls(graph: Graph) -> Iterator[Node]:
    """Yield the nodes of `graph`; of calls of one function on the same operands, the first."""
    seen: set[Hashable] = set()
    for node in graph.nodes:
        key = (callee_of(node), *map(id, node.inputs)) if node.definition is call_op else node
        if key not in seen:
            seen.add(key)
            yield node


class _Inliner:
    """Rebuilds graphs. What stands for a tensor is the same in all of them."""

    def __init__(self, keeps: Callable[[Node], bool]) -> None:
        self._keeps = keeps
        self._tensors: dict[Tensor, Tensor] = {}
        self._graphs: dict[Graph, Graph] = {}
        self._built: dict[Hashable, Node] = {}
        self._results: dict[Hashable, Sequence[Tensor]] = {}

    def graph(self, graph: Graph) -> Graph:
        """Return what stands for `graph`."""
        if graph in self._graphs:
            return self._graphs[graph]
        with inside(graph.region):
            for node in graph.nodes:
                if node.outputs[0] not in self._tensors:
                    self._tensors.update(zip(node.outputs, self._again(node), strict=True))
        is_same = all(self._tensors[t] is t for node in graph.nodes for t in node.outputs)
        self._graphs[graph] = graph if is_same else graph.with_roots(self._tensors)
        return self._graphs[graph]

    def _again(self, node: Node) -> Sequence[Tensor]:
        """Return what stands for the results of a node, where it is."""
        inputs = tuple(self._tensors[t] for t in node.inputs)
        if node.definition is call_op and not self._keeps(node):
            return self._inlined(callee_of(node), inputs)
        is_same = are_same(inputs, node.inputs)
        if is_same and all(self._attr(graph) is graph for _, graph in graphs_of(node)):
            return node.outputs
        return rebuild(node, inputs, self._attr).outputs

    def _inlined(self, callee: Graph, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Build the nodes of a function where we are, once for the same operands."""
        key = (callee, tuple(map(id, inputs)) or id(current_region()))
        if key not in self._results:
            self._results[key] = self._inlined_anew(callee, inputs)
        return self._results[key]

    def _inlined_anew(self, callee: Graph, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        values = dict(zip(callee.inputs, inputs, strict=True))
        for node in callee.nodes:
            if node.definition is placeholder_op:
                continue
            operands = tuple(values[t] for t in node.inputs)
            if node.definition is call_op and not self._keeps(node):
                results = self._inlined(callee_of(node), operands)
            else:
                results = self._copy(node, operands).outputs
            values.update(zip(node.outputs, results, strict=True))
        return [values[t] for t in callee.outputs]

    def _copy(self, node: Node, inputs: tuple[Tensor, ...]) -> Node:
        """Build a node of a function where we are, or return an equal one built before."""
        attrs = {key: self._attr(value) for key, value in node.attrs.items()}
        copy = rebuild_here(node, inputs, attrs)
        key = (
            node.definition,
            node.gradient_key,
            tuple(map(id, inputs)) or id(copy.region),
            tuple((name, attr_key(attrs[name])) for name in sorted(attrs)),
        )
        return self._built.setdefault(key, copy)

    def _attr(self, attr: Attr) -> Attr:
        if isinstance(attr, tuple):
            return tuple(map(self._attr, attr))
        return self.graph(attr) if isinstance(attr, Graph) else attr
