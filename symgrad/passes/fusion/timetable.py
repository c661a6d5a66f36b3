"""Timetable of groups: in which order they run where the memory of a program is limited.

Without one, groups run in the order of the graph, and what is computed twice would be one kernel
as soon as fusion sees both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from symgrad.cost_model import FEW_BYTES_MADE
from symgrad.graph.node import Node, Tensor
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Timetable:
    """When the groups of nodes run. Without `places`, those that free memory run first.

    `places` numbers nodes in the order of their groups. What is computed again must not be computed
    sooner, or it would be kept as long as before: `not_before` has the place that it comes behind.
    """

    places: Mapping[Node, int]
    not_before: Mapping[Node, int]

    def place(self, nodes: Iterable[Node]) -> int:
        """Return the place of a group with these results."""
        return max((self.places[node] for node in nodes if node in self.places), default=0)

    def is_too_early(self, nodes: Iterable[Node], producer: Iterable[Node]) -> bool:
        """Return whether a group with the results `producer` runs before one of `nodes` may."""
        if not self.not_before:
            return False
        first = max((self.not_before.get(node, -1) for node in nodes), default=-1)
        return self.place(producer) < first


FREEING = Timetable({}, {})


def freeing_order(
    order: Sequence[int],
    after: Sequence[Collection[int]],
    reads: Sequence[Collection[Tensor]],
    made: Sequence[Collection[Tensor]],
) -> list[int]:
    """List scheduling for memory: return `order` with groups earlier that free what they take.

    `after` has the groups that wait for each, `reads` and `made` the temporaries that each reads
    and leaves in memory.
    """
    place = {number: i for i, number in enumerate(order)}
    waiting = [0] * len(order)
    for following in after:
        for number in following:
            waiting[number] += 1
    readers: dict[Tensor, int] = {}
    for tensors in reads:
        for tensor in tensors:
            readers[tensor] = readers.get(tensor, 0) + 1
    ready = [number for number in order if not waiting[number]]
    found: list[int] = []
    while ready:
        freeing = [n for n in ready if _is_freeing(reads[n], made[n], readers)]
        chosen = min(freeing or ready, key=place.__getitem__)
        ready.remove(chosen)
        found.append(chosen)
        for tensor in reads[chosen]:
            readers[tensor] -= 1
        for user in after[chosen]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    return found


def _is_freeing(
    reads: Collection[Tensor], made: Collection[Tensor], readers: Mapping[Tensor, int]
) -> bool:
    """Return whether a group takes hardly more memory than what only it still reads.

    One that only writes a variable, and frees nothing, may as well come later: until then others
    may compute again what they make of the old value.
    """
    freed = sum(t.type.nbytes for t in reads if readers[t] == 1)
    taken = sum(t.type.nbytes for t in made)
    return taken <= freed + FEW_BYTES_MADE and (freed > 0 or taken > 0)
