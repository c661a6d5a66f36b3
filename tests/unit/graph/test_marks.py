"""Ops that only demand: the values they pass on, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.errors import ShapeError
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import square
from symgrad.graph.ops.marks import match_shape, require_least
from tests.support.gradient_programs import (
    VECTOR,
    gradient_of,
    value_of,
)


@pytest.fixture
def x() -> Tensor:
    return placeholder((3,), name="x")


def test_match_shape_refuses_known_sizes_that_differ_and_passes_gradients(x):
    with pytest.raises(ShapeError, match="sizes differ: 3 in axis 0"):
        match_shape(x, (4,))
    n = placeholder(("n",))
    matched = match_shape(square(n), (3,))
    g = gradient_of(matched, n)
    assert g.type == n.type
    np.testing.assert_array_equal(value_of(g, {n: VECTOR}), 2 * VECTOR)


def test_names_of_sizes_with_braces_are_told_as_they_are():
    n = placeholder(("{n}",))
    required = require_least(square(n), n.shape[0], 2, "f", f"{n.shape[0]}: {{size}} in {{x}}")
    with pytest.raises(ShapeError, match=r"f: \{n\}: 1 in f32\[1\]"):
        value_of(required, {n: VECTOR[:1]})


def test_require_least_refuses_what_is_too_small_as_soon_as_it_is_known(x):
    problem = "{x} has {size} of axis 0"
    assert require_least(x, 3, 3, "f", problem) is x
    with pytest.raises(ShapeError, match=r"f: f32\[3\] has 2 of axis 0"):
        require_least(x, 2, 3, "f", problem)
    n = placeholder(("n",))
    required = require_least(square(n), n.shape[0] - 1, 2, "f", problem)
    np.testing.assert_array_equal(value_of(gradient_of(required, n), {n: VECTOR}), 2 * VECTOR)
    for refused in (required, gradient_of(required, n)):
        with pytest.raises(ShapeError, match=r"f32\[2\] has 1 of axis 0"):
            value_of(refused, {n: VECTOR[:2]})
