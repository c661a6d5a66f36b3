"""Norms of float16 and bfloat16: computed in float32, where squares fit, and rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

_VALUES = np.array([[300.0, -400.0, 0.0], [1000.0, 200.0, -50.0], [0.0, 8.0, 2.0]])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_of_halves_are_those_of_float32_rounded(dtype):
    x, wide = (sg.placeholder((3, 3), of) for of in (dtype, "float32"))
    orders: list[Any] = ["fro", 2, 1, -1, np.inf, -np.inf]
    norms: list[Any] = [lambda t, o=o: sg.linalg.matrix_norm(t, ord=o) for o in orders]
    norms += [
        lambda t, o=o: sg.linalg.vector_norm(t, axis=1, ord=o) for o in (0, 1, 2, 1.5, 3, np.inf)
    ]
    norms += [sg.linalg.norm, lambda t: sg.linalg.norm(t, axis=0), lambda t: sg.linalg.norm(t, 1)]
    norms += [np.linalg.norm]
    made, wanted = ([f(t) for f in norms] for t in (x, wide))
    given = _VALUES.astype(x.dtype.numpy)
    (to_x,) = sg.gradients(sg.linalg.norm(x), [x])
    step = sg.compile([x, wide], [made, wanted, to_x], opt_level=0)
    found, rights, gradient = step(given, given.astype("float32"))
    for got, right in zip(found, rights, strict=True):
        assert got.dtype == given.dtype
        np.testing.assert_array_equal(got, right.astype(given.dtype))
    np.testing.assert_allclose(
        gradient.astype("f8"), _VALUES / np.linalg.norm(_VALUES), rtol=1e-2, atol=1e-5
    )
    assert gradient.dtype == given.dtype
