"""Linear systems, determinants, norms and structured matrices beside NumPy and SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import symgrad as sg

Array = np.ndarray[Any, Any]
LINALG = sg.linalg


def _run(function: Callable[..., Any], *arrays: Array) -> Any:
    xs = [sg.placeholder(a.shape, a.dtype) for a in arrays]
    return sg.compile(xs, function(*xs), opt_level=0)(*arrays)


def _random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3,)), ((3, 3), (2, 3, 1)),
     ((2, 1, 3, 3), (4, 3, 2)), ((20, 20), (20, 5)), ((1, 1), (1,)), ((0, 0), (0, 2)),
     ((70, 70), (70,))],
    ids=str,
)  # fmt: skip
def test_systems_are_solved_as_numpy_solves_them(a_shape, b_shape):
    a, b = _random(*a_shape) + 3 * np.eye(a_shape[-1]), _random(*b_shape, seed=1)
    wanted = np.linalg.solve(a, b)
    np.testing.assert_allclose(_run(LINALG.solve, a, b), wanted, rtol=1e-9, atol=1e-12)
    definite = a @ a.swapaxes(-1, -2)
    factor = np.linalg.cholesky(definite) if a.size else a
    wanted = np.linalg.solve(definite, b)
    np.testing.assert_allclose(_run(LINALG.cho_solve, factor, b), wanted, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize(
    ("n", "count", "dtype"),
    [(5, 8, "float32"), (9, 21, "float64"),
     pytest.param(16, 70, "float32", marks=pytest.mark.slow),
     pytest.param(16, 70, "float64", marks=pytest.mark.slow)],
    ids=str,
)  # fmt: skip
def test_many_small_matrices_are_eliminated_as_numpy_does(n, count, dtype):
    a, b = _random(count, n, n).astype(dtype), _random(count, n, 2, seed=1).astype(dtype)
    slack = 1e-9 if dtype == "float64" else 2e-2
    x, y = (sg.placeholder(given.shape, dtype) for given in (a, b))
    step = sg.compile([x, y], [LINALG.solve(x, y), LINALG.det(x), *LINALG.lu(x)], opt_level=0)
    solved, determinant, p, lower, upper = step(a, b)
    np.testing.assert_allclose(solved, np.linalg.solve(a, b), rtol=slack, atol=slack)
    np.testing.assert_allclose(determinant, np.linalg.det(a), rtol=slack)
    np.testing.assert_allclose(p @ lower @ upper, a, atol=slack)
    assert (np.abs(lower) <= 1).all()
    assert (np.asarray(p) == np.stack([scipy.linalg.lu(m)[0] for m in a])).all()


def test_the_gradient_of_many_small_systems_solves_their_transposes():
    a, b, g = _random(10, 6, 6), _random(10, 6, 1, seed=1), _random(10, 6, 1, seed=2)
    x, y = sg.placeholder(a.shape, "float64"), sg.placeholder(b.shape, "float64")
    of_a, of_b = sg.compile([x, y], sg.gradients(sg.sum(LINALG.solve(x, y) * g), [x, y]))(a, b)
    wanted = np.linalg.solve(a.swapaxes(-1, -2), g)
    np.testing.assert_allclose(of_b, wanted, rtol=1e-8)
    np.testing.assert_allclose(of_a, -wanted @ np.linalg.solve(a, b).swapaxes(-1, -2), rtol=1e-8)


def test_one_of_many_small_matrices_without_an_inverse_changes_no_other():
    a, b = _random(16, 6, 6), _random(16, 6, 1, seed=1)
    a[3, :, 2], a[5] = a[3, :, 4], np.nan
    x, y = sg.placeholder(a.shape, "float64"), sg.placeholder(b.shape, "float64")
    solved, determinant = sg.compile([x, y], [LINALG.solve(x, y), LINALG.det(x)])(a, b)
    others = [i for i in range(16) if i not in (3, 5)]
    np.testing.assert_allclose(solved[others], np.linalg.solve(a[others], b[others]), rtol=1e-9)
    assert abs(determinant[3]) < 1e-12
    assert np.isnan(determinant[5])
    assert np.isnan(solved[5]).all()


@pytest.mark.parametrize("n", [1, 4, 17, 130])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_triangles_are_solved_as_scipy_solves_them(n, lower, transpose, unit):
    a, b = _random(n, n) / n + 2 * np.eye(n), _random(n, 3, seed=1)
    found = _run(
        lambda a, b: LINALG.triangular_solve(
            a, b, lower=lower, transpose=transpose, unit_diagonal=unit
        ),
        a, b,
    )  # fmt: skip
    wanted = scipy.linalg.solve_triangular(
        a, b, trans=int(transpose), lower=lower, unit_diagonal=unit
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (0, 0), (2, 3, 3), (9, 9), (40, 40)], ids=str)
def test_determinants_and_inverses_are_those_of_numpy(shape):
    a = _random(*shape)
    np.testing.assert_allclose(_run(LINALG.det, a), np.linalg.det(a), rtol=1e-9)
    sign, logarithm = _run(LINALG.slogdet, a)
    wanted = np.linalg.slogdet(a)
    np.testing.assert_array_equal(sign, wanted.sign)
    np.testing.assert_allclose(logarithm, wanted.logabsdet, rtol=1e-9)
    np.testing.assert_allclose(_run(LINALG.inv, a), np.linalg.inv(a), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("n", [3, 8, 9, 20])
def test_a_matrix_without_inverse_gives_no_number_in_its_place_alone(n):
    a = np.stack([np.eye(n), np.zeros((n, n)), np.ones((n, n))])
    assert _run(LINALG.det, a).tolist() == [1.0, 0.0, 0.0]
    sign, logarithm = _run(LINALG.slogdet, a)
    assert sign.tolist() == [1.0, 0.0, 0.0]
    assert logarithm.tolist() == [0.0, -math.inf, -math.inf]
    found = _run(LINALG.inv, a)
    np.testing.assert_array_equal(found[0], np.eye(n))
    assert not np.isfinite(found[1]).any()
    assert not np.isfinite(found[2]).all()


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3), (3, 0)], ids=str)
def test_pseudoinverses_and_least_squares_are_those_of_numpy(shape):
    a, b = _random(*shape), _random(*shape[:-1], 2, seed=1)
    np.testing.assert_allclose(_run(LINALG.pinv, a), np.linalg.pinv(a), atol=1e-12)
    wanted = np.linalg.pinv(a) @ b
    np.testing.assert_allclose(_run(LINALG.lstsq, a, b), wanted, atol=1e-11)
    if a.size:
        np.testing.assert_array_equal(_run(LINALG.matrix_rank, a), np.linalg.matrix_rank(a))


def test_least_squares_without_full_rank_have_the_least_length():
    a = _random(6, 4)
    a[:, 3] = a[:, 1] - a[:, 2]
    b = _random(6, seed=1)
    np.testing.assert_allclose(_run(LINALG.lstsq, a, b), np.linalg.lstsq(a, b)[0], atol=1e-12)
    assert _run(LINALG.matrix_rank, a) == 3
    assert _run(lambda x: LINALG.matrix_rank(x, rtol=0.9), a) == 1
    vector = a[:, 0]
    np.testing.assert_allclose(_run(lambda x: LINALG.pinv(x, rtol=0.9), a),
                               np.linalg.pinv(a, rcond=0.9), atol=1e-12)  # fmt: skip
    assert vector.shape == (6,)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_a_tolerance_of_its_own_for_each_matrix_is_that_of_numpy(dtype):
    a = _random(2, 4, 3) + (1j * _random(2, 4, 3, seed=1) if dtype == "complex128" else 0)
    ratio = np.linalg.svd(a, compute_uv=False)
    between = (ratio[:, 1] + ratio[:, 2]) / (2 * ratio[:, 0])
    rtol = np.stack([np.zeros(2), between, [between[0], 0.0]])  # a batch more than that of `a`
    x, t = sg.placeholder(a.shape, dtype), sg.placeholder(rtol.shape, "float32")
    step = sg.compile([x, t], [LINALG.pinv(x, rtol=t), LINALG.matrix_rank(x, rtol=t),
                               LINALG.lstsq(x, x[0], rtol=t)], opt_level=1)  # fmt: skip
    inverse, rank, least = step(a, rtol.astype("float32"))
    wanted = np.stack([np.linalg.pinv(a, rtol=row) for row in rtol])
    np.testing.assert_allclose(inverse, wanted, atol=1e-11)
    assert rank.tolist() == [[3, 3], [2, 2], [2, 3]]
    np.testing.assert_allclose(least, wanted @ a[0], atol=1e-11)
    single = _run(lambda x: LINALG.pinv(x[0], rtol=rtol[:, 0]), a)
    np.testing.assert_allclose(single, wanted[:, 0], atol=1e-11)


def test_tolerances_are_arrays_ints_and_lists_too():
    a = np.diag([4.0, 1.0])
    for rtol in (0.5, 0, [0.5], np.float32(0.5), np.array([[0.5], [0.0]]), sg.constant(1)):
        known = np.asarray(sg.run(rtol) if isinstance(rtol, sg.Tensor) else rtol)
        wanted = [[np.linalg.pinv(a, rtol=t) for t in known.reshape(-1)]]
        found = _run(lambda x, t=rtol: LINALG.pinv(x, rtol=t), a)
        np.testing.assert_array_equal(found, np.reshape(wanted, (*known.shape, 2, 2)))


def test_the_rank_of_a_matrix_without_elements_is_zero():
    assert sg.run(LINALG.matrix_rank(sg.zeros((0, 3)))) == 0
    assert sg.run(LINALG.matrix_rank(sg.zeros((2, 3, 0)), rtol=[1.0, 2.0])).tolist() == [0, 0]


def test_the_tolerance_of_unknown_sizes_follows_from_those_of_the_call():
    x = sg.placeholder(("n", "m"))
    step = sg.compile([x], LINALG.pinv(x))
    eps = float(np.finfo(np.float32).eps)
    a = np.zeros((40, 2), np.float32)
    a[0, 0], a[1, 1] = 1.0, 30 * eps  # below the 40 roundings of 40 rows
    np.testing.assert_array_equal(step(a), np.diag([1.0, 0.0]) @ np.eye(2, 40))
    np.testing.assert_allclose(step(a[:20])[1, 1], 1 / (30 * eps), rtol=1e-6)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, -1, -2, math.inf, -math.inf])
def test_norms_of_vectors_are_those_of_numpy(order):
    a = _random(2, 3, 4)
    axes: tuple[Any, ...] = (None, 1, (0, 2))
    for axis in axes:
        for keepdims in (False, True):
            found = _run(
                lambda x, axis=axis, keepdims=keepdims: LINALG.vector_norm(
                    x, axis=axis, keepdims=keepdims, ord=order
                ),
                a,
            )
            wanted = np.linalg.vector_norm(a, axis=axis, keepdims=keepdims, ord=order)
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_norms_of_matrices_are_those_of_numpy(order):
    a = _random(2, 3, 4)
    found = _run(lambda x: LINALG.matrix_norm(x, ord=order), a)
    np.testing.assert_allclose(found, np.linalg.matrix_norm(a, ord=order), rtol=1e-12)
    for keepdims in (False, True):
        found = _run(lambda x, k=keepdims: LINALG.norm(x, order, (2, 0), keepdims=k), a)
        wanted = np.linalg.norm(a, order, (2, 0), keepdims=keepdims)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_squares_of_a_norm_end_where_those_of_numpy_do():
    x = np.array([[3e200, 4e200], [3e-200, 4e-200], [3.0, 4.0]])
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.linalg.vector_norm(x, axis=1)
    assert wanted.tolist() == [np.inf, 0.0, 5.0]
    assert _run(lambda x: LINALG.vector_norm(x, axis=1), x).tolist() == wanted.tolist()
    scaled = _run(_scaled_norm, x)
    np.testing.assert_allclose(scaled, [5e200, 5e-200, 5.0], rtol=1e-15)


def _scaled_norm(x: sg.Tensor) -> sg.Tensor:
    greatest = LINALG.vector_norm(x, axis=1, ord=np.inf, keepdims=True)
    return greatest[:, 0] * LINALG.vector_norm(x / greatest, axis=1)


def test_norm_is_that_of_numpy():
    a, v = _random(3, 4), _random(5)
    for x, arguments in ((a, ()), (v, ()), (v, (3,)), (a, (1,)), (a, (None, 0)), (a, (2, 1))):
        found = _run(lambda t, arguments=arguments: LINALG.norm(t, *arguments), x)
        np.testing.assert_allclose(found, np.linalg.norm(x, *arguments), rtol=1e-12)


def test_products_are_those_of_the_standard():
    a, b = _random(2, 3), _random(3)
    np.testing.assert_allclose(_run(LINALG.cross, a, b), np.cross(a, b), rtol=1e-12)
    found = _run(lambda x, y: LINALG.cross(x, y, axis=0), a.T.copy(), b[:, None])
    np.testing.assert_allclose(found, np.cross(a, b).T, rtol=1e-12)
    c = _random(2, 3, 3)
    found = _run(lambda x: LINALG.trace(x, offset=1), c)
    np.testing.assert_allclose(found, np.trace(c, 1, 1, 2), rtol=1e-12)
    for n in (0, 1, 2, 5, -1, -3):
        found = _run(lambda x, n=n: LINALG.matrix_power(x, n), c)
        np.testing.assert_allclose(found, np.linalg.matrix_power(c, n), rtol=1e-8)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 30.0])
def test_exponentials_are_those_of_scipy(scale):
    a = _random(3, 5, 5) * scale
    a[0] = 0
    np.testing.assert_allclose(_run(LINALG.expm, a), scipy.linalg.expm(a), rtol=1e-9)


def test_exponentials_of_what_is_not_finite_are_not_finite():
    a = np.stack([np.eye(2), np.full((2, 2), np.nan), np.full((2, 2), np.inf)])
    found = _run(LINALG.expm, a)
    np.testing.assert_allclose(found[0], np.e * np.eye(2))
    assert np.isnan(found[1:]).all()


@pytest.mark.parametrize("bands", [(1, 1), (0, 2), (2, 0), (2, 1), (0, 0), (3, 2)], ids=str)
def test_banded_systems_are_solved_as_scipy_solves_them(bands):
    low, high = bands
    ab = _random(low + high + 1, 7)
    for b in (_random(7, seed=1), _random(7, 3, seed=1)):
        found = _run(lambda x, y: LINALG.solve_banded(bands, x, y), ab, b)
        wanted = scipy.linalg.solve_banded(bands, ab, b)
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


def test_toeplitz_matrices_are_those_of_scipy():
    c, r = np.arange(4), np.arange(3) * 10
    np.testing.assert_array_equal(_run(LINALG.toeplitz, c), scipy.linalg.toeplitz(c))
    np.testing.assert_array_equal(_run(LINALG.toeplitz, c, r), scipy.linalg.toeplitz(c, r))
