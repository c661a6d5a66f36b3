"""The full text of the errors of building a graph: the op, both values, the user's line, a hint.

As in `test_messages.py`, a test is a line of code that goes wrong and the whole text it gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.build import region
from tests.support.refusals import assert_refused, line_of

X = sg.placeholder((2, 3), name="x")
NAMED = sg.placeholder(("n", 4), name="a")


# ----------------------------------------------------------------------- tensors have no values


def test_a_branch_on_a_tensor():
    assert_refused(lambda: 1 if X > 0 else 2, TypeError, """
        greater: a symbolic tensor bool[2, 3] has no value to make a bool of
          --> <here>
          hint: use sg.where, or sg.cond for a branch that must not run
    """)  # fmt: skip


def test_a_number_of_a_tensor():
    assert_refused(lambda: float(X), TypeError, """
        placeholder: a symbolic tensor f32[2, 3] has no value to make a float of
          --> <here>
          hint: compile the graph and call it, or use sg.run
    """)  # fmt: skip
    assert_refused(lambda: int(X), TypeError, """
        placeholder: a symbolic tensor f32[2, 3] has no value to make an int of
          --> <here>
          hint: compile the graph and call it, or use sg.run
    """)  # fmt: skip
    assert_refused(lambda: np.asarray(X), TypeError, """
        placeholder: a symbolic tensor f32[2, 3] has no value to make an array of
          --> <here>
          hint: compile the graph and call it, or use sg.run
    """)  # fmt: skip


def test_a_pickled_tensor():
    assert_refused(lambda: X.__reduce_ex__(4), TypeError, """
        pickle: a Tensor is compared by identity, and a pickled one would be another
          --> <here>
          hint: pickle sg.Graph(outputs), which takes the values of its variables along
    """)  # fmt: skip


def test_a_list_indexed_with_a_tensor():
    assert_refused(lambda: [1, 2][X], TypeError, """
        placeholder: a symbolic tensor f32[2, 3] has no value to make an index of
          --> <here>
          hint: index with the tensor itself, or use sg.take
    """)  # fmt: skip


def test_iterating_an_axis_of_unknown_length():
    assert_refused(lambda: list(NAMED), TypeError, """
        placeholder: a symbolic tensor f32[n, 4] has no value to make an iterator of
          --> <here>
          hint: iterate an axis of known size
    """)  # fmt: skip
    assert_refused(lambda: len(NAMED), TypeError, """
        placeholder: a symbolic tensor f32[n, 4] has no value to make a length of
          --> <here>
          hint: use .shape
    """)  # fmt: skip


def test_a_tensor_of_another_region():
    with region("branch"):
        inside = X * 2
    assert_refused(lambda: inside + 1, ValueError, """
        add: operand 0 is <Tensor multiply: f32[2, 3]> of region 'branch', used in the top level
          --> <here>
          hint: return it from 'branch' instead
    """)  # fmt: skip

    def other() -> sg.Tensor:
        with region("other"):
            return inside + 1

    with pytest.raises(ValueError, match="region 'other'") as caught:
        other()
    assert str(caught.value) == (
        "add: operand 0 is <Tensor multiply: f32[2, 3]> of region 'branch', "
        "used in region 'other'\n"
        f"  --> {line_of(other, 2)}\n"
        "  hint: return it from 'branch' instead"
    )


def test_a_result_that_belongs_to_a_region():
    def make() -> sg.Tensor:
        with region("branch"):
            return X * 2

    inside = make()
    with pytest.raises(ValueError, match="branch") as caught:
        sg.compile([X], inside)
    assert str(caught.value) == (
        "compile: <Tensor multiply: f32[2, 3]> belongs to region 'branch' and cannot leave it\n"
        f"  --> {line_of(make, 2)}\n"
        "  hint: return it from 'branch' instead"
    )


# --------------------------------------------------------------------------------------- ops


def test_inner_sizes_of_a_product():
    assert_refused(lambda: X @ X, ValueError, """
        matmul: inner sizes differ: 3 in a: f32[2, 3], 2 in b: f32[2, 3]
          --> <here>
          hint: b fits transposed: matmul(a, b, transpose_b=True)
    """)  # fmt: skip


def test_shapes_that_do_not_broadcast():
    four = sg.placeholder((4,))
    assert_refused(lambda: X + four, ValueError, """
        add: shapes do not broadcast: 3 in axis -1 of x: f32[2, 3], 4 in axis -1 of y: f32[4]
          --> <here>
    """)  # fmt: skip


def test_an_axis_that_there_is_not():
    assert_refused(lambda: sg.sum(X, axis=2), ValueError, """
        sum: axis 2 is not an axis of a tensor of rank 2
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: X.max((0, -2)), ValueError, """
        max: an axis is repeated in (0, -2)
          --> <here>
    """)  # fmt: skip


