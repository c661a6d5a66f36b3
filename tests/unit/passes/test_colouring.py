"""Graph colouring: no two columns of one colour that a product could not tell apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from symgrad.graph.types import Array
from symgrad.passes.sparsity.colouring import Adjacency, colour_columns, colour_symmetric


def adjacency(matrix: Array) -> Adjacency:
    rows, columns = np.nonzero(matrix)
    ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(matrix)))])
    return Adjacency(ends, columns, matrix.shape[1])


def band(size: int, width: int) -> Array:
    i = np.arange(size)
    return abs(i[:, None] - i) <= width


def arrow(size: int) -> Array:
    matrix = np.eye(size, dtype=bool)
    matrix[0] = matrix[:, 0] = True
    return matrix


def check_columns(matrix: Array) -> int:
    """Return the number of colours of the columns, which must be apart in each row."""
    colours = colour_columns(adjacency(matrix))
    for row in matrix:
        own = colours[np.flatnonzero(row)]
        assert len(set(own)) == len(own)
    return int(colours.max(initial=-1)) + 1


def check_star(matrix: Array) -> int:
    """Return the number of colours of a star colouring, of which no path of four has two."""
    colours = colour_symmetric(adjacency(matrix))
    near = [np.flatnonzero(row & (np.arange(len(row)) != i)) for i, row in enumerate(matrix)]
    for b, others in enumerate(near):
        for a, c in itertools.permutations(others, 2):
            assert colours[a] != colours[b]
            for d in set(near[c]) - {b}:
                assert len({colours[v] for v in (a, b, c, d)}) > 2
    return int(colours.max(initial=-1)) + 1


@pytest.mark.parametrize("width", [0, 1, 3])
def test_a_band_has_as_many_colours_as_it_is_wide(width):
    assert check_columns(band(30, width)) == 2 * width + 1


def test_columns_of_blocks_share_colours():
    assert check_columns(np.kron(np.eye(7, dtype=bool), np.ones((2, 3), bool))) == 3


def test_the_busiest_columns_first_where_that_is_fewer():
    matrix = np.zeros((6, 7), bool)  # the last column is in all rows, as those of a camera are
    matrix[np.arange(6), np.arange(6)] = matrix[:, 6] = True
    assert check_columns(matrix) == 2


@pytest.mark.parametrize("seed", range(5))
def test_random_columns_are_apart(seed):
    matrix = np.random.default_rng(seed).random((25, 20)) < 0.15
    assert check_columns(matrix) >= matrix.sum(axis=1).max()


@pytest.mark.parametrize("seed", range(5))
def test_random_symmetric_matrices_are_star_coloured(seed):
    matrix = np.random.default_rng(seed).random((16, 16)) < 0.15
    check_star(matrix | matrix.T)


def test_an_arrow_has_two_colours_where_columns_have_one_each():
    assert check_star(arrow(20)) == 2
    assert check_star(arrow(20)[::-1, ::-1]) == 2  # the busiest one first, though it is the last
    assert check_columns(arrow(20)) == 20


def test_a_chain_has_three_colours():
    assert check_star(band(40, 1)) == 3


def test_nothing_has_one_colour():
    assert check_columns(np.zeros((3, 4), bool)) == 1
    assert check_star(np.zeros((4, 4), bool)) == 1
    assert check_star(np.eye(4, dtype=bool)) == 1
