"""Fusion groups in the making: the state that the steps of the fuse pass share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from symgrad.cost_model import LEAST_LOOKED_UP
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, OpDef, Tensor
from symgrad.graph.structures import (
    AtIndices,
    KernelSpec,
    OneByOne,
    Scatter,
    Traits,
)
from symgrad.passes.costs import flops_per_element
from symgrad.passes.fusion.partition import Specs
from symgrad.passes.rewrites.rewrite import IS_RESULT
from symgrad.records import dataclass

LOOKED_UP = "it is looked up element by element, and what is done with it is done to vectors"


@dataclass(slots=True, eq=False)
class Draft:
    """A fusion group in the making: the nodes it computes, and those of them that are in memory.

    `domain` is the shape of its results; `order` grows from operands to users. `joined` are the
    nodes that have joined it by themselves, users before operands. `reads` is what it reads from
    memory; when that is first asked for, all of these have, and groups that are merged keep it.
    `moves` is what of it is read at another position, with the number of nodes for which that is
    so: nodes are only ever added.
    """

    anchor: Node | None
    domain: tuple[int, ...]
    order: int
    nodes: set[Node] = field(default_factory=set)
    joined: list[Node] = field(default_factory=list)
    results: list[Node] = field(default_factory=list)
    merged_into: Draft | None = None
    reads: list[Tensor] | None = None
    moves: tuple[int, set[Tensor]] | None = None

    def final(self) -> Draft:
        """Return the group this one has become part of."""
        draft = self
        while draft.merged_into is not None:
            draft = draft.merged_into
        return draft


@dataclass(frozen=True, slots=True, eq=False)
class _Facts:
    """What is known of the nodes of a graph, however they are grouped; flops when asked for.

    `fallible` are those that can stop a program, and those that write rows. Ops are `plain` whose
    elements are made of values at their own position.
    """

    position: dict[Node, int]
    traits: dict[OpDef, Traits]
    elementwise: frozenset[Node]
    fallible: frozenset[Node]
    looked_up: frozenset[Node]
    plain: frozenset[OpDef]
    flops: dict[Node, int]
    flops_of_bodies: dict[tuple[object, ...], int]  # by the identity of the structure


def _facts_of(graph: Graph, specs: Specs) -> _Facts:
    traits = {op: op.traits for op in {node.definition for node in graph.nodes}}
    plain = {op for op, found in traits.items() if found.is_elementwise}
    mapped = {op for op in plain if traits[op].is_inline}
    risky = {op for op, t in traits.items() if op.can_fail or t.is_instruction or t.writes_rows}
    fallible = [n for n in graph.nodes if n.definition in risky] if risky else []
    return _Facts(
        position={node: i for i, node in enumerate(graph.nodes)},
        traits=traits,
        elementwise=frozenset([node for node in graph.nodes if node.definition in plain]),
        fallible=frozenset(fallible),
        looked_up=frozenset(n for n in fallible if _is_looked_up(n, specs[n])),
        plain=frozenset(mapped),
        flops={},
        flops_of_bodies={},
    )


class Drafts:
    """The state of the fuse pass over one graph.

    `home` is the group that leaves a node in memory: a node has a home, or is computed by every
    group that wants it, never both. `in_memory` and `reasons` say why.
    """

    def __init__(
        self,
        graph: Graph,
        specs: Specs,
        first_status: int,
        carried: Sequence[tuple[int, int]],
        again: frozenset[Tensor] = frozenset(),
        facts: _Facts | None = None,
        *,
        frees_early: bool = False,
    ) -> None:
        self.graph = graph
        self.specs = specs
        self.first_status = first_status
        self.carried = carried
        self.frees_early = frees_early
        self.again = again  # computed by each group that wants it
        self._facts = facts = facts or _facts_of(graph, specs)
        self.position, self.fallible, self.plain = facts.position, facts.fallible, facts.plain
        self.has_lookups = bool(facts.looked_up)
        self.roots = frozenset(graph.roots)
        self.all: list[Draft] = []
        self.home: dict[Node, Draft] = {}
        self.copies: list[Tensor] = []  # leaves that are results
        self.storage: dict[Tensor, Tensor] = {}
        self.wanted: dict[Tensor, dict[int, Draft]] = {}
        self.in_memory = {root: IS_RESULT for root in graph.roots}
        self.repeated: set[Tensor] = set()  # used once for each element of a larger tensor
        self.shared: set[Tensor] = set()  # in memory only because several groups want it
        self.reasons: dict[Tensor, str] = {}

    def traits(self, node: Node) -> Traits:
        """Return the traits of the structure of `node`."""
        return self._facts.traits[node.definition]

    def anchor_spec(self, draft: Draft) -> KernelSpec | None:
        """Return the structure of what a group is around, None if it is around nothing."""
        return None if draft.anchor is None else self.specs[draft.anchor]

    def is_apart(self, node: Node, anchor: KernelSpec | None) -> bool:
        """Return whether what `node` looks up or writes by elements is better done on its own.

        What is written so is written in its order, one by one. So are looked up elements in a
        product, whose epilogue is then run for each, and in a prefix scan. An index that may be out
        of range is checked early: what a step leaves in place has to wait for it.
        """
        if node not in self._facts.looked_up:
            return False
        spec = self.specs[node]
        is_vector = not isinstance(spec, Scatter) and not isinstance(anchor, OneByOne)
        return not (is_vector and isinstance(spec, AtIndices) and spec.bound == "known")

    def flops(self, node: Node) -> int:
        """Return the flops of one element of `node`."""
        found = self._facts.flops.get(node)
        if found is None:
            spec, of_bodies = self.specs[node], self._facts.flops_of_bodies
            key = id(spec), *[t.type.dtype for t in node.inputs]
            if key not in of_bodies:
                of_bodies[key] = flops_per_element(node, spec)
            found = self._facts.flops[node] = of_bodies[key]
        return found

    def anew(self, again: frozenset[Tensor]) -> Drafts:
        """Return the state before anything was drafted, `again` being computed where it is used."""
        given = self.graph, self.specs, self.first_status, self.carried
        return Drafts(*given, again, self._facts, frees_early=self.frees_early)

    def open(self, node: Node, anchor: Node | None) -> Draft:
        """Open a group whose result is `node`."""
        draft = Draft(anchor, node.outputs[0].type.static_shape, self.position[node])
        draft.results.append(node)
        self.all.append(draft)
        self.home[node] = draft
        return draft

    def require_memory(self, tensor: Tensor, reason: str) -> None:
        self.in_memory.setdefault(tensor, reason)

    def stored(self, tensor: Tensor) -> Tensor:
        """Return the tensor whose buffer holds `tensor`."""
        while tensor in self.storage:
            tensor = self.storage[tensor]
        return tensor

    def read_from_memory(self, draft: Draft) -> list[Tensor]:
        """Return the operands `draft` does not compute itself, without repeats."""
        if draft.reads is None:
            operands = [operand for node in reversed(draft.joined) for operand in node.inputs]
            draft.reads = _not_computed(operands, draft)
        return draft.reads

    def merge(self, draft: Draft, into: Draft, between: Iterable[Node] = ()) -> None:
        """Make `into` compute what `draft` does, and the reshapes `between` the two.

        Of two shapes the loops are over the one that splits the axes of the other.
        """
        if into.anchor is None and into.domain != draft.domain:
            into.domain = draft.domain if only_splits(into.domain, draft.domain) else into.domain
        read = [*self.read_from_memory(into), *self.read_from_memory(draft)]
        moved, apart = self.moved(into) | self.moved(draft), [*between]
        # What the one moves the other may compute, of operands that are then moved as well.
        is_known = not moved or not (
            apart or any(t.node in into.nodes or t.node in draft.nodes for t in moved)
        )
        into.nodes |= draft.nodes
        into.nodes.update(apart)
        if is_known:  # and nothing is moved by the reshapes between the two
            into.moves = len(into.nodes), moved
        into.results += draft.results
        into.reads = _not_computed(read, into)
        draft.merged_into = into

    def in_order(self, nodes: Iterable[Node]) -> list[Node]:
        """Return `nodes` with operands before users."""
        found = list(nodes)
        if len(found) > 1:
            found.sort(key=self.position.__getitem__)
        return found

    def moved(self, draft: Draft) -> set[Tensor]:
        """Return the operands that `draft` reads at another position than the one it computes.

        Positions are counted in row-major order: another shape moves nothing.
        """
        nodes, known = draft.nodes, draft.moves
        if known is None or known[0] != len(nodes):
            found: set[Tensor] = set()
            plain = self._facts.elementwise
            for node in () if nodes <= plain else reversed(self.in_order(nodes)):
                if node not in plain or node.outputs[0] in found:
                    found.update(node.inputs)
            known = draft.moves = len(nodes), found
        return known[1]

    def reshapes(self, tensor: Tensor) -> list[Node]:
        """Return the nodes that only give what is in memory as `tensor` another shape."""
        found = []
        while tensor in self.storage:
            found.append(tensor.node)
            tensor = self.storage[tensor]
        return found


def _not_computed(operands: Iterable[Tensor], draft: Draft) -> list[Tensor]:
    nodes = draft.nodes
    return [t for t in dict.fromkeys(operands) if t.node not in nodes]


def _is_looked_up(node: Node, spec: KernelSpec | None) -> bool:
    """Return whether many elements beside each other are gathered from apart, or written apart."""
    if not isinstance(spec, AtIndices) or spec.window is not None:
        return False
    x, index = node.inputs[0].type, node.inputs[-1].type
    is_along_last = spec.axis + spec.count == x.ndim and index.ndim > 0
    return is_along_last and index.static_shape[-1] >= LEAST_LOOKED_UP


def only_adds_ones(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Return whether a reshape only adds or drops axes of size 1."""
    return [n for n in old if n != 1] == [n for n in new if n != 1]


def only_splits(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Return whether a reshape only splits axes and adds or drops axes of size 1.

    Then the index of every old axis is affine in the new ones.
    """
    sizes = [n for n in new if n != 1]
    for whole in (n for n in old if n != 1):
        product = 1
        while product < whole and sizes:
            product *= sizes.pop(0)
        if product != whole:
            return False
    return not sizes
