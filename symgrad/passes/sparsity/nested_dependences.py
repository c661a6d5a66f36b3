"""Dependences through branches, calls and loops: their graphs are walked on index sets.

A loop whose number of iterations is known, and not large, is walked iteration by iteration, so that
what it reads at its counter is what it depends on. Any other is walked until what its variables
depend on grows no more: then each slice of a stack depends on what any of them may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

import numpy as np

from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder_op
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Call, Scan, Switch, While
from symgrad.graph.types import Array, NestedGraph, is_unbounded
from symgrad.passes.sparsity.index_sets import IndexSets, Numbers
from symgrad.passes.sparsity.known_values import KnownValues
from symgrad.records import dataclass

Found = list[Numbers | None]
MaybeArrays = Sequence[Array | None]

# Nodes that a loop is walked through, over all iterations, before it is walked for all at once.
MOST_NODES = 1 << 16
# Walks until loop variables depend on no more; then they depend on all that any of them does.
MOST_WALKS = 32


@dataclass(frozen=True, slots=True, eq=False)
class DependenceScope:
    """What is known of the tensors of a graph, and how to walk one.

    `numbers` has what tensors depend on; one that is not there depends on nothing.
    """

    sets: IndexSets
    numbers: dict[Tensor, Numbers]
    known: KnownValues
    propagate: Callable[[Sequence[Node], DependenceScope, Iterable[Tensor]], None]

    def operands(self, tensors: Sequence[Tensor]) -> Found:
        """Return what tensors depend on, None for nothing."""
        return [self.numbers.get(t) for t in tensors]

    def values(self, tensors: Sequence[Tensor]) -> list[Array | None]:
        """Return the values of tensors, of those that are known."""
        return [self.known.of(t) for t in tensors]

    def results(
        self, graph: Graph, operands: Found, values: MaybeArrays
    ) -> tuple[Found, DependenceScope]:
        """Walk a nested graph on what its inputs depend on, and their values as far as known."""
        given = {t: n for t, n in zip(graph.inputs, operands, strict=True) if n is not None}
        inner = DependenceScope(self.sets, given, KnownValues(), self.propagate)
        for tensor, value in zip(graph.inputs, values, strict=True):
            inner.known.bind(tensor, value)
        nodes = [node for node in graph.nodes if node.definition is not placeholder_op]
        self.propagate(nodes, inner, graph.outputs)
        return inner.operands(graph.outputs), inner


def _graph(nested: NestedGraph) -> Graph:
    assert isinstance(nested, Graph), "what is nested is a graph"
    return nested


def through_call(node: Node, spec: Call, scope: DependenceScope) -> Found:
    """Return what the results of a call depend on."""
    values = scope.values(node.inputs)
    graph = _graph(spec.graph)
    found, inner = scope.results(graph, scope.operands(node.inputs), values)
    for tensor, result in zip(node.outputs, graph.outputs, strict=True):
        if inner.known.is_known(result):
            scope.known.bind(tensor, inner.known.of(result))
    return found


def through_branches(node: Node, spec: Switch, scope: DependenceScope) -> Found:
    """Return what the results of a branch depend on, whichever is taken."""
    index = scope.known.of(node.inputs[0])
    graphs = [_graph(g) for g in spec.graphs]
    if index is not None:
        place = int(index)
        graphs = [graphs[place] if 0 <= place < len(graphs) else graphs[-1]]
    operands, values = scope.operands(node.inputs[1:]), scope.values(node.inputs[1:])
    found = [scope.results(graph, operands, values)[0] for graph in graphs]
    return [scope.sets.union_of_all(same) for same in zip(*found, strict=True)]


# ----------------------------------------------------------------------------------------- loops


@dataclass(slots=True, eq=False)
class _Loop:
    """A loop that is walked: what its variables depend on, their values, and its stacks so far."""

    node: Node
    scope: DependenceScope
    body: Graph
    carried: Found
    values: list[Array | None]
    scanned: Sequence[Tensor]
    invariants: Sequence[Tensor]
    slices: list[dict[int, Numbers]] = field(init=False)
    known_slices: list[dict[int, Array]] = field(init=False)
    steps: int = 0

    def __post_init__(self) -> None:
        count = len(self.body.outputs) - len(self.carried)
        self.slices = [{} for _ in range(count)]
        self.known_slices = [{} for _ in range(count)]

    def step(self, place: int) -> None:
        """Walk the body for the iteration that reads and writes the slices at `place`."""
        found, inner = self.scope.results(
            self.body,
            [*self.carried, *self._slices_at(place), *self.scope.operands(self.invariants)],
            [*self.values, *self._values_at(place), *self.scope.values(self.invariants)],
        )
        width = len(self.carried)
        outputs = self.body.outputs
        self.carried, self.values = found[:width], inner.values(outputs[:width])
        self.steps += 1
        for slices, numbers in zip(self.slices, found[width:], strict=True):
            if numbers is not None:
                slices[place] = numbers
        for slices, value in zip(self.known_slices, inner.values(outputs[width:]), strict=True):
            if value is not None:
                slices[place] = value

    def _slices_at(self, place: int) -> Found:
        return [
            None if n is None else n[0 if is_unbounded(t.type) else place]
            for t, n in zip(self.scanned, self.scope.operands(self.scanned), strict=True)
        ]

    def _values_at(self, place: int) -> list[Array | None]:
        values = self.scope.values(self.scanned)
        return [None if v is None else np.asarray(v[place]) for v in values]

    def walk_for_all(self) -> None:
        """Walk the body until what its variables depend on grows no more."""
        self.values = [None] * len(self.values)
        slices: Found = [
            None if n is None else self.scope.sets.union_over(n, (0,))
            for n in self.scope.operands(self.scanned)
        ]
        invariants = self.scope.operands(self.invariants)
        known = [*self.values, *(None for _ in slices), *self.scope.values(self.invariants)]
        for walk in range(MOST_WALKS + 1):
            if walk == MOST_WALKS:
                self._depend_on_all([*self.carried, *slices, *invariants])
            given = [*self.carried, *slices, *invariants]
            found, _ = self.scope.results(self.body, given, known)
            width = len(self.carried)
            pairs = zip(self.carried, found[:width], strict=True)
            grown = [self.scope.sets.union_of_all(pair) for pair in pairs]
            for into, numbers in zip(self.slices, found[width:], strict=True):
                if numbers is not None:
                    into[0] = numbers
            if all(_are_equal(a, b) for a, b in zip(grown, self.carried, strict=True)):
                return
            self.carried = grown

    def _depend_on_all(self, operands: Found) -> None:
        """Make each loop variable of floats depend on all that anything in the loop does."""
        flat = [n.reshape(-1) for n in operands if n is not None]
        everything = self.scope.sets.union_over(np.concatenate(flat), (0,))
        self.carried = [
            np.broadcast_to(everything, t.type.static_shape) if t.dtype.is_trainable else None
            for t in self.body.outputs[: len(self.carried)]
        ]

    def stacks(self, outputs: Sequence[Tensor], *, is_exact: bool) -> Found:
        """Return what the stacks depend on, and bind those that are known."""
        pairs = zip(outputs, self.slices, self.known_slices, strict=True)
        return [self._stack(tensor, slices, known, is_exact) for tensor, slices, known in pairs]

    def _stack(
        self,
        tensor: Tensor,
        slices: dict[int, Numbers],
        known: dict[int, Array],
        is_exact: bool,
    ) -> Numbers | None:
        if is_exact and known and len(known) == self.steps:
            self._bind_stack(tensor, known)
        if not slices:
            return None
        one = tensor.type.with_shape(tensor.shape[1:]).static_shape
        if is_unbounded(tensor.type):
            total = self.scope.sets.union_over(np.stack(list(slices.values())), (0,))
            return total.reshape(1, *one)
        size = tensor.type.static_shape[0]
        if not is_exact:
            return np.broadcast_to(slices[0], (size, *one))
        stack = np.zeros((size, *one), np.int64)
        for place, numbers in slices.items():
            stack[place] = numbers
        return stack

    def _bind_stack(self, tensor: Tensor, known: dict[int, Array]) -> None:
        rows = np.stack([known[place] for place in range(len(known))])
        if not is_unbounded(tensor.type):
            missing = tensor.type.static_shape[0] - len(rows)
            rows = np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), rows.dtype)])
        self.scope.known.bind(tensor, rows)


def _are_equal(a: Numbers | None, b: Numbers | None) -> bool:
    if a is None or b is None:
        return a is b
    return np.array_equal(a, b)


def through_scan(node: Node, spec: Scan, scope: DependenceScope) -> Found:
    """Return what the results of a scan depend on."""
    width = spec.carried + spec.scanned
    operands = node.inputs[1:]
    loop = _Loop(
        node,
        scope,
        _graph(spec.body),
        scope.operands(operands[: spec.carried]),
        scope.values(operands[: spec.carried]),
        operands[spec.carried : width],
        operands[width:],
    )
    count = scope.known.of(node.inputs[0])
    is_exact = count is not None and int(count) * len(loop.body.nodes) <= MOST_NODES
    if is_exact and count is not None:
        order = range(int(count))
        for place in reversed(order) if spec.reverse else order:
            loop.step(place)
        for tensor, value in zip(node.outputs, loop.values, strict=False):
            scope.known.bind(tensor, value)
    else:
        loop.walk_for_all()
    return [*loop.carried, *loop.stacks(node.outputs[spec.carried :], is_exact=is_exact)]


def through_while(node: Node, spec: While, scope: DependenceScope) -> Found:
    """Return what the results of a while loop depend on; its number of iterations, on nothing."""
    initial = scope.operands(node.inputs[: spec.carried])
    start = scope.values(node.inputs[: spec.carried])
    invariants = node.inputs[spec.carried :]
    loop = _Loop(node, scope, _graph(spec.body), initial, start, (), invariants)
    count = _walk_while_known(loop, _graph(spec.condition))
    is_exact = count is not None
    if count is not None:
        scope.known.bind(node.outputs[0], np.asarray(count))
        for tensor, value in zip(node.outputs[1:], loop.values, strict=False):
            scope.known.bind(tensor, value)
    else:
        loop = _Loop(node, scope, loop.body, initial, start, (), invariants)
        loop.walk_for_all()
    stacks = loop.stacks(node.outputs[spec.carried + 1 :], is_exact=is_exact)
    return [None, *loop.carried, *stacks]


def _walk_while_known(loop: _Loop, condition: Graph) -> int | None:
    """Walk iterations as long as the condition is known; None if it is not known when to stop."""
    nodes = len(loop.body.nodes) + len(condition.nodes)
    values = loop.scope.values(loop.invariants)
    for count in range(MOST_NODES // nodes + 1):
        nothing: Found = [None] * len(condition.inputs)
        _, inner = loop.scope.results(condition, nothing, [*loop.values, *values])
        goes_on = inner.known.of(condition.outputs[0])
        if goes_on is None:
            return None
        if not goes_on:
            return count
        loop.step(count)
    return None
