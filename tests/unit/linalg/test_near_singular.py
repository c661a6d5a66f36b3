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
