"""The full text of the errors of the functional calls: gradients, updates and containers."""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from tests.support.refusals import assert_refused

X = np.ones(3)
Y = sg.placeholder((3,), "float64", name="y")
# What the types of the library would refuse as well.
WRONG_ARRAY: Any = X
WRONG_TENSOR: Any = Y
WRONG_TEXT: Any = "x"
WRONG_PATHS: Any = (0,)


def _square(x: sg.Tensor) -> sg.Tensor:
    return sg.sum(x * x)


# -------------------------------------------------------------------------------------- gradients


def test_a_gradient_of_what_is_no_function():
    assert_refused(lambda: sg.grad(WRONG_ARRAY), TypeError, """
        grad: func is array([1., 1., 1.]), not a function
          --> <here>
    """)  # fmt: skip


def test_a_gradient_of_several_elements():
    assert_refused(lambda: sg.grad(lambda x: x * x)(X), ValueError, """
        grad: the function returns f64[3], a scalar is needed
          --> <here>
          hint: sum it, or take jac
    """)  # fmt: skip
    assert_refused(lambda: sg.value_and_grad(lambda x: (x, x))(X), TypeError, """
        value_and_grad: the function returns a tuple, a scalar is needed
          --> <here>
          hint: has_aux takes a pair (value, aux), execute_with_gradients several results
    """)  # fmt: skip


def test_a_gradient_by_integers():
    assert_refused(lambda: sg.grad(_square)(np.arange(3)), TypeError, """
        grad: argument 0 is i64[3], which has no derivatives
          --> <here>
          hint: convert it with astype
    """)  # fmt: skip
    assert_refused(lambda: sg.jac(_square)([X, 3]), TypeError, """
        jac: argument 0 is 3, not an array of floats
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.jac(lambda x: sg.argmax(x))(X), TypeError, """
        jac: the result is i64[], which has no derivatives
          --> <here>
          hint: convert it with astype
    """)  # fmt: skip


def test_a_gradient_by_an_argument_that_there_is_not():
    assert_refused(lambda: sg.grad(_square, 1)(X), ValueError, """
        grad: argnums has 1, but 1 arguments are given by position
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.grad(_square, WRONG_TEXT), TypeError, """
        grad: argnums is 'x', neither an int nor a sequence of ints
          --> <here>
    """)  # fmt: skip


def test_arguments_that_the_function_does_not_take():
    assert_refused(lambda: sg.grad(_square)(X, X), TypeError, """
        grad: _square: too many positional arguments
          --> <here>
    """)  # fmt: skip
    nothing: Any = lambda: X  # noqa: E731 - a function without a parameter
    assert_refused(lambda: sg.execute_with_gradients(nothing, X), TypeError, """
        execute_with_gradients: <lambda>: too many positional arguments
          --> <here>
    """)  # fmt: skip


def test_paths_that_lead_nowhere():
    xs, paths = [X, {"v": X}], ((1, "w"),)
    assert_refused(
        lambda: sg.execute_with_gradients(_square, xs, xs_grad_idxs=paths), ValueError, """
        execute_with_gradients: xs_grad_idxs has (1, 'w'), which leads nowhere in xs: [*, {'v': *}]
          --> <here>
    """)  # fmt: skip
    assert_refused(
        lambda: sg.execute_with_gradients(lambda x: (x, x), X, ret_grad_idxs=[[2]]), ValueError, """
        execute_with_gradients: ret_grad_idxs has (2,), which leads nowhere in the result: (*, *)
          --> <here>
    """)  # fmt: skip
    assert_refused(
        lambda: sg.execute_with_gradients(_square, X, xs_grad_idxs=WRONG_PATHS), TypeError, """
        execute_with_gradients: xs_grad_idxs is (0,), which holds no paths
          --> <here>
          hint: a path is a tuple of keys: ((0,), (1, 'w'))
    """)  # fmt: skip


