"""Finite differences of neighbours along an axis; no op is declared here."""

from __future__ import annotations

from typing import Any

from symgrad.errors import ShapeError, user_source
from symgrad.graph.given_arrays import require_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, normalize_axis, promote_operands
from symgrad.graph.ops.arithmetic import subtract
from symgrad.graph.ops.comparison import not_equal
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import broadcast_to
from symgrad.graph.ops.views import narrow
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, at_least
from symgrad.graph.types import require_node_count


@public(is_standard=True)
def diff(
    x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Tensor:
    """Compute the `n`-th differences of neighbours along `axis`, which becomes shorter by n.

    `prepend` and `append` are joined to `x` along the axis first; a scalar as one element. Of bools
    it says where neighbours differ. The gradient by an element is that of the difference it ends,
    less that of the one it begins. Raises `ShapeError` for a negative `n`.

    >>> sg.run(sg.diff(sg.constant([1, 4, 9, 16]), n=2))
    array([2, 2], dtype=int32)
    """
    tensor = as_tensor(x)
    axis, n = normalize_axis("diff", axis, tensor.ndim), require_int("diff", "n", n)
    if n < 0:
        raise ShapeError("diff", f"n = {n} is negative", source=user_source())
    if n == 0:
        return tensor
    given = [part for part in (prepend, tensor, append) if part is not None]
    parts = [_with_axes(tensor, part, axis) for part in promote_operands("diff", *given)]
    joined = concat(parts, axis=axis)
    size = joined.shape[axis]
    times = min(n, size) if isinstance(size, int) else n  # of none there are none
    require_node_count("diff", times, "differences")
    for number in range(times):
        # The size is that of `joined` less what is gone, and not a size of the last one's: no
        # size of hundreds in one another is made.
        joined = _differences(joined, axis, at_least(size - number - 1, 0))
    return joined


def _with_axes(x: Tensor, part: Tensor, axis: int) -> Tensor:
    """Return what is joined to `x`, a scalar as one element along the axis."""
    if part.ndim or not x.ndim:
        return part
    return broadcast_to(part, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))


def _differences(x: Tensor, axis: int, count: Dim) -> Tensor:
    """Return the differences of neighbours: `count`, one less than elements, and none of none."""
    start: Dim = x.shape[axis] - count
    after, before = narrow(x, axis, start, count), narrow(x, axis, 0, count)
    return not_equal(after, before) if x.dtype.is_bool else subtract(after, before)
