"""The full text of the errors of compiling and calling: what, both values, the line, a hint.

Each test is a line of code that goes wrong and the whole text it gives. `<here>` in a text stands
for that line; a text about where something was made has the line of the making instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.refusals import assert_refused, line_of

F32 = np.float32
ONES = np.ones((2, 3), F32)


def made() -> tuple[sg.Tensor, sg.Tensor]:
    return sg.placeholder((2, 3), name="x"), sg.placeholder((3,), name="y")


MADE_AT = line_of(made)

X, Y = made()
NAMED = sg.placeholder(("n", 4), name="a")
W = sg.variable(np.zeros((2, 3), F32), name="w")


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
    assert_refused(lambda: ADD(ONES, np.ones(3, int)), TypeError, """
        add_row: input 1 (y): int64 was given, float32 is needed
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


def test_out_that_is_given_twice():
    x = sg.placeholder((2,))
    step, out = sg.compile([x], [x, x * 2], name="both"), np.empty(2, F32)
    assert_refused(lambda: step(np.ones(2, F32), out=[out, out]), ValueError, """
        both: out 0 and out 1 share memory
          --> <here>
          hint: each result needs an array of its own
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


def test_sizes_that_differ_at_a_call_name_the_function_that_was_called():
    x, w = sg.placeholder((None, 3), name="x"), sg.placeholder((None, 4), name="w")

    def dense() -> sg.Tensor:
        return sg.nn.linear(x, w)

    step = sg.compile([x, w], dense())
    with pytest.raises(ValueError, match="sizes of 'j' differ") as caught:
        step(np.ones((2, 3), F32), np.ones((4, 4), F32))
    assert str(caught.value).startswith("linear: sizes of 'j' differ in 'ij,jk->ik'")
    assert line_of(dense) in str(caught.value)
    with pytest.raises(ValueError, match="matmul: sizes of"):
        sg.compile([x, w], sg.matmul(x, w))(np.ones((2, 3), F32), np.ones((4, 4), F32))


def test_an_index_out_of_range_at_run_time():
    table, i = sg.placeholder((5, 2), name="table"), sg.placeholder((3,), "int64", name="i")

    def take() -> sg.Tensor:
        return sg.take(table, i, axis=0)

    step = sg.compile([table, i], take())
    for index in (5, -6):
        with pytest.raises(IndexError) as caught:
            step(np.ones((5, 2), F32), np.array([0, index, 1]))
        assert str(caught.value) == (
            f"take: index {index} is out of range for axis 0 of size 5 of f32[5, 2]\n"
            f"  --> {line_of(take)}"
        )


def test_an_index_that_a_loss_or_a_layer_looks_up_is_said_by_its_axis():
    """Of the indices that an op has, those that count rows are none that the user gave."""
    x, i = sg.placeholder((2, 3), name="x"), sg.placeholder((2,), "int64", name="i")
    loss = sg.nn.cross_entropy(x, i)
    built = {
        "cross_entropy: index 5 is out of range for axis 1 of size 3 of f32[2, 3]": loss,
        "embedding: index 5 is out of range for axis 0 of size 2 of f32[2, 3]": (
            sg.nn.embedding(i, x)
        ),
        "take_along_axis: index 5 is out of range for axis 1 of size 3 of f32[2, 3]": (
            sg.take_along_axis(x, sg.expand_dims(i, axis=1), axis=1)
        ),
        "cross_entropy: index 5 is out of range for axis 0 of size 3 of i64[3]": (
            sg.gradients(loss, [x])
        ),
    }
    for message, outputs in built.items():
        step = sg.compile([x, i], outputs, opt_level=0)
        with pytest.raises(IndexError) as caught:
            step(np.ones((2, 3), F32), np.array([0, 5]))
        assert str(caught.value).splitlines()[0] == message


# --------------------------------------------------------------------------------- compiling


def test_a_placeholder_that_is_not_fed():
    text = f"""
        %s: <Tensor y: f32[3]> is needed and not among the inputs
          --> {MADE_AT}
          hint: add it to the inputs of compile, or to the feed_dict of run
    """
    assert_refused(lambda: sg.compile([X], X + Y), ValueError, text % "compile")
    assert_refused(lambda: sg.run(X + Y, {X: ONES}), ValueError, text % "run")


def test_an_input_that_is_no_placeholder():
    assert_refused(lambda: sg.compile([X * 2], X), ValueError, """
        compile: input 0 is <Tensor multiply: f32[2, 3]>, not a placeholder
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.compile([3], X), TypeError, """
        compile: input 3 is no placeholder
          --> <here>
    """)  # fmt: skip


def test_an_input_given_twice():
    assert_refused(lambda: sg.compile([X, X], X), ValueError, f"""
        compile: <Tensor x: f32[2, 3]> is among the inputs twice
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


def test_a_limit_of_memory_that_is_no_number_of_bytes():
    assert_refused(lambda: sg.compile([X], X, memory_limit=-1), RuntimeError, """
        compile: memory_limit=-1 is no number of bytes
          --> <here>
    """)  # fmt: skip


@pytest.mark.parametrize("threads", [0, -2, 1.5, True, "2"])
def test_a_number_of_threads_that_is_none(threads):
    assert_refused(lambda: sg.compile([X], X, threads=threads), RuntimeError, f"""
        compile: threads={threads!r} is no positive number of threads
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
        compile: variable 'w' is updated twice
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


def test_the_line_is_the_users_in_a_module_whose_name_begins_as_one_of_pythons():
    module: dict[str, Any] = {"__name__": "functools_of_mine", "sg": sg}
    exec(compile("def f():\n    sg.zeros((2,), 'float8')", "mine.py", "exec"), module)
    with pytest.raises(TypeError) as caught:
        module["f"]()
    error = caught.value
    assert isinstance(error, sg.SymgradError)
    assert error.source is not None
    assert (error.source.file, error.source.line) == ("mine.py", 2)
