"""Linear algebra within programs: batched, in loops and functions, of unknown sizes, exported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.ops.small_matrices import substitute_columns

Array = np.ndarray[Any, Any]
LINALG: Any = sg.linalg  # which is given what a type checker would refuse


def _definite(*shape: int) -> Array:
    x = np.random.default_rng(0).standard_normal(shape)
    return x @ x.swapaxes(-1, -2) + np.eye(shape[-1]) * shape[-1]


def _everything(a: sg.Tensor) -> list[sg.Tensor]:
    b = a[..., :2]
    return [
        LINALG.cholesky(a), *LINALG.lu(a), *LINALG.qr(a), *LINALG.eigh(a), *LINALG.svd(a),
        LINALG.solve(a, b), LINALG.det(a), *LINALG.slogdet(a), LINALG.pinv(a),
        LINALG.expm(a * 0.1), LINALG.triangular_solve(a, b),
    ]  # fmt: skip


def test_a_batch_gives_what_each_matrix_does():
    a = _definite(3, 5, 5)
    one, many = sg.placeholder((5, 5), "float64"), sg.placeholder((3, 5, 5), "float64")
    alone = sg.compile([one], _everything(one), opt_level=0)
    batched = sg.compile([many], _everything(many), opt_level=0)(a)
    mapped = sg.compile([many], sg.vmap(_everything)(many), opt_level=0)(a)
    for i in range(3):
        for single, whole, of_map in zip(alone(a[i]), batched, mapped, strict=True):
            np.testing.assert_allclose(whole[i], single, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(of_map[i], single, rtol=1e-9, atol=1e-12)


def test_gradients_under_vmap_are_those_of_each_matrix():
    a = _definite(3, 4, 4)
    many = sg.placeholder((3, 4, 4), "float64")

    def gradient(x: Any) -> Any:
        y = sg.sum(LINALG.cholesky(x)) + LINALG.slogdet(x).logabsdet + sg.sum(LINALG.eigvalsh(x))
        return sg.gradients(y, [x])[0]

    found = sg.compile([many], sg.vmap(gradient)(many), opt_level=0)(a)
    one = sg.placeholder((4, 4), "float64")
    alone = sg.compile([one], gradient(one), opt_level=0)
    for i in range(3):
        np.testing.assert_allclose(found[i], alone(a[i]), rtol=1e-9, atol=1e-12)


def test_sizes_may_be_known_only_when_a_program_is_called():
    x = sg.placeholder((None, "n", "n"), "float64")
    y = sg.sum(LINALG.inv(x)) + sg.sum(LINALG.cholesky(x)) + sg.sum(LINALG.eigvalsh(x))
    step = sg.compile([x], [y, *sg.gradients(y, [x])], opt_level=0)
    for shape in ((2, 3, 3), (1, 9, 9), (3, 1, 1)):
        a = _definite(*shape)
        value, gradient = step(a)
        wanted = np.linalg.inv(a).sum() + np.linalg.cholesky(a).sum() + np.linalg.eigvalsh(a).sum()
        np.testing.assert_allclose(value, wanted, rtol=1e-9)
        assert gradient.shape == shape
    with pytest.raises(sg.ShapeError):
        step(np.zeros((2, 3, 4)))


def test_factorisations_run_in_loops_branches_and_functions():
    a = _definite(3, 5, 5)
    x = sg.placeholder((3, 5, 5), "float64")

    @sg.function
    def solved(m: sg.Tensor) -> Any:
        return LINALG.solve(m, m[:, 0])

    def body(total: sg.Tensor, m: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
        return total + sg.sum(LINALG.cholesky(m)), LINALG.slogdet(m).logabsdet + sg.sum(solved(m))

    total, rows = sg.scan(body, sg.constant(0.0, "float64"), x)
    branch = sg.cond(total > 0, lambda: LINALG.inv(x[0]), lambda: x[0])
    y = total + sg.sum(rows) + sg.sum(branch)
    found = sg.compile([x], [y, *sg.gradients(y, [x])], opt_level=0)(a)
    wanted = sg.testing.interpret([y, *sg.gradients(y, [x])], {x: a})
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("count", [1000, 1201])
def test_many_matrices_are_factorised_in_parts(count):
    a = _definite(count, 4, 4)
    x = sg.placeholder(a.shape, "float64")
    outputs = [LINALG.cholesky(x), *LINALG.lu(x)[1:], LINALG.eigvalsh(x)]
    factor, lower, upper, values = sg.compile([x], outputs, opt_level=0)(a)
    np.testing.assert_allclose(factor, np.linalg.cholesky(a), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=1e-9)
    assert lower.shape == upper.shape == a.shape


def test_a_program_is_exported_and_gives_the_same_bits(tmp_path):
    a = _definite(20, 20)
    x = sg.placeholder(a.shape, "float64", name="a")
    outputs = [LINALG.cholesky(x), LINALG.inv(x), LINALG.eigvalsh(x)]
    step = sg.compile([x], outputs, opt_level=0)
    sg.export({"factors": step}, tmp_path / "linear")
    library = sg.load(tmp_path / "linear")
    for one, other in zip(step(a), library["factors"](a), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_graph_with_factorisations_is_text():
    x = sg.placeholder((3, 3), "float64")
    graph = sg.Graph([LINALG.cholesky(x), LINALG.svd(x).S], [x])
    assert str(sg.Graph.parse(str(graph))) == str(graph)
    assert "cholesky %" in str(graph)


def test_what_is_not_read_is_not_computed():
    x = sg.placeholder((3, 3), "float64")
    factors = LINALG.lu(x)
    step = sg.compile([x], x + 1.0)
    assert " lu %" not in step.ir("optimized")
    assert factors.u.shape == (3, 3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: LINALG.cholesky(sg.zeros((2, 3))), sg.ShapeError, "cholesky: a: f32[2, 3] is not"),
        (lambda: LINALG.inv(sg.zeros((3,))), sg.ShapeError, "inv: a: f32[3] has fewer than two"),
        (lambda: LINALG.det(sg.zeros((2, 2), "float16")), sg.DTypeError, "det: a: f16[2, 2] is no"),
        (lambda: LINALG.solve(sg.zeros((2, 2)), sg.zeros((3,))), sg.ShapeError, "rows differ: a: "),
        (lambda: LINALG.solve(sg.zeros((2, 2)), 1.0), sg.ShapeError, "solve: b: f32[] has no axis"),
        (lambda: LINALG.qr(sg.zeros((2, 2)), mode="r"), sg.GraphError, "qr: mode 'r' is neither"),
        (lambda: LINALG.matrix_norm(sg.zeros((2, 2)), ord=3), sg.GraphError, "ord is 3, none of"),
        (lambda: LINALG.norm(sg.zeros((2, 2, 2)), 2), sg.ShapeError, "norm: x: f32[2, 2, 2] has"),
        (lambda: LINALG.norm(sg.zeros((2,)), "fro"), sg.GraphError, "ord 'fro' is for two axes"),
        (lambda: LINALG.vector_norm(sg.zeros(2), ord="a"), sg.GraphError, "ord is 'a', not a num"),
        (lambda: LINALG.matrix_power(sg.zeros((2, 2)), 0.5), sg.DTypeError, "n is 0.5, not an int"),
        (lambda: LINALG.matrix_power(sg.zeros((2, 3)), 2), sg.ShapeError, "is no square matrix"),
        (lambda: LINALG.pinv(sg.zeros((2, 3)), rtol=1j), sg.DTypeError, "rtol: c64[] is no real n"),
        (lambda: LINALG.lstsq(sg.zeros((2, 3)), sg.zeros(2), rtol=True), sg.DTypeError,
         "lstsq: rtol: bool[] is no real number"),
        (lambda: LINALG.pinv(sg.zeros((4, 2, 3)), rtol=[1.0, 2.0]), sg.ShapeError,
         "pinv: shapes do not broadcast: 4 in axis -1 of batch: f32[4], 2 in axis -1 of rtol: f32"),
        (lambda: LINALG.matrix_rank(sg.zeros((4, 2, 3)), rtol=[1.0, 2.0]), sg.ShapeError,
         "matrix_rank: shapes do not broadcast: 4 in axis -1 of batch: f32[4], 2 in axis -1 of rt"),
        (lambda: LINALG.toeplitz(sg.zeros((2, 3))), sg.ShapeError, "toeplitz: c: f32[2, 3] is no"),
        (lambda: LINALG.solve_banded((1, 1), sg.zeros((2, 3)), sg.zeros(3)), sg.ShapeError,
         "ab: f32[2, 3] does not have 1 + 1 + 1 rows"),
        (lambda: LINALG.solve_banded((0, 0), sg.zeros((1, 3)), 1.0), sg.ShapeError,
         "b: f32[] is neither a vector nor a matrix"),
        (lambda: LINALG.svd(sg.placeholder(("m", "n"))), sg.ShapeError, "which of unknown sizes"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_at_the_users_line(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


def test_panels_of_lu_factors_and_their_systems_share_functions():
    x = sg.placeholder((256, 256), "float64")
    text = sg.compile([x], LINALG.det(x), opt_level=0).ir("loops")
    calls = [text.count(f"call @{name}") for name in ("factored", "solved_above")]
    assert calls == [8, 14]  # what the whole solves is where it is
    functions = [text.count(f"routine @{name}") for name in ("factored", "solved_above")]
    assert functions == [2, 3]


@pytest.mark.parametrize("n", [130, 145])
def test_lu_of_a_tall_panel_without_pivots_leaves_its_rows(n):
    a = np.random.default_rng(0).standard_normal((n, n))
    a[:, 3] = 0.0
    a[:, 20] = 2 * a[:, 18]
    a[100:] = 0.0
    x = sg.placeholder((n, n), "float64")
    p, lower, upper = sg.compile([x], list(LINALG.lu(x)), opt_level=0)(a)
    np.testing.assert_allclose(p @ lower @ upper, a, atol=1e-12)
    np.testing.assert_array_equal(np.sort(np.argmax(p, 0)), np.arange(n))
    np.testing.assert_array_equal(p.sum(0), np.ones(n))


def test_substitution_that_is_too_long_to_write_out_is_refused():
    a, b = sg.placeholder((65 * 65, 3), "float64"), sg.placeholder((65, 3), "float64")
    with pytest.raises(sg.ShapeError, match="more than 64 rows"):
        substitute_columns(a, b, lower=True, unit=False)


def test_factors_and_their_gradient_by_r_reflect_in_one_loop():
    x = sg.placeholder((160, 7, 7), "float64")
    r = LINALG.qr(x).R
    (g,) = sg.gradients(sg.sum(r**3), [x])
    text = sg.compile([x], [r, g], opt_level=0).ir("loops")
    assert text.count("scan loop") == 1
    assert "q_of_steps" not in text
