"""The second step of the fuse pass: groups of Maps join the group that computes their operand.

The result is an epilogue of a Reduce or Contract, or a Map kernel with several results. It must
cover the same elements in the same order, and must not make two groups wait for each other. In the
body of a loop, groups of Maps are merged as well if they only read the same tensor.
"""

from __future__ import annotations

from symgrad.graph.kernel_spec import Place, Scatter
from symgrad.passes.draft import NESTED, Draft, Drafts

MAX_STREAMS = 24  # buffers a kernel reads and writes: more thrash the ways of the L1 cache
MAX_GROUPS = 64  # in a body whose groups are compared with each other


def merge_from_operands(drafts: Drafts, max_nodes: int) -> None:
    """Merge groups in the order from operands to users."""
    ordered = sorted(drafts.all, key=lambda draft: draft.order)
    ancestry = _Ancestry(drafts, ordered)
    for opened in ordered:
        draft = opened
        producers = ancestry.producers(draft)
        ancestry.add(draft, producers)
        for candidate in sorted(producers, key=lambda d: (d.anchor is None, -d.order)):
            producer = candidate.final()
            if producer is draft or not _can_merge(drafts, draft, producer, max_nodes):
                continue
            if ancestry.merge(draft, producer):
                draft = producer


def merge_siblings(drafts: Drafts, max_nodes: int) -> None:
    """Merge groups of Maps over the same elements that read a tensor in common.

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
    if not is_small or _count_streams(drafts, draft, other) > MAX_STREAMS:
        return
    if _needs(drafts, draft, other) or _needs(drafts, other, draft):
        return
    draft.nodes |= other.nodes
    draft.results += other.results
    other.merged_into = draft


def _needs(drafts: Drafts, draft: Draft, other: Draft) -> bool:
    """Return whether `other` must run before `draft`."""
    pending, seen = [draft], {id(draft)}
    while pending:
        for producer in _producers(drafts, pending.pop()):
            if producer is other:
                return True
            if id(producer) not in seen:
                seen.add(id(producer))
                pending.append(producer)
    return False


def _producers(drafts: Drafts, draft: Draft) -> list[Draft]:
    """Return the groups that compute what `draft` reads."""
    homes = (drafts.home.get(drafts.stored(t).node) for t in drafts.read_from_memory(draft))
    found = (home.final() for home in homes if home is not None)
    return list({id(d): d for d in found if d is not draft}.values())


def _can_merge(drafts: Drafts, draft: Draft, producer: Draft, max_nodes: int) -> bool:
    if draft.anchor is not None or draft.domain != producer.domain:
        return False
    if producer.anchor and isinstance(drafts.specs[producer.anchor], (Place | Scatter, *NESTED)):
        return False  # these write their result piece by piece: there is no one element to go on
    if len(draft.nodes) + len(producer.nodes) > max_nodes:
        return False
    moved = drafts.moved(draft)
    for tensor in drafts.read_from_memory(draft):
        stored = drafts.stored(tensor)
        home = drafts.home.get(stored.node)
        if (
            home is not None
            and home.final() is producer
            and (stored is not tensor or tensor in moved)
        ):
            return False
    return _count_streams(drafts, draft, producer) <= MAX_STREAMS


def _count_streams(drafts: Drafts, a: Draft, b: Draft) -> int:
    read = {t for t in drafts.read_from_memory(a) if t.node not in b.nodes}
    read.update(t for t in drafts.read_from_memory(b) if t.node not in a.nodes)
    return len(read) + len(a.results) + len(b.results)


class _Ancestry:
    """Which group needs which, kept while groups merge: a set of bits for each group.

    Bit i stands for the i-th group in order; a group's bits say which groups must run before it,
    at any distance. Beside that, the groups that read from a group are listed, so that what it
    gains is brought to those that need it and nobody else is looked at.
    """

    def __init__(self, drafts: Drafts, ordered: list[Draft]) -> None:
        self._drafts = drafts
        self._number = {id(draft): i for i, draft in enumerate(ordered)}
        self._before = [0] * len(ordered)
        self._users: list[list[Draft]] = [[] for _ in ordered]

    def producers(self, draft: Draft) -> list[Draft]:
        """Return the groups that compute what `draft` reads."""
        return _producers(self._drafts, draft)

    def add(self, draft: Draft, producers: list[Draft]) -> None:
        before = 0
        for producer in producers:
            number = self._number[id(producer)]
            before |= 1 << number | self._before[number]
            self._users[number].append(draft)
        self._before[self._number[id(draft)]] = before

    def merge(self, draft: Draft, producer: Draft) -> bool:
        """Merge `draft`, the last group added or what it became, into `producer`.

        Does nothing and returns False if a third group needs one and is needed by the other.
        """
        own, number = self._number[id(draft)], self._number[id(producer)]
        others = [d for d in self.producers(draft) if d is not producer]
        if any(self._before[self._number[id(d)]] >> number & 1 for d in others):
            return False
        producer.nodes |= draft.nodes
        producer.results += draft.results
        draft.merged_into = producer
        self._users[number] += self._users[own]
        gained = self._before[own] & ~(1 << number) & ~self._before[number]
        if gained:
            self._before[number] |= gained
            self._spread(number, gained)
        return True

    def _spread(self, number: int, gained: int) -> None:
        """Make whatever needs the group `number` need what that has gained."""
        pending = [number]
        while pending:
            for user in self._users[pending.pop()]:
                at = self._number[id(user.final())]
                # Who has it all has brought it to its own users; a group does not need itself.
                missing = gained & ~self._before[at]
                if missing and at != number:
                    self._before[at] |= missing
                    pending.append(at)
