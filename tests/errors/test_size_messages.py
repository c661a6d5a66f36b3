"""Sizes, counts and bytes that no int64 holds: an error with the op and the user's line.

An op of any kind is refused when it is built, or specialised if a size was unknown; temporaries
that take too much together when the program is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradError
from symgrad.graph.ops.conversion import size_of
from tests.support.refusals import assert_refused

X = sg.placeholder((4, 4))
SCALAR = sg.placeholder(())
WIDE = sg.placeholder((2**32,))
HALF, MOST, MUCH = 2**62, 2**63 - 1, 2**64

TOO_LARGE: dict[str, Callable[[], Any]] = {
    "placeholder": lambda: sg.placeholder((2**40, 2**40)),
    "zeros": lambda: sg.zeros((MUCH,)),
    "ones beside no elements": lambda: sg.ones((2**40, 2**40, 0)),
    "full": lambda: sg.full((HALF, 8), 1.0),
    "broadcast_to": lambda: sg.broadcast_to(SCALAR, (2**21, 2**21, 2**21)),
    "eye": lambda: sg.eye(2**32),
    "arange": lambda: sg.arange(MUCH),
    "linspace": lambda: sg.linspace(0.0, 1.0, MUCH),
    "one_hot": lambda: sg.one_hot(sg.constant([1]), MUCH),
    "pad": lambda: sg.pad(X, ((0, MOST), (0, 0))),
    "concat": lambda: sg.concat([sg.ones((HALF,)), sg.ones((HALF,))]),
    "stack": lambda: sg.stack([sg.ones((HALF,)), sg.ones((HALF,))]),
    "tile": lambda: sg.tile(X, (HALF, HALF)),
    "repeat": lambda: sg.repeat(X, HALF, axis=0),
    "matmul": lambda: sg.matmul(sg.ones((2**40, 2)), sg.ones((2, 2**40))),
    "a stack of slices": lambda: sg.scan(lambda c, _: (c, c), X, None, length=HALF),
    "the iterations of a scan": lambda: sg.scan(lambda c, _: (c, ()), X, None, length=MUCH),
    "TensorArray": lambda: sg.TensorArray(MUCH, (2,)).stack(),
    "fori_loop": lambda: sg.fori_loop(0, MUCH, lambda _, c: c + 1, SCALAR),
    "maximum_iterations": lambda: sg.while_loop(
        lambda c: c < 5.0, lambda c: (c + 1.0,), (SCALAR,), maximum_iterations=MUCH
    ),
    "a constant": lambda: sg.constant([MUCH, 1]),
    "jacobian": lambda: sg.jacobian(WIDE * 2.0, WIDE),
    "a branch": lambda: sg.cond(SCALAR > 0, lambda: sg.ones((MUCH,)), lambda: sg.ones((MUCH,))),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_int64_does_not_hold_is_refused_where_it_is_built(name):
    with pytest.raises(SymgradError, match=r"an int64 counts to|does not fit int") as caught:
        TOO_LARGE[name]()
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


def test_a_shape_of_too_many_elements():
    assert_refused(lambda: sg.ones((2**50, 2**50)), ValueError, """
        ones: the sizes of [1125899906842624, 1125899906842624] multiply to \
1267650600228229401496703205376, an int64 counts to 9223372036854775807
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.concat([sg.ones((2**62,), "int8")] * 2), ValueError, """
        concat: the sizes of i8[9223372036854775808] multiply to 9223372036854775808, \
an int64 counts to 9223372036854775807
          --> <here>
    """)  # fmt: skip


def test_a_tensor_of_too_many_bytes():
    assert_refused(lambda: sg.sum(sg.ones((2**61,))), ValueError, """
        ones: f32[2305843009213693952] takes 9223372036854775808 bytes, \
an int64 counts to 9223372036854775807
          --> <here>
    """)  # fmt: skip
    with pytest.raises(ValueError, match=r"placeholder: .* takes 9223372036854775808 bytes"):
        sg.placeholder((2**61,))
    assert sg.placeholder((2**61 - 1,)).type.nbytes == 2**63 - 4


