"""Scopes of the verifier of the loop IR: what is bound where a statement stands."""

from __future__ import annotations

from dataclasses import field

from symgrad.graph.dtypes import DType
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class VerifyScope:
    """What is bound at one place of a kernel, and which loops are around it.

    `unordered` are the loop variables a store must depend on. `lane` is the loop variable that
    differs between the lanes of a vector. `parts` is into how many parts a parallel loop around is
    cut, None outside of one, and `is_fold` says that there is a fold around. Loops over
    `prefetching` may prefetch what the next iteration of a loop over matrices touches. In dead
    code, where some loop around has no iterations, nothing is in bounds and nothing needs be.
    """

    values: dict[str, DType] = field(default_factory=dict)
    extents: dict[str, int] = field(default_factory=dict)
    unordered: frozenset[str] = frozenset()
    lane: str | None = None
    parts: int | None = None
    is_fold: bool = False
    is_dead: bool = False
    prefetching: frozenset[str] = frozenset()

    def inside(self, var: str, extent: int, *, ordered: bool, in_lanes: bool) -> VerifyScope:
        """Return the scope of a loop's body."""
        unordered = frozenset(() if ordered or extent <= 1 else (var,))
        return VerifyScope(
            dict(self.values),
            {**self.extents, var: extent},
            self.unordered | unordered,
            var if in_lanes else self.lane,
            self.parts,
            self.is_fold,
            self.is_dead or extent == 0,
            self.prefetching,
        )
