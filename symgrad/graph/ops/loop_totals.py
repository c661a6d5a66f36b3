"""Cotangent accumulators of a loop: the loop variables of its gradient, and their masks.

They are the gradients of the loop variables, and the sums so far of those of the invariants. One
that is masked (see `masks.py`) has a loop variable more, its mask as a condition: 0 at the end of
the loop must still be 0 in the iteration before, whatever that multiplies it by. Whether a total is
masked is seen when the body has been traced; then it is traced once more with the masks. Most loops
have none.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import add_op
from symgrad.graph.ops.masks import masked, read_mask, split_mask, uniform_mask
from symgrad.graph.ops.subgraph import is_zero


class LoopTotals:
    """The totals of a loop: what they start with, and those that were found to be masked.

    `sums_take_mask` says of the sums for invariants whether anyone could make use of a mask,
    `has_masked_seeds` whether what arrives at single iterations is masked.
    """

    def __init__(
        self,
        final: Sequence[Tensor],
        sums: Sequence[Tensor],
        sums_take_mask: Sequence[bool],
        has_masked_seeds: bool,
    ) -> None:
        self._start = [*final, *sums]
        self._final_count = len(final)
        self._can_have_mask = [True] * len(final) + [
            takes and (is_zero(t) or read_mask(t) is not None)
            for takes, t in zip(sums_take_mask, sums, strict=True)
        ]
        given = [i for i, t in enumerate(final) if read_mask(t) is not None]
        # What is 0 at the end may be masked by what others are, or not at all.
        has_masks = has_masked_seeds or bool(given)
        self._tried = [i for i, t in enumerate(final) if has_masks and is_zero(t)]
        self._masked = sorted([*given, *self._tried])
        self._seen: list[int] = []
        self._unchanged: list[int] = []

    @property
    def initial(self) -> list[Tensor]:
        """The loop variables before the first iteration: totals, and then masks."""
        split = {i: split_mask(self._start[i]) for i in self._masked}
        values = [split[i][0] if i in split else t for i, t in enumerate(self._start)]
        conditions = [
            uniform_mask(self._start[i], not is_zero(self._start[i])) if mask is None else mask
            for i, (_, mask) in split.items()
        ]
        return [t for t in (*values, *conditions) if t is not None]

    def read(self, variables: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Return the totals, under their masks, and what stands behind all loop variables."""
        size = len(self._start)
        end = size + len(self._masked)
        totals = list(variables[:size])
        for i, condition in zip(self._masked, variables[size:end], strict=True):
            totals[i] = masked(totals[i], condition)
        return totals, list(variables[end:])

    def results(self, outputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Do what `read` does with the outputs of the loop; what no iteration changes is as before.

        So zeros that stand for no gradient are still known to be that.
        """
        totals, rest = self.read(outputs)
        for i in self._unchanged:
            totals[i] = self._start[i]
        return totals, rest

    def write(self, totals: Sequence[Tensor], before: Sequence[Tensor]) -> list[Tensor]:
        """Return the loop variables for the next iteration, and look for masks."""
        self._seen = [i for i, t in enumerate(totals) if self._is_masked(i, t, before[i])]
        self._unchanged = [
            i
            for i, t in enumerate(totals)
            if t is before[i] or (is_zero(t) and is_zero(self._start[i]))
        ]
        values, conditions = list(totals), []
        for i in self._masked:
            inner, condition = split_mask(totals[i])
            values[i] = totals[i] if inner is None else inner
            is_given = not is_zero(totals[i])
            conditions.append(uniform_mask(totals[i], is_given) if condition is None else condition)
        return [*values, *conditions]

    def is_settled(self) -> bool:
        """Return whether the masks are those that the body was traced with; else it must be again.

        Totals that turned out to be masked have a mask from now on, and those for which one was
        tried in vain have none.
        """
        vain = [i for i in self._tried if i not in self._seen]
        self._tried = []
        for i in vain:
            self._can_have_mask[i] = False
        masked_now = {i for i in (*self._masked, *self._seen) if self._can_have_mask[i]}
        is_same = masked_now == set(self._masked)
        self._masked = sorted(masked_now)
        return is_same

    def _is_masked(self, position: int, total: Tensor, before: Tensor) -> bool:
        if not self._can_have_mask[position]:
            return False
        if position < self._final_count:
            # Zeros from now on, which stand for no gradient, are a mask if they were none before.
            is_reset = is_zero(total) and (
                position in self._masked or not is_zero(self._start[position])
            )
            return is_reset or read_mask(total) is not None
        # To a sum that has no mask (yet) terms are added from the left.
        is_added = False
        while total is not before:
            if total.node.definition is not add_op or read_mask(total.node.inputs[1]) is None:
                return False
            total, is_added = total.node.inputs[0], True
        return is_added
