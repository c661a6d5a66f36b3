"""The full text of the errors a user meets: what, both values, the user's line, a hint.

Each test is a line of code that goes wrong and the whole text it gives. `<here>` in a text stands
for that line; a text about where something was made has the line of the making instead.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.build import region

F32 = np.float32
ONES = np.ones((2, 3), F32)


def made() -> tuple[sg.Tensor, sg.Tensor]:
    return sg.placeholder((2, 3), name="x"), sg.placeholder((3,), name="y")


def line_of(function: Callable[..., Any]) -> str:
    """Return the first line inside of `function`, as messages say it."""
    return f"test_messages.py:{function.__code__.co_firstlineno + 1} in {function.__name__}"


MADE_AT = line_of(made)

X, Y = made()
NAMED = sg.placeholder(("n", 4), name="a")
W = sg.variable(np.zeros((2, 3), F32), name="w")


def assert_refused(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    """Assert that `call`, a lambda or function of one line, raises `error` with `text`."""
    with pytest.raises(error) as caught:
        call()
    line = call.__code__.co_firstlineno
    here = f"test_messages.py:{line} in {call.__name__}"
    assert isinstance(caught.value, sg.SymgradError)
    assert str(caught.value) == textwrap.dedent(text).strip("\n").replace("<here>", here)


# ----------------------------------------------------------------------------------- calling


ADD = sg.compile([X, Y], X + Y, name="add_row")


def test_too_few_inputs():
    assert_refused(lambda: ADD(ONES), ValueError, """
        add_row: 1 inputs were given, 2 are needed: input 0 (x), input 1 (y)
          --> <here>
    """)  # fmt: skip


def test_too_many_inputs():
    assert_refused(lambda: ADD(ONES, ONES[0], 1), ValueError, """
        add_row: 3 inputs were given, 2 are needed: input 0 (x), input 1 (y)
          --> <here>
    """)  # fmt: skip


def test_an_input_of_another_shape():
    assert_refused(lambda: ADD(ONES.T, ONES[0]), ValueError, """
        add_row: input 0 (x): shape [3, 2] was given, [2, 3] is needed
          --> <here>
    """)  # fmt: skip


def test_an_input_of_another_rank():
    assert_refused(lambda: ADD(ONES, 1.0), ValueError, """
        add_row: input 1 (y): shape [] was given, [3] is needed
          --> <here>
    """)  # fmt: skip


def test_an_input_of_a_dtype_that_does_not_cast_safely():
    assert_refused(lambda: ADD(ONES, np.ones(3)), TypeError, """
        add_row: input 1 (y): float64 was given, float32 is needed
          --> <here>
          hint: convert it: .astype('float32')
    """)  # fmt: skip


def test_an_input_that_is_a_tensor():
    assert_refused(lambda: ADD(X, ONES[0]), TypeError, """
        add_row: input 0 (x): <Tensor x: f32[2, 3]> is symbolic, an array f32[2, 3] is needed
          --> <here>
          hint: a compiled step takes arrays
    """)  # fmt: skip


def test_inputs_in_another_nest():
    nested = sg.compile([{"x": X, "y": [Y]}], X + Y, name="nested")
    assert_refused(lambda: nested({"x": ONES}), ValueError, """
        nested: the inputs are ({'x': *},), ({'x': *, 'y': [*]},) is needed
          --> <here>
    """)  # fmt: skip


def test_out_in_another_nest():
    two = sg.compile([X], {"a": X + 1, "b": X + 2}, name="two")
    assert_refused(lambda: two(ONES, out={"a": ONES}), ValueError, """
        two: out is {'a': *}, {'a': *, 'b': *} is needed
          --> <here>
    """)  # fmt: skip


def test_out_of_another_shape_dtype_and_kind():
    assert_refused(lambda: ADD(ONES, ONES[0], out=np.empty((3, 3), F32)), ValueError, """
        add_row: out 0: shape [3, 3] was given, [2, 3] is needed
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: ADD(ONES, ONES[0], out=np.empty((2, 3))), TypeError, """
        add_row: out 0: float64 was given, float32 is needed
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: ADD(ONES, ONES[0], out=[1, 2]), TypeError, """
        add_row: out 0: a list was given, an array is needed
          --> <here>
    """)  # fmt: skip


def test_out_that_is_read_only():
    frozen = np.zeros((2, 3), F32)
    frozen.setflags(write=False)
    assert_refused(lambda: ADD(ONES, ONES[0], out=frozen), ValueError, """
        add_row: out 0: the array is read-only
          --> <here>
    """)  # fmt: skip


def test_sizes_of_one_name_that_differ():
    a, b = sg.placeholder(("n", 4), name="a"), sg.placeholder(("n",), name="b")
    step = sg.compile([a, b], sg.sum(a, axis=1) * b)
    assert_refused(lambda: step(np.ones((5, 4), F32), np.ones(6, F32)), ValueError, """
        step: sizes of n differ: 5 in axis 0 of input 0 (a), 6 in axis 0 of input 1 (b)
          --> <here>
    """)  # fmt: skip


def test_unknown_sizes_that_had_to_be_equal():
    a, b = sg.placeholder((None,), name="a"), sg.placeholder((None,), name="b")

    def add() -> sg.Tensor:
        return a + b

    step = sg.compile([a, b], add())
    with pytest.raises(ValueError, match="sizes differ") as caught:
        step(np.ones(3, F32), np.ones(4, F32))
    assert str(caught.value) == (
        "add: sizes differ: 3 in axis 0 of x: f32[3], 4 in axis 0 of y: f32[4]\n"
        f"  --> {line_of(add)}\n"
        "  hint: sizes at this call: axis 0 of a is 3, axis 0 of b is 4"
    )


def test_an_index_out_of_range_at_run_time():
    table, i = sg.placeholder((5, 2), name="table"), sg.placeholder((3,), "int64", name="i")

    def take() -> sg.Tensor:
        return sg.take(table, i, axis=0)

    step = sg.compile([table, i], take())
    for index in (5, -6):
        with pytest.raises(IndexError) as caught:
            step(np.ones((5, 2), F32), np.array([0, index, 1]))
        assert str(caught.value) == (
            f"gather: index {index} is out of range for axis 0 of size 5 of f32[5, 2]\n"
            f"  --> {line_of(take)}"
        )


# --------------------------------------------------------------------------------- compiling


def test_a_placeholder_that_is_not_fed():
    text = f"""
        graph: <Tensor y: f32[3]> is needed and not among the inputs
          --> {MADE_AT}
          hint: add it to the inputs of compile, or to the feed_dict of run
    """
    assert_refused(lambda: sg.compile([X], X + Y), ValueError, text)
    assert_refused(lambda: sg.run(X + Y, {X: ONES}), ValueError, text)


def test_an_input_that_is_no_placeholder():
    assert_refused(lambda: sg.compile([X * 2], X), ValueError, """
        graph: input 0 is <Tensor multiply: f32[2, 3]>, not a placeholder
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.compile([3], X), TypeError, """
        compile: input 3 is no placeholder
          --> <here>
    """)  # fmt: skip


