"""Graphs built with one more axis, against the same graph on each slice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.gradient_registry import gradient_override_map, register_gradient
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.ops.stand_in import after
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from symgrad.passes.batching.vmap import batch
from tests.support.case import Case, draw, placeholders
from tests.support.cases import CASES
from tests.support.control_programs import gradient, run, run_step
from tests.support.together import together

SIZE = 3
FLOAT_CASES = [c for c in CASES if dtypes.float64 in c.dtypes]
OTHER_CASES = [c for c in CASES if dtypes.float64 not in c.dtypes]


def stacked_placeholders(xs: Sequence[Tensor]) -> dict[Tensor, Tensor]:
    return {x: sg.placeholder((SIZE, *x.shape), x.dtype) for x in xs}


def ops_of(outputs: Sequence[Tensor]) -> set[str]:
    return {node.op for node in Graph(outputs).nodes}


def check_slices(
    y: Tensor, xs: Sequence[Tensor], drawn: Sequence[Sequence[Array]], chosen: Sequence[int]
) -> None:
    """Assert that `y` for all draws of the `chosen` of `xs` is what it is for each of them.

    The others take their values from the first draw.
    """
    values = stacked_placeholders([xs[i] for i in chosen])
    (found,) = batch([y], values, SIZE)
    assert found.type == y.type.with_shape((SIZE, *y.shape))
    given = [
        np.stack([d[i] for d in drawn]) if i in chosen else drawn[0][i] for i in range(len(xs))
    ]
    (results,), _ = evaluate(Graph(found, [values.get(x, x) for x in xs]), given)
    for case, result in zip(drawn, results, strict=True):
        each = [case[i] if i in chosen else drawn[0][i] for i in range(len(xs))]
        (expected,), _ = evaluate(Graph(y, xs), each)
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@together("case", FLOAT_CASES, ids=lambda case: case.name)
def test_every_op_is_batched_in_each_of_its_operands(case: Case) -> None:
    drawn = [draw(case, dtypes.float64, seed) for seed in range(SIZE)]
    xs = placeholders(case, dtypes.float64)
    y = case.build(*xs)
    check_slices(y, xs, drawn, range(len(xs)))
    for position in range(len(xs)):
        check_slices(y, xs, drawn, [position])


@together("case", OTHER_CASES, ids=lambda case: case.name)
def test_an_op_without_floats_is_batched_too(case: Case) -> None:
    dtype = case.dtypes[-1]
    drawn = [draw(case, dtype, seed) for seed in range(SIZE)]
    xs = placeholders(case, dtype)
    y = case.build(*xs)
    for chosen in (range(len(xs)), *([position] for position in range(len(xs)))):
        check_slices(y, xs, drawn, chosen)


@together("case", CASES, ids=lambda case: case.name, at_once=100)
def test_of_no_cases_every_op_gives_none(case: Case) -> None:
    dtype = case.dtypes[-1] if case in OTHER_CASES else dtypes.float64
    xs, drawn = placeholders(case, dtype), draw(case, dtype, 0)
    y = case.build(*xs)
    for chosen in (range(len(xs)), *([position] for position in range(len(xs)))):
        values = {xs[i]: sg.placeholder((0, *xs[i].shape), xs[i].dtype) for i in chosen}
        (found,) = batch([y], values, 0)
        assert found.type == y.type.with_shape((0, *y.shape))
        given = [d[None][:0] if i in chosen else d for i, d in enumerate(drawn)]
        (result,), _ = evaluate(Graph(found, [values.get(x, x) for x in xs]), given)
        assert result.shape == (0, *y.shape)


def test_what_does_not_depend_on_the_case_is_not_built_again():
    x, u = sg.placeholder((3,), "float64"), sg.placeholder((3,), "float64")
    shared = sg.exp(x)
    (found,) = batch([shared * u], stacked_placeholders([u]), SIZE)
    assert shared.node in Graph([found]).nodes
    assert sum(node.op == "exp" for node in Graph([found]).nodes) == 1


def test_an_output_that_does_not_depend_on_the_case_is_repeated():
    x, u = sg.placeholder((2,), "float64"), sg.placeholder((3,), "float64")
    (found,) = batch([x], stacked_placeholders([u]), SIZE)
    np.testing.assert_array_equal(run([found], {x: [1, 2]})[0], [[1, 2]] * SIZE)


def test_indices_that_differ_are_gathered_and_scattered_at_once():
    x, i = sg.placeholder((4, 5), "float64"), sg.placeholder((2,), "int64")
    rows = sg.take(x, i, axis=1)
    y = sg.scatter_add(x, i, rows, axis=1)
    values = stacked_placeholders([x, i])
    found = batch([rows, y], values, SIZE)
    assert "scan" not in ops_of(found)
    points, places = np.arange(60.0).reshape(3, 4, 5), np.array([[0, 1], [4, -1], [2, 2]])
    results = run(found, {values[x]: points, values[i]: places})
    for k in range(SIZE):
        taken = points[k][:, places[k]]
        expected = points[k].copy()
        for column, place in enumerate(places[k]):
            expected[:, place] += taken[:, column]
        np.testing.assert_array_equal(results[0][k], taken)
        np.testing.assert_array_equal(results[1][k], expected)


def test_to_wait_for_one_case_is_to_wait_for_all():
    x, u = sg.placeholder((2,), "float64"), sg.placeholder((3,), "float64")
    y = sg.sin(after(x, u)).sum() * u
    values = stacked_placeholders([u])
    (found,) = batch([y], values, SIZE)
    assert [n.output.shape for n in Graph([found]).nodes if n.op in ("after", "sin")] == [(2,)] * 2
    point = np.arange(9.0).reshape(3, 3)
    results = run([found], {values[u]: point, x: [1, 2]})[0]
    np.testing.assert_allclose(results, point * np.sin([1, 2]).sum())


def test_a_gradient_of_ones_own_is_kept():
    register_gradient("batching.triple")(lambda _node, g: g * 3.0)
    x = sg.placeholder((3,), "float64")
    with gradient_override_map({"tanh": "batching.triple"}):
        y = sg.tanh(x)
    values = stacked_placeholders([x])
    (found,) = batch([y], values, SIZE)
    g = gradient(found, values[x])
    np.testing.assert_array_equal(run([g], {values[x]: np.ones((SIZE, 3))})[0], np.full((3, 3), 3))


# -------------------------------------------------------------------------- branches and loops


def test_a_branch_taken_by_all_is_built_once_with_the_axis():
    x, n = sg.placeholder((2,), "float64"), sg.placeholder((), "int64")
    y = sg.switch_case(n, [lambda: x * x, lambda: sg.ones((2,), "float64"), lambda: sg.sin(x)])
    values = stacked_placeholders([x])
    (found,) = batch([y], values, SIZE)
    assert "scan" not in ops_of([found])
    point = np.arange(6.0).reshape(3, 2)
    for taken, expected in enumerate((point**2, np.ones((3, 2)), np.sin(point))):
        np.testing.assert_allclose(run([found], {values[x]: point, n: taken})[0], expected)


@pytest.mark.parametrize("bound", [None, 4])
def test_a_loop_that_runs_as_often_for_all_is_one_loop(bound):
    x, n = sg.placeholder((2,), "float64"), sg.placeholder((), "int64")
    y = sg.while_loop(
        lambda i, *_: i < n,
        lambda i, fixed, v, w: (i + 1, fixed * 2.0, v + x * fixed, w * v),
        [0, sg.ones((2,), "float64"), sg.zeros((2,), "float64"), sg.ones((2,), "float64")],
        maximum_iterations=bound,
    )[3]
    g = gradient(y, x)
    values = stacked_placeholders([x])
    found = batch([y, g], values, SIZE)
    point = np.arange(6.0).reshape(3, 2) + 1
    step, one = (
        sg.compile([given, n], outputs, opt_level=1)
        for given, outputs in ((values[x], found), (x, [y, g]))
    )
    for trips in (0, 1, 3):
        results = run_step(step, found, {values[x]: point, n: trips})
        for k in range(SIZE):
            expected = run_step(one, [y, g], {x: point[k], n: trips})
            np.testing.assert_allclose(results[0][k], expected[0], rtol=1e-13)
            np.testing.assert_allclose(results[1][k], expected[1], rtol=1e-13)


def test_what_a_loop_does_not_change_by_case_has_no_axis():
    x, n = sg.placeholder((2,), "float64"), sg.placeholder((), "int64")
    y = sg.while_loop(lambda i, *_: i < n, lambda i, v: (i + 1, v * 2.0), [0, x])[1]
    (found,) = batch([y], stacked_placeholders([x]), SIZE)
    (loop,) = (node for node in Graph([found]).nodes if node.op == "while")
    assert [t.shape for t in loop.outputs] == [(), (), (SIZE, 2)]


@pytest.mark.parametrize("bound", [5, None])
def test_a_counter_that_a_nested_loop_hands_on_has_no_axis(bound):
    # With checkpoints a loop is one of segments, each a loop that carries the counter.
    x, n = sg.placeholder((2,), "float64"), sg.placeholder((), "int64")
    y = sg.while_loop(
        lambda i, _v: i < n, lambda i, v: (i + 1, sg.sin(v) * x), [0, x],
        maximum_iterations=bound, checkpoint=2,
    )[1]  # fmt: skip
    g = gradient(y, x)
    values = stacked_placeholders([x])
    found = batch([y, g], values, SIZE)
    point = np.random.default_rng(0).uniform(-1, 1, (SIZE, 2))
    for trips in (0, 1, 4):
        results = run(found, {values[x]: point, n: trips})
        for k in range(SIZE):
            expected = run([y, g], {x: point[k], n: trips})
            np.testing.assert_allclose([r[k] for r in results], expected, rtol=1e-13)


def test_what_a_branch_and_a_function_give_to_all_cases_has_no_axis():
    x, n = sg.placeholder((2,), "float64"), sg.placeholder((), "int64")
    step = sg.function(lambda i, v: (i + 1, v * 2.0))

    def body(i, v):
        after = sg.cond(i < 3, lambda: step(i, v), lambda: (i + 2, v))
        return sg.scan(lambda c, _: ((c[0] + 1, sg.sin(c[1])), None), after, None, length=2)[0]

    y = sg.while_loop(lambda i, _v: i < n, body, (sg.constant(0, "int64"), x))[1]
    values = stacked_placeholders([x])
    (found,) = batch([y], values, SIZE)
    (loop,) = (node for node in Graph([found]).nodes if node.op == "while")
    assert [t.shape for t in loop.outputs] == [(), (), (SIZE, 2)]
    point = np.random.default_rng(0).uniform(-1, 1, (SIZE, 2))
    (result,) = run([found], {values[x]: point, n: 9})
    for k in range(SIZE):
        np.testing.assert_allclose(result[k], run([y], {x: point[k], n: 9})[0], rtol=1e-13)


def test_what_a_loop_gives_without_the_axis_is_taken_from_the_new_loop():
    x, n = sg.placeholder((2,), "float64"), sg.placeholder((), "int64")
    count, y = sg.while_loop(lambda i, *_: i < n, lambda i, v: (i + 1, v * 2.0), [0, x])
    values = stacked_placeholders([x])
    found = batch([count * 10, y], values, SIZE)
    assert sum(node.op == "while" for node in Graph(found).nodes) == 1
    results = run(found, {values[x]: np.ones((3, 2)), n: 2})
    np.testing.assert_array_equal(results[0], [20] * SIZE)
    np.testing.assert_array_equal(results[1], np.full((3, 2), 4.0))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_takes_its_slices_with_the_axis(reverse):
    x, c = sg.placeholder((4, 2), "float64"), sg.placeholder((2,), "float64")
    carry, ys = sg.scan(lambda v, t: (sg.sin(v + t), v * t), c, x, reverse=reverse)
    for chosen in ([x], [c], [x, c]):
        values = stacked_placeholders(chosen)
        found = batch([carry, ys], values, SIZE)
        scans = [node for node in Graph(found).nodes if node.op == "scan"]
        assert len(scans) == 1
        rng = np.random.default_rng(0)
        given = {
            values.get(t, t): rng.uniform(-1, 1, values.get(t, t).type.static_shape) for t in (x, c)
        }
        results = run(found, given)
        for k in range(SIZE):
            each = {t: given[values[t]][k] if t in values else given[t] for t in (x, c)}
            for result, expected in zip(results, run([carry, ys], each), strict=True):
                np.testing.assert_allclose(result[k], expected, rtol=1e-13)


def test_a_branch_that_differs_by_case_is_run_for_one_after_the_other():
    x = sg.placeholder((2,), "float64")
    y = sg.cond(x.sum() > 0.0, lambda: sg.sqrt(x), lambda: x * x)
    values = stacked_placeholders([x])
    (found,) = batch([y], values, SIZE)
    assert "scan" in ops_of([found])
    point = np.array([[1.0, 4.0], [-1.0, -2.0], [9.0, 0.0]])
    expected = [[1, 2], [1, 4], [3, 0]]
    np.testing.assert_allclose(run([found], {values[x]: point})[0], expected)


@pytest.mark.parametrize("bound", [None, 6])
def test_a_loop_that_runs_as_often_as_each_case_wants(bound):
    x = sg.placeholder((2,), "float64")
    y = sg.while_loop(lambda v: v.sum() < 10.0, lambda v: [v * 2.0], [x], maximum_iterations=bound)[
        0
    ]
    values = stacked_placeholders([x])
    (found,) = batch([y], values, SIZE)
    point = np.array([[1.0, 4.0], [1.0, 2.0], [9.0, 3.0]])
    expected = [[2, 8], [4, 8], [9, 3]]
    np.testing.assert_allclose(run([found], {values[x]: point})[0], expected)


@pytest.mark.parametrize("bound", [5, None])
def test_a_record_of_iterations_whose_number_differs_by_case(bound):
    x = sg.placeholder((2,), "float64")
    y = sg.while_loop(
        lambda v: (v * v).sum() < 50.0, lambda v: [v * v], [x], maximum_iterations=bound
    )[0]
    g = gradient(y, x)
    (second,) = sg.hvp(y, x, np.ones(2))
    values = stacked_placeholders([x])
    point = np.array([[1.5, 2.0], [3.0, 1.0], [9.0, 3.0]])
    first, other = run(batch([g, second], values, SIZE), {values[x]: point})
    np.testing.assert_allclose(first, [4 * point[0] ** 3, 2 * point[1], [1, 1]])
    np.testing.assert_allclose(other, [12 * point[0] ** 2, [2, 2], [0, 0]])


def test_a_record_without_a_bound_counts_no_case_and_none_that_is_done_from_the_start():
    x, n = sg.placeholder((), "float64"), sg.placeholder((), "int64")
    y = sg.while_loop(lambda i, _v: i < n, lambda i, v: (i + 1, sg.sin(v) + x), [0, x])[1]
    g = gradient(y, x)
    values = stacked_placeholders([x, n])
    found = batch([y, g], values, SIZE)
    point, trips = np.array([0.5, -0.2, 0.8]), np.array([3, 0, 1])
    results = run(found, {values[x]: point, values[n]: trips})
    for k in range(SIZE):
        expected = run([y, g], {x: point[k], n: trips[k]})
        np.testing.assert_allclose([r[k] for r in results], expected, rtol=1e-13)
    none = {t: sg.placeholder((0,), t.dtype) for t in (x, n)}
    assert [r.shape for r in run(batch([y, g], none, 0), {t: [] for t in none.values()})] == [
        (0,)
    ] * 2


def test_a_record_without_a_bound_is_refused_where_a_case_could_fail_after_its_end():
    x, n = sg.placeholder((4,), "float64"), sg.placeholder((), "int64")
    y = sg.while_loop(lambda i, _v: i < n, lambda i, v: (i + 1, sg.sin(v) * x[i]), [0, x[0]])[1]
    values = stacked_placeholders([x, n])
    with pytest.raises(sg.CompileError, match="loop without a bound") as caught:
        batch([gradient(y, x)], values, SIZE)
    assert caught.value.hint == "give maximum_iterations"
