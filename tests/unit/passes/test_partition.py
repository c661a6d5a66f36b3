"""Partitions: well formed for random programs, and known to be ill formed when they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.frontend.iteration import while_loop
from symgrad.frontend.state import variable
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.gathering import gather
from symgrad.graph.ops.slicing import flip
from symgrad.graph.ops.structure import broadcast_to, reduce_sum
from symgrad.graph.ops.transcendental import exp, tanh
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.fusion.partition import Partition
from symgrad.passes.fusion.verify import groups_needed, verify_partition
from symgrad.passes.pipeline import optimize
from tests.support.strategies import graphs

TEXT = """
graph @step(%x: f32[8, 64]) -> f32[8], f32[8, 1] {
  %w = variable {name = "w", trainable = true} : f32[8, 64]
  %0 = exp %x : f32[8, 64]
  %1 = sum %0 {axes = [1]} : f32[8]
  %2 = sum %0 {axes = [0]} : f32[64]
  %3 = broadcast_to %2 {shape = [8, 64]} : f32[8, 64]
  %4 = multiply %w, %3 : f32[8, 64]
  %5 = reshape %1 {shape = [8, 1]} : f32[8, 1]
  update %w = %4
  return %1, %5
}
"""


@pytest.fixture
def partition() -> Partition:
    return fuse(Graph.parse(TEXT))


@pytest.mark.parametrize("count", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_partitions_of_random_programs_are_well_formed(count):
    @settings(max_examples=count)
    @given(graphs(max_size=30))
    def check(drawn):
        for program in (drawn[0], optimize(drawn[0])):
            verify_partition(fuse(program))

    check()


@given(graphs(dtype=dtypes.int32, max_size=30))
@settings(max_examples=50)
def test_partitions_of_random_programs_over_integers_are_well_formed(drawn):
    verify_partition(fuse(drawn[0]))


def many_updates(seed: int) -> Graph:
    """Return a program of elementwise ops, flips, sums and gathers that updates four variables."""
    rng = np.random.default_rng(seed)
    variables = [variable(np.zeros(5, np.float32), name=f"v{i}") for i in range(4)]
    places = placeholder((5,), "int64")
    tensors: list[Tensor] = list(variables)
    for _ in range(int(rng.integers(1, 12))):
        x, y = (tensors[i] for i in rng.integers(0, len(tensors), 2))
        choices = (
            lambda x=x, y=y: add(x, y),
            lambda x=x: tanh(x),
            lambda x=x: flip(x),
            lambda x=x: broadcast_to(reduce_sum(x, (0,)), (5,)),
            lambda x=x: gather(x, [places], 0),
        )
        tensors.append(choices[rng.choice(5, p=(0.4, 0.2, 0.15, 0.15, 0.1))]())
    values = [tensors[i] for i in rng.integers(0, len(tensors), 4)]
    updates = [Update(v, value) for v, value in zip(variables, values, strict=True)]
    return Graph(tensors[-1], [places], updates)


@pytest.mark.parametrize("count", [80, pytest.param(200, marks=pytest.mark.slow)])
def test_updates_in_place_wait_for_all_who_read_or_can_fail(count):
    @settings(max_examples=count)
    @given(st.integers(0, 2**32 - 1))
    def check(seed):
        verify_partition(fuse(many_updates(seed)))

    check()


def test_many_updates_are_in_place_and_many_are_not():
    partitions = [fuse(many_updates(seed)) for seed in range(50)]
    in_place = sum(len(p.in_place) for p in partitions)
    assert 50 < in_place < 150


def test_groups_wait_for_those_whose_results_they_read(partition):
    verify_partition(partition)
    names = [group.nodes[-1].op for group in partition.groups]
    waits = [(names[a], names[b]) for b, of in groups_needed(partition).items() for a in of]
    assert sorted(waits) == [("exp", "sum"), ("exp", "sum"), ("sum", "multiply")]


def test_the_text_says_what_is_computed_where_and_why(partition):
    text = str(partition)
    assert text.startswith("partition @step(%x: f32[8, 64]) {\n  %w = variable")
    assert "  // %0 is in memory: 2 kernels use it and it costs 12 flops an element\n" in text
    assert "  %2 = reshape %1 {shape = [8, 1]} : f32[8, 1]  // in the memory of %1\n" in text
    assert "  update in place %w = %5\n" in text
    assert text.endswith("  return %1, %2\n}\n")


def test_a_large_constant_is_left_out_of_the_text():
    values = ", ".join("1.0" for _ in range(100))
    graph = Graph.parse(
        f"graph @f() -> f32[100] {{\n  %0 = constant {{value = [{values}]}} : f32[100]\n"
        "  %1 = exp %0 : f32[100]\n  return %1\n}\n"
    )
    assert "%0 = constant {value = <elided 100>} : f32[100]" in str(fuse(graph))


def refuse(partition: Partition, reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        verify_partition(partition)


def test_a_group_before_the_one_it_needs_is_refused(partition):
    refuse(replace(partition, groups=partition.groups[::-1]), "runs before one it needs")


def test_a_tensor_with_two_homes_is_refused(partition):
    refuse(replace(partition, groups=(*partition.groups, partition.groups[0])), "by two groups")


def test_a_result_that_no_group_computes_is_refused(partition):
    kept = tuple(g for g in partition.groups if g.nodes[-1].op != "multiply")
    refuse(replace(partition, groups=kept, in_place=frozenset()), "no group leaves it in memory")


def test_an_operand_that_is_not_read_is_refused(partition):
    first, *rest = partition.groups
    refuse(replace(partition, groups=(replace(first, inputs=()), *rest)), "it reads")


def test_a_result_that_is_not_computed_is_refused(partition):
    first, *rest = partition.groups
    empty = replace(first, outputs=rest[0].outputs)
    refuse(replace(partition, groups=(empty, *rest)), "by two groups|without computing it")


def test_loops_over_another_number_of_elements_are_refused(partition):
    maps = [group for group in partition.groups if group.anchor is None]
    others = [group for group in partition.groups if group not in maps]
    wrong = replace(maps[0], domain=(7,))
    refuse(replace(partition, groups=(wrong, *maps[1:], *others)), "its loops make 7 elements")


def test_groups_that_wait_for_each_other_are_refused():
    graph = Graph.parse(
        "graph @f(%x: f32[8]) -> f32[8], f32[8] {\n  %0 = exp %x : f32[8]\n"
        "  %1 = sum %0 {axes = [0]} : f32[]\n  %2 = broadcast_to %1 {shape = [8]} : f32[8]\n"
        "  %3 = multiply %0, %2 : f32[8]\n  return %0, %3\n}\n"
    )
    partition = fuse(graph)
    verify_partition(partition)
    first, middle, last = partition.groups
    joined = replace(
        first,
        nodes=(*first.nodes, *last.nodes),
        outputs=(*first.outputs, *last.outputs),
        inputs=tuple(dict.fromkeys((*first.inputs, *middle.outputs))),
    )
    refuse(replace(partition, groups=(joined, middle)), "groups wait for each other")


@pytest.mark.parametrize(
    ("operand", "reason"),
    [
        ("slice %w {size = [8], start = [7], step = [-1]}", "reads other elements of it"),
        ("sum %w {axes = [0]}", "before group 1 reads it"),
    ],
)
def test_an_update_in_place_too_early_is_refused(operand, reason):
    shape = "[]" if operand.startswith("sum") else "[8]"
    value = "exp %w" if operand.startswith("sum") else "exp %0"
    graph = Graph.parse(
        f"graph @f() -> f32{shape} {{\n"
        '  %w = variable {name = "w", trainable = true} : f32[8]\n'
        f"  %0 = {operand} : f32{shape}\n  %1 = {value} : f32[8]\n"
        "  update %w = %1\n  return %0\n}\n"
    )
    partition = fuse(graph)
    verify_partition(partition)
    in_place = frozenset(graph.updates)
    writers = [g for g in partition.groups if graph.updates[0].value in set(g.outputs)]
    others = [g for g in partition.groups if g not in writers]
    refuse(replace(partition, groups=(*writers, *others), in_place=in_place), reason)


BODY = """
graph @body(%p0: f32[8], %p1: f32[8]) -> f32[8], f32[8], f32[8] {
  %0 = VALUE : f32[8]
  %1 = multiply %p0, %p1 : f32[8]
  return %0, %1, %p0
}
"""


def test_a_group_may_record_a_loop_variable_that_it_reads():
    partition = fuse(Graph.parse(BODY.replace("VALUE", "exp %p0")), carried=[(0, 0)])
    (group,) = partition.groups
    assert partition.graph.inputs[0] in set(group.outputs)
    verify_partition(partition)
    refuse(replace(partition, groups=(replace(group, inputs=()),)), "it reads")


def test_a_loop_variable_that_is_overwritten_too_early_is_refused():
    value = "slice %p0 {size = [8], start = [7], step = [-1]}"
    partition = fuse(Graph.parse(BODY.replace("VALUE", value)), carried=[(0, 0)])
    verify_partition(partition)
    assert partition.overwriting == {}
    refuse(replace(partition, overwriting={0: 0}), "overwrites .* reads")


def test_what_is_nested_may_give_results_of_different_sizes():
    x = placeholder((8,), name="x")
    (y,) = while_loop(lambda v: reduce_sum(v, (0,)) < 9.0, lambda v: (exp(v),), (x,))
    partition = fuse(Graph([y], [x]))
    assert {t.type.count for t in partition.groups[0].outputs} == {1, 8}
    verify_partition(partition)
