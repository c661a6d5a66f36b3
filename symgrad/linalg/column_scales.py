"""Scaling of columns (equilibration) by powers of 2, of which no digit is lost: those of QR."""

from __future__ import annotations

from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import multiply
from symgrad.graph.ops.comparison import greater, less, where
from symgrad.graph.ops.conversion import size_of, stop_gradient
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.structure import expand_dims, reduce_sum

# Of a column whose sum of sizes is beyond the first one, or whose mean is below its reciprocal,
# squares may overflow or vanish beside one another; by the second one it is moved to where they do
# not.
_FAR_SQUARES = {"f32": (2.0**55, 2.0**80), "f64": (2.0**480, 2.0**600)}


def scale_of_columns(a: Tensor) -> Tensor:
    """Return 1 for each column of matrices, or a power of 2 where its squares are far out.

    Columns have one each: what is small in another column than what is large does not vanish.
    """
    is_wide = a.dtype in (dtypes.float64, dtypes.complex128)
    far, shift = _FAR_SQUARES["f64" if is_wide else "f32"]
    total = reduce_sum(absolute(a), (a.ndim - 2,))
    limit = multiply(size_of(a.shape[-2], total.dtype), 1 / far)
    smaller = where(less(total, limit), shift, filled_like(total, 1))
    scale = stop_gradient(where(greater(total, far), 1 / shift, smaller))
    return cast(expand_dims(scale, axis=-2), a.dtype)
