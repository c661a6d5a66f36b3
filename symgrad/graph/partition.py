"""Partitioned state: a value that lies in equal parts, one on each rank of a group.

A whole is the elements of another state in row-major order, filled up with zeros so that it can be
cut in as many parts as there are ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from symgrad.graph.foreign_functions import ProcessGroup
from symgrad.graph.types import Array, State


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """How values of the shape of `owner` are cut: the part of this rank is a vector."""

    group: ProcessGroup
    owner: State

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole."""
        return self.owner.type.static_shape

    @property
    def part_length(self) -> int:
        """How many elements a part has, of which the last may be zeros behind the end."""
        return -(-math.prod(self.shape) // self.group.size)

    def part_of(self, whole: Array) -> Array:
        """Return the part of this rank."""
        start = self.group.rank * self.part_length
        piece = whole.reshape(-1)[start : start + self.part_length]
        return np.concatenate([piece, np.zeros(self.part_length - piece.size, whole.dtype)])

    def whole_of(self, part: Array) -> Array:
        """Return on rank 0 the whole, and elsewhere the part; all ranks give theirs."""
        parts = self.group.collect(part)
        if parts is None:
            return part
        return np.concatenate(parts)[: math.prod(self.shape)].reshape(self.shape)
