"""Slices of the stacks that a loop reads and writes, as a program is built."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.program.language import Argument, Slice, root
from symgrad.graph.node import Tensor


def tapes_among(slices: Sequence[Slice]) -> tuple[Slice, ...]:
    """Return those of `slices` that are of tapes."""
    return tuple(piece for piece in slices if root(piece).place == "tape")


def slices_of(stacks: Sequence[Argument], tensors: Sequence[Tensor], loop: int) -> list[Slice]:
    """Return the slices of `tensors`, which lie in `stacks`.

    A slice has its type from the tensor: the buffer may be that of the tensor in another shape.
    """
    types = (tensor.type for tensor in tensors)
    return [
        Slice(stack, loop, type_.with_shape(type_.shape[1:]))
        for stack, type_ in zip(stacks, types, strict=True)
    ]
