"""Which labels of a contraction are the columns of its product, and which are loops around it."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Product
from symgrad.codegen.loops.rewrite import statements
from symgrad.graph.graph import Graph
from tests.support.floors import compile_for, program_for, run_native


def blended(seeds: int, inner: int) -> Graph:
    """Return the graph of weighted sums of small matrices, of several seeds at once."""
    weights = sg.placeholder((200, 22), "float64")
    matrices = sg.placeholder((seeds, 22, inner, 4), "float64")
    return Graph([sg.einsum("vb,sbij->svij", weights, matrices)], [weights, matrices])


def columns_of(graph: Graph) -> int:
    (product,) = (
        s
        for launch in program_for(graph).launches
        for s in statements(launch.kernel.body)
        if isinstance(s, Product)
    )
    return product.columns[1]


@pytest.mark.parametrize(
    ("seeds", "inner", "columns"),
    [
        (26, 3, 12),  # side by side in the result, though seeds are more
        (26, 1, 26),  # no vector of them is
        (5, 20, 80),  # the more of the two
    ],
)
def test_columns_are_side_by_side_in_the_result_if_they_fill_vectors(seeds, inner, columns):
    assert columns_of(blended(seeds, inner)) == columns


def test_the_loops_around_it_change_no_result():
    graph = blended(5, 3)
    random = np.random.default_rng(0)
    arrays = [random.normal(size=t.type.static_shape) for t in graph.inputs]
    (found,) = run_native(compile_for(graph, opt_level=0), arrays).outputs
    np.testing.assert_allclose(found, np.einsum("vb,sbij->svij", *arrays), rtol=1e-12, atol=1e-12)
