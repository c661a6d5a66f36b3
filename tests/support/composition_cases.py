"""Rows of the table for public functions that are compositions of ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import float64
from symgrad.nn import losses
from tests.support.case import NUMBERS, Case, Input, Real, Whole


def _row(
    name: str,
    build: Callable[..., Any],
    expected: Callable[..., Any],
    *inputs: Input,
    also: tuple[tuple[tuple[int, ...], ...], ...] = (),
    symbolic: bool = True,
    slack: float = 8.0,
) -> Case:
    return Case(name, None, build, expected, inputs, also=also, symbolic=symbolic, slack=slack)


_ROW = Real((3, 4), -4.0, 4.0, kinks=(-3.0, -1.0, 0.0, 1.0, 3.0))
_SHAPES = (((),), ((1,),), ((0, 2),))


def _softmax(x: Any) -> Any:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _normal_distribution(x: Any) -> Any:
    # the integral of the density from 0, by the midpoint rule
    edges = np.linspace(0, 1, 20001)
    middle = (edges[1:] + edges[:-1]) / 2
    density = np.exp(-((x[..., None] * middle) ** 2) / 2) / np.sqrt(2 * np.pi)
    return 0.5 + x * density.mean(-1)


def _elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _gelu_by_tanh(x: Any) -> Any:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


_ACTIVATIONS = (
    _row("relu", sg.nn.relu, lambda x: np.maximum(x, 0), _ROW, also=_SHAPES),
    _row("leaky_relu", sg.nn.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x), _ROW),
    _row("elu", sg.nn.elu, _elu, _ROW),
    _row("selu", sg.nn.selu, lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772), _ROW),
    replace(
        _row("gelu", sg.nn.gelu, lambda x: x * _normal_distribution(x), _ROW, slack=1e4),
        op="gelu_by_erf",
    ),
    replace(
        _row("gelu_by_tanh", partial(sg.nn.gelu, approximate=True), _gelu_by_tanh, _ROW, slack=16),
        op="gelu_by_tanh",
    ),
    _row("softplus", sg.nn.softplus, _softplus, _ROW, also=_SHAPES),
    _row("log_sigmoid", sg.nn.log_sigmoid, lambda x: -_softplus(-x), _ROW),
    _row("hard_sigmoid", sg.nn.hard_sigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1), _ROW),
    _row("hard_tanh", sg.nn.hard_tanh, lambda x: np.clip(x, -1, 1), _ROW),
    _row("hard_silu", sg.nn.hard_silu, lambda x: x * np.clip(x / 6 + 0.5, 0, 1), _ROW),
    _row("softmax", sg.nn.softmax, _softmax, _ROW, also=(((1,),), ((0, 2),))),
    _row("log_softmax", sg.nn.log_softmax, lambda x: np.log(_softmax(x)), _ROW, also=(((1,),),)),
    _row("logsumexp", lambda x: sg.nn.logsumexp(x, 1), lambda x: np.log(np.exp(x).sum(1)), _ROW),
    _row("logsumexp_of_all", lambda x: sg.nn.logsumexp(x, keepdims=True),
         lambda x: np.log(np.exp(x).sum(keepdims=True)), _ROW, also=(((),), ((1, 1),))),
)  # fmt: skip


def _class_loss(logits: Any, labels: Any) -> Any:
    return -np.log(_softmax(logits))[np.arange(len(labels)), labels].mean()


def _probability_loss(logits: Any, weights: Any) -> Any:
    return -(np.log(_softmax(logits)) * weights).sum(-1)


def _huber(x: Any, y: Any) -> Any:
    distance = np.abs(x - y)
    return np.where(distance <= 1, distance**2 / 2, distance - 0.5).sum()


_LOSSES = (
    _row("cross_entropy_of_classes", sg.nn.cross_entropy, _class_loss,
         Real((4, 3)), Whole((4,), 0, 3), slack=16),
    _row("cross_entropy_of_probabilities",
         lambda x, y: sg.nn.cross_entropy(x, y, reduction="none"),
         _probability_loss, Real((4, 3)), Real((4, 3), 0.0, 1.0), slack=16),
    _row("binary_cross_entropy",
         lambda x, y: losses.binary_cross_entropy_with_logits(x, y, reduction="none"),
         lambda x, y: -(y * np.log(_sigmoid(x)) + (1 - y) * np.log(_sigmoid(-x))),
         Real((4, 3)), Real((4, 3), 0.0, 1.0), slack=16),
    _row("mse", sg.nn.mse, lambda x, y: ((x - y) ** 2).mean(), Real((4, 3)), Real((4, 3))),
    _row("huber", lambda x, y: sg.nn.huber(x, y, reduction="sum"), _huber,
         Real((4, 3), 0.0, 3.0), Real((4, 3), -0.3, -0.1), slack=16),
    _row("linear", sg.nn.linear, lambda x, w, b: x @ w + b,
         Real((2, 3, 4)), Real((4, 5)), Real((5,)), slack=16),
)  # fmt: skip

_PUBLIC = (
    Case("square", None, sg.square, np.square, (Real((3, 4)),), NUMBERS),
    Case("clip", None, lambda x: sg.clip(x, -1, 1), lambda x: np.clip(x, -1, 1),
         (Real((3, 4), kinks=(-1.0, 1.0)),)),
    Case("trace", None, sg.trace, np.trace, (Real((3, 3)),), NUMBERS, slack=4),
    Case("isfinite", None, sg.isfinite, np.isfinite, (Real((3,)),), order=0),
    Case("arange", None, lambda x: sg.add(x, sg.arange(x.shape[0], dtype=x.dtype)),
         lambda x: x + np.arange(x.shape[0]), (Real((5,)),), also=(((0,),),)),
    Case("linspace", None, lambda x: sg.multiply(x, sg.linspace(-1, 2, 5, dtype=x.dtype)),
         lambda x: x * np.linspace(-1, 2, 5), (Real((5,)),)),
    Case("eye", None, lambda x: sg.matmul(sg.eye(2, 3, k=1, dtype=x.dtype), x),
         lambda x: np.eye(2, 3, k=1) @ x, (Real((3, 4)),)),
    Case("full_like", None, lambda x: sg.add(x, sg.full_like(x, 3)), lambda x: x + 3,
         (Real((3, 4)),), NUMBERS),
    Case("normalized", None,
         lambda x: (x - x.mean(0)) / np.sqrt(np.mean(np.square(x), axis=0)),
         lambda x: (x - x.mean(0)) / np.sqrt((x**2).mean(0)), (Real((5, 3)),), (float64,),
         slack=64),
)  # fmt: skip

COMPOSITIONS = (*_ACTIVATIONS, *_LOSSES, *_PUBLIC)
