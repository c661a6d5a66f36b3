"""Updates of single rows: when they are made, that they are exact, and what is said otherwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import IndexOutOfRangeError
from symgrad.graph.dtypes import as_dtype
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Tensor
from symgrad.graph.ops.gathering import scatter_add_op
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from symgrad.optim import SGD, Adam
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.fusion.verify import verify_partition
from symgrad.passes.pipeline import optimize
from symgrad.passes.rewrites.row_updates import why_dense
from symgrad.passes.table import Options
from symgrad.runtime.function import compile
from tests.support.floors import TARGETS, run_everywhere

Rule = Callable[[sg.Variable, Tensor], list[Update]]
WIDTH = 5
DENSE = Options(skip=("row-updates",))


def descent(w: sg.Variable, g: Tensor) -> list[Update]:
    return SGD(0.1).apply_gradients([(g, w)])


def descent_at_a_rate(w: sg.Variable, g: Tensor) -> list[Update]:
    rate = sg.variable(np.float32(0.25), trainable=False, name="rate")
    return SGD(rate).apply_gradients([(g, w)])


def adagrad(w: sg.Variable, g: Tensor) -> list[Update]:
    total = sg.variable(
        np.full(w.type.static_shape, 0.1, w.dtype.numpy), trainable=False, name="total"
    )
    new = total + g * g
    return [Update(total, new), Update(w, w - 0.1 * g / (sg.sqrt(new) + 1e-7))]


def momentum(w: sg.Variable, g: Tensor) -> list[Update]:
    return SGD(0.1, momentum=0.9).apply_gradients([(g, w)])


def adam(w: sg.Variable, g: Tensor) -> list[Update]:
    return Adam().apply_gradients([(g, w)])


def decay(w: sg.Variable, g: Tensor) -> list[Update]:
    return descent(w, g + 0.01 * w)


def clipped(w: sg.Variable, g: Tensor) -> list[Update]:
    return descent(w, g * sg.minimum(1.0, sg.rsqrt(sg.sum(g * g))))


def by_row(w: sg.Variable, g: Tensor) -> list[Update]:
    return descent(w, g * sg.astype(sg.reshape(sg.arange(w.shape[0]), (-1, 1)), g.dtype))


def training(rule: Rule, rows: int, places: tuple[int, ...], dtype: str = "float32") -> Graph:
    """Return a step that moves the rows of a table that were taken at `places` indices."""
    start = np.random.default_rng(0).standard_normal((rows, WIDTH))
    w = sg.variable(start.astype(as_dtype(dtype).numpy), name="table")
    i = sg.placeholder(places, "int64", name="i")
    scale = sg.placeholder((*places, WIDTH), dtype, name="scale")
    loss = sg.sum(sg.sin(sg.take(w, i, axis=0)) * scale)
    (g,) = sg.gradients(loss, [w])
    assert g is not None
    return Graph([loss], [i, scale], rule(w, g))


def arguments(graph: Graph, rows: int) -> list[Array]:
    """Return indices of which some are equal and some count from the end, and factors."""
    rng = np.random.default_rng(1)
    i, scale = graph.inputs
    few = rng.integers(-rows, rows, max(1, i.type.count // 2))
    places = rng.choice(np.concatenate([few, (few + rows) % rows]), i.type.static_shape)
    factors = rng.standard_normal(scale.type.static_shape).astype(scale.dtype.numpy)
    return [places, factors]


def has_dense_gradient(graph: Graph, rows: int) -> bool:
    scattered = (n for n in graph.nodes if n.definition is scatter_add_op)
    return any(n.output.shape == (rows, WIDTH) for n in scattered)


RULES = (descent, descent_at_a_rate, adagrad)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("rows", "places"), [(400, (6,)), (400, (3, 7)), (60, (25,))])
def test_rows_get_what_the_dense_update_gives_them_bit_for_bit(rule, rows, places):
    graph = training(rule, rows, places)
    sparse, dense = optimize(graph), optimize(graph, options=DENSE)
    assert not has_dense_gradient(sparse, rows)
    assert has_dense_gradient(dense, rows)
    inputs = arguments(graph, rows)
    for few, many in zip(evaluate(sparse, inputs)[1], evaluate(dense, inputs)[1], strict=True):
        np.testing.assert_array_equal(few, many)


@pytest.mark.parametrize("targets", [("native",), pytest.param(TARGETS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("rows", "places"), [(300, (6,)), (60, (5, 5))])
def test_rows_are_moved_alike_on_all_floors(rule, rows, places, dtype, targets):
    if dtype == "bfloat16" and rule is adagrad:
        dtype = "float64"
    graph = training(rule, rows, places, dtype)
    assert not has_dense_gradient(optimize(graph), rows)
    different = run_everywhere(graph, arguments(graph, rows), targets=targets)
    assert different is None, different


@pytest.mark.parametrize("rule", RULES)
def test_every_variable_is_written_in_place(rule):
    graph = training(rule, 400, (6,))
    partition = fuse(optimize(graph))
    verify_partition(partition)
    assert partition.in_place == set(partition.graph.updates)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (momentum, "table also changes where the gradient is 0"),
        (adam, "table also changes where the gradient is 0"),
        (decay, "table also changes where the gradient is 0"),
        (clipped, "the sum that uses it needs all of it"),
        (by_row, "the new table is made of something else with a value for each row"),
    ],
)
def test_a_rule_that_moves_all_rows_is_not_changed(rule, reason):
    optimized = optimize(training(rule, 400, (6,)))
    assert has_dense_gradient(optimized, 400)
    (gradient,) = (n.output for n in optimized.nodes if n.definition is scatter_add_op)
    assert why_dense(optimized, gradient) == reason


def test_a_gradient_that_is_a_result_is_dense():
    w = sg.variable(np.zeros((400, WIDTH), np.float32), name="table")
    (g,) = sg.gradients(sg.sum(sg.take(w, sg.placeholder((6,), "int64"), axis=0)), [w])
    assert g is not None
    optimized = optimize(Graph([g], updates=descent(w, g)))
    assert has_dense_gradient(optimized, 400)
    assert why_dense(optimized, optimized.outputs[0]) == "it is a result of the program"


def test_a_table_of_which_half_is_used_is_moved_as_a_whole():
    assert has_dense_gradient(optimize(training(descent, 11, (6,))), 11)
    assert not has_dense_gradient(optimize(training(descent, 12, (6,))), 12)


def test_a_failed_step_leaves_every_row_as_it_was():
    graph = training(adagrad, 400, (6,))
    step = compile(graph.inputs, graph.outputs, updates=graph.updates)
    before = [u.variable.value for u in graph.updates]
    places, factors = arguments(graph, 400)
    with pytest.raises(IndexOutOfRangeError):
        step(np.where(np.arange(6) == 4, 400, places), factors)
    for update, old in zip(graph.updates, before, strict=True):
        np.testing.assert_array_equal(update.variable.value, old)


def test_the_old_table_can_be_a_result():
    graph = training(descent, 400, (6,))
    (update,) = graph.updates
    with_old = Graph([update.variable], graph.inputs, graph.updates)
    different = run_everywhere(with_old, arguments(graph, 400))
    assert different is None, different


def test_a_large_table_costs_what_its_rows_cost():
    table = sg.variable(np.zeros((100_000, 64), np.float32), name="table")
    i, scale = sg.placeholder((32,), "int64"), sg.placeholder((32, 64))
    loss = sg.sum(sg.take(table, i, axis=0) * scale)
    bytes_of = {}
    for name, optimizer in (("rows", SGD(0.1)), ("dense", SGD(0.1, momentum=0.9))):
        step = compile([i, scale], loss, updates=optimizer.minimize(loss), opt_level=0)
        bytes_of[name] = sum(kernel.bytes for kernel in step.kernels)
        assert step.memory.gradient_bytes == (0 if name == "rows" else table.value.nbytes)
    # Of 32 rows of 256 bytes: gathered, summed, moved, written, and the indices that are equal.
    assert bytes_of["rows"] < 16 * 32 * 256
    assert bytes_of["dense"] > 4 * table.value.nbytes
