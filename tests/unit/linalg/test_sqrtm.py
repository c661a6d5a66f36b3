"""Square roots of matrices, and their gradients, beside SciPy's; where there is no real one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import symgrad as sg
from symgrad.graph.types import Array


def drawn(n: int, dtype: str = "float64") -> Array:
    rng = np.random.default_rng(n)
    a = rng.normal(size=(n, n))
    return np.asarray((a @ a.T / n + 0.3 * rng.normal(size=(n, n)) + 2 * np.eye(n)).astype(dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_it_is_the_principal_root(dtype):
    for n in (1, 2, 5, 20):
        a = drawn(n, dtype)
        wanted = scipy.linalg.sqrtm(a.astype("float64"))
        found = sg.run(sg.linalg.sqrtm(a))
        np.testing.assert_allclose(found, wanted, atol=50 * np.finfo(dtype).eps)
        assert found.dtype == dtype


def test_scales_do_not_matter():
    a = np.array([[1.0, 4, 0], [0, 9, 1], [0, 0, 16]])
    for scale in (1e-150, 1e-8, 1e150):
        found = sg.run(sg.linalg.sqrtm(a * scale)) / np.sqrt(scale)
        np.testing.assert_allclose(found, scipy.linalg.sqrtm(a), rtol=1e-13, atol=1e-14)


def test_one_of_a_batch_without_a_real_root_is_nan_and_no_other():
    turned = np.array([[0.0, -1.0], [1.0, 0.0]])
    a = np.stack([np.diag([4.0, 0]), np.diag([1.0, -1]), turned, np.full((2, 2), np.nan),
                  -np.eye(2), np.array([[-4.0, 1], [0, 2]]), np.zeros((2, 2))])  # fmt: skip
    found = sg.run(sg.linalg.sqrtm(a))
    assert [bool(np.isnan(x).all()) for x in found] == [False, True, False, True, True, True, False]
    np.testing.assert_allclose(found[0], np.diag([2.0, 0]), atol=1e-15)
    np.testing.assert_allclose(found[2], scipy.linalg.sqrtm(turned).real, atol=1e-15)
    np.testing.assert_array_equal(found[6], np.zeros((2, 2)))


def test_the_gradient_solves_sylvesters_equation():
    a, w = drawn(4), np.random.default_rng(3).normal(size=(4, 4))
    x = sg.placeholder((4, 4), "float64")
    (g,) = sg.gradients(sg.sum(sg.linalg.sqrtm(x) * w), [x])
    root = scipy.linalg.sqrtm(a)
    wanted = scipy.linalg.solve_sylvester(root.T, root.T, w)
    np.testing.assert_allclose(sg.compile([x], g, opt_level=0)(a), wanted, rtol=1e-11)
