"""Nest of outputs: what a step returns, and takes as `out=`, around what native code gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.frontend.nests import Nest, flatten, is_leaf, unflatten
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class OutputNest:
    """The nest of so many outputs. Native code gives one, a tuple or a list of them, or None.

    `sequence` is list or tuple, if the nest is one of leaves alone.
    """

    nest: Nest
    count: int
    is_single: bool
    is_nothing: bool
    sequence: type[Sequence[Any]] | None

    @property
    def is_list(self) -> bool:
        """Whether native code makes the list. Of nothing it makes none."""
        return self.sequence is list and self.count > 0

    @property
    def is_direct(self) -> bool:
        """Whether what native code gives is returned as it is."""
        return self.is_single or self.is_nothing or self.sequence is tuple or self.is_list

    def of(self, result: Any) -> Any:
        """Return what native code gave in the nest."""
        if self.is_direct:
            return result
        return unflatten(self.nest, () if result is None else result)

    def flat(self, out: Any) -> Sequence[Any] | None:
        """Return the arrays of `out` if they are side by side in it, None for any other nest."""
        if self.is_single:
            return (out,)
        if self.sequence is None or type(out) is not self.sequence or len(out) != self.count:
            return None
        arrays: Sequence[Any] = out
        return arrays


def output_nest_of(nest: Nest, count: int) -> OutputNest:
    """Return what is known of a nest of `count` outputs."""
    kind = nest.type
    is_sequence = kind in (list, tuple) and all(map(is_leaf, nest.children()))
    is_nothing = nest == flatten(None)[1]
    return OutputNest(nest, count, is_leaf(nest), is_nothing, kind if is_sequence else None)