def test_a_shape_of_another_number_of_elements():
    assert_refused(lambda: X.reshape(4, 2), ValueError, """
        reshape: 6 elements of x: f32[2, 3], 8 wanted by f32[4, 2]
          --> <here>
    """)  # fmt: skip


def test_dtypes_that_meet_nowhere():
    a, b = sg.placeholder((2,), "uint64"), sg.placeholder((2,), "int64")
    assert_refused(lambda: a + b, TypeError, """
        add: uint64 and int64 have no common dtype
          --> <here>
          hint: convert one of them with astype
    """)  # fmt: skip


def test_a_dtype_that_there_is_not():
    assert_refused(lambda: sg.placeholder((2,), "float8"), TypeError, """
        placeholder: dtype 'float8' is none of bool, int8, int16, int32, int64, uint8, uint16, \
uint32, uint64, float16, bfloat16, float32, float64, complex64, complex128
          --> <here>
    """)  # fmt: skip


def test_a_size_that_is_none():
    assert_refused(lambda: sg.placeholder((2, -1)), ValueError, """
        placeholder: size -1 is negative
          --> <here>
    """)  # fmt: skip
    no_size: Any = 1.5
    assert_refused(lambda: sg.placeholder((2, no_size)), TypeError, """
        placeholder: 1.5 is no size
          --> <here>
    """)  # fmt: skip


def test_a_constant_that_does_not_fit():
    assert_refused(lambda: sg.constant([1, 300], "uint8"), TypeError, """
        constant: [1, 300] does not fit uint8
          --> <here>
    """)  # fmt: skip


def test_a_known_index_out_of_range():
    assert_refused(lambda: X[2], IndexError, """
        getitem: index 2 is outside of axis 0 of size 2
          --> <here>
    """)  # fmt: skip


def test_a_gradient_that_was_forbidden():
    def forbid() -> sg.Tensor:
        return sg.prevent_gradient(X, "the reward is data")

    secret = forbid()
    assert_refused(lambda: sg.gradients(sg.sum(secret), [X]), LookupError, f"""
        prevent_gradient: the gradient of f32[2, 3] was disabled on purpose: the reward is data
          --> {line_of(forbid)}
    """)  # fmt: skip


def test_what_is_no_tensor_is_no_output_of_a_graph():
    x = sg.placeholder((2,), name="x")
    number: Any = [1.0]
    assert_refused(lambda: sg.Graph([x, *sg.gradients(x, [sg.constant(1.0)])], [x]), TypeError, """
        Graph: output 1: NoneType is no tensor of a graph
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.Graph([x], number), TypeError, """
        Graph: input 0: float is no tensor of a graph
          --> <here>
    """)  # fmt: skip
    assert sg.Graph([x * 2], x).inputs == (x,)


def test_what_is_no_update_of_a_graph():
    x, w = sg.placeholder((2,)), sg.variable([1.0, 2.0], name="w")
    nothing: Any = None
    alone: Any = sg.Update(w, x)
    assert_refused(lambda: sg.Graph(x, updates=[nothing]), TypeError, """
        Graph: update 0: NoneType is no Update
          --> <here>
          hint: sg.Update(variable, value) is one
    """)  # fmt: skip
    assert_refused(lambda: sg.compile([x], x, alone), TypeError, """
        compile: updates is Update, a list of updates is needed
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.Update(nothing, x), TypeError, """
        Update: the variable is NoneType, not a Variable
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.Update(w, nothing), TypeError, """
        Update: the value is NoneType, not a Tensor
          --> <here>
    """)  # fmt: skip
