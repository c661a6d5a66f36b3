"""Names and keywords that other libraries have, and misspelt ones: the hints they are given."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import symgrad as sg
from symgrad.graph.public_ops import PUBLIC_OPS
from symgrad.suggestions import KEYWORDS, known_as
from tests.support.refusals import assert_refused

X = sg.placeholder((3, 4), name="x")
sg_any: Any = sg
nn_any: Any = sg.nn
optim_any: Any = sg.optim
x_any: Any = X


def test_a_keyword_of_another_library():
    assert_refused(lambda: sg_any.sum(X, dim=0), sg.ArgumentError, """
        sum: no argument is called 'dim'; there are axis, dtype, keepdims
          --> <here>
          hint: did you mean axis=?
    """)  # fmt: skip
    assert_refused(lambda: sg_any.mean(X, axis=0, keepdim=True), TypeError, """
        mean: no argument is called 'keepdim'; there are axis, keepdims
          --> <here>
          hint: did you mean keepdims=?
    """)  # fmt: skip


def test_a_keyword_of_a_method():
    assert_refused(lambda: X.sum(0, keepdim=True), sg.ArgumentError, """
        sum: no argument is called 'keepdim'; there are axis, dtype, keepdims
          --> <here>
          hint: did you mean keepdims=?
    """)  # fmt: skip
    assert_refused(lambda: x_any.squeeze(dim=0), sg.ArgumentError, """
        squeeze: no argument is called 'dim'; there are axis
          --> <here>
          hint: did you mean axis=?
    """)  # fmt: skip


def test_a_keyword_of_a_method_that_is_inherited():
    generator: Any = sg.random.Generator(0)
    assert_refused(lambda: generator.uniform((2,), minval=0), sg.ArgumentError, """
        uniform: no argument is called 'minval'; there are shape, low, high, dtype
          --> <here>
          hint: did you mean low=?
    """)  # fmt: skip


def test_a_keyword_of_an_optimizer():
    assert_refused(lambda: optim_any.Adam(learning_rate=0.1), sg.ArgumentError, """
        Adam: no argument is called 'learning_rate'; there are lr, beta1, beta2, epsilon, \
weight_decay, groups
          --> <here>
          hint: did you mean lr=?
    """)  # fmt: skip
    assert_refused(lambda: optim_any.Adam(betas=(0.9, 0.99)), sg.ArgumentError, """
        Adam: no argument is called 'betas'; there are lr, beta1, beta2, epsilon, weight_decay, \
groups
          --> <here>
          hint: did you mean beta1= and beta2=?
    """)  # fmt: skip
    assert_refused(lambda: optim_any.SGD(0.1, momentun=0.9), sg.ArgumentError, """
        SGD: no argument is called 'momentun'; there are lr, momentum, nesterov, weight_decay, \
groups
          --> <here>
          hint: did you mean momentum=?
    """)  # fmt: skip


def test_an_option_that_is_misspelt():
    assert_refused(lambda: sg_any.compile([X], X, optlevel=2), sg.ArgumentError, """
        compile: no argument is called 'optlevel'; there are inputs, outputs, updates, name, \
threads, target, opt_level, fast_math, memory_limit, check_numerics, cache
          --> <here>
          hint: did you mean opt_level=?
    """)  # fmt: skip


def test_a_keyword_that_is_like_no_other_has_no_hint():
    assert_refused(lambda: sg_any.exp(X, colour=1), sg.ArgumentError, """
        exp: no argument is called 'colour'; there are none
          --> <here>
    """)  # fmt: skip


def test_a_keyword_that_the_user_s_own_function_refuses_is_left_to_python():
    def body(c: sg.Tensor, *, axis: int) -> sg.Tensor:
        return c.sum(axis)

    with pytest.raises(TypeError, match="unexpected keyword argument 'dim'"):
        sg.fori_loop(0, 3, lambda _i, c: body(c, dim=0), X)  # type: ignore[call-arg]  # its mistake


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        ("sg", "reduce_sum", "sg.sum"),
        ("sg", "Placeholder", "sg.placeholder"),
        ("sg", "concatenate", "sg.concat"),
        ("sg", "sofmax", None),
        ("sg", "softmax", "sg.nn.softmax"),
        ("sg", "matmull", "sg.matmul"),
        ("sg", "jit", "sg.compile"),
        ("sg", "Adam", "sg.optim.Adam"),
        ("nn", "ReLU", "sg.nn.relu"),
        ("nn", "CrossEntropyLoss", "sg.nn.cross_entropy"),
        ("nn", "Linear", "sg.nn.linear"),
        ("nn", "hard_swish", "sg.nn.hard_silu"),
        ("nn", "hardswish", "sg.nn.hard_silu"),
        ("nn", "mse_loss", "sg.nn.mse"),
        ("nn", "MaxPooling2D", "sg.nn.max_pool"),
        ("nn", "DepthwiseConv2D", "sg.nn.conv"),
        ("nn", "LayerNormalization", "sg.nn.layer_norm"),
        ("nn", "softmax_cross_entropy_with_logits", "sg.nn.cross_entropy"),
        ("nn", "scaled_dot_general", "sg.nn.scaled_matmul"),
        ("optim", "adamw_", "sg.optim.AdamW"),
        ("linalg", "choleski", "sg.linalg.cholesky"),
        ("special", "gamaln", "sg.special.gammaln"),
        ("random", "Generater", "sg.random.Generator"),
    ],
)
def test_a_name_that_a_module_does_not_have(module, name, hint):
    owner = sg if module == "sg" else getattr(sg, module)
    with pytest.raises(sg.UnknownNameError) as caught:
        getattr(owner, name)
    path = "sg" if module == "sg" else f"sg.{module}"
    assert str(caught.value).splitlines()[0] == f"{path}: there is no {name!r}"
    assert caught.value.hint == (hint and f"did you mean {hint}?")


def test_the_full_text_of_a_name_that_is_not_there():
    assert_refused(lambda: sg_any.reduce_mean(X), AttributeError, """
        sg: there is no 'reduce_mean'
          --> <here>
          hint: did you mean sg.mean?
    """)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("view", ".reshape"),
        ("numpy", "sg.run"),
        ("unsqueeze", "sg.expand_dims"),
        ("tranpose", ".transpose"),
        ("exp", "sg.exp"),
        ("zzzz", None),
    ],
)
def test_an_attribute_that_a_tensor_does_not_have(name, hint):
    with pytest.raises(sg.UnknownNameError) as caught:
        getattr(X, name)
    assert str(caught.value).splitlines()[0] == f"Tensor: there is no attribute {name!r}"
    assert caught.value.hint == (hint and f"did you mean {hint}?")
    assert not hasattr(X, name)


def test_what_other_libraries_call_an_op_is_none_of_our_names():
    assert not {"reduce_sum", "cat"} & PUBLIC_OPS.keys()
    with pytest.raises(AssertionError, match="reduce_sum is sum and mean"):
        known_as("reduce_sum")(sg.mean)


def test_the_table_of_keywords_leads_to_keywords_that_something_takes():
    keywords = {name for names in KEYWORDS.values() for name in names}
    taken = set()
    for module in (sg, sg.nn, sg.optim, sg.linalg, sg.random, sg.special):
        for name in dir(module):
            try:
                taken |= set(inspect.signature(getattr(module, name)).parameters)
            except (TypeError, ValueError):
                continue
    assert keywords <= taken
