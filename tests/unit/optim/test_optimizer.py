"""What optimizers share: which variables move, all at once, and what is refused."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

from symgrad.errors import DTypeError, GraphError, ShapeError
from symgrad.frontend.state import variable
from symgrad.graph.build import name_scope
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import Variable, placeholder
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.optim.adam import Adam
from symgrad.optim.sgd import SGD
from symgrad.runtime.function import compile as compile_step


def scalar(value: float, name: str, *, trainable: bool = True) -> Variable:
    return variable(np.float64(value), name=name, trainable=trainable)


def moved_by(updates: list[Update]) -> list[str | None]:
    return [update.variable.name for update in updates]


def test_slots_of_zeros_take_their_memory_and_nothing_beside_it():
    w = variable(np.ones(1 << 20, np.float32), name="w")
    adam = Adam(0.1)
    tracemalloc.start()
    try:
        adam.apply_gradients([(w, w)])
        assert tracemalloc.get_traced_memory()[1] < 2.5 * w.value.nbytes
    finally:
        tracemalloc.stop()
    slots = adam.state
    assert not slots["w/m"].value.any()
    assert not slots["w/v"].value.any()


def test_minimize_moves_the_trainable_variables_in_the_order_reached():
    a, b, c = scalar(1, "a"), scalar(2, "b"), scalar(3, "c")
    frozen = scalar(4, "frozen", trainable=False)
    count = variable(np.int64(5), name="count")
    loss = c * b * frozen * count + a * c
    assert moved_by(SGD(0.1).minimize(loss)) == ["c", "b", "a"]


def test_minimize_takes_any_nest_and_any_iterable_of_variables():
    w, b = variable(1.0, name="w"), variable(2.0, name="b")
    for given in ({"w": w, "more": [b]}, iter([w, b]), {"w": w, "b": b}.values()):
        assert set(moved_by(SGD(0.1).minimize(w * b, given))) == {"b", "w"}
    assert moved_by(SGD(0.1).minimize(w * b, w)) == ["w"]


def test_minimize_moves_only_the_variables_given():
    a, b = scalar(1, "a"), scalar(2, "b")
    frozen = scalar(3, "frozen", trainable=False)
    assert moved_by(SGD(0.1).minimize(a * b * frozen, [frozen, a])) == ["frozen", "a"]


def test_updates_are_made_from_the_values_at_the_start_of_the_step():
    a, b = scalar(3, "a"), scalar(5, "b")
    step = compile_step([], a * b, SGD(0.1).minimize(a * b))
    assert step() == 15
    np.testing.assert_allclose([a.value, b.value], [3 - 0.5, 5 - 0.3])
    np.testing.assert_allclose(step(), 2.5 * 4.7)
    np.testing.assert_allclose([a.value, b.value], [2.5 - 0.47, 4.7 - 0.25])


def test_lr_may_be_a_placeholder_of_another_dtype():
    w, lr = variable(np.float32(1), name="w"), placeholder((), "float64", name="lr")
    step = compile_step([lr], [], SGD(lr).minimize(3 * w))
    step(np.float64(0.5))
    assert w.value == np.float32(-0.5)
    step(np.float64(0.25))
    assert w.value == np.float32(-1.25)


def test_lr_may_be_a_variable_and_is_not_moved_itself():
    w, lr = scalar(1, "w"), scalar(0.5, "lr")
    optimizer = Adam(lr, epsilon=0)
    updates = optimizer.minimize(3 * w)
    assert "lr" not in moved_by(updates)
    step = compile_step([], [], updates)
    step()
    np.testing.assert_allclose(w.value, 0.5, rtol=1e-12)
    lr.value = np.float64(0.125)
    step()
    np.testing.assert_allclose(w.value, 0.375, rtol=1e-12)


def test_a_second_minimize_uses_the_slots_of_the_first():
    w, b = scalar(1, "w"), scalar(2, "b")
    optimizer = SGD(0.1, momentum=0.5)
    first = compile_step([], [], optimizer.minimize(w * 1.0))
    slot = optimizer.state["w/momentum"]
    second = compile_step([], [], optimizer.minimize(w * 2.0 + b))
    assert optimizer.state["w/momentum"] is slot
    assert set(optimizer.state) == {"w/momentum", "b/momentum"}
    first()
    second()
    assert slot.value == 0.5 * 1 + 2


def test_slots_of_variables_of_one_name_have_names_of_their_own():
    a, b = scalar(1, "w"), scalar(2, "w")
    optimizer = SGD(0.1, momentum=0.5)
    step = compile_step([], [], optimizer.minimize(a * 5 + b * 7))
    step()
    assert {name: slot.value for name, slot in optimizer.state.items()} == {
        "w/momentum": 5,
        "w_1/momentum": 7,
    }


def test_scopes_name_the_slot_as_they_name_the_variable():
    with name_scope("layer"):
        w = scalar(1, "w")
    optimizer = Adam()
    optimizer.minimize(w * w)
    assert set(optimizer.state) == {"step", "layer/w/m", "layer/w/v"}
    assert not any(slot.trainable for slot in optimizer.state.values())


def test_two_optimizers_share_nothing():
    w = scalar(1, "w")
    one, other = Adam(), Adam()
    one.minimize(w * w)
    other.minimize(w * w)
    assert one.state["w/m"] is not other.state["w/m"]


def test_a_variable_without_gradient_is_left_alone():
    a, b, cut = scalar(1, "a"), scalar(2, "b"), scalar(3, "cut")
    loss = a * stop_gradient(cut)
    assert moved_by(SGD(0.1).minimize(loss)) == ["a"]
    assert moved_by(SGD(0.1).minimize(loss, [b, a])) == ["a"]
    assert moved_by(SGD(0.1).apply_gradients([(None, b), (as_tensor(1.0), a)])) == ["a"]


def test_gradients_may_be_arrays_and_of_another_float_dtype():
    w = variable(np.zeros(2, np.float32), name="w")
    step = compile_step([], [], SGD(1.0).apply_gradients([(np.array([1.0, 2.0]), w)]))
    step()
    np.testing.assert_array_equal(w.value, np.array([-1, -2], np.float32))


def test_a_gradient_of_unknown_size_is_checked_at_the_call():
    w = variable(np.zeros(2), name="w")
    g = placeholder((None,), "float64", name="g")
    step = compile_step([g], [], SGD(1.0).apply_gradients([(g, w)]))
    step(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(w.value, [-1, -2])
    with pytest.raises(ShapeError, match="sizes differ: 3"):
        step(np.ones(3))


def test_a_loss_without_trainable_variables_is_refused():
    with pytest.raises(GraphError, match=r"SGD.minimize: the loss depends on no trainable var"):
        SGD(0.1).minimize(placeholder((), "float64") * scalar(1, "w", trainable=False))
    with pytest.raises(GraphError, match=r"SGD.minimize: there is no variable to move"):
        SGD(0.1).minimize(scalar(1, "w") * 2, [])


def test_gradients_that_are_all_none_are_refused_by_name():
    a, b = scalar(1, "a"), scalar(2, "b")
    with pytest.raises(GraphError) as caught:
        Adam().minimize(stop_gradient(a) * stop_gradient(b))
    assert str(caught.value).startswith(
        "Adam.apply_gradients: no variable has a gradient: a, b\n  --> test_optimizer.py"
    )
    assert "hint: sg.explain_none" in str(caught.value)
    with pytest.raises(GraphError, match="no pairs were given"):
        Adam().apply_gradients([])


def test_what_cannot_be_minimized_is_refused():
    with pytest.raises(DTypeError, match=r"loss: i64\[\] is no float"):
        SGD(0.1).minimize(variable(np.int64(1)) + 1)
    w = scalar(1, "w")
    twice: Any = w * 2
    with pytest.raises(DTypeError, match=r"<Tensor multiply: f64\[\]> is no variable"):
        SGD(0.1).minimize(twice, [twice])
    with pytest.raises(DTypeError, match="is no float and has no gradient"):
        SGD(0.1).minimize(w * 2, [variable(np.int64(1))])


def test_pairs_that_do_not_fit_are_refused():
    weights: Any = np.zeros(3)
    w = variable(np.zeros(3), name="w")
    with pytest.raises(ShapeError, match=r"sizes differ: 2 in axis 0 of gradient.*3 in axis 0 of"):
        SGD(0.1).apply_gradients([(np.ones(2), w)])
    with pytest.raises(DTypeError, match=r"the gradient of .* is i64\[3\], no float"):
        SGD(0.1).apply_gradients([(placeholder((3,), "int64"), w)])
    with pytest.raises(GraphError, match="has two gradients"):
        SGD(0.1).apply_gradients([(np.ones(3), w), (np.ones(3), w)])
    with pytest.raises(DTypeError, match="is no variable"):
        SGD(0.1).apply_gradients([(w, weights)])


@pytest.mark.parametrize(
    ("lr", "error", "message"),
    [
        (-0.1, GraphError, "lr is -0.1, it must not be negative"),
        (float("nan"), GraphError, "lr is nan"),
        ("fast", DTypeError, "lr is 'fast', neither a number nor a tensor"),
        (True, DTypeError, "lr is True, neither"),
        (placeholder((2,)), ShapeError, r"lr: f32\[2\] is no scalar"),
        (placeholder((), "int32"), DTypeError, r"lr: i32\[\] is no float"),
    ],
)
def test_a_learning_rate_that_is_none_is_refused(lr, error, message):
    with pytest.raises(error, match=rf"SGD: {message}(.|\n)*test_optimizer.py"):
        SGD(lr)


def test_the_numbers_of_a_rule_are_built_once_for_all_variables():
    def count(variables: int) -> dict[str, int]:
        pairs = [(placeholder((3,)), variable(np.zeros(3, np.float32))) for _ in range(variables)]
        given = [g for g, _ in pairs]
        nodes = Graph([], given, Adam(0.01).apply_gradients(pairs)).nodes
        ops = [node.op for node in nodes]
        return {op: ops.count(op) for op in ("constant", "broadcast_to", "astype", "multiply")}

    one, many = count(1), count(5)
    assert many.pop("multiply") == 5 * one.pop("multiply")
    assert many == one


def test_variables_that_share_numbers_move_as_they_would_alone():
    starts = [np.linspace(-1, 1, n).astype(np.float32) for n in (3, 3, 5)]
    gradient = [np.cos(start * 7) for start in starts]

    def after(groups: list[list[int]]) -> list[bytes]:
        variables = [variable(start) for start in starts]
        given = [placeholder(start.shape) for start in starts]
        updates = [
            update
            for group in groups
            for update in Adam(0.01).apply_gradients([(given[i], variables[i]) for i in group])
        ]
        step = compile_step(given, [], updates)
        for _ in range(3):
            step(*gradient)
        return [v.value.tobytes() for v in variables]

    assert after([[0, 1, 2]]) == after([[0], [1], [2]])
