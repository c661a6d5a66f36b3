"""Boxes are placed in rows: what feeds them is above, and no two overlap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from symgrad.display.layers import place_in_layers

GAP = (12.0, 20.0)

sizes = st.lists(st.tuples(st.floats(5, 200), st.floats(5, 80)), max_size=24)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    boxes = draw(sizes)
    ends = st.integers(0, max(len(boxes) - 1, 0))
    edges = draw(st.lists(st.tuples(ends, ends), max_size=40)) if boxes else []
    return boxes, edges


@given(graphs())
def test_no_two_boxes_overlap_and_all_are_within(
    graph: tuple[list[tuple[float, float]], list[tuple[int, int]]],
) -> None:
    boxes, edges = graph
    placed = place_in_layers(boxes, edges, GAP)
    rectangles = [
        (x, y, x + w, y + h) for (x, y), (w, h) in zip(placed.corners, boxes, strict=True)
    ]
    slack = 1e-6
    for i, (left, top, right, bottom) in enumerate(rectangles):
        assert -slack <= left <= right <= placed.width + slack
        assert -slack <= top <= bottom <= placed.height + slack
        for other in rectangles[i + 1 :]:
            apart = (
                right <= other[0] + slack
                or other[2] <= left + slack
                or bottom <= other[1] + slack
                or other[3] <= top + slack
            )
            assert apart


@given(graphs())
def test_without_cycles_all_edges_lead_down(
    graph: tuple[list[tuple[float, float]], list[tuple[int, int]]],
) -> None:
    boxes, edges = graph
    # Any order of the boxes may be the one in which they feed each other.
    forward = {(max(a, b), min(a, b)) for a, b in edges if a != b}
    corners = place_in_layers(boxes, forward, GAP).corners
    for a, b in forward:
        assert corners[a][1] + boxes[a][1] <= corners[b][1] + 1e-6


def test_a_chain_is_one_column():
    placed = place_in_layers([(50.0, 20.0)] * 4, [(0, 1), (1, 2), (2, 3)], GAP)
    assert {x for x, _ in placed.corners} == {0.0}
    assert placed.height == 4 * 20 + 3 * GAP[1]


def test_a_cycle_is_cut_where_it_comes_back_to_the_first():
    corners = place_in_layers([(50.0, 20.0)] * 3, [(0, 1), (1, 2), (2, 0)], GAP).corners
    assert corners[0][1] < corners[1][1] < corners[2][1]


def test_a_long_row_is_broken():
    placed = place_in_layers([(50.0, 20.0)] * 100, [], GAP)
    assert placed.width < 4 * placed.height
