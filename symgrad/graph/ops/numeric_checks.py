"""check_numerics: an op that stops a program if a flag of several is set, for `compile`'s option.

It gathers zeros by the flags, each of which counts as an index of its own: one that is set is out
of range. So kernels, statuses and messages are those of indices that are data.
"""

from __future__ import annotations

import numpy as np

from symgrad.errors import NotFiniteError, ShapeError
from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.node import Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.gathering import iota
from symgrad.graph.structures import Gather
from symgrad.graph.types import Array, Attr, TensorType


def stop_if(flags: Tensor, labels: tuple[str, ...]) -> Tensor:
    """Return zeros, int64; the program stops if an element of `flags`, which are 0 or 1, is 1."""
    count = len(labels)
    places = add(iota((count,), 0), multiply(flags, count))
    return apply(check_numerics_op, filled((count,), 0, dtypes.int64), places, labels=labels)


def checked_by(node: Node) -> tuple[str, ...]:
    """Return the labels of a check."""
    labels = node.attrs["labels"]
    assert isinstance(labels, tuple), "a check has labels"
    return tuple(map(str, labels))


def stopped_by(node: Node, index: int) -> str:
    """Return the label of the flag that stopped a program with this index."""
    labels = checked_by(node)
    return labels[index - len(labels)]


def _infer(zeros: TensorType, places: TensorType, *, labels: tuple[Attr, ...]) -> TensorType:
    wanted = TensorType(dtypes.int64, (len(labels),))
    for operand in (zeros, places):
        if operand != wanted:
            raise ShapeError("check_numerics", f"{operand} is given for {len(labels)} labels")
    return places


def _reference(zeros: Array, places: Array, *, labels: tuple[Attr, ...]) -> Array:
    for label, is_set in zip(labels, places >= len(labels), strict=True):
        if is_set:
            raise NotFiniteError("check_numerics", f"{label} is not finite")
    return np.array(zeros[places])


def _kernel(_zeros: TensorType, _places: TensorType, *, labels: tuple[Attr, ...]) -> Gather:
    return Gather(0, 1, bound="strict")


check_numerics_op = define(
    "check_numerics",
    infer=_infer,
    reference=_reference,
    grad="none",
    kernel=_kernel,
)
