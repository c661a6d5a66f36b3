"""Loops with a condition, and over a range. A number in a test's name is that of the rule."""

from __future__ import annotations

from collections import namedtuple
from itertools import product
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError, ShapeError
from symgrad.graph.node import Tensor
from symgrad.runtime.function import compile
from tests.support.control_programs import check_derivatives, gradient, keep, run, value

POINT = np.array([0.9, -0.8, 1.1])


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


@pytest.fixture
def n() -> Tensor:
    return sg.placeholder((), "int32", name="n")


def power(x: Tensor, n: Tensor, **options: Any) -> Any:
    """Return x ** (n + 1), by a loop."""
    loop = sg.while_loop(lambda i, _v: i < n, lambda i, v: (i + 1, v * x), (0, x), **options)
    return loop[1]


def test_r13_1_cond_and_body_are_functions(x):
    not_a_function: Any = 3
    with pytest.raises(DTypeError, match=r"cond is 3, not a function"):
        sg.while_loop(not_a_function, lambda v: v, [x])
    with pytest.raises(TypeError, match=r"body is .* not a function"):
        sg.while_loop(lambda v: True, x, [x])


@pytest.mark.parametrize("loop_vars", [[], (), {}, None, [None, ()]])
def test_r13_1_there_are_loop_variables(loop_vars):
    with pytest.raises(ValueError, match="there are no loop variables"):
        sg.while_loop(lambda: True, lambda: (), loop_vars)


def test_r13_1_maximum_iterations_is_one_integer_and_not_negative(x, n):
    wrong: Any
    tensors = (sg.placeholder((2,), "int32"), sg.constant([3]), sg.placeholder(("k",), "int64"))
    for wrong in ([1, 2], np.array([3]), *tensors):
        with pytest.raises(ShapeError, match=r"maximum_iterations is .*, not a scalar"):
            power(x, n, maximum_iterations=wrong)
    for wrong in (2.0, True, "3", sg.constant(2.0)):
        with pytest.raises(DTypeError, match=r"maximum_iterations is .*, not an integer"):
            power(x, n, maximum_iterations=wrong)
    with pytest.raises(ValueError, match="maximum_iterations is -1, less than 0"):
        power(x, n, maximum_iterations=-1)


def test_r13_1_cond_and_body_are_traced_once(x, n):
    tests: list[Any] = []
    steps: list[Any] = []
    y = sg.while_loop(
        lambda i, _v: keep(tests, i < n), lambda i, v: keep(steps, (i + 1, v * x)), [0, x]
    )[1]
    value(gradient(y, x), {x: POINT, n: 2})
    assert len(tests) == len(steps) == 1


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_a_loop_runs_as_often_as_the_condition_holds(x, n, trips):
    i, y = sg.while_loop(lambda i, _v: i < n, lambda i, v: [i + 1, v * x], [0, x])
    found = run([i, y], {x: POINT, n: trips})
    assert found[0] == trips
    np.testing.assert_allclose(found[1], POINT ** (trips + 1))


@pytest.mark.parametrize("bound", [0, 1, 3, 9])
def test_r13_2_maximum_iterations_ends_the_loop(x, n, bound):
    expected = POINT ** (min(5, bound) + 1)
    y = power(x, n, maximum_iterations=bound)
    np.testing.assert_allclose(value(y, {x: POINT, n: 5}), expected)
    limit = sg.placeholder((), "int16")
    y = power(x, n, maximum_iterations=limit)
    np.testing.assert_allclose(value(y, {x: POINT, n: 5, limit: bound}), expected)


def test_r13_2_a_negative_tensor_as_maximum_runs_nothing(x, n):
    limit = sg.placeholder((), "int32")
    y = power(x, n, maximum_iterations=limit)
    np.testing.assert_allclose(value(y, {x: POINT, n: 5, limit: -1}), POINT)


def test_r13_3_a_condition_of_one_element_is_squeezed(x):
    y = sg.while_loop(lambda v: (v < 10.0).all(keepdims=True), lambda v: v * 2.0, [x * x])
    assert value(y[0], {x: POINT}).max() >= 10


