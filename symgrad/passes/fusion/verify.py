"""Verifier of partitions: what is well formed, and, by networkx, that groups are convex.

For tests. The passes have analyses of their own, and share nothing with this file, so that it can
contradict them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import networkx

from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import checked_axes
from symgrad.graph.types import State
from symgrad.passes.fusion.partition import FusionGroup, Partition


def group_graph(partition: Partition) -> networkx.DiGraph:
    """Return the dependence graph: an edge from each group to those that read what it computes."""
    view = networkx.DiGraph()
    writer = {t: number for number, group in enumerate(partition.groups) for t in group.outputs}
    for number, group in enumerate(partition.groups):
        view.add_node(number)
        if group.nodes:
            view.add_edges_from((writer[t], number) for t in group.inputs if _is_made(t))
    return view


def verify_partition(partition: Partition) -> None:
    """Raise AssertionError, naming the group, unless `partition` is well formed.

    It is if each group computes what it needs or reads it from memory, where a group before it
    has left it; if every tensor in memory is left there by one group; if no two groups wait for
    each other; if results are in memory; and if a variable is overwritten after all else that
    reads it or can fail.
    """
    _verify_homes(partition)
    for number, group in enumerate(partition.groups):
        _verify_group(partition, group, f"group {number}")
    _verify_order(partition)
    _verify_results(partition)
    for update in partition.in_place:
        writer = _writer(partition, partition.stored(update.value))
        assert writer is not None, f"{update.variable!r} is overwritten in place by a leaf"
        _verify_overwritten(partition, update.variable.state, writer)


def _is_made(tensor: Tensor) -> bool:
    return not tensor.node.definition.is_leaf


def _verify_homes(partition: Partition) -> None:
    made = [t for group in partition.groups if group.nodes for t in group.outputs]
    twice = [t for t, count in Counter(made).items() if count > 1]
    assert not twice, f"{twice[0]!r} is left in memory by two groups"
    shared = [t for t in partition.storage if t in set(made)]
    assert not shared, f"{shared[0]!r} has memory of its own and shares that of another tensor"
    for tensor in partition.storage:
        is_reshape = partition.traits(tensor.node).is_reshape
        assert is_reshape, f"{tensor!r} shares memory and is no reshape"


def _verify_group(partition: Partition, group: FusionGroup, where: str) -> None:
    position = {node: i for i, node in enumerate(partition.graph.nodes)}
    places = [position[node] for node in group.nodes]
    assert places == sorted(set(places)), f"{where}: nodes are repeated or not in order"
    computed = set(group.nodes)
    if not group.nodes:
        assert set(group.inputs) == set(group.outputs), (
            f"{where}: it computes nothing and is no copy"
        )
        assert not any(map(_is_made, group.inputs)), f"{where}: it copies what a group computes"
        return
    read = {partition.stored(t) for n in group.nodes for t in n.inputs if t.node not in computed}
    assert read == set(group.inputs), f"{where}: it reads {read}, not {set(group.inputs)}"
    lost = [t for t in group.outputs if t.node not in computed]
    assert not lost, f"{where}: it leaves {lost} in memory without computing it"
    leaves = [n for n in group.nodes if partition.traits(n).home == "memory"]
    assert not leaves, f"{where}: it computes the leaf {leaves[:1]}"
    anchors = [n for n in group.nodes if partition.traits(n).is_anchor]
    anchor = [] if group.anchor is None else [group.anchor]
    assert anchors == anchor, f"{where}: its anchors are {anchors}, not {anchor}"
    sizes = {t.type.count for t in group.outputs}
    assert len(sizes) <= 1, f"{where}: its results have different numbers of elements {sizes}"


def _verify_order(partition: Partition) -> None:
    view = group_graph(partition)
    # A path that leaves a group and comes back to it is a circle among groups: so this is
    # convexity too.
    assert networkx.is_directed_acyclic_graph(view), (
        f"groups wait for each other: {networkx.find_cycle(view)}"
    )
    backward = [(a, b) for a, b in view.edges if a >= b]
    assert not backward, f"a group runs before one it needs: {backward}"


def _verify_results(partition: Partition) -> None:
    in_memory = {t for group in partition.groups for t in group.outputs}
    for root in partition.graph.roots:
        stored = partition.stored(root)
        assert stored in in_memory, f"{root!r} is a result and no group leaves it in memory"


def _verify_overwritten(partition: Partition, state: State, writer: int) -> None:
    """Check that `state` may be written by group `writer`, as soon as an element is computed."""
    where = f"group {writer} overwrites {state.name}"
    for number in range(writer + 1, len(partition.groups)):
        reads = any(_reads(state, t) for t in partition.groups[number].inputs)
        assert not reads, f"{where} before group {number} reads it"
        assert not _can_fail(partition, number), f"{where} before group {number}, which can fail"
    group = partition.groups[writer]
    assert not _can_fail(partition, writer), f"{where} and can fail"
    if _only_writes_rows(partition, group, state):
        return
    moved = [t for t in _read_elsewhere(partition, group) if _reads(state, partition.stored(t))]
    assert not moved, f"{where} and reads other elements of it"


def _reads(state: State, tensor: Tensor) -> bool:
    return tensor.node.attrs.get("state") is state


def _can_fail(partition: Partition, number: int) -> bool:
    """Return whether a group is nested, or indexes where no group before it has read.

    What is nested may index, and a loop may be interrupted.
    """
    if any(partition.traits(n).is_nested for n in partition.groups[number].nodes):
        return True
    known = {
        t
        for group in partition.groups[:number]
        for n in group.nodes
        if checked_axes(partition.specs[n]) and not partition.traits(n).writes_rows
        for t in (*n.inputs[1:], n.inputs[0].shape)
    }
    indexed = (n for n in partition.groups[number].nodes if checked_axes(partition.specs[n]))
    return any(
        not partition.traits(n).writes_rows or not {n.inputs[0].shape, *n.inputs[2:]} <= known
        for n in indexed
    )


def _only_writes_rows(partition: Partition, group: FusionGroup, state: State) -> bool:
    anchor = group.anchor
    if anchor is None or not partition.traits(anchor).writes_rows:
        return False
    readers = [n for n in group.nodes for t in n.inputs if _reads(state, partition.stored(t))]
    return readers == [anchor] and _reads(state, anchor.inputs[0])


def _read_elsewhere(partition: Partition, group: FusionGroup) -> set[Tensor]:
    """Return what `group` reads at another position than the one of the result it computes."""
    ends = {t.node for t in group.outputs}
    straight = _reached(partition, ends, group)
    every = {t for n in group.nodes for t in n.inputs if t.node not in group.nodes}
    moving = [n for n in group.nodes if not partition.traits(n).is_elementwise]
    under_moves = _below(moving, group)
    return {t for t in every if t in under_moves or t not in straight}


def _reached(partition: Partition, ends: Iterable[Node], group: FusionGroup) -> set[Tensor]:
    """Return the operands that are reached from `ends` through Maps and other shapes only."""
    within, found = set(group.nodes), set[Tensor]()
    pending = [n for n in ends if partition.traits(n).is_elementwise]
    seen = set(pending)
    while pending:
        for operand in pending.pop().inputs:
            found.add(operand)
            below = operand.node
            stays = partition.traits(below).is_elementwise
            if below in within and below not in seen and stays:
                seen.add(below)
                pending.append(below)
    return found


def _below(nodes: Iterable[Node], group: FusionGroup) -> set[Tensor]:
    """Return all operands of `nodes` within the group, and of their operands in turn."""
    within, found = set(group.nodes), set[Tensor]()
    pending = list(nodes)
    while pending:
        for operand in pending.pop().inputs:
            if operand not in found:
                found.add(operand)
                pending.extend([operand.node] if operand.node in within else [])
    return found


def _writer(partition: Partition, tensor: Tensor) -> int | None:
    for number, group in enumerate(partition.groups):
        if group.nodes and tensor in set(group.outputs):
            return number
    return None
