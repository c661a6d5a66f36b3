"""Shape functions: what shapes, of ints and of sizes that are not known yet, broadcast to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, SymgradError, user_source
from symgrad.graph import dtypes
from symgrad.graph.operands import broadcast_shapes as shape_of_operands
from symgrad.graph.sizes import Size
from symgrad.graph.types import Shape, TensorType


def broadcast_shapes(*shapes: Sequence[Any]) -> Shape:
    """Return the shape that shapes, of ints and sizes, broadcast to; an unknown size is never 1.

    Raises `ShapeError` for shapes that do not broadcast, `DTypeError` for what is no size.

    >>> sg.broadcast_shapes((3,), (2, 1))
    (2, 3)
    """
    given: dict[str, TensorType] = {}
    for place, shape in enumerate(shapes):
        sizes = tuple(int(n) if isinstance(n, np.integer) else n for n in shape)
        for size in sizes:
            if isinstance(size, bool) or not isinstance(size, int | Size):
                raise DTypeError("broadcast_shapes", f"{size!r} is no size", source=user_source())
        given[f"shape {place}"] = TensorType(dtypes.bool_, sizes)
    try:
        return shape_of_operands("broadcast_shapes", **given) if given else ()
    except SymgradError as error:
        error.source = user_source()
        raise
