"""Verifier of partitions: what is well formed, and, by a topological sort, that groups are convex.

The passes have analyses of their own, and share nothing with this file, so that it can contradict
them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Contract, Place, View
from symgrad.graph.types import State
from symgrad.passes.fusion.order_groups import checked_place, is_surely_in_range, when_called
from symgrad.passes.fusion.partition import FusionGroup, Partition, fresh_bases, written_over
from symgrad.passes.fusion.windows import fills_around

Old = State | Tensor  # what is overwritten: a variable, or a loop variable


def groups_needed(partition: Partition) -> dict[int, set[int]]:
    """Return, of each group, those that compute what it reads from memory."""
    writer = {t: number for number, group in enumerate(partition.groups) for t in group.outputs}
    return {
        number: {writer[t] for t in group.inputs if _is_made(t)} if group.nodes else set()
        for number, group in enumerate(partition.groups)
    }


def verify_partition(partition: Partition) -> None:
    """Raise AssertionError, naming the group, unless `partition` is well formed.

    It is if each group computes what it needs or reads it from memory, where a group before it
    has left it; if every tensor in memory is left there by one group; if no two groups wait for
    each other; if results are in memory; and if a variable is overwritten after all else that
    reads it or can fail, and a loop variable after all else that reads it.
    """
    _verify_homes(partition)
    position = {node: i for i, node in enumerate(partition.graph.nodes)}
    for number, group in enumerate(partition.groups):
        _verify_group(partition, group, position, f"group {number}")
    _verify_order(partition)
    _verify_results(partition)
    _verify_overwritten(partition)
    _verify_placed(partition)


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


def _verify_group(
    partition: Partition, group: FusionGroup, position: Mapping[Node, int], where: str
) -> None:
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
    # A group in the body of a loop may record a loop variable that it reads.
    given = {t for t in group.inputs if not _is_made(t)}
    lost = [t for t in group.outputs if t.node not in computed and t not in given]
    assert not lost, f"{where}: it leaves {lost} in memory without computing it"
    leaves = [n for n in group.nodes if partition.traits(n).home == "memory"]
    assert not leaves, f"{where}: it computes the leaf {leaves[:1]}"
    anchors = [n for n in group.nodes if partition.traits(n).is_anchor]
    anchors = [n for n in anchors if not _is_read_as_windows(partition, group, n)]
    anchor = [] if group.anchor is None else [group.anchor]
    assert anchors == anchor, f"{where}: its anchors are {anchors}, not {anchor}"
    is_nested = any(partition.traits(n).is_instruction for n in anchors)
    sizes = {t.type.count for t in group.outputs}
    over = math.prod(group.domain)
    assert group.anchor is not None or sizes <= {over}, f"{where}: its loops make {over} elements"
    assert is_nested or len(sizes) <= 1, (
        f"{where}: its results have different numbers of elements {sizes}"
    )


def _is_read_as_windows(partition: Partition, group: FusionGroup, pad: Node) -> bool:
    """Return whether only the anchor, a convolution, reads `pad`: it knows where the border is.

    It may read a slice of it, which then nothing else reads.
    """
    anchor, spec = group.anchor, partition.specs[pad]
    if anchor is None or not isinstance(spec, Place) or pad in {t.node for t in group.outputs}:
        return False
    contract = partition.specs[anchor]
    if not isinstance(contract, Contract) or contract.windows is None:
        return False
    reader, read = anchor, anchor.inputs[0].node
    while _readers(group, read) == [reader] and isinstance(partition.specs[read], View):
        reader, read = read, read.inputs[0].node
    return read is pad and _readers(group, pad) == [reader]


def _readers(group: FusionGroup, read: Node) -> list[Node]:
    return [n for n in group.nodes for t in n.inputs if t.node is read]


def _verify_order(partition: Partition) -> None:
    needed = groups_needed(partition)
    # A path that leaves a group and comes back to it is a circle among groups: so this is
    # convexity too.
    try:
        TopologicalSorter(needed).prepare()
    except CycleError as error:
        raise AssertionError(f"groups wait for each other: {error.args[1]}") from None
    backward = [(a, b) for b, of in needed.items() for a in sorted(of) if a >= b]
    assert not backward, f"a group runs before one it needs: {backward}"


def _verify_results(partition: Partition) -> None:
    in_memory = {t for group in partition.groups for t in group.outputs}
    for root in partition.graph.roots:
        stored = partition.stored(root)
        assert stored in in_memory, f"{root!r} is a result and no group leaves it in memory"


def _verify_overwritten(partition: Partition) -> None:
    """Check that what is overwritten may be, as soon as an element of the new value is computed."""
    groups = partition.groups
    writers = {t: n for n, group in enumerate(groups) if group.nodes for t in group.outputs}
    readers: dict[Old, list[int]] = {}
    for number, group in enumerate(groups):
        for old in {_old(t) for t in group.inputs}:
            readers.setdefault(old, []).append(number)
    last_failure = max(_fallible(partition), default=-1)
    for update in partition.in_place:
        old, name = update.variable.state, update.variable.state.name
        writer = writers.get(partition.stored(update.value))
        assert writer is not None, f"{update.variable!r} is overwritten in place by a leaf"
        _verify_writer(partition, old, name, writer, readers.get(old, []))
        where = f"group {writer} overwrites {name}"
        assert last_failure <= writer, f"{where} before group {last_failure}, which can fail"
        assert last_failure != writer, f"{where} and can fail"
    for output, input_ in partition.overwriting.items():
        variable = partition.graph.inputs[input_]
        writer = writers.get(partition.stored(partition.graph.outputs[output]))
        assert writer is not None, f"{variable!r} is overwritten in place by a leaf"
        _verify_writer(partition, variable, f"{variable!r}", writer, readers.get(variable, []))

    last_values, results = (
        partition.last_values(),
        set(map(partition.stored, partition.graph.roots)),
    )
    for value, base in partition.rewriting.items():
        last = last_values[base]
        owners: list[Tensor] = [
            u.variable for u in partition.in_place if partition.stored(u.value) is last
        ]
        owners += [
            partition.graph.inputs[i]
            for o, i in partition.overwriting.items()
            if partition.stored(partition.graph.outputs[o]) is last
        ]
        assert base not in results, f"{base!r} is a result and is overwritten"
        _verify_writer(partition, base, f"{base!r}", writers[value], readers.get(base, []))
        for owner in owners:
            old = _old(owner)
            _verify_writer(partition, old, f"{owner!r}", writers[base], readers.get(old, []))
            assert isinstance(old, Tensor) or last_failure < writers[base], (
                f"group {writers[base]} overwrites {owner!r} and a group that can fail follows"
            )


def _verify_writer(
    partition: Partition, old: Old, name: object, writer: int, readers: Sequence[int]
) -> None:
    """Check that group `writer`, one of `readers` perhaps, is the last that reads what it writes.

    And that it reads no other element than the one it writes.
    """
    where = f"group {writer} overwrites {name}"
    late = [number for number in readers if number > writer]
    assert not late, f"{where} before group {late[0]} reads it"
    group = partition.groups[writer]
    if writer not in readers or _only_writes(partition, group, old):
        return
    moved = [t for t in _read_elsewhere(partition, group) if _old(partition.stored(t)) is old]
    assert not moved, f"{where} and reads other elements of it"


def _users(partition: Partition, tensor: Tensor) -> list[Node]:
    """Return the nodes that read `tensor` from memory, once for each operand.

    Those of the group that makes it have it in registers.
    """
    return [
        node
        for group in partition.groups
        for node in group.nodes
        for operand in node.inputs
        if partition.stored(operand) is tensor and operand.node not in group.nodes
    ]


def _verify_placed(partition: Partition) -> None:
    """Check that what is written as part of a result is read for it alone, and not overwritten."""
    results = {partition.stored(root) for root in partition.graph.roots}
    written = {partition.stored(u.value) for u in partition.graph.updates}
    written |= {partition.stored(partition.graph.outputs[o]) for o in partition.overwriting}
    fresh = fresh_bases(partition.rewriting, written)
    written |= {*partition.rewriting, *partition.rewriting.values()}
    made = {t for group in partition.groups for t in group.outputs}
    for tensor, place in partition.placed.items():
        where = f"{tensor!r}, written as part of {place.node.output!r},"
        assert tensor in made, f"{where} is left by no group"
        users = _users(partition, tensor)
        assert users == [place.node], f"{where} is read by {users}"
        assert place.node.inputs[place.number] is tensor, f"{where} is not operand {place.number}"
        assert partition.specs[place.node] == place.spec, f"{where} is placed by another structure"
        assert not place.spec.adds, f"{where} would be added to it"
        is_kept = place.spec.fill is None or fills_around(place.spec)
        assert is_kept, f"{where} is filled over"
        assert tensor not in results, f"{where} is a result"
        assert tensor not in written, f"{where} is overwritten"
        assert place.node.output not in written - fresh, f"{where} is written over something"
        homes = [g for g in partition.groups if place.node in g.nodes]
        assert [g.anchor for g in homes] == [place.node], f"{where} is read through it"


def _old(tensor: Tensor) -> Old:
    """Return what is overwritten if `tensor` is: the state of a variable, or the tensor itself."""
    state = tensor.node.attrs.get("state")
    return state if isinstance(state, State) else tensor


def _fallible(partition: Partition) -> list[int]:
    """Return the groups that are nested, or index where no group before has read.

    What is nested may index, and a loop may be interrupted.
    """
    known: set[object] = set()
    found = []
    is_first = True  # of the waits for other processes: updates may come between the others
    for number, group in enumerate(partition.groups):
        if when_called(group.anchor, partition.specs) == "late":
            found += [number] if is_first else []
            is_first = False
            continue
        traits = [(n, partition.traits(n)) for n in group.nodes]
        indexed = [(n, of) for n, of in traits if not is_surely_in_range(n, partition.specs[n])]
        gathers = [n for n, of in indexed if not of.writes_rows]
        scatters = [n for n, of in indexed if of.writes_rows]
        is_known = all(checked_place(n, partition.specs[n]) in known for n in scatters)
        if gathers or not is_known or any(of.is_instruction for _, of in traits):
            found.append(number)
        known |= {checked_place(n, partition.specs[n]) for n in gathers}
    return found


def _only_writes(partition: Partition, group: FusionGroup, old: Old) -> bool:
    """Return whether `group` has `old` as what it writes over alone."""
    anchor = group.anchor
    if anchor is None:
        return False
    readers = [n for n in group.nodes for t in n.inputs if _old(partition.stored(t)) is old]
    bases = [anchor.inputs[number] for _, number in written_over(partition.specs[anchor])]
    return readers == [anchor] and old in {_old(partition.stored(base)) for base in bases}


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
