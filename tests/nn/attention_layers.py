"""Rows of the table of layers: attention and recurrent layers."""

from __future__ import annotations

from typing import Any

import symgrad as sg
from tests.nn.layer import Layer
from tests.support.case import Input, Real, Truth

_attend = sg.nn.scaled_dot_product_attention
_Q, _K = Real((3, 4, 2, 3)), Real((3, 2, 5, 3))  # four heads that share two
_BATCHED = (0, 1, 2)


def _dropped(q: Any, k: Any, v: Any) -> Any:
    return _attend(q, k, v, dropout=0.25, generator=sg.random.key(3))


def _small(shape: tuple[int, ...]) -> Real:
    """Return weights that are as large as their number of rows lets them be."""
    return Real(shape, -0.5, 0.5)


def _many_heads(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, b: Any) -> Any:
    weights, bias = (wq, wk, wv, wo), (b, None, None, b)
    return sg.nn.multi_head_attention(x, x, x, *weights, heads=2, bias=bias, causal=True)


_ATTENTION = (
    Layer("attention_of_grouped_heads", lambda q, k, v: _attend(q, k, v, causal=True),
          (_Q, _K, _K), _BATCHED),
    Layer("attention_with_a_mask", lambda q, k, v, seen: _attend(q, k, v, mask=seen),
          (_Q, _K, _K, Truth((4, 2, 5))), _BATCHED),
    Layer("attention_with_an_added_mask", lambda q, k, v, bias: _attend(q, k, v, mask=bias),
          (_Q, _K, _K, Real((3, 1, 2, 5))), (*_BATCHED, 3)),
    # The axis that may be unknown is that of time.
    Layer("attention_of_matrices", lambda q, k, v: _attend(q, k, v, causal=True),
          (Real((4, 3)), Real((4, 3)), Real((4, 2))), _BATCHED),
    Layer("attention_with_dropout", _dropped, (_Q, _K, _K), _BATCHED),
    Layer("multi_head_attention", _many_heads,
          (Real((3, 4, 4), -1, 1), *map(_small, ((4, 6), (4, 3), (4, 2), (4, 6), (6,))))),
)  # fmt: skip


def _weights(gates: int, units: int = 2) -> tuple[Input, ...]:
    wide = gates * units
    return Real((3, wide)), Real((units, wide)), Real((wide,)), Real((wide,))


def _lstm(x: Any, h: Any, c: Any, *weights: Any) -> Any:
    ys, (h, c) = sg.nn.lstm(x, (h, c), weights)
    return sg.concat([ys, sg.expand_dims(h, axis=0), sg.expand_dims(c, axis=0)])


def _gru(x: Any, h: Any, *weights: Any) -> Any:
    ys, last = sg.nn.gru(x, h, weights)
    return sg.concat([ys, sg.expand_dims(last, axis=0)])


def _batch_first(layer: Any) -> Any:
    def build(x: Any, *rest: Any) -> Any:
        return sg.swapaxes(layer(sg.swapaxes(x, 0, 1), *rest), 0, 1)

    return build


_X, _H, _TIMES = Real((3, 3)), Real((3, 2)), Real((3, 4, 3))

_RECURRENT = (
    Layer("rnn_cell", sg.nn.rnn_cell, (_X, _H, *_weights(1)), (0, 1)),
    Layer("gru_cell", sg.nn.gru_cell, (_X, _H, *_weights(3)), (0, 1)),
    Layer("lstm_cell", lambda x, h, c, *w: sg.stack(sg.nn.lstm_cell(x, (h, c), *w), axis=1),
          (_X, _H, _H, *_weights(4)), _BATCHED),
    Layer("gru", _batch_first(_gru), (_TIMES, _H, *_weights(3)), (0, 1)),
    Layer("gru_over_any_time", _gru, (_TIMES, Real((4, 2)), *_weights(3))),
    Layer("lstm", _batch_first(_lstm), (_TIMES, _H, _H, *_weights(4)), _BATCHED),
    Layer("lstm_over_any_time", _lstm, (_TIMES, *[Real((4, 2))] * 2, *_weights(4))),
)  # fmt: skip

ATTENTION = (*_ATTENTION, *_RECURRENT)
