"""Eigenvalues and eigenvectors of square matrices, by LAPACK."""

from __future__ import annotations

import json

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph import library_functions
from symgrad.testing import check_gradients
from tests.support.refusals import assert_refused

_RNG = np.random.default_rng(3)
_REAL = _RNG.normal(size=(2, 4, 4))
_COMPLEX = _REAL + 1j * _RNG.normal(size=(2, 4, 4))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_vectors_belong_to_their_values(dtype):
    for shape in ((1, 1), (5, 5), (3, 4, 4), (30, 30), (2, 0, 0), (0, 3, 3)):
        a = _RNG.normal(size=shape) + (1j * _RNG.normal(size=shape) if "c" in dtype else 0)
        a = a.astype(dtype)
        values, vectors = sg.run(list(sg.linalg.eig(a)))
        wanted = np.result_type(dtype, np.complex64)
        assert values.dtype == vectors.dtype == wanted
        bound = 400 * np.finfo(dtype).eps
        np.testing.assert_allclose(a @ vectors, vectors * values[..., None, :], atol=bound)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=-2), 1, rtol=bound)
        alone = sg.run(sg.linalg.eigvals(a))
        np.testing.assert_allclose(np.sort(alone), np.sort(values), rtol=bound, atol=bound)


@pytest.mark.parametrize("a", [_REAL, _COMPLEX], ids=["real", "complex"])
def test_gradients_are_those_of_differences(a):
    check_gradients(lambda x: list(sg.linalg.eig(x)), [a])
    check_gradients(sg.linalg.eigvals, [a], order=2)


def test_a_real_matrix_has_a_real_gradient_in_machine_code():
    x = sg.placeholder((4, 4), "float64")
    # The sum of all eigenvalues is the trace, and that of their squares is of the square.
    loss = sg.sum(sg.real(sg.linalg.eigvals(x) ** 2))
    (gradient,) = sg.gradients(loss, [x])
    step = sg.compile([x], gradient, opt_level=0)
    np.testing.assert_allclose(step(_REAL[0]), 2 * _REAL[0].T, rtol=1e-10, atol=1e-12)


def test_cases_of_vmap_are_a_batch():
    found = sg.run(sg.vmap(sg.linalg.eigvals)(sg.constant(_REAL)))
    np.testing.assert_allclose(np.sort(found), np.sort(np.linalg.eigvals(_REAL)), rtol=1e-12)


def test_a_matrix_that_is_not_finite_gives_nan_and_no_other_does():
    a = _REAL.copy()
    a[0, 1, 2] = np.inf
    values, vectors = sg.run(list(sg.linalg.eig(a)))
    for found in (values, vectors):
        assert np.isnan(found[0]).all()
        assert np.isfinite(found[1]).all()


def test_an_export_names_the_symbol(tmp_path):
    x = sg.placeholder((4, 4), "float64", name="x")
    sg.compile([x], sg.sum(sg.abs(sg.linalg.eigvals(x))), opt_level=0).export(tmp_path / "net")
    assert "dgeev_: link with -llapack" in (tmp_path / "net.h").read_text()
    manifest = json.loads((tmp_path / "net.json").read_text())["manifest"]
    assert [f["name"] for f in manifest["functions"]] == ["dgeev_"]


def test_without_scipy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(library_functions, "_address_in_scipy", lambda _: None)
    library_functions.function_of.cache_clear()
    x = sg.placeholder((5, 5), "complex128")
    try:
        with pytest.raises(sg.CompileError, match="extern zgeev_: there is no symbol of this name"):
            sg.compile([x], sg.linalg.eigvals(x), opt_level=0, cache=False)
    finally:
        library_functions.function_of.cache_clear()


def test_a_matrix_that_is_not_square_is_refused():
    assert_refused(lambda: sg.linalg.eigvals(np.ones((2, 3))), ValueError, """
        eigvals: a: f64[2, 3] is not square
          --> <here>
    """)  # fmt: skip
