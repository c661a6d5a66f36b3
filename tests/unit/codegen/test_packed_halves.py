"""Rights of half precision that blocks of rows share in packed memory, in every layout."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.graph.graph import Graph
from tests.support.floors import Memory, Variant, run_variants
from tests.support.schedules import products_fused

ROWS, TERMS, COLUMNS = 63, 31, 16


def rights(dtype: str) -> dict[str, tuple[sg.Tensor, sg.Tensor]]:
    """Return placeholders of some layouts, and what is a batch of two matrices of each."""
    last = sg.placeholder((TERMS, COLUMNS, 2), dtype)
    wide = sg.placeholder((2, TERMS, 2 * COLUMNS), dtype)
    turned = sg.placeholder((2, COLUMNS, TERMS), dtype)
    apart = sg.placeholder((2, COLUMNS, 2 * TERMS), dtype)
    plain = sg.placeholder((2, TERMS, COLUMNS), dtype)
    return {
        "batch last": (last, sg.permute_dims(last, (2, 0, 1))),
        "every other column": (wide, wide[:, :, ::2]),
        "columns side by side": (turned, sg.matrix_transpose(turned)),
        "columns and every other term": (apart, sg.matrix_transpose(apart[:, :, ::2])),
        "rows side by side": (plain, plain),
    }


def program(dtype: str, layout: str) -> tuple[Graph, list[np.ndarray]]:
    """Return a product by such a right, less a share of the sums of its rows."""
    given, right = rights(dtype)[layout]
    left = sg.placeholder((ROWS, TERMS), dtype)
    y = left @ right
    graph = Graph([y - sg.sum(y, axis=-1, keepdims=True) * 0.125], [left, given])
    random = np.random.default_rng(0)
    shapes = [t.type.static_shape for t in graph.inputs]
    return graph, [random.standard_normal(s).astype(left.dtype.numpy) for s in shapes]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("layout", list(rights("float32")))
def test_a_packed_right_is_of_the_dtype_of_its_elements(dtype, layout):
    graph, arrays = program(dtype, layout)
    ways = [Variant(threads=Threads(count, 0), memory=Memory("end")) for count in (1, 4)]
    with products_fused():
        assert run_variants(graph, arrays, ways) is None
