"""QR of matrices far from 1: reflections are made of squares, which must not overflow or vanish."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

_SCALES = {
    "float64": (1e-300, 1e-200, 1e-100, 1e100, 1e200, 1e300),
    "float32": (1e-36, 1e-25, 1e25, 1e36),
    "complex128": (1e-200, 1e200),
}


@pytest.mark.parametrize("dtype", _SCALES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 6, 3)])
def test_factors_and_gradients_are_those_of_the_matrix_near_1(shape, dtype):
    rng = np.random.default_rng(0)
    a = rng.standard_normal(shape)
    if dtype == "complex128":
        a = a + 1j * rng.standard_normal(shape)
    x = sg.placeholder(shape, dtype)
    q, r = sg.linalg.qr(x)
    (gradient,) = sg.gradients(sg.sum(sg.real(r) if dtype == "complex128" else r), [x])
    step = sg.compile([x], [q, r, gradient])
    wanted = step(a.astype(dtype))
    rtol = 1e-4 if dtype == "float32" else 1e-11
    for scale in _SCALES[dtype]:
        found = step((a * scale).astype(dtype))
        for got, right, by in zip(found, wanted, (1, scale, 1), strict=True):
            np.testing.assert_allclose(got / by, right, rtol=rtol, atol=rtol)


def test_special_matrices_and_none():
    x, nothing = sg.placeholder((3, 2), "float64"), sg.placeholder((0, 2), "float64")
    outputs = [*sg.linalg.qr(x), *sg.linalg.qr(nothing)]
    q, r, q_of_none, r_of_none = sg.compile([x, nothing], outputs)(
        np.zeros((3, 2)), np.ones((0, 2))
    )
    np.testing.assert_array_equal(r, np.zeros((2, 2)))
    np.testing.assert_allclose(q.T @ q, np.eye(2), atol=1e-15)
    assert (q_of_none.shape, r_of_none.shape) == ((0, 0), (0, 2))


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        ("float32", (1e17, 1e-22, 1.0)),
        ("float32", (1.0, 1e-30, 1e30)),
        ("float64", (1e145, 1e-145, 1e-200)),
    ],
)
def test_a_column_that_is_small_beside_another_does_not_vanish(dtype, numbers):
    given = np.array([[3, 1, 2], [4, 0, 1], [0, 2, 1]]) * numbers
    q, r = (np.asarray(t, "float64") for t in sg.run([*sg.linalg.qr(given.astype(dtype))]))
    wanted = np.linalg.qr(given / numbers)
    rtol = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(q, wanted[0], rtol=rtol, atol=rtol)
    np.testing.assert_allclose(r / numbers, wanted[1], rtol=rtol, atol=rtol)
