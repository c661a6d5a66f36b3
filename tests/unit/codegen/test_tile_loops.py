"""Transposes in tiles, with all that tiles leave over, give what they give without."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.print import print_program
from symgrad.codegen.schedule.tile_loops import tile_transposes
from symgrad.codegen.target import MemoryHierarchy, target_named
from symgrad.graph.graph import Graph
from tests.support.evaluators import evaluate_compiled
from tests.support.floors import program_for
from tests.support.schedules import tiled

MEMORY = MemoryHierarchy()


def _transposed(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> Graph:
    x = sg.placeholder(shape, dtype)
    return Graph([sg.permute_dims(x, axes) + 1, x * 2], [x])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((5, 7), (1, 0)), ((2, 9, 6), (0, 2, 1)), ((4, 3, 8), (2, 0, 1)), ((6, 4), (1, 0))],
)
def test_small_tiles_leave_over_rows_and_elements(shape, axes, dtype):
    graph = _transposed(shape, axes, dtype)
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    with tiled():
        found = evaluate_compiled(graph, [x])
    for results in found.values():
        np.testing.assert_array_equal(results[0], x.transpose(axes) + 1)
        np.testing.assert_array_equal(results[1], x * 2)


@pytest.mark.parametrize("shape", [(128, 784), (130, 300), (512, 49)])
def test_rows_of_a_power_of_two_are_written_in_tiles(shape):
    # Elements of two bytes, of which no squares are transposed in registers.
    graph = Graph(sg.permute_dims(x := sg.placeholder(shape, "int16"), (1, 0)) * 2, [x])
    text = print_program(program_for(graph, "x86-64-v3"))
    assert ("in 0..16 vector(16)" in text) == (shape != (130, 300))
    given = np.random.default_rng(0).integers(-99, 99, shape).astype(np.int16)
    for results in evaluate_compiled(graph, [given]).values():
        np.testing.assert_array_equal(results[0], given.T * 2)


def test_lines_are_kept_by_the_sets_their_addresses_choose():
    assert MEMORY.lines_kept(64) == 512
    assert MEMORY.lines_kept(256) == 128
    assert MEMORY.lines_kept(4096) == 8
    assert MEMORY.lines_kept(65 * 64) == 512


def test_what_is_not_transposed_stays_as_it_is():
    x = sg.placeholder((64, 784))
    graph = Graph([sg.exp(x), x.sum(axis=0)], [x])
    for kernel in program_for(graph).kernels:
        assert tile_transposes(kernel, target_named("native").memory) == kernel
