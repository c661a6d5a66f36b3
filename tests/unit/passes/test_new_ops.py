"""An op that is declared by its record alone works in every pass, as one of the library does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.batch_rules import batch_to_shape
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import OPS, define
from symgrad.graph.ops.calls import callee_of, is_costly
from symgrad.graph.ops.gathering import scatter_add_op
from symgrad.graph.ranges import range_of
from symgrad.graph.reference import evaluate
from symgrad.graph.structures import Map, Reduce, Reshape, View
from symgrad.passes.batching.vmap import batch
from symgrad.passes.gradients.forward_mode import jvp
from symgrad.passes.pipeline import optimize
from symgrad.passes.rewrites.value_numbering import find_twins
from symgrad.passes.table import Options
from tests.support.call_programs import run_both
from tests.support.control_programs import gradient, run, value
from tests.support.floors import run_everywhere
from tests.support.gradcheck import check_derivatives
from tests.support.new_ops import NewOps, new_ops
from tests.support.programs import partition_of

NAMES = ("step", "blend", "inverse", "mirror", "squares")
SHAPE = (3, 4)
RNG = np.random.default_rng(5)
POINTS = [RNG.uniform(0.5, 1.5, SHAPE) for _ in range(2)]

Build = Callable[[Tensor, Tensor], Tensor]

every_op = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def ops() -> Iterator[NewOps]:
    with new_ops() as declared:
        yield declared


@pytest.fixture
def xs() -> list[Tensor]:
    return [sg.placeholder(SHAPE, "float64", name=name) for name in "xy"]


def build_of(ops: NewOps, name: str) -> Build:
    """Return a program that has one of the ops, with work before it and behind it."""
    of_two: dict[str, Build] = {
        "step": lambda x, y: ops.step(x * 2.0, y),
        "blend": lambda x, y: ops.blend(x, y * 0.5),
        "inverse": lambda x, y: ops.inverse(x + y),
        "mirror": lambda x, y: ops.mirror(x * y),
        "squares": lambda x, y: ops.squares(x - y, (1,)),
    }
    return lambda x, y: of_two[name](x, y) * 3.0 + 1.0


def test_what_was_declared_is_forgotten():
    with new_ops():
        assert "test.mirror" in OPS
    assert not [name for name in OPS if name in {f"test.{op}" for op in NAMES}]


def test_a_structure_is_that_of_the_kernel_rule(ops):
    records = (ops.step_op, ops.blend_op, ops.inverse_op, ops.mirror_op, ops.squares_op)
    assert [op.structure for op in records] == [Map, Map, Map, View, Reduce]


def test_a_record_states_its_structure_and_rules_of_one_signature():
    with pytest.raises(AssertionError, match=r"test\.none: .* is no structure"):
        define(
            "test.none", infer=lambda x: x, reference=None, grad="none", kernel=lambda _x: Reshape()
        )
    with pytest.raises(AssertionError, match=r"test\.none: attributes .*shape.* differ"):
        define(
            "test.none",
            infer=lambda x: x,
            reference=None,
            grad="none",
            kernel=None,
            batch=batch_to_shape,
        )
    misspelled: Any = "non"
    with pytest.raises(AssertionError, match=r"test\.none: its gradient is 'non'"):
        define("test.none", infer=lambda x: x, reference=None, grad=misspelled, kernel=None)


@every_op
def test_native_code_gives_what_the_reference_does_with_work_fused_around_it(ops, xs, name):
    y = build_of(ops, name)(*xs)
    assert len(partition_of(y).groups) == 1
    different = run_everywhere(Graph(y, xs), POINTS, targets=("native",))
    assert different is None, different


@every_op
def test_it_prints_and_parses(ops, xs, name):
    graph = Graph(build_of(ops, name)(*xs), xs)
    assert f"test.{name}" in str(graph)
    assert str(Graph.parse(str(graph))) == str(graph)


@every_op
def test_derivatives_agree_with_differences(ops, xs, name):
    check_derivatives(build_of(ops, name), xs, POINTS)


@every_op
def test_a_tangent_is_the_transpose_of_the_gradient(ops, xs, name):
    y = sg.sin(build_of(ops, name)(*xs))
    directions = [RNG.normal(size=SHAPE) for _ in xs]
    (along,) = jvp(y, xs, directions)
    grads = [gradient(y, x) for x in xs]
    given = dict(zip(xs, POINTS, strict=True))
    forward, *backward = run([along, *grads], given)
    wanted = sum(np.sum(d * g) for d, g in zip(directions, backward, strict=True))
    np.testing.assert_allclose(np.sum(forward), wanted)


@every_op
def test_it_is_batched_by_rule_or_slice_by_slice(ops, xs, name):
    y = build_of(ops, name)(*xs)
    many = [sg.placeholder((5, *SHAPE), "float64") for _ in xs]
    stacks = [RNG.uniform(0.5, 1.5, (5, *SHAPE)) for _ in xs]
    for chosen in ([0], [0, 1]):
        (found,) = batch([y], {xs[i]: many[i] for i in chosen}, 5)
        inputs = [many[i] if i in chosen else x for i, x in enumerate(xs)]
        given = [stacks[i] if i in chosen else POINTS[i] for i in range(2)]
        (results,), _ = evaluate(Graph(found, inputs), given)
        cases = [[s[k] if i in chosen else s for i, s in enumerate(given)] for k in range(5)]
        np.testing.assert_allclose(results, [evaluate(Graph(y, xs), c)[0][0] for c in cases])
        # Only the View has no rule.
        assert ("scan" in {n.op for n in Graph(found).nodes}) == (name == "mirror")


@every_op
def test_a_loop_with_it_and_the_gradient_run_alike_on_all_floors(ops, name):
    x, rows = sg.placeholder((4,), "float64"), sg.placeholder((6, 4), "float64")
    build = build_of(ops, name)

    def body(c: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        made = build(sg.reshape(row, (1, 4)), sg.reshape(c, (1, 4)))
        new: Tensor = sg.sin(made.sum() * 0.1 + c) + 1.5
        return new, row * c

    last, stack = sg.scan(body, x, rows)
    grads = sg.gradients(last.sum() + stack.sum(), [x, rows])
    graph = Graph([last, *(g for g in grads if g is not None)], [x, rows])
    given = [RNG.uniform(0.5, 1.5, shape) for shape in ((4,), (6, 4))]
    different = run_everywhere(graph, given, targets=("native",))
    assert different is None, different


def _function(ops: NewOps) -> Callable[[Tensor], Tensor]:
    weights = sg.constant(np.eye(4) * 0.3)

    def made(a: Tensor) -> Tensor:
        h = ops.blend(a, sg.tanh(a @ weights))
        total = sg.reshape(ops.squares(h, (1,)), (3, 1))
        result: Tensor = ops.step(ops.mirror(h), a * 0.1) / (1.0 + total) + ops.inverse(a * a + 1.0)
        return result

    return made


def test_a_function_keeps_what_the_record_says_is_costly(ops, xs, monkeypatch):
    x = xs[0]
    f = sg.function(_function(ops))
    y = f(x)
    kept = [t.node.op for t in callee_of(y.node).outputs[1:]]
    assert kept == ["einsum", "tanh", "test.blend", "test.squares"]
    for _ in range(6):
        y = f(y)
    run_both([y, gradient(y, x)], {x: POINTS[0]}, monkeypatch)


def test_costs_follow_from_bodies_and_structures(ops, xs):
    x, y = xs
    made = [ops.step(x, y), ops.blend(x, y), ops.inverse(x), ops.mirror(x), ops.squares(x, (0,))]
    assert [is_costly(t.node) for t in made] == [False, True, False, False, True]


def test_the_range_of_integers_follows_from_the_body_and_the_structure(ops):
    x = sg.constant(np.array([3, -2, 7]))
    assert range_of(ops.step(x, sg.arange(3))) == (-2 - 4, 7)
    assert range_of(ops.mirror(x)) == (-2, 7)
    assert range_of(ops.squares(x, (0,))) is None
    narrow = sg.constant(np.array([100, -100], np.int8))
    assert range_of(ops.step(narrow, narrow)) is None  # it wraps around


def test_operands_are_exchanged_where_the_record_allows_it(ops, xs):
    x, y = xs
    made = [ops.blend(x, y), ops.blend(y, x), ops.step(x, y), ops.step(y, x)]
    found = optimize(Graph(made, xs)).outputs
    assert found[0] is found[1]
    assert found[2] is not found[3]
    assert find_twins([t.node for t in made], []) == {made[1]: made[0]}


def _training(update: Callable[[sg.Variable, Tensor], Tensor]) -> Graph:
    table = sg.variable(RNG.normal(size=(60, 5)), name="table")
    i = sg.placeholder((4,), "int64")
    loss = sg.sin(sg.take(table, i, axis=0)).sum()
    (g,) = sg.gradients(loss, [table])
    assert g is not None
    return Graph([loss], [i], [Update(table, update(table, g))])


def _has_dense_gradient(graph: Graph) -> bool:
    nodes: Sequence[Tensor] = [n.output for n in graph.nodes if n.definition is scatter_add_op]
    return any(t.shape == (60, 5) for t in nodes)


def test_an_optimizer_made_of_it_moves_single_rows_where_the_body_allows_it(ops):
    graph = _training(ops.step)  # x - (0 + 0) is x
    sparse, dense = optimize(graph), optimize(graph, options=Options(skip=("row-updates",)))
    assert not _has_dense_gradient(sparse)
    assert _has_dense_gradient(dense)
    places = np.array([3, 7, 3, -1])
    (few,), (many,) = evaluate(sparse, [places])[1], evaluate(dense, [places])[1]
    np.testing.assert_array_equal(few, many)
    assert _has_dense_gradient(optimize(_training(lambda w, g: w - ops.inverse(g + 1.0))))


def test_a_side_of_where_that_was_not_taken_spoils_no_gradient(ops):
    x = sg.placeholder((3,), "float64")
    y = sg.where(x != 0.0, ops.inverse(x), 0.0)
    point = np.array([0.0, 1.0, 2.0])
    np.testing.assert_array_equal(value(gradient(y, x), {x: point}), [0.0, -1.0, -0.25])
