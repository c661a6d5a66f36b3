"""Ops that only demand: the values they pass on, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.errors import ShapeError
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import square
from symgrad.graph.ops.marks import match_shape
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
