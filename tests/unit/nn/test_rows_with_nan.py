"""Functions of rows at nan and infinities: what exponentials are taken about passes over nan.

All that a row gives is nan where one of its elements is, since the sum of its exponentials is; so
are its gradients. Beside the formula with a maximum that is nan itself no bit may differ.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.node import Tensor
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.greatest_numbers import greatest_number
from symgrad.graph.ops.structure import Axes
from symgrad.nn import activations, attention_rows, class_losses

_SPECIAL = (0.0, -0.0, 1.5, -np.inf, np.inf, np.nan)
_ROWS = np.array([*itertools.product(_SPECIAL, repeat=3)]).repeat(11, axis=1)


def _cross_entropy(x: Any) -> Any:
    return sg.nn.cross_entropy(x, np.arange(x.shape[0]) % x.shape[1], reduction="none")


def _of_probabilities(x: Any) -> Any:
    shares = np.zeros((x.shape[1],), np.float32)
    shares[::2] = 0.125
    return sg.nn.cross_entropy(x, sg.constant(shares), label_smoothing=0.25, reduction="none")


def _attention(x: Any) -> Any:
    """Attention whose scores are `x`."""
    queries, keys = np.zeros((x.shape[0], 2), np.float32), np.ones((x.shape[1], 2), np.float32)
    values = np.linspace(-1.0, 1.0, 2 * x.shape[1], dtype=np.float32).reshape(-1, 2)
    return sg.nn.scaled_dot_product_attention(queries, keys, values, mask=x)


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "softmax": sg.nn.softmax,
    "softmin": sg.nn.softmin,
    "log_softmax": sg.nn.log_softmax,
    "logsumexp": lambda x: sg.nn.logsumexp(x, -1),
    "logmeanexp": lambda x: sg.nn.logmeanexp(x, -1),
    "weighted_logsumexp": lambda x: sg.nn.logsumexp(x, -1, np.arange(33) % 3),
    "cross_entropy": _cross_entropy,
    "cross_entropy_of_probabilities": _of_probabilities,
    "attention": _attention,
}


def _by_max(x: Tensor, axes: Axes) -> Tensor:
    return stop_gradient(sg.max(x, axes, keepdims=True))


def _evaluated(build: Callable[[Any], Any], dtype: str) -> list[np.ndarray]:
    """Return what a function of the rows gives, with its first and its second derivative."""
    x = sg.placeholder(_ROWS.shape, dtype)
    y = build(x)
    seeds = sg.constant(np.linspace(0.5, 2.0, y.size, dtype=np.float32).reshape(y.shape))
    (first,) = sg.gradients(y, [x], grad_ys=sg.astype(seeds, y.dtype))
    (second,) = sg.gradients(sg.square(first), [x], unconnected_gradients="zero")
    found = sg.run([y, first, second], {x: _ROWS.astype(x.dtype.numpy)})
    return [np.asarray(array, np.float64) for array in found]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_nan_is_where_a_maximum_that_is_nan_puts_it(name, dtype, monkeypatch):
    found = _evaluated(_FUNCTIONS[name], dtype)
    for module in (activations, attention_rows, class_losses):
        monkeypatch.setattr(module, "greatest_number", _by_max)
    for array, wanted in zip(found, _evaluated(_FUNCTIONS[name], dtype), strict=True):
        np.testing.assert_array_equal(array, wanted)
        is_number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(array)[is_number], np.signbit(wanted)[is_number])


def test_the_greatest_number_passes_over_nan_and_has_no_gradient():
    x = sg.placeholder((4,), "float32")
    y = greatest_number(x, (0,))
    assert sg.gradients(y, [x]) == [None]
    rows = {(np.nan, 1.0, np.nan, 2.0): 2.0, (np.nan,) * 4: -np.inf, (-np.inf, np.inf) * 2: np.inf}
    for row, wanted in rows.items():
        assert sg.run(y, {x: np.array(row, np.float32)}) == wanted


def test_the_greatest_number_is_one_instruction_for_each_vector():
    x = sg.placeholder((256, 128), "float32")
    text = sg.compile([x], greatest_number(x, (1,)), target="x86-64-v4").ir("asm")
    assert "vmaxps" in text
    assert not re.search("vcmp(un)?ordps", text)
