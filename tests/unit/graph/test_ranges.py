"""What is known of the values of integers when a graph is built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import EMPTY, Tensor
from symgrad.graph.ranges import is_empty, range_of
from symgrad.graph.reference import evaluate
from tests.support.control_programs import keep

GIVEN = sg.constant(np.array([[3, -2], [0, 7]]))


@pytest.mark.parametrize(
    "tensor",
    [
        GIVEN,
        GIVEN + 4,
        4 - GIVEN,
        GIVEN * -3,
        GIVEN * GIVEN[0, 0],
        -GIVEN,
        sg.maximum(GIVEN, 1),
        sg.minimum(GIVEN, sg.arange(2)),
        sg.astype(GIVEN, "int8"),
        sg.permute_dims(GIVEN, (1, 0)),
        sg.broadcast_to(GIVEN[:, :1], (2, 5)),
        sg.concat([GIVEN, GIVEN + 10], axis=0),
        sg.concat([GIVEN, sg.constant(np.zeros((0, 2), np.int64)), GIVEN + 10], axis=0),
        sg.arange(7) * 2 + 1,
    ],
)
def test_a_range_holds_all_values(tensor):
    (values,), _ = evaluate(Graph(tensor, []), [])
    found = range_of(tensor)
    assert found is not None
    assert found[0] <= values.min()
    assert found[1] >= values.max()


def test_of_constants_and_counters_a_range_is_exact():
    assert range_of(GIVEN) == (-2, 7)
    assert range_of(sg.arange(7) * 2 + 1) == (1, 13)
    assert range_of(sg.constant(np.zeros(0, np.int64))) == EMPTY
    assert is_empty(range_of(sg.constant(np.zeros(0, np.int64)) * 3 + 1) or (0, 0))


def test_what_could_be_anything_has_no_range():
    unknown = sg.placeholder((), "int64")
    cases: list[Tensor] = [
        unknown,
        unknown * 2 + 1,
        sg.astype(sg.ones(()), "int64"),
        sg.ones(()),
        sg.argmax(sg.ones((3,))),
        sg.astype(GIVEN * 100, "int8"),
    ]
    assert [range_of(t) for t in cases] == [None] * len(cases)


def test_a_counter_is_known_in_the_regions_within_its_loop():
    found: list[Any] = []

    def body(i: Tensor, values: Any) -> Any:
        total, slots = values
        doubled = sg.cond(total > 3.0, lambda: (keep(found, range_of(i * 2)), total)[1] * 2.0,
                          lambda: total)  # fmt: skip
        return doubled + 1.0, slots.write(i, total)

    sg.fori_loop(2, 5, body, (sg.zeros(()), sg.TensorArray(0, (), dynamic_size=True)))
    assert found[-1] == (4, 8)
