"""Into which parts a batch of matrices is cut: `symgrad/graph/ops/block_matrices.py`."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.ops.block_matrices import _part, in_parts


@pytest.mark.parametrize(
    ("count", "most", "lanes", "size"),
    [
        (1000, 16, 8, 8),  # full vectors, no more than there is room for
        (1000, 16, 16, 40),  # fuller ones in the room of two parts and a half
        (1024, 32, 16, 32),
        (30, 16, 8, 30),  # less than two parts
        (37, 16, 8, 16),
        (1009, 16, 8, 16),  # a prime: the rest is a part of its own
    ],
)
def test_parts_are_divisors_that_fill_vectors(count: int, most: int, lanes: int, size: int) -> None:
    assert _part(count, most, lanes) == size


def test_what_divisors_leave_over_is_computed_too() -> None:
    a = np.arange(131 * 4.0).reshape(131, 2, 2)
    x = sg.placeholder(a.shape, "float64")
    doubled = in_parts(lambda t: [t * 2], x, nbytes=1024)
    np.testing.assert_array_equal(sg.compile([x], doubled, opt_level=0)(a)[0], 2 * a)
