"""Jacobians and Hessians, against differences and closed forms.

A number in the name of a test is that of the rule it holds the derivatives to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from tests.support.case import Case, draw, placeholders
from tests.support.cases import CASES
from tests.support.control_programs import arrays, gradient, run, run_step, value
from tests.support.together import together

POINT = np.array([0.9, -0.8, 1.1])
STEP = 1e-5
Function = Callable[[Tensor], Tensor]

SMOOTH = [c for c in CASES if c.order and dtypes.float64 in c.dtypes]


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


@pytest.fixture
def n() -> Tensor:
    return sg.placeholder((), "int64", name="n")


def differences(y: Tensor, x: Tensor, given: Mapping[Tensor, Any]) -> Array:
    """Return the Jacobian of `y` by central differences."""
    graph = Graph(y, list(given))
    point = np.asarray(given[x], np.float64)
    columns = np.empty((*y.type.static_shape, point.size))
    for i in range(point.size):
        ends = []
        for sign in (1, -1):
            moved = point.copy()
            moved.flat[i] += sign * STEP
            ends.append(evaluate(graph, arrays({**given, x: moved}))[0][0])
        columns[..., i] = (ends[0] - ends[1]) / (2 * STEP)
    return columns.reshape(*y.type.static_shape, *point.shape)


def check_jacobian(y: Tensor, x: Tensor, *givens: Mapping[Tensor, Any]) -> None:
    """Hold the Jacobian of `y`, from both sides, and a Hessian to differences."""
    repeated = sg.concat([y.reshape((-1,)), y.reshape((-1,)), y.reshape((-1,))])
    wide = sg.jacobian((y * 2.0).sum(), x)  # fewer elements than x: by rows
    tall = sg.jacobian(repeated, x)  # more: by columns
    total = (y * y).sum()
    (hessian,) = sg.hessians(total, x)
    outputs = [sg.jacobian(y, x), wide, tall, hessian]
    step = sg.compile(list(givens[0]), outputs, opt_level=1)
    for given in givens:
        found = run_step(step, outputs, given)
        expected = differences(y, x, given)
        flat = expected.reshape(-1, *x.shape)
        np.testing.assert_allclose(found[0], expected, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found[1], 2 * flat.sum(axis=0), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found[2], np.concatenate([flat] * 3), rtol=1e-6, atol=1e-8)
        second = differences(gradient(total, x), x, given)
        np.testing.assert_allclose(found[3], second, rtol=1e-6, atol=1e-7)


def all_ops(graph: Graph) -> set[str]:
    """Return the ops of a graph and of all graphs nested in it."""
    found, pending = set(), [graph]
    while pending:
        for node in pending.pop().nodes:
            found.add(node.op)
            pending += [nested for _, nested in graphs_of(node)]
    return found


# Others that are computed like these are among the rows of the regular run.
COSTLY = (
    "conv2d", "conv2d_strided", "conv2d_wide", "conv2d_nchw_grouped", "conv3d", "lstm_cell",
    "beta_density",
)  # fmt: skip


@together("case", [c for c in SMOOTH if c.name not in COSTLY], ids=lambda c: c.name, at_once=10)
def test_the_jacobian_of_every_op_agrees_with_differences(case):
    check_case(case)


@pytest.mark.slow
@together("case", [c for c in SMOOTH if c.name in COSTLY], ids=lambda c: c.name, at_once=10)
def test_the_jacobian_of_costly_ops_agrees_with_differences(case):
    check_case(case)


def check_case(case: Case) -> None:
    xs = placeholders(case, dtypes.float64)
    given = dict(zip(xs, draw(case, dtypes.float64), strict=True))
    y = case.build(*xs)
    for x in xs:
        if not x.dtype.is_float:
            continue
        rows = x.type.count + 1  # more elements than x, and then fewer
        sides = [y[None] * np.ones((rows, *(1,) * y.ndim)), y.sum()]
        (tall, wide), _ = evaluate(
            Graph([sg.jacobian(side, x) for side in sides], xs), list(given.values())
        )
        # Differences are linear, so those of y say what both of them are.
        expected = differences(y, x, given)
        repeated = np.broadcast_to(expected, (rows, *expected.shape))
        np.testing.assert_allclose(tall, repeated, rtol=1e-5, atol=1e-6)
        total = expected.sum(axis=tuple(range(y.ndim)))
        np.testing.assert_allclose(wide, total, rtol=1e-5, atol=1e-6)


def test_the_shape_is_that_of_y_and_then_that_of_x():
    x, y_shape = sg.placeholder((2, 3), "float32"), (4, 1)
    weights = np.arange(24, dtype=np.float32).reshape(4, 6)
    y = sg.matmul(weights, x.reshape((6, 1)))
    j = sg.jacobian(y, x)
    assert j.type == x.type.with_shape((*y_shape, 2, 3))
    found = value(j, {x: np.ones((2, 3))})
    np.testing.assert_array_equal(found, weights.reshape(4, 1, 2, 3))


def test_a_scalar_has_a_jacobian_in_both_places(x):
    s = sg.placeholder((), "float64")
    assert sg.jacobian(x.sum(), x).shape == (3,)
    found = run([sg.jacobian(x * s * s, s), sg.jacobian(s * s, s)], {x: POINT, s: 3.0})
    np.testing.assert_allclose(found[0], 6 * POINT)
    assert found[1].shape == ()
    assert found[1] == 6.0


@pytest.mark.parametrize("sizes", [(7, 3), (3, 7), (5, 5)])
def test_a_network_is_differentiated_for_all_seeds_at_once(sizes):
    rows, columns = sizes
    rng = np.random.default_rng(0)
    x = sg.placeholder((columns,), "float64")
    w = sg.placeholder((rows, columns), "float64")
    y = sg.tanh(sg.matmul(w, x)) / sg.sqrt((x * x).mean() + 1.0)
    j = sg.jacobian(y, x)
    given = {x: rng.uniform(-1, 1, columns), w: rng.uniform(-1, 1, sizes)}
    np.testing.assert_allclose(value(j, given), differences(y, x, given), rtol=1e-7, atol=1e-9)
    assert not {"scan", "while"} & all_ops(Graph([j]))


def test_the_graph_does_not_grow_with_the_number_of_elements():
    def nodes(size: int) -> int:
        x = sg.placeholder((size,), "float64")
        return len(Graph([sg.jacobian(sg.sin(x) * x, x)]).nodes)

    assert nodes(3) == nodes(300)


def test_sizes_may_be_unknown():
    x = sg.placeholder(("k",), "float64")
    y = sg.sin(x) * x.sum()
    step = sg.compile([x], [sg.jacobian(y, x), sg.hessians(y, x)[0]])
    for size in (1, 4):
        point = np.linspace(0.1, 1.0, size)
        j, h = step(point)
        sine, cosine = np.sin(point), np.cos(point)
        np.testing.assert_allclose(j, np.diag(cosine) * point.sum() + sine[:, None], rtol=1e-12)
        expected = cosine[:, None] + cosine - np.diag(sine) * point.sum()
        np.testing.assert_allclose(h, expected, rtol=1e-12)


def test_no_elements_have_a_jacobian_without_elements(x):
    assert value(sg.jacobian(x[:0], x), {x: POINT}).shape == (0, 3)
    assert value(sg.jacobian(x, sg.placeholder((0,), "float64")), {x: POINT}).shape == (3, 0)


@pytest.mark.parametrize("label", ["x", "y"])
def test_integers_have_no_jacobian(x, n, label):
    with pytest.raises(TypeError, match=rf"jacobian: {label} is i64\[\]"):
        sg.jacobian(*((n, x) if label == "y" else (x, n)))
    with pytest.raises(TypeError, match=r"hessians: xs\[1\] is i64\[\]"):
        sg.hessians(x.sum(), [x, n])


# -------------------------------------------------------------------------- branches and loops


def test_a_jacobian_passes_branches(x, n):
    y = sg.switch_case(n, [lambda: x * x.sum(), lambda: sg.sin(x), lambda: x * 2.0])
    check_jacobian(y, x, *({x: POINT, n: taken} for taken in range(3)))


@pytest.mark.parametrize(
    ("bound", "by"),
    [
        (4, "x"),
        *(pytest.param(*p, marks=pytest.mark.slow) for p in [(4, "w"), (None, "x"), (None, "w")]),
    ],
)
def test_a_jacobian_passes_loops(x, n, bound, by):
    w = sg.placeholder((3, 3), "float64")
    y = sg.while_loop(
        lambda i, _v: i < n,
        lambda i, v: (i + 1, sg.tanh(sg.matmul(w, v)) + x),
        [0, x],
        maximum_iterations=bound,
    )[1]
    matrix = np.linspace(-0.5, 0.7, 9).reshape(3, 3)
    givens = [{x: POINT, w: matrix, n: trips} for trips in (0, 1, 3)]
    if by == "x":
        check_jacobian(y, x, *givens)
    else:
        check_jacobian(y, w, givens[2])


@pytest.mark.parametrize("reverse", [False, True])
def test_a_jacobian_passes_stacks(x, reverse):
    c, ys = sg.scan(lambda c, t: (sg.sin(c + t), c * t), (x * x).sum(), sg.exp(x), reverse=reverse)
    check_jacobian(ys * c, x, {x: POINT})


def test_a_jacobian_passes_loops_and_branches_in_one_another(x, n):
    def inner(i: Tensor, v: Tensor) -> Any:
        taken = sg.cond(i > 1, lambda: sg.sin(v) * x, lambda: v * v)
        return sg.fori_loop(0, i, lambda _j, u: u * 0.5 + x, taken)

    y = sg.while_loop(lambda i, _v: i < n, lambda i, v: (i + 1, inner(i, v)), [0, x])[1]
    check_jacobian(y, x, {x: POINT, n: 0}, {x: POINT, n: 3})


def test_a_jacobian_inside_of_a_body(x):
    w = np.array([[2.0, 0.5, 0.0], [0.1, 1.5, 0.2], [0.0, 0.3, 1.0]])

    def flow(_i: Tensor, v: Tensor) -> Tensor:
        return v - 0.3 * sg.matmul(sg.jacobian(sg.matmul(w, v) * v, v), v)

    found = value(sg.fori_loop(0, 3, flow, x), {x: POINT})
    v = POINT
    for _ in range(3):
        v = v - 0.3 * (np.diag(w @ v) + v[:, None] * w) @ v
    np.testing.assert_allclose(found, v, rtol=1e-12)


# ------------------------------------------------------------------------------------ Hessians


def test_r15_1_a_hessian_for_each_x_without_cross_terms():
    a, b = sg.placeholder((2,), "float64"), sg.placeholder((2, 2), "float64")
    y = (a * a * a).sum() + (b * b).sum() * a.sum()
    hessians = sg.hessians([y, a.sum()], [a, b])
    assert [h.shape for h in hessians] == [(2, 2), (2, 2, 2, 2)]
    found = run(hessians, {a: [1, 2], b: [[1, 2], [3, 4]]})
    np.testing.assert_allclose(found[0], np.diag([6.0, 12.0]))
    np.testing.assert_allclose(found[1].reshape(4, 4), np.eye(4) * 6)


def test_r15_1_several_ys_and_elements_are_summed(x):
    (h,) = sg.hessians([x * x, x**3], x)
    np.testing.assert_allclose(value(h, {x: POINT}), np.diag(2 + 6 * POINT))


def test_r15_2_rows_are_stacked_for_an_x_of_any_rank():
    x = sg.placeholder((2, 1, 2), "float64")
    (h,) = sg.hessians(sg.prod(x), x)
    point = np.array([1.0, 2.0, 3.0, 4.0])
    expected = 24.0 / np.outer(point, point)
    np.fill_diagonal(expected, 0.0)
    found = value(h, {x: point.reshape(2, 1, 2)})
    assert found.shape == (2, 1, 2, 2, 1, 2)
    np.testing.assert_allclose(found.reshape(4, 4), expected, atol=1e-12)


def test_r15_3_what_is_linear_or_not_connected_has_zeros(x):
    w = sg.placeholder((2,), "float32")
    hessians = sg.hessians((x * 3.0).sum(), [x, w])
    assert [h.type for h in hessians] == [
        x.type.with_shape((3, 3)),
        w.type.with_shape((2, 2)),
    ]
    assert not any(h.any() for h in run(hessians, {x: POINT, w: [1, 2]}))
    assert not value(sg.jacobian(x, w), {x: POINT, w: [1, 2]}).any()


def test_r15_4_a_hessian_times_a_vector_is_their_product(x, n):
    y = sg.while_loop(lambda i, _v: i < n, lambda i, v: (i + 1, sg.sin(v) * x), [0, x])[1]
    total = (y * y[::-1]).sum()
    vector = np.array([0.3, 1.0, -0.7])
    outputs = [sg.hessians(total, x)[0], sg.hvp(total, x, vector)[0]]
    step = sg.compile([x, n], outputs, opt_level=1)
    for trips in (0, 1, 4):
        hessian, product = run_step(step, outputs, {x: POINT, n: trips})
        np.testing.assert_allclose(hessian, hessian.T, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(product, hessian @ vector, rtol=1e-10, atol=1e-12)


def test_third_derivatives_are_jacobians_of_hessians(x):
    (h,) = sg.hessians((sg.exp(x) * x[0]).sum(), x)
    third = sg.jacobian(h, x)
    assert third.shape == (3, 3, 3)
    np.testing.assert_allclose(
        value(third, {x: POINT}), differences(h, x, {x: POINT}), rtol=1e-6, atol=1e-8
    )


def test_jacobians_and_hessians_of_a_nest_are_in_that_nest(x):
    w = sg.variable(np.array([1.0, 2.0]))
    y = x * w.sum()
    jacobians = sg.jacobian(y, {"x": x, "rest": [w]})
    assert jacobians["x"].shape == (3, 3)
    assert jacobians["rest"][0].shape == (3, 2)
    assert sg.hessians(y, {"x": x, "w": w})["w"].shape == (2, 2)
    with pytest.raises(TypeError, match=r"x\['i'\]\[0\] is i32"):
        sg.jacobian(y, {"i": (sg.constant(3),)})


Z = np.array([1 + 2j, 3 - 1j])
COMPLEX: dict[str, tuple[Callable[[Tensor], Tensor], Array]] = {
    "of a real y": (lambda z: sg.abs(z) ** 2, np.diag(2 * np.conj(Z))),
    "of conjugates": (lambda z: sg.conj(z) * 1j, np.diag([1j, 1j]).conj()),
    "of squares": (lambda z: z * z, np.diag(2 * Z)),
    "of a real part": (lambda z: sg.conj(z) * z, np.diag(2 * np.conj(Z))),
}


@pytest.mark.parametrize("rows", ["fewer", "as many", "more"])
@pytest.mark.parametrize("name", COMPLEX)
def test_rows_of_a_complex_jacobian_are_gradients_however_many_there_are(name, rows):
    function, wanted = COMPLEX[name]
    z = sg.placeholder((2,), "complex128")
    picked = {"fewer": [1], "as many": [0, 1], "more": [0, 1, 1]}[rows]
    y = sg.take(function(z), sg.constant(picked))
    found = value(sg.jacobian(y, z), {z: Z})
    np.testing.assert_allclose(found, wanted[picked], rtol=1e-14)
    for row, element in zip(found, picked, strict=True):
        (g,) = sg.gradients(sg.real(function(z)[element]), z)
        np.testing.assert_allclose(row, value(g, {z: Z}), rtol=1e-14)


@pytest.mark.parametrize("rows", [[1], [0, 1, 1]])
def test_a_complex_y_has_the_derivatives_of_both_parts_by_a_real_x(rows):
    x = sg.placeholder((2,), "float64")
    y = sg.take(sg.complex(x, x**3), sg.constant(rows))
    found = value(sg.jacobian(y, x), {x: np.array([1.0, 2.0])})
    np.testing.assert_allclose(found, np.diag([1 + 3j, 1 + 12j])[rows], rtol=1e-14)
    none = sg.jacobian(y, sg.placeholder((2,), "float64"))
    assert none.dtype.name == "complex128"
    assert none.shape == (len(rows), 2)


def test_complex_numbers_have_no_sparse_jacobian():
    z, x = sg.placeholder((2,), "complex128"), sg.placeholder((2,), "float64")
    for y, source in ((sg.abs(z), z), (sg.complex(x, x), x)):
        with pytest.raises(sg.DTypeError, match=r"c128\[2\] is complex, with sparsity"):
            sg.jacobian(y, source, sparsity="auto")
