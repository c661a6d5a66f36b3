"""Linear algebra of complex matrices, by products and by the real embedding, beside NumPy."""

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
_ROWS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "solve": (sg.linalg.solve, np.linalg.solve, (_A, _B)),
    "solve_vector": (sg.linalg.solve, np.linalg.solve, (_A[0].real.copy(), _B[0, :, 0])),
    "inv": (sg.linalg.inv, np.linalg.inv, (_A,)),
    "pinv": (sg.linalg.pinv, np.linalg.pinv, (_TALL,)),
    "pinv_wide": (sg.linalg.pinv, np.linalg.pinv, (_TALL.T.copy(),)),
    "lstsq": (sg.linalg.lstsq, lambda a, b: np.linalg.pinv(a) @ b, (_TALL, _TALL[:, 1].copy())),
    "expm": (sg.linalg.expm, scipy.linalg.expm, (_A[0],)),
    "sqrtm": (sg.linalg.sqrtm, scipy.linalg.sqrtm, (_A[0] @ _A[0].conj().T + 1j * np.eye(3),)),
    "eigvalsh": (sg.linalg.eigvalsh, np.linalg.eigvalsh, (_HERMITIAN,)),
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


@pytest.mark.parametrize("name", ["cholesky", "lu", "qr", "eigh", "svd", "det", "slogdet"])
def test_what_is_not_there_for_complex_matrices_is_refused(name):
    a = sg.placeholder((2, 2), "complex64")
    with pytest.raises(TypeError, match=f"{name}: a: .* is none of float32, float64"):
        getattr(sg.linalg, name)(a)
