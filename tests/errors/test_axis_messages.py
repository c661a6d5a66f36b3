"""Errors of functions that shape, join and pad: what is wrong, by which operands, at whose line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

F = sg.placeholder((3, 4), name="f")
V = sg.placeholder((5,), name="v")
C = sg.placeholder((2, 3, 4), name="c")
N = sg.placeholder((None,), name="n")
I = sg.placeholder((5,), "int64", name="i")  # noqa: E741 - an integer
ONE: Any = F  # what a type checker would refuse first
NUMBER: Any = V
SIZE: Any = 2.5
TEXT: Any = "a"

_ROWS = [
    (
        lambda: sg.concat(ONE),
        TypeError,
        "concat: f32[3, 4] is one tensor, and a list of tensors is",
    ),
    (lambda: sg.flip(F, axis=(0, -2)), ValueError, "flip: an axis is repeated in (0, -2)"),
    (
        lambda: sg.squeeze(sg.zeros((1, 3)), axis=[0, 0]),
        ValueError,
        "squeeze: an axis is repeated in (0, 0)",
    ),
    (lambda: sg.stack(ONE), TypeError, "stack: f32[3, 4] is one tensor"),
    (
        lambda: sg.stack([F, V]),
        ValueError,
        "stack: ranks differ: 2 of operand 0: f32[3, 4], 1 of operand 1: f32[5]",
    ),
    (lambda: sg.nan_to_num(F, posinf=TEXT), TypeError, "nan_to_num: posinf: 'a' is no number"),
    (lambda: sg.zeros(SIZE), TypeError, "zeros: shape 2.5 is neither a size nor a sequence of"),
    (lambda: sg.average(F, weights="ab"), TypeError, "average: dtype('<U2') is none of bool, int8"),
    (lambda: sg.maximum(F, [None]), TypeError, "maximum: dtype('O') is none of bool, int8"),
    (lambda: sg.matmul(V, F), ValueError, "matmul: inner sizes differ: 5 in a: f32[5], 3 in b"),
    (
        lambda: sg.nan_to_num(F, 0.0, NUMBER),
        TypeError,
        "nan_to_num: posinf: f32[5] is no number",
    ),
    (
        lambda: sg.nan_to_num(F, neginf=NUMBER),
        TypeError,
        "nan_to_num: neginf: f32[5] is no number",
    ),
    (lambda: sg.tile(F, (-1, 2)), ValueError, "tile: repetitions (-1, 2) has negative numbers"),
    (lambda: sg.tile(F, 2.5), TypeError, "tile: repetitions 2.5 are no integers"),
    (lambda: sg.tile(F, "ab"), TypeError, "tile: repetitions 'ab' are no integers"),
    (lambda: sg.special.logsumexp(F, 5), IndexError, "logsumexp: axis 5 is not an axis of"),
    (lambda: sg.nn.softmax(F, 5), IndexError, "softmax: axis 5 is not an axis of"),
    (lambda: sg.nn.log_softmax(F, 5), IndexError, "log_softmax: axis 5 is not an axis of"),
    (lambda: sg.nn.softmin(F, 5), IndexError, "softmin: axis 5 is not an axis of"),
    (lambda: sg.hstack(ONE), TypeError, "hstack: f32[3, 4] is one tensor"),
    (
        lambda: sg.concat([F, V]),
        ValueError,
        "concat: ranks differ: operand 0: f32[3, 4],",
    ),
    (
        lambda: sg.concat([F, F, sg.zeros((3, 5))]),
        ValueError,
        "concat: sizes differ: 4 in axis 1 of operand 0: f32[3, 4], 5 in axis 1 of operand 2: "
        "f32[3, 5]; axis 0 is joined",
    ),
    (
        lambda: sg.concat([sg.zeros(()), 1.0]),
        IndexError,
        "concat: axis 0 is not an axis of a tensor",
    ),
    (lambda: sg.constant([F, F]), TypeError, "hint: use sg.stack, or sg.concat"),
    (lambda: sg.asarray([[F], [F]]), TypeError, "hint: use sg.stack, or sg.concat"),
    (
        lambda: sg.broadcast_arrays(F, V),
        ValueError,
        "broadcast_arrays: shapes do not broadcast",
    ),
    (lambda: sg.repeat(F, -1), ValueError, "repeat: repeats -1 is negative"),
    (lambda: sg.repeat(V, [1, -1, 0, 0, 0]), ValueError, "repeat: repeats [1, -1, 0, 0, 0] has"),
    (
        lambda: sg.repeat(V, [1, 2]),
        ValueError,
        "repeat: repeats of shape (2,) do not fit",
    ),
    (
        lambda: sg.repeat(N, [1, 2]),
        ValueError,
        "repeat: repeats of shape (2,) do not fit",
    ),
    (lambda: sg.repeat(V, I), TypeError, "repeat: repeats: i64[5] is a tensor: the shape of the"),
    (lambda: sg.repeat(V, [0.5] * 5), TypeError, "are no integers"),
    (lambda: sg.pad(F, -1), ValueError, "pad: widths -1 are negative"),
    (
        lambda: sg.pad(F, ((1, 2), (3, 4), (5, 6))),
        ValueError,
        "pad: pad_width ((1, 2),",
    ),
    (lambda: sg.pad(F, 1, "mirror"), ValueError, "pad: mode 'mirror' is none of constant, edge"),
    (lambda: sg.pad(sg.zeros((0, 2)), 1, "wrap"), ValueError, "pad: axis 0 of x: f32[0, 2] has no"),
    (lambda: sg.diag(C), ValueError, "diag: x: f32[2, 3, 4] is neither a vector nor a matrix"),
    (lambda: sg.diff(F, n=-1), ValueError, "diff: n = -1 is negative"),
    (
        lambda: sg.average(F, 0, sg.zeros(2)),
        ValueError,
        "average: weights: f32[2] fit neither",
    ),
    (
        lambda: sg.array_split(F, 0),
        ValueError,
        "array_split: axis 0 of x: f32[3, 4] is not cut",
    ),
    (lambda: sg.array_split(N, 2), ValueError, "array_split: axis 0 of x: f32[?"),
    (lambda: sg.vsplit(V, 2), ValueError, "vsplit: x: f32[5] has fewer than 2 axes"),
    (lambda: sg.dsplit(F, 2), ValueError, "dsplit: x: f32[3, 4] has fewer than 3 axes"),
    (lambda: sg.fliplr(V), ValueError, "fliplr: x: f32[5] has fewer than 2 axes"),
    (lambda: sg.rot90(F, 1, (0, -2)), ValueError, "rot90: axis 0 is given twice"),
    (lambda: sg.conj(F > 0), TypeError, "conj: bool[3, 4] is no number"),
]


@pytest.mark.parametrize(("call", "error", "text"), _ROWS, ids=[row[2] for row in _ROWS])
def test_what_is_wrong_is_said_at_the_users_line(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, sg.SymgradError)
    assert text in str(caught.value)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


@pytest.mark.parametrize(
    "call",
    [
        lambda: sg.sum(F, axis=2),
        lambda: F.max(-3),
        lambda: sg.argmax(F, axis=7),
        lambda: sg.expand_dims(F, 4),
        lambda: sg.expand_dims(F, (0, 9)),
        lambda: sg.squeeze(F, 2),
        lambda: sg.concat([F, F], axis=2),
        lambda: sg.stack([F, F], axis=3),
        lambda: sg.flip(F, axis=2),
        lambda: sg.roll(F, 1, axis=2),
        lambda: sg.take(F, [0], axis=2),
        lambda: sg.repeat(F, 2, axis=2),
        lambda: sg.moveaxis(F, 0, 2),
        lambda: sg.permute_dims(F, (0, 2)),
        lambda: sg.unstack(F, axis=2),
        lambda: sg.diff(F, axis=2),
        lambda: sg.var(F, axis=2),
        lambda: sg.count_nonzero(F, axis=2),
        lambda: np.std(F, axis=2),
        lambda: sg.rot90(F, axes=(0, 2)),
        lambda: sg.take_along_axis(F, [[0]], axis=2),
    ],
)
def test_an_axis_that_is_not_there_is_an_index_error_and_a_value_error(call):
    with pytest.raises(sg.AxisError, match="is not an axis of a tensor of rank") as caught:
        call()
    assert isinstance(caught.value, IndexError)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, sg.ShapeError)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__