def test_r13_3_a_condition_of_more_elements_or_no_bool_is_refused(x):
    with pytest.raises(ShapeError, match=r"cond is bool\[3\], not a single element"):
        sg.while_loop(lambda v: v < 10.0, lambda v: v, [x])
    with pytest.raises(DTypeError, match=r"cond is f64\[\], not bool"):
        sg.while_loop(lambda v: v.sum(), lambda v: v, [x])


def test_r13_4_captures_are_operands_and_keep_their_value(x, n):
    y = power(x, n)
    assert {t for t in y.node.inputs if t.node.op == "placeholder"} == {x, n}


@pytest.mark.parametrize("wrong", ["number", "nest", "none"])
def test_r13_5_the_body_returns_the_nest_of_the_loop_variables(x, wrong):
    results = {"number": (x,), "nest": (x, (x,)), "none": None}
    with pytest.raises(GraphError, match=r"the body gives .*, and the loop variables are"):
        sg.while_loop(lambda a, b: True, lambda a, b: results[wrong], [x, x])


def test_r13_5_the_body_may_return_a_list_for_a_tuple_or_one_variable_alone(x):
    def less(v: Tensor) -> Any:
        return v.sum() < 5.0

    for loop_vars, body in (
        ((x,), lambda v: [v + 1.0]),
        ([x], lambda v: v + 1.0),
    ):
        y = sg.while_loop(less, body, loop_vars)
        assert type(y) is type(loop_vars)
        np.testing.assert_allclose(value(y[0], {x: POINT}), POINT + 2)


def test_r13_5_other_dtypes_are_refused_with_the_variable_and_both(x):
    with pytest.raises(DTypeError, match=r"loop variable 1 is f64\[3\] and the body gives f32"):
        sg.while_loop(lambda i, _v: i < 3, lambda i, v: (i + 1, v.astype("float32")), [0, x])


def test_r13_5_a_variable_that_grows_is_refused_with_a_way_out(x):
    with pytest.raises(ShapeError, match=r"loop variable 0 is f64\[3\][\s\S]*TensorArray"):
        sg.while_loop(lambda v: True, lambda v: sg.concat([v, v]), [x])


def test_r13_5_numbers_of_python_take_the_dtype_of_the_variable():
    i, v = sg.while_loop(lambda i, v: i < 1, lambda i, v: (1, 2), [sg.constant(0, "int16"), 0.0])
    assert (i.dtype, v.dtype) == (sg.int16, sg.float32)
    assert run([i, v], {}) == [1, 2]


def test_r13_6_shape_invariants_are_checked(x, n):
    y = power(x, n, shape_invariants=((), (None,)))
    np.testing.assert_allclose(value(y, {x: POINT, n: 1}), POINT**2)
    with pytest.raises(ShapeError, match=r"loop variable 1 is f64\[3\], its shape invariant \(4,"):
        power(x, n, shape_invariants=((), (4,)))
    with pytest.raises(ShapeError, match="its shape invariant"):
        power(x, n, shape_invariants=((), (None, None)))
    with pytest.raises(ValueError, match="shape_invariants do not have the nest"):
        power(x, n, shape_invariants=[()])


def test_r13_7_the_nest_of_the_loop_variables_comes_back(x):
    pair = namedtuple("pair", "a b")
    given = [pair(x, {"k": 0}), (None, [x])]
    back = sg.while_loop(
        lambda p, q: p.b["k"] < 2,
        lambda p, q: [pair(p.a * 2.0, {"k": p.b["k"] + 1}), (None, [q[1][0] + p.a])],
        given,
    )
    assert isinstance(back, list)
    assert isinstance(back[0], pair)
    assert back[1][0] is None
    found = run([back[0].a, back[0].b["k"], back[1][1][0]], {x: POINT})
    np.testing.assert_allclose(found[0], 4 * POINT)
    np.testing.assert_allclose(found[2], 4 * POINT)
    assert found[1] == 2


def test_r13_7_a_dict_is_one_argument(x):
    y = sg.while_loop(
        lambda d: d["i"] < 2, lambda d: {"i": d["i"] + 1, "v": d["v"] * x}, {"i": 0, "v": x}
    )
    np.testing.assert_allclose(value(y["v"], {x: POINT}), POINT**3)


