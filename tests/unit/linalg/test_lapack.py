"""Eigenvalues and singular values by LAPACK: as NumPy has them, in memory and in exports."""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph import library_functions
from symgrad.graph.types import Array
from tests.support.c_programs import X86, needs_library, run_in_c
from tests.support.refusals import assert_refused

DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32"])


def drawn(*shape: int, dtype: str = "float64") -> Array:
    return np.random.default_rng(7).normal(size=shape).astype(dtype)


def swapped(a: Array) -> Array:
    return np.swapaxes(a, -1, -2)


@DTYPES
def test_eigenvectors_of_the_lower_triangle_belong_to_their_eigenvalues(dtype):
    for shape in ((1, 1), (5, 5), (3, 8, 8), (2, 0, 0), (0, 3, 3), (40, 40)):
        a = drawn(*shape, dtype=dtype)
        lower = np.tril(a)
        whole = lower + swapped(np.tril(a, -1))
        values, vectors = sg.run(sg.linalg.eigh(a, method="lapack"))
        bound = 200 * np.finfo(dtype).eps
        np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=bound, atol=bound)
        np.testing.assert_allclose(whole @ vectors, vectors * values[..., None, :], atol=bound)
        assert vectors.dtype == dtype


@DTYPES
def test_singular_vectors_make_the_matrix(dtype):
    for shape in ((1, 1), (5, 5), (3, 8, 5), (2, 5, 8), (40, 30), (2, 3, 0)):
        a = drawn(*shape, dtype=dtype)
        bound = 200 * np.finfo(dtype).eps
        for full in (False, True):
            u, s, vh = sg.run(sg.linalg.svd(a, full_matrices=full, method="lapack"))
            k = s.shape[-1]
            np.testing.assert_allclose(s, np.linalg.svd(a)[1], rtol=bound, atol=bound)
            made = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
            np.testing.assert_allclose(made, a, atol=bound)
            for vectors in (u, swapped(vh)):
                products = swapped(vectors) @ vectors
                np.testing.assert_allclose(products, np.eye(products.shape[-1]) + 0 * products,
                                           atol=bound)  # fmt: skip


def test_a_matrix_that_is_not_finite_gives_nan_and_no_other_does():
    a = drawn(3, 4, 4)
    a[1, 2, 1] = np.nan
    values, vectors = sg.run(sg.linalg.eigh(a, method="lapack"))
    singular = sg.run(sg.linalg.svdvals(a, method="lapack"))
    for found in (values, vectors, singular):
        assert np.isnan(found[1]).all()
        assert np.isfinite(found[[0, 2]]).all()


def test_the_upper_triangle_is_not_read():
    a = drawn(4, 4)
    other = np.tril(a) + np.triu(np.full((4, 4), np.inf), 1)
    found = [sg.run(sg.linalg.eigvalsh(x, method="lapack")) for x in (a, other)]
    np.testing.assert_array_equal(found[0], found[1])


def test_the_gradient_is_that_of_the_other_method():
    x = sg.placeholder((6, 6), "float64")
    found = []
    methods: tuple[Literal["jacobi", "lapack"], ...] = ("jacobi", "lapack")
    for method in methods:
        values, vectors = sg.linalg.eigh(x, method=method)
        y = sg.sum(values * values * sg.arange(6, dtype="float64")) + sg.sum(vectors[0] ** 4)
        u, s, _ = sg.linalg.svd(x, method=method)
        (g,) = sg.gradients(y + sg.sum(s**3) + sg.sum(u[1] ** 4), [x])
        found.append(sg.compile([x], g, opt_level=1)(drawn(6, 6)))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-9)


def test_it_is_called_in_loops_and_threads():
    xs = sg.placeholder((3, 5, 5), "float64")
    step = sg.compile(
        [xs], sg.map(lambda x: sg.linalg.eigvalsh(x @ x.T, method="lapack"), xs), threads=2,
        opt_level=1,
    )  # fmt: skip
    a = drawn(3, 5, 5)
    np.testing.assert_allclose(step(a), np.linalg.eigvalsh(a @ swapped(a)), rtol=1e-12)


def test_an_export_names_the_symbols_and_their_library(tmp_path):
    x = sg.placeholder((5, 5), "float64", name="x")
    values, _ = sg.linalg.eigh(x, method="lapack")
    step = sg.compile([x], [values, sg.linalg.svdvals(x, method="lapack")], opt_level=0)
    step.export(tmp_path / "net")
    header = (tmp_path / "net.h").read_text()
    assert "dsyevd_: link with -llapack" in header
    assert "dgesdd_: link with -llapack" in header
    manifest = json.loads((tmp_path / "net.json").read_text())["manifest"]
    assert {f["name"]: f["library"] for f in manifest["functions"]} == {
        "dsyevd_": "lapack",
        "dgesdd_": "lapack",
    }


@needs_library("-llapack")
@pytest.mark.parametrize("dtype", ["float64", pytest.param("complex64", marks=pytest.mark.slow)])
def test_an_export_runs_in_a_program_of_c_linked_with_lapack(tmp_path, dtype):
    x = sg.placeholder((6, 6), dtype)
    hermitian = x + sg.conj(sg.matrix_transpose(x))
    y = sg.sum(sg.linalg.svdvals(x, method="lapack") ** 3)
    results = [
        sg.linalg.eigvalsh(hermitian, method="lapack"),
        sg.sum(sg.linalg.eigvals(x) ** 2),
        *sg.gradients(y, [x]),
    ]
    a = drawn(6, 6) + (1j * drawn(7, 6)[1:] if dtype == "complex64" else 0)
    graph = sg.Graph(results, [x])
    found = run_in_c(X86, tmp_path, graph, [a.astype(dtype)], libraries=["-llapack"])
    bound = 1000 * float(np.finfo(dtype).eps)
    for here, there in zip(found, sg.run(results, {x: a.astype(dtype)}), strict=True):
        np.testing.assert_allclose(here, there, rtol=bound, atol=bound * 10)


def test_without_scipy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(library_functions, "_address_in_scipy", lambda _: None)
    library_functions.function_of.cache_clear()
    x = sg.placeholder((5, 5), "float64")
    y = sg.linalg.eigvalsh(x, method="lapack")
    try:
        with pytest.raises(sg.CompileError) as caught:
            sg.compile([x], y, opt_level=0, cache=False)
    finally:
        library_functions.function_of.cache_clear()
    text = str(caught.value)
    assert text.startswith("extern dsyevd_: there is no symbol of this name in the process\n")
    assert "hint: install SciPy, the extra linalg, or load LAPACK with ctypes.CDLL" in text


def test_a_method_there_is_not():
    method: Any = "qr"
    assert_refused(lambda: sg.linalg.svdvals(np.eye(2), method=method), ValueError, """
        svdvals: method 'qr' is neither 'jacobi' nor 'lapack'
          --> <here>
    """)  # fmt: skip
