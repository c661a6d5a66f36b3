"""Derivatives of functions of matrices: by the function of a block matrix. No op is declared here.

Of f([[a, e], [0, a]]), f(a) is on the diagonal, and the Frechet derivative of f at a in the
direction e is in the corner (Mathias, 1996). For a root x of a that derivative l is the solution of
Sylvester's equation x l + l x = e.
"""

from __future__ import annotations

from collections.abc import Callable

from symgrad.graph.node import Tensor
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.triangles import matrix_transpose
from symgrad.graph.ops.views import narrow


def adjoint_derivative(function: Callable[[Tensor], Tensor], a: Tensor, g: Tensor) -> Tensor:
    """Return the gradient by `a` of `function(a)`, whose gradient is `g`.

    That is the Frechet derivative at the transpose of `a` in the direction `g`.
    """
    flipped = matrix_transpose(a)
    last = a.ndim - 1
    top = concat([flipped, g], axis=last)
    bottom = concat([filled_like(a, 0), flipped], axis=last)
    n = a.shape[-1]
    found = function(concat([top, bottom], axis=last - 1))
    return narrow(narrow(found, last - 1, 0, n), last, n, n)
