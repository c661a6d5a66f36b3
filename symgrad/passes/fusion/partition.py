"""Partition of a graph into fusion groups, and what goes through memory between them.

A `FusionGroup` becomes one kernel. A tensor that a group gives to another group, to the caller or
to a variable is in memory, in its own buffer or, where a node only gives it another shape, in the
buffer of the tensor it comes from; everything else lives in registers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from symgrad.graph.foreign_functions import PassedOperand
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Extern, KernelSpec, Place, Traits, traits_of
from symgrad.graph.text.print import ELIDED, describe_graph
from symgrad.passes.rewrites.rewrite import IS_RESULT
from symgrad.records import dataclass

Specs = Mapping[Node, KernelSpec | None]


@dataclass(frozen=True, slots=True, eq=False)
class FusionGroup:
    """A fusion group: nodes computed by one kernel, each after its operands.

    `anchor` is the one among them whose loops or graphs these are, if there is one; `outputs` are
    the tensors it leaves in memory, `inputs` those it reads from there. A leaf among the outputs is
    copied. The loops of a group without an anchor are over `domain`, of which its results are other
    shapes if not the same.
    """

    nodes: tuple[Node, ...]
    anchor: Node | None
    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    domain: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where a tensor lies that is written straight into a result: operand `number` of a Place."""

    node: Node
    spec: Place
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A program as groups in an order in which they can run.

    `storage` maps a tensor that is another shape of a tensor in memory to that tensor. `in_place`
    are the updates written over the old value at once; the others are copied when everything has
    been computed. `overwriting` maps the outputs of a loop's body that are written over the input
    whose next value they are to that input. `rewriting` maps what writes over what a group has left
    in memory, such as rows of it, to that, in whose place it is, the last writes first. `placed`
    are results of groups without memory of their own, which are part of another's. `reasons` says
    why a tensor is in memory and not part of the kernel that uses it; `status` is what a program
    returns when an index of a node is out of range, never 0.
    A group without nodes copies a leaf that is a result.
    """

    graph: Graph
    specs: Specs
    groups: tuple[FusionGroup, ...]
    storage: Mapping[Tensor, Tensor]
    in_place: frozenset[Update]
    overwriting: Mapping[int, int]
    rewriting: Mapping[Tensor, Tensor]
    placed: Mapping[Tensor, Placed]
    reasons: Mapping[Tensor, str]
    status: Mapping[Node, int]

    def stored(self, tensor: Tensor) -> Tensor:
        """Return the tensor whose buffer holds `tensor`."""
        while tensor in self.storage:
            tensor = self.storage[tensor]
        return tensor

    def last_values(self) -> dict[Tensor, Tensor]:
        """Return what is written last in the place of each tensor that is written over."""
        return _last_values(self.rewriting)

    def is_left_out(self, group: FusionGroup) -> bool:
        """Return whether all that `group` would do is to copy what has been placed already."""
        place = group.anchor
        if place is None or not isinstance(spec := self.specs[place], Place):
            return False
        return spec.fill is None and all(t in self.placed for t in place.inputs)

    def traits(self, node: Node) -> Traits:
        """Return the traits of the structure of `node`."""
        return traits_of(self.specs[node])

    def boundaries(self) -> Iterator[tuple[FusionGroup, tuple[str, ...]]]:
        """Yield each group with why its results are in memory, each reason once."""
        values = (*self.graph.outputs, *(u.value for u in self.graph.updates))
        reasons = {self.stored(t): IS_RESULT for t in values} | dict(self.reasons)
        for group in self.groups:
            found = dict.fromkeys(reasons[t] for t in group.outputs if t in reasons)
            yield group, tuple(found)

    def __str__(self) -> str:
        """Return the groups as text, with what each reads and leaves in memory, and why.

        partition @f(%x: f32[4]) {
          group 0 (%x) {
            %0 = exp %x : f32[4]
          } -> %0
          // %0 is in memory: it is a result of the program
          return %0
        }
        """
        return "".join(f"{line}\n" for line, _ in self.lines())

    def lines(self) -> Iterator[tuple[str, FusionGroup | None]]:
        """Yield the lines of the text, each with the group it is part of."""
        names, lines = describe_graph(self.graph, elide=ELIDED)
        arguments = ", ".join(f"{names[t]}: {t.type}" for t in self.graph.inputs)
        yield f"partition @{self.graph.name}({arguments}) {{", None
        given = {t.node for t in self.graph.inputs}
        leaves = (n for n in lines if n.definition.is_leaf and n not in given)
        yield from ((f"  {lines[node]}", None) for node in leaves)
        for number, group in enumerate(self.groups):
            yield from ((f"  {line}", group) for line in self._group(number, group, names, lines))
        for tensor, stored in self._shared():
            yield f"  {lines[tensor.node]}  // in the memory of {names[stored]}", None
        for value, base in self.rewriting.items():
            yield f"  {names[value]} is written in the place of {names[base]}", None
        for part, whole in self.placed.items():
            yield f"  {names[part]} is written as part of {names[whole.node.output]}", None
        for update in self.graph.updates:
            place = "update in place" if update in self.in_place else "update"
            yield f"  {place} {names[update.variable]} = {names[update.value]}", None
        yield f"  return {_listed(self.graph.outputs, names)}".rstrip(), None
        yield "}", None

    def _group(
        self,
        number: int,
        group: FusionGroup,
        names: Mapping[Tensor, str],
        lines: Mapping[Node, str],
    ) -> Iterator[str]:
        yield f"group {number} ({_listed(group.inputs, names)}) {{"
        yield from (f"  {lines[node]}" for node in group.nodes)
        yield f"}} -> {_listed(group.outputs, names)}"
        kept = [t for t in group.outputs if t in self.reasons]
        yield from (f"// {names[t]} is in memory: {self.reasons[t]}" for t in kept)

    def _shared(self) -> list[tuple[Tensor, Tensor]]:
        """Return the tensors in the memory of another one, in the order of the graph."""
        outputs = (t for node in self.graph.nodes for t in node.outputs)
        pairs = [(t, self.stored(t)) for t in outputs if t in self.storage]
        written = {t for group in self.groups for t in group.outputs}
        return [(t, s) for t, s in pairs if s in written or self.specs[s.node] is None]


def written_over(spec: KernelSpec | None) -> tuple[tuple[int, int], ...]:
    """Return pairs of a result and of the operand in whose place it may be written.

    The result holds the elements of the operand before it is written, and nothing else reads those.
    """
    if isinstance(spec, Extern):
        passed = {a.number for a in spec.layout if isinstance(a, PassedOperand) and a.place == "in"}
        return tuple([pair for pair in spec.copied if pair[1] not in passed])
    return ((0, 0),) if traits_of(spec).writes_rows else ()


def fresh_bases(rewriting: Mapping[Tensor, Tensor], held: Collection[Tensor]) -> set[Tensor]:
    """Return what is written over later, and is itself in a place where nothing was before.

    `held` are the values that are written over a variable, or a loop variable.
    """
    last = _last_values(rewriting)
    return {base for base in rewriting.values() if base not in rewriting and last[base] not in held}


def _last_values(rewriting: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
    last: dict[Tensor, Tensor] = {}
    for new, old in rewriting.items():  # the last writes come first
        last[old] = last.get(new, new)
    return last


def _listed(tensors: Iterable[Tensor], names: Mapping[Tensor, str]) -> str:
    return ", ".join(names[t] for t in tensors)
