"""What convolution and pooling refuse: the function that was called, both values, the line."""

from __future__ import annotations

from typing import Any

import pytest

import symgrad as sg
from symgrad.errors import SymgradError

nn = sg.nn
X = sg.placeholder((2, 5, 6, 4), name="x")
K = sg.placeholder((3, 3, 4, 8), name="k")
ROW = sg.placeholder((2, 5, 4), name="row")
B = sg.placeholder((2, 4, 4, 1), "bool", name="b")
LAYOUT: Any = "NWHC"

REFUSED = {
    "conv2d: x: f32[2, 5, 4] has 1 axes of space beside batch and channels, not 2": (
        lambda: nn.conv2d(ROW, K)
    ),
    "conv: 4 channels of x are not 2 groups of 4: x: f32[2, 5, 6, 4], kernel: f32[3, 3, 4, 8]": (
        lambda: nn.conv(X, K, groups=2)
    ),
    "conv: 3 filters do not divide into 2 groups: x: f32[2, 5, 6, 4], kernel: f32[3, 3, 2, 3]": (
        lambda: nn.conv(X, sg.ones((3, 3, 2, 3)), groups=2)
    ),
    "conv: groups 0 is no positive integer": lambda: nn.conv(X, K, groups=0),
    "conv: a window reaches over 7 elements, and there are 5 in axis 1 of x: f32[2, 5, 6, 4]": (
        lambda: nn.conv(X, sg.ones((7, 1, 4, 8)))
    ),
    "conv: a window reaches over 9 elements, and there are 5 in axis 1 of x: f32[2, 5, 6, 4], "
    "7 with padding": lambda: nn.conv(X, K, dilation=4, padding=[(1, 1), (9, 9)]),
    "conv: strides 0 is less than 1": lambda: nn.conv(X, K, strides=0),
    "conv: strides (1, 2, 3) is no integer, nor one for each axis of space, 2": (
        lambda: nn.conv(X, K, strides=(1, 2, 3))
    ),
    "conv: dilation 1.5 is no integer, nor one for each axis of space, 2": (
        lambda: nn.conv(X, K, dilation=1.5)
    ),
    "conv: padding 'same' is none of VALID, SAME, no integer, and no sequence of 2 integers or "
    "pairs (before, after)": lambda: nn.conv(X, K, padding="same"),
    "avg_pool: padding [1] is none of VALID, SAME, no integer, and no sequence of 2 integers or "
    "pairs (before, after)": lambda: nn.avg_pool(X, 2, padding=[1]),
    "avg_pool: padding True is none of VALID, SAME, no integer, and no sequence of 2 integers or "
    "pairs (before, after)": lambda: nn.avg_pool(X, 2, padding=True),
    "conv1d: padding (1, 2) is none of VALID, SAME, no integer, and no sequence of one integer or "
    "pair (before, after)": lambda: nn.conv1d(ROW, sg.ones((3, 4, 1)), padding=(1, 2)),
    "conv: padding -1 is negative": (lambda: nn.conv(X, K, padding=-1)),
    "conv: padding [(1, -1), (0, 0)] is negative": (
        lambda: nn.conv(X, K, padding=[(1, -1), (0, 0)])
    ),
    "conv: layout is 'NWHC', neither 'NHWC' nor 'NCHW'": lambda: nn.conv(X, K, layout=LAYOUT),
    "conv: bias: f32[3] has not one element for each of 8 filters": (
        lambda: nn.conv(X, K, sg.ones(3))
    ),
    "conv: ranks differ: x: f32[2, 5, 6, 4], kernel: f32[3, 4, 8], "
    "which is (*window, channels, filters)": lambda: nn.conv(X, sg.ones((3, 4, 8))),
    "conv: x: f32[2, 4] has not a batch, channels, and 1 to 3 axes of space": (
        lambda: nn.conv(sg.ones((2, 4)), K)
    ),
    "conv_transpose: 4 channels of x, and 8 of kernel: "
    "x: f32[2, 5, 6, 4], kernel: f32[3, 3, 4, 8]": lambda: nn.conv_transpose(X, K),
    "conv_transpose: padding leaves none of the 7 results along axis 1": (
        lambda: nn.conv_transpose(X, sg.ones((3, 3, 1, 4)), padding=[(4, 4), (0, 0)])
    ),
    "conv_transpose: output_padding -1 is less than 0": (
        lambda: nn.conv_transpose(X, sg.ones((3, 3, 1, 4)), output_padding=-1)
    ),
    "max_pool: a window reaches over 6 elements, and there are 5 in axis 1 of x: "
    "f32[2, 5, 6, 4]": lambda: nn.max_pool(X, 6),
    "max_pool: padding by 2 in axis 1 of x: f32[2, 5, 6, 4] leaves windows that reach over 2 "
    "without an element": lambda: nn.max_pool(X, 2, padding=[(2, 0), (0, 0)]),
    "max_pool: x: bool[2, 4, 4, 1] is no number": lambda: nn.max_pool(B, 2),
    "max_pool: window 0 is less than 1": lambda: nn.max_pool(X, 0),
    "avg_pool: window (2,) is no integer, nor one for each axis of space, 2": (
        lambda: nn.avg_pool(X, (2,))
    ),
    "lp_pool: p is 0, it must be positive": lambda: nn.lp_pool(X, 0, 2),
    "lp_pool: p is nan, it must be positive": lambda: nn.lp_pool(X, float("nan"), 2),
    "lp_pool: p is True, not a number": lambda: nn.lp_pool(X, True, 2),
    "lp_pool: a window reaches over 6 elements, and there are 5 in axis 1 of x: "
    "f32[2, 5, 6, 4]": lambda: nn.lp_pool(X, 2, 6),
    "adaptive_avg_pool: size 0 is less than 1": lambda: nn.adaptive_avg_pool(X, 0),
    "adaptive_max_pool: axis 1 of x: f32[2, 0, 3] has no elements": (
        lambda: nn.adaptive_max_pool(sg.ones((2, 0, 3)), 2)
    ),
    "unfold: strides -1 is less than 1": lambda: nn.unfold(X, 2, strides=-1),
    "fold: y: f32[2, 3, 2, 4] are no windows of that size, which have the shape of "
    "f32[2, 4, 2, 4]": lambda: nn.fold(sg.ones((2, 3, 2, 4)), 5, 2),
    "fold: y: f32[2, 5, 4] has not batch, channels, and windows of 1 to 3 axes of space": (
        lambda: nn.fold(ROW, 5, 2)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_layers_over_space_say_what_does_not_fit(message):
    with pytest.raises(SymgradError) as found:
        REFUSED[message]()
    first, line = str(found.value).splitlines()[:2]
    assert first == message
    assert line.startswith("  --> test_space_messages.py:")


def test_padding_by_its_name_in_other_letters():
    with pytest.raises(SymgradError) as found:
        nn.conv(X, K, padding="same")
    assert found.value.hint == "write 'SAME'"
