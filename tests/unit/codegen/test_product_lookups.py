"""Lookups behind a product: indices that differ between the lanes of a vector of results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.floors import compile_for, run_native, run_reference

LOOKUPS: dict[str, Callable[..., Tensor]] = {
    "along rows": lambda y, t, r: y + sg.take_along_axis(t, r, axis=1),
    "along columns": lambda y, t, r: y + sg.take_along_axis(t, r, axis=0),
    "columns": lambda y, t, r: y * sg.take(t, r[0], axis=1),
    "rows": lambda y, t, r: y * sg.take(t, r[:, 0], axis=0),
    "clipped": lambda y, t, r: y * sg.take_along_axis(t, sg.clip(r, 0, 3), axis=1),
    "of the result itself": lambda y, t, _: sg.take(t[0], sg.astype(sg.abs(y), "int64") % 5) + y,
}
TARGETS = ("native", pytest.param("x86-64-v3", marks=pytest.mark.isa("avx2")))


def _graph(name: str, size: int, *, is_turned: bool) -> tuple[Graph, list[np.ndarray]]:
    random = np.random.default_rng(0)
    a, b, t = (sg.placeholder((size, size)) for _ in range(3))
    r = sg.placeholder((size, size), "int64")
    y = LOOKUPS[name]((a @ b).T if is_turned else a @ b, t, r)
    arrays = [random.normal(size=(size, size)).astype(np.float32) for _ in range(3)]
    return Graph([y], [a, b, t, r]), [*arrays, random.integers(-size, size, (size, size))]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("name", LOOKUPS)
def test_values(name, is_turned, target):
    for size in (8, 19, 48):
        graph, arrays = _graph(name, size, is_turned=is_turned)
        (found,) = run_native(compile_for(graph, target), arrays).outputs
        (wanted,) = run_reference(graph, arrays).outputs
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_an_index_out_of_range_is_an_error():
    graph, arrays = _graph("along rows", 24, is_turned=False)
    arrays[3][5, 7] = 24
    step = sg.compile(graph.inputs, graph.outputs)
    with pytest.raises(sg.IndexOutOfRangeError, match="24"):
        step(*arrays)
