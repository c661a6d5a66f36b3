"""The full text of the errors of attention and recurrent layers: what, the values, the line.

`<here>` in a text stands for the line of the call that goes wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

import symgrad as sg
from tests.support.refusals import assert_refused


def f(*shape: int) -> Any:
    """Return a placeholder of floats."""
    return sg.placeholder(shape)


X, W, H = f(2, 3), f(3, 8), f(2, 2)
MASK = sg.placeholder((4, 5), "int32")
attend: Any = sg.nn.scaled_dot_product_attention
many: Any = sg.nn.multi_head_attention

ATTENTION = [
    (lambda: attend(f(2, 4, 3), f(2, 5, 2), f(2, 5, 3)),
     "widths differ: 3 in q: f32[2, 4, 3], 2 in k: f32[2, 5, 2]"),
    (lambda: attend(f(2, 4, 3), f(2, 5, 3), f(2, 6, 3)),
     "lengths differ: 5 in k: f32[2, 5, 3], 6 in v: f32[2, 6, 3]"),
    (lambda: attend(f(4, 4, 3), f(2, 5, 3), f(1, 5, 3)),
     "numbers of heads differ: 2 in k: f32[2, 5, 3], 1 in v: f32[1, 5, 3]"),
    (lambda: attend(f(3, 4, 3), f(2, 5, 3), f(2, 5, 3)),
     "3 heads of q: f32[3, 4, 3] are no multiple of 2 of k: f32[2, 5, 3]"),
    (lambda: attend(f(3), f(5, 3), f(5, 3)),
     "q: f32[3] is not (..., heads, length, width)"),
    (lambda: attend(f(4, 3), f(2, 5, 3), f(2, 5, 3)),
     "only some have heads: q: f32[4, 3], k: f32[2, 5, 3], v: f32[2, 5, 3]"),
    (lambda: attend(f(4, 3), f(5, 3), f(5, 3), mask=f(4, 4)),
     "mask: f32[4, 4] does not broadcast to [4, 5], (..., heads, queries, keys)"),
    (lambda: attend(f(4, 3), f(5, 3), f(5, 3), dropout=1.5),
     "dropout 1.5 is not in [0, 1)"),
    (lambda: attend(f(4, 3), f(5, 3), f(5, 3), dropout=0.5),
     "dropout 0.5 needs a generator"),
    (lambda: attend(f(4, 3), f(5, 3), f(5, 3), scale=f(2)),
     "scale: f32[2] is no float scalar"),
]  # fmt: skip

HEADS = [
    (lambda: many(*[f(4, 6)] * 3, *[f(6, 6)] * 4, heads=0),
     "heads 0 is no positive int"),
    (lambda: many(*[f(4, 6)] * 3, *[f(6, 6)] * 4, heads=4),
     "6 columns of wq: f32[6, 6] do not divide into 4 heads"),
    (lambda: many(*[f(4, 6)] * 3, f(6, 6), f(6, 4), f(6, 6), f(6, 6), heads=2),
     "4 columns of wk: f32[6, 4] are no heads of width 3"),
    (lambda: many(*[f(4, 6)] * 3, f(5, 6), *[f(6, 6)] * 3, heads=2),
     "features differ: 6 in q: f32[4, 6], 5 in wq: f32[5, 6]"),
    (lambda: many(*[f(4, 6)] * 3, f(6, 6, 1), *[f(6, 6)] * 3, heads=2),
     "wq: f32[6, 6, 1] is no matrix whose columns are known"),
    (lambda: many(*[f(4, 6)] * 3, *[f(6, 6)] * 4, heads=2, bias=(1.0, 2.0)),
     "bias is no tuple of four, (bq, bk, bv, bo): (1.0, 2.0)"),
    (lambda: many(*[f(4, 6)] * 3, *[f(6, 6)] * 4, heads=2, bias=(None, f(5), None, None)),
     "bias: f32[5] is not one for each column of wk: f32[6, 6]"),
]  # fmt: skip

RECURRENT = [
    ("lstm_cell", lambda: sg.nn.lstm_cell(X, (H, H), f(3, 6), f(2, 8)),
     "w: f32[3, 6] is not of shape [3, 8]"),
    ("lstm_cell", lambda: sg.nn.lstm_cell(X, (H, f(2, 3)), W, f(2, 8)),
     "c: f32[2, 3] is not of shape [2, 2]"),
    ("gru_cell", lambda: sg.nn.gru_cell(X, f(3, 2), f(3, 6), f(2, 6)),
     "h: f32[3, 2] is not of shape [2, 2]"),
    ("rnn_cell", lambda: sg.nn.rnn_cell(X, H, f(3, 2), f(2, 2), f(3)),
     "b: f32[3] is not of shape [2]"),
    ("gru", lambda: sg.nn.gru(f(3), H, (f(3, 6), f(2, 6))),
     "x: f32[3] is not (time, ..., inputs)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "problem"), ATTENTION)
def test_what_does_not_fit_attention(call, problem):
    text = f"scaled_dot_product_attention: {problem}\n  --> <here>"
    assert_refused(call, ValueError, text)


@pytest.mark.parametrize(("call", "problem"), HEADS)
def test_what_does_not_fit_multi_head_attention(call, problem):
    assert_refused(call, ValueError, f"multi_head_attention: {problem}\n  --> <here>")


@pytest.mark.parametrize(("op", "call", "problem"), RECURRENT)
def test_what_does_not_fit_a_recurrent_layer(op, call, problem):
    assert_refused(call, ValueError, f"{op}: {problem}\n  --> <here>")


def test_a_mask_of_integers():
    assert_refused(lambda: attend(f(4, 3), f(5, 3), f(5, 3), mask=MASK), TypeError, """
        scaled_dot_product_attention: mask: i32[4, 5] is neither bool, True to attend, nor a float to add
          --> <here>
          hint: use astype
    """)  # noqa: E501  # fmt: skip


def test_batches_that_do_not_broadcast():
    assert_refused(lambda: attend(f(2, 1, 4, 3), f(3, 1, 5, 3), f(3, 1, 5, 3)), ValueError, """
        scaled_dot_product_attention: shapes do not broadcast: 2 in axis -1 of q: f32[2], 3 in axis -1 of k: f32[3]
          --> <here>
    """)  # noqa: E501  # fmt: skip


def test_a_state_that_is_no_pair():
    state: Any = 1.5
    assert_refused(lambda: sg.nn.lstm(f(5, 2, 3), state, (W, f(2, 8))), ValueError, """
        lstm: state is no pair (h, c): 1.5
          --> <here>
    """)  # fmt: skip


def test_weights_that_are_no_tuple():
    assert_refused(lambda: sg.nn.lstm(f(5, 2, 3), (H, H), 0.5), ValueError, """
        lstm: weights are no tuple (w, u, b, d): 0.5
          --> <here>
    """)  # fmt: skip
