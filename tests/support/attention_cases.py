"""Rows of the table for attention and for recurrent cells, which are compositions of ops."""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import float16, float32, float64
from tests.support.case import Case, Input, Real, Truth

_attend = sg.nn.scaled_dot_product_attention


def _attention(q: Any, k: Any, v: Any, seen: Any, added: Any = 0.0) -> Any:
    """Return attention by loops over nothing but batches, of queries that may see nothing."""
    group = q.shape[-3] // k.shape[-3]
    k, v = (np.repeat(t, group, axis=-3) for t in (k, v))
    scores = np.einsum("...qw,...kw->...qk", q, k) / np.sqrt(q.shape[-1]) + added
    weights = np.where(seen, np.exp(scores), 0)
    total = weights.sum(-1, keepdims=True)
    return np.einsum("...qk,...kw->...qw", weights / np.where(total == 0, 1, total), v)


def _causal(q: Any, k: Any, v: Any, seen: Any) -> Any:
    return _attention(q, k, v, seen & np.tri(q.shape[-2], k.shape[-2], dtype=bool))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _gru(x: Any, h: Any, w: Any, u: Any, b: Any, d: Any) -> Any:
    (xr, xz, xn), (hr, hz, hn) = (np.split(t, 3, -1) for t in (x @ w + b, h @ u + d))
    z = _sigmoid(xz + hz)
    return (1 - z) * np.tanh(xn + _sigmoid(xr + hr) * hn) + z * h


def _lstm(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any, d: Any) -> Any:
    i, f, g, o = np.split(x @ w + b + h @ u + d, 4, -1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return np.stack([_sigmoid(o) * np.tanh(c), c])


def _weights(gates: int) -> tuple[Input, ...]:
    return Real((3, 2 * gates)), Real((2, 2 * gates)), Real((2 * gates,)), Real((2 * gates,))


_Q, _K, _V = Real((4, 3, 2)), Real((2, 5, 2)), Real((2, 5, 1))
_DTYPES = (float32, float64)  # the table of layers has others
_X, _H = Real((4, 3)), Real((4, 2))

ATTENTION = (
    Case("attention", None, lambda q, k, v, seen: _attend(q, k, v, mask=seen, causal=True),
         _causal, (_Q, Real((4, 5, 2)), Real((4, 5, 1)), Truth((3, 5))), (float32, float16),
         slack=64,
         also=(((1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1)), ((2, 0, 2), (2, 4, 2), (2, 4, 1), (0, 4)),
               ((2, 3, 2), (2, 0, 2), (2, 0, 1), (3, 0)))),
    Case("attention_of_grouped_heads", None, lambda q, k, v, added: _attend(q, k, v, mask=added),
         lambda q, k, v, added: _attention(q, k, v, True, added),
         (_Q, _K, _V, Real((3, 5))), _DTYPES, slack=64, symbolic=False),
    Case("rnn_cell", None, sg.nn.rnn_cell, lambda x, h, w, u, b, d: np.tanh(x @ w + b + h @ u + d),
         (_X, _H, *_weights(1)), _DTYPES, slack=16),
    Case("gru_cell", None, sg.nn.gru_cell, _gru, (_X, _H, *_weights(3)), _DTYPES, slack=16),
    Case("lstm_cell", None, lambda x, h, c, *w: sg.stack(sg.nn.lstm_cell(x, (h, c), *w)), _lstm,
         (_X, _H, _H, *_weights(4)), _DTYPES, slack=16),
)  # fmt: skip
