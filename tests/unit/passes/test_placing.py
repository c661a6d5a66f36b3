"""Results that are written as part of what a concat, a pad or an interleave makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.language import Launch
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Tensor
from symgrad.graph.ops.interleaving import interleave
from symgrad.passes.fusion import placing
from symgrad.passes.fusion.partition import Partition, Placed
from symgrad.passes.fusion.verify import verify_partition
from tests.support.floors import Variant, run_everywhere, run_variants
from tests.support.programs import lines_of, partition_of, program_from
from tests.unit.codegen.test_lower import assert_in_order

X, W = sg.placeholder((32, 64), name="x"), sg.placeholder((64, 32), name="w")
V, Y = sg.placeholder((64, 16), name="v"), sg.placeholder((32, 32), name="y")
DEEP = sg.placeholder((3, 4, 8), name="deep")
WIDE = sg.placeholder((8, 16), name="wide")


def placed_in(*outputs: Tensor, updates: tuple[Update, ...] = ()) -> list[Tensor]:
    partition = partition_of(*outputs, updates=updates)
    verify_partition(partition)
    return list(partition.placed)


def launches_of(*outputs: Tensor) -> list[str]:
    instrs = program_from(*outputs).instrs
    return [str(instr.label) for instr in instrs if isinstance(instr, Launch)]


def test_products_that_are_joined_leave_nothing_to_copy():
    joined = sg.concat([X @ W, X @ V], axis=1)
    assert len(placed_in(joined)) == 2
    assert launches_of(joined) == ["einsum", "einsum"]
    assert program_from(joined).arena_bytes == 0


def test_products_are_joined_in_the_place_of_what_writes_rows_of_them():
    joined = sg.concat([X @ W, X @ V], axis=1)
    replaced = joined.at[2].set(sg.zeros((48,)))
    assert len(placed_in(replaced)) == 2
    cache = sg.variable(np.zeros((32, 48), "float32"), name="cache")
    # The old value is read behind the products, and its place is that of the result.
    taken = sg.sum(cache) * replaced
    assert placed_in(taken, updates=(Update(cache, replaced),)) == []
    inputs = [np.random.default_rng(0).normal(size=t.type.static_shape) for t in (X, W, V)]
    given = [a.astype("float32") for a in inputs]
    for graph in (
        Graph([replaced], [X, W, V]),
        Graph([taken], [X, W, V], [Update(cache, replaced)]),
    ):
        different = run_everywhere(graph, given)
        assert different is None, different


def test_a_concat_writes_the_rest():
    assert launches_of(sg.concat([X @ W, sg.tanh(Y)], axis=0)) == ["einsum", "tanh concat"]
    assert launches_of(sg.pad(X @ W, ((1, 1), (0, 0)))) == ["einsum", "pad"]


def test_sums_are_placed_too():
    rows = sg.sum(sg.placeholder((9, 32, 32)), axis=0)
    assert launches_of(sg.concat([rows, Y], axis=0)) == ["sum", "concat"]
    assert len(placed_in(sg.concat([rows, Y], axis=0))) == 1


def test_what_else_is_made_of_a_sum_in_registers_does_not_read_it():
    rows = sg.sum(sg.placeholder((9, 32, 32)), axis=0)
    joined, more = sg.concat([rows, Y], axis=0), sg.floor(rows)
    assert launches_of(joined, more) == ["sum floor", "concat"]
    assert len(placed_in(joined, more)) == 1


def test_rows_that_lie_in_pieces_are_rows_of_one_product():
    padded = sg.pad(DEEP @ WIDE, ((0, 0), (1, 2), (0, 0)))
    partition = partition_of(padded)
    assert len(partition.placed) == 1
    kernel = program_from(padded).kernels[0]
    assert_in_order(
        lines_of(kernel),
        "product t0: f32 for (i0 in 0..12) (i1 in 0..16) (i2 in 0..8)",
        "b2[i1 + 16*(i0 % 4) + 112*(i0 // 4)] = t0",
    )


def test_what_is_made_of_a_product_element_by_element_is_placed():
    placed = placed_in(sg.concat([sg.tanh(X @ W), Y], axis=0))
    assert [tensor.node.op for tensor in placed] == ["tanh"]


def test_the_text_of_a_partition_says_so():
    lines = str(partition_of(sg.concat([X @ W, Y], axis=0))).splitlines()
    assert "  %0 is written as part of %1" in lines


def read_twice() -> list[Tensor]:
    product = X @ W
    return [sg.concat([product, Y], axis=0), sg.sum(product)]


def a_result() -> list[Tensor]:
    product = X @ W
    return [sg.concat([product, Y], axis=0), product]


def twice_in_it() -> list[Tensor]:
    product = X @ W
    return [sg.concat([product, product], axis=0)]


@pytest.mark.parametrize(
    "make",
    [
        read_twice,
        a_result,
        twice_in_it,
        lambda: [sg.concat([sg.tanh(Y), Y], axis=0)],  # the tanh is computed by the concat
        lambda: [sg.concat([(X @ W).T, Y], axis=0)],
        lambda: [sg.concat([X @ V[:, :8], Y], axis=1)],  # rows of 32 bytes
        lambda: [interleave([X @ V, X @ V], (32, 32), ((0, 0), (0, 1)), (1, 2))],
        lambda: [sg.stack([sg.sum(X, axis=1), sg.max(X, axis=1)], axis=1)],
    ],
)
def test_what_is_read_elsewhere_or_lies_apart_has_memory_of_its_own(make):
    assert placed_in(*make()) == []


def test_a_new_value_of_a_variable_is_joined_when_all_else_is_done():
    weights = sg.variable(np.zeros((64, 32), "float32"))
    value = sg.concat([X @ W, Y], axis=0)
    assert placed_in(sg.sum(weights), updates=(Update(weights, value),)) == []


def _strided_gradient() -> Graph:
    x, kernel = sg.placeholder((2, 9, 8, 16)), sg.placeholder((3, 3, 16, 16))
    y = sg.nn.conv2d(x, kernel, strides=2, padding=((1, 1), (1, 1)))
    g = sg.placeholder(y.shape)
    return Graph(sg.gradients(y, x, grad_ys=g), [x, kernel, g])


def _in_a_loop() -> Graph:
    steps = sg.placeholder((5, 6, 8))

    def body(state: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
        both = sg.concat([part @ WIDE, state @ WIDE], axis=0)
        return sg.tanh(both[3:9, :8]), both

    last, stacked = sg.scan(body, sg.zeros((6, 8)), steps)
    return Graph([last, stacked], [steps, WIDE])


def _sums_of_slices() -> Graph:
    """Return the gradient to values of which queries read some, as in causal attention."""
    weights = [sg.placeholder((2, 16, rows)) for rows in (16, 32, 48)]
    values, g = sg.placeholder((2, 48, 16)), sg.placeholder((2, 48, 16))
    y = sg.concat([w @ values[:, : w.shape[-1]] for w in weights], axis=1)
    return Graph(sg.gradients(y, values, grad_ys=g), [*weights, g])


def _strided_rows() -> Graph:
    """Return the gradient to what a 1 x 1 convolution with a stride reads."""
    x, g = sg.placeholder((2, 9, 16)), sg.placeholder((2, 5, 16))
    return Graph(sg.gradients(x[:, ::2] @ WIDE.T @ WIDE, x, grad_ys=g), [WIDE, g])


CASES: dict[str, Callable[[], Graph]] = {
    "columns": lambda: Graph(sg.concat([X @ W, X @ V], axis=1), [X, W, V]),
    "pieces": lambda: Graph(
        sg.concat([sg.placeholder((3, 2, 16)), DEEP @ WIDE], axis=1)[:, ::1], None
    ),
    "pad": lambda: Graph(sg.pad(DEEP @ WIDE, ((1, 0), (1, 2), (0, 3))), [DEEP, WIDE]),
    "wide pad": lambda: Graph(sg.pad(DEEP @ WIDE, ((5, 1), (2, 9), (0, 3))), [DEEP, WIDE]),
    "sums of slices": _sums_of_slices,
    "strided rows": _strided_rows,
    "sums": lambda: Graph(sg.pad(sg.sum(DEEP @ WIDE, axis=0), ((1, 0), (1, 2))), [DEEP, WIDE]),
    "strided gradient": _strided_gradient,
    "loop": _in_a_loop,
}


@pytest.mark.parametrize("case", CASES)
def test_every_floor_agrees(case):
    graph = CASES[case]()
    random = np.random.default_rng(0)
    inputs = [random.integers(-3, 4, t.type.static_shape).astype("float32") for t in graph.inputs]
    variants = [Variant(places=True), Variant(places=True, threads=Threads(3, 0.0))]
    different = run_everywhere(graph, inputs) or run_variants(graph, inputs, variants)
    assert different is None, different


@pytest.mark.parametrize(
    "case", ["pieces", "strided gradient", "loop", "wide pad", "sums of slices"]
)
def test_the_cases_place_results(case, monkeypatch):
    found: list[Tensor] = []

    def noted(*arguments: Any) -> dict[Tensor, Placed]:
        placed = placing.placed_results(*arguments)
        found.extend(placed)
        return placed

    monkeypatch.setattr("symgrad.passes.fusion.order_groups.placed_results", noted)
    graph = CASES[case]()
    sg.compile(list(graph.inputs), list(graph.outputs)).ir("loops")
    assert found


def refuse(partition: Partition, reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        verify_partition(partition)


def test_what_is_placed_wrongly_is_refused():
    partition = partition_of(sg.concat([X @ W, Y], axis=0), sg.sum(X @ W * 2))
    ((tensor, place),) = partition.placed.items()
    refuse(replace(partition, placed={tensor: replace(place, number=1)}), "is not operand 1")
    (other,) = (t for g in partition.groups for t in g.outputs if t.ndim == 0)
    refuse(replace(partition, placed={other: place}), "is read by")
    adding = replace(place, spec=replace(place.spec, adds=True))
    refuse(replace(partition, placed={tensor: adding}), "by another structure")
    filling = replace(place.spec, fill=0.0)
    specs = {**partition.specs, place.node: filling}
    filled = replace(partition, specs=specs, placed={tensor: replace(place, spec=filling)})
    refuse(filled, "is filled over")
