"""Sizes that only a call tells, in arithmetic: beside ints they are sizes, else int64 scalars."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import symgrad as sg
from symgrad.graph.sizes import Size, substitute

X = sg.placeholder(("n", 3), "float64", name="x")
N: Any = X.shape[0]
ROWS = np.arange(12.0).reshape(4, 3)

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def value(result: Any) -> Any:
    """Return what `result`, a tensor or a size, is for four rows."""
    return sg.testing.interpret(sg.Graph(sg.asarray(result), [X]), [ROWS])[0]


@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_a_size_and_a_tensor_take_part_in_every_operator_on_both_sides(symbol, dtype):
    apply = OPERATORS[symbol]
    tensor, same = sg.constant([2, 4, 7], dtype), np.array([2, 4, 7])
    kept = np.float32 if dtype == "float32" or (symbol == "/" and "int" in dtype) else np.float64
    for found, wanted in ((apply(N, tensor), apply(4, same)), (apply(tensor, N), apply(same, 4))):
        assert isinstance(found, sg.Tensor)
        np.testing.assert_allclose(value(found), wanted, rtol=1e-6)
        assert wanted.dtype == bool or "int" in dtype or value(found).dtype == kept


@pytest.mark.parametrize("symbol", [s for s in OPERATORS if s not in ("==", "!=")])
@pytest.mark.parametrize("number", [3, 2.5, np.float32(2.5), np.int64(3), np.array([1.0, 5.0])])
def test_a_size_and_a_number_take_part_in_every_operator_on_both_sides(symbol, number):
    apply = OPERATORS[symbol]
    np.testing.assert_allclose(value(apply(N, number)), apply(4, number), rtol=1e-6)
    np.testing.assert_allclose(value(apply(number, N)), apply(number, 4), rtol=1e-6)


@given(
    st.lists(
        st.tuples(st.sampled_from(["+", "-", "*", "//", "%"]), st.integers(-6, 6), st.booleans()),
        max_size=5,
    )
)
def test_sizes_and_ints_make_sizes_that_are_what_python_computes(steps):
    size, number = N, 4
    for symbol, other, is_reflected in steps:
        apply = OPERATORS[symbol]
        divisor = number if is_reflected else other
        if symbol in ("//", "%") and divisor == 0:
            continue
        size = apply(other, size) if is_reflected else apply(size, other)
        number = apply(other, number) if is_reflected else apply(number, other)
        assert isinstance(size, int | Size)
        if isinstance(size, int):
            break
    assert substitute(size, {"n": 4}) == number


def test_sizes_that_are_computed_are_sizes_of_tensors():
    half = sg.zeros((N // 2 + N % 3, N**2))
    assert sg.run(half, {X: ROWS}).shape == (3, 16)


def test_whether_sizes_are_the_same_one_is_known_when_the_graph_is_built():
    assert X.shape[0] == N
    assert (N != 4) is True
    assert (N == 1) is False


def test_a_size_is_taken_as_an_operand_an_index_and_an_array():
    mean = X.sum() / X.size
    np.testing.assert_array_equal(value(mean), ROWS.mean())
    (g,) = sg.gradients(mean, X)
    assert g is not None
    np.testing.assert_array_equal(value(g), np.full((4, 3), 1 / 12))
    np.testing.assert_array_equal(value(X[N - 1]), ROWS[3])
    np.testing.assert_array_equal(value(X[N // 2, 1]), ROWS[2, 1])
    np.testing.assert_array_equal(value(sg.minimum(X, N)), np.minimum(ROWS, 4))
    np.testing.assert_array_equal(value(sg.where(X > N, N, 0)), np.where(ROWS > 4, 4, 0))
    compiled = sg.compile([X], [mean, X[N - 1], X.sum() > N, 2 / N])(ROWS)
    for found, wanted in zip(compiled, (ROWS.mean(), ROWS[3], True, 0.5), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert value(N).dtype == np.int64
    assert value(sg.asarray(X.size, "float32")) == np.float32(12)


def test_what_is_no_number_is_refused():
    calls: list[Callable[[], Any]] = [lambda: N + "a", lambda: N > [], lambda: N ** object()]
    for call in calls:
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError, match="size n is known when a program is called"):
        sg.constant(N)
