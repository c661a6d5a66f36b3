"""What a function that remains a call keeps for its gradient, which the records of its ops say."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.node import Tensor
from symgrad.graph.ops.calls import callee_of, is_costly
from symgrad.random import Generator
from tests.support.call_programs import run_both

POINT = np.linspace(-1.0, 1.0, 16)
WEIGHTS = np.random.default_rng(7).normal(size=(18, 16)) * 0.2


def ops_kept(y: Tensor) -> list[str]:
    """Return the ops of what a function gives beside its result."""
    return [t.node.op for t in callee_of(y.node).outputs[1:]]


def test_random_bits_and_padded_copies_are_computed_again(monkeypatch):
    x, generator = sg.placeholder((16,), "float64"), Generator(3)

    def noisy(a: Tensor) -> Tensor:
        wide = sg.pad(sg.nn.dropout(a, 0.25, generator), [(1, 1)])
        h: Tensor = sg.tanh(wide @ sg.constant(WEIGHTS))
        return h * h + a

    f = sg.function(noisy)
    y = f(x)
    assert ops_kept(y) == ["einsum", "tanh"]
    for _ in range(6):
        y = f(y)
    (g,) = sg.gradients(y.sum(), x)
    assert g is not None
    run_both([y, g], {x: POINT}, monkeypatch)  # which asserts that the calls remain


@pytest.mark.parametrize(
    ("make", "is_kept"),
    [
        (sg.exp, True),
        (sg.tanh, True),
        (lambda x: sg.pow(x, x), True),
        (sg.sum, True),
        (lambda x: sg.sqrt(x) / 3.0, False),
        (lambda x: sg.remainder(x, 3.0), False),
        (lambda x: sg.pad(x, [(1, 2)]), False),
        (lambda x: sg.take(x, [0, 2, 1]), False),
        (lambda x: sg.where(x > 0.0, x, 0.0), False),
    ],
)
def test_what_is_costly_follows_from_the_structure_and_the_body(make, is_kept):
    assert is_costly(make(sg.placeholder((4,))).node) == is_kept


def test_the_cost_of_an_op_needs_no_known_sizes():
    x = sg.placeholder(("n", None))
    assert is_costly(sg.exp(x).node)
    assert not is_costly((x * x).node)
