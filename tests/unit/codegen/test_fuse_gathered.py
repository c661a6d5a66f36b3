"""A right operand that blocks of rows would gather, each anew: it is brought into rows before."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Product
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.program import fuse_products
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.graph.graph import Graph
from tests.support.floors import run_native
from tests.unit.codegen.test_fuse_products import step_of


@pytest.mark.parametrize("count", [1, 2])
def test_a_right_whose_columns_are_in_digits_is_brought_into_rows_once(monkeypatch, count):
    monkeypatch.setattr(fuse_products, "BYTES_OF_PRODUCTS", 256 << 10)
    weights = sg.placeholder((2000, 22), "float64")
    moved = sg.placeholder((26, 22, 3, 4), "float64")
    places = sg.placeholder((2000, 4), "float64")
    vertices = sg.einsum("vb,cbij->vijc", weights, moved)
    result = sg.sum(vertices * sg.reshape(places, (2000, 1, 4, 1)), axis=2)
    graph = Graph([result], [weights, moved, places])
    random = np.random.default_rng(0)
    arrays = [random.normal(size=t.type.static_shape) for t in graph.inputs]
    step = step_of(graph, Threads(count))
    fused = [k for k in step.program.kernels if len(list(statements(k.body))) > 1]
    products = [s for k in fused for s in statements(k.body) if isinstance(s, Product)]
    assert [(p.rhs.rows, p.rhs.columns, p.rhs.column_digits) for p in products] == [(312, 1, ())]
    assert [p.blocking.block[0] < 2000 for p in products] == [True]
    (found,), apart = run_native(step, arrays).outputs, step_of(graph, skip=("fuse-products",))
    assert found.tobytes() == run_native(apart, arrays).outputs[0].tobytes()
