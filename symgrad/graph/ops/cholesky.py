"""Cholesky factorisation: the op, its closed-form gradient, and its algorithm by blocks."""

from __future__ import annotations

from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.arithmetic import add, subtract
from symgrad.graph.ops.block_matrices import (
    BLOCK,
    WRITTEN_OUT,
    block,
    cuts,
    expansion,
    in_parts,
    less_product,
    shared,
    to_columns,
    transposed,
    write_block,
)
from symgrad.graph.ops.cholesky_gradient import cholesky_gradient, closed_form
from symgrad.graph.ops.complex_parts import complex, conj, imag, real
from symgrad.graph.ops.interleaved import from_interleaved, interleaved
from symgrad.graph.ops.small_matrices import cholesky_columns, cholesky_or_nan
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.triangles import (
    triangle,
)
from symgrad.graph.ops.triangular import TriangularSolver, check_square
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType, static


def cholesky(a: Tensor) -> Tensor:
    """Return the lower factors L of Hermitian matrices a = L L', of which lower triangles count."""
    return apply(cholesky_op, a)


def _infer(a: TensorType) -> TensorType:
    check_square("cholesky", "a", a, of_complex=True)
    return a


def _grad(node: Node, g: Tensor) -> Grads:
    if not g.dtype.is_complex:
        return (cholesky_gradient(node.output, g),)
    # The closed form is for the conjugates of gradients.
    return (conj(closed_form(node.output, conj(g))),)


def _kernel(a: TensorType) -> Call:
    n = static(a.static_shape[-1])

    def of_hermitian(a: Tensor) -> list[Tensor]:
        # Of what is on the diagonal the real part counts.
        given = complex(real(a), triangle(imag(a), lower=True, k=-1))
        return [from_interleaved(cholesky(interleaved(given)))]

    def factor(a: Tensor) -> list[Tensor]:
        matrices = reshape(a, (-1, n, n))
        if n <= WRITTEN_OUT:
            return [reshape(_written_out(matrices), a.shape)]
        (found,) = in_parts(lambda x: [_lower_factor(x)], matrices)
        return [reshape(found, a.shape)]

    def nothing(a: Tensor) -> list[Tensor]:
        return [a]

    algorithm = of_hermitian if a.dtype.is_complex else factor
    return expansion(algorithm if a.count else nothing, a)


def _lower_factor(a: Tensor) -> Tensor:
    n = a.type.static_shape[-1]
    upper = _upper_factor(a, BLOCK if n > BLOCK else WRITTEN_OUT)
    found = triangle(transposed(upper), lower=True)
    last = block(upper, (n - 1, n), (n - 1, n))
    # What follows a pivot that is nan is nan; what comes before it is no factor either.
    return add(found, broadcast_to(subtract(last, last), found.shape))


def _written_out(a: Tensor) -> Tensor:
    n = a.type.static_shape[-1]
    return reshape(cholesky_columns(to_columns(a), n), a.shape)


def _upper_factor(a: Tensor, size: int) -> Tensor:
    """Return U of a = U' U row by row of blocks (left-looking): right sides lie side by side.

    It is written over `a`, of which the lower triangle is read and is left below the diagonal.
    """
    _, n, _ = a.type.static_shape
    upper = a
    solver = TriangularSolver(lower=False, transpose=True)
    for low, high in cuts(n, size):
        rest = transposed(block(upper, (low, n), (low, high)))
        if low:
            above = block(upper, (0, low), (low, high)), block(upper, (0, low), (low, n))
            rest = less_product(rest, *above, transpose_a=True)
        size = high - low
        factor = _diagonal(block(rest, (0, size), (0, size)))
        upper = write_block(upper, factor, low, low)
        if high < n:
            beside = block(rest, (0, size), (size, n - low))
            upper = write_block(upper, solver.solve(factor, beside), low, high)
    return upper


def _diagonal(a: Tensor) -> Tensor:
    """Return the upper factor of a block, given by its upper triangle."""
    if a.type.static_shape[-1] <= WRITTEN_OUT:
        return transposed(_written_out(transposed(a)))

    def factor_block(a: Tensor) -> list[Tensor]:
        return [_upper_factor(transposed(a), WRITTEN_OUT)]

    (found,) = shared(factor_block, a)
    return found


def _batch(operands: Operands) -> Tensor:
    return operands.apply(*operands.lifted())


def _reference(a: Array) -> Array:
    return cholesky_or_nan(a)


cholesky_op = define(
    "cholesky",
    infer=_infer,
    reference=_reference,
    grad=_grad,
    kernel=_kernel,
    batch=_batch,
    of_pairs="expansion",
)
