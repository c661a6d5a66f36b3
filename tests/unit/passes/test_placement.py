"""Where results lie, by structures: what follows a cut, and what needs whole operands."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import symgrad as sg
from symgrad.passes.costs import kernel_spec
from symgrad.passes.placement.propagate import (
    TERM,
    WHOLE,
    Cut,
    Flow,
    Placement,
    Situation,
    propagate,
)

X, Y = sg.placeholder((4, 6, 8), name="x"), sg.placeholder((4, 6, 8), name="y")
M, B = sg.placeholder((8, 10), name="m"), sg.placeholder((8,), name="b")
INDEX = sg.placeholder((3,), "int64", name="index")


def flow(y: sg.Tensor, placements: Sequence[Placement], *, linear: bool = False) -> Flow | None:
    """Return how the op that gives `y` is computed on two ranks."""
    shapes = [t.type.static_shape for t in y.node.inputs]
    given = Situation(placements, shapes, y.type.static_shape, 2, linear)
    return propagate(kernel_spec(y.node), given)


Row = tuple[sg.Tensor, list[Placement], list[Placement], Placement]
FOLLOWS: dict[str, Row] = {
    "columns of a product": (X @ M, [WHOLE, Cut(1)], [WHOLE, Cut(1)], Cut(2)),
    "rows of a product": (X @ M, [Cut(2), WHOLE], [Cut(2), Cut(0)], TERM),
    "a batch": (sg.matmul(X, sg.permute_dims(Y, (0, 2, 1))), [Cut(0), WHOLE], [Cut(0)] * 2, Cut(0)),
    "a map": (X * Y, [WHOLE, Cut(1)], [Cut(1)] * 2, Cut(1)),
    "a map of unlike cuts": (X * Y, [Cut(2), Cut(1)], [Cut(2)] * 2, Cut(2)),
    "a permutation": (sg.permute_dims(X, (2, 0, 1)), [Cut(2)], [Cut(2)], Cut(0)),
    "a broadcast": (sg.broadcast_to(B, (4, 8)), [Cut(0)], [Cut(0)], Cut(1)),
    "a slice of others": (X[:, 1:3], [Cut(2)], [Cut(2)], Cut(2)),
    "axes that split": (sg.reshape(M, (4, 2, 10)), [Cut(0)], [Cut(0)], Cut(0)),
    "axes that join": (sg.reshape(X, (4, 48)), [Cut(1)], [Cut(1)], Cut(1)),
    "a maximum over others": (sg.max(X, axis=0), [Cut(2)], [Cut(2)], Cut(1)),
    "what is joined": (sg.concat([X, Y], axis=1), [Cut(2), WHOLE], [Cut(2)] * 2, Cut(2)),
    "rows of a table": (sg.take(M, INDEX, axis=0), [Cut(1), WHOLE], [Cut(1), WHOLE], Cut(1)),
    "a view of a term": (sg.permute_dims(X, (2, 0, 1)), [TERM], [TERM], TERM),
}
NEEDS_WHOLE: dict[str, tuple[sg.Tensor, list[Placement]]] = {
    "a map of a term": (X * Y, [TERM, WHOLE]),
    "a slice of what is cut": (X[:, :, 2:6], [Cut(2)]),
    "what is turned round": (sg.flip(X, axis=2), [Cut(2)]),
    "axes that join behind another": (sg.reshape(X, (4, 48)), [Cut(2)]),
    "a maximum": (sg.max(X, axis=2), [Cut(2)]),
    "parts of one axis": (sg.concat([X, Y], axis=2), [Cut(2), Cut(2)]),
    "indices": (sg.take(M, INDEX, axis=0), [Cut(0), WHOLE]),
    "an order": (sg.sort(X, axis=0), [Cut(2)]),
    "too few heads": (sg.reshape(M, (1, 8, 10)), [WHOLE]),
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_what_follows_a_cut_is_computed_of_parts(name):
    y, placements, operands, result = FOLLOWS[name]
    assert flow(y, placements) == Flow(tuple(operands), result)


@pytest.mark.parametrize("name", NEEDS_WHOLE)
def test_what_reads_across_a_cut_needs_whole_operands(name):
    y, placements = NEEDS_WHOLE[name]
    assert flow(y, placements) is None


def test_sums_of_terms_are_terms_and_products_are_none():
    assert flow(X + Y, [TERM, TERM], linear=True) == Flow((TERM, TERM), TERM)
    assert flow(X + Y, [TERM, WHOLE], linear=True) is None
    assert flow(X * Y, [TERM, TERM]) is None
    assert flow(sg.sum(X, axis=2), [Cut(2)], linear=True) == Flow((Cut(2),), TERM)
    assert flow(sg.sum(X, axis=2), [TERM], linear=True) is None


def test_an_axis_that_ranks_do_not_divide_is_not_cut():
    x = sg.placeholder((6, 4))
    assert flow(sg.reshape(x, (3, 2, 4)), [Cut(0)]) is None
