"""Shape agreement of operands that do not broadcast, such as scores and their labels."""

from __future__ import annotations

from symgrad.errors import ShapeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.marks import match_shape
from symgrad.graph.types import Shape


def shaped(op: str, name: str, x: Tensor, of: str, shape: Shape) -> Tensor:
    """Return operand `name` with its shape written as `shape`, which is that of `of`.

    Raises `ShapeError` that names both if they differ; of sizes that are unknown the program finds
    it when it is called.
    """
    try:
        meet_shapes(op, name, x.type, of, x.type.with_shape(shape))
    except ShapeError as error:
        error.source = user_source()
        raise
    return match_shape(x, shape)
