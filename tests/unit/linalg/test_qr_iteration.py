"""Eigenvalues and singular values of small matrices, each of which has a lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import symgrad as sg
from symgrad.graph.ops.portable import ArrayScalars

Array = NDArray[Any]
_DTYPES = ("float32", "float64")


def _graded(n: int, dtype: str) -> Array:
    """Return powers of ten from 1 down, as far as the digits of products go."""
    return np.logspace(0, -n + 1, n).astype(dtype)


def _matrices(n: int, dtype: str) -> dict[str, Array]:
    """Return matrices that are hard to iterate on, each in its own way."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, n)).astype(dtype)
    q = np.linalg.qr(x)[0]
    grades, ones = _graded(n, dtype), np.ones((n, n), dtype)
    clusters = np.repeat([1.0, 1e-3, 1e-9, 0.0], -(-n // 4))[:n].astype(dtype)
    half = np.r_[np.full(n // 2, 1e-5), np.ones(n - n // 2)]
    return {
        "random": x,
        "zeros": ones * 0,
        "the identity": np.eye(n, dtype=dtype),
        "ones": ones,
        "of rank 2": x[:, :2] @ x[:2],
        "graded": x * grades[:, None] * grades,
        "graded the other way": (x * grades[:, None] * grades)[::-1, ::-1],
        "graded columns": x * grades,
        "of clusters": (q * clusters) @ q.T,
        "of clusters in falling order": (q * clusters[::-1]) @ q.T,
        "a shift": np.eye(n, k=1, dtype=dtype),
        "second differences": 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1),
        "of pairs": np.kron(np.eye(-(-n // 2)), [[0.0, 1.0], [1.0, 0.0]])[:n, :n],
        "of diagonals, small ones first": np.diag(half) + 0.3 * np.eye(n, k=1),
        "whole numbers on the diagonal": np.diag(np.arange(n) % 5.0),
        "small": x * 1e-30,
        "large": x * 1e30,
        "mostly too small to be squared": x * 1e-25 + np.diag(np.arange(n) == 3) * ones,
    }


def _batch(n: int, dtype: str, *, is_symmetric: bool) -> tuple[list[str], Array]:
    found = _matrices(n, dtype)
    a = np.stack(list(found.values())).astype(dtype)
    return list(found), a + a.swapaxes(-1, -2) if is_symmetric else a


def _run(f: Any, a: Array, **options: Any) -> list[Array]:
    x = sg.placeholder(a.shape, a.dtype.name)
    return [np.asarray(t) for t in sg.compile([x], list(f(x)), opt_level=1, **options)(a)]


def _scaled(a: Array, values: Array) -> tuple[Array, Array]:
    """Return matrices whose greatest element is 1, and their values, in float64."""
    top = np.abs(a).max((-1, -2), keepdims=True).astype("float64")
    top[top == 0] = 1
    return a / top, values / top[..., 0]


def _off(products: Array) -> Array:
    """Return for each matrix how far its vectors are from orthonormal ones."""
    return np.asarray(np.abs(products - np.eye(products.shape[-1])).max((-1, -2)))


@pytest.mark.parametrize(("n", "dtype"), [(5, "float64"), (11, "float32"), (11, "float64")])
def test_eigenvectors_of_matrices_of_every_kind_are_right_to_rounding(n: int, dtype: str) -> None:
    names, a = _batch(n, dtype, is_symmetric=True)
    values, vectors = _run(sg.linalg.eigh, a)
    scaled, eigenvalues = _scaled(a, values)
    precision = 10 * n * float(np.finfo(dtype).eps)
    wide = vectors.astype("float64")
    residuals = np.abs(scaled @ wide - wide * eigenvalues[:, None]).max((-1, -2))
    for name, residual, skew in zip(names, residuals, _off(wide.mT @ wide), strict=True):
        assert residual < precision, name
        assert skew < precision, name
    assert (np.diff(values) >= 0).all()
    assert np.abs(eigenvalues - np.linalg.eigvalsh(scaled)).max() < precision


@pytest.mark.parametrize(("n", "dtype"), [(5, "float64"), (11, "float32"), (11, "float64")])
def test_singular_vectors_of_matrices_of_every_kind_are_right_to_rounding(
    n: int, dtype: str
) -> None:
    names, a = _batch(n, dtype, is_symmetric=False)
    u, values, vh = _run(sg.linalg.svd, a)
    scaled, singular = _scaled(a, values)
    precision = 10 * n * float(np.finfo(dtype).eps)
    u, vh = u.astype("float64"), vh.astype("float64")
    residuals = np.abs((u * singular[:, None]) @ vh - scaled).max((-1, -2))
    for name, *errors in zip(names, residuals, _off(u.mT @ u), _off(vh @ vh.mT), strict=True):
        assert max(errors) < precision, name
    assert (np.diff(values) <= 0).all()
    assert (values >= 0).all()
    wanted = np.linalg.svd(scaled, compute_uv=False)
    assert np.abs(singular - wanted).max() < precision


@pytest.mark.parametrize("function", [sg.linalg.eigh, sg.linalg.svd])
def test_no_matrix_depends_on_those_beside_it_nor_on_threads(function: Any) -> None:
    _, a = _batch(6, "float64", is_symmetric=True)
    order = np.random.default_rng(0).permutation(len(a))
    alone = _run(function, a)
    moved = _run(function, a[order], threads=2)
    for one, other in zip(alone, moved, strict=True):
        np.testing.assert_array_equal(one[order], other)


@pytest.mark.parametrize("n", [5, 10])
def test_what_is_not_finite_ends_in_nan_alone(n: int) -> None:
    a = np.random.default_rng(0).standard_normal((8, n, n))
    a = a + a.mT
    bad = ((1, np.nan, n - 1), (4, np.inf, n - 2), (6, -np.inf, 0))
    finite = [i for i in range(8) if i not in {place for place, _, _ in bad}]
    expected = np.linalg.eigvalsh(a), np.linalg.svd(a, compute_uv=False)
    for place, value, row in bad:
        a[place, row, 0] = a[place, 0, row] = value
    for found, wanted in zip(
        (_run(sg.linalg.eigh, a)[0], _run(sg.linalg.svd, a)[1]), expected, strict=True
    ):
        np.testing.assert_allclose(found[finite], wanted[finite], rtol=1e-12)
        for place, _, _ in bad:
            assert not np.isfinite(found[place]).any()


def test_of_a_symmetric_matrix_the_lower_triangle_is_read() -> None:
    a = np.random.default_rng(0).standard_normal((4, 6, 6))
    values, vectors = _run(sg.linalg.eigh, np.tril(a) + np.triu(np.full_like(a, np.nan), 1))
    whole = np.tril(a) + np.tril(a, -1).mT
    np.testing.assert_allclose(whole @ vectors, vectors * values[:, None], atol=1e-13)


def test_rectangles_have_the_singular_values_of_their_triangles() -> None:
    for shape in ((3, 9, 6), (3, 6, 9)):
        a = np.random.default_rng(0).standard_normal(shape)
        for full in (False, True):
            u, s, vh = _run(lambda x, full=full: sg.linalg.svd(x, full_matrices=full), a)
            np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), rtol=1e-12)
            k = s.shape[-1]
            np.testing.assert_allclose((u[..., :k] * s[:, None]) @ vh[:, :k], a, atol=1e-13)
            assert _off(u.mT @ u).max() < 1e-13
            assert _off(vh @ vh.mT).max() < 1e-13


def test_logic_on_arrays_is_that_of_conditions() -> None:
    scalars, yes = ArrayScalars(), np.array([True, False])
    assert scalars.call("or", yes, yes[::-1]).all()
    assert scalars.call("not", yes).tolist() == [False, True]
