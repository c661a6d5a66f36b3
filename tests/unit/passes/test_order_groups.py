"""The order of groups, and which new values go over the old ones at once.

Whether a program is right is asked of all floors; how it is done is asked of the partition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Tensor
from symgrad.graph.ops.extern import extern_node
from symgrad.graph.ops.gathering import set_rows
from symgrad.graph.types import Array
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.fusion.order_groups import state_of
from symgrad.passes.fusion.verify import verify_partition
from symgrad.runtime.function import compile
from tests.support.floors import compile_for, run_everywhere, run_native, run_reference

X = sg.placeholder((4,), name="x")
ONE_TO_FOUR = np.arange(1, 5, dtype=np.float32)


def variable(name: str, shape: tuple[int, ...] = (4,), start: float = 1.0) -> sg.Variable:
    count = int(np.prod(shape))
    return sg.variable((start + np.arange(count, dtype=np.float32)).reshape(shape), name=name)


def in_place(graph: Graph) -> list[str | None]:
    """Return the names of the variables whose new value goes over the old one at once."""
    partition = fuse(graph)
    verify_partition(partition)
    return [u.variable.name for u in graph.updates if u in partition.in_place]


def assert_right(graph: Graph, *inputs: Array) -> None:
    different = run_everywhere(graph, inputs)
    assert different is None, different


def program(outputs: Any = (), updates: Any = (), inputs: Any = None) -> Graph:
    return Graph(outputs, inputs, [Update(v, t) for v, t in updates])


# ---------------------------------------------------------------------------------- in place


def test_a_new_value_made_of_the_old_one_element_by_element_is_in_place():
    a = variable("a")
    graph = program(updates=[(a, a * 0.5 + X)])
    assert in_place(graph) == ["a"]
    assert_right(graph, ONE_TO_FOUR)


def test_a_new_value_that_does_not_need_the_old_one_is_in_place():
    a = variable("a")
    graph = program(updates=[(a, sg.tanh(X))])
    assert in_place(graph) == ["a"]
    assert_right(graph, ONE_TO_FOUR)


def test_the_old_value_is_read_by_others_before_it_is_lost():
    a = variable("a")
    graph = program([sg.sum(a), a[::-1] * 2], [(a, a + X)])
    assert in_place(graph) == ["a"]
    assert_right(graph, ONE_TO_FOUR)


def test_the_epilogue_of_a_product_is_in_place():
    a = variable("a", (32, 32))
    x = sg.placeholder((32, 32))
    graph = program(updates=[(a, a - 0.1 * (x.T @ x))])
    assert in_place(graph) == ["a"]
    assert_right(graph, np.linspace(-1, 1, 1024, dtype=np.float32).reshape(32, 32))


def test_several_variables_are_in_place_together():
    m, v, w = variable("m"), variable("v"), variable("w")
    g = w * X
    new_m, new_v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    step = new_m / (sg.sqrt(new_v) + 1e-3)
    graph = program([sg.sum(g)], [(m, new_m), (v, new_v), (w, w - 0.1 * step)])
    assert in_place(graph) == ["m", "v", "w"]
    assert_right(graph, ONE_TO_FOUR)


def test_one_new_value_for_two_variables_is_in_place_in_both():
    a, b = variable("a"), variable("b", start=7)
    new = a * b
    graph = program([new], [(a, new), (b, new)])
    assert in_place(graph) == ["a", "b"]
    assert_right(graph)


def test_two_variables_that_change_places_element_by_element_are_in_place():
    # One kernel reads both elements before it writes either.
    a, b = variable("a"), variable("b", start=7)
    total = a + b
    graph = program(updates=[(a, total - a), (b, total - b)])
    assert in_place(graph) == ["a", "b"]
    assert_right(graph)


# -------------------------------------------------------------------------------- not in place


def test_two_variables_that_change_places_are_copied():
    a, b = variable("a"), variable("b", start=7)
    graph = program(updates=[(a, b), (b, a)])
    assert in_place(graph) == []
    assert_right(graph)


def test_three_variables_that_move_round_are_right():
    a, b, c = variable("a"), variable("b", start=7), variable("c", start=-4)
    graph = program([a, c], [(a, b), (b, c), (c, a)])
    assert_right(graph)


def test_two_that_need_each_other_are_not_both_in_place():
    a, b = variable("a", (4, 4)), variable("b", (4, 4), start=7)
    graph = program(updates=[(a, b.T + 1), (b, a.T * 2)])
    assert in_place(graph) != ["a", "b"]
    assert_right(graph)


def test_a_new_value_that_reads_other_elements_of_the_old_one_is_copied():
    a = variable("a")
    for new in (a[::-1] * 2, sg.roll(a, 1) + a, sg.sum(a) + a * 0):
        graph = program(updates=[(a, new)])
        assert_right(graph)
    assert in_place(program(updates=[(a, a[::-1] * 2)])) == []
    square = variable("square", (4, 4))
    assert in_place(program(updates=[(square, square.T)])) == []
    assert in_place(program(updates=[(square, square @ square)])) == []


def test_a_new_value_that_sees_the_old_one_in_another_shape_is_copied():
    a = variable("a", (2, 3))
    moved = sg.reshape(sg.reshape(a, (3, 2)).T, (2, 3))
    graph = program(updates=[(a, moved + 1)])
    assert_right(graph)


def test_a_new_value_that_is_a_leaf_is_copied():
    a, b, c = variable("a"), variable("b", start=7), variable("c")
    graph = program([a, b], [(a, X), (b, sg.constant(ONE_TO_FOUR)), (c, a)], inputs=[X])
    assert in_place(graph) == []
    assert_right(graph, ONE_TO_FOUR * 3)


def test_a_variable_that_stays_what_it_is_is_right():
    a = variable("a")
    assert_right(program([a], [(a, a)]))


def test_a_reader_that_needs_the_new_value_too_reads_the_old_one():
    # `late` reads the old a, and the new a is computed before: one of them needs a copy.
    a = variable("a")
    new = sg.tanh(a) * X
    late = sg.sum(new[::-1] * a[::-1])
    graph = program([late], [(a, new)])
    assert_right(graph, ONE_TO_FOUR)


# ------------------------------------------------------------------------ outputs and old values


def test_an_output_has_the_old_value_of_a_variable_that_is_updated():
    a = variable("a")
    graph = program([a, a + X, sg.reshape(a, (2, 2))], [(a, a * 2)])
    assert_right(graph, ONE_TO_FOUR)
    results = run_native(compile_for(graph), [ONE_TO_FOUR])
    np.testing.assert_array_equal(results.outputs[0], [1, 2, 3, 4])


def test_an_output_may_be_the_new_value_too():
    a = variable("a")
    new = a * 2
    graph = program([new, new[::-1]], [(a, new)])
    assert_right(graph)


# -------------------------------------------------------------------- what fails changes nothing


def fallible_programs() -> list[tuple[str, Graph, list[Array]]]:
    """Return steps that read the last index out of range, and update state."""
    i = sg.placeholder((3,), "int64", name="i")
    bad = np.array([0, 1, 4])
    found = []
    a, b = variable("a"), variable("b", start=7)
    taken = sg.take(X, i, axis=0)
    found.append(("before", program([taken], [(a, a + X)], inputs=[X, i])))
    found.append(("from it", program([], [(a, a + sg.sum(taken))], inputs=[X, i])))
    scattered = sg.scatter_add(a, i, taken)
    found.append(("into it", program([], [(a, scattered), (b, b * 2)], inputs=[X, i])))
    of_new = sg.take(a * X, i, axis=0)
    found.append(("of the new value", program([of_new], [(a, a * X)], inputs=[X, i])))
    later = sg.take(sg.tanh(a * X) + sg.sum(b), i, axis=0)
    found.append(("of both", program([later], [(a, sg.tanh(a * X)), (b, b + 1)], inputs=[X, i])))
    found.append(("swap", program([taken], [(a, b), (b, a)], inputs=[X, i])))
    return [(name, graph, [ONE_TO_FOUR, bad]) for name, graph in found]


@pytest.mark.parametrize(
    ("graph", "inputs"),
    [pytest.param(graph, inputs, id=name) for name, graph, inputs in fallible_programs()],
)
@pytest.mark.parametrize("opt_level", [0, 3])
def test_a_step_that_fails_leaves_all_state_as_it_was(graph, inputs, opt_level):
    verify_partition(fuse(graph))
    before = {v: v.value for v in graph.variables}
    step = compile(graph.inputs, graph.outputs, graph.updates, opt_level=opt_level)
    with pytest.raises(sg.IndexOutOfRangeError, match="index 4 is out of range"):
        step(*inputs)
    for v, value in before.items():
        np.testing.assert_array_equal(v.value, value)
    good = [inputs[0], np.array([3, -4, 0])]
    wanted = run_reference(graph, good)
    step(*good)
    for v in graph.variables:
        np.testing.assert_allclose(v.value, wanted.state[v.state], rtol=1e-6)
    for v, value in before.items():
        v.value = value


def test_what_may_fail_runs_before_any_state_changes():
    for name, graph, _ in fallible_programs():
        partition = fuse(graph)
        fallible = [
            n
            for n, group in enumerate(partition.groups)
            if any(node.op in ("gather", "scatter_add") for node in group.nodes)
        ]
        for update in partition.in_place:
            (writer,) = (
                n for n, group in enumerate(partition.groups) if update.value in set(group.outputs)
            )
            assert writer > max(fallible), name


# -------------------------------------------------------------------------------------- in general


def random_updates(seed: int) -> Graph:
    """Return a program of many variables of one shape that are made of one another."""
    rng = np.random.default_rng(seed)
    variables = [variable(f"v{n}", (3, 3), start=float(n)) for n in range(4)]
    pool: list[sg.Tensor] = [*variables]
    for _ in range(int(rng.integers(2, 10))):
        a, b = (pool[int(rng.integers(len(pool)))] for _ in range(2))
        made = (
            lambda a=a, b=b: sg.sin(a + b),
            lambda a=a: sg.tanh(a.T),
            lambda a=a, b=b: a @ b * 0.1,
            lambda a=a: a[::-1],
            lambda a=a: sg.sum(a, axis=0, keepdims=True) * 0.1 + sg.zeros((3, 3)),
            lambda a=a: sg.reshape(sg.reshape(a, (9,)) * 0.5, (3, 3)),
            lambda a=a: sg.take(a, [2, 0, 1], axis=0),
        )
        pool.append(made[int(rng.integers(len(made)))]())
    updates = [(v, pool[int(rng.integers(len(pool)))]) for v in variables]
    outputs = [pool[int(rng.integers(len(pool)))] for _ in range(2)]
    return program(outputs, updates)


# --------------------------------------------------------------- loop variables written into


ROWS = sg.placeholder((5, 4), name="rows")
PLACE = sg.placeholder((), "int64", name="place")


def is_over_its_input(following: Tensor, *others: Tensor) -> bool:
    """Return whether `following`, the next value of ROWS, is written over it."""
    graph = Graph([following, *others], [ROWS, X, PLACE])
    partition = fuse(graph, carried=[(0, 0)])
    verify_partition(partition)
    return dict(partition.overwriting) == {0: 0}


def test_rows_are_written_into_a_loop_variable_in_place():
    assert is_over_its_input(set_rows(ROWS, X * 2, [PLACE], 0))
    assert is_over_its_input(sg.scatter_add(ROWS, PLACE, X))


def test_rows_computed_from_a_loop_variable_are_written_in_place_when_they_are_known():
    assert is_over_its_input(set_rows(ROWS, sg.take(ROWS, PLACE - 1, axis=0), [PLACE], 0))
    assert is_over_its_input(set_rows(ROWS, ROWS[0] + ROWS[1], [PLACE], 0))
    assert is_over_its_input(set_rows(ROWS, X, [sg.astype(sg.sum(ROWS), "int64")], 0))


def test_a_loop_variable_is_read_by_others_before_rows_are_written():
    assert is_over_its_input(set_rows(ROWS, X, [PLACE], 0), sg.sum(ROWS, axis=1))
    graph = Graph([set_rows(ROWS, X, [PLACE], 0), sg.sum(ROWS)], [ROWS, X, PLACE])
    groups = fuse(graph, carried=[(0, 0)]).groups
    assert [g.nodes[-1].op for g in groups] == ["sum", "scatter_set"]


def test_rows_are_not_written_in_place_if_the_old_ones_are_needed_later():
    following = set_rows(ROWS, X, [PLACE], 0)
    assert not is_over_its_input(following, sg.sum(following) * sg.sum(ROWS, axis=1))


def test_rows_of_what_is_made_of_a_loop_variable_are_not_in_its_place():
    assert not is_over_its_input(set_rows(ROWS * 2, X, [PLACE], 0))
    assert not is_over_its_input(set_rows(sg.flip(ROWS, axis=0), X, [PLACE], 0))


def test_rows_written_twice_go_over_the_old_ones_the_second_time():
    first = set_rows(ROWS, X, [PLACE], 0)
    second = set_rows(first, X, [PLACE - 1], 0)
    assert is_over_its_input(second)
    partition = fuse(Graph([second], [ROWS, X, PLACE]), carried=[(0, 0)])
    assert [g.nodes[-1].op for g in partition.groups] == ["scatter_set", "scatter_set"]


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 24, 4))]
)
def test_random_updates_are_right_on_all_floors(first):
    for seed in range(first, first + 4):
        graph = random_updates(seed)
        verify_partition(fuse(graph))
        different = run_everywhere(graph, [], targets=["native"])
        assert different is None, f"seed {seed}: {different}"


def test_random_updates_are_in_place_and_not():
    counts = [len(fuse(random_updates(seed)).in_place) for seed in range(50)]
    assert min(counts) == 0
    assert max(counts) >= 3


def test_the_state_of_a_node_is_that_of_a_variable():
    a = variable("a")
    assert state_of(a.node) is a.state
    assert state_of(X.node) is None
    assert state_of((a + 1).node) is None


# ----------------------------------------------------------------------------- early calls


def started(x: Tensor) -> Tensor:
    """Return what a call that is best made early makes of `x`."""
    function = ForeignFunction("start", when="early")
    return extern_node(function, [x], [x.type], copied=[(0, 0)]).output


def test_what_makes_little_of_much_runs_as_soon_as_it_can_before_what_early_calls_need():
    x, w = sg.placeholder((64, 64)), sg.placeholder((64, 64))
    slopes = sg.cumsum(x, axis=0)
    first = started(slopes @ w)
    second = started(sg.sum(slopes, axis=0))
    groups = fuse(program([first, second], inputs=[x, w])).groups
    found = [group.anchor.op for group in groups if group.anchor is not None]
    assert found == ["cumsum", "sum", "einsum", "extern", "extern"]


def test_what_makes_as_much_as_it_reads_waits_for_its_early_call():
    x, w = sg.placeholder((64, 64)), sg.placeholder((64, 64))
    slopes = sg.cumsum(x, axis=0)
    first = started(slopes @ w)
    second = started(sg.sum(slopes.reshape((32, 2, 64)), axis=1))
    groups = fuse(program([first, second], inputs=[x, w])).groups
    found = [group.anchor.op for group in groups if group.anchor is not None]
    assert found == ["cumsum", "einsum", "extern", "sum", "extern"]