def _iterated(trips: int, **options: Any) -> list[Tensor]:
    """Return sine of its own multiple, again and again, with gradients by start and factor."""
    start, factor = sg.placeholder((3,), "float64"), sg.placeholder((3,), "float64")
    body = lambda i, v: (i + 1, sg.sin(v * factor))  # noqa: E731 - what a user writes
    _, end = sg.while_loop(lambda i, _v: i < trips, body, (0, start), **options)
    return [start, factor, end, *sg.gradients(sg.sum(end), [start, factor])]


_AT_ONCE = (
    (0, "sqrt", None), (1, 7, 50), (7, 7, None), (7, 7, 50), (37, 7, 50), (37, 7, None),
    (50, "sqrt", 50), (50, 1000, None),
)  # fmt: skip


@pytest.mark.parametrize(
    ("trips", "checkpoint", "bound"),
    [
        pytest.param(*row, marks=[] if row in _AT_ONCE else [pytest.mark.slow])
        for row in product((0, 1, 7, 37, 50), (1, 7, 50, 1000, "sqrt"), (50, None))
    ],
)
def test_checkpoints_change_no_result(trips, checkpoint, bound):
    plain = _iterated(trips, maximum_iterations=bound)
    kept = _iterated(trips, maximum_iterations=bound, checkpoint=checkpoint)
    arrays = (POINT, 1 + POINT)
    wanted = sg.compile(plain[:2], plain[2:], opt_level=1)(*arrays)
    found = sg.compile(kept[:2], kept[2:], opt_level=1)(*arrays)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_checkpoints_save_memory():
    plain = _iterated(10_000, maximum_iterations=10_000)
    kept = _iterated(10_000, maximum_iterations=10_000, checkpoint="sqrt")
    whole = sg.compile(plain[:2], plain[2:]).memory.arena_bytes
    assert whole > 10_000 * 3 * 8
    assert sg.compile(kept[:2], kept[2:]).memory.arena_bytes < 0.05 * whole


@pytest.mark.parametrize("checkpoint", [0, -1, True, 2.5, "half"])
def test_a_checkpoint_that_is_none_is_refused(x, n, checkpoint):
    with pytest.raises(GraphError, match=r"checkpoint is .*, none of None, 'sqrt'"):
        power(x, n, checkpoint=checkpoint)


def test_r13_16_without_back_prop_no_gradient_passes(x, n):
    y = power(x, n, back_prop=False)
    np.testing.assert_allclose(value(y, {x: POINT, n: 1}), POINT**2)
    assert sg.gradients(y, x) == [None]


def test_r10_15_a_tensor_of_the_body_is_refused_outside(x, n):
    kept: list[Tensor] = []
    sg.while_loop(lambda v: v.sum() < 0.0, lambda v: keep(kept, v * 2.0), [x])
    with pytest.raises(ValueError, match="of region 'body', used in the top level"):
        sg.sin(kept[0])


def test_r13_30_a_variable_is_not_made_in_the_body(x, n):
    with pytest.raises(ValueError, match="variable 'w' is made inside"):
        sg.while_loop(lambda v: v.sum() < 5.0, lambda v: v + sg.variable(POINT, name="w"), [x])


def test_r13_5_messages_name_the_line_of_the_loop(x):
    with pytest.raises(DTypeError, match=r"--> test_while_loop\.py"):
        sg.while_loop(lambda v: True, lambda v: v.astype("float32"), [x])


@pytest.mark.parametrize(("lower", "upper", "trips"), [(0, 3, 3), (2, 3, 1), (3, 3, 0), (4, 1, 0)])
def test_fori_loop_counts_from_lower_up_to_upper(x, lower, upper, trips):
    y = sg.fori_loop(lower, upper, lambda i, v: v * x + i, x)
    expected = POINT
    for i in range(lower, upper):
        expected = expected * POINT + i
    np.testing.assert_allclose(value(y, {x: POINT}), expected)
    check_derivatives(y, x, {x: POINT})
    a, b = sg.placeholder((), "int32"), sg.placeholder((), "int32")
    y = sg.fori_loop(a, b, lambda i, v: v * x + i, x)
    np.testing.assert_allclose(value(y, {x: POINT, a: lower, b: upper}), expected)
    assert trips == len(range(lower, upper))


