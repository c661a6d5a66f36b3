"""Convolutions with channels first are those with channels last, seen through permutations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.floors import program_for
from tests.support.samples import sample


def _first(x: Tensor) -> Tensor:
    return sg.permute_dims(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def _last(x: Tensor) -> Tensor:
    return sg.permute_dims(x, (0, *range(2, x.ndim), 1))


def _given(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize(("window", "settings"), [
    ((3, 3), {"padding": "SAME"}),
    ((3, 2), {"strides": 2, "padding": [(1, 0), (2, 1)]}),
    ((2, 2), {"dilation": (2, 1)}),
    ((3,), {"padding": "SAME", "strides": 2}),
    ((2, 2, 2), {}),
])  # fmt: skip
def test_both_layouts_give_the_same_bits(window, settings):
    space = (7, 6, 5)[: len(window)]
    x, kernel = map(sg.constant, _given((2, 16, *space), (24, 16, *window)))
    bias = sg.constant(_given((24,))[0])
    y = sg.nn.conv(x, kernel, bias, layout="NCHW", **settings)
    turned = sg.permute_dims(kernel, (*range(2, kernel.ndim), 1, 0))
    other = _first(sg.nn.conv(_last(x), turned, bias, **settings))
    found = sample([y, *sg.gradients((y * y).sum(), [x, kernel, bias])])
    wanted = sample([other, *sg.gradients((other * other).sum(), [x, kernel, bias])])
    for one, two in zip(found, wanted, strict=True):
        assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("channels", [4, 16])
def test_few_channels_and_many_agree_with_each_channel_alone(channels):
    x, kernel = map(sg.constant, _given((2, channels, 6, 5), (16, channels, 3, 3)))
    whole = sg.nn.conv(x, kernel, layout="NCHW")
    parts = [
        sg.nn.conv(x[:, i : i + 1], kernel[:, i : i + 1], layout="NCHW") for i in range(channels)
    ]
    found, wanted = sample([whole, sum(parts[1:], parts[0])])
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_between_two_layers_nothing_is_only_permuted():
    x = sg.placeholder((2, 16, 12, 12))
    kernels = [sg.placeholder((16, 16, 3, 3), name=name) for name in "ab"]
    last = [sg.placeholder((3, 3, 16, 16), name=name) for name in "cd"]
    h = sg.nn.relu(sg.nn.conv(x, kernels[0], layout="NCHW", padding="SAME"))
    first = Graph(sg.nn.conv(h, kernels[1], layout="NCHW", padding="SAME"), [x, *kernels])
    z = sg.placeholder((2, 12, 12, 16))
    h = sg.nn.relu(sg.nn.conv(z, last[0], padding="SAME"))
    plain = Graph(sg.nn.conv(h, last[1], padding="SAME"), [z, *last])
    counts = [len(program_for(graph).launches) for graph in (first, plain)]
    # Two kernels are permuted, and the result; the input is while it is padded.
    assert counts[0] - counts[1] <= 3


def test_errors_name_the_operands_as_they_were_given():
    x, kernel = sg.placeholder((2, 16, 8, 8)), sg.placeholder((16, 16, 3, 3))
    with pytest.raises(sg.ShapeError, match=r"x: f32\[2, 16, 8, 8\]"):
        sg.nn.conv(x, sg.placeholder((16, 17, 3, 3)), layout="NCHW")
    wrong: Any = "same"
    with pytest.raises(sg.ShapeError, match="conv: padding 'same' is none of"):
        sg.nn.conv(x, kernel, layout="NCHW", padding=wrong)
