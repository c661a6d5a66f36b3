"""What layers refuse: the full text of each error, with the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.refusals import assert_refused

X = sg.placeholder((3, 4), name="x")
IMAGES = sg.placeholder((2, 5, 6, 4), name="images")
N = sg.placeholder((None, None, 4), name="n")
KEY = sg.random.key(0)
WEIGHTS = np.ones(3, np.float32)
NO_METHOD: Any = "lanczos"
NO_LAYOUT: Any = "CHW"
NO_COUNT: Any = 2.0

_ROWS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: sg.nn.layer_norm(X, WEIGHTS), sg.ShapeError,
     "layer_norm: scale: f32[3] has not the shape [4] of axis 1 of x: f32[3, 4]"),
    (lambda: sg.nn.layer_norm(X, bias=np.ones((4, 3)), axis=(0, 1)), sg.ShapeError,
     "layer_norm: bias: f64[4, 3] has not the shape [3, 4] of axes [0, 1] of x: f32[3, 4]"),
    (lambda: sg.nn.layer_norm(X, axis=2), sg.ShapeError,
     "layer_norm: axis 2 is not an axis of a tensor of rank 2"),
    (lambda: sg.nn.rms_norm(X, WEIGHTS), sg.ShapeError,
     "rms_norm: scale: f32[3] has not the shape [4] of axis 1 of x: f32[3, 4]"),
    (lambda: sg.nn.rms_norm(X, [True] * 4), sg.DTypeError,
     "rms_norm: scale: bool[4] is no number"),
    (lambda: sg.nn.group_norm(IMAGES, 3), sg.ShapeError,
     "group_norm: groups: 3 do not divide the 4 channels of x: f32[2, 5, 6, 4]"),
    (lambda: sg.nn.group_norm(IMAGES, 0), sg.GraphError,
     "group_norm: groups is 0, it must be at least 1"),
    (lambda: sg.nn.group_norm(IMAGES, NO_COUNT), sg.DTypeError,
     "group_norm: groups is 2.0, not an int"),
    (lambda: sg.nn.group_norm(IMAGES, 2, layout=NO_LAYOUT), sg.GraphError,
     "group_norm: layout is 'CHW', neither 'NHWC' nor 'NCHW'"),
    (lambda: sg.nn.instance_norm(sg.zeros(3)), sg.ShapeError,
     "instance_norm: x: f32[3] has no axes for a batch and for channels"),
    (lambda: sg.nn.local_response_norm(IMAGES, 0), sg.GraphError,
     "local_response_norm: size is 0, it must be at least 1"),
    (lambda: sg.nn.local_response_norm(IMAGES, NO_COUNT), sg.DTypeError,
     "local_response_norm: size is 2.0, not an int"),
    (lambda: sg.nn.local_response_norm(IMAGES, 2, layout=NO_LAYOUT), sg.GraphError,
     "local_response_norm: layout is 'CHW', neither 'NHWC' nor 'NCHW'"),
    (lambda: sg.nn.local_response_norm(sg.zeros(3), 2), sg.ShapeError,
     "local_response_norm: x: f32[3] has no axes for a batch and for channels"),
    (lambda: sg.nn.batch_norm(X, WEIGHTS, WEIGHTS, training=True), sg.ShapeError,
     "batch_norm: mean: f32[3] has not the shape [4] of axis 1 of x: f32[3, 4]"),
    (lambda: sg.nn.batch_norm(X, 0.0, 1.0, training=False), sg.ShapeError,
     "batch_norm: mean: f32[] has no axis for the channels of x: f32[3, 4]"),
    (lambda: sg.nn.batch_norm(X, [0, 0, 0, 0], None, training=True), sg.DTypeError,
     "batch_norm: mean: i32[4] is no float"),
    (lambda: sg.nn.batch_norm(X, np.zeros(4), None, training=False), sg.DTypeError,
     "batch_norm: variance is None, which is for training"),
    (lambda: sg.nn.batch_norm(X[:1], None, None, training=True), sg.ShapeError,
     "batch_norm: training takes more than one element a channel, x: f32[1, 4] has 1"),
    (lambda: sg.nn.batch_norm(X, None, None, training=True, axis=-3), sg.ShapeError,
     "batch_norm: axis -3 is not an axis of a tensor of rank 2"),
    (lambda: sg.nn.glu(X, 0), sg.ShapeError, "glu: axis 0 of x: f32[3, 4] has no two halves"),
    (lambda: sg.nn.prelu(X, WEIGHTS), sg.ShapeError,
     "prelu: shapes do not broadcast: 4 in axis -1 of x: f32[3, 4], 3 in axis -1 of y: f32[3]"),
    (lambda: sg.nn.soft_shrink(X, -1.0), sg.GraphError,
     "soft_shrink: bound is -1.0, it must not be negative"),
    (lambda: sg.nn.rrelu(X, lower=0.5), sg.GraphError,
     "rrelu: lower is 0.5, which is more than upper, 0.3333333333333333"),
    (lambda: sg.nn.celu(X, 0.0), sg.GraphError, "celu: alpha is 0, which x is divided by"),
    (lambda: sg.nn.squareplus(X, 0.0), sg.GraphError,
     "squareplus: b is 0.0, it must be positive"),
    (lambda: sg.nn.gumbel_softmax(X, KEY, temperature=0), sg.GraphError,
     "gumbel_softmax: temperature is 0, it must be positive"),
    (lambda: sg.nn.gumbel_softmax(X, X), sg.DTypeError,
     "gumbel_softmax: key: f32[3, 4] is no key, a uint64 scalar"),
    (lambda: sg.nn.dropout2d(X, 0.5, KEY), sg.ShapeError,
     "dropout2d: x: f32[3, 4] has 2 axes, not 4"),
    (lambda: sg.nn.alpha_dropout(X, 1.0, KEY), sg.GraphError,
     "alpha_dropout: rate 1.0 is not in [0, 1)"),
    (lambda: sg.nn.embedding([0.5], X), sg.DTypeError,
     "embedding: indices: f32[1] are of no integer dtype"),
    (lambda: sg.nn.embedding([0], X[0]), sg.ShapeError,
     "embedding: table: f32[4] is no matrix"),
    (lambda: sg.nn.embedding([3], X), sg.IndexOutOfRangeError,
     "embedding: index 3 is outside of axis 0 of size 3"),
    (lambda: sg.nn.bilinear(X, X, X), sg.ShapeError,
     "bilinear: weight: f32[3, 4] has not three axes"),
    (lambda: sg.nn.bilinear(X, X, sg.ones((4, 3, 2))), sg.ShapeError,
     "bilinear: y: f32[3, 4] does not fit axis 1 of weight: f32[4, 3, 2]"),
    (lambda: sg.nn.interpolate(IMAGES, 3, method=NO_METHOD), sg.GraphError,
     "interpolate: method 'lanczos' is none of nearest, linear, cubic"),
    (lambda: sg.nn.interpolate(IMAGES, 3, align_corners=True), sg.GraphError,
     "interpolate: align_corners is for the methods linear and cubic, the method is nearest"),
    (lambda: sg.nn.interpolate(IMAGES, (3, 3, 3)), sg.ShapeError,
     "interpolate: size (3, 3, 3) has not one size for each of the 2 spatial axes of "
     "x: f32[2, 5, 6, 4]"),
    (lambda: sg.nn.interpolate(IMAGES, (3, 0)), sg.GraphError,
     "interpolate: size is 0, it must be at least 1"),
    (lambda: sg.nn.interpolate(sg.zeros((2, 0, 3)), 3), sg.ShapeError,
     "interpolate: axis 1 of x: f32[2, 0, 3] is empty"),
    (lambda: sg.nn.pixel_shuffle(IMAGES, 3), sg.ShapeError,
     "pixel_shuffle: 3**2 does not divide the 4 channels of x: f32[2, 5, 6, 4]"),
    (lambda: sg.nn.pixel_unshuffle(IMAGES, 2), sg.ShapeError,
     "pixel_unshuffle: 2 does not divide axis 1 of x: f32[2, 5, 6, 4]"),
    (lambda: sg.nn.channel_shuffle(IMAGES, 3), sg.ShapeError,
     "channel_shuffle: groups: 3 do not divide the 4 channels of x: f32[2, 5, 6, 4]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), _ROWS, ids=[text for _, _, text in _ROWS])
def test_what_a_layer_does_not_take(
    call: Callable[[], Any], error: type[Exception], text: str
) -> None:
    assert_refused(call, error, f"{text}\n  --> <here>")


def test_a_spatial_size_must_be_known() -> None:
    assert_refused(
        lambda: sg.nn.interpolate(N, 3),
        sg.ShapeError,
        f"interpolate: axis 1 of x: {N.type} is of unknown size\n  --> <here>",
    )
