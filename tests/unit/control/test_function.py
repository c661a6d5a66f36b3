"""Traced functions, on arrays and on tensors. A number in a test's name is that of the rule."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError, ShapeError
from symgrad.functional import Function
from symgrad.graph.node import Tensor
from symgrad.runtime.function import compile
from tests.support.control_programs import check_derivatives, gradient, keep, run, value

POINT = np.array([0.9, -0.8, 1.1])
NOT_A_FUNCTION: Any = 3


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


@pytest.fixture
def n() -> Tensor:
    return sg.placeholder((), "int64", name="n")


def counted(calls: list[Any]) -> Function:
    """Return a function that notes each trace in `calls`."""
    return sg.function(lambda *args: keep(calls, args) and args[0] * args[-1])


# ------------------------------------------------------------------------------- on arrays


def test_arrays_give_arrays():
    @sg.function
    def scaled(a: Any, b: Any) -> Any:
        return a * 2.0, b.sum()

    first, second = scaled(POINT, np.float64(4.0))
    assert isinstance(first, np.ndarray)
    np.testing.assert_array_equal(first, POINT * 2)
    np.testing.assert_array_equal(second, 4.0)


def test_a_signature_is_traced_once():
    calls: list[Any] = []
    f = counted(calls)
    for scale in (1, 2, 3):
        np.testing.assert_array_equal(f(POINT, POINT * scale), POINT * POINT * scale)
    assert len(calls) == 1
    f(POINT[:2], POINT[:2])
    f(POINT.astype(np.float32), POINT.astype(np.float32))
    assert len(calls) == 3
    f(POINT, POINT)
    assert len(calls) == 3


def test_a_number_of_python_is_part_of_the_signature_and_weak():
    calls: list[Any] = []
    f = counted(calls)
    result = f(POINT.astype(np.float32), 0.1)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(f(POINT, 0.1), POINT * 0.1)
    assert f(np.arange(3), 1).dtype == np.int64
    assert f(np.arange(3), 1.0).dtype == np.float32
    assert f(np.arange(3), 1.0).dtype == np.float32
    assert len(calls) == 4


def test_nests_keywords_and_flags_are_arguments():
    @sg.function
    def f(pair: dict[str, Any], *, negate: bool = False, mode: str = "sum") -> Any:
        total = pair["a"] + pair["b"][0]
        total = -total if negate else total
        return {mode: total.sum() if mode == "sum" else total.max()}

    pair = {"a": POINT, "b": [POINT * 2]}
    np.testing.assert_allclose(f(pair)["sum"], 3 * POINT.sum())
    np.testing.assert_allclose(f(pair, negate=True)["sum"], -3 * POINT.sum())
    np.testing.assert_allclose(f(pair, mode="max")["max"], 3 * POINT.max())


def test_gradients_are_taken_inside():
    f = sg.function(lambda a: sg.gradients((a * a * a).sum(), a)[0])
    np.testing.assert_allclose(f(POINT), 3 * POINT**2)


def test_a_method_knows_its_instance():
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

        @sg.function
        def apply(self, a: Any) -> Any:
            """Scale."""
            return a * self.by

    np.testing.assert_array_equal(Scale(2.0).apply(POINT), POINT * 2)
    np.testing.assert_array_equal(Scale(3.0).apply(POINT), POINT * 3)
    assert Scale.apply.__doc__ == "Scale."


def test_functions_run_in_several_threads_at_once():
    f = sg.function(lambda a: sg.sin(a) * 2.0)
    found: dict[int, Any] = {}
    sizes = range(1, 7)
    threads = [threading.Thread(target=lambda n=n: found.update({n: f(np.ones(n))})) for n in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in sizes:
        np.testing.assert_allclose(found[n], np.full(n, 2 * np.sin(1.0)))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: sg.function(NOT_A_FUNCTION), TypeError, "function: func is 3, not a function"),
        (lambda: sg.function(lambda a: a)(np.zeros(2, "datetime64[s]")), DTypeError, "<M8"),
        (lambda: sg.function(lambda a, b: a)(POINT, {1, 2}), DTypeError, "neither an array nor"),
        (lambda: sg.function(lambda a: a @ a.T @ a[:2])(POINT), ShapeError, "--> test_function"),
    ],
)
def test_mistakes_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()


# ------------------------------------------------------------------------------ on tensors


def test_a_tensor_gives_tensors_and_shares_the_trace(x):
    calls: list[Any] = []
    f = counted(calls)
    y = f(x, x + 1.0)
    assert isinstance(y, Tensor)
    np.testing.assert_allclose(value(y, {x: POINT}), POINT * (POINT + 1))
    f(POINT, POINT)
    assert len(calls) == 1


def test_arrays_beside_a_tensor_are_constants(x):
    f = sg.function(lambda a, b: a * b)
    np.testing.assert_allclose(value(f(x, POINT), {x: POINT}), POINT * POINT)


def test_what_uses_a_placeholder_from_outside_gives_tensors(x):
    f = sg.function(lambda a: a * x)
    y = f(POINT)
    assert isinstance(y, Tensor)
    np.testing.assert_allclose(value(y, {x: POINT}), POINT * POINT)


def test_equal_calls_share_their_kernels(x):
    f = sg.function(lambda a: sg.matmul(sg.sin(a), sg.ones((3, 3), "float64")))
    calls = compile([x], f(f(f(x)))).ir("loops").partition("program @")[2].count("launch @")
    kernels = compile([x], f(f(f(x)))).ir("loops").count("kernel @")
    assert kernels < calls


def test_sizes_may_be_unknown():
    a = sg.placeholder(("rows", 2), "float64")
    f = sg.function(lambda a: a * a.sum(axis=0))
    step = compile([a], f(a))
    for count in (1, 4):
        given = np.arange(2.0 * count).reshape(count, 2)
        np.testing.assert_allclose(step(given), given * given.sum(axis=0))


# ------------------------------------------------------------------------ rules of gradients


def test_r10_6_the_gradient_given_for_a_function_is_used(x):
    @sg.custom_gradient
    def own(a: Tensor) -> Any:
        return a * a, lambda g: g * 7.0

    f = sg.function(own)
    np.testing.assert_array_equal(value(gradient(f(x).sum(), x), {x: POINT}), [7, 7, 7])


def test_r10_6_else_the_function_is_differentiated(x):
    f = sg.function(lambda a: sg.sin(a) * a)
    check_derivatives(f(x), x, {x: POINT})


def test_r10_8_arguments_and_captures_have_gradients_and_the_rest_none(x):
    w = sg.variable(POINT)
    other = sg.placeholder((3,), "float64")
    f = sg.function(lambda a, _unused: a * w)
    grads = sg.gradients(f(x, other).sum(), [x, w, other])
    assert grads[2] is None
    found = run([g for g in grads if g is not None], {x: POINT * 2})
    np.testing.assert_array_equal(found, [POINT, POINT * 2])


def test_r10_9_integer_results_do_not_disturb_the_rest(x):
    f = sg.function(lambda a: (sg.astype(a, "int32"), a * a, sg.argmax(a)))
    whole, square, _place = f(x)
    np.testing.assert_allclose(value(gradient([square], x), {x: POINT}), 2 * POINT)
    assert sg.gradients(sg.astype(whole, "float64"), x) == [None]


def test_r10_10_none_among_the_results_is_legal(x):
    f = sg.function(lambda a: (None, {"y": a * 2.0, "none": None}, ()))
    for given in (x, POINT):
        first, second, third = f(given)
        assert (first, second["none"], third) == (None, None, ())
    nothing = sg.function(lambda a: None)
    assert nothing(POINT) is None
    assert nothing(x) is None


def test_r10_11_a_first_derivative_needs_no_second_one(x):
    @sg.custom_gradient
    def once(a: Tensor) -> Any:
        return sg.sin(a), lambda g: g * sg.prevent_gradient(sg.cos(a), "only once")

    (g,) = sg.gradients(sg.function(once)(x).sum(), x)
    assert g is not None
    np.testing.assert_allclose(value(g, {x: POINT}), np.cos(POINT))
    with pytest.raises(LookupError, match="only once"):
        sg.gradients(g.sum(), x)


def test_r10_12_functions_branches_and_loops_nest(x, n):
    @sg.function
    def inner(a: Tensor, i: Tensor) -> Any:
        return sg.cond(i > 1, lambda: a * a, lambda: sg.sin(a) * x)

    @sg.function
    def outer(a: Tensor) -> Any:
        body = lambda i, v: (i + 1, inner(v, i))  # noqa: E731 - what a user writes
        return sg.while_loop(lambda i, _v: i < n, body, (sg.constant(0, "int64"), a))[1]

    check_derivatives(outer(x) + outer(x * 0.5), x, {x: POINT, n: 0}, {x: POINT, n: 3})


def test_r10_12_a_function_in_a_branch_uses_what_is_around_it(x, n):
    def taken() -> Tensor:
        local = x * 3.0
        f = sg.function(lambda a: a * local)
        twice: Tensor = f(f(x))
        return twice

    check_derivatives(sg.cond(n > 0, taken, lambda: x * x), x, {x: POINT, n: 1}, {x: POINT, n: 0})


def test_r10_12_a_function_that_calls_itself(x):
    @sg.function
    def power(a: Any, count: int) -> Any:
        return a if count == 1 else a * power(a, count - 1)

    np.testing.assert_allclose(power(POINT, 4), POINT**4)
    check_derivatives(power(x, 4), x, {x: POINT})


def test_r10_14_two_calls_share_nothing_and_their_gradients_add(x):
    f = sg.function(lambda a: a * a * a)
    once, twice = f(x), f(x * 2.0)
    assert once.node is not twice.node
    found = value(gradient((once + twice).sum(), x), {x: POINT})
    np.testing.assert_allclose(found, 3 * POINT**2 + 24 * POINT**2)
    np.testing.assert_allclose(value(gradient(once.sum(), x), {x: POINT}), 3 * POINT**2)


def test_r10_14_one_tensor_may_be_several_arguments(x):
    f = sg.function(lambda a, b: a * a * b)
    np.testing.assert_allclose(value(gradient(f(x, x).sum(), x), {x: POINT}), 3 * POINT**2)


def test_r10_15_a_tensor_made_inside_stays_inside(x):
    kept: list[Tensor] = []

    @sg.function
    def doubled(a: Tensor) -> Tensor:
        return keep(kept, a * 2.0)

    @sg.function
    def other(a: Tensor) -> Tensor:
        return a + kept[0]

    doubled(x)
    with pytest.raises(ValueError, match="of region 'doubled', used in the top level"):
        sg.sin(kept[0])
    with pytest.raises(ValueError, match="of region 'doubled', used in region 'other'"):
        other(x)


def test_a_variable_made_inside_is_refused():
    f = sg.function(lambda a: a * sg.variable(POINT, name="w"))
    with pytest.raises(GraphError, match="variable 'w' is made inside"):
        f(POINT)


def test_an_array_of_tensors_goes_in_and_out(x):
    @sg.function
    def fill(kept: sg.TensorArray, a: Tensor) -> Any:
        return kept.write(0, a).write(1, a * a)

    filled = fill(sg.TensorArray(2, (3,), "float64"), x)
    assert isinstance(filled, sg.TensorArray)
    check_derivatives(filled.stack(), x, {x: POINT})
