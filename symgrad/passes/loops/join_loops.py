"""Loop deduplication by values: a loop that another one contains is not run beside it.

Before, the loop of a function and that of its values with their tangents:

    %0, %1 = while %x {capacity = 0, carried = 1} {
      body(%p0) { %0 = multiply %p0, %p0; return %0 }
    } : i64[], f32[]
    %2, %3, %4 = while %x, %t {capacity = 0, carried = 2} {
      body(%p0, %p1) { ...; %2 = multiply %p0, %p0; return %2, %1 }
    } : i64[], f32[], f32[]

After:

    %0, %1, %2 = while %x, %t {...} : i64[], f32[], f32[]

A loop contains another one if it runs as often, and each loop variable and each stack of the other
has an equal (`loops/congruence.py`). Results are then those of the one loop. `merge_loops` does
that by identity, before sizes are known; here bodies are compared as all other passes left them.

A branch may have the loop of what was computed before it, and more: a descent looks where it would
get to, and only if that is lower computes the gradient there. Such a loop leaves its branch, if it
takes at most twice as long as what it contains: it can neither fail nor run for ever, since that
other loop runs anyway. If the branch is taken one loop is saved, and if not, as much is wasted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from symgrad.cost_model import FEW_ELEMENTS, PER_BYTE_WRITTEN
from symgrad.graph.build import derived_from, inside, rebuild_here, with_attrs
from symgrad.graph.compare import graphs_of, has_nested_graphs
from symgrad.graph.effects import order_of
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder_op
from symgrad.graph.loop_view import LoopView, is_loop
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.branches import switch_case_op
from symgrad.graph.structures import Extern
from symgrad.graph.traverse import topological
from symgrad.graph.types import is_unbounded
from symgrad.passes.costs import picoseconds
from symgrad.passes.loops.congruence import (
    Containment,
    Table,
    find_containment,
    runs_alike,
    value_numbers,
)
from symgrad.passes.loops.extend_loop import (
    Extension,
    extend_loop,
    is_static,
    placeholder_inside,
    region_of_body,
    substituted,
)
from symgrad.passes.loops.licm import may_run_in_vain
from symgrad.passes.loops.prune_loops import prune_loops
from symgrad.passes.rewrites.rewrite import Rewrites, with_inputs
from symgrad.records import dataclass

RULE = "join-loops"


def join_loops(graph: Graph, rewrites: Rewrites) -> Graph:
    """Return `graph` with no loop beside one that contains it."""
    before = graph
    while has_nested_graphs(graph):
        changed = _without_loops(graph, rewrites) or _with_a_loop_outside(graph, rewrites)
        if changed is None:
            break
        graph = changed
    return graph if graph is before else prune_loops(graph)


# ------------------------------------------------------------------------------- loops of a graph


def _without_loops(graph: Graph, rewrites: Rewrites) -> Graph | None:
    """Return `graph` without loops that others contain; None if there are none.

    Each loop takes part in one join at a time. Two of these may wait for each other.
    """
    loops = [node for node in graph.nodes if _may_join(node)]
    if len(loops) < 2:
        return None
    found = _all_joins(loops, _numbered(graph, {}))
    together: dict[Node, _Join] = {}
    taken: set[Node] = set()
    for part, join in found:
        if taken.isdisjoint((part, join.whole)):
            together[part] = join
            taken |= {part, join.whole}
    for joins in (together, *({part: join} for part, join in found)):
        if _order(graph, joins):
            allowed = {part: join for part, join in joins.items() if rewrites.allow(RULE, part)}
            for part, join in allowed.items():
                count = len(join.whole.outputs)
                rewrites.explain(RULE, part, f"a loop of {count} results contains it")
            return _joined(graph, allowed) if allowed else None
    return None


@dataclass(frozen=True, slots=True)
class _Join:
    """What a loop is joined with: a loop that contains it, and where."""

    whole: Node
    found: Containment


def _all_joins(loops: Sequence[Node], numbers: Mapping[Tensor, int]) -> list[tuple[Node, _Join]]:
    """Return the loops that others contain, each with one of these."""
    pairs = ((p, w, find_containment(p, w, numbers)) for p, w in _candidates(loops, numbers))
    return [(part, _Join(whole, found)) for part, whole, found in pairs if found is not None]


def _order(graph: Graph, joins: Mapping[Node, _Join]) -> list[Node]:
    """Return the nodes of `graph`, a joined loop behind the other; none if that is cyclic."""
    sorter: TopologicalSorter[Node] = TopologicalSorter()
    for node in graph.nodes:
        needed = [joins[node].whole] if node in joins else [t.node for t in node.inputs]
        sorter.add(node, *needed)
    try:
        return [*sorter.static_order()]
    except CycleError:
        return []


def _may_join(node: Node) -> bool:
    return is_loop(node) and LoopView(node).carried > 0 and order_of(node) is None


def _numbered(graph: Graph, table: Table) -> dict[Tensor, int]:
    inputs = [table.setdefault(t, len(table)) for t in graph.inputs]
    return value_numbers(graph, inputs, table)


def _candidates(
    loops: Sequence[Node], numbers: Mapping[Tensor, int]
) -> Iterator[tuple[Node, Node]]:
    """Yield the pairs of loops that run alike, where few of all loops read what the first reads."""
    alike = {loop: runs_alike(loop, numbers) for loop in loops}
    readers: dict[object, list[Node]] = {}
    for loop in loops:
        for number in {numbers[t] for t in loop.inputs}:
            readers.setdefault((alike[loop], number), []).append(loop)
    for part in loops:
        wholes = min((readers[alike[part], numbers[t]] for t in part.inputs), key=len)
        yield from ((part, whole) for whole in wholes if whole is not part)


def _joined(graph: Graph, joins: Mapping[Node, _Join]) -> Graph:
    """Return `graph` with the results of wholes, and what parts stack, for those of the parts."""
    parts = {join.whole: part for part, join in joins.items()}
    mapping: dict[Tensor, Tensor] = {}
    for node in _order(graph, joins):
        if node in joins:
            continue
        inputs = tuple(mapping[t] for t in node.inputs)
        part = parts.get(node)
        if part is None:
            mapping.update(zip(node.outputs, with_inputs(node, inputs).outputs, strict=True))
            continue
        new = _with_stacks(node, part, inputs, joins[part].found)
        mapping.update(zip(node.outputs, new.outputs, strict=False))
        mapping.update(zip(part.outputs, _results(new, part, joins[part].found), strict=True))
    return graph.with_roots(mapping)


def _with_stacks(whole: Node, part: Node, inputs: tuple[Tensor, ...], found: Containment) -> Node:
    """Return `whole` on `inputs`, with the stacks of `part` behind its own."""
    extension = Extension()
    for tensor in found.stacked:
        extension.record(whole, tensor)
    if not extension.stacks:
        return with_inputs(whole, inputs)
    # A loop without a bound that stacks nothing has a capacity of 0.
    capacity = LoopView(whole).capacity or LoopView(part).capacity
    new = with_attrs(whole, inputs, {**whole.attrs, "capacity": capacity})
    return extend_loop(new, inputs, extension)


def _results(whole: Node, part: Node, found: Containment) -> list[Tensor]:
    """Return the results of `whole` that are those of `part`."""
    view = LoopView(whole)
    count = view.first_stack - view.carried
    places = [*range(count), *(count + i for i in found.variables)]
    places += [view.places_of_stacks[t] for t in found.stacked]
    assert len(places) == len(part.outputs), f"{whole!r} has not all results of {part!r}"
    return [whole.outputs[i] for i in places]


# ------------------------------------------------------------------------------ loops of branches


def _with_a_loop_outside(graph: Graph, rewrites: Rewrites) -> Graph | None:
    """Return `graph` with a loop before the branch that had it; None if there is none to move."""
    loops = [node for node in graph.nodes if _may_join(node)]
    switches = [node for node in graph.nodes if node.definition is switch_case_op]
    if not loops or not switches:
        return None
    for switch, place, loop, other, numbers in _inner_loops(graph, switches, loops):
        moved = _moved(graph, switch, place, loop, other, numbers)
        if moved is not None and rewrites.allow(RULE, loop):
            rewrites.explain(RULE, loop, f"before its branch, to be one with {other!r}")
            return moved
    return None


def _inner_loops(
    graph: Graph, switches: Sequence[Node], loops: Sequence[Node]
) -> Iterator[tuple[Node, int, Node, Node, Mapping[Tensor, int]]]:
    """Yield loops of branches that may leave these, with a loop to join each with.

    With each comes the branch, and the numbers of what is in it and around it.
    """
    table: Table = {}
    numbers = _numbered(graph, table)
    for switch in switches:
        for place, (_, branch) in enumerate(graphs_of(switch)):
            given = [numbers[t] for t in switch.inputs[1:]]
            known = {**numbers, **value_numbers(branch, given, table)}
            found = ((n, _partner(n, loops, known)) for n in branch.nodes if _may_leave(n))
            yield from ((switch, place, n, other, known) for n, other in found if other is not None)


def _may_leave(node: Node) -> bool:
    """Return whether `node` is a loop that may run before its branch: what it grows stays in it."""
    return _may_join(node) and not any(is_unbounded(t.type) for t in node.outputs)


def _partner(loop: Node, loops: Sequence[Node], numbers: Mapping[Tensor, int]) -> Node | None:
    """Return the one of `loops` that `loop` is in, or that is a large part of it."""
    for other in loops:
        if find_containment(loop, other, numbers) is not None:
            return other
        if (
            find_containment(other, loop, numbers) is not None
            and is_static(loop)
            and _cannot_fail(loop)
            and _time_of_iteration(loop) <= 2 * _time_of_iteration(other)
        ):
            return other
    return None


def _cannot_fail(loop: Node) -> bool:
    inner = [node for _, graph in graphs_of(loop) for node in graph.nodes]
    return all(may_run_in_vain(n) and not graphs_of(n) and not _is_foreign(n) for n in inner)


def _is_foreign(node: Node) -> bool:
    return node.definition.structure is Extern


def _time_of_iteration(loop: Node) -> int:
    """Return about how long an iteration takes.

    One over few elements waits for the longest chain of its operations, and not for each of them.
    """
    view = LoopView(loop)
    body = view.body
    if any(t.type.count > FEW_ELEMENTS for node in body.nodes for t in node.outputs):
        written = sum(t.type.nbytes for t in view.stacked)
        return sum(map(picoseconds, body.nodes)) + PER_BYTE_WRITTEN * written
    times: dict[Node, int] = {}
    for node in body.nodes:
        count = max(1, node.outputs[0].type.count)
        begins = max((times[t.node] for t in node.inputs), default=0)
        times[node] = begins + picoseconds(node) // count
    return max(times.values(), default=0)


def _moved(
    graph: Graph,
    switch: Node,
    place: int,
    loop: Node,
    other: Node,
    numbers: Mapping[Tensor, int],
) -> Graph | None:
    """Return `graph` with `loop` before `switch`; None if what it starts with cannot be there.

    It may depend neither on `switch` nor on `other`, which it is to be joined with, nor may that
    depend on `switch`.
    """
    branch = graphs_of(switch)[place][1]
    with inside(graph.region), derived_from(loop):
        operands = _operands_outside(graph, switch, branch, loop, numbers)
        if operands is None:
            return None
        outside = rebuild_here(loop, operands)
    before = topological(outside.inputs)
    if switch in before or other in before or switch in topological(other.inputs):
        return None
    read = {*branch.outputs, *(t for node in branch.nodes for t in node.inputs)}
    results = {t: outside.outputs[t.index] for t in loop.outputs if t in read}
    mapping: dict[Tensor, Tensor] = {}
    for node in dict.fromkeys((*before, *graph.nodes)):
        inputs = tuple(mapping[t] for t in node.inputs)
        if node is switch:
            new = _with_operands(switch, inputs, place, results)
        else:
            new = with_inputs(node, inputs)
        mapping.update(zip(node.outputs, new.outputs, strict=True))
    return graph.with_roots(mapping)


def _operands_outside(
    graph: Graph, switch: Node, branch: Graph, loop: Node, numbers: Mapping[Tensor, int]
) -> tuple[Tensor, ...] | None:
    """Return what is around a branch for the operands of a loop in it.

    What is not computed there is now, if it takes less than the loop and cannot fail.
    """
    around = {numbers[t]: t for node in reversed(graph.nodes) for t in node.outputs}
    found = dict(zip(branch.inputs, switch.inputs[1:], strict=True))
    for node in topological(loop.inputs):
        if node.definition is placeholder_op:
            continue
        if all(numbers[t] in around for t in node.outputs):
            found.update((t, around[numbers[t]]) for t in node.outputs)
        elif (
            may_run_in_vain(node)
            and not _is_foreign(node)
            and picoseconds(node) <= picoseconds(loop)
        ):
            new = rebuild_here(node, tuple(found[t] for t in node.inputs))
            found.update(zip(node.outputs, new.outputs, strict=True))
        else:
            return None
    return tuple(found[t] for t in loop.inputs)


def _with_operands(
    switch: Node, inputs: tuple[Tensor, ...], place: int, results: Mapping[Tensor, Tensor]
) -> Node:
    """Return `switch` on `inputs` and `results`, which branch `place` reads and no longer has."""
    branches = []
    for i, (_, branch) in enumerate(graphs_of(switch)):
        region = region_of_body(branch)
        given = {t: placeholder_inside(region, outer, t.type) for t, outer in results.items()}
        replaced = given if i == place else {}
        takes = [*branch.inputs, *given.values()]
        branches.append(substituted(branch, replaced, inputs=takes, outputs=branch.outputs))
    attrs = {"branches": tuple(branches)}
    return with_attrs(switch, (*inputs, *results.values()), attrs)
