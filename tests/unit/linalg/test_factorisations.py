"""Factorisations beside NumPy and SciPy: of many sizes, batched, ill-conditioned, empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import symgrad as sg

Array = np.ndarray[Any, Any]
SHAPES = (
    *((0, 0), (1, 1), (2, 3, 3), (7, 7), (9, 9), (0, 3, 3)),
    pytest.param((2, 17, 17), marks=pytest.mark.slow),
    pytest.param((70, 70), marks=pytest.mark.slow),
)
WIDE = ("float32", "float64")


def _run(function: Callable[..., Any], *arrays: Array, level: int = 0) -> Any:
    xs = [sg.placeholder(a.shape, a.dtype) for a in arrays]
    return sg.compile(xs, function(*xs), opt_level=level)(*arrays)


def _random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _definite(shape: tuple[int, ...], dtype: str) -> Array:
    x = _random(shape, dtype)
    return np.asarray(x @ x.swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype) * shape[-1])


def _symmetric(shape: tuple[int, ...], dtype: str) -> Array:
    x = _random(shape, dtype)
    return x + x.swapaxes(-1, -2)


def _close(found: Any, wanted: Any, *, scale: float = 1.0) -> None:
    eps = np.finfo(found.dtype).eps
    n = max(found.shape[-1:], default=1)
    limit = 40 * scale * eps * (n + 4) * max(1.0, np.abs(wanted).max(initial=0))
    assert np.abs(found - wanted).max(initial=0) <= limit


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", WIDE)
def test_cholesky_is_that_of_numpy(shape, dtype):
    a = _definite(shape, dtype)
    found = _run(sg.linalg.cholesky, np.tril(a) + np.triu(np.full_like(a, 7), 1))
    assert found.dtype == a.dtype
    _close(found, np.linalg.cholesky(a))
    assert not np.triu(found, 1).any()
    _close(_run(lambda x: sg.linalg.cholesky(x, upper=True), a), found.swapaxes(-1, -2))


@pytest.mark.parametrize(
    "shape", [*SHAPES, pytest.param((2, 150, 150), marks=pytest.mark.slow)], ids=str
)
@pytest.mark.parametrize("dtype", WIDE)
def test_lu_has_the_pivots_of_scipy(shape, dtype):
    a = _random(shape, dtype)
    p, lower, upper = _run(sg.linalg.lu, a)
    _close(p @ lower @ upper, a)
    assert not np.triu(lower, 1).any()
    assert not np.tril(upper, -1).any()
    for at in np.ndindex(shape[:-2]):
        wanted = scipy.linalg.lu(a[at])[0] if a.size else a[at]
        np.testing.assert_array_equal(p[at], wanted)


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize(
    "shape",
    [(0, 0), (3, 0), (0, 3), (1, 1), (2, 4, 3), (3, 5), (35, 40), (65, 2)],
    ids=str,
)
def test_qr_is_that_of_numpy(shape, mode):
    a = _random(shape, "float64")
    q, r = _run(lambda x: sg.linalg.qr(x, mode=mode), a)
    wanted = np.linalg.qr(a, mode)
    assert (q.shape, r.shape) == (wanted.Q.shape, wanted.R.shape)
    _close(q @ r, a)
    _close(q.swapaxes(-1, -2) @ q, np.eye(q.shape[-1]))
    _close(r, wanted.R)


@pytest.mark.parametrize(
    ("shape", "mode"),
    [((9, 8, 8), "reduced"), ((8, 9, 4), "complete"), ((10, 3, 7), "reduced"),
     pytest.param((20, 16, 16), "reduced", marks=pytest.mark.slow)],
    ids=str,
)  # fmt: skip
def test_qr_of_many_small_matrices_is_that_of_numpy(shape, mode):
    a = np.random.default_rng(0).standard_normal(shape)
    a[1] *= 1e300
    a[2] *= 1e-300
    a[3, :, 1] = a[3, :, 0]
    q, r = _run(lambda x: sg.linalg.qr(x, mode=mode), a)
    scale = np.abs(a).max((-2, -1), keepdims=True)
    np.testing.assert_allclose(q @ (r / scale), a / scale, atol=1e-13)
    np.testing.assert_allclose(
        q.swapaxes(-1, -2) @ q,
        np.broadcast_to(np.eye(q.shape[-1]), (len(q), *2 * q.shape[-1:])),
        atol=1e-13,
    )
    usual = [0, *range(4, len(a))]
    wanted = np.linalg.qr(a[usual], mode)
    np.testing.assert_allclose(r[usual], wanted.R, atol=1e-12)
    assert (np.tril(r, -1) == 0).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", WIDE)
def test_eigh_is_that_of_numpy(shape, dtype):
    a = _symmetric(shape, dtype)
    values, vectors = _run(sg.linalg.eigh, np.tril(a))
    _close(values, np.linalg.eigvalsh(a))
    _close(a @ vectors, vectors * values[..., None, :])
    _close(vectors.swapaxes(-1, -2) @ vectors, np.eye(shape[-1]))
    _close(_run(sg.linalg.eigvalsh, a), values)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "shape", [(0, 0), (3, 0), (0, 3), (1, 1), (2, 4, 3), (3, 5), (20, 3), (5, 1)], ids=str
)
def test_svd_is_that_of_numpy(shape, full):
    a = _random(shape, "float64")
    u, s, vh = _run(lambda x: sg.linalg.svd(x, full_matrices=full), a)
    wanted = np.linalg.svd(a, full_matrices=full)
    assert (u.shape, s.shape, vh.shape) == (wanted.U.shape, wanted.S.shape, wanted.Vh.shape)
    k = s.shape[-1]
    _close(u[..., :k] * s[..., None, :] @ vh[..., :k, :], a)
    _close(s, wanted.S)
    _close(u.swapaxes(-1, -2) @ u, np.eye(u.shape[-1]))
    _close(vh @ vh.swapaxes(-1, -2), np.eye(vh.shape[-2]))
    _close(_run(sg.linalg.svdvals, a), s)


def test_matrices_without_full_rank_have_orthonormal_vectors():
    a = _random((9, 6), "float64")
    a[:, 2] = 0
    a[:, 5] = a[:, 4]
    u, s, vh = _run(lambda x: sg.linalg.svd(x, full_matrices=False), a)
    _close(u * s @ vh, a)
    _close(u.T @ u, np.eye(6))
    assert (s[4:] < 1e-14).all()
    q, r = _run(sg.linalg.qr, a)
    _close(q @ r, a)
    _close(q.T @ q, np.eye(6))
    zeros = np.zeros((3, 3))
    assert [x.tolist() for x in _run(sg.linalg.eigh, zeros)] == [[0.0] * 3, np.eye(3).tolist()]
    assert not _run(sg.linalg.svdvals, zeros).any()


@pytest.mark.parametrize("n", [6, 12, pytest.param(80, marks=pytest.mark.slow)])
def test_an_ill_conditioned_matrix_is_factorised_to_its_own_rounding(n):
    hilbert = scipy.linalg.hilbert(n) + 1e-13 * np.eye(n)
    lower = _run(sg.linalg.cholesky, hilbert)
    assert np.abs(lower @ lower.T - hilbert).max() < 4e-16 * n
    p, left, upper = _run(sg.linalg.lu, hilbert)
    assert np.abs(p @ left @ upper - hilbert).max() < 4e-16 * n
    values = _run(sg.linalg.eigvalsh, hilbert)
    assert np.abs(values - np.linalg.eigvalsh(hilbert)).max() < 4e-15 * n


@pytest.mark.parametrize("n", [2, 16, 20, 70])
def test_a_matrix_that_is_not_definite_gives_nan_alone(n):
    a = np.stack([np.eye(n)] * 3)
    a[1, n // 2, n // 2] = 0
    a[2, -1, -1] = -1
    found = _run(sg.linalg.cholesky, a)
    np.testing.assert_array_equal(found[0], np.eye(n))
    assert np.isnan(found[1:]).all()


def test_nan_and_infinity_end_in_nan():
    for bad in (np.nan, np.inf):
        a = _symmetric((2, 7, 7), "float64")
        a[1, 3, 2] = a[1, 2, 3] = bad
        values, vectors = _run(sg.linalg.eigh, a)
        assert np.isfinite(values[0]).all()
        assert np.isnan(values[1]).all()
        assert np.isfinite(vectors[0]).all()
        singular = _run(sg.linalg.svdvals, a)
        assert np.isfinite(singular[0]).all()
        assert not np.isfinite(singular[1]).any()


def test_integers_become_float32_and_lists_are_taken():
    found = sg.run(sg.linalg.cholesky([[4, 2], [2, 5]]))
    assert found.dtype == np.float32
    assert found.tolist() == [[2.0, 0.0], [1.0, 2.0]]


def test_results_are_named_tuples_of_the_standard():
    x = sg.placeholder((3, 3))
    assert sg.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert sg.linalg.qr(x)._fields == ("Q", "R")
    assert sg.linalg.svd(x)._fields == ("U", "S", "Vh")
    assert sg.linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert sg.linalg.lu(x)._fields == ("p", "l", "u")


def test_numpy_functions_on_a_tensor_build_graph():
    a = _definite((3, 3), "float64")
    x = sg.placeholder((3, 3), "float64")
    functions: tuple[Any, ...] = (
        np.linalg.cholesky, np.linalg.inv, np.linalg.det, np.linalg.eigvalsh, np.linalg.pinv,
        np.linalg.norm, np.linalg.matrix_norm, np.linalg.vector_norm, np.linalg.svdvals,
        np.linalg.matrix_rank,
    )  # fmt: skip
    found = sg.compile([x], [f(x) for f in functions], opt_level=0)(a)
    for value, function in zip(found, functions, strict=True):
        np.testing.assert_allclose(value, function(a), rtol=1e-12)
    values = sg.compile([x], np.linalg.eigh(x).eigenvalues, opt_level=0)(a)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_change_a_bit(threads):
    a = _definite((2, 150, 150), "float64")
    x = sg.placeholder(a.shape, "float64")
    outputs = [sg.linalg.cholesky(x), *sg.linalg.lu(x), *sg.linalg.qr(x)]
    alone = sg.compile([x], outputs, opt_level=1)(a)
    shared = sg.compile([x], outputs, opt_level=1, threads=threads)(a)
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 5), (4, 1)], ids=str)
def test_singular_values_of_great_and_of_small_elements_neither_overflow_nor_vanish(shape):
    a = np.random.default_rng(0).normal(size=shape)
    wanted = np.linalg.svd(a, full_matrices=False)
    x = sg.placeholder(shape, "float64")
    step = sg.compile([x], list(sg.linalg.svd(x, full_matrices=False)))
    for scale in (1e200, 1e-200):
        u, s, vh = step(a * scale)
        np.testing.assert_allclose(s / scale, wanted.S, rtol=1e-13)
        np.testing.assert_allclose((u * (s / scale)) @ vh, a, atol=1e-13)
