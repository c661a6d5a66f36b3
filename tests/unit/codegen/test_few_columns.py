"""Products of few columns and terms, such as rotations of points: written out, along any axis."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Fold, For, Product, Store
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.graph.graph import Graph
from tests.support.floors import Memory, Variant, program_for, run_variants

WRITTEN_OUT = {
    "rows": ("nk,kj->nj", (200, 3), (3, 3)),
    "turned": ("nk,jk->nj", (200, 3), (3, 3)),
    "planes": ("kn,kj->jn", (4, 200), (4, 2)),
    "from the left": ("jk,kn->jn", (3, 3), (3, 200)),
    "columns in the middle": ("nka,kj->nja", (50, 3, 7), (3, 4)),
    "a batch": ("bnk,bkj->bnj", (5, 60, 3), (5, 3, 2)),
    "with a size of 1": ("nko,kj->njo", (200, 3, 1), (3, 3)),
}
PRODUCTS = {
    "many terms": ("nk,kj->nj", (200, 5), (5, 3)),
    "many columns": ("nk,kj->nj", (200, 3), (3, 5)),
    "two axes of columns": ("nk,kij->nij", (200, 3), (3, 2, 2)),
    "few rows": ("bik,bkj->bij", (100, 3, 3), (100, 3, 3)),
}


def graph_of(case: tuple[str, tuple[int, ...], tuple[int, ...]], dtype: str) -> Graph:
    equation, *shapes = case
    x, y = (sg.placeholder(shape, dtype) for shape in shapes)
    return Graph([sg.einsum(equation, x, y)], [x, y])


@pytest.mark.parametrize("case", WRITTEN_OUT)
def test_columns_and_terms_are_written_out(case):
    (kernel,) = program_for(graph_of(WRITTEN_OUT[case], "float32")).kernels
    inside = list(statements(kernel.body))
    assert not any(isinstance(s, Fold | Product) for s in inside)
    assert sum(isinstance(s, Store) for s in inside) >= 2
    assert any(isinstance(s, For) and s.vector > 1 for s in inside)


@pytest.mark.parametrize("case", PRODUCTS)
def test_others_stay_products(case):
    kernels = program_for(graph_of(PRODUCTS[case], "float32")).kernels
    assert any(isinstance(s, Product) for kernel in kernels for s in statements(kernel.body))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32"])
@pytest.mark.parametrize("case", WRITTEN_OUT)
def test_it_is_what_numpy_gives(case, dtype):
    equation, *shapes = WRITTEN_OUT[case]
    graph = graph_of(WRITTEN_OUT[case], dtype)
    random = np.random.default_rng(0)
    given = [random.integers(-4, 5, shape).astype(dtype) for shape in shapes]
    (found,) = sg.compile(graph.inputs, graph.outputs)(*given)
    np.testing.assert_array_equal(found, np.einsum(equation, *given))
    variants = [
        Variant("x86-64-v3", memory=Memory("end", is_apart=True)),
        Variant("native", threads=Threads(3, least_cycles=0), memory=Memory("start")),
    ]
    assert run_variants(graph, given, variants) is None


def test_second_derivatives_of_a_rotation_are_those_of_the_formula():
    x, r = sg.placeholder((40, 3), "float64"), sg.placeholder((3, 3), "float64")
    total = sg.sum((x @ r.T) ** 3)
    first = sg.gradients(total, [x])[0]
    second = sg.gradients(sg.sum(first * first), [r])[0]
    random = np.random.default_rng(0)
    given = [random.normal(size=(40, 3)), random.normal(size=(3, 3))]

    def of(matrix: np.ndarray) -> float:
        moved = given[0] @ matrix.T
        return float((((3 * moved**2) @ matrix) ** 2).sum())

    step = 1e-6
    expected = np.empty((3, 3))
    for at in np.ndindex(3, 3):
        change = np.zeros((3, 3))
        change[at] = step
        expected[at] = (of(given[1] + change) - of(given[1] - change)) / (2 * step)
    np.testing.assert_allclose(sg.compile([x, r], second)(*given), expected, rtol=1e-6)


def test_unknown_sizes_give_the_same():
    n = sg.placeholder(("n", 3), "float64", name="x")
    r = sg.placeholder((3, 3), "float64", name="r")
    step = sg.compile([n, r], n @ r)
    random = np.random.default_rng(0)
    for count in (0, 1, 15, 16, 1000):
        x, turn = random.integers(-4, 5, (count, 3)) * 1.0, random.integers(-4, 5, (3, 3)) * 1.0
        np.testing.assert_array_equal(step(x, turn), x @ turn)
