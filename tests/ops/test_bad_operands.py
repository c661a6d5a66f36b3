"""What an op does not take is refused while building, by an error at the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph, specialize
from symgrad.graph.types import TensorType
from tests.support.evaluators import evaluate_reference

F = sg.placeholder((3, 4), name="f")
V = sg.placeholder((5,), name="v")
I = sg.placeholder((3, 4), "int32", name="i")  # noqa: E741 - one letter a dtype
U = sg.placeholder((3, 4), "uint64", name="u")
B = sg.placeholder((3, 4), "bool", name="b")
N = sg.placeholder((None, 4), name="n")

# What a type checker would refuse first.
NO_TEXT: Any = F
SIZE: Any = sg.shape(N)[0]
TWO_AXES: Any = (0, 1)
NO_REDUCTION: Any = "max"

NO_SIZE = "<Tensor reshape: i64[]> is no size"
_ROWS = [
    (lambda: F + V, sg.ShapeError, "add: shapes do not broadcast: 4 in axis -1 of x: f32[3, 4], 5"),
    (lambda: B + B, sg.DTypeError, "add: x: bool[3, 4] is none of int8"),
    (lambda: I + U, sg.DTypeError, "add: int32 and uint64 have no common dtype"),
    (lambda: F + "a", sg.DTypeError, "add: dtype('<U1') is none of bool"),
    (lambda: F & B, sg.DTypeError, "bitwise_and: f32[3, 4] is neither integer nor bool"),
    (lambda: ~F, sg.DTypeError, "bitwise_invert: f32[3, 4] is neither integer nor bool"),
    (lambda: I | 2.5, sg.DTypeError, "bitwise_or: f32[] is neither integer nor bool"),
    (lambda: I ^ U, sg.DTypeError, "bitwise_xor: int32 and uint64 have no common dtype"),
    (lambda: I << F, sg.DTypeError, "bitwise_left_shift: f32[3, 4] is no integer"),
    (lambda: B >> 1, sg.DTypeError, "bitwise_right_shift: bool[3, 4] is no integer"),
    (lambda: I >> 1.0, sg.DTypeError, "bitwise_right_shift: f32[] is no integer"),
    (lambda: True >> I, sg.DTypeError, "bitwise_right_shift: bool[] is no integer"),
    (lambda: sg.logical_and(F, B), sg.DTypeError, "logical_and: f32[3, 4] is not bool"),
    (lambda: sg.logical_not(I), sg.DTypeError, "logical_not: i32[3, 4] is not bool"),
    (lambda: -B, sg.DTypeError, "negative: x: bool[3, 4] is none of"),
    (lambda: +B, sg.DTypeError, "positive: bool[3, 4] is no number"),
    (lambda: abs(B), sg.DTypeError, "abs: bool[3, 4] is no number"),
    (lambda: sg.where(F, F, F), sg.DTypeError, "where: f32[3, 4] is not bool"),
    (lambda: sg.where(B, F, V), sg.ShapeError, "where: shapes do not broadcast"),
    (lambda: F.sum(2), sg.ShapeError, "sum: axis 2 is not an axis of a tensor of rank 2"),
    (lambda: F.sum((0, -2)), sg.ShapeError, "sum: an axis is repeated in (0, -2)"),
    (lambda: F.sum(0.5), sg.DTypeError, "sum: axis must be an int, it is 0.5"),
    (lambda: B.max(), sg.DTypeError, "max: x: bool[3, 4] is none of"),
    (lambda: sg.zeros((0, 2)).max(0), sg.ShapeError, "max: axes [0] of x: f32[0, 2] have no"),
    (lambda: sg.zeros((0, 2)).argmin(), sg.ShapeError, "argmin: axes [0, 1] of x: f32[0, 2]"),
    (lambda: F.argmax(TWO_AXES), sg.DTypeError, "argmax: axis must be an int, it is (0, 1)"),
    (lambda: F @ F, sg.ShapeError, "matmul: inner sizes differ: 4 in a: f32[3, 4], 3 in b: f32"),
    (lambda: F @ 2, sg.ShapeError, "matmul: a: f32[3, 4] and b: f32[]: no operand may be a scalar"),
    (lambda: B @ B, sg.DTypeError, "matmul: bools are not multiplied"),
    (
        lambda: sg.matmul(sg.zeros((2, 3, 4)), sg.zeros((5, 4, 3))),
        sg.ShapeError,
        "matmul: batch sizes differ: 2 in f32[2, 3, 4], 5 in f32[5, 4, 3]",
    ),
    (lambda: sg.tensordot(F, V, axes=1), sg.ShapeError, "tensordot: sizes differ: 4 in axis 1"),
    (lambda: sg.tensordot(F, F, axes=3), sg.ShapeError, "tensordot: 3 axes of a: f32[3, 4]"),
    (lambda: sg.tensordot(F, F, axes=((0, 0), (0, 0))), sg.ShapeError, "do not pair"),
    (lambda: sg.einsum("ij,jk", F), sg.ShapeError, "einsum: 2 terms in 'ij,jk' for 1 operands"),
    (lambda: sg.einsum("ijk", F), sg.ShapeError, "einsum: 3 labels 'ijk' for f32[3, 4]"),
    (lambda: sg.einsum("ij->k", F), sg.ShapeError, "einsum: the result of 'ij->k' is not made of"),
    (lambda: sg.einsum("ii", F), sg.ShapeError, "einsum: sizes of 'i' differ in 'ii' of f32[3, 4]"),
    (
        lambda: sg.einsum("ij,ij->ij", sg.zeros((1, 4)), F),
        sg.ShapeError,
        "einsum: sizes of 'i' differ in 'ij,ij->ij': lhs: f32[1, 4], rhs: f32[3, 4]",
    ),
    (lambda: sg.einsum("i.", V), sg.ShapeError, "einsum: 'i.' is made of more than letters"),
    (lambda: sg.einsum(NO_TEXT, V), sg.DTypeError, "einsum: subscripts are a string"),
    (lambda: sg.take(F, 3, axis=0), sg.IndexOutOfRangeError, "take: index 3 is outside of axis 0"),
    (lambda: sg.take(F, [-5], axis=1), sg.IndexOutOfRangeError, "take: index -5 is outside of"),
    (lambda: sg.take(F, 0.5, axis=0), sg.DTypeError, "take: 0.5 is no integer index"),
    (lambda: sg.take(F, V, axis=0), sg.DTypeError, "take: index: f32[5] is of no integer dtype"),
    (lambda: sg.take_along_axis(F, [0], axis=0), sg.ShapeError, "take_along_axis: ranks differ"),
    (lambda: sg.one_hot(F, 3), sg.DTypeError, "one_hot: indices: f32[3, 4] are of no integer"),
    (lambda: sg.scatter_add(B, [0], True), sg.DTypeError, "scatter_add: updates: bool"),
    (
        lambda: sg.scatter_add(F, [0], V),
        sg.ShapeError,
        "sizes differ: 5 in axis 1 of updates: f32[1, 5], 4 in axis 1 of the elements chosen: f32",
    ),
    (lambda: sg.split(F, 3, 1), sg.ShapeError, "split: axis 1 of x: f32[3, 4] does not divide"),
    (lambda: sg.split(F, [2, 1]), sg.ShapeError, "split: [2, 1] does not cut axis 0"),
    (lambda: sg.unstack(N), sg.ShapeError, "unstack: axis 0 of x: f32[?"),
    (lambda: sg.matrix_transpose(V), sg.ShapeError, "matrix_transpose: x: f32[5] has fewer"),
    (lambda: sg.moveaxis(F, (0, 1), 0), sg.ShapeError, "moveaxis: 2 axes to 1 places"),
    (lambda: sg.roll(F, (1, 2), axis=0), sg.ShapeError, "roll: 2 shifts for 1 axes"),
    (lambda: sg.roll(F, 1.5, axis=0), sg.DTypeError, "roll: shift must be an int, it is 1.5"),
    (lambda: sg.roll(F, V, axis=0), sg.DTypeError, "roll: shift: f32[5] is no integer"),
    (lambda: sg.roll(F, [sg.arange(2)], axis=[0]), sg.ShapeError, "roll: shift: i64[2] is no scal"),
    (lambda: sg.diagonal(F, 0, 1, 1), sg.ShapeError, "diagonal: axis 1 is given twice"),
    (lambda: sg.zeros((2, -1)), sg.ShapeError, "zeros: size -1 is negative"),
    (lambda: sg.zeros((SIZE, 3)), sg.DTypeError, f"zeros: {NO_SIZE}"),
    (lambda: sg.reshape(F, (SIZE, -1)), sg.DTypeError, f"reshape: {NO_SIZE}"),
    (lambda: sg.broadcast_to(V, (SIZE, 5)), sg.DTypeError, f"broadcast_to: {NO_SIZE}"),
    (lambda: sg.one_hot(I, SIZE), sg.DTypeError, f"one_hot: {NO_SIZE}"),
    (lambda: sg.tile(V, SIZE), sg.DTypeError, f"tile: {NO_SIZE}"),
    (lambda: sg.segment_sum(V, [0] * 5, SIZE), sg.DTypeError, f"segment_sum: {NO_SIZE}"),
    (lambda: sg.ones((2.5,)), sg.DTypeError, "ones: 2.5 is no size"),
    (lambda: sg.arange(0, 3, 0), sg.ShapeError, "arange: the step is 0"),
    (lambda: sg.tril(V), sg.ShapeError, "tril: x: f32[5] has fewer than two axes"),
    (lambda: sg.variable(F), sg.DTypeError, "variable: <Tensor f: f32[3, 4]> has no value yet"),
    (lambda: sg.nn.linear(F, V), sg.ShapeError, "linear: w: f32[5] is no matrix"),
    (lambda: sg.nn.cross_entropy(F, I), sg.ShapeError, "cross_entropy: integer labels: i32[3, 4]"),
    (lambda: sg.nn.cross_entropy(F, B), sg.DTypeError, "cross_entropy: labels: bool[3, 4] are"),
    (
        lambda: sg.nn.mse(F, F, reduction=NO_REDUCTION),
        sg.GraphError,
        "mse: reduction 'max' is none of",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), _ROWS, ids=[row[2] for row in _ROWS])
def test_a_bad_operand_is_refused_at_the_users_line(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: F @ sg.zeros((2, 4)), "b fits transposed: matmul(a, b, transpose_b=True)"),
        (lambda: F @ sg.zeros((3, 5)), "a fits transposed: matmul(a, b, transpose_a=True)"),
        (lambda: F & F, "compare with 0"),
        (lambda: I * U, "convert one of them with astype"),
    ],
)
def test_the_error_hints_at_what_was_probably_meant(call, hint):
    with pytest.raises(sg.SymgradError) as caught:
        call()
    assert caught.value.hint == hint


def test_what_cannot_be_right_for_any_size_is_found_when_sizes_are_known():
    x, y = sg.placeholder(("n",)), sg.placeholder(("m",))

    graph = Graph(x + y, [x, y])
    with pytest.raises(sg.ShapeError, match=r"sizes differ: 1 in axis 0 of x: f32\[1\], 3"):
        specialize(graph, {"n": 1, "m": 3})
    assert specialize(graph, {"n": 3, "m": 3}).outputs[0].type == TensorType(sg.float32, (3,))


@pytest.mark.parametrize("index", [3, -4])
def test_an_index_outside_of_its_axis_stops_the_program(index):

    x, i = sg.placeholder((3, 2)), sg.placeholder((2,), "int32")
    arrays = [np.zeros((3, 2), np.float32), np.array([0, index], np.int32)]
    for result, op in ((x[i], "gather"), (sg.scatter_add(x, i, 1.0), "scatter_add")):
        message = f"^{op}: index {index} is outside of axis 0"
        with pytest.raises(sg.IndexOutOfRangeError, match=message):
            evaluate_reference(Graph(result, [x, i]), arrays)
