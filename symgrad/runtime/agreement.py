"""SPMD consistency check: ranks compare their programs before the first run of a step.

Ranks that make other calls than the rest wait for ever, so that is found out before: by the digest
of the text of each program, and by the values of variables that conditions of collectives rely on.
Where the sizes of inputs are sizes of collectives, these are compared before each run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from symgrad.errors import GraphError, Source
from symgrad.graph.foreign_functions import ForeignFunction, ProcessGroup
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node
from symgrad.graph.ops.extern import functions_in
from symgrad.graph.sizes import Size, substitute
from symgrad.graph.text.print import graph_lines
from symgrad.graph.types import Attr, State, read_states
from symgrad.passes.calls.divergence import groups_of, require_same_conditions
from symgrad.records import dataclass
from symgrad.runtime.entry import NativeEntry

_DECIDES = "a condition of collectives depends on"
_IS_WHOLE = "all ranks compute parts of what is made of"
_SHOWN = 100  # characters of a line around the first that differs


@dataclass(slots=True, eq=False)
class Agreement:
    """What the ranks of some groups have to agree in: their program, and how variables start."""

    groups: Sequence[ProcessGroup]
    states: Mapping[tuple[str, ...], Sequence[State]]
    wholes: Mapping[tuple[str, ...], Sequence[State]]
    sizes: Mapping[tuple[str, ...], Mapping[Size, Node]]

    is_reached: bool = False

    def before_run(self, name: str, graph: Graph, sizes: Mapping[str, int]) -> bool:
        """Compare `graph`, as prepared, over all groups, and how large its collectives are.

        Return whether ranks are to compare before the next run as well: a collective has a size
        that inputs decide. Raises `GraphError` on all ranks.
        """
        for group in self.groups if not self.is_reached else ():
            _compare_programs(name, graph, group)
            _compare_states(name, _DECIDES, self.states.get(group.lineage, ()), group)
            _compare_states(name, _IS_WHOLE, self.wholes.get(group.lineage, ()), group)
        self.is_reached = True
        for group in self.groups:
            if group.lineage in self.sizes:
                _compare_sizes(name, self.sizes[group.lineage], sizes, group)
        return bool(self.sizes)

    def counting(self, entry: NativeEntry) -> NativeEntry:
        """Return `entry`, such that other ranks can see that it runs."""
        group = self.groups[0]
        return NativeEntry(group.counting(entry.call), lambda: group.counting(entry.into))


def agreement_of(graph: Graph, prepared: Graph) -> Agreement | None:
    """Return what ranks compare before `graph` is run, which became `prepared`.

    None where it makes no collective calls. Raises `GraphError` for one that some ranks of its
    group may not come to.
    """
    groups = groups_of(prepared)
    if not groups:
        return None
    conditions = require_same_conditions(graph)
    return Agreement(groups, conditions, _whole_states(prepared), _sizes_of_calls(prepared))


def _whole_states(graph: Graph) -> dict[tuple[str, ...], list[State]]:
    """Return for groups that variables are cut over the others, which all ranks of it have."""
    states = [variable.state for variable in graph.variables]
    shardings = [s for state in states if (s := state.sharding) is not None and s.axis is not None]
    wholes = [state for state in states if state.sharding is None and state.array.size]
    return {sharding.group.lineage: wholes for sharding in shardings}


def _sizes_of_calls(graph: Graph) -> dict[tuple[str, ...], dict[Size, Node]]:
    """Return for each group, by its lineage, the unknown sizes of its calls, each with the first.

    Of the calls in functions and regions, sizes are those of the whole program.
    """
    found: dict[tuple[str, ...], dict[Size, Node]] = {}
    for node, function in functions_in(graph):
        if function.group is not None:
            for size in _sizes_in(node.attrs["layout"]):
                found.setdefault(function.group.lineage, {}).setdefault(size, node)
    return found


def _sizes_in(attr: Attr) -> Iterator[Size]:
    if isinstance(attr, Size):
        yield attr
    elif isinstance(attr, tuple):
        for part in attr:
            yield from _sizes_in(part)


def _compare_programs(name: str, graph: Graph, group: ProcessGroup) -> None:
    lines = list(graph_lines(graph))
    text = "\n".join(line for line, _ in lines)
    other = _first_other(group.exchange(_digest(text.encode("utf-8", "surrogatepass"))))
    if other is None:
        return
    texts = group.exchange([line for line, _ in lines])
    ours, theirs = texts[0], texts[other]
    place = next(
        (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
        min(len(ours), len(theirs)),
    )
    a, b = _shortened(_line(ours, place), _line(theirs, place))
    source: Source | None = None
    if place < len(lines):
        node = lines[place][1]
        source = None if node is None else node.source
    raise GraphError(
        name,
        f"line {place + 1} of the program is {a} on rank 0, and {b} on rank {other}",
        hint="all ranks build the same graph; what differs between them is an input or a variable",
        source=source,
    )


def _compare_sizes(
    name: str, nodes: Mapping[Size, Node], given: Mapping[str, int], group: ProcessGroup
) -> None:
    everywhere = group.exchange([int(substitute(size, given)) for size in nodes])
    other = _first_other(everywhere)
    if other is None:
        return
    of_calls = zip(nodes.items(), everywhere[0], everywhere[other], strict=True)
    size, node, ours, theirs = next((s, n, a, b) for (s, n), a, b in of_calls if a != b)
    assert isinstance(node.attrs["function"], ForeignFunction), "a call is of a function"
    called = node.attrs["function"].name
    raise GraphError(
        name,
        f"{called} moves {size} elements, which are {ours} on rank 0 and {theirs} on rank {other}",
        hint="give all ranks inputs of the same sizes",
        source=node.source,
    )


def _compare_states(name: str, what: str, states: Sequence[State], group: ProcessGroup) -> None:
    if not states:
        return
    values = read_states(list(states))
    digests = [_digest(value.tobytes()) for value in values]
    everywhere = group.exchange(digests)
    other = _first_other(everywhere)
    if other is None:
        return
    pairs = zip(everywhere[0], everywhere[other], strict=True)
    place = next(i for i, (a, b) in enumerate(pairs) if a != b)
    raise GraphError(
        name,
        f"{what} the variable {states[place].name}, which has one value on rank 0 and another on "
        f"rank {other}",
        hint="give it the same value on all ranks",
    )


def _first_other(values: Sequence[object]) -> int | None:
    """Return the first rank that gave something else than rank 0."""
    return next((rank for rank, value in enumerate(values) if value != values[0]), None)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _line(lines: Sequence[str], place: int) -> str:
    return lines[place].strip() if place < len(lines) else "none"


def _shortened(a: str, b: str) -> tuple[str, str]:
    """Return the parts of two lines around the first character that differs."""
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
    first = max(0, same - _SHOWN // 2)
    return _part(a, first), _part(b, first)


def _part(line: str, first: int) -> str:
    before = "..." if first else ""
    after = "..." if len(line) > first + _SHOWN else ""
    return f"`{before}{line[first : first + _SHOWN]}{after}`"
