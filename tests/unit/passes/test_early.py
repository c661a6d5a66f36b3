"""What is made where its operands are, since less is kept then, and what is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.passes.fusion.fuse import MADE_EARLY, PLACED_EARLY, fuse
from symgrad.passes.fusion.partition import Partition
from symgrad.passes.fusion.verify import verify_partition
from symgrad.passes.pipeline import optimize
from tests.support.floors import run_everywhere

W, V = sg.placeholder((16, 32), name="w"), sg.placeholder((32, 16), name="v")
X = sg.placeholder((24, 16), name="x")


def graph_of(activation: Callable[[Tensor], Tensor]) -> Graph:
    """Return a network of two layers with its gradients."""
    loss = sg.sum(sg.sin(activation(X @ W) @ V))
    found = sg.gradients(loss, [X, W, V])
    return Graph([loss, *(t for t in found if t is not None)], [X, W, V])


def drafted(graph: Graph) -> Partition:
    partition = fuse(optimize(graph))
    verify_partition(partition)
    return partition


def made_early(partition: Partition) -> list[Tensor]:
    return [t for t, reason in partition.reasons.items() if reason == MADE_EARLY]


def of_first_product(partition: Partition) -> int:
    """Return how many arrays the first product leaves in memory."""
    products = (g for g in partition.groups if g.anchor is not None and g.anchor.op == "einsum")
    return len(next(products).outputs)


@pytest.mark.parametrize("by_tanh", [False, True])
def test_of_a_gelu_its_slope_is_kept_beside_its_value(by_tanh):
    graph = graph_of(lambda x: sg.nn.gelu(x, approximate=by_tanh))
    partition = drafted(graph)
    (slope,) = made_early(partition)
    assert slope.type.static_shape == (24, 32)
    assert of_first_product(partition) == 2
    arrays = [np.random.default_rng(0).normal(size=t.shape).astype("float32") for t in (X, W, V)]
    different = run_everywhere(graph, arrays)
    assert different is None, different


def test_what_is_made_of_one_array_is_made_where_it_is_used():
    partition = drafted(graph_of(sg.tanh))
    assert made_early(partition) == []
    assert of_first_product(partition) == 1


def test_what_others_read_is_kept_anyway_and_nothing_beside_it():
    def parts(x: Tensor) -> Tensor:
        return sg.nn.gelu(x, approximate=True) + sg.sum(x * sg.tanh(x)[::-1])

    partition = drafted(graph_of(parts))
    assert made_early(partition) == []


@pytest.mark.parametrize("is_later", [False, True])
def test_what_needs_a_result_that_comes_later_is_not_made_early(is_later):
    x = X @ W
    first, second = sg.tanh(x), sg.exp(x)
    inner = first * second
    rows = sg.max(inner, axis=1, keepdims=True) if is_later else sg.placeholder((24, 1))
    folded = sg.sum(rows * first + second, axis=0)
    given = [] if is_later else [rows]
    partition = drafted(Graph([inner @ V, folded], [X, W, V, *given]))
    assert len(made_early(partition)) == (not is_later)


def concat_of(*, is_product_read: bool) -> Graph:
    """Return what is made of a product beside other rows, of which the product may be a result."""
    scale, other = sg.placeholder((24, 1), name="scale"), sg.placeholder((8, 32), name="other")
    product = X @ W
    joined = sg.concat([other, sg.tanh(product) * scale, -other], axis=0)
    outputs = [joined, product] if is_product_read else [joined]
    return Graph(outputs, [X, W, scale, other])


@pytest.mark.parametrize("is_product_read", [False, True])
def test_what_a_concat_takes_of_a_product_is_written_where_it_belongs(is_product_read):
    graph = concat_of(is_product_read=is_product_read)
    partition = drafted(graph)
    placed = [t for t, reason in partition.reasons.items() if reason == PLACED_EARLY]
    assert [t.node.op for t in placed] == ([] if is_product_read else ["multiply"])
    made = [t for group in partition.groups for t in group.outputs if t.node.op == "multiply"]
    assert made == placed or is_product_read
    random = np.random.default_rng(0)
    arrays = [random.normal(size=t.shape).astype("float32") for t in graph.inputs]
    different = run_everywhere(graph, arrays)
    assert different is None, different
