"""Rows of the table of layers: activations, softmax, linear and dropout."""

from __future__ import annotations

import symgrad as sg
from tests.nn.layer import Layer
from tests.support.case import Real

_X = Real((3, 4), -4.0, 4.0, kinks=(-3.0, -1.0, 0.0, 1.0, 3.0))

_ACTIVATIONS = tuple(
    Layer(function.__name__, function, (_X,))
    for function in (sg.nn.elu, sg.nn.gelu, sg.nn.silu, sg.nn.softplus)
)

BASIC = (
    *_ACTIVATIONS,
    Layer("softmax", sg.nn.softmax, (_X,)),
    Layer("log_softmax", sg.nn.log_softmax, (_X,)),
    Layer("linear", sg.nn.linear, (Real((3, 4)), Real((4, 5)), Real((5,)))),
    Layer("dropout", lambda x: sg.nn.dropout(x, 0.25, sg.random.key(0)), (_X,)),
)
