"""Layered graph drawing: boxes in rows, each below what it depends on, few crossings between rows.

After Sugiyama, Tagawa and Toda (1981): rows by the longest way from a source, order within a row by
the mean position of the neighbours, then positions as near to these as the boxes' widths allow. A
row with more boxes than fit beside one another becomes several.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from symgrad.records import dataclass

_SWEEPS = 4
_ASPECT = 1.6  # of width to height, that rows are broken for


@dataclass(frozen=True, slots=True)
class Layered:
    """Where boxes lie: the size of the whole and the upper left corner of each."""

    width: float
    height: float
    corners: tuple[tuple[float, float], ...]


def place_in_layers(
    sizes: Sequence[tuple[float, float]],
    edges: Iterable[tuple[int, int]],
    gap: tuple[float, float],
) -> Layered:
    """Return places for boxes of `sizes`, in which `edges` lead down.

    Where boxes feed each other, as scopes may, those that lead to an earlier one lead up.
    """
    between = dict.fromkeys(edge for edge in edges if edge[0] != edge[1])
    position = {box: at for at, box in enumerate(_order(len(sizes), between))}
    down = [(a, b) for a, b in between if position[a] < position[b]]
    forward = sorted(down, key=lambda edge: position[edge[0]])
    rows = _broken(_ranked(len(sizes), forward), sizes, gap[0])
    neighbours: list[list[int]] = [[] for _ in sizes]
    for a, b in forward:
        neighbours[a].append(b)
        neighbours[b].append(a)
    middles = [0.0] * len(sizes)
    for row in rows:
        _put_beside(row, sizes, middles, gap[0], None)
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = {i: _mean([middles[j] for j in neighbours[i]], middles[i]) for i in row}
            row.sort(key=wanted.__getitem__)
            _put_beside(row, sizes, middles, gap[0], wanted)
    return _corners(rows, sizes, middles, gap[1])


def _order(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Return the boxes so that most edges lead on, and all where there is no cycle.

    In a cycle the next is the first box as they are given.
    """
    into = [0] * count
    behind: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        into[b] += 1
        behind[a].append(b)
    ready = [box for box in reversed(range(count)) if not into[box]]
    left = dict.fromkeys(range(count))
    order = []
    while left:
        box = ready.pop() if ready else next(iter(left))
        del left[box]
        order.append(box)
        freed = []
        for other in behind[box]:
            into[other] -= 1
            if not into[other] and other in left:
                freed.append(other)
        ready += sorted(freed, reverse=True)
    return order


def _ranked(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    ranks = [0] * count
    for a, b in edges:  # in the order of their first ends, whose ranks are final then
        ranks[b] = max(ranks[b], ranks[a] + 1)
    rows: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for box, rank in enumerate(ranks):
        rows[rank].append(box)
    return rows


def _broken(
    rows: Sequence[list[int]], sizes: Sequence[tuple[float, float]], gap: float
) -> list[list[int]]:
    """Break rows that are much wider than the whole would be if it were filled."""
    area = sum((w + gap) * (h + gap) for w, h in sizes)
    room = max(math.sqrt(area) * _ASPECT, max((w for w, _ in sizes), default=0.0))
    broken = []
    for row in rows:
        part: list[int] = []
        width = 0.0
        for box in row:
            if part and width + sizes[box][0] > room:
                broken.append(part)
                part, width = [], 0.0
            part.append(box)
            width += sizes[box][0] + gap
        broken.append(part)
    return broken


def _put_beside(
    row: Sequence[int],
    sizes: Sequence[tuple[float, float]],
    middles: list[float],
    gap: float,
    wanted: dict[int, float] | None,
) -> None:
    """Place a row from left to right, on the whole where it is `wanted`, else about zero."""
    edge = -math.inf
    for box in row:
        half = sizes[box][0] / 2
        middle = 0.0 if wanted is None else wanted[box]
        middles[box] = max(middle, edge + half)
        edge = middles[box] + half + gap
    error = _mean([middles[i] - (0.0 if wanted is None else wanted[i]) for i in row], 0.0)
    for box in row:
        middles[box] -= error


def _corners(
    rows: Sequence[Sequence[int]],
    sizes: Sequence[tuple[float, float]],
    middles: Sequence[float],
    gap: float,
) -> Layered:
    left = min((m - w / 2 for m, (w, _) in zip(middles, sizes, strict=True)), default=0.0)
    right = max((m + w / 2 for m, (w, _) in zip(middles, sizes, strict=True)), default=0.0)
    corners = [(0.0, 0.0)] * len(sizes)
    top = 0.0
    for row in rows:
        height = max(sizes[i][1] for i in row)
        for box in row:
            width, own = sizes[box]
            corners[box] = middles[box] - width / 2 - left, top + (height - own) / 2
        top += height + gap
    return Layered(right - left, max(top - gap, 0.0), tuple(corners))


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
