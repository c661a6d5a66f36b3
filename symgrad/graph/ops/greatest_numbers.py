"""Maxima that pass over nan, C's fmax: what exponentials of a row are taken about.

# Note [The greatest number of a row]
# The exponentials of a row are taken of its elements less the greatest of them, so that none
# overflows, and any other number would do. Of a row with a nan each result is nan anyway: the
# exponential of a nan, less any number, is nan and a term of the sum, by which all are divided or
# of which the logarithm is added. So the maximum need not be nan there, and one that passes over
# nan is what the instruction of a processor gives: with the element first and what has been found
# second, `a > b ? a : b` is one instruction of x86, where one that hands on nan takes three. What
# has been found begins with -inf and is never nan itself; it stays -inf in a row of nan alone.
"""

from __future__ import annotations

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.elementwise import is_float, rounded_once
from symgrad.graph.ops.reduction import infer_reduced
from symgrad.graph.ops.structure import Axes, accumulator_dtype, kept_shape, reshape
from symgrad.graph.structures import Reduce
from symgrad.graph.types import Array, TensorType


def greatest_number(x: Tensor, axes: Axes) -> Tensor:
    """Take the greatest float along `axes`, which are kept, passing over nan, without a gradient.

    -inf where all are nan, and of nothing.
    """
    # See Note [The greatest number of a row].
    if not axes:
        return stop_gradient(x)
    return stop_gradient(reshape(apply(fmax_op, x, axes=axes), kept_shape(x.type, axes)))


def _fmax_reference(x: Array, *, axes: Axes) -> Array:
    return rounded_once(lambda wide: np.fmax.reduce(wide, axis=axes, initial=-np.inf))(x)


def _fmax_kernel(x: TensorType, *, axes: Axes) -> Reduce:
    wide = accumulator_dtype(x.dtype)
    return Reduce(
        axes,
        dtypes=(wide,),
        identity=(-np.inf,),
        item=lambda s, item, _position: (s.cast(item, wide),),
        combine=lambda s, a, b: (s.select(s.call("gt", b[0], a[0]), b[0], a[0]),),
        finish=lambda s, folded: s.cast(folded[0], x.dtype),
    )


fmax_op = define(
    "fmax",
    infer=infer_reduced("fmax", is_float, needs_elements=False),
    reference=_fmax_reference,
    grad="none",
    kernel=_fmax_kernel,
)
