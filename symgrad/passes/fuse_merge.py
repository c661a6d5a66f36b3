"""The second step of the fuse pass: groups of Maps join the group that computes their operand.

The result is an epilogue of a Reduce or Contract, or a Map kernel with several results. It must
cover the same elements in the same order, and must not make two groups wait for each other.
"""

from __future__ import annotations

from symgrad.graph.kernel_spec import Place, ScatterAdd
from symgrad.passes.draft import NESTED, Draft, Drafts

MAX_STREAMS = 24  # buffers a kernel reads and writes: more thrash the ways of the L1 cache


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


def _can_merge(drafts: Drafts, draft: Draft, producer: Draft, max_nodes: int) -> bool:
    if draft.anchor is not None or draft.domain != producer.domain:
        return False
    if producer.anchor and isinstance(drafts.specs[producer.anchor], (Place, ScatterAdd, *NESTED)):
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
        homes = (
            self._drafts.home.get(self._drafts.stored(t).node)
            for t in self._drafts.read_from_memory(draft)
        )
        found = (home.final() for home in homes if home is not None)
        return list({id(d): d for d in found if d is not draft}.values())

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
