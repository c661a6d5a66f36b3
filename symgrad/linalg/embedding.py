"""Real embedding of complex matrices: A + iB as the matrix [[A, -B], [B, A]] of twice the size.

Products, inverses, pseudoinverses and exponentials of embeddings are embeddings of these, of which
the first block column says all. Triangles are embedded element by element
(`graph/ops/interleaved.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import negative
from symgrad.graph.ops.complex_parts import complex, imag, real
from symgrad.graph.ops.lu import linear_solve, lu
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.views import narrow
from symgrad.graph.sizes import Dim


def _embedded(x: Tensor) -> Tensor:
    re, im = real(x), imag(x)
    rows = concat([re, negative(im)], axis=-1), concat([im, re], axis=-1)
    return concat(rows, axis=-2)


def _column(x: Tensor) -> Tensor:
    """Return the first block column of an embedding: the parts, one above the other."""
    return concat([real(x), imag(x)], axis=-2)


def _from_column(x: Tensor, rows: Dim, columns: Dim) -> Tensor:
    """Return the complex matrices, of so many rows and columns, of a first block column."""
    top, bottom = (_part(x, start, rows, columns) for start in (0, rows))
    return complex(top, bottom)


def _part(x: Tensor, start: Dim, rows: Dim, columns: Dim) -> Tensor:
    found = narrow(x, x.ndim - 2, start, rows)
    return narrow(found, x.ndim - 1, 0, columns)


def through_reals(
    function: Callable[[Tensor], Tensor], x: Tensor, *, is_turned: bool = False
) -> Tensor:
    """Apply a function of real matrices, which commutes with the embedding, to complex ones.

    With `is_turned` its result has the shape of the transpose. Real ones are left as they are.
    """
    if not x.dtype.is_complex:
        return function(x)
    found = function(_embedded(x))
    rows, columns = x.shape[-2:]
    return _from_column(found, columns, rows) if is_turned else _from_column(found, rows, columns)


def solve_through_reals(a: Tensor, b: Tensor) -> Tensor:
    """Solve a @ x = b for square matrices, real or complex ones."""
    if not a.dtype.is_complex:
        return linear_solve(a, *lu(a), b)
    wide = _embedded(a)
    found = linear_solve(wide, *lu(wide), _column(b))
    return _from_column(found, b.shape[-2], b.shape[-1])
