"""Divergence analysis: which values may differ between ranks, and the conditions that may not.

A collective is called by all ranks of its group, so whether it is called must be decided by values
that are the same on all of them. Those are what collectives give to all, what a user says to be the
same, constants, variables that start equal, and whatever is computed of such values alone. Inputs
may differ. Nothing is rewritten here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from symgrad.errors import GraphError
from symgrad.graph.compare import graphs_of
from symgrad.graph.foreign_functions import ForeignFunction, ProcessGroup
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import Variable, placeholder_op
from symgrad.graph.loop_view import LoopView, is_loop
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.conversion import dim_size_op
from symgrad.graph.ops.extern import foreign_functions, functions_of
from symgrad.graph.ops.marks import same_on_ranks_op
from symgrad.graph.ops.stand_in import after_op, stands_for
from symgrad.graph.sizes import Size
from symgrad.graph.structures import Extern, Switch
from symgrad.graph.types import State
from symgrad.records import dataclass

_HINT = (
    "let all ranks decide alike: sg.distributed.broadcast(condition, comm) makes it the same, and "
    "sg.distributed.same(condition, comm) says that it is"
)


def groups_of(graph: Graph) -> list[ProcessGroup]:
    """Return the groups that make calls in `graph`, at any depth, larger ones first."""
    found = {
        function.group.lineage: function.group
        for function, _ in foreign_functions(graph)
        if function.group is not None
    }
    return [found[lineage] for lineage in sorted(found, key=lambda names: (len(names), names))]


@dataclass(frozen=True, slots=True)
class _Sameness:
    """The groups on all ranks of which a value is the same if the variables `given` start so.

    Both are sets of bits, by the numbers of groups and of states.
    """

    groups: int
    given: int = 0

    def __and__(self, other: _Sameness) -> _Sameness:
        return _Sameness(self.groups & other.groups, self.given | other.given)


def require_same_conditions(graph: Graph) -> dict[tuple[str, ...], list[State]]:
    """Return for each group, by its lineage, the variables that must start equal on its ranks.

    Raises `GraphError` for a branch or a loop with a collective where the ranks of its group may
    decide in different ways.
    """
    groups = groups_of(graph)
    if not groups:
        return {}
    analysis = _Divergence([group.lineage for group in groups])
    analysis.run(graph)
    return analysis.states_needed()


@dataclass(slots=True)
class _Divergence:
    """What is known of the values of one program."""

    lineages: list[tuple[str, ...]]
    bits: dict[State, int] = field(default_factory=dict)
    variables: dict[State, _Sameness] = field(default_factory=dict)
    needed: dict[int, int] = field(default_factory=dict)
    is_checked: bool = False
    known: dict[tuple[Graph, tuple[_Sameness, ...]], list[_Sameness]] = field(default_factory=dict)
    called: dict[Graph, int] = field(default_factory=dict)

    @property
    def everywhere(self) -> _Sameness:
        return _Sameness((1 << len(self.lineages)) - 1)

    def run(self, graph: Graph) -> None:
        """Take variables to start equal; find which stay so; then look at conditions."""
        nowhere = [_Sameness(0)] * len(graph.inputs)
        while True:
            self.known.clear()
            values = self._values(graph, nowhere)
            changed = False
            for update in graph.updates:
                state = _state_of(update.variable)
                before = self.variables[state] if state in self.variables else self._start(state)
                after = before & values[update.value]
                changed |= after != before
                self.variables[state] = after
            if not changed:
                break
        self.known.clear()
        self.is_checked = True
        self._values(graph, nowhere)

    def states_needed(self) -> dict[tuple[str, ...], list[State]]:
        """Return which variables conditions rely on to start equal, by lineages of groups."""
        return {
            self.lineages[number]: [s for s, bit in self.bits.items() if needed & bit]
            for number, needed in self.needed.items()
            if needed
        }

    # ------------------------------------------------------------------------------- values

    def _start(self, state: State) -> _Sameness:
        bit = self.bits.setdefault(state, 1 << len(self.bits))
        return _Sameness(self.everywhere.groups, bit)

    def _values(self, graph: Graph, inputs: Sequence[_Sameness]) -> dict[Tensor, _Sameness]:
        values = dict(zip(graph.inputs, inputs, strict=True))
        for update in graph.updates:
            values[update.variable] = self._variable(update.variable)
        for node in graph.nodes:
            if node.definition is not placeholder_op:
                values.update(zip(node.outputs, self._of_node(node, values), strict=True))
        return values

    def _variable(self, tensor: Tensor) -> _Sameness:
        state = _state_of(tensor)
        if state not in self.variables:
            self.variables[state] = self._start(state)
        return self.variables[state]

    def _nested(self, graph: Graph, inputs: Sequence[_Sameness]) -> list[_Sameness]:
        key = graph, tuple(inputs)
        if key not in self.known:
            values = self._values(graph, inputs)
            self.known[key] = [values[t] for t in graph.outputs]
        return self.known[key]

    def _of_node(self, node: Node, values: dict[Tensor, _Sameness]) -> list[_Sameness]:
        if isinstance(node.outputs[0], Variable):
            return [self._variable(node.output)]
        operands = [values[t] for t in node.inputs]
        instead = stands_for(node)
        if instead is not None:
            return [values[t] for t in instead]
        if is_loop(node):
            return self._of_loop(LoopView(node), operands)
        if node.definition.structure is Switch:
            return self._of_branches(node, operands)
        nested = graphs_of(node)
        if len(nested) == 1:
            return self._nested(nested[0][1], operands)
        assert not nested, f"{node!r} runs graphs in a way that is not known here"
        return [self._of_plain(node, operands)] * len(node.outputs)

    def _of_plain(self, node: Node, operands: Sequence[_Sameness]) -> _Sameness:
        if node.definition is dim_size_op and isinstance(node.attrs["value"], Size):
            return _Sameness(0)  # ranks may be given different numbers of samples
        same = self.everywhere
        for operand in operands:
            same &= operand
        if node.definition is after_op:
            return operands[0]
        if node.definition is same_on_ranks_op:
            return _Sameness(same.groups | self._within(node.attrs["group"]), same.given)
        if node.definition.structure is Extern and node.attrs["order"] is not None:
            return self._of_call(node)
        return same

    def _of_call(self, node: Node) -> _Sameness:
        function = node.attrs["function"]
        assert isinstance(function, ForeignFunction), "a call is of a function"
        groups = [s.group.lineage[-1] for s in functions_of(node) if s.group is not None]
        if not function.gives_equal:
            return _Sameness(0)
        return _Sameness(self._within(groups[0]))

    def _within(self, name: object) -> int:
        """Return the group `name` and the groups that are parts of it."""
        return sum(1 << i for i, lineage in enumerate(self.lineages) if name in lineage)

    # ------------------------------------------------------------------------ branches, loops

    def _of_branches(self, node: Node, operands: Sequence[_Sameness]) -> list[_Sameness]:
        index, *rest = operands
        branches = [graph for _, graph in graphs_of(node)]
        self._require(node, index, branches)
        found = [self._nested(graph, rest) for graph in branches]
        results = []
        for of_branches in zip(*found, strict=True):
            same = index
            for value in of_branches:
                same &= value
            results.append(same)
        return results

    def _of_loop(self, loop: LoopView, operands: Sequence[_Sameness]) -> list[_Sameness]:
        decides = self.everywhere if loop.is_while else operands[0]
        given = list(operands if loop.is_while else operands[1:])
        condition = [] if loop.condition is None else [loop.condition]
        while True:
            for graph in condition:
                (decides,) = self._nested(graph, given)
            results = self._nested(loop.body, given)
            start, after = given[: loop.carried], results[: loop.carried]
            met = [a & b & decides for a, b in zip(start, after, strict=True)]
            if met == start:
                break
            given[: loop.carried] = met
        self._require(loop.node, decides, [loop.body, *condition])
        counted = [decides] if loop.is_while else []
        stacks = [same & decides for same in results[loop.carried :]]
        return [*(same & decides for same in given[: loop.carried]), *counted, *stacks]

    def _require(self, node: Node, decides: _Sameness, graphs: Sequence[Graph]) -> None:
        """Raise unless ranks of a group that makes calls in `graphs` are sure to decide alike."""
        if not self.is_checked:
            return
        calling = 0
        for graph in graphs:
            calling |= self._calling(graph)
        different = calling & ~decides.groups
        if different:
            name = self.lineages[different.bit_length() - 1][-1]
            problem = f"it makes calls of {name}, and ranks may decide in different ways"
            raise GraphError(node.op, problem, hint=_HINT, source=node.source)
        for number in range(len(self.lineages)):
            if calling >> number & 1:
                self.needed[number] = self.needed.get(number, 0) | decides.given

    def _calling(self, graph: Graph) -> int:
        """Return the groups that make calls in `graph`, at any depth."""
        if graph not in self.called:
            numbers = [self.lineages.index(group.lineage) for group in groups_of(graph)]
            self.called[graph] = sum(1 << number for number in numbers)
        return self.called[graph]


def _state_of(tensor: Tensor) -> State:
    assert isinstance(tensor, Variable), "an update is one of a variable"
    return tensor.state
