"""What several kernels use and each computes again, and what stays in memory for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

import symgrad as sg
from symgrad.cost_model import FEW_OF_MEMORY
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Tensor
from symgrad.passes.fusion.fuse import fuse

X, Y = sg.placeholder((32, 64)), sg.placeholder((32, 64))
TALL = sg.placeholder((64, 32))
ROW = sg.placeholder((64,))
W = sg.variable(sg.run(sg.ones((32, 64))), name="w")


def _groups(shared: Tensor, inputs: Sequence[Tensor], updates: Sequence[Update] = ()) -> int:
    """Return how many kernels it takes to sum `shared` along one axis and then along the other."""
    return len(fuse(Graph([sg.sum(shared, 0), sg.sum(sg.tanh(shared), 1)], inputs, updates)).groups)


@pytest.mark.parametrize(
    "shared",
    [
        lambda: X - ROW,
        lambda: (X - ROW) * 2 + 1,
        lambda: sg.reshape(X, (8, 4, 64)) - ROW,
        lambda: W * ROW,
        lambda: X * X,
    ],
    ids=["centred", "chain", "reshaped", "variable", "square"],
)
def test_what_is_cheaply_made_of_one_tensor_is_computed_by_each_kernel(
    shared: Callable[[], Tensor],
) -> None:
    tensor = shared()
    assert _groups(tensor, [X, ROW]) == 2


@pytest.mark.parametrize(
    "shared",
    [
        lambda: sg.tanh(X),
        lambda: X + Y,
        lambda: ((((X - ROW) * 2 + 1) * ROW) - ROW) * ROW,
        lambda: TALL.T - ROW,
        lambda: sg.astype(X, "bfloat16") * 2,
    ],
    ids=["costly", "two", "long", "moved", "wider"],
)
def test_what_costs_more_than_it_saves_is_in_memory_for_all(
    shared: Callable[[], Tensor],
) -> None:
    assert _groups(shared(), [X, ROW, Y, TALL]) == 3


def test_what_two_sums_along_the_same_axes_read_is_computed_of_two_tensors_by_both() -> None:
    both = X * Y
    sums = [sg.sum(both), sg.sum(both * ROW)]
    assert len(fuse(Graph(sums, [X, Y, ROW])).groups) == 2
    assert len(fuse(Graph([*sums, sg.sum(sg.tanh(both))], [X, Y, ROW])).groups) == 4


def test_a_mask_made_of_indices_is_computed_by_each_kernel() -> None:
    mask = sg.arange(32)[:, None] >= sg.arange(64)
    assert _groups(sg.where(mask, X, 0.0), [X]) == 2
    found = fuse(
        Graph([sg.sum(sg.where(mask, X, 0.0), 0), sg.sum(sg.where(mask, Y, 1.0), 1)], [X, Y])
    )
    assert len(found.groups) == 2


def test_a_block_is_written_into_another_shape_of_a_tensor_in_memory() -> None:
    x = sg.placeholder((16, 400))
    base = sg.reshape(sg.tanh(x), (1, 16, 400))
    update = sg.reshape(sg.sum(base, -1), (1, 16, 1))
    found = fuse(Graph([sg.sum(base.at[:, :, :1].set(update) * 2)], [x]))
    assert list(found.rewriting.values()), "the copy that a scatter begins with is left out"


def test_an_old_value_is_read_before_it_is_written_over() -> None:
    moved = W - ROW
    assert _groups(moved, [ROW], [Update(W, W * 2)]) == 4


def test_a_layer_norm_and_its_gradient_keep_no_deviations() -> None:
    x, g = sg.placeholder((64, 256)), sg.placeholder((64, 256))
    scale = sg.variable(sg.run(sg.ones(256)), name="scale")
    y = sg.nn.layer_norm(x, scale, scale)
    step = sg.compile([x, g], [y, *sg.gradients(y, [x, scale], grad_ys=g)])
    whole = [b for b in step.memory.buffers if b.bytes >= 64 * 256 * 4]
    assert len(step.kernels) == 7
    assert whole == []


def test_what_is_a_small_share_of_memory_stays_there_and_nothing_is_drafted_anew() -> None:
    shared = X - ROW
    sums = [sg.sum(shared, 0), sg.sum(sg.tanh(shared), 1)]

    def kernels(others: int) -> int:
        beside = [sg.exp(Y * float(n + 1)) for n in range(others)]
        return len(fuse(Graph([*sums, *beside], [X, Y, ROW])).groups) - others

    assert kernels(FEW_OF_MEMORY // 4) == 2
    assert kernels(FEW_OF_MEMORY) == 3


def test_a_large_share_of_memory_in_few_tensors_is_computed_again() -> None:
    x, row = sg.placeholder((512, 1024)), sg.placeholder((1024,))
    shared = x - row
    beside = [sg.exp(ROW * float(n + 1)) for n in range(FEW_OF_MEMORY)]
    outputs = [sg.sum(shared, 0), sg.sum(sg.tanh(shared), 1), *beside]
    assert len(fuse(Graph(outputs, [x, row, ROW])).groups) == 2 + FEW_OF_MEMORY
