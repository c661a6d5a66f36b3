"""Rows of the table for linear algebra: matrices made well-conditioned of what is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.node import Tensor
from symgrad.graph.ops.cholesky_gradient import cholesky_gradient
from symgrad.graph.ops.cofactors import cofactor_change_op, cofactors_op
from symgrad.graph.ops.determinant import det, sign_and_logarithm
from symgrad.graph.ops.eig import eig
from symgrad.graph.ops.eigh import eigh
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.expm import expm
from symgrad.graph.ops.inverse import inverse, inverse_change_op
from symgrad.graph.ops.lu import linear_solve, lu
from symgrad.graph.ops.pinv import pinv
from symgrad.graph.ops.qr import qr
from symgrad.graph.ops.qr_gradient import qr_gradient
from symgrad.graph.ops.small_bidiagonal import bidiagonal_columns_op, svd_step
from symgrad.graph.ops.small_cholesky import cholesky_gradient_columns
from symgrad.graph.ops.small_elimination import (
    det_of_steps,
    eliminated,
    factors_of_steps,
    places_of_steps,
    solve_by_steps,
)
from symgrad.graph.ops.small_factors import transposed_inverses
from symgrad.graph.ops.small_inverses import inverse_change_columns, inverse_columns
from symgrad.graph.ops.small_matrices import (
    cholesky_columns,
    lu_columns,
    substitute_columns,
)
from symgrad.graph.ops.small_qr import qr_columns, scaled_products
from symgrad.graph.ops.small_qr_iteration import turn_columns
from symgrad.graph.ops.small_reflections import (
    q_of_steps,
    q_times,
    r_of_steps,
    reflected,
    step_of,
)
from symgrad.graph.ops.small_solving import cofactor_columns, det_columns, solve_columns
from symgrad.graph.ops.small_sweeps import orthogonalise_columns, sweep_columns
from symgrad.graph.ops.small_tridiagonal import qr_step, tridiagonal_columns_op
from symgrad.graph.ops.sqrtm import sqrtm
from symgrad.graph.ops.svd import svd
from symgrad.graph.ops.triangular import triangular_solve
from tests.support.case import Array, Case, Real
from tests.support.cofactor_references import change_of, cofactors_of
from tests.support.gradient_references import (
    changed_inverse,
    cholesky_gradient_of,
    gradient_of_r,
    scaled_products_of,
)
from tests.support.iteration_references import squared, three_diagonals, turned

_WIDE = (dtypes.float32, dtypes.float64)
_SQUARES = (((1, 1),), ((0, 0),), ((2, 0, 0),), ((0, 3, 3),), ((9, 9),))


def _ones(x: Any) -> Any:
    """Return ones on the diagonal of matrices of the size of those of `x`, whatever it is."""
    m, n = x.shape[-2:]
    if isinstance(x, np.ndarray):
        return np.eye(m, n, dtype=x.dtype)
    return sg.equal(sg.arange(0, m)[:, None], sg.arange(0, n)).astype(x.dtype)


def _mostly_diagonal(x: Any) -> Any:
    """Return matrices near the identity, with an inverse."""
    return x * 0.1 + _ones(x)


def _spread(x: Any) -> Any:
    """Return symmetric matrices with eigenvalues that lie apart."""
    counted = np.arange(x.shape[-1]) if isinstance(x, np.ndarray) else sg.arange(0, x.shape[-1])
    transposed = x.swapaxes(-1, -2) if isinstance(x, np.ndarray) else sg.matrix_transpose(x)
    counts = counted.astype(x.dtype)
    return (x + transposed) * 0.1 + _ones(x) * counts


def _skewed(x: Any) -> Any:
    """Return matrices that are not symmetric, with real eigenvalues that lie apart."""
    counted = np.arange(x.shape[-1]) if isinstance(x, np.ndarray) else sg.arange(0, x.shape[-1])
    return x * 0.1 + _ones(x) * counted.astype(x.dtype)


def _definite(x: Any) -> Any:
    """Return symmetric positive definite matrices."""
    return _spread(x) + _ones(x) * 2.0


def _cofactors(x: Tensor) -> Tensor:
    return apply(cofactors_op, x, *lu(x))


def _change(x: Tensor, y: Tensor) -> Tensor:
    return apply(cofactor_change_op, x, *lu(x), y)


def _row(
    name: str,
    op: str,
    build: Callable[..., Tensor],
    expected: Callable[..., Any],
    *shapes: tuple[int, ...],
    order: int = 2,
    also: Any = (),
    symbolic: bool = True,
    slack: float = 20.0,
) -> Case:
    inputs = tuple(Real(shape, -1.0, 1.0) for shape in shapes)
    return Case(name, op, build, expected, inputs, _WIDE, order, also, symbolic, slack)


def _each(function: Callable[[Array], Any]) -> Callable[[Array], Array]:
    """Return what SciPy computes of one matrix, for each of a batch."""

    def of_all(x: Array, *others: Array) -> Array:
        if not x.size:
            return np.asarray(function(np.eye(x.shape[-2], x.shape[-1])) * np.zeros(x.shape))
        batch = x.shape[:-2]
        found = [function(x[at], *(o[at] for o in others)) for at in np.ndindex(batch)]
        return np.reshape(found, (*batch, *np.shape(found[0])))

    return of_all


def _cholesky(x: Array) -> Array:
    return np.linalg.cholesky(x) if x.size else x


def _solved(a: Array, b: Array) -> Array:
    return np.linalg.solve(a, b) if a.size and b.size else b


_FACTORISATIONS = (
    _row("cholesky", "cholesky", lambda x: sg.linalg.cholesky(_definite(x)),
         lambda x: _cholesky(_definite(x)), (4, 4), also=(*_SQUARES, ((2, 3, 3),))),
    _row("cholesky_blocks", "cholesky", lambda x: sg.linalg.cholesky(_definite(x)),
         lambda x: _cholesky(_definite(x)), (2, 19, 19), order=0, symbolic=False),
    _row("cholesky_gradient", "cholesky_gradient",
         lambda x, g: cholesky_gradient(_mostly_diagonal(x), g),
         lambda x, g: cholesky_gradient_of(_mostly_diagonal(x), g), (4, 4), (4, 4),
         also=(((1, 1), (1, 1)), ((0, 0), (0, 0)), ((2, 3, 3), (2, 3, 3)), ((19, 19), (19, 19)),
               ((2, 70, 70), (2, 70, 70)))),
    _row("triangular_solve", "triangular_solve",
         lambda a, b: triangular_solve(_mostly_diagonal(a), b, lower=True),
         lambda a, b: _solved(np.tril(_mostly_diagonal(a)), b), (4, 4), (4, 3),
         also=(((1, 1), (1, 2)), ((0, 0), (0, 2)), ((2, 2), (2, 0)), ((2, 3, 3), (2, 3, 1)))),
    _row("triangular_solve_transposed", "triangular_solve",
         lambda a, b: triangular_solve(_mostly_diagonal(a), b, lower=False, transpose=True),
         lambda a, b: _solved(np.triu(_mostly_diagonal(a)).swapaxes(-1, -2), b), (4, 4), (4, 3),
         also=(((19, 19), (19, 2)),)),
    _row("triangular_solve_unit", "triangular_solve",
         lambda a, b: triangular_solve(_mostly_diagonal(a), b, lower=False, unit=True),
         lambda a, b: _solved(np.triu(_mostly_diagonal(a), 1) + np.eye(a.shape[-1]), b),
         (4, 4), (4, 3)),
    _row("lu", "lu", lambda x: lu(_mostly_diagonal(x))[0],
         _each(lambda x: scipy.linalg.lu_factor(_mostly_diagonal(x))[0]), (4, 4),
         also=(((1, 1),), ((2, 3, 3),), ((19, 19),))),
    _row("linear_solve", "linear_solve",
         lambda a, b: linear_solve(_mostly_diagonal(a), *lu(_mostly_diagonal(a)), b),
         lambda a, b: _solved(_mostly_diagonal(a), b), (4, 4), (4, 3),
         also=(((1, 1), (1, 2)), ((0, 0), (0, 2)), ((2, 3, 3), (2, 3, 1)), ((6, 6), (6, 2)))),
    _row("linear_solve_transposed", "linear_solve",
         lambda a, b: linear_solve(a, *lu(a), b, transpose=True),
         lambda a, b: _solved(a.swapaxes(-1, -2), b), (4, 4), (4, 3),
         also=(((6, 6), (6, 2)),), slack=1000.0),
    _row("inverse", "inverse", lambda a: inverse(_mostly_diagonal(a)),
         lambda a: np.linalg.inv(_mostly_diagonal(a)), (4, 4),
         also=(*_SQUARES, ((2, 3, 3),), ((2, 6, 6),))),
    _row("inverse_change", "inverse_change", lambda w, x: apply(inverse_change_op, w, x),
         changed_inverse, (4, 4), (4, 4),
         also=(((1, 1), (1, 1)), ((0, 0), (0, 0)), ((2, 3, 3), (2, 3, 3)), ((6, 6), (6, 6)))),
    _row("determinant", "determinant", lambda x: det(_mostly_diagonal(x)),
         lambda x: np.linalg.det(_mostly_diagonal(x)), (4, 4), also=(*_SQUARES, ((2, 3, 3),))),
    _row("cofactors", "cofactors", lambda x: _cofactors(_mostly_diagonal(x)),
         lambda x: cofactors_of(_mostly_diagonal(x)), (4, 4),
         also=(*_SQUARES, ((2, 3, 3),), ((2, 6, 6),))),
    _row("cofactor_change", "cofactor_change", lambda x, y: _change(_mostly_diagonal(x), y),
         lambda x, y: change_of(_mostly_diagonal(x), y), (4, 4), (4, 4),
         also=(((1, 1), (1, 1)), ((0, 0), (0, 0)), ((2, 3, 3), (2, 3, 3)), ((2, 6, 6), (2, 6, 6))),
         slack=100.0),
    _row("log_determinant", "log_determinant",
         lambda x: sign_and_logarithm(_mostly_diagonal(x))[1],
         lambda x: np.linalg.slogdet(_mostly_diagonal(x))[1], (4, 4), also=_SQUARES),
    _row("qr", "qr", lambda x: qr(_mostly_diagonal(x))[1],
         lambda x: np.linalg.qr(_mostly_diagonal(x))[1], (4, 4), also=_SQUARES),
    _row("qr_tall", "qr", lambda x: qr(x)[0], lambda x: np.linalg.qr(x)[0], (5, 3),
         also=(((2, 40, 35),), ((3, 0),), ((1, 1),)), symbolic=False, slack=1000.0),
    _row("qr_wide", "qr", lambda x: qr(x)[1], lambda x: np.linalg.qr(x)[1], (3, 5),
         also=(((2, 3, 4),), ((2, 3),)), symbolic=False, slack=1000.0),
    _row("qr_complete", "qr", lambda x: qr(x, complete=True)[1],
         lambda x: np.linalg.qr(x, "complete")[1], (5, 3), order=0, symbolic=False),
    _row("qr_gradient", "qr_gradient",
         lambda x, g: qr_gradient(_mostly_diagonal(x), *qr(_mostly_diagonal(x)), g),
         lambda x, g: gradient_of_r(_mostly_diagonal(x), g), (4, 4), (4, 4),
         also=(((1, 1), (1, 1)), ((0, 0), (0, 0)), ((2, 5, 3), (2, 3, 3)),
               ((8, 7, 7), (8, 7, 7)), ((9, 9, 3), (9, 3, 3)))),
    _row("eigh", "eigh", lambda x: eigh(_spread(x))[0],
         lambda x: np.linalg.eigvalsh(_spread(x)), (4, 4), also=_SQUARES),
    _row("eigh_vectors", "eigh", lambda x: eigh(_spread(x))[1] ** 2,
         lambda x: np.linalg.eigh(_spread(x))[1] ** 2, (4, 4), also=(((7, 7),), ((2, 2),)),
         slack=100.0),
    _row("eigh_lapack", "eigh", lambda x: eigh(_spread(x), method="lapack")[0],
         lambda x: np.linalg.eigvalsh(_spread(x)), (4, 4), also=_SQUARES),
    _row("eigh_vectors_lapack", "eigh", lambda x: eigh(_spread(x), method="lapack")[1] ** 2,
         lambda x: np.linalg.eigh(_spread(x))[1] ** 2, (3, 3), slack=100.0),
    _row("eig", "eig", lambda x: sg.real(eig(_skewed(x))[0]),
         lambda x: np.real(np.linalg.eig(_skewed(x))[0]), (3, 3), also=_SQUARES[:4]),
    _row("eig_vectors", "eig", lambda x: sg.abs(eig(_skewed(x))[1]) ** 2,
         lambda x: np.abs(np.linalg.eig(_skewed(x))[1]) ** 2, (3, 3), slack=100.0),
    _row("svd_tall_lapack", "svd", lambda x: svd(x, method="lapack")[0] ** 2,
         lambda x: np.linalg.svd(x, full_matrices=False)[0] ** 2, (5, 3),
         also=(((2, 4, 1),),), symbolic=False, slack=1000.0),
    _row("svd", "svd", lambda x: svd(_spread(x) + _ones(x))[1],
         lambda x: np.linalg.svd(_spread(x) + _ones(x))[1], (4, 4), also=_SQUARES),
    _row("svd_tall", "svd", lambda x: svd(x)[0] ** 2,
         lambda x: np.linalg.svd(x, full_matrices=False)[0] ** 2, (5, 3),
         also=(((2, 4, 1),),), symbolic=False, slack=1000.0),
    _row("svd_wide", "svd", lambda x: svd(x)[2] ** 2,
         lambda x: np.linalg.svd(x, full_matrices=False)[2] ** 2, (3, 5), symbolic=False,
         slack=1000.0),
    _row("pinv", "pinv", lambda x: _pinv(x), lambda x: np.linalg.pinv(x, 1e-3),
         (5, 3), also=(((3, 5),), ((3, 0),), ((2, 3, 2),)), symbolic=False, slack=1000.0),
    _row("sqrtm", "sqrtm", lambda x: sqrtm(_mostly_diagonal(x)),
         _each(lambda x: scipy.linalg.sqrtm(_mostly_diagonal(x))), (3, 3),
         also=(((1, 1),), ((0, 0),), ((2, 9, 9),)), slack=100.0),
    _row("expm", "expm", expm, _each(scipy.linalg.expm), (3, 3),
         also=(((1, 1),), ((0, 0),), ((2, 9, 9),)), slack=100.0),
)  # fmt: skip


def _pinv(x: Any) -> Any:
    return pinv(x, filled(x.shape[:-2], 1e-3, x.dtype))


def _columns(x: Any) -> Any:
    """Return two matrices as columns of elements."""
    flat = x.reshape((2, -1))
    return flat.T if isinstance(x, np.ndarray) else sg.permute_dims(flat, (1, 0))


def _twice(x: Any) -> Any:
    """Return columns of the elements of two matrices that are equal."""
    return sg.concat([_columns(x), _columns(x)], axis=0)


def _first_step(x: Array) -> Array:
    """Return the first two columns of LU factors without exchanges, and the places of pivots."""
    factors = _each(lambda y: scipy.linalg.lu_factor(y)[0])(x)
    places = np.broadcast_to(np.arange(2.0, dtype=x.dtype), (len(x), 2))
    return np.concatenate([_rows(factors[..., :2]), places], 1).T


def _factors_and_order(x: Array) -> Array:
    factors = _each(lambda y: scipy.linalg.lu_factor(y)[0])(x)
    order = _each(lambda y: scipy.linalg.lu(y, p_indices=True)[0])(x)
    return np.concatenate([_rows(factors), np.argsort(order, axis=-1)], 1).astype(x.dtype).T


def _scaled_inverses(x: Tensor) -> Tensor:
    """Return three times the transposed inverses, by the factors of steps."""
    n = x.type.static_shape[-1]
    steps = eliminated(x)
    factors, places = factors_of_steps(steps, n)[: n * n], places_of_steps(steps, n)
    return transposed_inverses(factors, places, filled((1, x.shape[0]), 3, x.dtype), n)


def _upper(x: Array) -> Array:
    return np.linalg.qr(x).R


def _rows(x: Any) -> Any:
    """Return two matrices as results have their elements."""
    return x.reshape((2, -1))


_COLUMNS = (
    _row("solve_columns", "solve_columns",
         lambda a, b: solve_columns(_columns(_mostly_diagonal(a)), _columns(b), 3, transpose=False),
         lambda a, b: _rows(_solved(_mostly_diagonal(a), b)),
         (2, 3, 3), (2, 3, 2), order=0, symbolic=False),
    _row("solve_columns_with_pivots", "solve_columns",
         lambda a, b: solve_columns(_columns(_mostly_diagonal(a)[:, ::-1]), _columns(b), 4,
                                    transpose=True),
         lambda a, b: _rows(_solved(_mostly_diagonal(a)[:, ::-1].swapaxes(-1, -2), b)),
         (2, 4, 4), (2, 4, 1), order=0, symbolic=False),
    _row("inverse_columns", "inverse_columns",
         lambda a: inverse_columns(_columns(_mostly_diagonal(a)[:, ::-1]), 4),
         lambda a: _rows(np.linalg.inv(_mostly_diagonal(a)[:, ::-1])),
         (2, 4, 4), order=0, symbolic=False),
    _row("inverse_change_columns", "inverse_change_columns",
         lambda w, x: inverse_change_columns(_columns(w), _columns(x), 3),
         lambda w, x: _rows(changed_inverse(w, x)), (2, 3, 3), (2, 3, 3), order=0,
         symbolic=False),
    _row("det_columns", "det_columns", lambda x: det_columns(_columns(x), 3)[0],
         np.linalg.det, (2, 3, 3), order=0, symbolic=False),
    _row("cofactor_columns", "cofactor_columns", lambda x: cofactor_columns(_columns(x), 4),
         lambda x: _rows(cofactors_of(x)), (2, 4, 4), order=0, symbolic=False),
    _row("cholesky_columns", "cholesky_columns",
         lambda x: cholesky_columns(_columns(_definite(x)), 3),
         lambda x: _rows(_cholesky(_definite(x))), (2, 3, 3), order=0, symbolic=False),
    _row("cholesky_gradient_columns", "cholesky_gradient_columns",
         lambda a, g: cholesky_gradient_columns(_columns(_mostly_diagonal(a)), _columns(g), 4),
         lambda a, g: _rows(cholesky_gradient_of(_mostly_diagonal(a), g)), (2, 4, 4), (2, 4, 4),
         order=0, symbolic=False),
    _row("scaled_products", "scaled_products",
         lambda a, g: scaled_products(_columns(_mostly_diagonal(a)), _columns(g), 3),
         lambda a, g: scaled_products_of(_mostly_diagonal(a), g), (2, 3, 3), (2, 3, 3),
         order=0, symbolic=False),
    _row("lu_columns", "lu_columns", lambda x: lu_columns(_columns(_mostly_diagonal(x)), 3)[:, :9],
         lambda x: _rows(_each(lambda y: scipy.linalg.lu_factor(y)[0])(_mostly_diagonal(x))),
         (2, 3, 3), order=0, symbolic=False),
    _row("eliminate_columns", "eliminate_columns", lambda x: eliminated(_mostly_diagonal(x))[0],
         lambda x: _first_step(_mostly_diagonal(x)), (2, 3, 3), order=0, symbolic=False),
    _row("solve_by_steps", "solve_by_steps",
         lambda a, b: solve_by_steps(
             b, eliminated(_mostly_diagonal(a)[:, ::-1]), transpose=False),
         lambda a, b: _rows(_solved(_mostly_diagonal(a)[:, ::-1], b)),
         (2, 5, 5), (2, 5, 2), order=0, symbolic=False),
    _row("solve_by_steps_transposed", "solve_by_steps",
         lambda a, b: solve_by_steps(
             b, eliminated(_mostly_diagonal(a)[:, ::-1]), transpose=True),
         lambda a, b: _rows(_solved(_mostly_diagonal(a)[:, ::-1].swapaxes(-1, -2), b)),
         (2, 5, 5), (2, 5, 2), order=0, symbolic=False),
    _row("det_of_steps", "det_of_steps",
         lambda x: det_of_steps(eliminated(_mostly_diagonal(x)[:, ::-1]), 5)[0],
         lambda x: np.linalg.det(_mostly_diagonal(x)[:, ::-1]), (2, 5, 5), order=0,
         symbolic=False),
    _row("factors_of_steps", "factors_of_steps",
         lambda x: factors_of_steps(eliminated(_mostly_diagonal(x)[:, ::-1]), 5),
         lambda x: _factors_and_order(_mostly_diagonal(x)[:, ::-1]), (2, 5, 5), order=0,
         symbolic=False),
    _row("places_of_steps", "places_of_steps",
         lambda x: places_of_steps(eliminated(_mostly_diagonal(x)[:, ::-1]), 5),
         lambda x: np.argsort(_factors_and_order(_mostly_diagonal(x)[:, ::-1])[25:], axis=0),
         (2, 5, 5), order=0, symbolic=False),
    _row("solve_by_factors", "solve_by_factors",
         lambda x: _scaled_inverses(_mostly_diagonal(x)[:, ::-1]),
         lambda x: 3.0 * np.linalg.inv(_mostly_diagonal(x)[:, ::-1]).swapaxes(-1, -2),
         (2, 5, 5), order=0, symbolic=False),
    _row("substitute_columns", "substitute_columns",
         lambda a, b: substitute_columns(
             _columns(_mostly_diagonal(a)), _columns(b), lower=True, unit=False),
         lambda a, b: _rows(_solved(np.tril(_mostly_diagonal(a)), b)),
         (2, 3, 3), (2, 3, 1), order=0, symbolic=False),
    _row("qr_columns", "qr_columns", lambda x: qr_columns(_columns(x), n=3, k=3),
         lambda x: np.concatenate([_rows(part) for part in np.linalg.qr(x)], 1), (2, 4, 3), order=0,
         symbolic=False, slack=1000.0),
    _row("reflect_columns", "reflect_columns",
         lambda x: sg.stack([reflected(x)[0][0], reflected(x)[0][1], reflected(x)[1][4]]),
         lambda x: np.stack([_upper(x)[:, i, j] for i, j in ((0, 0), (0, 1), (2, 2))]),
         (2, 4, 4), order=0, symbolic=False, slack=1000.0),
    _row("q_of_steps", "q_of_steps", lambda x: q_of_steps(reflected(x), 4, 4),
         lambda x: _rows(np.linalg.qr(x, "complete")[0]).T, (2, 4, 3), order=0, symbolic=False,
         slack=1000.0),
    _row("step_of", "step_of", lambda x: step_of(x, 1, 0.0)[1],
         lambda x: -np.sign(x[:1]) * np.linalg.norm(x, axis=0, keepdims=True), (4, 3), order=0,
         symbolic=False),
    _row("q_times", "q_times",
         lambda x, y: q_times(sg.permute_dims(y, (1, 2, 0)), reflected(x)),
         lambda x, y: np.moveaxis(np.linalg.qr(x, "complete")[0] @ y, 0, 2).swapaxes(0, 1),
         (2, 4, 3), (2, 4, 5), order=0, symbolic=False, slack=1000.0),
    _row("r_of_steps", "r_of_steps", lambda x: r_of_steps(reflected(x), 3, 3),
         lambda x: _rows(_upper(x)).T, (2, 3, 5), order=0, symbolic=False, slack=1000.0),
    _row("sweep_columns", "sweep_columns",
         lambda x: sg.sum(sweep_columns(_twice(_spread(x)), 3)[:9] ** 2, 0),
         lambda x: np.sum(_spread(x) ** 2, (1, 2)), (2, 3, 3), order=0, symbolic=False),
    _row("orthogonalise_columns", "orthogonalise_columns",
         lambda x: sg.sum(orthogonalise_columns(_twice(x), 3)[:9] ** 2, 0),
         lambda x: np.sum(x**2, (1, 2)), (2, 3, 3), order=0, symbolic=False),
    _row("tridiagonal_columns", "tridiagonal_columns",
         lambda x: sg.abs(apply(tridiagonal_columns_op, _columns(_spread(x)), n=4, start=0)[8:]),
         lambda x: np.abs(three_diagonals(_spread(x))), (2, 4, 4), order=0, symbolic=False,
         slack=1000.0),
    _row("bidiagonal_columns", "bidiagonal_columns",
         lambda x: squared(apply(bidiagonal_columns_op, _columns(x), n=4, start=0)[23:], 4, 0),
         lambda x: np.sum(x**2, (1, 2)), (2, 4, 4), order=0, symbolic=False),
    _row("qr_step", "qr_step", lambda x: squared(qr_step(x, 0), 4, 1),
         lambda x: squared(x, 4, 1), (14, 5), order=0, symbolic=False),
    _row("svd_step", "svd_step", lambda x: squared(svd_step(x, 2), 4, 0),
         lambda x: squared(x, 4, 0), (20, 5), order=0, symbolic=False),
    _row("turn_columns", "turn_columns", lambda x, y: turn_columns(x, [y, y], 0),
         lambda x, y: turned(turned(x, y), y), (3, 2, 4), (10, 4), order=0, symbolic=False),
)  # fmt: skip

LINALG = (*_FACTORISATIONS, *_COLUMNS)
