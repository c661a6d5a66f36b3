"""Real embedding of complex matrices, element by element: a + ib as the block [[a, -b], [b, a]].

It keeps triangles: a triangle whose diagonal is real is embedded as a triangle. So a Cholesky
factor of an embedding is the embedding of the factor, which is the only one with a positive
diagonal. All matrices may have a batch; no op is declared here.
"""

from __future__ import annotations

from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import negative
from symgrad.graph.ops.complex_parts import complex, imag, real
from symgrad.graph.ops.slicing import stack
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.views import narrow


def interleaved(x: Tensor) -> Tensor:
    """Return complex matrices as real ones of twice the size."""
    re, im = real(x), imag(x)
    *batch, m, n = x.shape
    odd, even = (stack(pair, axis=-1) for pair in ((re, negative(im)), (im, re)))
    lines = [reshape(each, (*batch, m, 2 * n)) for each in (odd, even)]
    return reshape(stack(lines, axis=-2), (*batch, 2 * m, 2 * n))


def interleaved_columns(x: Tensor) -> Tensor:
    """Return the first column of each pair of columns of the embedding."""
    *batch, m, n = x.shape
    return reshape(stack([real(x), imag(x)], axis=-2), (*batch, 2 * m, n))


def from_interleaved(x: Tensor) -> Tensor:
    """Return the complex matrices of an embedding."""
    *batch, m, n = x.shape
    pairs = reshape(x, (*batch, m, n // 2, 2))
    firsts = narrow(pairs, pairs.ndim - 1, 0, 1)
    return from_interleaved_columns(reshape(firsts, (*batch, m, n // 2)))


def from_interleaved_columns(x: Tensor) -> Tensor:
    """Return the complex matrices of the first columns of an embedding."""
    *batch, m, n = x.shape
    pairs = reshape(x, (*batch, m // 2, 2, n))
    axis = pairs.ndim - 2
    re, im = (reshape(narrow(pairs, axis, i, 1), (*batch, m // 2, n)) for i in (0, 1))
    return complex(re, im)
