"""Variables, changed at once or by an `Update`."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.reference import evaluate


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.0, None, "float32"),
        ([1, 2], None, "int32"),
        (np.zeros(2), None, "float64"),
        (np.zeros(2), "float16", "float16"),
        (np.float64(1), None, "float64"),
    ],
)
def test_a_variable_has_the_dtype_a_constant_would_have(value, dtype, expected):
    assert sg.variable(value, dtype).dtype.name == expected


def test_a_variable_holds_a_copy_and_gives_one():
    start = np.ones(3, np.float32)
    w = sg.variable(start, name="w")
    start[0] = 5
    w.value[1] = 5
    np.testing.assert_array_equal(w.value, [1, 1, 1])
    w.value = [1, 2, 3]
    np.testing.assert_array_equal(sg.variable_data(w), [1, 2, 3])


def test_names_of_variables_are_scoped_and_distinct():
    with sg.name_scope("layer"):
        named, first, second = sg.variable(0.0, name="w"), sg.variable(0.0), sg.variable(0.0)
    assert named.name == named.state.name == "layer/w"
    assert first.name != second.name
    assert all(v.name is not None and v.name.startswith("layer/variable") for v in (first, second))


def test_a_value_of_another_shape_or_kind_is_refused():
    w = sg.variable([1.0, 2.0], name="w")
    with pytest.raises(sg.ShapeError, match=r"variable w: shape \(3,\) was assigned"):
        w.value = np.zeros(3)
    with pytest.raises(sg.DTypeError, match="complex128 was assigned"):
        w.value = np.zeros(2, complex)


def test_is_variable_tells_variables_from_all_else():
    w = sg.variable(1.0, trainable=False)
    assert sg.is_variable(w)
    assert sg.is_variable(w, exclusive=True)
    assert not any(sg.is_variable(x) for x in (w + 1, np.zeros(2), 1.0))
    assert sg.variable_data(3.0) == 3.0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (sg.inplace_update, [3, 4]),
        (sg.inplace_increment, [4, 6]),
        (sg.inplace_decrement, [-2, -2]),
    ],
)
def test_a_change_is_done_at_once_or_made_an_update(change, expected):
    value = np.array([3.0, 4.0], np.float32)
    w, array = sg.variable([1.0, 2.0]), np.array([1.0, 2.0])
    assert change(w, value) is w
    np.testing.assert_array_equal(w.value, expected)
    assert change(array, value) is array
    np.testing.assert_array_equal(array, expected)

    w.value = [1.0, 2.0]
    x = sg.placeholder((2,))
    update = change(w, x)
    assert isinstance(update, sg.Update)
    _, (new,) = evaluate(Graph([], [x], [update]), [value])
    np.testing.assert_array_equal(new, expected)
    np.testing.assert_array_equal(w.value, [1, 2])


def test_a_scalar_fills_a_variable():
    w = sg.variable([1.0, 2.0])
    sg.inplace_update(w, 7.0)
    sg.inplace_increment(w, 0.5)
    np.testing.assert_array_equal(w.value, [7.5, 7.5])


def test_what_cannot_be_changed_is_refused():
    x = sg.placeholder((2,))
    with pytest.raises(sg.DTypeError, match="ndarray takes no tensor, a variable does"):
        sg.inplace_update(np.zeros(2), x)
    with pytest.raises(sg.DTypeError, match="is neither a variable nor an array"):
        sg.inplace_update([1.0], 2.0)
