"""Factorisations of matrices near the ends of the range of floats, and of any rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import symgrad as sg

_DTYPES = ("float32", "float64", "complex64", "complex128")


def _matrices(dtype: str, n: int) -> NDArray[Any]:
    """Return random matrices: as they are, near either end of the range, with columns of both."""
    rng = np.random.default_rng(n)
    limits = np.finfo(dtype)
    large, small = limits.max / 1000, limits.tiny * 1000
    a = rng.standard_normal((6, n, n)) + 1j * rng.standard_normal((6, n, n))
    a = (a if np.dtype(dtype).kind == "c" else a.real).astype(dtype)
    a[1] *= large
    a[2] *= small
    a[3] *= small / 1e6  # subnormal
    a[4, :, 0] *= large
    a[4, :, 1] *= small
    a[5, :, 2] = a[5, :, 0]  # what is left of it after the first two is rounding
    return a


def _not_unitary(q: NDArray[Any]) -> Any:
    wide = q.astype(np.result_type(q.dtype, "float64"))
    return np.abs(wide @ wide.conj().swapaxes(-1, -2) - np.eye(q.shape[-1])).max()


def _run(f: Any, a: NDArray[Any]) -> list[NDArray[Any]]:
    x = sg.placeholder(a.shape, a.dtype.name)
    return [np.asarray(t) for t in sg.compile([x], list(f(x)), opt_level=1)(a)]


@pytest.mark.parametrize("n", [7, 19])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_qr_scales_each_column(dtype: str, n: int) -> None:
    a = _matrices(dtype, n)
    q, r = _run(sg.linalg.qr, a)
    precision = 40 * n * float(np.finfo(dtype).eps)
    assert _not_unitary(q) < precision
    wide = np.result_type(dtype, "float64")
    usual = [0, 1, 2, 4, 5]
    scale = np.abs(a[usual]).max((-2, -1), keepdims=True).astype("float64")
    product = q[usual].astype(wide) @ (r[usual] / scale)
    np.testing.assert_allclose(product, a[usual] / scale, atol=precision)
    # Of subnormal numbers R has the digits that there are.
    least = np.finfo(dtype).smallest_subnormal
    assert np.abs(q[3].astype(wide) @ r[3] - a[3]).max() < 4 * n * least


@pytest.mark.parametrize("n", [2, 3, 9])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_eigh_scales_each_matrix(dtype: str, n: int) -> None:
    a = np.stack([_matrices(dtype, 9)[0, :n, :n]] * 3)
    a = a + a.conj().swapaxes(-1, -2)
    expected = np.linalg.eigvalsh(a[0])
    limits = np.finfo(dtype)
    scales = np.array([1.0, limits.max / 1000, limits.tiny * 1000], limits.dtype)
    values, vectors = _run(sg.linalg.eigh, a * scales[:, None, None])
    precision = 100 * n * limits.eps
    assert _not_unitary(vectors) < precision
    assert np.abs(values / scales[:, None] - expected).max() < precision


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_svd_of_a_matrix_of_any_rank_is_one(dtype: str, rank: int) -> None:
    left, right = _matrices(dtype, 4)[0, :, :rank], _matrices(dtype, 5)[0, :rank, :4]
    a = np.stack([left @ right, np.eye(4, dtype=dtype)])
    a[0, 1] = a[0, 0]  # columns that rotations make all but nothing of
    u, s, vh = _run(sg.linalg.svd, a)
    precision = 200 * np.finfo(dtype).eps
    assert max(_not_unitary(u), _not_unitary(vh)) < precision
    assert np.abs((u * s[:, None, :]) @ vh - a).max() < precision
    assert (s[0] > precision).sum() <= rank
