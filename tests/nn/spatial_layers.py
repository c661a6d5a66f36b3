"""Rows of the table of layers: convolution, pooling, unfold and fold."""

from __future__ import annotations

import math
from typing import Any

import symgrad as sg
from tests.nn.layer import Layer
from tests.support.case import Real

_IMAGE = Real((2, 5, 4, 3))


def _pooled(name: str, **arguments: Any) -> Layer:
    function = getattr(sg.nn, name)
    return Layer(f"{name}_padded", lambda x: function(x, 3, **arguments), (_IMAGE,))


_PADDED: dict[str, Any] = {"strides": 2, "padding": [(1, 1), (1, 0)]}

SPATIAL_LAYERS = (
    Layer("conv2d", lambda x, k, b: sg.nn.conv2d(x, k, b, padding="SAME", strides=2),
          (_IMAGE, Real((3, 3, 3, 2)), Real((2,))), slack=4),
    Layer("conv1d_groups_channels_first",
          lambda x, k: sg.nn.conv1d(x, k, groups=2, dilation=2, layout="NCHW"),
          (Real((2, 4, 6)), Real((4, 2, 3))), slack=4),
    Layer("conv_transpose", lambda x, k, b: sg.nn.conv_transpose(x, k, b, strides=2),
          (Real((2, 3, 2)), Real((3, 4, 2)), Real((4,))), slack=4),
    Layer("max_pool", lambda x: sg.nn.max_pool(x, 2), (_IMAGE,)),
    _pooled("max_pool", **_PADDED),
    _pooled("avg_pool", **_PADDED),
    Layer("avg_pool_channels_first", lambda x: sg.nn.avg_pool(x, 2, layout="NCHW"), (_IMAGE,)),
    Layer("lp_pool", lambda x: sg.nn.lp_pool(x, 2, 2), (Real((2, 5, 4, 3), zeros=40),), slack=2),
    Layer("lp_pool_padded", lambda x: sg.nn.lp_pool(x, 1.5, 3, **_PADDED),
          (Real((2, 5, 4, 3), 0.1, 2.0),)),
    Layer("lp_pool_channels_first", lambda x: sg.nn.lp_pool(x, 3.0, 2, strides=1, layout="NCHW"),
          (Real((2, 3, 5, 4), 0.1, 2.0),)),
    Layer("lp_pool_infinite", lambda x: sg.nn.lp_pool(x, math.inf, 2), (_IMAGE,)),
    Layer("adaptive_avg_pool", lambda x: sg.nn.adaptive_avg_pool(x, (2, 3)), (_IMAGE,)),
    Layer("adaptive_max_pool", lambda x: sg.nn.adaptive_max_pool(x, (2, 3)), (_IMAGE,)),
    Layer("unfold", lambda x: sg.nn.unfold(x, 2), (_IMAGE,)),
    Layer("fold", lambda y: sg.nn.fold(y, 4, 2), (Real((2, 3, 2, 3)),)),
)  # fmt: skip
