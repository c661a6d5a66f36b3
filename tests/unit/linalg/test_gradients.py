"""Gradients of linear algebra: beside differences to second order, and where they end."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import symgrad as sg
from symgrad.graph.build import apply
from symgrad.graph.ops.cofactors import cofactor_change_op
from symgrad.graph.ops.lu import lu
from symgrad.graph.ops.small_solving import cofactors_of
from tests.support.evaluators import evaluate_native
from tests.support.gradcheck import check_derivatives

LINALG = sg.linalg


def _spread(x: Any, apart: float = 1.0) -> Any:
    """Return a symmetric matrix with eigenvalues that lie apart."""
    return (x + sg.matrix_transpose(x)) * 0.2 + sg.diag(sg.arange(1, 4).astype(x.dtype)) * apart


_SQUARE: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda x: LINALG.cholesky(_spread(x)),
    "upper": lambda x: LINALG.cholesky(_spread(x), upper=True),
    "lu": lambda x: LINALG.lu(x).l + LINALG.lu(x).u * 0.3,
    "qr": lambda x: LINALG.qr(_spread(x)).Q + LINALG.qr(_spread(x)).R * 0.3,
    "eigvalsh": lambda x: LINALG.eigvalsh(_spread(x)),
    "eigh": lambda x: LINALG.eigh(_spread(x)).eigenvectors ** 2,
    "svdvals": lambda x: LINALG.svdvals(_spread(x)),
    "svd": lambda x: LINALG.svd(_spread(x)).U ** 2 + LINALG.svd(_spread(x)).Vh ** 2 * 0.3,
    "inv": lambda x: LINALG.inv(_spread(x)),
    "det": LINALG.det,
    "slogdet": lambda x: LINALG.slogdet(x).logabsdet,
    "pinv": LINALG.pinv,
    "power": lambda x: LINALG.matrix_power(x, 3),
    "negative_power": lambda x: LINALG.matrix_power(_spread(x), -2),
    "expm": LINALG.expm,
    "nuclear": lambda x: LINALG.matrix_norm(_spread(x), ord="nuc"),
    "frobenius": LINALG.matrix_norm,
    "spectral": lambda x: LINALG.matrix_norm(_spread(x), ord=2),
    "columns": lambda x: LINALG.matrix_norm(x, ord=1),
    "cubes": lambda x: LINALG.vector_norm(x, axis=1, ord=3),
}


@pytest.mark.parametrize("name", _SQUARE)
def test_gradients_agree_with_differences_to_second_order(name):
    x = sg.placeholder((3, 3), "float64")
    a = np.random.default_rng(3).uniform(-1, 1, (3, 3)) + np.eye(3)
    check_derivatives(_SQUARE[name], [x], [a], rtol=1e-4)


_SYSTEMS: dict[str, Callable[[Any, Any], Any]] = {
    "solve": lambda a, b: LINALG.solve(_spread(a), b),
    "cho_solve": lambda a, b: LINALG.cho_solve(LINALG.cholesky(_spread(a)), b),
    "triangular": lambda a, b: LINALG.triangular_solve(_spread(a), b),
    "transposed": lambda a, b: LINALG.triangular_solve(_spread(a), b, transpose=True),
    "upper": lambda a, b: LINALG.triangular_solve(_spread(a), b, lower=False, unit_diagonal=True),
    "lstsq": lambda a, b: LINALG.lstsq(_spread(a)[:, :2], b),
    "toeplitz": lambda a, b: LINALG.toeplitz(a[0], b[:, 0]),
    "banded": lambda a, b: LINALG.solve_banded((1, 1), _spread(a) * [[0.2], [3.0], [0.2]], b),
    "cross": lambda a, b: LINALG.cross(a, b[:, 0]),
    "kron": LINALG.kron,
}


@pytest.mark.parametrize("name", _SYSTEMS)
def test_gradients_of_systems_agree_with_differences_to_second_order(name):
    xs = [sg.placeholder((3, 3), "float64"), sg.placeholder((3, 2), "float64")]
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(-1, 1, (3, 3)) + np.eye(3), rng.uniform(-1, 1, (3, 2))]
    check_derivatives(_SYSTEMS[name], xs, arrays, rtol=1e-4, evaluator=evaluate_native)


_RECTANGLES: dict[str, Callable[[Any], Any]] = {
    "qr": lambda x: LINALG.qr(x).Q + sg.sum(LINALG.qr(x).R),
    "svd": lambda x: LINALG.svd(x, full_matrices=False).U ** 2,
    "right": lambda x: LINALG.svd(x, full_matrices=False).Vh ** 2,
    "singular": LINALG.svdvals,
    "full": lambda x: LINALG.svd(x).S,
    "pinv": LINALG.pinv,
}


def test_the_gradient_of_r_of_a_singular_matrix_is_not_finite_and_raises_nothing():
    x = sg.placeholder((2, 3, 3), "float64")
    a = np.stack([np.zeros((3, 3)), np.eye(3) + 0.1])
    g = sg.gradients(sg.sum(LINALG.qr(x).R), [x])[0]
    found, wanted = sg.compile([x], g)(a), sg.testing.interpret(g, {x: a})
    assert not np.isfinite(found[0]).any()
    assert not np.isfinite(wanted[0]).any()
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e6, 1e30, 1e150])
@pytest.mark.parametrize("name", ["expm", "sqrtm"])
def test_gradients_of_functions_of_matrices_are_as_exact_for_every_size_of_cotangents(name, scale):
    x, factor = sg.placeholder((2, 4, 4), "float64"), sg.placeholder((), "float64")
    a = np.random.default_rng(0).uniform(-1, 1, (2, 4, 4)) + 4 * np.eye(4)
    function = getattr(LINALG, name)
    g = sg.gradients(sg.sum(function(x) * factor), [x])[0]
    run = sg.compile([x, factor], g / factor)
    np.testing.assert_allclose(run(a, scale), run(a, 1.0), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_gradients_of_roots_are_as_exact_for_every_size_of_matrices(scale):
    x = sg.placeholder((3, 3), "float64")
    a = np.random.default_rng(0).uniform(-1, 1, (3, 3)) + 4 * np.eye(3)
    run = sg.compile([x], sg.gradients(sg.sum(LINALG.sqrtm(x)), [x])[0])
    np.testing.assert_allclose(run(a * scale) * np.sqrt(scale), run(a), rtol=1e-12)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4)], ids=str)
@pytest.mark.parametrize("name", _RECTANGLES)
def test_gradients_of_rectangles_agree_with_differences(name, shape):
    x = sg.placeholder(shape, "float64")
    a = np.random.default_rng(1).uniform(-1, 1, shape) + 2 * np.eye(*shape)
    check_derivatives(_RECTANGLES[name], [x], [a], rtol=1e-4)


@pytest.mark.parametrize("n", [9, pytest.param(20, marks=pytest.mark.slow)])
def test_gradients_of_blocks_agree_with_those_of_the_reference(n):
    x = sg.placeholder((2, n, n), "float64")
    a = np.random.default_rng(0).uniform(-1, 1, (2, n, n)) + 3 * np.eye(n)
    y = sg.sum(LINALG.cholesky(x @ sg.matrix_transpose(x)) ** 2) + sg.sum(LINALG.inv(x))
    g: Any = sg.gradients(y, [x])[0]
    again = sg.gradients(sg.sum(g * g), [x])[0]
    found = sg.compile([x], [g, again], opt_level=0)(a)
    wanted = sg.testing.interpret([g, again], {x: a})
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def _gradient(function: Callable[[Any], Any], a: Any) -> Any:
    x = sg.placeholder(a.shape, a.dtype)
    (g,) = sg.gradients(sg.sum(function(x)), [x])
    return sg.compile([x], g, opt_level=0)(a)


def test_a_tolerance_has_no_gradient_and_decides_on_that_of_the_matrix():
    a = np.diag([4.0, 1.0])
    x, rtol = sg.placeholder((2, 2), "float64"), sg.placeholder((2,), "float64")
    grads = sg.gradients(sg.sum(LINALG.pinv(x, rtol=rtol)), [x, rtol])
    assert grads[1] is None
    both = sg.compile([x, rtol], grads[0])(a, np.array([0.5, 0.0]))
    singular = _gradient(lambda x: LINALG.pinv(x, rtol=0.5), a)
    np.testing.assert_allclose(singular, [[-1 / 16, 1 / 16], [1 / 16, 0.0]])
    np.testing.assert_allclose(both, singular + _gradient(LINALG.pinv, a))


def test_each_case_of_vmap_has_its_tolerance():
    a = np.diag([4.0, 1.0])
    x, rtol = sg.placeholder((2, 2), "float64"), sg.placeholder((3,), "float64")
    ranks = sg.vmap(lambda t: LINALG.matrix_rank(x, rtol=t))(rtol)
    inverses = sg.vmap(lambda t: LINALG.pinv(x, rtol=t))(rtol)
    found = sg.compile([x, rtol], [ranks, inverses])(a, np.array([0.5, 0.0, 1.0]))
    assert found[0].tolist() == [1, 2, 0]
    np.testing.assert_allclose(found[1][:, 1, 1], [0.0, 1.0, 0.0])


def test_norms_have_the_gradient_zero_at_zero():
    zeros = np.zeros((2, 2))
    for order in (1, 2, 3, 2.5):
        norm = functools.partial(LINALG.vector_norm, ord=order)
        assert not _gradient(norm, zeros).any()
    assert not _gradient(LINALG.matrix_norm, zeros).any()
    assert not _gradient(LINALG.norm, zeros).any()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 12])
def test_the_gradient_of_a_determinant_of_zero_is_the_cofactors(n):
    a = np.random.default_rng(n).standard_normal((4, n, n))
    a[1] = 0
    a[2, :, -1] = 0
    a[3, 0] = a[3, -1] * (n > 1)
    np.testing.assert_allclose(_gradient(LINALG.det, a), cofactors_of(a), rtol=1e-9, atol=1e-9)


def test_a_determinant_of_zero_has_its_gradient_for_each_case_of_vmap():
    a = np.random.default_rng(0).standard_normal((3, 6, 6))
    a[1, 2] = 0
    found = sg.vmap(sg.grad(LINALG.det))(a)
    np.testing.assert_allclose(found, cofactors_of(a), rtol=1e-9, atol=1e-9)


def _matrices_without_inverse(n: int) -> NDArray[np.float64]:
    """Return matrices of rank n, 0, n - 1, n - 1, n - 2, and n but for rounding."""
    a = np.random.default_rng(n).standard_normal((6, n, n))
    a[1] = 0
    a[2, :, -1] = 0
    a[3, 0] = a[3, -1] * (n > 1)
    a[4, :2] = a[4, -1] * (n > 2)
    a[5, 0] = a[5, -1] * (1 + 1e-15)
    return a


def _change_by_minors(a: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
    """Return the second derivative of a determinant along `x`, from minors without two rows."""
    found = np.zeros_like(a)
    for i, j, k, m in itertools.product(range(a.shape[-1]), repeat=4):
        if i != k and j != m:
            sign = (-1) ** (i + j + k + m) * (1 if (i < k) == (j < m) else -1)
            minor = np.delete(np.delete(a, (i, k), axis=-2), (j, m), axis=-1)
            found[..., i, j] += sign * np.linalg.det(minor) * x[..., k, m]
    return found


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7])
def test_the_second_derivative_of_a_determinant_of_zero_is_a_number(n):
    a = _matrices_without_inverse(n)
    x = np.random.default_rng(n + 1).standard_normal(a.shape)
    slope = sg.grad(lambda m: sg.sum(LINALG.det(m)))
    found = sg.grad(lambda m: sg.sum(slope(m) * x))(a)
    np.testing.assert_allclose(found, _change_by_minors(a, x), rtol=1e-12, atol=1e-13)


def test_a_direction_of_another_size_loses_no_digits():
    a = _matrices_without_inverse(4)
    x = np.random.default_rng(1).standard_normal(a.shape)
    slope = sg.grad(lambda m: sg.sum(LINALG.det(m)))
    for size in (1e-30, 1e30):
        found = sg.grad(lambda m, size=size: sg.sum(slope(m) * (size * x)))(a) / size
        np.testing.assert_allclose(found, _change_by_minors(a, x), rtol=1e-12, atol=1e-13)


def test_the_cofactors_of_complex_matrices_change_as_those_of_real_ones():
    a = _matrices_without_inverse(4) * (1 + 2j)
    x = np.random.default_rng(1).standard_normal((2, *a.shape))
    z = sg.placeholder(a.shape, "complex128")
    y = sg.placeholder(a.shape, "complex128")
    step = sg.compile([z, y], apply(cofactor_change_op, z, *lu(z), y), opt_level=1)
    found = step(a, x[0] + 1j * x[1])
    expected = _change_by_minors(a, x[0] + 1j * x[1])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_equal_eigenvalues_have_gradients_where_there_is_a_limit():
    np.testing.assert_allclose(_gradient(LINALG.eigvalsh, np.eye(3)), np.eye(3), atol=1e-15)
    np.testing.assert_allclose(_gradient(LINALG.svdvals, np.eye(3)), np.eye(3), atol=1e-15)
    np.testing.assert_allclose(_gradient(LINALG.pinv, np.eye(2) * 2), -0.25 * np.ones((2, 2)))


def test_equal_eigenvalues_give_no_number_where_their_vectors_matter():
    found = _gradient(lambda x: LINALG.eigh(x).eigenvectors[0, 1], np.eye(3))
    assert not np.isfinite(found).all()


def _exponential(x: Any) -> Any:
    """Return the exponential of a symmetric matrix by its eigenvectors."""
    values, vectors = LINALG.eigh(x)
    return (vectors * sg.astype(sg.exp(values), vectors.dtype)) @ sg.conj(vectors.mT)


def _by_singular_vectors(x: Any) -> Any:
    """Return x of its singular vectors alone: they turn, and what they make does not."""
    u, s, vh = LINALG.svd(x, full_matrices=False)
    return (u * sg.astype(sg.stop_gradient(s), u.dtype)) @ vh


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("function", [_exponential, _by_singular_vectors])
def test_functions_of_matrices_with_equal_eigenvalues_give_no_number(function, dtype):
    # Their gradients at ones are not those of fixed vectors, which have zeros off the diagonal.
    x, v = sg.placeholder((3, 3), dtype), sg.placeholder((3, 3), dtype)
    y = function(x)
    (g,) = sg.gradients(sg.sum(sg.real(y) * np.arange(9.0).reshape(3, 3)), [x])
    (tangent,) = sg.jvp([y], [x], [v])
    step = sg.compile([x, v], [g, tangent], opt_level=0)
    equals, apart, ones = (np.asarray(a, dtype) for a in (np.eye(3), np.diag([1, 2, 4]), 1))
    along = np.broadcast_to(ones, (3, 3))
    for found in step(equals, along):
        assert not np.isfinite(found).all()
    for found in step(apart, along):
        assert np.isfinite(found).all()


def test_a_change_that_does_not_turn_equal_vectors_has_its_tangent():
    x, v = sg.placeholder((3, 3), "float64"), sg.placeholder((3, 3), "float64")
    (tangent,) = sg.jvp([_exponential(x)], [x], [v])
    change = np.diag([1.0, 2.0, 3.0])
    found = sg.compile([x, v], tangent, opt_level=0)(np.eye(3), change)
    np.testing.assert_allclose(found, np.e * change, atol=1e-15)


def test_a_vector_beside_those_of_equal_eigenvalues_has_its_gradient():
    a, weights = np.diag([1.0, 1.0, 3.0]), np.arange(3.0)
    found = _gradient(lambda x: LINALG.eigh(x).eigenvectors[:, 2] ** 2 @ weights, a + 0.0)
    np.testing.assert_array_equal(found, np.zeros((3, 3)))
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    near = turned @ np.diag([1.0, 1.5, 3.0]) @ turned.T
    sg.testing.check_gradients(
        lambda x: LINALG.eigh(x + x.mT).eigenvectors[:, 2] ** 2 @ weights, [near]
    )


def test_a_matrix_without_inverse_has_infinite_gradients_and_its_neighbours_do_not():
    a = np.stack([np.eye(2), np.zeros((2, 2))])
    found = _gradient(lambda x: LINALG.slogdet(x).logabsdet, a)
    np.testing.assert_array_equal(found[0], np.eye(2))
    assert not np.isfinite(found[1]).all()


def test_gradients_of_vectors_that_are_not_determined_are_refused():
    x = sg.placeholder((4, 2))
    for y in (LINALG.qr(x, mode="complete").Q, LINALG.svd(x).U):
        with pytest.raises(sg.NoGradientError, match="does not determine"):
            sg.gradients(sg.sum(y), [x])


def test_the_gradient_of_a_solution_uses_its_factors():
    a, b = sg.placeholder((20, 20), "float64"), sg.placeholder((20,), "float64")
    grads: list[Any] = list(sg.gradients(sg.sum(LINALG.solve(a, b)), [a, b]))
    ops = [node.op for node in sg.Graph(grads, [a, b]).nodes]
    assert ops.count("lu") == 1


@pytest.mark.parametrize("name", ["cholesky", "lu", "qr", "eigvalsh", "svdvals", "inv", "expm"])
def test_forward_mode_agrees_with_reverse_mode(name):
    x, v = sg.placeholder((3, 3), "float64"), sg.placeholder((3, 3), "float64")
    rng = np.random.default_rng(3)
    y = sg.sum(_SQUARE[name](x) ** 2)
    (tangent,) = sg.jvp([y], [x], [v])
    (g,) = sg.gradients(y, [x])
    arrays = rng.uniform(-1, 1, (3, 3)) + np.eye(3), rng.uniform(-1, 1, (3, 3))
    found, wanted = sg.compile([x, v], [tangent, sg.sum(g * v)], opt_level=0)(*arrays)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
