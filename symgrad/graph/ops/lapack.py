"""LAPACK by foreign calls: eigenvalues and singular values, for large matrices or for all.

Fortran has matrices in columns, so what it is handed is the transpose of ours. Of a symmetric
matrix that is the other triangle; the vectors of a matrix and of its transpose change sides. All
matrices here have three axes, of which the first counts them; each has a call of its own. What is
not finite gives nan and is not shown to LAPACK, which need not end then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.library_functions import lapack
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import isfinite, negative
from symgrad.graph.ops.block_matrices import transposed
from symgrad.graph.ops.comparison import greater, less, where
from symgrad.graph.ops.complex_parts import complex, imag, real
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.extern import extern_node
from symgrad.graph.ops.reduction import all as all_of
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.triangles import adjoint, triangle
from symgrad.graph.ops.views import narrow
from symgrad.graph.types import Attr, TensorType
from symgrad.records import dataclass

_LapackArgument = tuple[Attr, ...]
# The length of a string is an argument of its own, behind all others.
_LENGTH: _LapackArgument = ("int64", 1)
_BLOCK = 64  # at least as many columns as LAPACK takes at once, for the size of its workspace
_INT = 4  # bytes
_LETTERS = {
    dtypes.float32: "s", dtypes.float64: "d", dtypes.complex64: "c", dtypes.complex128: "z"
}  # fmt: skip
_ONLY_RIGHT: list[_LapackArgument] = [("char*", "N"), ("char*", "V")]


def lapack_eigh(a: Tensor) -> list[Tensor]:
    """Return eigenvalues and eigenvectors of Hermitian matrices, of which the lower triangle is."""
    values, rows = _one_by_one(_eigh, lower_half(a))
    return [values, adjoint(rows)]


def lower_half(a: Tensor) -> Tensor:
    """Return the lower triangles of Hermitian matrices, whose diagonals are real."""
    if not a.dtype.is_complex:
        return triangle(a, lower=True)
    return complex(triangle(real(a), lower=True), triangle(imag(a), lower=True, k=-1))


def _eigh(a: Tensor) -> list[Tensor]:
    n = a.type.static_shape[0]
    # By divide and conquer; the workspaces are those of its documentation. The transpose of a
    # Hermitian matrix is its conjugate, and so are the vectors.
    if a.dtype.is_complex:
        sizes = _Workspace(n + max(n * n, _BLOCK * n) + n, 1 + 5 * n + 2 * n * n, 3 + 5 * n)
    else:
        sizes = _Workspace(1 + 6 * n + max(2 * n * n, _BLOCK * n), 0, 3 + 5 * n)
    rows, values = _call(
        "heevd" if a.dtype.is_complex else "syevd", [a],
        [a.type, a.type.with_shape((n,)).with_dtype(a.dtype.real)],
        [
            ("char*", "V"), ("char*", "U"), ("int32*", n), ("out", 0), ("int32*", n), ("out", 1),
            *sizes.arguments(a.dtype), ("status*",), _LENGTH, _LENGTH,
        ],
        sizes.nbytes(a.dtype), copied=[(0, 0)],
    )  # fmt: skip
    return [values, rows]


@dataclass(frozen=True, slots=True)
class _Workspace:
    """How many numbers of the dtype, of its real dtype and of int32 a routine works with."""

    numbers: int
    reals: int
    integers: int

    def nbytes(self, dtype: DType) -> int:
        return self._integers_at(dtype) + self.integers * _INT

    def arguments(self, dtype: DType) -> list[_LapackArgument]:
        """Return workspaces, each but that for reals, if there are none, with its size."""
        place = self.numbers * dtype.itemsize
        of_reals: list[_LapackArgument] = [("workspace", place), ("int32*", self.reals)]
        return [
            ("workspace", 0), ("int32*", self.numbers), *(of_reals if self.reals else ()),
            ("workspace", self._integers_at(dtype)), ("int32*", self.integers),
        ]  # fmt: skip

    def without_sizes(self, dtype: DType) -> list[_LapackArgument]:
        """Return the same with the size of the first alone."""
        arguments = self.arguments(dtype)
        return [*arguments[:2], *arguments[2::2]]

    def _integers_at(self, dtype: DType) -> int:
        return self.numbers * dtype.itemsize + self.reals * dtype.real.itemsize


def lapack_svd(a: Tensor, *, full: bool) -> list[Tensor]:
    """Return U, singular values and V' of matrices; all rows and columns of U and V if `full`."""
    return _one_by_one(lambda one: _svd(one, full=full), a)


