"""Products of panels beside each other: which prefetch what the epilogue of the next one reads."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract import ContractPlan
from symgrad.codegen.contract.plans.products import places_to_prefetch, product_plan
from symgrad.codegen.loops.language import Product
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.graph.graph import Graph
from tests.support.floors import Memory, Variant, compile_for, run_variants

TERMS, COLUMNS = 96, 512


def added(rows: int, panel: int, *, columns: int = COLUMNS, is_added: bool = True) -> Graph:
    """Return a product with panels of a weight, to which rows of other numbers are added."""
    h, w = sg.placeholder((rows, TERMS)), sg.placeholder((columns // panel, TERMS, panel))
    x, bias = sg.placeholder((rows, columns)), sg.placeholder((columns,))
    y = sg.reshape(sg.einsum("ab,dbc->adc", h, w), (rows, columns))
    return Graph([y + bias + x if is_added else y + bias], [h, w, x, bias])


def products_of(graph: Graph, target: str) -> list[tuple[Product, ContractPlan]]:
    program = compile_for(graph, target, opt_level=0).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    machine = target_named(target)
    return [(s, product_plan(s, machine)) for s in found if isinstance(s, Product)]


def test_tiles_of_a_panel_prefetch_the_rows_that_the_next_one_reads():
    ((product, plan),) = products_of(added(32, 16), "x86-64-v3")
    assert (plan.goes_on, plan.met) == ("columns", 1)
    read = places_to_prefetch(product, plan, target_named("x86-64-v3"))
    (index,) = (index for _, index in read)
    assert index.coefficient(product.rows[0]) == COLUMNS  # neither the bias nor the result


@pytest.mark.parametrize(
    ("graph", "target"),
    [
        (added(32, 16, is_added=False), "x86-64-v3"),
        (added(4, 16), "x86-64-v3"),
        (added(32, 64), "x86-64-v3"),
        (added(32, 16, columns=128), "x86-64-v3"),
        (added(32, 16), "x86-64-v4"),
        (added(32, 64), "x86-64-v4"),
        (added(32, 64), "aarch64"),
    ],
    ids=["nothing read", "one tile", "several tiles", "near rows", "v4", "wide on v4", "aarch64"],
)
def test_others_prefetch_nothing_of_a_panel_beside(graph, target):
    assert [plan.goes_on for _, plan in products_of(graph, target)] == [None]


@pytest.mark.parametrize("rows", [13, 32])
def test_results_are_the_same_between_guard_pages(rows):
    random = np.random.default_rng(0)
    graph = added(rows, 16)
    arrays = [
        random.integers(-3, 4, t.type.static_shape).astype(t.dtype.numpy) for t in graph.inputs
    ]
    variants = [
        Variant("x86-64-v3", threads=Threads(1, 0.0), memory=Memory("end")),
        Variant("x86-64-v3", threads=Threads(3, 0.0), memory=Memory("start")),
    ]
    assert run_variants(graph, arrays, variants) is None


def test_a_recurrence_prefetches_the_rows_of_its_slices():
    xs, h = sg.placeholder((8, 32, COLUMNS)), sg.placeholder((32, TERMS))
    w, v = sg.placeholder((TERMS, COLUMNS)), sg.placeholder((COLUMNS, TERMS))
    last, _ = sg.scan(lambda h, x: (sg.tanh(h @ w + x) @ v * 0.1, None), h, xs)
    plans = [plan for _, plan in products_of(Graph([last], [xs, h, w, v]), "x86-64-v3")]
    assert [plan.goes_on for plan in plans].count("columns") == 1
