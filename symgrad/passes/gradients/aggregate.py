"""Cotangent accumulation: summing what several consumers contribute to one tensor's gradient.

Only the order of the additions is decided here, and it never depends on anything but the terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import add


class AggregationMethod(Enum):
    """How the cotangents that reach one tensor are added; results differ by rounding at most."""

    ADD_N = 0
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2
    DEFAULT = 0


def add_all(terms: Sequence[Tensor], method: AggregationMethod) -> Tensor:
    """Accumulate cotangents of one type: from the left for ADD_N, else in balanced pairs."""
    assert terms, "there is nothing to add"
    if method is AggregationMethod.ADD_N:
        total = terms[0]
        for term in terms[1:]:
            total = add(total, term)
        return total
    level = list(terms)
    while len(level) > 1:
        pairs = [add(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs if len(level) % 2 == 0 else [*pairs, level[-1]]
    return level[0]
