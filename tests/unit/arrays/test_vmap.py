"""`vmap` against a loop over the examples: axes, nests, compositions, control flow, every op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.frontend.nests import flatten, map_leaves
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from tests.support.case import Case, draw, placeholders
from tests.support.cases import CASES
from tests.support.control_programs import gradient, keep, run
from tests.support.together import together

Function = Callable[..., Any]

ROWS = np.array([[0.5, -1.5, 2.0], [1.0, 0.25, -0.5], [0.1, 0.2, 3.0], [-1.0, 2.5, 0.75]])
WEIGHTS = np.array([0.3, -0.7, 1.1])
SIZE = 3
FLOAT_CASES = [c for c in CASES if dtypes.float64 in c.dtypes]
SMOOTH_CASES = [c for c in FLOAT_CASES if c.order]


def _values(function: Function, *arrays: Array) -> list[Array]:
    """Return what `function` of tensors gives for `arrays`, by the reference."""
    xs = [sg.placeholder(a.shape, a.dtype) for a in arrays]
    leaves = [sg.asarray(leaf) for leaf in flatten(function(*xs))[0]]
    return list(evaluate(Graph(leaves, xs), arrays)[0])


def check_examples(function: Function, *arrays: Array, native: bool = False) -> None:
    """Hold `function`, mapped over the first axis of all arrays, to itself on each example."""
    mapped = sg.vmap(function)
    found = flatten(mapped(*arrays))[0] if native else _values(mapped, *arrays)
    examples = [_values(function, *parts) for parts in zip(*arrays, strict=True)]
    for result, column in zip(found, zip(*examples, strict=True), strict=True):
        np.testing.assert_allclose(result, np.stack(column), rtol=1e-11, atol=1e-12)


# -------------------------------------------------------------------------------------------- axes


def test_a_function_of_one_row_is_mapped_over_rows():
    found = sg.vmap(lambda row, w: sg.sum(row * w), in_axes=(0, None))(ROWS, WEIGHTS)
    np.testing.assert_allclose(found, ROWS @ WEIGHTS)
    assert isinstance(found, np.ndarray)


@pytest.mark.parametrize("in_axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("out_axis", [0, 1, 2, -1, -2])
def test_axes_are_where_they_are_said_to_be(in_axis, out_axis):
    x = np.arange(24.0).reshape(2, 3, 4)
    found = sg.vmap(lambda m: m.T * 2.0, in_axes=in_axis, out_axes=out_axis)(x)
    examples = [2 * part.T for part in np.moveaxis(x, in_axis, 0)]
    np.testing.assert_array_equal(found, np.stack(examples, axis=out_axis))


def test_axes_are_prefixes_of_nests():
    def function(params, x):
        w, (b, unused) = params["w"], params["rest"]
        return {"y": w @ x + b, "pair": (unused, x)}, None, 3.0

    params: Any = {"w": np.arange(24.0).reshape(2, 3, 4), "rest": (np.ones(2), ROWS)}
    in_axes = ({"w": 2, "rest": None}, 0)
    mapped = sg.vmap(function, in_axes, out_axes=({"y": 1, "pair": (None, 0)}, None, 0))
    found, none, three = mapped(params, ROWS)
    expected = [params["w"][:, :, i] @ ROWS[i] + 1 for i in range(4)]
    np.testing.assert_allclose(found["y"], np.stack(expected, axis=1))
    np.testing.assert_array_equal(found["pair"][0], ROWS)
    np.testing.assert_array_equal(found["pair"][1], ROWS)
    assert none is None
    np.testing.assert_array_equal(three, np.full(4, 3, np.float32))


def test_one_axis_stands_for_all_arguments_and_containers_are_nests():
    box = sg.Container(a=ROWS, b=ROWS[:, 0])
    found = sg.vmap(lambda p, s: p.map(lambda leaf, _: leaf * s))(box, np.arange(4.0))
    assert isinstance(found, sg.Container)
    np.testing.assert_array_equal(found.a, ROWS * np.arange(4.0)[:, None])
    np.testing.assert_array_equal(found.b, ROWS[:, 0] * np.arange(4.0))


def test_keywords_are_mapped_over_axis_0_and_other_arguments_are_handed_on():
    def function(x, power, *, scale):
        return x**power * scale

    found = sg.vmap(function, in_axes=(0, None))(ROWS, 2, scale=np.arange(4.0))
    np.testing.assert_allclose(found, ROWS**2 * np.arange(4.0)[:, None])


def test_a_result_that_is_the_same_for_all_is_repeated_or_given_once():
    w = sg.constant(WEIGHTS)
    repeated, once = sg.vmap(lambda x: (w * 2.0, w), out_axes=(0, None))(ROWS)
    np.testing.assert_array_equal(repeated, np.tile(2 * WEIGHTS, (4, 1)))
    np.testing.assert_array_equal(once, WEIGHTS)


def test_no_examples_and_one_example():
    assert sg.vmap(lambda x: sg.sum(x))(np.zeros((0, 3))).shape == (0,)
    np.testing.assert_array_equal(sg.vmap(lambda x: sg.sum(x))(ROWS[:1]), [1])


def test_dtypes_are_kept():
    for dtype in ("float32", "int8", "bool"):
        assert sg.vmap(lambda x: x[0])(np.ones((2, 3), dtype)).dtype == dtype


# ------------------------------------------------------------------------------------------- graphs


def test_of_tensors_it_is_graph_of_any_size():
    x = sg.placeholder(("n", 3), "float64")
    y = sg.vmap(lambda row: sg.tanh(row) @ WEIGHTS)(x)
    assert y.shape == (x.shape[0],)
    (g,) = sg.gradients(y, x)
    step = sg.compile([x], [y, g])
    for rows in (ROWS, ROWS[:1], ROWS[:0]):
        value, slope = step(rows)
        np.testing.assert_allclose(value, np.tanh(rows) @ WEIGHTS, rtol=1e-12)
        np.testing.assert_allclose(slope, WEIGHTS / np.cosh(rows) ** 2, rtol=1e-12)


def test_unknown_sizes_must_agree_when_the_step_is_called():
    x, y = sg.placeholder((None, 3), "float64"), sg.placeholder((None, 3), "float64")
    step = sg.compile([x, y], sg.vmap(lambda a, b: a @ b)(x, y))
    np.testing.assert_allclose(step(ROWS, ROWS), (ROWS * ROWS).sum(axis=1))
    with pytest.raises(ValueError, match=r"2 in axis 0.*4 in axis 0"):
        step(ROWS, ROWS[:2])


def test_tensors_from_around_are_the_same_for_all_and_have_gradients():
    w = sg.variable(WEIGHTS)
    x = sg.placeholder((4, 3), "float64")
    y = sg.vmap(lambda row: sg.sum(sg.sin(row * w)))(x)
    (g,) = sg.gradients(y, w)
    np.testing.assert_allclose(
        sg.run(g, {x: ROWS}), (ROWS * np.cos(ROWS * WEIGHTS)).sum(axis=0), rtol=1e-12
    )


def test_what_the_function_keeps_is_refused_outside():
    kept: list[Tensor] = []
    x = sg.placeholder((4, 3))
    sg.vmap(lambda row: keep(kept, row * 2.0))(x)
    with pytest.raises(ValueError, match="of region"):
        sg.sin(kept[0])


def test_elementwise_work_is_not_done_case_by_case():
    x = sg.placeholder((4, 3))
    y = sg.vmap(lambda row: sg.nn.softmax(row) * sg.sum(row))(x)
    assert "scan" not in str(Graph([y]))


def test_a_function_is_traced_once_for_a_signature():
    calls: list[Any] = []

    def square(x):
        calls.append(x)
        return x * x

    for rows in (ROWS, ROWS + 1):
        sg.vmap(square)(rows)
        sg.vmap(square, [0])(rows)
    assert len(calls) == 2  # one for each of the ways in which axes are given
    sg.vmap(square)(ROWS[:2])
    assert len(calls) == 3


# ------------------------------------------------------------------------------------- compositions


def _energy(x: Tensor) -> Tensor:
    return sg.sum(sg.sin(x) * x) * x[0]


def _scanned(x: Tensor) -> Any:
    return sg.scan(lambda c, t: (sg.sin(c + t), c * t), x[0], x)


@sg.custom_gradient
def _tripled(x: Tensor) -> Any:
    y = sg.exp(x)
    return y, lambda dy: dy * y * 3.0


def _array_of_tensors(x: Tensor) -> Any:
    array = sg.TensorArray(3, (), "float64")
    return sg.fori_loop(0, 3, lambda i, a: a.write(i, x[i] * x[0]), array).stack()


def _branches(x: Tensor) -> Any:
    return sg.cond(sg.sum(x) > 1.0, lambda: sg.exp(x), lambda: x * x)


def _bounded_loop(x: Tensor) -> Any:
    return sg.while_loop(
        lambda v: sg.sum(v * v) < 50.0, lambda v: [v * 1.5], [x], maximum_iterations=9
    )[0]


PROGRAMS: dict[str, Function] = {
    "elementwise": lambda x: sg.sin(x) * x[0],
    "scan": lambda x: sg.concat([_scanned(x)[1], _scanned(x)[0][None]]),
    "custom_gradient": lambda x: _tripled(x * x[1]),
    "TensorArray": _array_of_tensors,
    "cond": _branches,
    "while": _bounded_loop,
    "fori": lambda x: sg.fori_loop(0, 3, lambda i, v: sg.tanh(v * x), x),
    "function": lambda x: sg.function(lambda q: sg.sin(q) * sg.exp(q[0]))(x),
    "recompute": lambda x: sg.recompute_grad(lambda q: sg.sin(q) * sg.exp(q[0]))(x),
    "checkpoint": lambda x: sg.scan(lambda c, t: (c * t, sg.sin(c)), x[0], x, checkpoint=2)[1],
    "vmap": lambda x: sg.vmap(lambda a, b: sg.sin(a) * b, (0, None), out_axes=1)(x, x),
    "switch": lambda x: sg.switch_case(
        sg.astype(sg.argmax(x), "int32"), [lambda: x * x, lambda: sg.exp(x), lambda: x]
    ),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_mapped_program_is_that_of_each_example(program):
    check_examples(program, ROWS)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_derivatives_of_each_example(program):
    def total(x: Tensor) -> Tensor:
        y = program(x)
        return sg.sum(sg.sin(y) * y)

    def derivatives(x: Tensor) -> Any:
        value, pull = sg.vjp(total, x)
        return value, pull(1.0), sg.jvp(total, (x,), (x * x,))[1]

    check_examples(derivatives, ROWS)


@pytest.mark.parametrize("name", ["scan", "custom_gradient", "cond", "while", "vmap"])
def test_second_derivatives_of_each_example(name):
    program = PROGRAMS[name]
    check_examples(sg.hessian(lambda x: sg.sum(program(x) ** 2)), ROWS)


@pytest.mark.parametrize(
    "name", ["scan", "custom_gradient", "cond", "while", "vmap", "TensorArray"]
)
def test_the_gradient_of_a_mapped_program_is_that_of_a_sum(name):
    program = PROGRAMS[name]
    mapped = sg.grad(lambda rows: sg.sum(sg.vmap(program)(rows) ** 2))
    each = sg.grad(lambda row: sg.sum(program(row) ** 2))
    (found,) = _values(mapped, ROWS)
    expected = [_values(each, row)[0] for row in ROWS]
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-11, atol=1e-12)


def test_a_custom_gradient_is_one_node_and_its_variables_have_the_sum_of_all():
    w = sg.variable(np.array(2.0))

    @sg.custom_gradient
    def scaled(x: Tensor) -> Any:
        def gradient(dy: Tensor, variables: Any) -> Any:
            return dy * variables[0] * 10.0, [sg.sum(dy * x)]

        return x * w, gradient

    x = sg.placeholder((4, 3), "float64")
    y = sg.vmap(lambda row: scaled(row) * row[0])(x)
    dx, dw = gradient(y, x), gradient(y, w)
    assert "scan" not in str(Graph([y, dx, dw]))
    found = run([dx, dw], {x: ROWS})
    expected = 20.0 * ROWS[:, :1] * np.ones(3)
    expected[:, 0] += 2.0 * ROWS.sum(axis=1)
    np.testing.assert_allclose(found[0], expected)
    np.testing.assert_allclose(found[1], (ROWS * ROWS[:, :1]).sum())


def test_what_is_computed_again_is_one_node():
    x, w = sg.placeholder((4, 3), "float64"), sg.placeholder((3,), "float64")
    y = sg.vmap(sg.recompute_grad(lambda row: sg.sin(row * w) * row[0]))(x)
    grads = [gradient(y, x), gradient(y, w)]
    assert "scan" not in str(Graph([y, *grads]))
    same = sg.sin(x * w) * x[:, :1]
    plain = [gradient(same, x), gradient(same, w)]
    dx, dw, *expected = run([*grads, *plain], {x: ROWS, w: WEIGHTS})
    np.testing.assert_allclose(dx, expected[0], rtol=1e-12)
    np.testing.assert_allclose(dw, expected[1], rtol=1e-12)


def test_a_loop_without_a_bound_runs_as_often_as_each_example_wants():
    def doubled(x: Tensor) -> Any:
        return sg.while_loop(lambda v: sg.sum(v * v) < 50.0, lambda v: [v * 1.5], [x])[0]

    check_examples(lambda x: sg.grad(lambda v: sg.sum(doubled(v) ** 3))(x), ROWS)
    check_examples(lambda x: sg.hessian(lambda v: sg.sum(doubled(v) ** 3))(x), ROWS)


def test_native_code_of_a_composition():
    def pulled(x: Tensor, dy: Tensor) -> Any:
        _, pull = sg.vjp(lambda v: _scanned(_tripled(v))[1], x)
        return pull(dy)

    check_examples(pulled, ROWS, ROWS[::-1].copy(), native=True)


def test_gradients_of_each_example_by_common_weights():
    def loss(w, x):
        return sg.sum(sg.tanh(w * x))

    found = sg.vmap(sg.grad(loss), in_axes=(None, 0))(WEIGHTS, ROWS)
    np.testing.assert_allclose(found, ROWS / np.cosh(WEIGHTS * ROWS) ** 2, rtol=1e-12)


def test_maps_within_maps():
    times = sg.vmap(sg.vmap(lambda x, y: x * y, (None, 0)), (0, None))
    np.testing.assert_array_equal(times(WEIGHTS, ROWS[0]), np.outer(WEIGHTS, ROWS[0]))
    inner = sg.vmap(lambda row: sg.vmap(lambda a: a * row)(row))(ROWS)
    np.testing.assert_allclose(inner, ROWS[:, :, None] * ROWS[:, None, :])


def test_within_a_loop_and_a_branch_it_is_graph():
    x = sg.placeholder((4, 3), "float64")
    normal = sg.vmap(lambda row: row / sg.sqrt(row @ row))
    looped = sg.fori_loop(0, 2, lambda _i, v: normal(v) * 2.0, x)
    chosen = sg.cond(sg.sum(x) > 0.0, lambda: normal(x), lambda: x)
    lengths = np.linalg.norm(ROWS, axis=1, keepdims=True)
    found = run([looped, chosen], {x: ROWS})
    np.testing.assert_allclose(found[0], 2 * ROWS / lengths)
    np.testing.assert_allclose(found[1], ROWS / lengths)


def test_an_array_of_tensors_may_be_used_from_around():
    array = sg.TensorArray(3, (), "float64").unstack(sg.constant(WEIGHTS))
    found = sg.vmap(lambda i: array.read(i))(np.array([2, 0, 0, 1]))
    np.testing.assert_array_equal(found, WEIGHTS[[2, 0, 0, 1]])


# -------------------------------------------------------------------------------------- every op


@together("case", FLOAT_CASES, ids=lambda case: case.name)
def test_every_op_is_mapped_over_the_last_axis(case: Case) -> None:
    drawn = [draw(case, dtypes.float64, seed) for seed in range(SIZE)]
    stacks = [np.stack(parts, axis=-1) for parts in zip(*drawn, strict=True)]
    found = _values(sg.vmap(case.build, in_axes=-1, out_axes=-1), *stacks)
    xs = placeholders(case, dtypes.float64)
    graph = Graph(case.build(*xs), xs)
    examples = [evaluate(graph, each)[0][0] for each in drawn]
    np.testing.assert_allclose(found[0], np.stack(examples, axis=-1), rtol=1e-12, atol=1e-12)


@together("case", SMOOTH_CASES, ids=lambda case: case.name)
def test_the_pull_of_every_op_is_mapped(case: Case) -> None:
    drawn = [draw(case, dtypes.float64, seed) for seed in range(2)]

    def pulled(*xs: Tensor) -> Any:
        y, pull = sg.vjp(case.build, *xs)
        return map_leaves(lambda g: g, pull(sg.ones_like(y) if y.dtype.is_float else None))

    check_examples(pulled, *(np.stack(parts) for parts in zip(*drawn, strict=True)))
