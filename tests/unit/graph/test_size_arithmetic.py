"""Sizes that only a call tells, in arithmetic: beside ints they are sizes, else int64 scalars."""

from __future__ import annotations

import operator
import re
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
    with pytest.raises(TypeError, match="size n is known when a program is called"):
        sg.constant([[1, N]])


# ----------------------------------------------------- programs, called with several sizes

N0 = np.int64(0)
CALLS = [np.arange(3.0 * n).reshape(n, 3) for n in (1, 2, 5, 0)]


def run_for_each_size(build: Callable[[Any], Any], wanted: Callable[[Any], Any]) -> None:
    """Compile what `build` makes of a tensor of unknown size, once, and compare every call."""
    x = sg.placeholder((None, 3), "float64")
    step = sg.compile([x], build(x))
    for rows in CALLS:
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(step(rows), wanted(rows), rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda x: x.shape[0] * x, lambda x: len(x) * x),
        (lambda x: x / x.shape[0], lambda x: x / max(len(x), 1)),
        (lambda x: sg.shape(x), lambda x: [len(x), 3]),
        (lambda x: sg.shape(x[0:0]) + x.shape[0], lambda x: [len(x), len(x) + 3]),
        (lambda x: sg.asarray([x.shape[0], 7, x.size]), lambda x: [len(x), 7, x.size]),
        (lambda x: sg.asarray([[x.shape[0], 0.5], [1, 2]]), lambda x: [[len(x), 0.5], [1, 2]]),
        (lambda x: sg.asarray(x.shape, "float32"), lambda x: [len(x), 3]),
        (lambda x: x.sum() / x.size, lambda x: x.sum() / x.size if len(x) else np.nan),
        (lambda x: sg.linspace(0, 1, x.shape[0]), lambda x: np.linspace(0, 1, len(x))),
        (
            lambda x: sg.linspace(2, -1.5, x.shape[0] + 1, endpoint=False, dtype="float64"),
            lambda x: np.linspace(2, -1.5, len(x) + 1, endpoint=False),
        ),
        (lambda x: sg.linspace(x.shape[0], x.size, 4), lambda x: np.linspace(len(x), x.size, 4)),
        (lambda x: sg.arange(0.0, x.size, 2.0), lambda x: np.arange(0, x.size, 2)),
        (lambda x: sg.full((2,), x.shape[0] / 4), lambda x: np.full(2, len(x) / 4)),
        (lambda x: divmod(x.size, 2), lambda x: divmod(x.size, 2)),
        (lambda x: sg.asarray(abs(1 - x.shape[0])), lambda x: abs(1 - len(x))),
        (lambda x: sg.where(x.shape[0] > 1, 10, 20), lambda x: 10 if len(x) > 1 else 20),
        (
            lambda x: sg.cond(x.shape[0] >= 2, lambda: x.shape[0] * x.sum(), lambda: x.sum() - 9),
            lambda x: len(x) * x.sum() if len(x) >= 2 else x.sum() - 9,
        ),
        (
            lambda x: sg.fori_loop(0, x.shape[0], lambda i, a: a + i * x.shape[0], sg.asarray(N0)),
            lambda x: len(x) * sum(range(len(x))),
        ),
        (
            lambda x: sg.fori_loop(x.shape[0], sg.asarray(7), lambda i, a: a + i, sg.asarray(N0)),
            lambda x: sum(range(len(x), 7)),
        ),
        (
            lambda x: sg.map(lambda row: row * x.shape[0] + row.shape[0], x),
            lambda x: x * len(x) + 3,
        ),
    ],
)
def test_a_program_of_sizes_is_right_for_every_size(build, wanted):
    run_for_each_size(build, wanted)


