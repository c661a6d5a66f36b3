"""Rows of the table of layers: norms, gates, dropouts of channels, embeddings, resampling."""

from __future__ import annotations

from typing import Any

import symgrad as sg
from tests.nn.layer import Layer
from tests.support.case import Real, Whole

_X = Real((3, 4), -4.0, 4.0, kinks=(-1.0, -0.5, 0.0, 0.5, 1.0))
_WEIGHTS = Real((4,))
_IMAGES = Real((2, 3, 5, 4))
_KEY = sg.random.key(1)


def _batch_norm(x: Any, scale: Any, bias: Any) -> Any:
    y, _ = sg.nn.batch_norm(x, None, None, scale, bias, training=True)
    return y


def _running_mean(x: Any, mean: Any, variance: Any) -> Any:
    _, ((_, moved), _) = sg.nn.batch_norm(x, mean, variance, training=True)
    return moved


def _running_variance(x: Any, mean: Any, variance: Any) -> Any:
    _, (_, (_, moved)) = sg.nn.batch_norm(x, mean, variance, training=True)
    return moved


def _by_running(x: Any, mean: Any, variance: Any) -> Any:
    y, _ = sg.nn.batch_norm(x, mean, variance, training=False)
    return y


_NORMS = (
    Layer("layer_norm", sg.nn.layer_norm, (_X, _WEIGHTS, _WEIGHTS), slack=8),
    Layer("rms_norm", sg.nn.rms_norm, (_X, _WEIGHTS), slack=4),
    Layer("group_norm", lambda x, s, b: sg.nn.group_norm(x, 2, s, b),
          (_IMAGES, _WEIGHTS, _WEIGHTS), slack=4),
    Layer("group_norm_channels_first", lambda x: sg.nn.group_norm(x, 3, layout="NCHW"),
          (_IMAGES,), slack=4),
    Layer("instance_norm", sg.nn.instance_norm, (_IMAGES,), slack=4),
    Layer("batch_norm", _batch_norm, (_IMAGES, _WEIGHTS, _WEIGHTS), slack=4),
    Layer("batch_norm_by_running_statistics", _by_running,
          (_IMAGES, _WEIGHTS, Real((4,), 0.5, 2.0)), slack=4),
    Layer("running_mean", _running_mean, (_IMAGES, _WEIGHTS, _WEIGHTS)),
    Layer("running_variance", _running_variance, (_IMAGES, _WEIGHTS, _WEIGHTS)),
    Layer("local_response_norm", lambda x: sg.nn.local_response_norm(x, 3, alpha=0.5), (_IMAGES,)),
    Layer("local_response_norm_channels_first",
          lambda x: sg.nn.local_response_norm(x, 4, 2.0, 0.5, 1.5, layout="NCHW"), (_IMAGES,)),
    Layer("normalize", sg.nn.normalize, (_X,), slack=4),
    Layer("standardize", sg.nn.standardize, (_X,), slack=8),
)  # fmt: skip

_ACTIVATIONS = (
    Layer("mish", sg.nn.mish, (_X,)),
    Layer("squareplus", sg.nn.squareplus, (_X,)),
    Layer("soft_shrink", sg.nn.soft_shrink, (_X,)),
    Layer("prelu", sg.nn.prelu, (_X, _WEIGHTS)),
    Layer("rrelu", lambda x: sg.nn.rrelu(x, _KEY), (_X,)),
    Layer("glu", sg.nn.glu, (_X,)),
    Layer("softmin", sg.nn.softmin, (_X,)),
    Layer("gumbel_softmax", lambda x: sg.nn.gumbel_softmax(x, _KEY, temperature=2), (_X,)),
    Layer("gumbel_softmax_hard", lambda x: sg.nn.gumbel_softmax(x, _KEY, hard=True), (_X,),
          slack=2),
)  # fmt: skip

_OTHERS = (
    Layer("dropout2d", lambda x: sg.nn.dropout2d(x, 0.25, _KEY), (_IMAGES,)),
    Layer("alpha_dropout", lambda x: sg.nn.alpha_dropout(x, 0.25, _KEY), (_X,), slack=2),
    Layer("embedding", sg.nn.embedding, (Whole((3, 2), 0, 5), Real((5, 4)))),
    Layer("bilinear", sg.nn.bilinear, (Real((3, 2)), Real((3, 4)), Real((2, 4, 3))), (0, 1)),
    Layer("interpolate_nearest", lambda x: sg.nn.interpolate(x, (6, 4)), (_IMAGES,)),
    Layer("interpolate_linear", lambda x: sg.nn.interpolate(x, (5, 3), method="linear"),
          (_IMAGES,)),
    Layer("interpolate_cubic",
          lambda x: sg.nn.interpolate(x, 4, method="cubic", align_corners=True, layout="NCHW"),
          (_IMAGES,)),
    Layer("pixel_shuffle", lambda x: sg.nn.pixel_shuffle(x, 2), (_IMAGES,)),
    Layer("pixel_unshuffle", lambda x: sg.nn.pixel_unshuffle(x, 2), (Real((2, 4, 2, 3)),)),
    Layer("channel_shuffle", lambda x: sg.nn.channel_shuffle(x, 2), (_IMAGES,)),
)  # fmt: skip

NORMS = (*_NORMS, *_ACTIVATIONS, *_OTHERS)
