"""Numbers beside tensors: in a gradient each is one node for all tensors of a type."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from symgrad.graph.build import gradient_keys
from symgrad.graph.spread_numbers import numbers_once, spread_once
from symgrad.graph.traverse import topological
from symgrad.graph.types import ArrayLiteral


def numbers_below(*ys: sg.Tensor) -> list[float]:
    """Return the values of all constants that `ys` are made of."""
    values = [node.attrs["value"] for node in topological(ys) if node.op == "constant"]
    return [float(value.array) for value in values if isinstance(value, ArrayLiteral)]


def test_rules_of_a_gradient_share_the_numbers_they_name():
    x = sg.placeholder((4,))
    y = x
    for _ in range(5):
        y = sg.tanh(y)
    (dx,) = sg.gradients(y, x)
    assert numbers_below(dx) == [1.0]  # that of the rules: nothing is multiplied by the seed
    assert sum(node.op == "broadcast_to" for node in topological([dx])) == 1


def test_numbers_of_other_types_and_zeros_of_other_signs_are_others():
    x, wide, other = (sg.placeholder((4,), dtype) for dtype in ("float32", "float64", "float32"))
    with numbers_once():
        assert (1 + x).node.inputs[0] is (x - 1).node.inputs[1]
        assert (1 + x).node.inputs[0] is (1 - other).node.inputs[0]
        one, of_two = (1 + x).node.inputs[0], (1 + x[:2]).node.inputs[0]
        assert one is not of_two
        assert one.node.inputs == of_two.node.inputs
        assert (1 + x).node.inputs[0].dtype != (1 + wide).node.inputs[0].dtype
        zeros = [(x + zero).node.inputs[1] for zero in (0.0, -0.0)]
        assert zeros[0] is not zeros[1]
        assert [np.signbit(sg.run(zero)[0]) for zero in zeros] == [False, True]
    assert (1 + x).node.inputs[0] is not (1 + x).node.inputs[0]


def test_what_is_open_within_another_shares_its_numbers():
    x = sg.placeholder((2,))
    with numbers_once():
        outer = (1 + x).node.inputs[0]
        with numbers_once():
            assert (1 + x).node.inputs[0] is outer
        assert (1 + x).node.inputs[0] is outer


def test_a_region_and_gradients_that_a_user_registers_have_numbers_of_their_own():
    x = sg.placeholder((2,))
    made = []

    def body(v: sg.Tensor) -> sg.Tensor:
        made.append((1 + v).node.inputs[0])
        return sg.tanh(v)

    with numbers_once():
        outside = (1 + x).node.inputs[0]
        sg.while_loop(lambda v: sg.sum(v) > 1, body, [x], maximum_iterations=2)
        assert spread_once(1, x, lambda: x, lambda scalar: scalar) is outside
        with gradient_keys({"broadcast_to": "registered"}):
            assert (1 + x).node.inputs[0].node.gradient_key == "registered"
    assert made
    assert all(number is not outside for number in made)
