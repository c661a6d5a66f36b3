"""Buffers: results go straight where they are wanted, and everything has one place to be read."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Tensor
from symgrad.passes.fusion.buffers import Buffers, assign_buffers
from symgrad.passes.fusion.fuse import fuse
from tests.support.floors import run_everywhere
from tests.support.networks import random_network
from tests.support.strategies import random_graph

X = sg.placeholder((4,), name="x")
W = sg.placeholder((4, 4), name="w")
FOUR = np.arange(1, 5, dtype=np.float32)


def buffers_of(graph: Graph) -> Buffers:
    return assign_buffers(fuse(graph))


def places(buffers: Buffers, tensor: Tensor) -> list[str]:
    return [str(b) for b in buffers.destinations[tensor]]


def variable(name: str) -> sg.Variable:
    return sg.variable(FOUR, name=name)


# ------------------------------------------------------------------------------------- outputs


def test_a_result_is_written_to_the_callers_array():
    y = sg.tanh(X)
    buffers = buffers_of(Graph([y]))
    assert places(buffers, y) == ["output0"]
    assert buffers.temporaries == 0


def test_a_tensor_that_is_two_outputs_is_written_to_both():
    y = sg.tanh(X)
    graph = Graph([y, X * 2, y])
    assert places(buffers_of(graph), y) == ["output0", "output2"]
    assert run_everywhere(graph, [FOUR]) is None


def test_a_result_that_is_read_again_is_read_from_the_callers_array():
    y = sg.tanh(W)
    buffers = buffers_of(Graph([y, y @ y]))
    assert str(buffers.source[y]) == "output0"
    assert buffers.temporaries == 0


def test_a_result_in_two_shapes_is_written_to_both():
    y = sg.tanh(W)
    graph = Graph([y, sg.reshape(y, (16,))])
    assert places(buffers_of(graph), y) == ["output0", "output1"]
    assert run_everywhere(graph, [np.eye(4, dtype=np.float32)]) is None


def test_an_output_that_is_an_input_a_constant_or_a_variable_is_a_copy():
    v = variable("v")
    constant = sg.constant([5.0, 6.0])
    graph = Graph([X, constant, v, X])
    buffers = buffers_of(graph)
    assert places(buffers, X) == ["output0", "output3"]
    assert places(buffers, constant) == ["output1"]
    assert places(buffers, v) == ["output2"]
    assert run_everywhere(graph, [FOUR]) is None


def test_a_leaf_that_is_a_result_is_still_read_where_it_is():
    y = sg.exp(X)
    buffers = buffers_of(Graph([X, y]))
    assert str(buffers.source[X]) == "input0"


# -------------------------------------------------------------------------------- inner results


def test_what_only_another_kernel_reads_is_a_temporary():
    y = sg.tanh(W)
    buffers = buffers_of(Graph([y @ y]))
    assert places(buffers, y) == ["temporary0"]
    assert buffers.temporaries == 1


@pytest.mark.parametrize("count", [12, pytest.param(40, marks=pytest.mark.slow)])
def test_every_tensor_that_is_read_has_one_source(count):
    for seed in range(count):
        rng = np.random.default_rng(seed)
        graph, _ = (
            random_network(rng, dtypes.float32)
            if seed % 4 == 0
            else random_graph(rng, dtype=dtypes.float32, size=15)
        )
        partition = fuse(graph)
        buffers = assign_buffers(partition)
        for group in partition.groups:
            assert all(t in buffers.source for t in group.inputs)
            for tensor in group.outputs:
                places = buffers.destinations[tensor]
                assert places
                assert all(b.type.count == tensor.type.count for b in places)
                assert group.nodes == () or buffers.source[tensor] is places[0]
        numbers = {
            b.number for bs in buffers.destinations.values() for b in bs if b.place == "temporary"
        }
        assert numbers == set(range(buffers.temporaries))


# ---------------------------------------------------------------------------- constants, state


def test_equal_constants_share_a_buffer():
    a, b, c = sg.constant([1.0, 2.0]), sg.constant([1.0, 2.0]), sg.constant([1.0, 3.0])
    x = sg.placeholder((2,))
    buffers = buffers_of(Graph([(x * a + b) * c]))
    assert len(buffers.constants) == 2
    assert buffers.source[a] is buffers.source[b]


def test_constants_that_differ_in_the_sign_of_zero_do_not():
    x = sg.placeholder((2,))
    buffers = buffers_of(Graph([x / sg.constant([0.0, 1.0]), x / sg.constant([-0.0, 1.0])]))
    assert len(buffers.constants) == 2


def test_a_variable_that_is_only_updated_has_a_buffer():
    v = variable("v")
    buffers = buffers_of(Graph([], updates=[Update(v, sg.tanh(X))]))
    assert buffers.variables == (v.state,)


def test_a_new_value_in_place_is_written_to_the_variable():
    v = variable("v")
    new = v + X
    buffers = buffers_of(Graph([], updates=[Update(v, new)]))
    assert places(buffers, new) == ["variable0"]
    assert buffers.late == ()


def test_a_new_value_that_is_an_output_too_is_written_to_both():
    v = variable("v")
    new = v + X
    buffers = buffers_of(Graph([new], updates=[Update(v, new)]))
    assert places(buffers, new) == ["output0", "variable0"]


def test_a_new_value_that_must_wait_is_a_temporary_copied_at_the_end():
    v = variable("v")
    new = v[::-1] * 2
    buffers = buffers_of(Graph([], updates=[Update(v, new)]))
    assert places(buffers, new) == ["temporary0"]
    assert [(str(a), str(b)) for a, b in buffers.late] == [("temporary0", "variable0")]


def test_a_new_value_that_must_wait_and_is_an_output_is_copied_from_there():
    v = variable("v")
    new = v[::-1] * 2
    graph = Graph([new], updates=[Update(v, new)])
    buffers = buffers_of(graph)
    assert places(buffers, new) == ["output0"]
    assert [(str(a), str(b)) for a, b in buffers.late] == [("output0", "variable0")]
    assert run_everywhere(graph, []) is None


def test_a_variable_set_to_an_input_or_to_another_variable_is_copied_twice():
    # The first copy keeps what it was: another variable may have changed before the second.
    a, b = variable("a"), variable("b")
    graph = Graph([a], [X], [Update(a, X), Update(b, a)])
    buffers = buffers_of(graph)
    assert places(buffers, X) == ["temporary0"]
    assert places(buffers, a) == ["temporary1", "output0"]
    assert [str(to) for _, to in buffers.late] == ["variable0", "variable1"]
    assert run_everywhere(graph, [FOUR * 3]) is None


def test_a_variable_set_to_a_constant_is_right():
    v = variable("v")
    graph = Graph([v], [], [Update(v, sg.zeros((4,)) + 0)])
    assert run_everywhere(graph, []) is None