def test_an_input_given_twice():
    assert_refused(lambda: sg.compile([X, X], X), ValueError, f"""
        graph: <Tensor x: f32[2, 3]> is among the inputs twice
          --> {MADE_AT}
    """)  # fmt: skip


def test_an_unknown_target():
    assert_refused(lambda: sg.compile([X], X, target="z80"), RuntimeError, """
        compile: target 'z80' is none of native, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, aarch64
          --> <here>
    """)  # fmt: skip


def test_an_unknown_level():
    assert_refused(lambda: sg.compile([X], X, opt_level=4), RuntimeError, """
        compile: opt_level 4 is none of 0, 1, 2, 3
          --> <here>
    """)  # fmt: skip


def test_an_option_that_this_version_does_not_have():
    assert_refused(lambda: sg.compile([X], X, threads=4), RuntimeError, """
        compile: threads=4 is not supported in this version
          --> <here>
    """)  # fmt: skip


def test_an_unknown_stage_and_kernel():
    assert_refused(lambda: ADD.ir("bytecode"), RuntimeError, """
        add_row: stage 'bytecode' is none of graph, optimized, loops, llvm, llvm-opt, asm
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: ADD.ir("asm", kernel="k9"), RuntimeError, """
        add_row: there is no kernel 'k9' at stage 'asm'
          --> <here>
    """)  # fmt: skip


def test_a_stage_of_a_step_whose_sizes_are_not_known():
    step = sg.compile([NAMED], NAMED * 2)
    assert_refused(lambda: step.ir("llvm"), RuntimeError, """
        step: sizes n are not known yet
          --> <here>
          hint: call the step once first
    """)  # fmt: skip


# ----------------------------------------------------------------------------------- updates


def test_a_new_value_of_another_shape():
    assert_refused(lambda: sg.compile([Y], Y, [(W, Y)]), ValueError, """
        update of w: f32[3] given to a variable f32[2, 3]
          --> <here>
    """)  # fmt: skip


def test_a_new_value_of_another_dtype():
    assert_refused(lambda: sg.Update(W, X.astype("float64")), TypeError, """
        update of w: f64[2, 3] given to a variable f32[2, 3]
          --> <here>
    """)  # fmt: skip


def test_a_variable_updated_twice():
    assert_refused(lambda: sg.compile([X], X, [(W, X), (W, X * 2)]), ValueError, """
        graph: variable 'w' is updated twice
          --> <here>
    """)  # fmt: skip


def test_an_update_of_what_is_no_variable():
    wrong: Any = (X, X)
    assert_refused(lambda: sg.compile([X], X, [wrong]), TypeError, """
        compile: (<Tensor x: f32[2, 3]>, <Tensor x: f32[2, 3]>) is neither an Update nor a pair of \
a variable and its new value
          --> <here>
    """)  # fmt: skip
    alone: Any = W
    assert_refused(lambda: sg.compile([X], X, [alone]), TypeError, """
        compile: <Tensor w: f32[2, 3]> is neither an Update nor a pair of a variable and its new \
value
          --> <here>
    """)  # fmt: skip


def test_a_value_assigned_in_another_shape_or_dtype():
    def shape() -> None:
        W.value = np.zeros(3)

    def dtype() -> None:
        W.value = np.zeros((2, 3), np.complex64)

    with pytest.raises(ValueError, match="shape") as caught:
        shape()
    assert str(caught.value) == (
        f"variable w: shape (3,) was assigned to a variable of shape (2, 3)\n  --> {line_of(shape)}"
    )
    with pytest.raises(TypeError, match="complex64") as refused:
        dtype()
    assert str(refused.value) == (
        f"variable w: complex64 was assigned to a variable of float32\n  --> {line_of(dtype)}"
    )


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
        f"  --> test_messages.py:{other.__code__.co_firstlineno + 2} in other\n"
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
        "graph: <Tensor multiply: f32[2, 3]> belongs to region 'branch' and cannot leave it\n"
        f"  --> test_messages.py:{make.__code__.co_firstlineno + 2} in make\n"
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
    assert_refused(lambda: sg.placeholder((2,), "complex64"), TypeError, """
        dtype: 'complex64' is none of bool, int8, int16, int32, int64, uint8, uint16, uint32, \
uint64, float16, bfloat16, float32, float64
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
