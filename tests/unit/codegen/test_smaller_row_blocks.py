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
from symgrad.runtime.executable import Executable


@pytest.mark.parametrize(
    ("shape", "has_gradients", "rows"),
    [
        ((2, 1024, 64), False, 64),
        ((2, 1024, 64), True, 128),  # a block more adds to the sums of keys and values once more
        ((8, 512, 64), False, 128),
        ((1, 777, 64), False, 111),  # 37 rows would leave more over beside tiles
        ((4, 1024, 1024), False, 128),  # and these read 8 MB of each matrix once more
    ],
)
def test_blocks_that_add_to_no_sums_are_smaller(shape, has_gradients, rows):
    q, k, v, g = (sg.placeholder(shape, "float32") for _ in range(4))
    y = sg.nn.scaled_dot_product_attention(q, k, v)
    outputs = [y, *sg.gradients(y, [q, k, v], grad_ys=g)] if has_gradients else [y]
    options = CompileOptions(target_named("native"), 1, False, False, ONE_THREAD)
    program = Executable(Graph(outputs, [q, k, v, g]), options).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    scores = [s for s in found if isinstance(s, Product) and s.columns[1] == shape[1]]
    assert {s.rows[1] for s in scores} == {rows}


@pytest.mark.parametrize("shape", [(2, 1024, 64), (4, 1024, 32)])
def test_blocks_that_are_cut_along_columns_stay_as_they_are(shape):
    q, k, v = (sg.placeholder(shape, "float32") for _ in range(3))
    options = CompileOptions(target_named("native"), 1, False, False, ONE_THREAD)
    graph = Graph([sg.maximum(q @ k.mT, 0.0) @ v], [q, k, v])  # no fold, for which rows are whole
    program = lower_graph(graph, options).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    scores = [s for s in found if isinstance(s, Product) and s.inner[1] == shape[2]]
    assert {(s.rows[1], s.columns[1]) for s in scores} == {(128, 256)}
