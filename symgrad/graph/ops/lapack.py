"""LAPACK by foreign calls: eigenvalues and singular values of large matrices.

Fortran has matrices in columns, so what it is handed is the transpose of ours. Of a symmetric
matrix that is the other triangle; the vectors of a matrix and of its transpose change sides. All
matrices here have three axes, of which the first counts them; each has a call of its own. What is
not finite gives nan and is not shown to LAPACK, which need not end then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.graph import dtypes
from symgrad.graph.library_functions import lapack
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import isfinite
from symgrad.graph.ops.block_matrices import transposed
from symgrad.graph.ops.comparison import where
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.extern import extern_node
from symgrad.graph.ops.reduction import all as all_of
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.triangles import triangle
from symgrad.graph.types import Attr, TensorType

_LapackArgument = tuple[Attr, ...]
# The length of a string is an argument of its own, behind all others.
_LENGTH: _LapackArgument = ("int64", 1)
_BLOCK = 64  # at least as many columns as LAPACK takes at once, for the size of its workspace
_INT = 4  # bytes


def lapack_eigh(a: Tensor) -> list[Tensor]:
    """Return eigenvalues and eigenvectors of symmetric matrices, of which the lower triangle is."""
    values, rows = _one_by_one(_eigh, triangle(a, lower=True))
    return [values, transposed(rows)]


def _eigh(a: Tensor) -> list[Tensor]:
    n = a.type.static_shape[0]
    # By divide and conquer; the workspace is that of its documentation.
    real, integers = 1 + 6 * n + max(2 * n * n, _BLOCK * n), 3 + 5 * n
    rows, values = _call(
        "syevd", [a], [a.type, a.type.with_shape((n,))],
        [
            ("char*", "V"), ("char*", "U"), ("int32*", n), ("out", 0), ("int32*", n), ("out", 1),
            *_workspaces(a, real, integers), ("status*",), _LENGTH, _LENGTH,
        ],
        real * a.dtype.itemsize + integers * _INT, copied=[(0, 0)],
    )  # fmt: skip
    return [values, rows]


def lapack_svd(a: Tensor, *, full: bool) -> list[Tensor]:
    """Return U, singular values and V' of matrices; all rows and columns of U and V if `full`."""
    return _one_by_one(lambda one: _svd(one, full=full), a)


def _svd(a: Tensor, *, full: bool) -> list[Tensor]:
    m, n = a.type.static_shape
    k = min(m, n)
    # Of the transpose, U is V and V' is U': in rows these are V' and U.
    u = a.type.with_shape((m, m if full else k))
    vh = a.type.with_shape((n if full else k, n))
    real = 4 * k * k + 7 * k + max(m, n) + _BLOCK * (m + n)
    integers = 8 * k
    _, s, vh_, u_ = _call(
        "gesdd", [a], [a.type, a.type.with_shape((k,)), vh, u],
        [
            ("char*", "A" if full else "S"), ("int32*", n), ("int32*", m), ("out", 0),
            ("int32*", n), ("out", 1), ("out", 2), ("int32*", n), ("out", 3),
            ("int32*", m if full else k), *_workspaces(a, real, 0)[:3], ("status*",), _LENGTH,
        ],
        real * a.dtype.itemsize + integers * _INT, copied=[(0, 0)],
    )  # fmt: skip
    return [u_, s, vh_]


def _workspaces(a: Tensor, real: int, integers: int) -> list[_LapackArgument]:
    """Return the arguments that are a workspace of floats and one of ints, with their sizes."""
    place = real * a.dtype.itemsize
    return [("workspace", 0), ("int32*", real), ("workspace", place), ("int32*", integers)]


def _call(
    routine: str,
    inputs: Sequence[Tensor],
    types: Sequence[TensorType],
    layout: Sequence[_LapackArgument],
    workspace: int,
    copied: Sequence[tuple[int, int]],
) -> Sequence[Tensor]:
    letter = {"float32": "s", "float64": "d"}[inputs[0].dtype.name]
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
