"""Determinants of a few rows near singular matrices, beside mpmath: as many digits as LU has."""

import mpmath
import numpy as np
import pytest

import symgrad as sg


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_determinants_lose_no_more_digits_than_the_condition_says(rows):
    rng = np.random.default_rng(rows)
    x = sg.placeholder((8, rows, rows), "float64")
    step = sg.compile([x], sg.linalg.det(x))
    for condition in (1e3, 1e6, 1e10):
        turns = np.linalg.qr(rng.normal(size=(2, 8, rows, rows)))[0]
        matrices = turns[0] * np.geomspace(1, 1 / condition, rows) @ turns[1]
        with mpmath.workdps(50):
            exact = [float(mpmath.det(mpmath.matrix(m.tolist()))) for m in matrices]
        np.testing.assert_allclose(step(matrices), exact, rtol=8e-16 * rows * condition)


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_a_column_of_zeros_and_a_row_of_zeros_have_no_volume(rows):
    rng = np.random.default_rng(rows)
    x = sg.placeholder((rows, rows))
    step = sg.compile([x], sg.linalg.det(x))
    for place in range(rows):
        a = rng.normal(size=(rows, rows)).astype("float32")
        a[:, place] = 0
        assert step(a) == step(a.T) == 0
    assert np.isnan(step(np.full((rows, rows), np.nan, "float32")))
    np.testing.assert_allclose(step(np.eye(rows, dtype="float32")[::-1]), (1, -1, -1, 1)[rows - 1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_determinants_of_two_rows_are_right_to_a_unit_and_a_product_may_overflow(dtype):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(1000, 2, 2)).astype(dtype)
    a[:500, 1, 1] = a[:500, 0, 1] * a[:500, 1, 0] / a[:500, 0, 0]  # nearly singular
    x = sg.placeholder(a.shape, dtype)
    found = sg.compile([x], sg.linalg.det(x))(a)
    with mpmath.workdps(50):
        exact = [mpmath.det(mpmath.matrix(m.tolist())) for m in a]
        rounded = np.array([float(value) for value in exact], dtype)
        for f, e, r in zip(found, exact, rounded, strict=True):
            assert abs(float(f) - e) < 2 * np.spacing(abs(r))
    single = sg.placeholder((2, 2), dtype)
    huge = np.array([[1, 1e30], [1e30, 1]], dtype) ** (1 if dtype == "float32" else 6)
    assert sg.compile([single], sg.linalg.det(single))(huge) == -np.inf


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [2, 3, 4])
def test_determinants_of_integers_are_exact(rows, dtype):
    rng = np.random.default_rng(rows)
    a = rng.integers(-9, 10, (1000, rows, rows))
    a[:100, 0] = a[:100, 1]
    x = sg.placeholder(a.shape, dtype)
    found = sg.compile([x], sg.linalg.det(x))(a.astype(dtype))
    np.testing.assert_array_equal(found, np.rint(np.linalg.det(a.astype(float))))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_determinants_of_four_rows_have_all_digits_whichever_singular_values_are_small(dtype):
    rng = np.random.default_rng(4)
    x = sg.placeholder((30, 4, 4), dtype)
    step = sg.compile([x], sg.linalg.det(x))
    small = 1e-5 if dtype == "float32" else 1e-10
    for values in ([1, 1, 1, small], [1, 1, small, small], [1, small, small, small]):
        turns = np.linalg.qr(rng.normal(size=(2, 30, 4, 4)))[0]
        matrices = (turns[0] * np.array(values) @ turns[1]).astype(dtype)
        with mpmath.workdps(50):
            exact = [float(mpmath.det(mpmath.matrix(m.tolist()))) for m in matrices]
        double = np.finfo("float64").eps / small
        np.testing.assert_allclose(
            step(matrices), exact, rtol=4 * (np.finfo(dtype).eps + double**2)
        )


@pytest.mark.parametrize("target", ["native", "x86-64-v2"])
def test_determinants_of_four_rows_that_overflow_are_infinite_of_the_right_sign(target):
    rng = np.random.default_rng(5)
    a = rng.normal(size=(100, 4, 4))
    x = sg.placeholder(a.shape, "float64")
    step = sg.compile([x], sg.linalg.det(x), target=target)
    signs = np.sign(np.linalg.det(a))
    for size in (1e80, 1e120, 1e152):
        np.testing.assert_array_equal(step(size * a), signs * np.inf)
    mixed = a * np.array([1e140, 1e140, 1e-140, 1e-140])[:, None]
    np.testing.assert_allclose(step(mixed), np.linalg.det(a), rtol=1e-10)


def test_determinants_of_four_rows_whose_columns_are_of_many_sizes_are_right():
    rng = np.random.default_rng(6)
    a = rng.normal(size=(100, 4, 4))
    x = sg.placeholder(a.shape, "float64")
    step = sg.compile([x], sg.linalg.det(x))
    for sizes in ((1e-200, 1, 1, 1e200), (1, 1e200, 1, 1e-200), (1e160, 1e-30, 1e10, 1e100)):
        scaled = a * np.array(sizes)
        np.testing.assert_allclose(step(scaled), np.linalg.det(scaled), rtol=1e-10)