def test_temporaries_of_too_many_bytes_together_are_refused():
    # Three of 2**62 bytes, of which each alone could be counted.
    a, b = (sg.matmul(sg.broadcast_to(SCALAR, (2**30, 2)) + k, sg.ones((2, 2**30))) for k in (0, 1))
    with pytest.raises(ValueError, match=r"temporaries take \d+ bytes of memory") as caught:
        sg.compile([SCALAR], sg.sum(a @ b))
    (taken,) = re.findall(r"take (\d+) bytes", str(caught.value))
    assert 0 < int(taken) - 3 * 2**62 < 2**24  # what is packed at a time depends on the machine


def test_an_unknown_size_is_refused_at_the_call_and_the_step_goes_on():
    x = sg.placeholder(("n",))
    tall = sg.broadcast_to(sg.reshape(x, (x.shape[0], 1)), (x.shape[0], 2**60))
    total = sg.compile([x], [sg.sum(x), sg.sum(tall[:, :3])])
    with pytest.raises(ValueError, match="takes 18446744073709551616 bytes"):
        total(np.ones(4, "f"))
    assert [float(r) for r in total(np.ones(1, "f"))] == [1.0, 3.0]


def test_a_size_as_a_number_is_refused_at_the_call():
    x = sg.placeholder(("n",))
    step = sg.compile([x], [sg.sum(x), size_of(x.shape[0] * HALF)])
    with pytest.raises(ValueError, match="dim_size: size 13835058055282163712 does not fit int64"):
        step(np.ones(3, "f"))
    assert step(np.ones(1, "f"))[1] == HALF


def test_a_text_with_too_many_elements_is_refused():
    text = str(sg.Graph([sg.sum(sg.ones((2**40,)))]))
    with pytest.raises(sg.GraphError, match="an int64 counts to"):
        sg.Graph.parse(text.replace(str(2**40), f"{2**40}, {2**40}"))
    with pytest.raises(sg.GraphError, match="is no size of an axis"):
        sg.Graph.parse(text.replace(str(2**40), str(2**70)))


def test_a_wide_loop_without_a_bound_is_differentiated():
    # A stack of it has 2**64 elements, of which no more exist than the loop has iterations.
    x = sg.placeholder((2**24,))
    y = sg.while_loop(lambda c: sg.sum(c) < 5.0, lambda c: (c * c,), (x,))
    (g,) = sg.gradients(sg.sum(y[0]), x)
    assert g is not None
    assert g.shape == (2**24,)


@pytest.mark.parametrize("shape", [(True, 3), (3, True), [True, True, 3], (np.True_, 3)])
@pytest.mark.parametrize("name", ["reshape", "broadcast_to"])
def test_a_bool_is_no_size(name, shape):
    with pytest.raises(sg.ShapeError) as refused:
        getattr(sg, name)(sg.placeholder((3,)), shape)
    assert f"{name}: {list(shape)} is no shape\n  --> test_size_messages.py" in str(refused.value)


@pytest.mark.parametrize("size", [-1, (-1,), (2, -3), np.array(-1)])
def test_a_negative_number_is_no_size(size):
    with pytest.raises(sg.ShapeError, match=r"broadcast_to: \[.*-.*\] is no shape") as refused:
        sg.broadcast_to(1.0, size)
    assert refused.value.source is not None


def test_a_float_is_no_size_and_an_integer_of_numpy_is_one():
    x = sg.placeholder((2, 3))
    of_floats: Any = (2, 3.0)
    of_numpy: Any = (np.int64(4), 2, 3)
    alone: Any = np.int64(6)
    with pytest.raises(sg.ShapeError, match=r"broadcast_to: \[2, 3.0\] is no shape"):
        sg.broadcast_to(x, of_floats)
    assert sg.reshape(x, alone).shape == (6,)
    assert [type(n) for n in sg.broadcast_to(x, of_numpy).shape] == [int] * 3
