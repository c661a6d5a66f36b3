"""Graph colouring: columns of a sparse matrix that are told apart though they share a seed.

Columns without a row in common can be summed: each element of the sum is that of one of them. So
one product with a vector gives all columns of a colour (Curtis, Powell and Reid, 1974). Of a
symmetric matrix an element stands in two columns, and it is enough that one of the two sums has it
alone: a star colouring (Coleman and More, 1984; Gebremedhin, Manne and Pothen, 2005).

Both are greedy. The colours that a row has already are the bits of an integer, so that the time
is proportional to the non-zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from symgrad.records import dataclass

Colours = NDArray[np.int64]
Order = Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class Adjacency:
    """For each vertex, others: those of vertex i are `others[ends[i] : ends[i + 1]]`."""

    ends: NDArray[np.int64]
    others: NDArray[np.int64]
    bound: int  # others are below it

    @property
    def count(self) -> int:
        """The number of vertices."""
        return len(self.ends) - 1

    @property
    def degrees(self) -> NDArray[np.int64]:
        """How many others each vertex has."""
        return np.diff(self.ends)

    def turned(self) -> Adjacency:
        """Return for each other its vertices, ascending."""
        vertices = np.repeat(np.arange(self.count), self.degrees)
        order = np.argsort(self.others, kind="stable")
        counts = np.bincount(self.others, minlength=self.bound)
        ends = np.concatenate([[0], np.cumsum(counts)])
        return Adjacency(ends, vertices[order], self.count)


def colour_columns(rows: Adjacency) -> Colours:
    """Return a colour for each column, so that no row has two columns of one colour.

    `rows` has the columns of each row. Columns of no row have colour 0.
    """
    most = int(rows.degrees.max(initial=0))
    return _fewest(_without_repeats(rows).turned(), _colour_apart, most)


def colour_symmetric(rows: Adjacency) -> Colours:
    """Return a star colouring: neighbours differ, and paths of four vertices have three colours.

    `rows` is symmetric. A diagonal has no part in it.
    """
    own = np.repeat(np.arange(rows.count), rows.degrees)
    is_apart = own != rows.others
    ends = np.concatenate([[0], np.cumsum(np.bincount(own[is_apart], minlength=rows.count))])
    neighbours = Adjacency(ends, rows.others[is_apart], rows.bound)
    return _fewest(neighbours, _colour_star, 2 if len(neighbours.others) else 1)


def _fewest(graph: Adjacency, colour: Callable[[Adjacency, Order], Colours], least: int) -> Colours:
    """Return the better of two colourings: of vertices as they come, and the busiest first."""
    found = colour(graph, range(graph.count))
    if found.max(initial=0) < max(least, 1):
        return found
    busiest = colour(graph, np.argsort(-graph.degrees, kind="stable").tolist())
    return busiest if busiest.max(initial=0) < found.max(initial=0) else found


def _without_repeats(rows: Adjacency) -> Adjacency:
    """Return the rows without those that follow an equal one, which ask for nothing more."""
    starts, sizes = rows.ends[:-1], rows.degrees
    is_like = np.zeros(rows.count, np.bool_)
    is_like[1:] = sizes[1:] == sizes[:-1]
    own = np.repeat(np.arange(rows.count), sizes)
    is_compared = is_like[own]
    before = np.arange(len(own))[is_compared] - sizes[own[is_compared]]
    differs = rows.others[is_compared] != rows.others[before]
    is_like[own[is_compared][differs]] = False
    is_kept = ~is_like & (sizes > 1)
    kept_sizes = sizes[is_kept]
    ends = np.concatenate([[0], np.cumsum(kept_sizes)])
    within = np.arange(int(kept_sizes.sum())) - np.repeat(ends[:-1], kept_sizes)
    others = rows.others[np.repeat(starts[is_kept], kept_sizes) + within]
    return Adjacency(ends, others, rows.bound)


def _colour_apart(columns: Adjacency, order: Order) -> Colours:
    """Give each column, in `order`, the first colour that none of its rows has."""
    ends, rows = columns.ends.tolist(), columns.others.tolist()
    taken = [0] * columns.bound
    colours = np.zeros(columns.count, np.int64)
    for column in order:
        own = rows[ends[column] : ends[column + 1]]
        if not own:
            continue
        used = 0
        for row in own:
            used |= taken[row]
        free = ~used & (used + 1)
        for row in own:
            taken[row] |= free
        colours[column] = free.bit_length() - 1
    return colours


def _colour_star(graph: Adjacency, order: Order) -> Colours:
    """Give each vertex, in `order`, the first colour that keeps to the rule below.

    Where two neighbours of a vertex have one colour, that of the vertex is less. Then no path
    a-b-c-d has two colours: b would be less than a and c, and c less than b and d.
    """
    ends, others = graph.ends.tolist(), graph.others.tolist()
    around = [0] * graph.count  # the colours of the neighbours of each vertex
    found = [-1] * graph.count
    for vertex in order:
        neighbours = others[ends[vertex] : ends[vertex + 1]]
        used = 0
        for other in neighbours:
            colour = found[other]
            # One that has no colour yet could get one that is not less: it has no two alike.
            used |= around[other] if colour < 0 else 1 << colour | around[other] & (1 << colour) - 1
        free = ~used & (used + 1)
        for other in neighbours:
            around[other] |= free
        found[vertex] = free.bit_length() - 1
    return np.asarray(found, np.int64)