def test_fori_loop_refuses_other_bounds_and_nests(x):
    for lower, upper in ((0.0, 3), (0, True), (sg.constant(1.0), 3)):
        with pytest.raises(TypeError, match=r"(lower|upper) is .*, not an integer"):
            sg.fori_loop(lower, upper, lambda i, v: v, x)
    with pytest.raises(ValueError, match="fori_loop: the body gives"):
        sg.fori_loop(0, 3, lambda i, v: (v, v), x)
    not_a_function: Any = None
    with pytest.raises(TypeError, match="body is None"):
        sg.fori_loop(0, 3, not_a_function, x)


def test_fori_loop_refuses_more_iterations_than_can_be_counted(x):
    for lower, upper in ((-(2**63), 2**63 - 1), (-1, 2**63 - 1), (0, 2**64)):
        message = rf"from lower = {lower} up to upper = {upper} are \d+ iterations, an int64"
        with pytest.raises(GraphError, match=message) as caught:
            sg.fori_loop(lower, upper, lambda i, v: v, x)
        assert "test_while_loop.py" in str(caught.value)


@pytest.mark.parametrize(
    ("dtype", "lower", "upper", "trips"),
    [
        ("int64", 2**63 - 1, -(2**63), 0),
        ("int64", 2**62, -(2**62) - 1, 0),
        ("int64", -(2**63), -(2**63) + 3, 3),
        ("int64", 2**63 - 3, 2**63 - 1, 2),
        ("int64", -(2**62) - 1, 2**62, 2**63 - 1),
        ("int64", -(2**63), 2**63 - 1, 2**63 - 1),
        ("uint64", 2**64 - 3, 2**64 - 1, 2),
        ("uint64", 0, 2**64 - 1, 2**63 - 1),
        ("uint64", 2**63 - 1, 2**63 + 2, 3),
        ("uint64", 2**64 - 1, 0, 0),
        ("int8", 127, -128, 0),
        ("uint32", 2**32 - 2, 2**32 - 1, 1),
    ],
)
def test_fori_loop_counts_between_bounds_that_are_far_apart(dtype, lower, upper, trips):
    a, b = sg.placeholder((), dtype), sg.placeholder((), dtype)
    found = sg.fori_loop(a, b, lambda _i, v: v + 1, sg.constant(0))
    count = found.node.inputs[0]  # to run the longest of these loops takes three centuries
    assert value(count, {a: lower, b: upper}) == trips
    if trips < 4:
        assert value(found, {a: lower, b: upper}) == trips


def test_fori_loop_bounds_may_be_of_one_element(x, n):
    upper = sg.placeholder((1,), "int64")
    y = sg.fori_loop(n, upper, lambda _i, v: v * x, x)
    np.testing.assert_allclose(value(y, {x: POINT, n: 1, upper: [3]}), POINT**3)


def test_a_loop_of_a_symbolic_size(n):
    v = sg.placeholder(("k",), "float64")
    y = power(v, n, maximum_iterations=3)
    g = gradient(y, v)
    for size in (0, 1, 3):
        np.testing.assert_allclose(value(g, {v: POINT[:size], n: 2}), 3 * POINT[:size] ** 2)


def test_one_step_serves_any_trip_count(x, n):
    step = compile([x, n], [power(x, n)])
    for trips in (3, 0, 7):
        (found,) = step(POINT, np.asarray(trips, np.int32))
        np.testing.assert_allclose(found, POINT ** (trips + 1))


def test_a_loop_within_a_loop_without_a_bound_scans_what_that_has_recorded():
    stack, factor = sg.placeholder((3, 2), "float64"), sg.placeholder((2,), "float64")

    def step(i: Tensor, v: Tensor) -> Any:
        _, ys = sg.scan(lambda u, x: (sg.sin(u * factor) + x, u * x), v[0], v)
        return i + 1, ys

    _, last = sg.while_loop(lambda i, _: i < 5, step, (0, stack))
    given = {stack: np.linspace(0.1, 1.0, 6).reshape(3, 2), factor: np.array([0.5, 2.0])}
    run([last, gradient(sg.sum(last), stack), gradient(sg.sum(last), factor)], given)
