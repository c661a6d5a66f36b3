"""The full text of the errors of transformations of functions: vmap, vjp, hessian and others."""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from tests.support.refusals import assert_refused

X = np.ones(3)
ROWS = np.ones((4, 3))
Y = sg.placeholder((3,), "float64", name="y")
# What the types of the library would refuse as well.
WRONG_FUNCTION: Any = 3


def _same(x: sg.Tensor) -> sg.Tensor:
    return x


def _product(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
    return x * y


# ------------------------------------------------------------------------------------------- vmap


def test_sizes_that_differ():
    assert_refused(lambda: sg.vmap(_product)(ROWS, X), ValueError, """
        vmap: sizes differ: 4 in argument 0 along axis 0, 3 in argument 1 along axis 0
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.vmap(lambda p, w: w, (0, 1))({"a": ROWS}, w=ROWS), ValueError, """
        vmap: in_axes has 2 entries for 1 arguments by position
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.vmap(lambda p, w: w)({"a": ROWS}, w=X), ValueError, """
        vmap: sizes differ: 4 in argument 0['a'] along axis 0, 3 in w along axis 0
          --> <here>
    """)  # fmt: skip


def test_axes_that_are_not_there():
    assert_refused(lambda: sg.vmap(_same, in_axes=2)(ROWS), ValueError, """
        vmap: argument 0: axis 2 is not an axis of a tensor of rank 2
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.vmap(_same, out_axes=-3)(ROWS), ValueError, """
        vmap: the result: axis -3 is not an axis of a tensor of rank 2
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.vmap(_same)(np.float64(1)), ValueError, """
        vmap: argument 0 is f64[], which has no axis to map
          --> <here>
          hint: give it the axis None in in_axes
    """)  # fmt: skip
    assert_refused(lambda: sg.vmap(_product)(ROWS, 2), TypeError, """
        vmap: argument 1 is 2, which has no axis to map
          --> <here>
          hint: give it the axis None in in_axes, or bind it with functools.partial
    """)  # fmt: skip


def test_nothing_to_map():
    assert_refused(lambda: sg.vmap(_same, in_axes=None)(ROWS), ValueError, """
        vmap: there is nothing to map
          --> <here>
    """)  # fmt: skip


def test_axes_that_do_not_fit_the_nest():
    assert_refused(lambda: sg.vmap(_same, in_axes=({"w": 0},))((ROWS, X)), ValueError, """
        vmap: in_axes[0] is {'w': 0}, and the arrays of argument 0 are (*, *)
          --> <here>
          hint: an axis stands for all that is below it
    """)  # fmt: skip
    assert_refused(lambda: sg.vmap(_same, out_axes=(0, None))(ROWS), ValueError, """
        vmap: out_axes is (0, None), and the results are *
          --> <here>
          hint: an axis stands for all that is below it
    """)  # fmt: skip
    assert_refused(lambda: sg.vmap(_same, in_axes=(True,)), TypeError, """
        vmap: in_axes has True, which is neither an int nor None
          --> <here>
    """)  # fmt: skip


def test_a_result_that_differs_by_case_and_is_to_be_given_once():
    assert_refused(lambda: sg.vmap(lambda x: {"a": x}, out_axes=None)(ROWS), ValueError, """
        vmap: out_axes has None for the result['a'], which depends on what is mapped
          --> <here>
    """)  # fmt: skip


def test_arrays_of_tensors_have_no_axis():
    array = sg.TensorArray(3, ())
    assert_refused(lambda: sg.vmap(lambda a: a.stack())(array), ValueError, """
        vmap: argument 0 is a TensorArray, which has no axis to map
          --> <here>
          hint: map over array.stack(), or give it the axis None
    """)  # fmt: skip
    assert_refused(lambda: sg.vmap(lambda x: array)(ROWS), ValueError, """
        vmap: the function returns a TensorArray, which has no place for the axis
          --> <here>
          hint: return array.stack()
    """)  # fmt: skip


# ------------------------------------------------------------------------------- linear functions


def test_arguments_to_linearize_at_that_are_no_arrays():
    assert_refused(lambda: sg.vjp(_product, X, {"a": 3}), TypeError, """
        vjp: argument 1['a'] is 3, not an array
          --> <here>
          hint: bind what is no array with functools.partial
    """)  # fmt: skip
    assert_refused(lambda: sg.linearize(WRONG_FUNCTION, X), TypeError, """
        linearize: func is 3, not a function
          --> <here>
    """)  # fmt: skip


def test_seeds_that_do_not_fit():
    _, pull = sg.vjp(lambda x: {"y": x}, X)
    assert_refused(lambda: pull(X), ValueError, """
        vjp: dys are *, and ys are {'y': *}
          --> <here>
          hint: None stands for zeros
    """)  # fmt: skip
    assert_refused(lambda: pull({"y": np.ones(4)}), ValueError, """
        vjp: dys['y']: sizes differ: 4 in axis 0 of the seed: f64[4], 3 in axis 0 of ys['y']: f64[3]
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: pull({"y": np.ones(3, "f")}), TypeError, """
        vjp: dys['y']: dtypes differ: f32[3] is given for ys['y']: f64[3]
          --> <here>
          hint: use astype
    """)  # fmt: skip
    assert_refused(lambda: pull(X, X), ValueError, """
        vjp: 2 arguments are given, and dys are one nest
          --> <here>
    """)  # fmt: skip
    _, push = sg.linearize(_product, X, X)
    assert_refused(lambda: push(X), ValueError, """
        linearize: tangents are (*,), and xs are (*, *)
          --> <here>
          hint: None stands for zeros
    """)  # fmt: skip


def test_primals_and_tangents_that_are_no_tuples_or_do_not_fit():
    assert_refused(lambda: sg.jvp(_same, Y, (Y,)), TypeError, """
        jvp: primals is <Tensor y: f64[3]>, not a tuple or list with an entry for each argument
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.jvp(_product, (X, X), (X, ROWS)), ValueError, """
        jvp: tangents[1]: ranks differ: 2 of the seed: f64[4, 3], 1 of primals[1]: f64[3]
          --> <here>
    """)  # fmt: skip


def test_a_function_that_takes_other_arguments():
    assert_refused(lambda: sg.vjp(_same, X, X), TypeError, """
        vjp: _same: too many positional arguments
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.vmap(_product)(ROWS), TypeError, """
        vmap: _product: missing a required argument: 'y'
          --> <here>
    """)  # fmt: skip


# ------------------------------------------------------------------------------ aux and Hessians


def test_a_function_without_aux():
    assert_refused(lambda: sg.grad(_same, has_aux=True)(np.float64(1)), TypeError, """
        grad: the function returns <Tensor p0: f64[]>, with has_aux a pair (value, aux) is needed
          --> <here>
    """)  # fmt: skip
    assert_refused(
        lambda: sg.value_and_grad(lambda x: (x, x, x), has_aux=True)(np.float64(1)), TypeError, """
        value_and_grad: the function returns 3 results, with has_aux a pair (value, aux) is needed
          --> <here>
    """)  # fmt: skip


def test_a_hessian_of_a_tensor_by_nothing():
    wrong: Any = Y
    assert_refused(lambda: sg.hessian(wrong), TypeError, """
        hessian: y is <Tensor y: f64[3]> and x is missing
          --> <here>
          hint: hessian(y, x) is the form for tensors, hessian(f) that for functions
    """)  # fmt: skip


def test_a_pattern_that_cannot_be_found():
    n = sg.placeholder(("n",), "float64", name="n")
    wrong: Any = "columns"
    assert_refused(lambda: sg.jacobian(n * n, n, sparsity="auto"), ValueError, """
        jacobian: y: f64[n] has a size that is not known, and so no static pattern
          --> <here>
          hint: give the placeholder ints as its shape, or leave sparsity out
    """)  # fmt: skip
    assert_refused(lambda: sg.hessian(sg.sum(n), n, sparsity="auto"), ValueError, """
        hessian: x: f64[n] has a size that is not known, and so no static pattern
          --> <here>
          hint: give the placeholder ints as its shape, or leave sparsity out
    """)  # fmt: skip
    assert_refused(lambda: sg.jacobian(Y, Y, sparsity=wrong), ValueError, """
        jacobian: sparsity is 'columns', neither None nor "auto"
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.hessian(Y, Y, sparsity="auto"), ValueError, """
        hessian: y is f64[3], with sparsity a scalar is needed
          --> <here>
          hint: sum it
    """)  # fmt: skip
    assert_refused(lambda: sg.hessian(sg.sum(Y), [Y, Y], sparsity="auto"), ValueError, """
        hessian: x is a nest of 2 tensors, with sparsity one is needed
          --> <here>
          hint: make them slices of one vector
    """)  # fmt: skip
    assert_refused(lambda: sg.hessian(sg.constant(1), Y, sparsity="auto"), TypeError, """
        hessian: y is i32[], which has no derivatives
          --> <here>
    """)  # fmt: skip


def test_a_size_on_the_way_that_is_not_known():
    n = sg.placeholder(("n",), "float64", name="n")
    assert_refused(lambda: sg.jacobian(sg.sum(n * n[0] * Y[0]), Y, "auto"), ValueError, """
        jacobian: the pattern depends on broadcast_to: f64[n], whose size is not known
          --> <here>
          hint: give placeholders ints as their shapes, or leave sparsity out
    """)  # fmt: skip