def test_a_size_is_an_index_beside_and_among_others():
    x = sg.placeholder((None, 3), "float64")
    n = x.shape[0]
    outputs = [x[n - 1], x[[0, n - 1]], sg.take(x, n - 1, axis=0), sg.take(x, [n - 1, 0], axis=0)]
    step = sg.compile([x], [*outputs, x[n // 2 :, 1], x[(n - 1, 2)]])
    for rows in CALLS[:3]:
        last = len(rows) - 1
        wanted = [rows[last], rows[[0, last]], rows[last], rows[[last, 0]]]
        wanted += [rows[len(rows) // 2 :, 1], rows[last, 2]]
        for found, row in zip(step(rows), wanted, strict=True):
            np.testing.assert_array_equal(found, row)


def test_an_index_made_of_a_size_that_is_outside_stops_the_program():
    x = sg.placeholder((None, 3), "float64")
    step = sg.compile([x], sg.take(x, x.shape[0], axis=0))
    with pytest.raises(sg.IndexOutOfRangeError):
        step(CALLS[1])


def test_gradients_pass_what_has_sizes_in_it():
    x = sg.placeholder((None, 3), "float64")
    n = x.shape[0]
    weights = sg.linspace(0, 1, n, dtype="float64")
    zero = sg.constant(0.0, "float64")
    loss = sg.fori_loop(0, n, lambda i, total: total + (x[i] ** 2).sum() * weights[i], zero)
    (g,) = sg.gradients(loss / n, x)
    step = sg.compile([x], g)
    for rows in CALLS[:3]:
        wanted = 2 * rows * np.linspace(0, 1, len(rows))[:, None] / len(rows)
        np.testing.assert_allclose(step(rows), wanted, rtol=1e-12)


def test_the_shape_of_a_tensor_of_known_sizes_is_a_constant():
    found = sg.shape(sg.zeros((2, 0, 5)))
    assert found.node.op == "constant"
    assert (found.dtype, found.shape) == (sg.int64, (3,))
    assert sg.run(found).tolist() == [2, 0, 5]
    assert sg.run(sg.shape(1.5)).shape == (0,)


def test_the_shape_within_a_slice_of_a_map_is_that_of_the_slice():
    x = sg.placeholder((None, 3, "k"), "float64")
    shapes = sg.map(lambda part: sg.shape(part), x)
    assert sg.run(shapes, {x: np.zeros((2, 3, 4))}).tolist() == [[3, 4], [3, 4]]


# ------------------------------------------------------------------- what only a call decides


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: bool(N), "size: n is known when a program is called, and has no value to make a"),
        (lambda: int(N), "size: n is known when a program is called, and has no value to make an"),
        (lambda: float(2 * N), "size: 2*n is known when a program is called"),
        (lambda: range(N), "sg.arange and sg.fori_loop"),
        (lambda: [1, 2, 3][N], "size: n is known"),
        (lambda: bool(N > 3), "use sg.where, or sg.cond"),
        (lambda: 1 if N >= 3 else 0, "use sg.where, or sg.cond"),
        (lambda: max(N, 3), "use sg.where, or sg.cond"),
        (lambda: sg.arange(0.5, N), "arange: 0.5 in the range from 0.5 to n by 1 is no int"),
        (lambda: sg.arange(0, N, 0.5), "arange: 0.5 in the range from 0 to n by 0.5 is no int"),
    ],
)
def test_python_is_told_what_to_do_where_a_size_has_no_value(call, text):
    with pytest.raises(sg.SymgradError, match=re.escape(text)) as caught:
        call()
    assert caught.value.source is not None
    assert caught.value.source.file == __file__
    assert caught.value.hint is not None


def test_a_size_that_is_seen_to_be_positive_is_true():
    assert bool(N + 1) is True
    assert [n for n in (N + 2, 0, 1) if n] == [N + 2, 1]


def test_sizes_are_compared_and_hashed_as_what_they_are():
    again = sg.placeholder(("n", None), name="y").shape
    assert {N: "rows"}[again[0]] == "rows"
    assert again[0] == N
    assert again[1] != N
    assert hash(N * 2) == hash(2 * again[0])
    array = np.array([4.0, 5.0])
    size = N
    assert value(size == array).tolist() == value(array == size).tolist() == [True, False]
    assert value(size != array).tolist() == value(array != size).tolist() == [False, True]
    assert (size == np.int64(4)) is (size == "n") is (size is None) is False
    assert +N is N
