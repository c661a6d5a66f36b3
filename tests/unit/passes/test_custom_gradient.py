"""Functions that bring their own gradient, by the number of the rule a test holds them to."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.control_programs import check_derivatives, gradient, run, value
from tests.support.custom_gradients import exponential, softplus

POINT = np.array([0.9, -0.8, 1.1])


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


def both_gradients(ys: Any, xs: list[Tensor], **options: Any) -> list[Tensor]:
    """Return the gradients, all of which must be there."""
    found = [g for g in sg.gradients(ys, xs, **options) if g is not None]
    assert len(found) == len(xs)
    return found


@sg.custom_gradient
def tripled(x):
    """Return x, with three times the gradient."""
    return x, lambda dy: dy * 3.0


# ---------------------------------------------------------------------------- first derivatives


def test_r9_1_the_gradient_is_what_the_function_says(x):
    y = tripled(x * x)
    found = run([y, gradient(y, x)], {x: POINT})
    np.testing.assert_allclose(found[0], POINT**2)
    np.testing.assert_allclose(found[1], 6 * POINT)


def test_r9_1_one_gradient_for_each_argument(x):
    @sg.custom_gradient
    def f(a, b):
        return (a * b, a + b), lambda dp, ds: (dp * 2.0 + ds, dp * 5.0)

    w = sg.placeholder((3,), "float64")
    product, total = f(x, w)
    dx, dw = both_gradients([product, total], [x, w], grad_ys=[product, total])
    found = run([dx, dw], {x: POINT, w: POINT + 1.0})
    p, s = POINT * (POINT + 1.0), 2 * POINT + 1.0
    np.testing.assert_allclose(found[0], 2 * p + s)
    np.testing.assert_allclose(found[1], 5 * p)


def test_r9_1_one_argument_given_twice_gets_both_gradients(x):
    @sg.custom_gradient
    def f(a, b):
        return a + b, lambda dy: (dy * 2.0, dy * 5.0)

    np.testing.assert_array_equal(value(gradient(f(x, x), x), {x: POINT}), np.full(3, 7.0))


def test_r9_1_a_result_without_seed_has_zeros_and_an_integer_none(x):
    seen: list[Any] = []

    @sg.custom_gradient
    def f(a):
        def gradient_of(*dys):
            seen.extend(dys)
            return dys[0] + dys[1]

        return (a * 2.0, a + 1.0, sg.argmax(a)), gradient_of

    np.testing.assert_array_equal(value(gradient(f(x)[0], x), {x: POINT}), np.ones(3))
    assert seen[2] is None


def test_r9_1_what_the_function_uses_beside_its_arguments_has_no_gradient(x):
    w = sg.placeholder((3,), "float64")

    @sg.custom_gradient
    def f(a):
        return a * w, lambda dy: dy

    assert sg.gradients(f(x), w) == [None]
    assert "custom_gradient" in sg.explain_none(f(x), w)


def test_r7_10_none_is_no_contribution(x):
    @sg.custom_gradient
    def f(a, b):
        return a * b, lambda dy: (None, dy)

    w = sg.placeholder((3,), "float64")
    dx, dw = sg.gradients(f(x, w), [x, w])
    assert dx is None
    assert dw is not None


def test_r9_2_methods():
    class Scaled:
        factor = 2.0

        @sg.custom_gradient
        def apply(self, a):
            """Scale."""
            return a * self.factor, lambda dy: dy * (10.0 * self.factor)

        @staticmethod
        @sg.custom_gradient
        def doubled(a):
            return a, lambda dy: dy * 2.0

    x = sg.placeholder((3,), "float64")
    scaled = Scaled()
    assert scaled.apply.__doc__ == "Scale."
    found = run([gradient(scaled.apply(a=x), x), gradient(scaled.doubled(x), x)], {x: POINT})
    np.testing.assert_array_equal(found, [np.full(3, 20.0), np.full(3, 2.0)])


def test_r9_3_a_gradient_may_read_what_was_computed_and_ask_for_gradients(x):
    @sg.custom_gradient
    def f(a):
        y = sg.sin(a) * a
        return y, lambda dy: sg.gradients(y, a, grad_ys=dy)

    check_derivatives(f(x), x, {x: POINT})
    check_derivatives(softplus(x), x, {x: POINT})


def test_r9_4_custom_gradients_compose(x):
    y = tripled(tripled(x) * 2.0)
    np.testing.assert_array_equal(value(gradient(y, x), {x: POINT}), np.full(3, 18.0))


def test_r9_4_the_outer_gradient_hides_the_inner_one(x):
    @sg.custom_gradient
    def f(a):
        return tripled(a), lambda dy: dy * 7.0

    np.testing.assert_array_equal(value(gradient(f(x), x), {x: POINT}), np.full(3, 7.0))


def test_r8_8_what_a_gradient_raises_comes_out_when_it_is_asked_for(x):
    @sg.custom_gradient
    def f(a):
        def gradient_of(_dy):
            raise RuntimeError("no")

        return a, gradient_of

    y = f(x)
    with pytest.raises(RuntimeError, match="no") as caught:
        sg.gradients(y, x)
    assert any("custom_gradient" in note for note in caught.value.__notes__)


# ------------------------------------------------------------------------------------ variables


def test_r9_5_variables_have_gradients_of_their_own(x):
    w = sg.variable(POINT + 2.0, name="w")

    @sg.custom_gradient
    def f(a):
        def gradient_of(dy, variables):
            assert [v.name for v in variables] == ["w"]
            return dy * 2.0, [dy * 5.0]

        return a * w, gradient_of

    dx, dw = both_gradients(f(x), [x, w])
    found = run([dx, dw], {x: POINT})
    np.testing.assert_array_equal(found, [np.full(3, 2.0), np.full(3, 5.0)])


def test_r9_5_a_gradient_that_takes_no_variables_is_refused_at_the_call(x):
    w = sg.variable(POINT, name="weight")

    @sg.custom_gradient
    def f(a):
        return a * w, lambda dy: dy

    with pytest.raises(TypeError, match="the trainable variables 'weight'"):
        f(x)


@pytest.mark.parametrize("returned", [lambda dy: (dy, []), lambda dy: (dy, [dy, dy])])
def test_r9_5_as_many_gradients_as_variables(x, returned):
    w = sg.variable(POINT, name="w")

    @sg.custom_gradient
    def f(a):
        return a * w, lambda dy, variables: returned(dy)

    y = f(x)
    with pytest.raises(ValueError, match="gradients for 1 variables"):
        sg.gradients(y, x)


def test_r9_5_gradients_of_arguments_alone_are_refused(x):
    w = sg.variable(POINT, name="w")

    @sg.custom_gradient
    def f(a):
        return a * w, lambda dy, variables: dy

    y = f(x)
    with pytest.raises(ValueError, match="not those of arguments and those of variables"):
        sg.gradients(y, x)


def test_r9_6_which_variables_are_used(x):
    seen: list[str] = []
    used, upstream, fixed, floored, inner = (
        sg.variable(POINT, name=name, trainable=name != "fixed")
        for name in ("used", "upstream", "fixed", "floored", "inner")
    )

    @sg.custom_gradient
    def nested(a):
        return a * inner, lambda dy, variables: (dy, [dy])

    @sg.custom_gradient
    def f(a):
        def gradient_of(dy, variables):
            seen.extend(v.name for v in variables)
            return dy, [None] * len(variables)

        return nested(a * used) * fixed + sg.floor(floored), gradient_of

    sg.gradients(f(x * upstream), x)
    assert sorted(seen) == ["inner", "used"]


def test_r9_6_a_variable_that_is_an_argument_is_none_that_is_used():
    w = sg.variable(POINT, name="w")
    np.testing.assert_array_equal(value(gradient(tripled(w), w), {}), np.full(3, 3.0))


def test_r9_6_nests_of_arguments_and_results(x):
    @sg.custom_gradient
    def f(pair, scale):
        def gradient_of(d_sum, d_list):
            return {"a": d_sum * scale, "b": [None, d_list]}, None

        a, (skipped, b) = pair["a"], pair["b"]
        return {"sum": a + skipped, "then": [b, None]}, gradient_of

    w, v = (sg.placeholder((3,), "float64") for _ in range(2))
    result = f({"a": x, "b": [v, w]}, 4.0)
    assert result["then"][1] is None
    ys = [result["sum"], result["then"][0]]
    assert sg.gradients(ys, v) == [None]
    found = run(both_gradients(ys, [x, w]), {x: POINT, w: POINT, v: POINT})
    np.testing.assert_array_equal(found, [np.full(3, 4.0), np.ones(3)])


# ------------------------------------------------------------------------------------ arguments


def test_r9_7_keywords_stand_where_the_signature_has_them(x):
    @sg.custom_gradient
    def f(a, b, flag=True):
        assert flag is True
        return a - b, lambda dy: (dy * 2.0, dy * 5.0, None)

    w = sg.placeholder((3,), "float64")
    dx, dw = both_gradients(f(b=w, a=x), [x, w])
    found = run([dx, dw], {x: POINT, w: POINT})
    np.testing.assert_array_equal(found, [np.full(3, 2.0), np.full(3, 5.0)])


def test_r9_7_what_has_no_position_is_refused(x):
    @sg.custom_gradient
    def f(a, *, b):
        return a * b, lambda dy: dy

    with pytest.raises(ValueError, match="b can be given by keyword only"):
        f(x, b=x)
    with pytest.raises(TypeError, match="unexpected keyword"):
        f(x, b=x, c=x)


@pytest.mark.parametrize("count", [1, 3])
def test_r9_8_as_many_gradients_as_arguments(x, count):
    @sg.custom_gradient
    def f(a, b):
        return a * b, lambda dy: (dy,) * count

    y = f(x, x)
    with pytest.raises(ValueError, match=f"f returned {count} gradients for 2 arguments"):
        sg.gradients(y, x)


def test_r9_8_gradients_have_the_type_of_their_argument(x):
    @sg.custom_gradient
    def f(a, as_other):
        return a, lambda dy: (as_other(dy), None)

    with pytest.raises(TypeError, match="dtypes differ"):
        sg.gradients(f(x, lambda dy: sg.astype(dy, "float32")), x)
    with pytest.raises(ValueError, match="ranks differ"):
        sg.gradients(f(x, lambda dy: dy.sum()), x)


def test_a_function_must_return_results_and_their_gradient(x):
    with pytest.raises(DTypeError, match="results and their gradient"):
        sg.custom_gradient(lambda a: a)(x)
    with pytest.raises(DTypeError, match="f is 3"):
        sg.custom_gradient(cast(Any, 3))


def test_r9_10_arrays_and_numbers_are_arguments(x):
    @sg.custom_gradient
    def f(a, b, c, times):
        return a * b * c * times, lambda dy: (dy, None, None, None)

    y = f(x, POINT, 2.0, 3)
    found = run([y, gradient(y, x)], {x: POINT})
    np.testing.assert_allclose(found, [POINT * POINT * 6.0, np.ones(3)])
    np.testing.assert_array_equal(value(tripled(POINT), {}), POINT)


# ----------------------------------------------------------------------------- higher derivatives


def test_r9_9_the_second_derivative_is_that_of_what_the_gradient_built(x):
    @sg.custom_gradient
    def f(a):
        return a * a, lambda dy: dy * a * a * a

    first = gradient(f(x), x)
    second = gradient(first, x)
    third = gradient(second, x)
    found = run([first, second, third], {x: POINT})
    np.testing.assert_allclose(found, [POINT**3, 3 * POINT**2, 6 * POINT])


def test_r9_9_a_gradient_in_terms_of_the_function_itself(x):
    y = exponential(x)
    for _ in range(4):
        y = gradient(y, x)
    np.testing.assert_allclose(value(y, {x: POINT}), np.exp(POINT))


def test_r9_9_a_custom_gradient_around_the_gradient_is_one_by_the_seed(x):
    @sg.custom_gradient
    def f(a):
        @sg.custom_gradient
        def gradient_of(dy):
            return dy * 4.0, lambda ddy: ddy * 100.0

        return a * a, gradient_of

    seed = sg.placeholder((3,), "float64")
    first = gradient(f(x), x, seed)
    assert sg.gradients(first, x) == [None]
    found = run([first, gradient(first, seed)], {x: POINT, seed: POINT})
    np.testing.assert_allclose(found, [4 * POINT, np.full(3, 100.0)])


# ---------------------------------------------------------------------------------------- text


def test_a_gradient_of_python_is_printed_and_not_read_back(x):
    text = str(Graph(tripled(x)))
    assert "function = <function tripled>" in text
    with pytest.raises(GraphError, match="cannot be read"):
        Graph.parse(text)


def test_nothing_of_it_is_left_in_a_program(x):
    step = sg.compile([x], [tripled(x) + 1.0])
    assert "custom_gradient" not in step.ir("optimized")


# --------------------------------------------------------------------------- grad_pass_through


def test_r9_12_the_gradient_goes_to_the_arguments_as_it_is(x):
    w = sg.variable(POINT, name="w")
    rounded = sg.grad_pass_through(lambda a: sg.round(a) * w)
    y = rounded(x * 2.0)
    dx, dw = sg.gradients(y, [x, w])
    assert dw is None
    assert dx is not None
    found = run([y, dx], {x: POINT})
    np.testing.assert_array_equal(found, [np.round(2 * POINT) * POINT, np.full(3, 2.0)])


def test_r9_12_several_results(x):
    swapped = sg.grad_pass_through(lambda a, b: (b, a))
    w = sg.placeholder((3,), "float64")
    first, second = swapped(x, w)
    dx, dw = both_gradients([first, second], [x, w], grad_ys=[POINT, POINT * 2.0])
    found = run([dx, dw], {x: POINT, w: POINT})
    np.testing.assert_array_equal(found, [POINT, POINT * 2.0])


def test_r9_12_as_many_results_as_arguments(x):
    y = sg.grad_pass_through(lambda a: (a, a))(x)
    with pytest.raises(ValueError, match="2 gradients for 1 arguments"):
        sg.gradients(y, x)


def test_what_the_gradient_function_builds_where_the_call_was_made_is_not_built_again(x):
    made: list[Tensor] = []

    @sg.custom_gradient
    def own(a: Tensor) -> Any:
        def grad(g: Tensor) -> Tensor:
            made.append(g * a)
            return made[-1]

        return sg.sin(a), grad

    (found,) = sg.gradients(own(x), x)
    assert found is made[0]
