"""Traits of structures: what passes ask of one, instead of which one it is."""

from __future__ import annotations

from typing import Literal

from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Traits of a structure: what passes ask instead of which structure it is. None has a default.

    `home` says where it is computed: in each kernel of `users` that wants it; nowhere, since its
    elements are those of its `operand`; in a `kernel` with loops of its own; in a `program`, by
    instructions beside kernels or around them; or it is in `memory` already, as a leaf is.

    `reads` says which elements of its operands an element is made of: those at its `own` position
    in row-major order, `one` at another position, `many`, or `none`.

    `operands` says how they must lie: as `values`, which may be in registers; in strided memory,
    `all` of them, or the `first`; or, since no kernel reads them, in memory as a `whole`.

    `writes` says in what order a result is finished: each element at `once`, so that more can be
    done to it; in `pieces`, one after another; or by `rows`, over what its first operand holds.

    `is_free` says that it takes neither arithmetic nor memory traffic of its own.
    """

    home: Literal["users", "operand", "kernel", "program", "memory"]
    reads: Literal["own", "one", "many", "none"]
    operands: Literal["values", "all", "first", "whole"]
    writes: Literal["once", "pieces", "rows"]
    is_free: bool

    @property
    def is_inline(self) -> bool:
        """Whether it is computed wherever it is used."""
        return self.home == "users"

    @property
    def is_reshape(self) -> bool:
        """Whether the memory of its operand serves for it too."""
        return self.home == "operand"

    @property
    def is_instruction(self) -> bool:
        """Whether it is an instruction beside kernels: it runs graphs, or calls a function."""
        return self.home == "program"

    @property
    def is_anchor(self) -> bool:
        """Whether a group is made around it; no group has two."""
        return self.home in ("kernel", "program")

    @property
    def is_elementwise(self) -> bool:
        """Whether an element depends on those at its own position only."""
        return self.reads == "own"

    @property
    def is_one_to_one(self) -> bool:
        """Whether an element is made of one element of each operand, wherever that is."""
        return self.reads in ("own", "one")

    @property
    def only_moves(self) -> bool:
        """Whether its elements are elements of its operand, seen in another place or shape."""
        return self.is_free and self.is_one_to_one

    @property
    def writes_piecewise(self) -> bool:
        """Whether its result is finished only when its last loop is."""
        return self.writes in ("pieces", "rows")

    @property
    def writes_rows(self) -> bool:
        """Whether it leaves its first operand as it is, but for rows at indices that are data."""
        return self.writes == "rows"


# What an input, a constant or a variable is: it has no structure.
LEAF = Traits(home="memory", reads="none", operands="values", writes="once", is_free=True)
