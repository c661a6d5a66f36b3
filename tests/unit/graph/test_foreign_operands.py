"""An operator leaves what is no operand to the other side, and then to Python."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.node import Tensor

X = sg.placeholder((3,), name="x")
I = sg.placeholder((3,), "int32", name="i")  # noqa: E741 - an integer
NOTHING: Any = None

_ARITHMETIC = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.pow, operator.matmul),
]
_BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
_ORDER = [operator.lt, operator.le, operator.gt, operator.ge]


class _Foreign:
    """Takes part in every operator, and says so."""

    def _answer(self, other: object) -> str:
        return "foreign"

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _answer
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _answer
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __and__ = __rand__ = __or__ = __ror__ = _answer
    __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _answer
    __lt__ = __le__ = __gt__ = __ge__ = _answer

    def __eq__(self, other: object) -> Any:
        return "foreign"

    def __ne__(self, other: object) -> Any:
        return "foreign"

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("sign", [*_ARITHMETIC, *_BITS, *_ORDER, operator.eq, operator.ne])
def test_a_foreign_object_is_asked(sign):
    assert sign(I, _Foreign()) == "foreign"
    assert sign(_Foreign(), I) == "foreign"


def _type_name(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("sign", [*_ARITHMETIC, *_BITS, *_ORDER])
@pytest.mark.parametrize("other", [NOTHING, object(), {1}], ids=_type_name)
def test_what_nobody_takes_is_pythons_type_error(sign, other):
    for operands in ((I, other), (other, I)):
        with pytest.raises(TypeError, match=r"not supported|unsupported operand"):
            sign(*operands)


@pytest.mark.parametrize("other", [NOTHING, object(), "x", b"x", Fraction(1, 2)], ids=_type_name)
def test_a_tensor_is_not_equal_to_what_is_no_operand(other):
    x = X
    assert (x == other) is False
    assert (other == x) is False
    assert (x != other) is True
    assert (other != x) is True
    assert X not in [other]


def test_what_is_an_array_is_an_operand():
    class Converted:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones(3, np.float32)

    class Reluctant(Converted):
        __array_ufunc__ = None

        def __radd__(self, other: object) -> str:
            return "reluctant"

    for other in (Converted(), [1.0, 2.0, 3.0], (1, 2, 3), np.ones(3), np.float32(1), 1, True):
        assert isinstance(X + other, Tensor)
    assert X + Reluctant() == "reluctant"
