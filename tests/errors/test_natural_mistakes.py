"""What someone who knows another library writes first: the error says what to write instead."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.refusals import assert_refused

X = sg.placeholder((3,), name="x")
W = sg.variable(np.ones(3, "float32"), name="w")


def test_an_element_that_is_set():
    assert_refused(lambda: X.__setitem__(0, 1.0), TypeError, """
        placeholder: an element of f32[3] cannot be set, since tensors never change
          --> <here>
          hint: x.at[index].set(value) is a new tensor
    """)  # fmt: skip
    with pytest.raises(TypeError, match="never change"):
        W[0] = 1.0
    with pytest.raises(TypeError, match="cannot be deleted"):
        del X[0]


def test_a_tensor_that_is_formatted_as_a_number():
    assert_refused(lambda: f"{sg.sum(X):.3f}", TypeError, """
        sum: a symbolic tensor f32[] has no value to make a text '.3f' of
          --> <here>
          hint: compile the graph and call it, or use sg.run
    """)  # fmt: skip
    assert f"{X}" == "<Tensor x: f32[3]>"


def test_a_loss_that_a_function_forgot_to_return():
    assert_refused(lambda: sg.gradients(None, [W]), TypeError, """
        gradients: ys is None
          --> <here>
          hint: ys may be an empty list
    """)  # fmt: skip
    for call in (
        lambda: sg.gradients(sg.sum(W), None),
        lambda: sg.hessians(None, [W]),
        lambda: sg.hvp(None, [W], [W]),
        lambda: sg.jvp(None, [W], [W]),
    ):
        with pytest.raises(TypeError, match=r"^(gradients|hessians|hvp|jvp): (xs|ys) is None"):
            call()
    assert sg.gradients([], [W]) == [None]


def test_a_body_that_forgot_to_return():
    assert_refused(lambda: sg.while_loop(lambda i: i < 3, lambda i: None, (0,)), ValueError, """
        while_loop: the body gives (None,), and the loop variables are (*,)
          --> <here>
    """)  # fmt: skip
    two = [X, X]
    assert_refused(lambda: sg.cond(X[0] > 0, lambda: two, lambda: {"a": X, "b": X}), TypeError, """
        cond: true_fn returns [*, *] and false_fn {'a': *, 'b': *}
          --> <here>
    """)  # fmt: skip


def test_functions_that_take_other_arguments():
    start = (0, X)
    holds = sg.any(X > 0)
    assert_refused(lambda: sg.while_loop(lambda s: s[0] < 3, lambda s: s, start), TypeError, """
        while_loop: cond(s) is called with 2 arguments
          --> <here>
          hint: it is called as f(*loop_vars); a dict, or a nest within the list, is one argument
    """)  # fmt: skip
    assert_refused(lambda: sg.fori_loop(0, 3, lambda v: v, X), TypeError, """
        fori_loop: body(v) is called with 2 arguments
          --> <here>
          hint: it is called as body(i, value)
    """)  # fmt: skip
    assert_refused(lambda: sg.scan(lambda c: c, X, X), TypeError, """
        scan: f(c) is called with 2 arguments
          --> <here>
          hint: it is called as f(carry, x)
    """)  # fmt: skip
    assert_refused(lambda: sg.cond(holds, lambda a: a, lambda a: a), TypeError, """
        cond: true_fn(a) is called with 0 arguments
          --> <here>
          hint: it takes no arguments: tensors from around may be used inside
    """)  # fmt: skip
    operand: Any = X
    assert_refused(lambda: sg.cond(holds, lambda a: a, lambda a: a, operand), TypeError, """
        cond: name is <Tensor x: f32[3]>, not a string
          --> <here>
          hint: of a branch, it takes no arguments: tensors from around may be used inside
    """)  # fmt: skip


def test_an_error_of_a_body_that_takes_its_arguments_is_left_as_it_is():
    number: Any = 5

    def body(i):
        return (len(number),)

    with pytest.raises(TypeError, match="len") as caught:
        sg.while_loop(lambda i: i < 3, body, (0,))
    assert type(caught.value) is TypeError


def test_an_error_within_what_a_decorator_gives_other_arguments_is_left_as_it_is():
    number: Any = 5

    def body(value: Any) -> Any:
        return value * len(number)

    @functools.wraps(body)
    def adapted(i: Any, value: Any) -> Any:
        return body(value)

    with pytest.raises(TypeError, match="len") as caught:
        sg.fori_loop(0, 3, adapted, X)
    assert type(caught.value) is TypeError


def test_an_array_among_the_inputs_is_not_printed_in_full():
    with pytest.raises(TypeError) as caught:
        sg.compile([np.arange(200.0).reshape(50, 4)], X)
    assert len(str(caught.value).splitlines()[0]) < 120


def test_the_name_of_an_argument_that_has_only_a_position():
    given = np.ones(3, "float32")
    update: Any = sg.gradient_descent_update
    assert_refused(lambda: update(w=given, dcdw=given, lr=0.1), TypeError, """
        gradient_descent_update: 'w' is given by its name and can be by position only; there are \
w, dcdw, lr, inplace, stop_gradients, out
          --> <here>
    """)  # fmt: skip


def test_what_optimizers_elsewhere_have():
    optimizer: Any = sg.optim.SGD(0.1)
    assert_refused(lambda: optimizer.step(), AttributeError, """
        SGD: there is no attribute 'step'
          --> <here>
          hint: did you mean .minimize?
    """)  # fmt: skip
    assert_refused(lambda: optimizer.learning_rate, AttributeError, """
        SGD: there is no attribute 'learning_rate'
          --> <here>
          hint: did you mean .lr?
    """)  # fmt: skip
    assert not hasattr(optimizer, "__len__")


def test_the_error_of_a_property_of_an_optimizer_is_its_own():
    class Mine(sg.optim.SGD):
        @property
        def warm(self) -> Any:
            own: Any = np
            return own.no_such_function

    with pytest.raises(AttributeError, match="no_such_function"):
        _ = Mine(0.1).warm


def test_logits_and_labels_that_are_exchanged():
    logits, labels = sg.placeholder(("n", 3)), sg.placeholder(("n",), "int64")
    assert_refused(lambda: sg.nn.cross_entropy(labels, logits), ValueError, """
        cross_entropy: labels: f32[n, 3] have more axes than logits: f32[n]
          --> <here>
          hint: logits come first, and class numbers are integers
    """)  # fmt: skip


def test_a_gradient_of_a_function_that_takes_one_cotangent_of_two():
    @sg.custom_gradient
    def twice(x):
        return (x * 2, x * 3), lambda dy: dy

    y, _ = twice(X)
    with pytest.raises(TypeError) as caught:
        sg.gradients(y, X)
    first, *_, last = str(caught.value).splitlines()
    assert first == "custom_gradient: the gradient of twice(dy) is called with 2 arguments"
    assert last == "  hint: it is given one cotangent for each result"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("custom_vjp", "sg.custom_gradient"), ("tensor", "sg.constant"), ("PRNGKey", "sg.random.key")],
)
def test_names_of_other_libraries(name, meant):
    with pytest.raises(AttributeError, match=rf"did you mean {meant}\?$"):
        getattr(sg, name)
