"""Batches of small matrices that go by parts: one loop for a function and its gradient."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.types import Array


def _cofactors(a: Array) -> Array:
    n = a.shape[-1]
    found = np.empty(a.shape)
    for i, j in np.ndindex(n, n):
        minor = np.delete(np.delete(a.astype("float64"), i, axis=-2), j, axis=-1)
        found[..., i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return found


def _singular_matrices(count: int, n: int) -> Array:
    """Return matrices of which some have no inverse, in ways that leave pivots of 0."""
    a = np.random.default_rng(n).standard_normal((count, n, n))
    a[1] = 0
    a[2, 3] = 0
    a[3, :, 1] = 0
    a[4, 1] = 0
    a[4, :, 2] = 0  # the rank is n - 1 here, and two pivots are 0
    a[5] = np.diag(np.arange(n))
    a[6, 0] = a[6, :, 1] = a[6, :, 3] = 0
    return a


@pytest.mark.parametrize(("n", "dtype", "tolerance"), [(5, "float64", 1e-9), (12, "float32", 1e-3)])
def test_cofactors_are_right_also_where_an_elimination_leaves_two_pivots_of_zero(
    n: int, dtype: str, tolerance: float
) -> None:
    a = _singular_matrices(64, n).astype(dtype)
    x = sg.placeholder(a.shape, dtype)
    loss = sg.sum(sg.linalg.det(x))
    (found,) = sg.compile([x], sg.gradients(loss, [x]), opt_level=1)(a)
    expected = _cofactors(a)
    # Of rank n - 2 all cofactors are 0, but for rounding beside those of other matrices.
    sizes = abs(expected).max((-2, -1), keepdims=True)
    scale = np.maximum(sizes, np.median(sizes))
    np.testing.assert_allclose(found / scale, expected / scale, atol=tolerance)


def test_cofactors_of_one_matrix_are_right_where_two_pivots_are_zero() -> None:
    a = _singular_matrices(8, 12)[4]
    x = sg.placeholder(a.shape, "float64")
    (found,) = sg.compile([x], sg.gradients(sg.linalg.det(x), [x]), opt_level=1)(a)
    np.testing.assert_allclose(found, _cofactors(a), atol=1e-9)


def test_a_matrix_has_the_same_cofactors_beside_others_without_an_inverse() -> None:
    a = _singular_matrices(64, 5)
    x = sg.placeholder(a.shape, "float64")
    step = sg.compile([x], sg.gradients(sg.sum(sg.linalg.det(x)), [x]), opt_level=1)
    (beside,) = step(a)
    a[1:7] = np.eye(5)
    (alone,) = step(a)
    np.testing.assert_array_equal(beside[7:], alone[7:])
    np.testing.assert_array_equal(beside[0], alone[0])


def test_a_system_and_its_gradient_are_eliminated_once() -> None:
    x, b = sg.placeholder((400, 6, 6), "float64"), sg.placeholder((400, 6, 1), "float64")
    y = sg.sum(sg.linalg.solve(x, b) ** 2)
    step = sg.compile([x, b], [y, *sg.gradients(y, [x, b])], opt_level=1)
    assert step.ir("optimized").count("eliminate_columns %") == 3  # two columns at a time


def _stored_steps(step: sg.Step) -> list[str]:
    """Return how many numbers the kernels of an elimination store."""
    kernels = step.ir("loops").split("// computes ")
    texts = (text for text in kernels if "eliminate_columns\n" in text)
    found = (re.search(r"out b\d+: f64\[(\d+)\]", text) for text in texts)
    return [match[1] for match in found if match]


def test_a_determinant_alone_stores_no_rows_of_u() -> None:
    a = np.random.default_rng(2).standard_normal((400, 6, 6))
    x = sg.placeholder(a.shape, "float64")
    alone = sg.compile([x], sg.linalg.det(x), opt_level=1)
    beside = sg.compile([x], [sg.linalg.det(x), sg.linalg.solve(x, x[..., :1])], opt_level=1)
    sizes = _stored_steps(alone)
    lanes = int(sizes[0]) // 14  # of a step of two columns of 6 elements and two places
    assert sizes[:3] == [str(size * lanes) for size in (14, 10, 6)]
    assert _stored_steps(beside)[:3] == [str(14 * lanes)] * 3
    np.testing.assert_array_equal(alone(a), beside(a)[0])
    np.testing.assert_allclose(alone(a), np.linalg.det(a), rtol=1e-10)


@pytest.mark.parametrize("threads", [1, 3])
def test_systems_by_parts_and_their_gradients_are_those_of_the_closed_form(threads: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((403, 6, 6)), rng.standard_normal((403, 6, 1))
    a += 4 * np.eye(6)
    x, y = sg.placeholder(a.shape, "float64"), sg.placeholder(b.shape, "float64")
    solution = sg.linalg.solve(x, y)
    grads = sg.gradients(sg.sum(solution**2), [x, y])
    step = sg.compile([x, y], [solution, *grads], opt_level=1, threads=threads)
    found, of_a, of_b = step(a, b)
    expected = np.linalg.solve(a, b)
    seed = np.linalg.solve(a.swapaxes(-1, -2), 2 * expected)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(of_b, seed, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(of_a, -seed @ expected.swapaxes(-1, -2), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3)])
def test_lu_factors_of_no_matrices_have_gradients(shape: tuple[int, ...]) -> None:
    x = sg.placeholder(shape, "float64")
    (of_x,) = sg.gradients(sg.sum(sg.linalg.lu(x).u ** 2), [x])
    assert sg.compile([x], of_x, opt_level=0)(np.zeros(shape)).shape == shape
