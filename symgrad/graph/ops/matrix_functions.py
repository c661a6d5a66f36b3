"""Derivatives of functions of matrices: by the function of a block matrix. No op is declared here.

Of f([[a, e], [0, a]]), f(a) is on the diagonal, and the Frechet derivative of f at a in the
direction e is in the corner (Mathias, 1996). For a root x of a that derivative l is the solution of
Sylvester's equation x l + l x = e.

The derivative is linear in e, but an algorithm that halves the block matrix until it is small, or
iterates until it changes little, goes by the largest of a and e (Al-Mohy and Higham, 2009, section
6). So e is scaled to be as large as a first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import divide, multiply, subtract
from symgrad.graph.ops.comparison import greater, where
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.extrema import maximum, minimum
from symgrad.graph.ops.greatest_numbers import greatest_number
from symgrad.graph.ops.powers import exp2, log2
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import broadcast_to
from symgrad.graph.ops.triangles import matrix_transpose
from symgrad.graph.ops.views import narrow
from symgrad.graph.ops.whole_numbers import ceil


def adjoint_derivative(function: Callable[[Tensor], Tensor], a: Tensor, g: Tensor) -> Tensor:
    """Return the gradient by `a` of `function(a)`, whose gradient is `g`.

    That is the Frechet derivative at the transpose of `a` in the direction `g`.
    """
    if 0 in a.shape[-2:]:
        return filled_like(a, 0)
    flipped = matrix_transpose(a)
    last = a.ndim - 1
    scale = broadcast_to(_scale(a, g), a.shape)
    top = concat([flipped, divide(g, scale)], axis=last)
    bottom = concat([filled_like(a, 0), flipped], axis=last)
    n = a.shape[-1]
    found = function(concat([top, bottom], axis=last - 1))
    return multiply(narrow(narrow(found, last - 1, 0, n), last, n, n), scale)


def _scale(a: Tensor, g: Tensor) -> Tensor:
    """Return the power of two by which `g` is larger than `a`, for each matrix.

    No gradient goes through it, since the derivative does not depend on it.
    """
    most = np.finfo(a.dtype.numpy).maxexp - 2
    exponent = subtract(_exponent(g), _exponent(a))
    return exp2(stop_gradient(maximum(minimum(exponent, float(most)), float(-most))))


def _exponent(x: Tensor) -> Tensor:
    """Return the least power of two that no element is larger than, 0 where all are 0."""
    # A size that is not known may be 0: of no elements the greatest is -inf.
    largest = greatest_number(absolute(x), (x.ndim - 2, x.ndim - 1))
    return ceil(log2(where(greater(largest, 0.0), largest, filled_like(largest, 1))))
