"""Variables, changed at once or by an `Update`."""

from __future__ import annotations

import tracemalloc

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


def test_the_value_of_a_variable_is_copied_once():
    start = np.ones(1 << 20, np.float32)
    tracemalloc.start()
    try:
        w = sg.variable(start)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * start.nbytes
    finally:
        tracemalloc.stop()
    assert w.value.tobytes() == start.tobytes()


def test_a_variable_holds_a_copy_and_gives_one():
    start = np.ones(3, np.float32)
    w = sg.variable(start, name="w")
    start[0] = 5
    with pytest.raises(ValueError, match="read-only"):
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


# --------------------------------------------------------------------------------------- nests


def test_variables_of_a_container_are_named_by_their_keys():
    start = {"w": np.ones((2, 2)), "bias": {"b": 0.5}}
    made = sg.variable(sg.Container(start), trainable=False)
    assert (made.w.name, made.bias.b.name) == ("w", "bias/b")
    assert not made.w.trainable
    assert made.bias.b.dtype.name == "float32"
    with sg.name_scope("model"):
        named = sg.variable(sg.Container(start), name="layer")
    assert named.bias.b.name == "model/layer/bias/b"


def test_questions_about_a_nest_are_answered_leaf_by_leaf():
    w = sg.variable([1.0, 2.0])
    nest = {"w": w, "rest": [np.zeros(1), w + 1]}
    assert sg.is_variable(nest) == {"w": True, "rest": [False, False]}
    found = sg.variable_data(nest)
    np.testing.assert_array_equal(found["w"], [1, 2])
    assert found["rest"] == nest["rest"]
    assert sg.is_variable(None) is False


def test_every_leaf_of_a_nest_is_changed():
    w, array = sg.variable([1.0, 2.0]), np.array([3.0, 4.0])
    nest = sg.Container(w=w, array=array)
    assert sg.inplace_increment(nest, 10.0) is nest
    np.testing.assert_array_equal(w.value, [11, 12])
    np.testing.assert_array_equal(array, [13, 14])
    sg.inplace_decrement(nest, sg.Container(array=np.array([3.0, 4.0]), w=np.float32(1)))
    np.testing.assert_array_equal(w.value, [10, 11])
    np.testing.assert_array_equal(array, [10, 10])
    sg.inplace_update([w, array], [array, 0])
    np.testing.assert_array_equal(w.value, [10, 10])
    np.testing.assert_array_equal(array, [0, 0])


def test_a_nest_with_a_tensor_becomes_a_nest_of_updates():
    nest = sg.Container(v=sg.variable([1.0, 2.0]), w=sg.variable([3.0, 4.0]))
    x = sg.placeholder((2,))
    updates = sg.inplace_increment(nest, sg.Container(v=x, w=np.ones(2, np.float32)))
    step = sg.compile([x], [], [updates.v, updates.w])
    np.testing.assert_array_equal(nest.v.value, [1, 2])
    step(np.array([5.0, 6.0], np.float32))
    np.testing.assert_array_equal(nest.v.value, [6, 8])
    np.testing.assert_array_equal(nest.w.value, [4, 5])


@pytest.mark.parametrize("last", [np.zeros(3), np.zeros(2, complex), np.zeros((1, 2, 2))])
def test_nothing_is_changed_if_one_leaf_is_refused(last):
    nest = [np.ones(2), np.ones(2)]
    with pytest.raises((sg.ShapeError, sg.DTypeError)):
        sg.inplace_update(nest, [np.zeros(2), last])
    np.testing.assert_array_equal(nest, np.ones((2, 2)))
    frozen = np.ones(2)
    frozen.setflags(write=False)
    with pytest.raises(sg.GraphError, match="read-only"):
        sg.inplace_increment([nest[0], frozen], 1.0)
    np.testing.assert_array_equal(nest, np.ones((2, 2)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_what_is_assigned_is_rounded_once(dtype):
    w = sg.variable(np.zeros(1), dtype)
    eps = float(np.spacing(w.value[0] + w.value.dtype.type(1)))
    for above in (2**-40, -(2**-40)):
        # Beside a tie between 1 and the next number, by less than float32 can tell.
        w.value = np.array([1 + eps / 2 + above])
        assert float(w.value[0]) == (1 + eps if above > 0 else 1.0)


def test_leaves_that_share_memory_are_refused_and_nothing_is_set():
    array, w = np.zeros(4), sg.variable([1.0, 2.0])
    with pytest.raises(sg.GraphError, match=r"increment: x\['a'\] and x\['b'\] share memory"):
        sg.inplace_increment({"a": array, "b": array}, {"a": 1.0, "b": 2.0})
    with pytest.raises(sg.GraphError, match=r"x\[0\] and x\[1\] share memory"):
        sg.inplace_update([array[:3], array[1:]], 1.0)
    with pytest.raises(sg.GraphError, match=r"x\[0\] and x\[2\] share memory"):
        sg.inplace_decrement([w, array, w], 1.0)
    with pytest.raises(sg.GraphError, match=r"x\[0\] and x\[1\] share memory"):
        sg.gradient_descent_update([array, array], [np.ones(4)] * 2, 0.1, inplace=True)
    assert not array.any()
    np.testing.assert_array_equal(w.value, [1, 2])
    sg.inplace_increment([array[::2], array[1::2], w], 1.0)
    np.testing.assert_array_equal(array, 1)
