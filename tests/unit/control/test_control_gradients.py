"""Derivatives of loops and of branches and loops in one another.

A number in the name of a test is that of the rule it holds the gradients to.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.ops.marks import prevent_gradient
from symgrad.graph.types import UNBOUNDED
from symgrad.passes.loops.merge_loops import merge_loops
from symgrad.passes.loops.prune_loops import prune_loops
from symgrad.passes.pipeline import optimize
from tests.support.control_programs import check_derivatives, gradient, keep, run, value
from tests.support.floors import run_everywhere

POINT = np.array([0.9, -0.8, 1.1])
Map = Callable[[Tensor], Tensor]


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


@pytest.fixture
def n() -> Tensor:
    return sg.placeholder((), "int64", name="n")


def repeat(x: Tensor, n: Tensor, body: Map, bound: int | None = None) -> Any:
    """Apply `body` n times to x."""
    return sg.while_loop(
        lambda i, _v: i < n, lambda i, v: (i + 1, body(v)), [0, x], maximum_iterations=bound
    )[1]


# ---------------------------------------------------------------------------------- one loop


@pytest.mark.parametrize("bound", [None, 5])
def test_r13_8_the_trip_count_may_depend_on_values(x, bound):
    y = sg.while_loop(
        lambda v: (v * v).sum() < 50.0, lambda v: [v * 1.7 + x], [x], maximum_iterations=bound
    )[0]
    for scale in (1.0, 3.0, 100.0):
        check_derivatives(y, x, {x: POINT * scale})


@pytest.mark.parametrize("bound", [None, 5])
def test_r13_12_any_number_of_iterations(x, n, bound):
    w = sg.placeholder((3,), "float64")
    y = repeat(x, n, lambda v: sg.sin(v) * w, bound)
    given = [{x: POINT, w: POINT + 0.5, n: trips} for trips in (0, 1, 4)]
    check_derivatives(y, x, *given)
    check_derivatives(y, w, *given)


def test_r13_12_no_iteration_passes_the_gradient_on_and_gives_captures_zeros(x, n):
    w = sg.placeholder((3,), "float64")
    y = repeat(x, n, lambda v: v * w)
    found = run([gradient(y, x, POINT), gradient(y, w, POINT)], {x: POINT, w: POINT, n: 0})
    np.testing.assert_array_equal(found[0], POINT)
    np.testing.assert_array_equal(found[1], np.zeros(3))


def test_r7_5_what_the_body_stops_is_zeros(x, n):
    y = repeat(x, n, lambda v: sg.stop_gradient(v) * 2.0)
    g = gradient(y, x)
    np.testing.assert_array_equal(value(g, {x: POINT, n: 2}), np.zeros(3))
    np.testing.assert_array_equal(value(g, {x: POINT, n: 0}), np.ones(3))


def test_r13_10_every_float_capture_and_variable_has_a_number(x, n):
    w = sg.placeholder((3,), "float64")
    y = repeat(x, n, lambda v: v * 2.0 + sg.floor(w))
    found = run([gradient(y, w), gradient(y, x)], {x: POINT, w: POINT, n: 3})
    np.testing.assert_array_equal(found[0], np.zeros(3))
    np.testing.assert_array_equal(found[1], np.full(3, 8.0))


def test_r13_11_the_gradient_of_a_capture_is_the_sum_over_iterations(x, n):
    y = repeat(x * 0.0, n, lambda v: v + x)
    np.testing.assert_array_equal(value(gradient(y, x), {x: POINT, n: 5}), np.full(3, 5.0))


def test_r13_13_integer_variables_carry_no_gradient(x, n):
    i, y = sg.while_loop(lambda i, _v: i < 3, lambda i, v: (i + 1, v * x), [n, x])
    assert sg.gradients([i, y], n) == [None]
    np.testing.assert_allclose(value(gradient([i, y], x), {x: POINT, n: 1}), 3 * POINT**2)
    assert sg.gradients(i, x) == [None]


def test_r13_14_all_results_sum(x, n):
    a, b = sg.while_loop(lambda a, _b: a.sum() < 20.0, lambda a, b: (a * 2.0, b + a), [x, x * x])
    total = gradient([a, b], x)
    first, second = gradient(a, x), gradient(b, x)
    found = run([total, first, second], {x: POINT})
    np.testing.assert_allclose(found[0], found[1] + found[2])
    check_derivatives(a + b, x, {x: POINT})


def test_r13_15_loops_in_series_and_in_parallel_add_up(x, n):
    first = repeat(x, n, lambda v: v * x)
    y = repeat(first, n, lambda v: v * first) + first * repeat(x, n, sg.sin)
    check_derivatives(y, x, {x: POINT, n: 2}, {x: POINT, n: 0})


def test_r13_15_a_body_that_uses_its_variable_twice(x, n):
    y = repeat(x, n, lambda v: v + v)
    np.testing.assert_array_equal(value(gradient(y, x), {x: POINT, n: 3}), np.full(3, 8.0))


def test_r13_21_repeated_calls_give_the_same(x, n):
    y = repeat(x, n, lambda v: v * x)
    a, b = gradient(y, x), gradient(y, x)
    found = run([a, b], {x: POINT, n: 2})
    np.testing.assert_array_equal(found[0], found[1])


def test_r13_29_gradients_that_nobody_asks_for_are_not_built(x, n):
    w = prevent_gradient(sg.placeholder((3,), "float64", name="w"), "nobody asks for it")
    y = repeat(x, n, lambda v: v * prevent_gradient(w + 1.0, "nor for this"))
    wide = gradient(repeat(x, n, lambda v: v * w), x).node
    assert len(wide.outputs) == 1
    given = {x: POINT, w.node.inputs[0]: POINT, n: 2}
    np.testing.assert_allclose(value(gradient(y, x), given), (POINT + 1) ** 2)
    with pytest.raises(LookupError, match="nor for this"):
        sg.gradients(y, w)


def test_r13_34_a_gradient_built_after_a_run_is_right(x, n):
    y = repeat(x, n, lambda v: v * x)
    value(y, {x: POINT, n: 2})
    np.testing.assert_allclose(value(gradient(y, x), {x: POINT, n: 2}), 3 * POINT**2)


def test_r13_35_a_way_through_integers_adds_nothing(x, n):
    def body(v: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return v * 2.0, k + v.astype("int64").sum()

    v, k = sg.while_loop(lambda v, _k: v.sum() < 9.0, body, [x, n])
    g = gradient([v, k.astype("float64")], x)
    np.testing.assert_array_equal(value(g, {x: POINT, n: 0}), np.full(3, 8.0))


@pytest.mark.parametrize("bound", [None, 6])
def test_r13_36_third_derivatives_of_a_loop(x, n, bound):
    y = repeat(x, n, lambda v: v * x, bound)
    for k in range(1, 4):
        y = gradient(y, x)
        factor = np.prod(np.arange(5.0, 5.0 - k, -1))
        np.testing.assert_allclose(value(y, {x: POINT, n: 4}), factor * POINT ** (5 - k))


def test_r15_5_derivatives_of_cos_alternate_through_a_loop(n):
    x = sg.placeholder((), "float64")
    y = repeat(x, n, sg.cos)
    for expected in (-np.sin(0.7), -np.cos(0.7), np.sin(0.7)):
        y = gradient(y, x)
        np.testing.assert_allclose(value(y, {x: 0.7, n: 1}), expected, rtol=1e-12)


def test_r11_18_variables_captured_by_a_loop_have_gradients(n):
    w = sg.variable(POINT, name="w")
    y = repeat(sg.ones((3,), "float64"), n, lambda v: v * w)
    np.testing.assert_allclose(value(gradient(y, w), {n: 3}), 3 * POINT**2)


# ------------------------------------------------------------- gradients inside of a region


def test_r10_3_gradients_in_a_branch_of_what_lives_outside(x):
    p = sg.placeholder((), "bool")
    y = sg.exp(x) * x
    z = sg.cond(p, lambda: gradient(y, x), lambda: y)
    check_derivatives(z, x, {x: POINT, p: True}, {x: POINT, p: False})
    np.testing.assert_allclose(value(z, {x: POINT, p: True}), np.exp(POINT) * (1 + POINT))


def test_r11_19_gradients_in_a_branch_follow_captures_outward(x):
    p, q = sg.placeholder((), "bool"), sg.placeholder((), "bool")
    u = sg.sin(x)
    z = sg.cond(p, lambda: sg.cond(q, lambda: gradient(u * u * x, x), lambda: x), lambda: u)
    expected = 2 * np.sin(POINT) * np.cos(POINT) * POINT + np.sin(POINT) ** 2
    np.testing.assert_allclose(value(z, {x: POINT, p: True, q: True}), expected)
    check_derivatives(z, x, {x: POINT, p: True, q: True})


def test_r10_2_a_tensor_used_inside_and_outside_adds_both(x):
    p = sg.placeholder((), "bool")
    u = x * x
    z = sg.cond(p, lambda: gradient([u * 3.0, x * 2.0], x), lambda: x)
    np.testing.assert_allclose(value(z, {x: POINT, p: True}), 6 * POINT + 2)


def test_r13_27_gradients_in_a_body_by_captures_and_by_the_variable(x, n):
    def body(v: Tensor) -> Tensor:
        return v - 0.1 * gradient(sg.sin(v * x), x) - 0.2 * gradient(sg.cos(v) * x, v)

    y = repeat(x * 0.5, n, body)
    check_derivatives(y, x, {x: POINT, n: 2}, {x: POINT, n: 0})


@pytest.mark.slow
def test_r13_27_gradients_in_a_body_of_an_inner_loop_and_cond(x, n):
    def body(v: Tensor) -> Tensor:
        inner = repeat(v, n, lambda u: sg.cond(u.sum() > 1.0, lambda: u * x, lambda: sg.sin(u)))
        return v + 0.1 * gradient(inner * x, x)

    check_derivatives(repeat(x, n, body), x, {x: POINT, n: 2})


def test_r13_27_gradient_descent_as_a_loop(n):
    target = sg.placeholder((3,), "float64")

    def body(v: Tensor) -> Tensor:
        return v - 0.25 * gradient((v - target) ** 2, v)

    y = repeat(sg.zeros((3,), "float64"), n, body)
    np.testing.assert_allclose(value(y, {target: POINT, n: 3}), POINT * (1 - 0.5**3))
    np.testing.assert_allclose(
        value(gradient(y, target), {target: POINT, n: 3}), np.full(3, 1 - 0.5**3)
    )


def test_r13_28_gradients_in_a_body_do_not_pass_initial_values(x, n):
    with pytest.raises(ValueError, match="only through the initial value of a loop variable"):
        repeat(x * 2.0, n, lambda v: gradient(v * v, x))
    with pytest.raises(ValueError, match="only through the initial value"):
        sg.fori_loop(
            0, 3, lambda _i, v: sg.cond(v.sum() > 0.0, lambda: gradient(v, x), lambda: v), x
        )


def test_r13_28_a_capture_beside_the_initial_value_counts_alone(x, n):
    y = repeat(x, n, lambda v: gradient(v * x, x))
    np.testing.assert_allclose(value(y, {x: POINT, n: 3}), POINT)


def test_r10_15_gradients_by_a_tensor_of_another_region_are_none(x, n):
    kept: list[Tensor] = []
    y = repeat(x, n, lambda v: keep(kept, v) * x)
    assert sg.gradients(y, kept[0]) == [None]


def test_explain_none_looks_out_of_a_region(x):
    p = sg.placeholder((), "bool")
    said: list[str] = []

    def asking() -> Any:
        said.append(sg.explain_none(sg.floor(x * x), x))
        return x

    sg.cond(p, asking, lambda: x)
    assert "floor is not differentiable" in said[0]


# ------------------------------------------------------------------------------- nesting


def wrap(kind: str, x: Tensor, xs: Tensor, n: Tensor) -> Callable[[Map, Tensor], Any]:
    """Return a function that puts a function of a tensor into a branch or loop of this kind."""
    zero = sg.constant(0, "int64")

    def applied(f: Map, v: Tensor) -> Any:
        if kind == "cond":
            return sg.cond(n > zero, lambda: f(v) * x, lambda: v * v)
        if kind == "switch_case":
            return sg.switch_case(n, [lambda: v * v, lambda: f(v)], lambda: f(v) * sg.sin(v))
        if kind == "while_loop":
            return repeat(v, n, lambda u: f(u) * x)
        if kind == "bounded":
            return repeat(v, n, lambda u: f(u) * x, 3)
        if kind == "function":
            return sg.function(lambda u: f(u) * u)(v)
        if kind == "tensor_array":
            items = sg.TensorArray(3, (2,), "float64").write(0, v).write(2, f(v))
            return (items.write(0, f(v) * x).stack() * x).sum(axis=0)
        carry, ys = sg.scan(lambda c, t: (f(c) * t, c * x + t), v, xs)
        return carry + ys.sum(axis=0)

    return applied


KINDS = ("cond", "scan", "function", "while_loop", "switch_case", "tensor_array")


_NESTINGS = [*product(KINDS, KINDS), ("bounded", "bounded")]


# By default each kind is around another one and within another one.
_AT_ONCE = [*zip(KINDS, (*KINDS[1:], KINDS[0]), strict=True), ("bounded", "bounded")]


@pytest.mark.parametrize(
    ("outer", "inner"),
    [pytest.param(*n, marks=[] if n in _AT_ONCE else [pytest.mark.slow]) for n in _NESTINGS],
)
def test_r10_12_r11_14_r13_25_r13_26_r14_1_every_nesting_of_depth_2(outer, inner):
    x = sg.placeholder((2,), "float64", name="x")
    n = sg.placeholder((), "int64", name="n")
    xs = sg.placeholder((None, 2), "float64", name="xs")
    around, inside = wrap(outer, x, xs, n), wrap(inner, x, xs, n)
    y = around(lambda v: inside(lambda u: sg.sin(u) * x, v), x)
    rows = np.array([[0.7, -1.2], [1.3, 0.4]])
    givens = [{x: [0.9, -0.6], xs: rows[:trips], n: trips} for trips in (0, 1, 2)]
    used = set(Graph(y).inputs)
    givens = [{t: v for t, v in given.items() if t in used} for given in givens]
    check_derivatives(y, x, *givens)


def test_r13_25_the_inner_trip_count_depends_on_the_outer_variable(x):
    def body(i: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, repeat(v, i, lambda u: sg.sin(u) * x)

    y = sg.while_loop(lambda i, _v: i < 3, body, [sg.constant(0, "int64"), x])[1]
    check_derivatives(y, x, {x: POINT})


def test_r13_26_a_cond_in_a_loop_in_a_cond_in_a_loop(x, n):
    p = sg.placeholder((), "bool")

    def innermost(v: Tensor) -> Any:
        return sg.cond(v.sum() > 1.0, lambda: v * x, lambda: sg.cos(v))

    y = repeat(x, n, lambda v: sg.cond(p, lambda: repeat(v, n, innermost), lambda: v * 2.0))
    check_derivatives(y, x, {x: POINT, p: True, n: 2}, {x: POINT, p: False, n: 2})


def test_a_nested_graph_captures_nothing_it_does_not_use(x, n):
    y = repeat(x, n, lambda v: v * 2.0)
    assert len(Graph(y).inputs) == 2
    assert sum(t is x for t in y.node.inputs) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_r11_17_a_program_read_from_its_text_has_the_same_gradients(kind):
    x = sg.placeholder((2,), "float64", name="x")
    n = sg.placeholder((), "int64", name="n")
    xs = sg.placeholder((None, 2), "float64", name="xs")
    y = wrap(kind, x, xs, n)(lambda v: sg.sin(v) * x, x).sum()
    values = {x: [0.9, -0.6], n: 2, xs: [[0.7, -1.2], [1.3, 0.4]]}
    graph = Graph(y, [t for t in (x, n, xs) if t in set(Graph(y).inputs)])
    again = Graph.parse(str(graph))
    found = []
    for program in (graph, again):
        source = next(t for t in program.inputs if t.name == "x")
        given = dict(zip(program.inputs, (values[t] for t in graph.inputs), strict=True))
        found.append(value(gradient(program.outputs[0], source), given))
    np.testing.assert_array_equal(found[1], found[0])


def test_r13_18_only_loop_variables_that_the_gradient_reads_are_kept(x, n):
    w = sg.placeholder((3, 3), "float64")
    scale = sg.sin(x)
    # Neither the invariants w and scale, nor the constant, nor the counter.
    y = repeat(x, n, lambda v: sg.tanh(v @ w) * scale + np.arange(3.0))
    g = gradient(y.sum(), x)
    program = prune_loops(merge_loops(Graph([y, g])))
    (loop,) = [node for node in program.nodes if node.op == "while"]
    stacks = [t.type for t in loop.outputs[3:]]
    assert [t.shape[1:] for t in stacks] == [(3,)]


@pytest.mark.parametrize("trips", [0, 3])
def test_a_tape_that_is_the_same_in_each_iteration_is_recorded_once_and_read_in_each(trips):
    x, xs = sg.placeholder((3,), "float64"), sg.placeholder((4,), "float64")
    limit = sg.placeholder((), "int64")

    def body(c: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        _, v = sg.while_loop(lambda i, _: i < limit, lambda i, v: (i + 1, sg.sin(v)), (0, x))
        return c + v.sum() * e, v * e

    last, ys = sg.scan(body, sg.constant(0.0, "float64"), xs)
    graph = Graph([last, gradient(last * ys.sum(), x)], [x, xs, limit])
    given = [np.linspace(0.1, 1, 3), np.linspace(-1, 1, 4) + 0.3, np.array(trips)]
    smaller = prune_loops(merge_loops(graph))
    assert run_everywhere(smaller, given, targets=("native",)) is None
    heads = [line for line in str(optimize(smaller)).splitlines() if " body(" in line]
    assert any(f"f64[{UNBOUNDED}, 3]" in head for head in heads), "the tape is recorded in the loop"
