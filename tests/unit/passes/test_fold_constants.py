"""What is folded into a constant, and what must stay for the program not to grow."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.cost_model import MAX_FOLDED, SMALL_CONSTANT
from symgrad.frontend.state import variable
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.contraction import matmul, outer
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.gathering import gather, iota
from symgrad.graph.ops.indexing import one_hot
from symgrad.graph.ops.slicing import concat, slice_axes
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reduce_sum
from symgrad.graph.ops.transcendental import exp
from symgrad.graph.reference import evaluate
from symgrad.graph.types import ArrayLiteral
from symgrad.passes.rewrites.fold_constants import fold_constants
from symgrad.passes.rewrites.rewrite import Rewrites


def folded(*outputs: Tensor) -> Graph:
    return fold_constants(Graph(outputs), Rewrites())


def bytes_of(graph: Graph) -> int:
    """Return the bytes of all constants."""
    values = (node.attrs.get("value") for node in graph.nodes if node.op == "constant")
    return sum(v.array.nbytes for v in values if isinstance(v, ArrayLiteral))


def is_folded(tensor: Tensor) -> bool:
    return folded(tensor).outputs[0].node.op == "constant"


@pytest.mark.parametrize(
    "program",
    [
        exp(constant([1.0, 2.0])),
        matmul(constant(np.ones((3, 4))), constant(np.ones((4, 5)))),
        reduce_sum(constant(np.ones((30, 40))), (0, 1)),
        permute_dims(constant(np.ones((3, 4))), (1, 0)),
        concat([constant([1.0]), constant([2.0])]),
        one_hot(constant([0, 2]), 3),
        gather(constant([1.0, 2.0, 3.0]), [constant([2, 0], "int64")], 0),
        add(filled((8,), 1.0, constant(1.0).dtype), constant(np.arange(8, dtype=np.float32))),
    ],
    ids=lambda t: t.node.op,
)
def test_what_is_known_and_small_is_folded_to_the_same_bits(program):
    (wanted,), _ = evaluate(Graph(program), [])
    graph = folded(program)
    assert [node.op for node in graph.nodes] == ["constant"]
    (found,), _ = evaluate(graph, [])
    assert found.tobytes() == wanted.tobytes()


def test_a_chain_is_folded_to_its_end_only():
    x = placeholder((2,), name="x")
    graph = folded(multiply(x, exp(exp(exp(constant([0.0, 1.0]))))))
    assert [node.op for node in graph.nodes] == ["placeholder", "constant", "multiply"]


@pytest.mark.parametrize(
    "program",
    [
        broadcast_to(constant(1.0), (SMALL_CONSTANT + 1,)),
        broadcast_to(constant(1.0), (4,)),
        iota((8,), 0),
        iota((SMALL_CONSTANT, 2), 1),
        outer(constant(np.ones(100)), constant(np.ones(100))),
        slice_axes(constant(np.ones(2 * SMALL_CONSTANT)), (0,), (SMALL_CONSTANT + 1,), (1,)),
        exp(broadcast_to(constant(1.0), (SMALL_CONSTANT + 1,))),
        gather(constant([1.0]), [constant([3], "int64")], 0),
    ],
    ids=lambda t: f"{t.node.op} {t.type}",
)
def test_what_would_grow_or_costs_nothing_or_fails_stays(program):
    assert not is_folded(program)


def test_a_large_constant_is_mapped_if_it_does_not_grow():
    large = constant(np.zeros(SMALL_CONSTANT + 1, np.float32))
    assert is_folded(exp(large))
    assert bytes_of(folded(exp(large))) == bytes_of(Graph(large))


def test_compiling_does_not_become_computing():
    huge = constant(np.zeros(MAX_FOLDED + 1, np.int8))
    assert not is_folded(reduce_sum(huge, (0,)))


def test_state_and_inputs_are_not_known():
    w = variable([1.0, 2.0])
    assert not is_folded(exp(w))
    assert not is_folded(exp(placeholder((2,))))


def test_folds_are_counted_and_stop_at_the_limit():
    program = Graph(exp(exp(constant(1.0))))
    rewrites = Rewrites()
    fold_constants(program, rewrites)
    assert rewrites.count == 2
    once = fold_constants(program, Rewrites(limit=1))
    assert [node.op for node in once.nodes] == ["constant", "exp"]


def test_nothing_is_written_into_the_constants_of_the_user():
    given = constant([1.0, 2.0])
    folded(exp(given))
    value = given.node.attrs["value"]
    assert isinstance(value, ArrayLiteral)
    np.testing.assert_array_equal(value.array, np.array([1.0, 2.0], np.float32))
