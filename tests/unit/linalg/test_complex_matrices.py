"""Linear algebra of complex matrices, beside NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import symgrad as sg
from symgrad.testing import check_gradients, interpret

_RNG = np.random.default_rng(0)


def _numbers(*shape: int) -> np.ndarray[Any, Any]:
    return _RNG.normal(size=shape) + 1j * _RNG.normal(size=shape)


_A, _B, _TALL = _numbers(2, 3, 3), _numbers(2, 3, 2), _numbers(4, 2)
_HERMITIAN = _A + np.swapaxes(_A.conj(), -1, -2)
_POSITIVE = _A @ np.swapaxes(_A.conj(), -1, -2) + 3 * np.eye(3)


def _adjoint(a: sg.Tensor) -> sg.Tensor:
    return sg.conj(sg.matrix_transpose(a))


_ROWS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "solve": (sg.linalg.solve, np.linalg.solve, (_A, _B)),
    "solve_vector": (sg.linalg.solve, np.linalg.solve, (_A[0].real.copy(), _B[0, :, 0])),
    "inv": (sg.linalg.inv, np.linalg.inv, (_A,)),
    "pinv": (sg.linalg.pinv, np.linalg.pinv, (_TALL,)),
    "pinv_wide": (sg.linalg.pinv, np.linalg.pinv, (_TALL.T.copy(),)),
    "lstsq": (sg.linalg.lstsq, lambda a, b: np.linalg.pinv(a) @ b, (_TALL, _TALL[:, 1].copy())),
    "expm": (sg.linalg.expm, scipy.linalg.expm, (_A[0],)),
    "sqrtm": (sg.linalg.sqrtm, scipy.linalg.sqrtm, (_A[0] @ _A[0].conj().T + 1j * np.eye(3),)),
    "eigvalsh": (  # the gradient is Hermitian, so the check must move along such matrices
        lambda a: sg.linalg.eigvalsh((a + _adjoint(a)) / 2), np.linalg.eigvalsh, (_HERMITIAN,)
    ),
    "cholesky": (
        lambda a: sg.linalg.cholesky((a + _adjoint(a)) / 2), np.linalg.cholesky, (_POSITIVE,)
    ),
    "lu": (lambda a: sg.linalg.lu(a)[2], lambda a: scipy.linalg.lu(a)[2], (_A,)),
    "qr": (lambda a: sg.linalg.qr(a)[1], lambda a: np.linalg.qr(a)[1], (_TALL,)),
    "det": (sg.linalg.det, np.linalg.det, (_A,)),
    "slogdet": (
        lambda a: sg.linalg.slogdet(a).logabsdet, lambda a: np.linalg.slogdet(a)[1], (_A,)
    ),
    "sign of slogdet": (
        lambda a: sg.linalg.slogdet(a).sign, lambda a: np.linalg.slogdet(a)[0], (_A,)
    ),
    "triangular_solve": (
        sg.linalg.triangular_solve,
        lambda a, b: np.linalg.solve(np.tril(a), b),
        (_A, _B),
    ),
    "cho_solve": (
        lambda a, b: sg.linalg.cho_solve(sg.linalg.cholesky((a + _adjoint(a)) / 2), b),
        np.linalg.solve,
        (_POSITIVE, _B),
    ),
    "solve_banded": (
        lambda a, b: sg.linalg.solve_banded((1, 1), a, b),
        lambda a, b: scipy.linalg.solve_banded((1, 1), a, b),
        (_A[0] + np.array([[0], [5], [0]]), _B[0]),
    ),
    "cross": (sg.linalg.cross, np.cross, (_A[0], _A[1])),
    "kron": (sg.linalg.kron, np.kron, (_A[0], _TALL)),
    "eigenvalues": (lambda a: sg.sum(sg.linalg.eigvals(a) ** 3, axis=-1),
                    lambda a: (np.linalg.eigvals(a) ** 3).sum(-1), (_A,)),
    "svdvals": (sg.linalg.svdvals, np.linalg.svdvals, (_TALL,)),
    "norm": (sg.linalg.norm, np.linalg.norm, (_TALL,)),
    "nuclear": (
        lambda x: sg.linalg.matrix_norm(x, ord="nuc"), lambda x: np.linalg.norm(x, "nuc"), (_TALL,)
    ),
    "power": (
        lambda x: sg.linalg.matrix_power(x, -2), lambda x: np.linalg.matrix_power(x, -2), (_A,)
    ),
    "vector_norm": (
        lambda x: sg.linalg.vector_norm(x, ord=3), lambda x: np.linalg.norm(x.ravel(), 3), (_TALL,)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _ROWS)
def test_values_are_those_of_numpy_and_gradients_those_of_differences(name):
    function, expected, arrays = _ROWS[name]
    tensors = [sg.placeholder(a.shape, a.dtype) for a in arrays]
    found = interpret(function(*tensors), arrays)
    np.testing.assert_allclose(found, expected(*arrays), rtol=1e-9, atol=1e-12)
    check_gradients(function, list(arrays))


def test_a_program_solves_in_machine_code():
    a, b = sg.placeholder(("n", "n"), "complex64"), sg.placeholder(("n",), "complex64")
    step = sg.compile([a, b], sg.linalg.solve(a, b), opt_level=0)
    matrix, right = _A[0].astype(np.complex64), _B[0, :, 0].astype(np.complex64)
    np.testing.assert_allclose(step(matrix, right), np.linalg.solve(matrix, right), rtol=1e-4)


def test_the_lower_triangle_of_a_hermitian_matrix_is_read():
    lower = np.tril(_HERMITIAN[0]) + 5j * np.eye(3)
    found = sg.run(sg.linalg.eigvalsh(sg.constant(lower)))
    np.testing.assert_allclose(found, np.linalg.eigvalsh(_HERMITIAN[0]), rtol=1e-12)


def test_factors_make_the_matrix():
    found = {
        "eigh": sg.linalg.eigh(sg.constant(_HERMITIAN)),
        "lapack": sg.linalg.eigh(sg.constant(_HERMITIAN), method="lapack"),
        "eig": sg.linalg.eig(sg.constant(_A)),
    }
    for name, (values, vectors) in ((n, sg.run(list(pair))) for n, pair in found.items()):
        given = _A if name == "eig" else _HERMITIAN
        np.testing.assert_allclose(given @ vectors, vectors * values[:, None, :], atol=1e-11)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-12)
    for method in ("jacobi", "lapack"):
        for a in (_TALL, _TALL.T.copy(), _A):
            u, s, vh = sg.run(list(sg.linalg.svd(a, full_matrices=False, method=method)))
            np.testing.assert_allclose((u * s[..., None, :]) @ vh, a, atol=1e-12)
            assert s.dtype == np.float64
    p, lower, u = sg.run(list(sg.linalg.lu(_A)))
    np.testing.assert_allclose(p @ lower @ u, _A, atol=1e-12)
    q, r = sg.run(list(sg.linalg.qr(_TALL, mode="complete")))
    np.testing.assert_allclose(q @ r, _TALL, atol=1e-12)
    np.testing.assert_allclose(q.conj().T @ q, np.eye(4), atol=1e-12)


@pytest.mark.parametrize("n", [9, pytest.param(40, marks=pytest.mark.slow)])
def test_larger_matrices_are_factored_in_machine_code(n):
    a = _numbers(n, n).astype(np.complex64)
    positive = a @ a.conj().T + n * np.eye(n, dtype="complex64")
    x, y = sg.placeholder((n, n), "complex64"), sg.placeholder((n, n), "complex64")
    step = sg.compile([x, y], [sg.linalg.cholesky(x), sg.linalg.det(y / n)], opt_level=0)
    factor, determinant = step(positive, a)
    np.testing.assert_allclose(factor, np.linalg.cholesky(positive), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(determinant, np.linalg.det(a / n), rtol=1e-3)
