"""Epilogue and sibling fusion: groups of Maps join the group that computes their operand.

This is the second step of the fuse pass.

The result is an epilogue of a Reduce or Contract, or a Map kernel with several results. It must
cover the same elements in the same order, and must not make two groups wait for each other. In the
body of a loop, groups of Maps are merged as well if they only read the same tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from symgrad.cost_model import CHEAP_FLOPS, MAX_GROUPS, MAX_STREAMS
from symgrad.graph.node import Node, Tensor
from symgrad.graph.traits import Traits
from symgrad.passes.fusion.draft import LOOKED_UP, Draft, Drafts, only_splits


def merge_from_operands(drafts: Drafts, max_nodes: int) -> None:
    """Epilogue fusion: merge groups in the order from operands to users."""
    ordered = sorted(drafts.all, key=lambda draft: draft.order)
    ancestry = _Ancestry(drafts, ordered)
    obstacles: dict[Tensor, str] = {}
    for opened in ordered:
        draft = opened
        reads = _reads_of(drafts, draft)
        ancestry.add(draft, reads)
        for candidate in _nearest_first(reads):
            producer = candidate.final()
            if producer is draft:
                continue
            reads = reads or _reads_of(drafts, draft)
            tensors = reads[producer]
            obstacle = _obstacle(drafts, draft, producer, tensors, max_nodes)
            between = ancestry.between(producer, reads) if obstacle is None else None
            if between is not None:
                obstacle = f"the {_main_op(between)} between the two needs all of it"
            if obstacle is not None:
                _note(obstacles, drafts, draft, tensors, obstacle)
                continue
            ancestry.merge(draft, producer, tensors)
            draft, reads = producer, {}  # found again where there is another candidate
    drafts.reasons = obstacles | drafts.reasons


def _nearest_first(reads: Iterable[Draft]) -> list[Draft]:
    """Return groups in the order in which another is to join one: those around something first."""
    found = list(reads)
    if len(found) > 1:
        found.sort(key=lambda d: (d.anchor is None, -d.order))
    return found


def _main_op(draft: Draft) -> str:
    return (draft.anchor or draft.results[0]).op


def _reads_of(drafts: Drafts, draft: Draft) -> dict[Draft, list[Tensor]]:
    """Return what `draft` reads of each of the groups that compute it."""
    found: dict[Draft, list[Tensor]] = {}
    homes, storage = drafts.home, drafts.storage
    for tensor in drafts.read_from_memory(draft):
        home = homes.get((drafts.stored(tensor) if tensor in storage else tensor).node)
        if home is None:
            continue
        producer = home if home.merged_into is None else home.final()
        if producer is draft:
            continue
        if producer in found:
            found[producer].append(tensor)
        else:
            found[producer] = [tensor]
    return found


def _note(
    obstacles: dict[Tensor, str],
    drafts: Drafts,
    draft: Draft,
    tensors: Iterable[Tensor],
    obstacle: str,
) -> None:
    """Note why `tensors`, which `draft` reads of another group, go through memory.

    A group of Maps could have been an epilogue: its obstacle says more than that of another one.
    """
    for read in tensors:
        tensor = drafts.stored(read) if read in drafts.storage else read
        if draft.anchor is None and tensor not in drafts.roots:
            obstacles[tensor] = obstacle
        if tensor not in obstacles:
            obstacles[tensor] = drafts.in_memory.get(tensor, obstacle)


def merge_siblings(drafts: Drafts, max_nodes: int) -> None:
    """Sibling fusion: merge groups of Maps over the same elements that read a tensor in common.

    This is for the body of a loop: there a call and a trip to the cache are paid each iteration.
    """
    groups = sorted((d for d in drafts.all if d.merged_into is None), key=lambda d: d.order)
    if len(groups) > MAX_GROUPS:
        return
    for number, draft in enumerate(groups):
        for other in groups[number + 1 :]:
            if draft.merged_into is None and other.merged_into is None:
                _merge_pair(drafts, draft, other, max_nodes)


def _merge_pair(drafts: Drafts, draft: Draft, other: Draft, max_nodes: int) -> None:
    is_map = draft.anchor is None and other.anchor is None
    if not is_map or draft.domain != other.domain:
        return
    if set(drafts.read_from_memory(draft)).isdisjoint(drafts.read_from_memory(other)):
        return
    is_small = len(draft.nodes) + len(other.nodes) <= max_nodes
    if not is_small or _has_many_streams(drafts, draft, other):
        return
    if _needs(drafts, draft, other) or _needs(drafts, other, draft):
        return
    drafts.merge(other, draft)


def _needs(drafts: Drafts, draft: Draft, other: Draft) -> bool:
    """Return whether `other` must run before `draft`."""
    pending, seen = [draft], {id(draft)}
    while pending:
        for producer in _reads_of(drafts, pending.pop()):
            if producer is other:
                return True
            if id(producer) not in seen:
                seen.add(id(producer))
                pending.append(producer)
    return False


def _obstacle(
    drafts: Drafts, draft: Draft, producer: Draft, tensors: Iterable[Tensor], max_nodes: int
) -> str | None:
    """Return why `producer` cannot compute what `draft`, which reads `tensors` of it, does as well.

    None if it can.
    """
    if draft.anchor is not None:
        return f"the {draft.anchor.op} that uses it is a kernel of its own"
    anchor = producer.anchor
    if anchor is not None and drafts.traits(anchor).writes_piecewise:
        return f"the {anchor.op} writes its result piece by piece"
    if anchor is not None and drafts.traits(anchor).is_instruction:
        return f"it is complete when the {anchor.op} is"
    is_alike = draft.domain == producer.domain
    if not is_alike and math.prod(draft.domain) != math.prod(producer.domain):
        return "the kernel that uses it computes another number of elements"
    moved = drafts.moved(draft)
    if moved and not moved.isdisjoint(tensors):
        return "it is used at other elements than it is computed at"
    if not _walks_alike(drafts, draft, producer):
        return "it is used in another shape"
    if len(draft.nodes) + len(producer.nodes) > max_nodes:
        return f"the two kernels compute more than {max_nodes} nodes"
    if _has_many_streams(drafts, draft, producer):
        return f"the two kernels use more than {MAX_STREAMS} buffers"
    return LOOKED_UP if _loses_vectors(drafts, draft, producer) else None


def _loses_vectors(drafts: Drafts, draft: Draft, producer: Draft) -> bool:
    """Return whether one loop for both would do by elements what is worth doing by vectors."""
    if not drafts.has_lookups:
        return False
    nodes, anchor = draft.nodes | producer.nodes, drafts.anchor_spec(producer)
    if not any(drafts.is_apart(node, anchor) for node in nodes):
        return False
    return sum(drafts.flops(node) for node in nodes) > CHEAP_FLOPS


def _walks_alike(drafts: Drafts, draft: Draft, producer: Draft) -> bool:
    """Return whether the loops of `producer`, over as many elements, can compute `draft`.

    In another shape the elements are the same and in the same order, but an index along an axis
    would have to be divided out of the position, unless the loops only split its axes.
    """
    is_alike = draft.domain == producer.domain
    if 0 in draft.domain:  # there is no position to divide an index out of
        has_shapes = any(drafts.traits(node).is_reshape for node in draft.nodes)
        return is_alike and not has_shapes
    if is_alike or _without_ones(draft.domain) == _without_ones(producer.domain):
        return True
    if only_splits(draft.domain, producer.domain):
        return True
    if producer.anchor is None:
        return only_splits(producer.domain, draft.domain)
    return all(_keeps_position(node, drafts.traits(node)) for node in draft.nodes)


def _keeps_position(node: Node, traits: Traits) -> bool:
    """Return whether `node` may be computed in another shape, element by element."""
    return traits.is_elementwise or (traits.is_one_to_one and node.inputs[0].type.count == 1)


def _without_ones(shape: tuple[int, ...]) -> list[int]:
    return [n for n in shape if n != 1]


def _has_many_streams(drafts: Drafts, a: Draft, b: Draft) -> bool:
    """Return whether the two would read and write more than `MAX_STREAMS` tensors together."""
    by_a, by_b = drafts.read_from_memory(a), drafts.read_from_memory(b)
    written = len(a.results) + len(b.results)
    if len(by_a) + len(by_b) + written <= MAX_STREAMS:
        return False
    read = {t for t in by_a if t.node not in b.nodes}
    read.update(t for t in by_b if t.node not in a.nodes)
    return len(read) + written > MAX_STREAMS


class _Ancestry:
    """Which group needs which, kept while groups merge: a set of bits for each group.

    Bit i stands for the i-th group in order; a group's bits say which groups must run before it,
    at any distance. Beside that, the groups that read from a group are listed, so that what it
    gains is brought to those that need it and nobody else is looked at.
    """

    def __init__(self, drafts: Drafts, ordered: list[Draft]) -> None:
        self._drafts = drafts
        self._number = {draft: i for i, draft in enumerate(ordered)}
        self._before = [0] * len(ordered)
        self._users: list[list[Draft]] = [[] for _ in ordered]

    def add(self, draft: Draft, producers: Iterable[Draft]) -> None:
        before = 0
        for producer in producers:
            number = self._number[producer]
            before |= 1 << number | self._before[number]
            self._users[number].append(draft)
        self._before[self._number[draft]] = before

    def between(self, producer: Draft, reads: Iterable[Draft]) -> Draft | None:
        """Return a group that needs `producer`, of those that a third one `reads`, if any does."""
        number = self._number[producer]
        for read in reads:
            if self._before[self._number[read]] >> number & 1:
                return read  # no group needs itself
        return None

    def merge(self, draft: Draft, producer: Draft, tensors: Iterable[Tensor]) -> None:
        """Merge `draft`, the last group added or what it became, into `producer`.

        There must be no group between them; `tensors` are what the one reads of the other.
        """
        own, number = self._number[draft], self._number[producer]
        between = [node for tensor in tensors for node in self._drafts.reshapes(tensor)]
        self._drafts.merge(draft, producer, between)
        self._users[number] += self._users[own]
        gained = self._before[own] & ~(1 << number) & ~self._before[number]
        if gained:
            self._before[number] |= gained
            self._spread(number, gained)

    def _spread(self, number: int, gained: int) -> None:
        """Make whatever needs the group `number` need what that has gained."""
        pending = [number]
        while pending:
            for user in self._users[pending.pop()]:
                at = self._number[user.final()]
                # A user that has all of it has passed it on already, and no group needs itself.
                missing = gained & ~self._before[at]
                if missing and at != number:
                    self._before[at] |= missing
                    pending.append(at)
