"""Scans by a function of the user's: their values, their derivatives, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError, ShapeError
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array
from tests.support.control_programs import check_derivatives, gradient, run

RNG = np.random.default_rng(0)


def affine(a: dict[str, Tensor], b: dict[str, Tensor]) -> dict[str, Tensor]:
    """Compose two affine maps of a number, each a pair; it commutes with nothing."""
    return {"by": a["by"] * b["by"], "plus": b["by"] * a["plus"] + b["plus"]}


def composed(by: Array, plus: Array, *, reverse: bool = False) -> tuple[Array, Array]:
    """Return what `affine` gives along the last axis, one element after another."""
    if reverse:
        products, sums = composed(by[..., ::-1], plus[..., ::-1])
        return products[..., ::-1], sums[..., ::-1]
    state = np.zeros(plus.shape[:-1])
    results = np.empty_like(plus)
    for k in range(plus.shape[-1]):
        state = by[..., k] * state + plus[..., k]
        results[..., k] = state
    return np.cumprod(by, -1), results


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("size", "is_known"),
    [*((n, True) for n in (0, 1, 2, 3, 6, 13)), *((n, False) for n in (0, 1, 2, 6))],
)
def test_a_nest_is_combined_in_its_order(size, reverse, is_known):
    shape = (2, size if is_known else "n")
    xs = {name: sg.placeholder(shape, "float64", name=name) for name in ("by", "plus")}
    found = sg.associative_scan(affine, xs, axis=-1, reverse=reverse)
    by, plus = RNG.uniform(0.5, 1.5, (2, 2, size))
    results = run([found["by"], found["plus"]], {xs["by"]: by, xs["plus"]: plus})
    for result, wanted in zip(results, composed(by, plus, reverse=reverse), strict=True):
        np.testing.assert_allclose(result, wanted)


def test_the_function_takes_matrices_along_any_axis():
    x = sg.placeholder((5, 3, 3), "float64")
    y = sg.associative_scan(sg.matmul, x)
    value = RNG.standard_normal((5, 3, 3))
    wanted = [np.linalg.multi_dot(value[: k + 1]) if k else value[0] for k in range(5)]
    np.testing.assert_allclose(run([y], {x: value})[0], wanted)


def test_integers_and_bools_are_scanned_too():
    i, b = sg.placeholder((7,), "int32"), sg.placeholder((7,), "bool")
    found = sg.associative_scan(lambda a, b: (a[0] | b[0], sg.logical_xor(a[1], b[1])), (i, b))
    bits, truths = 1 << np.arange(7, dtype=np.int32), np.arange(7) % 3 == 0
    results = run(list(found), {i: bits, b: truths})
    np.testing.assert_array_equal(results[0], np.bitwise_or.accumulate(bits))
    np.testing.assert_array_equal(results[1], np.logical_xor.accumulate(truths))


@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_the_first_and_second_order(reverse):
    x = sg.placeholder((5, 2), "float64")
    y = sg.associative_scan(lambda a, b: a * b + 0.0, x, reverse=reverse)
    check_derivatives(y, x, {x: RNG.uniform(0.5, 1.5, (5, 2))})


def test_it_is_part_of_functions_loops_and_jacobians():
    x = sg.placeholder((4,), "float64")
    value = np.array([1.0, 2.0, 0.5, -1.0])

    def scanned(v: Tensor) -> Any:
        return sg.associative_scan(sg.multiply, v)

    in_function = sg.function(scanned)(x)
    in_loop = sg.fori_loop(0, 2, lambda _, v: scanned(v), x)
    jacobian = sg.jacobian(scanned(x), x)
    found = run([in_function, in_loop, jacobian], {x: value})
    np.testing.assert_allclose(found[0], np.cumprod(value))
    np.testing.assert_allclose(found[1], np.cumprod(np.cumprod(value)))
    others = np.cumprod(value)[:, None] / value
    np.testing.assert_allclose(found[2], np.tril(others))


def test_a_nest_without_leaves_is_given_back():
    assert sg.associative_scan(sg.add, {}) == {}


X = sg.placeholder((4, 3), name="x")
NUMBER: Any = 3
HALF: Any = 0.5


@pytest.mark.parametrize(
    ("call", "error", "wrong"),
    [
        (lambda: sg.associative_scan(NUMBER, X), DTypeError, "f is 3, not a function"),
        (lambda: sg.associative_scan(sg.add, X, axis=2), ShapeError, "axis 2 is not an axis of a"),
        (lambda: sg.associative_scan(sg.add, X, axis=HALF), DTypeError, "axis must be an int"),
        (lambda: sg.associative_scan(sg.add, (X, X[1:])), ShapeError,
         r"xs differ in size along axis 0: f32\[4, 3\], f32\[3, 3\]"),
        (lambda: sg.associative_scan(sg.add, (X, X[0]), axis=-1), ShapeError, "several ranks"),
        (lambda: sg.associative_scan(lambda a, b: (a, b), X), GraphError, "f gives .* and xs are"),
        (lambda: sg.associative_scan(lambda a, b: a[:1], X), ShapeError,
         r"f makes f32\[1, 3\] of leaf 0, f32\[2, 3\]"),
        (lambda: sg.associative_scan(sg.less, X), DTypeError, r"f makes bool\[2, 3\] of leaf 0"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_line_of_the_user(call, error, wrong):
    with pytest.raises(error, match=f"associative_scan: .*{wrong}") as caught:
        call()
    assert "test_associative_scan.py" in str(caught.value)


def test_an_axis_that_turns_out_empty_has_an_empty_scan():
    x = sg.placeholder(("n", 2), "float64")
    y = sg.associative_scan(sg.add, x)
    (found, slope) = run([y, gradient(y, x)], {x: np.zeros((0, 2))})
    assert found.shape == slope.shape == (0, 2)
