"""Rows of factorisations of complex matrices: each makes them of real inputs, and gives reals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.ops.determinant import det, sign_and_logarithm
from symgrad.graph.ops.lu import linear_solve, lu
from tests.support.case import Array, Case, Real


def _numbers(re: Any, im: Any) -> Any:
    """Return complex matrices near a diagonal one whose elements lie apart."""
    n = min(re.shape[-2:])
    apart = np.eye(*re.shape[-2:]) * (1 + np.arange(n)[: re.shape[-1]])
    if isinstance(re, np.ndarray):
        return (re * 0.3 + apart) + 0.3j * im
    return sg.complex(re * 0.3 + sg.constant(apart).astype(re.dtype), im * 0.3)


def _hermitian(re: Any, im: Any) -> Any:
    z = _numbers(re, im)
    if isinstance(z, np.ndarray):
        return z + np.swapaxes(z.conj(), -1, -2)
    return z + sg.conj(sg.matrix_transpose(z))


def _real(z: Any) -> Any:
    """Return a real number of each complex one."""
    if isinstance(z, Tensor):
        return sg.real(z) + 2 * sg.imag(z) if z.dtype.is_complex else z
    return np.real(z) + 2 * np.imag(z) if np.iscomplexobj(z) else z


def _size(z: Any) -> Any:
    return sg.abs(z) ** 2 if isinstance(z, Tensor) else np.abs(z) ** 2


def _row(
    op: str,
    build: Callable[..., Any],
    expected: Callable[..., Any],
    *shapes: tuple[int, ...],
    of: Callable[[Any, Any], Any] = _numbers,
) -> Case:
    """Return a row whose first operand is a complex matrix and whose second, if any, a real one."""
    inputs = (shapes[0], *shapes)
    return Case(
        f"complex_{op}",
        op,
        lambda re, im, *b: _real(build(of(re, im), *b)),
        lambda re, im, *b: _real(expected(of(re, im), *b)),
        tuple(Real(shape, -1.0, 1.0) for shape in inputs),
        (dtypes.float32, dtypes.float64),
        2,
        symbolic=False,
        slack=100.0,
    )


def _as_complex(z: Tensor, b: Tensor) -> Tensor:
    return b.astype(z.dtype)


def _substituted(z: Array, b: Array) -> Array:
    return np.asarray(scipy.linalg.solve_triangular(z, b.astype(z.dtype), lower=True))


COMPLEX_LINALG = (
    _row("cholesky", sg.linalg.cholesky, np.linalg.cholesky, (3, 3), of=_hermitian),
    _row("triangular_solve", sg.linalg.triangular_solve, _substituted, (3, 3), (3, 2)),
    _row("lu", lambda z: lu(z)[0], lambda z: scipy.linalg.lu_factor(z)[0], (3, 3)),
    _row("linear_solve", lambda z, b: linear_solve(z, *lu(z), _as_complex(z, b)), np.linalg.solve,
         (3, 3), (3, 2)),
    _row("determinant", det, np.linalg.det, (3, 3)),
    _row("log_determinant", lambda z: sum(_real(x) for x in sign_and_logarithm(z)),
         lambda z: sum(_real(x) for x in np.linalg.slogdet(z)), (3, 3)),
    _row("qr", lambda z: sg.linalg.qr(z)[0], lambda z: np.linalg.qr(z)[0], (4, 2)),
    _row("eigh", lambda z: _size(sg.linalg.eigh(z)[1]), lambda z: _size(np.linalg.eigh(z)[1]),
         (3, 3), of=_hermitian),
    _row("svd", lambda z: _size(sg.linalg.svd(z, full_matrices=False)[0]),
         lambda z: _size(np.linalg.svd(z, full_matrices=False)[0]), (3, 2)),
    _row("eig", lambda z: sg.linalg.eig(z)[1], lambda z: np.linalg.eig(z)[1], (3, 3)),
)  # fmt: skip
