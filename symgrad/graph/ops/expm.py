"""Matrix exponential: the op, its gradient, and its algorithm, scaling and squaring."""

from __future__ import annotations

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.batch_rules import batch_in_front
from symgrad.graph.build import apply
from symgrad.graph.nested import Traced
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.block_matrices import expansion, in_parts
from symgrad.graph.ops.block_matrices import product as block_product
from symgrad.graph.ops.comparison import less, where
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.lu import linear_solve, lu
from symgrad.graph.ops.matrix_functions import adjoint_derivative
from symgrad.graph.ops.powers import exp2, log2
from symgrad.graph.ops.reduction import max as greatest
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.structure import broadcast_to, reduce_sum, reshape
from symgrad.graph.ops.triangles import identity_like
from symgrad.graph.ops.triangular import check_square
from symgrad.graph.ops.whole_numbers import ceil
from symgrad.graph.structures import Call
from symgrad.graph.types import UNBOUNDED, Array, TensorType

# Of the numerator of the Pade approximant of degree 13 (Higham, 2005), and the 1-norm up to which
# it is exact to rounding in float64.
_PADE = (
    *(64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800),
    *(129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920),
    *(40840800, 960960, 16380, 182, 1),
)
_LARGEST_NORM = 5.371920351148152
_MOST_SQUARINGS = 1100  # as large as a float64 can be


def expm(a: Tensor) -> Tensor:
    """Return the exponentials of square matrices."""
    return apply(expm_op, a)


def _infer(a: TensorType) -> TensorType:
    check_square("expm", "a", a)
    return a


def _reference(a: Array) -> Array:
    """Sum the Taylor series of a matrix that is halved until it is small."""
    wide = a.astype("f8")
    norm = float(abs(wide).sum(-2).max(initial=0.0))
    if not norm < 2.0**20:
        return wide.astype(a.dtype) * float("nan")
    halvings = max(0, int(norm).bit_length() + 4)
    small = wide / 2.0**halvings
    term = total = small * 0 + identity_array(a)
    for k in range(1, 24):
        term = term @ small / k
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total.astype(a.dtype)


def identity_array(a: Array) -> Array:
    """Return ones on the diagonal of matrices of the size of those of an array."""
    return np.eye(a.shape[-1])


def _grad(node: Node, g: Tensor) -> Grads:
    # Mathias (1996): the exponential of [[a', g], [0, a']] has the Frechet derivative at a' in the
    # direction g in its corner, and that is the gradient.
    (a,) = node.inputs
    return (adjoint_derivative(expm, a, g),)


def _kernel(a: TensorType) -> Call:
    n = a.static_shape[-1]

    def expm(a: Tensor) -> list[Tensor]:
        (found,) = in_parts(lambda x: [_exponential(x)], reshape(a, (-1, n, n)))
        return [reshape(found, a.shape)]

    def nothing(a: Tensor) -> list[Tensor]:
        return [a]

    return expansion(expm if a.count else nothing, a)


def _exponential(a: Tensor) -> Tensor:
    count = a.type.static_shape[0]
    norm = greatest(reduce_sum(absolute(a), (1,)), axis=1)
    halvings = ceil(maximum(log2(divide(norm, _LARGEST_NORM)), 0.0))
    # What is infinite or nan stays so without being halved for ever.
    halvings = where(less(halvings, _MOST_SQUARINGS), halvings, filled_like(halvings, 0))
    factor = reshape(exp2(subtract(filled_like(halvings, 0), halvings)), (count, 1, 1))
    start = _approximant(multiply(a, broadcast_to(factor, a.shape)))
    number = astype(greatest(halvings, axis=0), dtypes.int64)
    zero = constant(0, dtypes.int64)
    body = Traced("squaring", [start.type, zero.type])

    def square(x: Tensor, i: Tensor) -> list[Tensor]:
        is_left = less(astype(i, a.dtype), halvings)
        is_left = broadcast_to(reshape(is_left, (count, 1, 1)), x.shape)
        return [where(is_left, block_product(x, x), x), add(i, 1)]

    body.run(square)
    return scan_loop(number, [start, zero], (), body, UNBOUNDED).outputs[0]


def _approximant(a: Tensor) -> Tensor:
    one = identity_like(a)
    a2 = block_product(a, a)
    a4 = block_product(a2, a2)
    a6 = block_product(a4, a2)
    odd, even = (
        add(
            block_product(a6, _sum([(_PADE[k + 12], a6), (_PADE[k + 10], a4), (_PADE[k + 8], a2)])),
            _sum([(_PADE[k + 6], a6), (_PADE[k + 4], a4), (_PADE[k + 2], a2), (_PADE[k], one)]),
        )
        for k in (1, 0)
    )
    odd = block_product(a, odd)
    below = subtract(even, odd)
    return linear_solve(below, *lu(below), add(even, odd))


def _sum(terms: list[tuple[int, Tensor]]) -> Tensor:
    total = multiply(terms[0][1], float(terms[0][0]))
    for factor, x in terms[1:]:
        total = add(total, multiply(x, float(factor)))
    return total


expm_op = define(
    "expm", infer=_infer, reference=_reference, grad=_grad, kernel=_kernel, batch=batch_in_front
)
