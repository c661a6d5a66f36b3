"""Random programs of groups that are alike: the same choices of ops, for several sizes of axes.

What is lowered and emitted once for the path that a size takes (`codegen/concolic.py`) must be what
it is for each size alone. Half of the sizes are near each other, so that they share paths, and the
others beside sizes from which loops are scheduled otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from tests.support.strategies import random_graph

_TURNS = (1, 2, 3, 4, 8, 16, 32, 48, 64, 100, 128, 256, 512, 1000, 1024, 2048)
_HIGHEST = 3000
_LONG = 300

Program = tuple[Graph, list[Array]]


class _SameChoices(np.random.Generator):
    """Random choices that do not depend on how many values have been drawn for arrays."""

    def integers(self, *limits: Any, **options: Any) -> Any:
        if len(limits) < 3 or limits[2] == ():
            return super().integers(*limits, **options)
        of_array = np.random.default_rng(int(super().integers(2**32)))
        return of_array.integers(*limits, **options)


def _sizes(rng: np.random.Generator, count: int) -> list[int]:
    near = int(rng.integers(1, _HIGHEST))
    beside = rng.choice(_TURNS, count) + rng.integers(-1, 2, count)
    found = np.where(rng.random(count) < 0.5, near + rng.integers(0, 40, count), beside)
    return [max(1, int(size)) for size in found]


def _choices(rng: np.random.Generator, dtype: DType) -> Callable[[int], Program]:
    """Return a random graph as a function of a size, on which most of its elements depend."""
    ops = int(rng.integers(1, 6))
    while True:
        seed = int(rng.integers(2**32))

        def made(size: int, seed: int = seed) -> Program:
            same = _SameChoices(np.random.PCG64(seed))
            return random_graph(same, dtype=dtype, size=ops, long=size)

        if _depends(*(made(size)[0] for size in (_LONG, _LONG + 1))):
            return made


def _depends(graph: Graph, other: Graph) -> bool:
    """Return whether most tensors of a graph have another shape than those of the other one."""
    pairs = [*zip(graph.nodes, other.nodes, strict=False)]
    apart = [a for a, b in pairs if a.outputs[0].shape != b.outputs[0].shape]
    return len(graph.nodes) == len(other.nodes) and 2 * len(apart) > len(pairs)


def random_alike(seed: int, dtype: DType) -> Program:
    """Return a graph of some small graphs that differ in sizes, and inputs for it."""
    rng = np.random.default_rng(seed)
    made_for = _choices(rng, dtype)
    made = [made_for(size) for size in _sizes(rng, int(rng.integers(8, 21)))]
    graph = Graph(
        [y for part, _ in made for y in part.outputs],
        [x for part, _ in made for x in part.inputs],
        [update for part, _ in made for update in part.updates],
        name="random",
    )
    return graph, [array for _, arrays in made for array in arrays]
