"""Functions whose intermediate results are computed again for the gradient: rule R9.11."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.compare import structurally_equal
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.control_programs import check_derivatives, gradient, run
from tests.support.custom_gradients import softplus

POINT = np.array([0.9, -0.8, 1.1])


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


def both(x: Tensor, f: Callable[..., Any]) -> None:
    """Hold a function that is computed again to the same values and gradients as `f`."""
    outputs: list[Tensor] = []
    for function in (f, sg.recompute_grad(f), sg.recompute_grad(f, keep_results=True)):
        y = function(x) * 2.0
        outputs += [y, gradient(y, x)]
    found = run(outputs, {x: POINT})
    np.testing.assert_allclose(found[2:4], found[:2], rtol=1e-14)
    np.testing.assert_allclose(found[4:], found[:2], rtol=1e-14)


def test_r9_11_values_and_gradients_are_those_of_the_function(x):
    f = sg.recompute_grad(lambda a: sg.tanh(sg.sin(a) * a))
    check_derivatives(f(f(x)), x, {x: POINT})


def test_r9_11_one_argument_given_twice(x):
    both(x, lambda a: sg.recompute_grad(lambda b, c: sg.sin(b) * sg.exp(c) * b)(a, a))


def test_r9_11_several_results_some_of_them_integers(x):
    def f(a: Tensor) -> Any:
        return {"y": sg.sin(a), "best": sg.argmax(a), "z": [a * a, None]}

    result = sg.recompute_grad(f)(x)
    assert result["z"][1] is None
    check_derivatives(result["y"] * result["z"][0], x, {x: POINT})
    assert sg.gradients(result["best"], x) == [None]


def test_r9_11_arguments_in_nests_by_keyword_and_without_tensors(x):
    @sg.recompute_grad
    def f(pair: Any, power: int, scale: float = 2.0, label: str = "") -> Any:
        assert label == "here"
        return pair["a"] ** power * pair["b"] * scale

    y = f({"a": x, "b": POINT}, label="here", power=3)
    check_derivatives(y, x, {x: POINT})


def test_r9_11_what_the_function_uses_from_around_has_its_gradient(x):
    w = sg.variable(POINT + 1.0, name="w")
    v = sg.placeholder((3,), "float64")
    f = sg.recompute_grad(lambda a: sg.tanh(a * w) * sg.sin(v))
    y = f(x)
    t = np.tanh(POINT * (POINT + 1.0))
    found = run([gradient(y, v), gradient(y, w)], {x: POINT, v: POINT})
    np.testing.assert_allclose(found[0], t * np.cos(POINT))
    np.testing.assert_allclose(found[1], (1 - t**2) * POINT * np.sin(POINT))


def test_r9_11_in_a_loop_and_with_one_inside(x):
    def f(a: Tensor) -> Any:
        return sg.fori_loop(0, 2, lambda _i, v: sg.sin(v * a), a)

    again = sg.recompute_grad(f)
    check_derivatives(sg.fori_loop(0, 2, lambda _i, v: again(v) + x, x), x, {x: POINT})
    both(x, lambda a: sg.cond(a.sum() > 0.0, lambda: again(a), lambda: a))


def test_r9_11_custom_gradients_inside(x):
    check_derivatives(sg.recompute_grad(lambda a: softplus(a * a))(x), x, {x: POINT})


def test_r9_11_a_recomputed_function_of_recomputed_functions(x):
    f = sg.recompute_grad(lambda a: sg.sin(a) * a)
    check_derivatives(sg.recompute_grad(lambda a: f(f(a)))(x), x, {x: POINT})


def test_r9_11_arguments_of_several_dtypes(x):
    i, b, h = (sg.placeholder((3,), dtype) for dtype in ("int32", "bool", "float16"))

    def f(i: Tensor, b: Tensor, h: Tensor, a: Tensor) -> Any:
        one = sg.sin(a) * sg.astype(i, a.dtype)
        return sg.where(b, one, sg.exp(a) * sg.astype(h, a.dtype))

    outputs = []
    for function in (f, sg.recompute_grad(f), sg.recompute_grad(f, keep_results=True)):
        y = function(i, b, h, x * 1.0) * sg.sin(x)
        outputs += [y, gradient(y, x), gradient(y, h)]
    found = run(outputs, {x: POINT, i: [1, 2, 3], b: [True, False, True], h: [1.0, 2.0, 3.0]})
    for position, again in enumerate(found[3:]):
        np.testing.assert_allclose(again, found[position % 3], rtol=1e-14)


@pytest.mark.parametrize("shape", [("n",), (0,), (2, 0)])
def test_r9_11_sizes_that_are_unknown_or_zero(shape):
    x = sg.placeholder(shape, "float64")
    y = sg.recompute_grad(lambda a: sg.sin(a) * a)(x) * 3.0
    point = np.arange(4.0) if shape == ("n",) else np.zeros(shape)
    found = sg.run(gradient(y, x), {x: point})
    np.testing.assert_allclose(found, 3 * (np.cos(point) * point + np.sin(point)))


def test_r9_11_forward_and_rebuilt_nodes_are_not_merged(x):
    y = sg.recompute_grad(lambda a: sg.sin(a * a))(x)
    step = sg.compile([x], [y, gradient(y * y, x)])
    text = step.ir("optimized")
    assert " after " in text
    assert text.count(" multiply ") >= 3


def test_results_that_are_kept_are_not_computed_again(x):
    def f(a: Tensor) -> tuple[Tensor, Tensor]:
        y = sg.tanh(sg.sin(a))
        return y, sg.exp(y) * y

    def counted(**options: Any) -> tuple[int, int]:
        y, z = sg.recompute_grad(f, **options)(x)
        check_derivatives(y * z, x, {x: POINT})
        text = sg.compile([x], [y, z, gradient(y * z, x)]).ir("optimized")
        return text.count(" tanh "), text.count(" sin ")

    assert counted() == (2, 2)
    assert counted(keep_results=True) == (1, 1)  # the gradient of sin is its operand's cosine


def _chain(wrap: Callable[..., Any], *, with_weights: bool) -> sg.Step:
    x = sg.placeholder((64, 64))
    ws = [sg.placeholder((64, 64)) for _ in range(6)]
    h = x
    for w in ws:

        def block(h: Tensor, w: Tensor = w) -> Tensor:
            for _ in range(4):
                h = sg.tanh(sg.matmul(h, w))
            return h

        h = wrap(lambda h, block=block: block(h))(h)
    wanted = sg.gradients((h * h).sum(), ws if with_weights else [x])
    return sg.compile([x, *ws], wanted, opt_level=1)


@pytest.mark.parametrize("with_weights", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_r9_11_less_memory_for_a_deep_chain(with_weights):
    plain = _chain(lambda f: f, with_weights=with_weights)
    again = _chain(sg.recompute_grad, with_weights=with_weights)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(64, 64)).astype("f") * 0.1 for _ in range(7)]
    for a, b in zip(plain(*arrays), again(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert again.memory.arena_bytes < 0.6 * plain.memory.arena_bytes


def test_r9_11_it_prints_and_parses(x):
    y = sg.recompute_grad(lambda a: sg.sin(a) * a)(x)
    graph = Graph([y, gradient(y, x)])
    assert structurally_equal(graph, Graph.parse(str(graph)))
    (again,) = Graph.parse(str(Graph(y))).outputs
    assert again.node.op == "recompute"
    (parsed,) = Graph(again).inputs
    np.testing.assert_allclose(
        sg.run(gradient(again, parsed), {parsed: POINT}), np.cos(POINT) * POINT + np.sin(POINT)
    )


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="f is 3"):
        sg.recompute_grad(cast(Any, 3))
