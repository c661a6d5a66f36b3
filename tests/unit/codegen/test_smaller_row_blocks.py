"""Products fused by blocks of rows that add to no sums: how many rows a block has."""

from __future__ import annotations

import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Product
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule.parallelize import ONE_THREAD
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, lower_graph
from symgrad.graph.graph import Graph
from symgrad.records import replace


def rows_of_blocks(
    shape: tuple[int, int, int], *, has_gradients: bool, is_causal: bool = False, is_slow: bool
) -> set[int]:
    """Return how many rows the products of an attention have that all keys are read for."""
    q, k, v, g = (sg.placeholder(shape, "float32") for _ in range(4))
    y = sg.nn.scaled_dot_product_attention(q, k, v, causal=is_causal)
    outputs = [y, *sg.gradients(y, [q, k, v], grad_ys=g)] if has_gradients else [y]
    target = replace(target_named("native"), shares_slowly=is_slow)
    options = CompileOptions(target, 1, False, False, ONE_THREAD)
    program = lower_graph(Graph(outputs, [q, k, v, g]), options).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    scores = [s for s in found if isinstance(s, Product) and s.columns[1] == shape[1]]
    return {s.rows[1] for s in scores}


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize(
    ("shape", "has_gradients", "rows"),
    [
        ((2, 1024, 64), False, 64),
        ((2, 1024, 64), True, 128),  # a block more adds to the sums of keys and values once more
        ((8, 512, 64), False, 128),
        ((1, 777, 64), False, 111),  # 37 rows would leave more over beside tiles
    ],
)
def test_blocks_that_add_to_no_sums_are_smaller(shape, has_gradients, rows, is_slow):
    found = rows_of_blocks(shape, has_gradients=has_gradients, is_slow=is_slow)
    assert found == {rows}


@pytest.mark.parametrize(
    ("shape", "near", "far"),
    [
        ((4, 1024, 1024), 128, 256),  # smaller ones would read 8 MB of each matrix once more
        ((1, 2048, 64), 64, 256),
        ((1, 4096, 64), 64, 256),
        ((1, 8192, 32), 64, 128),  # of whose rows the shared cache has no more
        ((2, 768, 256), 128, 256),
    ],
)
def test_blocks_that_read_much_from_a_slow_shared_cache_are_larger(shape, near, far):
    assert rows_of_blocks(shape, has_gradients=False, is_slow=False) == {near}
    assert rows_of_blocks(shape, has_gradients=False, is_slow=True) == {far}
    gradients = rows_of_blocks(shape, has_gradients=True, is_slow=False)
    assert rows_of_blocks(shape, has_gradients=True, is_slow=True) == gradients


def test_blocks_of_a_causal_attention_leave_each_launch_several():
    # Which the panels of keys are made for, before the first of them.
    assert rows_of_blocks((1, 2048, 64), has_gradients=False, is_causal=True, is_slow=True) == {64}
    assert rows_of_blocks((1, 4096, 64), has_gradients=False, is_causal=True, is_slow=True) == {128}


@pytest.mark.parametrize("shape", [(2, 1024, 64), (4, 1024, 32)])
def test_blocks_that_are_cut_along_columns_stay_as_they_are(shape):
    q, k, v = (sg.placeholder(shape, "float32") for _ in range(3))
    options = CompileOptions(target_named("native"), 1, False, False, ONE_THREAD)
    graph = Graph([sg.maximum(q @ k.mT, 0.0) @ v], [q, k, v])  # no fold, for which rows are whole
    program = lower_graph(graph, options).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    scores = [s for s in found if isinstance(s, Product) and s.inner[1] == shape[2]]
    assert {(s.rows[1], s.columns[1]) for s in scores} == {(128, 256)}
