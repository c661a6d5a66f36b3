"""Rows of the table of layers: activations, softmax, linear and dropout."""

from __future__ import annotations

import symgrad as sg
from symgrad.graph import dtypes
from tests.nn.layer import Layer
from tests.support.case import Real, Whole

_X = Real((3, 4), -4.0, 4.0, kinks=(-3.0, -1.0, 0.0, 1.0, 3.0))
_WIDE = (dtypes.float32, dtypes.float64)  # of 16-bit floats it gives float32

_ACTIVATIONS = tuple(
    Layer(function.__name__, function, (_X,))
    for function in (sg.nn.elu, sg.nn.gelu, sg.nn.silu, sg.nn.softplus)
)

BASIC = (
    *_ACTIVATIONS,
    Layer("softmax", sg.nn.softmax, (_X,)),
    Layer("log_softmax", sg.nn.log_softmax, (_X,)),
    Layer("linear", sg.nn.linear, (Real((3, 4)), Real((4, 5)), Real((5,)))),
    Layer("linear_cross_entropy",
          lambda x, w, y: sg.nn.linear_cross_entropy(x, w, y, reduction="none"),
          (Real((3, 4)), Real((4, 5)), Whole((3,), 0, 5)), (0, 2)),
    Layer("grouped_mm", lambda a, b: sg.nn.grouped_mm(a, b, [1, 1, 3]),
          (Real((3, 4)), Real((3, 4, 2)))),
    Layer("grouped_mm_terms", lambda a, b: sg.nn.grouped_mm(a, b, [2, 3]),
          (Real((3, 4)), Real((4, 2)))),
    Layer("scaled_mm", sg.nn.scaled_mm,
          (Real((3, 4)), Real((4, 2)), Real((1, 2)), Real((1, 2))), dtypes=_WIDE),
    Layer("scaled_matmul", sg.nn.scaled_matmul,
          (Real((3, 2, 4)), Real((3, 5, 4)), Real((3, 2, 2)), Real((3, 5, 1))), (0, 1, 2, 3),
          dtypes=_WIDE),
    Layer("conv_tbc", sg.nn.conv_tbc, (Real((5, 3, 2)), Real((2, 2, 4)), Real((4,)))),
    Layer("dropout", lambda x: sg.nn.dropout(x, 0.25, sg.random.key(0)), (_X,)),
)  # fmt: skip
