"""Tangents: of every op, through branches and loops, and of gradients.

A number in the name of a test is that of the rule it holds the derivatives to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.gradient_registry import gradient_override_map, register_gradient
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from tests.support.case import draw, placeholders
from tests.support.cases import CASES
from tests.support.control_programs import arrays, gradient, run, run_step, value
from tests.support.together import together

POINT = np.array([0.9, -0.8, 1.1])
ALONG = np.array([0.3, 1.0, -0.7])
STEP = 1e-5

SMOOTH = [c for c in CASES if c.order and dtypes.float64 in c.dtypes]


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


@pytest.fixture
def n() -> Tensor:
    return sg.placeholder((), "int64", name="n")


def slope(y: Tensor, given: Mapping[Tensor, Any], along: Mapping[Tensor, Any]) -> Array:
    """Return by central differences how `y` changes along directions of some inputs."""
    graph = Graph(y, list(given))
    ends = []
    for sign in (1, -1):
        moved = {t: v + sign * STEP * along[t] if t in along else v for t, v in given.items()}
        ends.append(evaluate(graph, arrays(moved))[0][0])
    difference: Array = (ends[0] - ends[1]) / (2 * STEP)
    return difference


def check_tangents(y: Tensor, x: Tensor, *givens: Mapping[Tensor, Any]) -> None:
    """Hold the tangents of `y` and of its gradient, along `ALONG`, to differences."""
    (first,) = sg.jvp(y, x, ALONG)
    g = gradient((y * y).sum(), x)
    (second,) = sg.hvp((y * y).sum(), x, ALONG)
    step = sg.compile(list(givens[0]), [first, second], opt_level=1)
    for given in givens:
        found, again = run_step(step, [first, second], given)
        np.testing.assert_allclose(found, slope(y, given, {x: ALONG}), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(again, slope(g, given, {x: ALONG}), rtol=1e-6, atol=1e-7)


def stacks_of_loops(output: Tensor) -> int:
    """Return how many results of loops are records of their iterations."""
    nodes = Graph([output]).nodes
    loops = [node for node in nodes if node.op == "while"]
    assert loops, f"{output!r} is computed without a loop"
    return sum(len(node.outputs) - 1 - int(str(node.attrs["carried"])) for node in loops)


# ----------------------------------------------------------------------------------- every op


@together("case", SMOOTH, ids=lambda case: case.name)
def test_the_tangent_of_every_op_agrees_with_differences(case):
    xs = placeholders(case, dtypes.float64)
    given = dict(zip(xs, draw(case, dtypes.float64), strict=True))
    rng = np.random.default_rng(1)
    along = {t: rng.uniform(-1, 1, t.type.static_shape) for t in xs if t.dtype.is_float}
    y = case.build(*xs)
    (tangent,) = sg.jvp(y, list(along), list(along.values()))
    assert tangent.type == y.type
    found, _ = evaluate(Graph(tangent, xs), list(given.values()))
    np.testing.assert_allclose(found[0], slope(y, given, along), rtol=1e-5, atol=1e-7)


def test_what_the_transposition_leaves_behind_is_not_computed(x):
    y = sg.tanh(sg.sin(x) * x)
    (t,) = sg.jvp(y, x, ALONG)
    assert len(Graph([t]).nodes) < 4 * len(Graph([y]).nodes)


# Both are longer than Python's stack is deep: there are two nodes a step.
@pytest.mark.parametrize("length", [600, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_chain_of_any_length_has_a_tangent(x, length):
    y = x
    for _ in range(length):
        y = y * 1.0001 + 0.0
    (t,) = sg.jvp(y, x, ALONG)
    found, _ = evaluate(Graph(t, [x]), [POINT])
    np.testing.assert_allclose(found[0], ALONG * 1.0001**length, rtol=1e-12)


def test_joined_and_chosen_tensors_keep_their_form(x):
    y = sg.where(x > 0.0, sg.concat([x[:1], x[1:] * 2.0]), x)
    (t,) = sg.jvp(y, x, ALONG)
    assert "pad" not in {node.op for node in Graph([t]).nodes}
    np.testing.assert_allclose(value(t, {x: POINT}), ALONG * [1, 1, 2])


def test_rows_added_to_rows(x):
    base = sg.placeholder((4,), "float64")
    y = sg.scatter_add(base * base, sg.constant([1, 1, 3]), x * x)
    given = {x: POINT, base: np.arange(4.0)}
    for along in ({x: ALONG}, {base: np.ones(4)}, {x: ALONG, base: np.ones(4)}):
        (t,) = sg.jvp(y, list(along), list(along.values()))
        np.testing.assert_allclose(value(t, given), slope(y, given, along), atol=1e-9)


# ------------------------------------------------------------------------------ what is asked


def test_tangents_are_total_and_add_up(x):
    h = x * x
    y = h * 3.0
    assert_tangent = np.testing.assert_allclose
    assert_tangent(value(sg.jvp(y, x, ALONG)[0], {x: POINT}), 6 * POINT * ALONG)
    found = value(sg.jvp(y, [x, h], [ALONG, ALONG])[0], {x: POINT})
    assert_tangent(found, 6 * POINT * ALONG + 3 * ALONG)
    assert_tangent(value(sg.jvp(y, [x, x], [ALONG, ALONG])[0], {x: POINT}), 12 * POINT * ALONG)
    assert_tangent(value(sg.jvp(x, x, ALONG)[0], {x: POINT}), ALONG)
    assert_tangent(value(sg.jvp(y, [x, h], [None, ALONG])[0], {x: POINT}), 3 * ALONG)


def test_what_does_not_depend_on_x_has_zeros_of_its_type(x, n):
    w = sg.placeholder((2,), "float32")
    found = sg.jvp([w, n, sg.floor(x), sg.stop_gradient(x), x > 0.0], x, ALONG)
    given = {x: POINT, w: [1, 2], n: 3}
    assert [t.dtype for t in found] == [sg.float32, sg.int64, sg.float64, sg.float64, sg.bool_]
    assert [t.shape for t in found] == [(2,), (), (3,), (3,), (3,)]
    assert not any(a.any() for a in run(found, given))


def test_a_prevented_gradient_is_refused_where_it_is_needed(x):
    stopped = sg.prevent_gradient(x, "not here")
    with pytest.raises(sg.NoGradientError, match="not here"):
        sg.jvp(stopped * x, x, ALONG)
    (t,) = sg.jvp(x + sg.floor(stopped), x, ALONG)
    np.testing.assert_array_equal(value(t, {x: POINT}), ALONG)


def test_a_gradient_of_ones_own_is_transposed(x):
    register_gradient("forward_mode.triple")(lambda _node, g: g * 3.0)
    with gradient_override_map({"tanh": "forward_mode.triple"}):
        y = sg.tanh(x)
    np.testing.assert_allclose(value(sg.jvp(y, x, ALONG)[0], {x: POINT}), 3 * ALONG)


def test_a_custom_gradient_is_transposed(x):
    @sg.custom_gradient
    def triple(v: Tensor) -> Any:
        return v * v, lambda g: g * 3.0 * v

    (t,) = sg.jvp(triple(x) * x, x, ALONG)
    np.testing.assert_allclose(value(t, {x: POINT}), 4 * POINT**2 * ALONG)


def test_what_is_computed_again_for_a_gradient_is_not_for_a_tangent(x):
    y = sg.recompute_grad(lambda v: sg.sin(v) * v.sum())(x * x)
    check_tangents(y, x, {x: POINT})
    assert "after" not in {node.op for node in Graph(sg.jvp(y, x, ALONG)).nodes}


@pytest.mark.parametrize("op", [sg.jvp, sg.hvp])
def test_r15_4_tangents_that_do_not_fit_are_refused(x, op):
    y = (x * x).sum()
    with pytest.raises(ValueError, match=r"there are 2 .* for 1 xs"):
        op(y, x, [ALONG, ALONG])
    with pytest.raises(ValueError, match=r"\[0\].*f64\[2\].*xs\[0\]: f64\[3\]"):
        op(y, x, ALONG[:2])
    with pytest.raises(TypeError, match="dtypes differ: f32"):
        op(y, x, ALONG.astype(np.float32))


# -------------------------------------------------------------------------- branches and loops


def test_a_branch_has_the_tangent_of_what_was_taken(x, n):
    w = sg.placeholder((3,), "float64")
    y = sg.switch_case(n, [lambda: x * w, lambda: sg.sin(w), lambda: x * x * x])
    givens = [{x: POINT, w: POINT + 0.5, n: taken} for taken in (0, 1, 2, 7)]
    check_tangents(y, x, *givens)
    check_tangents(y, w, *givens)


def test_a_branch_that_nothing_reaches_has_zeros(x):
    y = sg.cond(x.sum() > 0.0, lambda: sg.floor(x), lambda: sg.stop_gradient(x))
    np.testing.assert_array_equal(value(sg.jvp(y, x, ALONG)[0], {x: POINT}), np.zeros(3))


@pytest.mark.parametrize("bound", [None, 5])
def test_any_number_of_iterations(x, n, bound):
    w = sg.placeholder((3,), "float64")
    y = sg.while_loop(
        lambda i, _v: i < n,
        lambda i, v: (i + 1, sg.sin(v) * w),
        [0, x],
        maximum_iterations=bound,
    )[1]
    givens = [{x: POINT, w: POINT + 0.5, n: trips} for trips in (0, 1, 4)]
    check_tangents(y, x, *givens)
    check_tangents(y, w, *givens)


def test_a_variable_gets_its_tangent_from_another_one_iterations_later(x, n):
    zero = sg.zeros((3,), "float64")
    _, a, b, c = sg.while_loop(
        lambda i, *_: i < n, lambda i, a, b, c: (i + 1, a * 1.5, a + b, b * c), [0, x, zero, x]
    )
    check_tangents(a + b * c, x, *({x: POINT, n: trips} for trips in (0, 1, 2, 4)))


def test_the_tangent_of_a_loop_keeps_no_record(x, n):
    y = sg.while_loop(lambda i, _v: i < n, lambda i, v: (i + 1, sg.sin(v)), [0, x])[1]
    assert stacks_of_loops(sg.jvp(y, x, ALONG)[0]) == 0
    assert stacks_of_loops(gradient(y, x)) > 0


def test_a_loop_and_its_record_have_their_tangents_from_one_loop(x, n):
    y = sg.while_loop(lambda i, _v: i < n, lambda i, v: (i + 1, sg.sin(v) * x), [0, x])[1]
    (product,) = sg.hvp((y * y).sum(), x, ALONG)
    loops = [node for node in Graph([product]).nodes if node.op == "while"]
    carried = [node.attrs["carried"] for node in loops]
    assert carried.count(3) == 1  # the counter, v and its tangent
    assert set(carried) == {2, 3}


@pytest.mark.parametrize("reverse", [False, True])
def test_carries_slices_and_stacks_have_tangents(x, reverse):
    start = sg.placeholder((), "float64")
    carry, ys = sg.scan(
        lambda c, t: (sg.sin(c) * t, c * c + x.sum()), start, x * x, reverse=reverse
    )
    given = {x: POINT, start: np.array(0.4)}
    check_tangents(ys * carry, x, given)
    (t,) = sg.jvp(ys, start, np.array(1.0))
    np.testing.assert_allclose(value(t, given), slope(ys, given, {start: 1.0}), rtol=1e-6)
    (t,) = sg.jvp(ys, [x, start], [ALONG, np.array(1.0)])
    expected = slope(ys, given, {x: ALONG, start: 1.0})
    np.testing.assert_allclose(value(t, given), expected, rtol=1e-6, atol=1e-9)


def test_loops_and_branches_in_one_another(x, n):
    def inner(v: Tensor, bound: Tensor) -> Any:
        return sg.fori_loop(
            0, bound, lambda _j, u: sg.cond(u.sum() > 0.5, lambda: sg.sin(u) * x, lambda: u * u), v
        )

    y = sg.while_loop(lambda i, _v: i < n, lambda i, v: (i + 1, inner(v, i) + x), [0, x])[1]
    check_tangents(y, x, {x: POINT, n: 0}, {x: POINT, n: 3})


def test_r15_5_exact_derivatives_of_cos_in_a_loop():
    x = sg.placeholder((), "float64")
    y = sg.fori_loop(0, 1, lambda _i, v: sg.cos(v), x)
    derivatives = [y]
    for _ in range(3):
        derivatives.append(sg.jvp(derivatives[-1], x, np.array(1.0))[0])
    found = run(derivatives, {x: np.array(0.7)})
    expected = [np.cos(0.7), -np.sin(0.7), -np.cos(0.7), np.sin(0.7)]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_tangents_inside_of_a_body(x):
    def newton(_i: Tensor, v: Tensor) -> Any:
        f = v * v * v - x
        (slope_of_f,) = sg.jvp(f, v, sg.ones_like(v))
        return v - f / slope_of_f

    root = sg.fori_loop(0, 40, newton, sg.ones((3,), "float64"))
    np.testing.assert_allclose(value(root, {x: [8.0, 27.0, 1.0]}), [2, 3, 1], rtol=1e-12)


def test_tangents_inside_of_a_body_by_a_tensor_from_around(x):
    y = sg.fori_loop(0, 2, lambda _i, v: v + sg.jvp(x * x * v, x, ALONG)[0], x)
    factor = 1 + 2 * POINT * ALONG
    np.testing.assert_allclose(value(y, {x: POINT}), POINT * factor**2)


# ------------------------------------------------------------------------------------ Hessians


def test_r15_4_a_product_is_that_of_the_hessian_with_the_vector(x):
    matrix = np.arange(9.0).reshape(3, 3)
    y = (x * sg.matmul(matrix, x)).sum() / 2.0
    (product,) = sg.hvp(y, x, ALONG)
    np.testing.assert_allclose(value(product, {x: POINT}), (matrix + matrix.T) @ ALONG / 2)


def test_r15_4_there_are_cross_terms_between_xs(x):
    w = sg.placeholder((3,), "float64")
    y = (x * x * w).sum()
    products = sg.hvp(y, [x, w], [ALONG, np.ones(3)])
    found = run(products, {x: POINT, w: np.full(3, 2.0)})
    np.testing.assert_allclose(found[0], 4 * ALONG + 2 * POINT)
    np.testing.assert_allclose(found[1], 2 * POINT * ALONG)


def test_r15_4_what_has_no_gradient_is_passed_over(x, n):
    w = sg.placeholder((2,), "float64")
    products = sg.hvp((x * 2.0).sum(), [x, w, n], [ALONG, None, None])
    assert [p.type for p in products] == [x.type, w.type, n.type]
    assert not any(p.any() for p in run(products, {x: POINT, w: [1, 2], n: 1}))


def test_nests_of_ys_and_xs_have_their_tangents_in_nests():
    x, w = sg.placeholder((2,), "float64"), sg.placeholder((), "float64")
    point: dict[Tensor, Any] = {x: [1.0, 2.0], w: 3.0}
    ys = {"product": x * w, "rest": [w * w]}
    pushed = sg.jvp(ys, {"x": x, "w": w}, {"x": np.array([1.0, -1.0]), "w": None})
    assert pushed.keys() == {"product", "rest"}
    product, square = run([pushed["product"], pushed["rest"][0]], point)
    np.testing.assert_array_equal(product, [3, -3])
    assert square == 0
    seconds = sg.hvp(x.sum() * w * w, {"x": x, "w": w}, {"x": None, "w": 1.0})
    found = run([seconds["x"], seconds["w"]], point)
    np.testing.assert_array_equal(found[0], [6, 6])
    assert found[1] == 6


def test_tangents_of_another_nest_are_refused():
    x = sg.placeholder((2,), "float64")
    with pytest.raises(ValueError, match=r"jvp: tangents are \{'z': \*\}, and xs are \{'x': \*\}"):
        sg.jvp(x, {"x": x}, {"z": x})
    with pytest.raises(ValueError, match=r"hvp: vs\['x'\]: sizes differ.*of xs\['x'\]"):
        sg.hvp(x, {"x": x}, {"x": np.ones(3)})