def _svd(a: Tensor, *, full: bool) -> list[Tensor]:
    m, n = a.type.static_shape
    k = min(m, n)
    # Of the transpose, U is V and V' is U': in rows these are V' and U.
    u = a.type.with_shape((m, m if full else k))
    vh = a.type.with_shape((n if full else k, n))
    reals = max(5 * k * k + 5 * k, 2 * max(m, n) * k + 2 * k * k + k) if a.dtype.is_complex else 0
    sizes = _Workspace(4 * k * k + 7 * k + max(m, n) + _BLOCK * (m + n), reals, 8 * k)
    _, s, vh_, u_ = _call(
        "gesdd", [a], [a.type, a.type.with_shape((k,)).with_dtype(a.dtype.real), vh, u],
        [
            ("char*", "A" if full else "S"), ("int32*", n), ("int32*", m), ("out", 0),
            ("int32*", n), ("out", 1), ("out", 2), ("int32*", n), ("out", 3),
            ("int32*", m if full else k), *sizes.without_sizes(a.dtype), ("status*",), _LENGTH,
        ],
        sizes.nbytes(a.dtype), copied=[(0, 0)],
    )  # fmt: skip
    return [u_, s, vh_]


def lapack_eig(a: Tensor) -> list[Tensor]:
    """Return eigenvalues and eigenvectors of square matrices, which are complex."""
    values, rows = _one_by_one(_eig_of_complex if a.dtype.is_complex else _eig, transposed(a))
    return [values, transposed(rows)]


def _eig_of_complex(a: Tensor) -> list[Tensor]:
    n = a.type.static_shape[0]
    sizes = _Workspace((1 + _BLOCK) * n, 2 * n, 0)
    _, values, rows = _call(
        "geev", [a], [a.type, a.type.with_shape((n,)), a.type],
        [
            *_ONLY_RIGHT, ("int32*", n), ("out", 0), ("int32*", n), ("out", 1),
            ("workspace", 0), ("int32*", 1), ("out", 2), ("int32*", n),
            *sizes.without_sizes(a.dtype)[:3], ("status*",), _LENGTH, _LENGTH,
        ],
        sizes.nbytes(a.dtype), copied=[(0, 0)],
    )  # fmt: skip
    return [values, rows]


def _eig(a: Tensor) -> list[Tensor]:
    n = a.type.static_shape[0]
    sizes = _Workspace((4 + _BLOCK) * n, 0, 0)
    line = a.type.with_shape((n,))
    _, re, im, rows = _call(
        "geev", [a], [a.type, line, line, a.type],
        [
            *_ONLY_RIGHT, ("int32*", n), ("out", 0), ("int32*", n), ("out", 1), ("out", 2),
            ("workspace", 0), ("int32*", 1), ("out", 3), ("int32*", n),
            *sizes.arguments(a.dtype)[:2], ("status*",), _LENGTH, _LENGTH,
        ],
        sizes.nbytes(a.dtype), copied=[(0, 0)],
    )  # fmt: skip
    return [complex(re, im), _from_pairs(rows, im)]


def _from_pairs(rows: Tensor, im: Tensor) -> Tensor:
    """Return complex vectors, of which two conjugates are a row of real, one of imaginary parts.

    The eigenvalue of the first has the positive imaginary part `im`.
    """
    n = rows.type.static_shape[0]
    zeros = filled_like(narrow(rows, 0, 0, 1), 0)
    before = concat([zeros, narrow(rows, 0, 0, n - 1)])
    after = concat([narrow(rows, 0, 1, n - 1), zeros])
    is_first, is_second = (
        broadcast_to(reshape(is_one, (n, 1)), rows.shape)
        for is_one in (greater(im, 0), less(im, 0))
    )
    imaginary = where(is_first, after, where(is_second, negative(rows), filled_like(rows, 0)))
    return complex(where(is_second, before, rows), imaginary)


def _call(
    routine: str,
    inputs: Sequence[Tensor],
    types: Sequence[TensorType],
    layout: Sequence[_LapackArgument],
    workspace: int,
    copied: Sequence[tuple[int, int]],
) -> Sequence[Tensor]:
    letter = _LETTERS[inputs[0].dtype]
    function = lapack(letter + routine)
    return extern_node(
        function, inputs, types, layout=layout, workspace=workspace, copied=copied
    ).outputs


def _one_by_one(build: Callable[[Tensor], Sequence[Tensor]], a: Tensor) -> list[Tensor]:
    """Return what `build` makes of each matrix; nan for one that is not finite."""
    count, m, n = a.type.static_shape

    def checked(one: Tensor) -> list[Tensor]:
        is_finite = all_of(isfinite(one))
        given = where(broadcast_to(is_finite, one.shape), one, filled_like(one, 0))
        return [
            where(broadcast_to(is_finite, x.shape), x, filled_like(x, float("nan")))
            for x in build(given)
        ]

    if count == 1:
        return [reshape(x, (1, *x.shape)) for x in checked(reshape(a, (m, n)))]
    body = Traced("matrix", [a.type.with_shape((m, n))])
    body.run(checked)
    return list(scan_loop(constant(count, dtypes.int64), (), [a], body, count).outputs)