def test_results_and_operands_without_derivatives():
    assert_refused(lambda: sg.execute_with_gradients(lambda x: None, X), ValueError, """
        execute_with_gradients: the function returns nothing
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.execute_with_gradients(_square, {"a": X > 0}), TypeError, """
        execute_with_gradients: xs['a'] is bool[3], which has no derivatives
          --> <here>
          hint: convert it with astype
    """)  # fmt: skip


# ---------------------------------------------------------------------------------------- updates


def test_nests_that_do_not_fit_together():
    w, g = {"a": X}, {"b": X}
    assert_refused(lambda: sg.lars_update(w, g, 0.1), ValueError, """
        lars_update: nests that do not fit together: w is {'a': *}, dcdw is {'b': *}, lr is *
          --> <here>
    """)  # fmt: skip


def test_operands_that_are_no_arrays():
    assert_refused(lambda: sg.gradient_descent_update(X, None, 0.1), TypeError, """
        gradient_descent_update: dcdw is None
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.optimizer_update(X, "g", 0.1), TypeError, """
        optimizer_update: effective_grad: 'g' is neither an array nor a tensor nor a number
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.optimizer_update(X, X, "fast"), TypeError, """
        optimizer_update: lr: 'fast' is neither an array nor a tensor nor a number
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.adam_step(X, X, X, 1, beta1=WRONG_TENSOR), TypeError, """
        adam_step: beta1 is <Tensor y: f64[3]>, not a number
          --> <here>
    """)  # fmt: skip


def test_weights_and_gradients_that_do_not_broadcast():
    assert_refused(lambda: sg.adam_step(np.ones(4), X, X, 1), ValueError, """
        adam_step: shapes do not broadcast: 4 in axis -1 of dcdw: f64[4], 3 in axis -1 of mw: f64[3]
          --> <here>
    """)  # fmt: skip


def test_out_that_does_not_fit():
    assert_refused(lambda: sg.optimizer_update(X, X, 0.1, out=np.ones(4)), ValueError, """
        optimizer_update: out has shape (4,), the result has shape (3,)
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.optimizer_update(X, X, 0.1, out=np.ones(3, int)), TypeError, """
        optimizer_update: the result is float64, which int64 does not hold
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.optimizer_update([X], X, 0.1, out=X), ValueError, """
        optimizer_update: out is *, the result is [*]
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.optimizer_update(X, X, 0.1, out=1.0), TypeError, """
        optimizer_update: out is 1.0, not an array
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.optimizer_update(Y, X, 0.1, out=X), TypeError, """
        optimizer_update: out takes no tensor, and the result is <Tensor stop_gradient: f64[3]>
          --> <here>
    """)  # fmt: skip


def test_weights_that_cannot_be_changed_in_place():
    frozen = np.ones(3)
    frozen.setflags(write=False)
    assert_refused(lambda: sg.lars_update(frozen, X, 0.1, inplace=True), ValueError, """
        lars_update: an array of shape (3,) is read-only
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.optimizer_update(1.0, X, 0.1, inplace=True), TypeError, """
        optimizer_update: 1.0 is neither a variable nor an array
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.optimizer_update(np.arange(3), X, 0.1, inplace=True), TypeError, """
        optimizer_update: the value is float64, which int64 does not hold
          --> <here>
    """)  # fmt: skip
    assert_refused(
        lambda: sg.optimizer_update(X, np.ones((2, 3)), 0.1, inplace=True), ValueError, """
        optimizer_update: the value has shape (2, 3), which does not broadcast to (3,)
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.optimizer_update(X, Y, 0.1, inplace=True), TypeError, """
        optimizer_update: ndarray takes no tensor, a variable does
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.optimizer_update(X, X, 0.1, inplace=True, out=X), ValueError, """
        optimizer_update: both inplace and out say where the weights go
          --> <here>
    """)  # fmt: skip


def test_a_value_of_another_nest():
    assert_refused(lambda: sg.inplace_update([X, X], {"a": X}), ValueError, """
        inplace_update: val is {'a': *}, x is [*, *]
          --> <here>
    """)  # fmt: skip


# ------------------------------------------------------------------------------------- containers


def test_containers_of_different_keys():
    one, other = sg.Container(a=X), sg.Container(b=X)
    assert_refused(lambda: one + other, ValueError, """
        add: containers of different keys: Container(a=*) and Container(b=*)
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.maximum(one, other), ValueError, """
        maximum: containers of different keys: Container(a=*) and Container(b=*)
          --> <here>
    """)  # fmt: skip


def test_keys_that_a_container_does_not_take():
    assert_refused(lambda: sg.Container({1: X}), TypeError, """
        Container: key 1 is no string
          --> <here>
    """)  # fmt: skip
    box = sg.Container(a=X)
    assert_refused(lambda: setattr(box, "items", X), ValueError, """
        Container: 'items' is the name of a method
          --> <here>
          hint: set it as an entry: container['items']
    """)  # fmt: skip
