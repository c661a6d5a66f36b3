"""List scheduling of groups for memory: those that free memory run as soon as they can.

Otherwise groups run in the order of the graph, in which the gradients of weights come last: until
then both operands of each are alive.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from symgrad.cost_model import FEW_BYTES_MADE
from symgrad.graph.node import Tensor


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
