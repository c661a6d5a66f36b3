"""Rows of the table of ops for layers: norms, gates, more activations and resampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg
from tests.support.case import Case, Input, Real, Whole


def _row(
    name: str,
    build: Callable[..., Any],
    expected: Callable[..., Any],
    *inputs: Input,
    also: tuple[tuple[tuple[int, ...], ...], ...] = (),
    symbolic: bool = True,
    slack: float = 8.0,
    op: str | None = None,
) -> Case:
    return Case(name, op, build, expected, inputs, also=also, symbolic=symbolic, slack=slack)


_X = Real((3, 4), -4.0, 4.0, kinks=(-1.0, -0.5, 0.0, 0.5, 1.0))


def _scalar(
    name: str,
    function: Callable[[Any], Any],
    expected: Callable[[Any], Any],
    op: str | None = None,
) -> Case:
    return _row(name, function, expected, _X, op=op)


_ACTIVATIONS = (
    _scalar("celu", lambda x: sg.nn.celu(x, 2.0),
            lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2))),
    _scalar("softsign", sg.nn.softsign, lambda x: x / (1 + np.abs(x)), op="softsign"),
    _scalar("squareplus", sg.nn.squareplus, lambda x: (x + np.sqrt(x * x + 4)) / 2),
    _scalar("soft_shrink", sg.nn.soft_shrink,
            lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)),
    _scalar("hard_shrink", sg.nn.hard_shrink, lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    _scalar("tanh_shrink", sg.nn.tanh_shrink, lambda x: x - np.tanh(x), op="tanh_shrink"),
    _scalar("sparse_plus", sg.nn.sparse_plus,
            lambda x: np.where(x < 1, (np.clip(x, -1, 1) + 1) ** 2 / 4, x)),
    _scalar("softmin", sg.nn.softmin, lambda x: np.exp(-x) / np.exp(-x).sum(-1, keepdims=True)),
    _scalar("logmeanexp", sg.nn.logmeanexp, lambda x: np.log(np.exp(x).mean())),
    _row("log1mexp", sg.nn.log1mexp, lambda x: np.log1p(-np.exp(-x)),
         Real((3, 4), 0.3, 4.0, kinks=(0.6931471805599453,))),
    _row("relu6", sg.nn.relu6, lambda x: np.clip(x, 0, 6), Real((3, 4), -2, 9, kinks=(0, 6))),
    _row("prelu", sg.nn.prelu, lambda x, a: np.where(x > 0, x, a * x), _X, Real((4,))),
    _row("glu", sg.nn.glu, lambda x: x[..., :2] / (1 + np.exp(-x[..., 2:])), Real((3, 4)),
         symbolic=False),
)  # fmt: skip


def _standard(x: Any, axes: Any, epsilon: float = 1e-5) -> Any:
    if not x.size:
        return x
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def _in_groups(x: Any, scale: Any, bias: Any) -> Any:
    apart = x.reshape(*x.shape[:-1], 2, -1)
    axes = (*range(1, x.ndim - 1), x.ndim)
    return _standard(apart, axes).reshape(x.shape) * scale + bias


def _rms(x: Any, scale: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale


def _batch_norm(x: Any, scale: Any, bias: Any) -> Any:
    y, _ = sg.nn.batch_norm(x, None, None, scale, bias, training=True)
    return y


def _by_running(x: Any, mean: Any, variance: Any) -> Any:
    y, updates = sg.nn.batch_norm(x, mean, variance, training=False, axis=1)
    assert updates == []
    return y


# Not of so few elements that the second derivative is too large to be compared with differences.
_ROWS = Real((3, 5), -4.0, 4.0)
_WEIGHTS = Real((5,))
_IMAGES = Real((2, 3, 4), -3.0, 3.0)

_NORMS = (
    _row("layer_norm", sg.nn.layer_norm, lambda x, s, b: _standard(x, -1) * s + b,
         _ROWS, _WEIGHTS, _WEIGHTS, also=(((0, 5), (5,), (5,)), ((2, 0), (0,), (0,))), slack=32),
    _row("layer_norm_of_two_axes", lambda x: sg.nn.layer_norm(x, axis=(0, -1)),
         lambda x: _standard(x, (0, 2)), _IMAGES, slack=32),
    _row("rms_norm", sg.nn.rms_norm, _rms, _ROWS, _WEIGHTS, slack=32),
    _row("group_norm", lambda x, s, b: sg.nn.group_norm(x, 2, s, b), _in_groups,
         _IMAGES, Real((4,)), Real((4,)), slack=32),
    _row("instance_norm", sg.nn.instance_norm, lambda x: _standard(x, 1), Real((2, 5, 2)),
         slack=64),
    _row("batch_norm", _batch_norm, lambda x, s, b: _standard(x, (0, 1)) * s + b,
         _IMAGES, Real((4,)), Real((4,)), slack=32),
    _row("batch_norm_by_running_statistics", _by_running,
         lambda x, m, v: (x - m[:, None]) / np.sqrt(v[:, None] + 1e-5),
         _IMAGES, Real((3,)), Real((3,), 0.5, 2.0), slack=16),
    _row("normalize", sg.nn.normalize,
         lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)), _ROWS, slack=16),
)  # fmt: skip


def _shuffled(x: Any) -> Any:
    n, h, w, c = x.shape
    apart = x.reshape(n, h, w, c // 4, 2, 2)
    return apart.transpose(0, 1, 4, 2, 5, 3).reshape(n, 2 * h, 2 * w, c // 4)


def _linear(x: Any) -> Any:
    rows = [np.interp((np.arange(5) + 0.5) * 3 / 5 - 0.5, np.arange(3), row) for row in
            np.moveaxis(x, 1, -1).reshape(-1, 3)]  # fmt: skip
    return np.moveaxis(np.reshape(rows, (x.shape[0], x.shape[2], 5)), -1, 1)


def _distances(x: Any) -> Any:
    first, second = np.triu_indices(len(x), 1)
    return np.sqrt(np.square(x[first] - x[second]).sum(-1))


def _affine(theta: Any) -> Any:
    y, x = np.meshgrid([-2 / 3, 0, 2 / 3], [-0.5, 0.5], indexing="ij")
    return np.einsum("nij,hwj->nhwi", theta, np.stack([x, y, np.ones((3, 2))], -1))


def _read_at(x: Any, grid: Any) -> Any:
    place = ((grid[..., 0] + 1) * x.shape[1] - 1) / 2
    weights = np.maximum(1 - np.abs(place[..., None] - np.arange(x.shape[1])), 0)
    return weights @ x


_RESAMPLING = (
    _row("interpolate_linear", lambda x: sg.nn.interpolate(x, 5, method="linear"), _linear,
         Real((2, 3, 2)), symbolic=False),
    _row("interpolate_nearest", lambda x: sg.nn.interpolate(x, (2, 6), layout="NCHW"),
         lambda x: x[:, :, [0, 1]][..., [0, 0, 1, 1, 2, 2]], Real((1, 2, 3, 3)), symbolic=False),
    _row("pixel_shuffle", lambda x: sg.nn.pixel_shuffle(x, 2), _shuffled, Real((1, 2, 3, 8)),
         symbolic=False),
    _row("embedding", lambda i, t: sg.nn.embedding(i, t), lambda i, t: t[i],
         Whole((2, 3), 0, 4), Real((4, 2))),
    _row("embedding_bag", lambda i, t, w: sg.nn.embedding_bag(i, t, weights=w, reduction="sum"),
         lambda i, t, w: (t[i] * w[..., None]).sum(-2),
         Whole((2, 3), 0, 4), Real((4, 2)), Real((2, 3))),
    _row("pdist", sg.nn.pdist, _distances, Real((3, 4)), slack=32),
    _row("affine_grid", lambda t: sg.nn.affine_grid(t, (3, 2)), _affine, Real((2, 2, 3)),
         symbolic=False),
    _row("grid_sample", sg.nn.grid_sample, _read_at, Real((1, 3, 2)), Real((1, 4, 1)),
         symbolic=False),
    _row("max_unpool", lambda x: sg.nn.max_unpool(*sg.nn.max_pool_with_indices(x, 2), 4),
         lambda x: x * (x == np.repeat(np.maximum(x[:, ::2], x[:, 1::2]), 2, 1)),
         Real((2, 4, 3)), symbolic=False),
    _row("fractional_max_pool",
         lambda x: sg.nn.fractional_max_pool(x, 2, 3, samples=sg.zeros((2, 3, 1))),
         lambda x: np.maximum(x[:, [0, 1, 3]], x[:, [1, 2, 4]]), Real((2, 5, 3)), symbolic=False),
    _row("bilinear", sg.nn.bilinear, lambda x, y, w: np.einsum("ni,ijk,nj->nk", x, w, y),
         Real((2, 3)), Real((2, 4)), Real((3, 4, 2)), slack=16),
)  # fmt: skip

LAYER_OPS = (*_ACTIVATIONS, *_NORMS, *_RESAMPLING)
