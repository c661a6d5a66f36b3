"""Fusion: what is computed together, and what is not.

The result is stated as the ops of each group, without those that only move elements.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.cost_model import CHEAP_FLOPS, MAX_NODES, MAX_STREAMS
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Node, Tensor
from symgrad.passes.fusion import fuse as fuse_module
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.fusion.partition import Partition
from tests.support.floors import run_everywhere
from tests.support.networks import random_network
from tests.support.programs import grouped_ops, lowered_from, partition_of
from tests.support.strategies import random_graph

X = sg.placeholder((16, 24), name="x")
Y = sg.placeholder((16, 24), name="y")
W = sg.placeholder((24, 24), name="w")


def reason(partition: Partition, tensor: Tensor) -> str:
    return partition.reasons[tensor]


# -------------------------------------------------------------------- into the group that uses it


def test_a_chain_of_maps_is_one_kernel():
    assert grouped_ops(partition_of(sg.tanh(X + Y) * 2)) == [["add", "tanh", "multiply"]]


def test_maps_before_and_after_a_sum_are_its_kernel():
    y = sg.exp(sg.sum(sg.tanh(X * Y), axis=1))
    assert grouped_ops(partition_of(y)) == [["multiply", "tanh", "sum", "exp"]]


def test_maps_after_a_product_are_its_kernel_and_those_before_are_not():
    y = sg.tanh(sg.sin(X) @ W) * Y
    partition = partition_of(y)
    assert grouped_ops(partition) == [["sin"], ["einsum", "tanh", "multiply"]]


def test_views_of_an_operand_cost_a_product_nothing():
    assert grouped_ops(partition_of(sg.flip(W, 0).T @ W[::-1])) == [["einsum"]]


def test_a_cheap_value_is_computed_by_each_kernel_that_uses_it():
    moved = X.T[::-1]
    partition = partition_of(sg.sum(moved, axis=0), sg.sum(moved, axis=1))
    assert grouped_ops(partition) == [["sum"], ["sum"]]
    assert all(moved.node in group.nodes for group in partition.groups)


def test_a_gather_is_computed_by_the_kernel_that_uses_it():
    i = sg.placeholder((5,), "int64")
    assert grouped_ops(partition_of(sg.sum(sg.take(X, i, axis=0) * 1.5, axis=1))) == [
        ["gather", "multiply", "sum"]
    ]


def test_a_position_is_computed_by_the_kernel_that_uses_it():
    partition = partition_of(sg.sum(sg.arange(10) * 3))
    assert len(partition.groups) == 1


# ------------------------------------------------------------------------ and what is kept apart


def test_a_value_that_costs_and_has_a_second_user_is_in_memory():
    t = sg.tanh(X)
    partition = partition_of(sg.sum(t, axis=0), sg.sum(t, axis=1))
    assert grouped_ops(partition) == [["tanh"], ["sum"], ["sum"]]
    assert reason(partition, t) == "2 kernels use it and it costs 20 flops an element"


def test_a_gather_with_a_second_user_is_in_memory():
    i = sg.placeholder((5,), "int64")
    taken = sg.take(X, i, axis=0)
    partition = partition_of(sg.sum(taken, axis=0), sg.sum(taken, axis=1))
    assert grouped_ops(partition) == [["gather"], ["sum"], ["sum"]]


def test_a_value_that_costs_and_is_repeated_along_an_axis_is_in_memory():
    row = sg.tanh(sg.placeholder((24,)))
    partition = partition_of(X * row)
    assert grouped_ops(partition) == [["tanh"], ["multiply"]]
    assert reason(partition, row) == (
        f"it is repeated along an axis and costs 20 flops an element, more than {CHEAP_FLOPS}"
    )


def test_a_value_that_costs_little_is_computed_again_along_an_axis():
    row = sg.placeholder((24,)) * sg.placeholder((24,))
    assert grouped_ops(partition_of(X + row)) == [["multiply", "add"]]


def test_the_operands_of_a_product_are_in_memory():
    partition = partition_of((X + Y) @ W)
    assert grouped_ops(partition) == [["add"], ["einsum"]]
    (added,) = partition.groups[0].outputs
    assert reason(partition, added) == "a product reads it many times"


def test_what_a_gather_reads_is_in_memory():
    i = sg.placeholder((5,), "int64")
    partition = partition_of(sg.take(X + Y, i, axis=0))
    assert grouped_ops(partition) == [["add"], ["gather"]]


def test_two_products_are_two_kernels():
    assert grouped_ops(partition_of(X @ W @ W)) == [["einsum"], ["einsum"]]


def test_two_sums_are_two_kernels():
    partition = partition_of(sg.sum(sg.sum(X, axis=1) * 2))
    assert grouped_ops(partition) == [["sum"], ["multiply", "sum"]]


def test_a_concatenation_ends_its_kernel():
    partition = partition_of(sg.tanh(sg.concat([X * 2, Y], axis=0)))
    assert grouped_ops(partition) == [["multiply", "concat"], ["tanh"]]


def test_a_kernel_takes_no_more_than_so_many_nodes():
    y = X
    for _ in range(3 * MAX_NODES):
        y = sg.sin(y)
    sizes = [len(group.nodes) for group in partition_of(y).groups]
    assert max(sizes) <= MAX_NODES
    assert len(sizes) == 3


# ------------------------------------------------------------------- into the group it reads from


def test_a_map_that_only_one_value_of_a_sum_feeds_is_its_epilogue():
    y = sg.sum(X, axis=1)
    partition = partition_of(y, sg.tanh(y))
    (group,) = partition.groups
    assert set(group.outputs) == set(partition.graph.outputs)


def test_several_results_of_the_same_elements_are_one_kernel():
    t = sg.tanh(X)
    partition = partition_of(t, t * Y, t + Y)
    (group,) = partition.groups
    assert set(group.outputs) == set(partition.graph.outputs)


def test_an_epilogue_that_views_the_result_is_a_kernel_of_its_own():
    y = X @ W
    partition = partition_of(sg.tanh(y.T), sg.tanh(sg.flip(y)))
    assert grouped_ops(partition) == [["einsum"], ["tanh"], ["tanh"]]


def test_an_epilogue_that_also_views_the_result_is_a_kernel_of_its_own():
    square = sg.placeholder((24, 24)) @ W
    assert grouped_ops(partition_of(square + square.T)) == [["einsum"], ["add"]]


def test_a_map_over_another_shape_is_no_epilogue():
    y = sg.sum(X, axis=1, keepdims=True)
    assert grouped_ops(partition_of(X / y)) == [["sum"], ["divide"]]


def test_a_map_is_not_merged_where_a_third_kernel_lies_between():
    t = sg.tanh(X)
    between = sg.sum(t, axis=1, keepdims=True)  # needs t, and is needed by the last
    partition = partition_of(t, t / between)
    assert grouped_ops(partition) == [["tanh"], ["sum"], ["divide"]]


def test_merging_goes_on_where_the_third_kernel_comes_before_both():
    row = sg.sum(Y, axis=1, keepdims=True)
    t = sg.tanh(X) * row
    partition = partition_of(t, t + row)
    assert grouped_ops(partition) == [["sum"], ["tanh", "multiply", "add"]]


def test_a_kernel_touches_no_more_than_so_many_buffers():
    shared = sg.tanh(X)
    outputs = [shared * sg.placeholder((16, 24)) for _ in range(2 * MAX_STREAMS)]
    for group in partition_of(shared, *outputs).groups:
        assert len(group.inputs) + len(group.outputs) <= MAX_STREAMS


def test_nothing_is_merged_into_what_is_written_piece_by_piece():
    joined = sg.concat([X, Y], axis=0)
    assert grouped_ops(partition_of(joined, joined + 1)) == [["concat"], ["add"]]
    i = sg.placeholder((3,), "int64")
    added = sg.scatter_add(X, i, sg.placeholder((3, 24)))
    assert grouped_ops(partition_of(added, sg.tanh(added))) == [["scatter_add"], ["tanh"]]


def test_a_softmax_is_four_kernels():
    assert grouped_ops(partition_of(sg.nn.softmax(X))) == [
        ["fmax"],
        ["stop_gradient", "subtract", "exp"],
        ["sum"],
        ["divide", "multiply"],
    ]


# -------------------------------------------------------------------------------------- reshapes


def test_a_reshape_of_a_result_shares_its_buffer():
    y = sg.tanh(X)
    flat = sg.reshape(y, (-1,))
    partition = partition_of(y, flat)
    assert len(partition.groups) == 1
    assert partition.stored(flat) is y


def test_a_reshape_of_an_input_takes_no_kernel():
    flat = sg.reshape(X, (-1,))
    partition = partition_of(sg.sum(flat))
    assert partition.stored(flat) is X
    assert grouped_ops(partition) == [["sum"]]


def test_a_reshape_of_an_input_that_is_a_result_is_copied():
    (group,) = partition_of(sg.reshape(X, (-1,))).groups
    assert [node.op for node in group.nodes] == ["reshape"]


def test_a_reshape_that_splits_an_axis_is_computed_where_it_is_used():
    split = sg.reshape(sg.tanh(X), (16, 4, 6))
    partition = partition_of(split * sg.placeholder((4, 1)))
    assert len(partition.groups) == 1


def test_a_reshape_that_merges_axes_is_computed_in_loops_over_those():
    moved = sg.reshape(sg.permute_dims(sg.placeholder((4, 5, 6)), (1, 0, 2)), (20, 6))
    (group,) = partition_of(sg.tanh(moved)).groups
    assert group.domain == (5, 4, 6)


def test_results_of_two_shapes_are_computed_in_loops_over_the_one_with_more_axes():
    flat = sg.tanh(sg.placeholder((20, 6)))
    split = sg.reshape(flat, (4, 5, 6)) * sg.placeholder((4, 1, 6))
    for outputs in ((flat, split), (split, sg.exp(sg.reshape(split, (20, 6))))):
        (group,) = partition_of(*outputs).groups
        assert group.domain == (4, 5, 6)
        assert set(group.outputs) == set(outputs)


def test_a_merged_axis_that_is_read_at_another_position_is_read_in_memory():
    moved = sg.reshape(sg.permute_dims(sg.placeholder((4, 5, 6)), (1, 0, 2)), (20, 6))
    assert len(partition_of(sg.tanh(sg.flip(moved, axis=0))).groups) == 2


# ------------------------------------------------------------------------------------ in general


some_programs = pytest.mark.parametrize("count", [8, pytest.param(30, marks=pytest.mark.slow)])


@cache
def programs(count: int) -> list[Graph]:
    seeds = range(count)
    found = [
        random_graph(np.random.default_rng(n), dtype=dtypes.float32, size=24)[0] for n in seeds
    ]
    return found + [random_network(np.random.default_rng(n), dtypes.float32)[0] for n in seeds]


@some_programs
def test_every_tensor_in_memory_is_written_by_one_group_before_it_is_read(count):
    for graph in programs(count):
        partition = fuse(graph)
        leaves = {n.output for n in graph.nodes if n.definition.is_leaf}
        written: set[Tensor] = set()
        for group in partition.groups:
            assert written >= {t for t in group.inputs if t not in leaves}
            assert not written & set(group.outputs)
            written |= set(group.outputs)
        for root in graph.roots:
            assert partition.stored(root) in written


@some_programs
def test_every_kernel_is_well_formed(count):
    for graph in programs(count):
        for lowered in lowered_from(*graph.outputs, updates=graph.updates):
            verify_kernel(lowered.kernel)


@some_programs
def test_a_group_is_in_the_order_in_which_it_can_be_computed(count):
    for graph in programs(count):
        for group in fuse(graph).groups:
            seen: set[Node] = set()
            for node in group.nodes:
                own = {t.node for t in node.inputs} & set(group.nodes)
                assert own <= seen
                seen.add(node)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_smaller_kernels_compute_the_same(limit, monkeypatch):
    x = sg.placeholder((3, 4))
    y = sg.tanh(sg.sin(x) * x + sg.exp(-x)) * sg.sum(sg.cos(x), axis=1, keepdims=True)
    graph = Graph([y, sg.sum(y)], [x])
    whole = len(fuse(graph).groups)
    monkeypatch.setattr(fuse_module, "MAX_NODES", limit)
    assert len(fuse(graph).groups) > whole
    array = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    assert run_everywhere(graph, [array], targets=["native"]) is None


def test_an_update_is_a_root_like_an_output():
    v = sg.variable(np.zeros((16, 24), np.float32))
    partition = partition_of(sg.sum(X, axis=1), updates=[Update(v, v + X)])
    assert sorted(grouped_ops(partition)) == [["add"], ["sum"]]
