"""A method or an operator of a tensor builds what the function of its name builds."""

import operator

import pytest

import symgrad as sg
from symgrad.graph.graph import Graph

F = sg.placeholder((3, 1, 4), "float64", name="f")
I = sg.placeholder((3, 4), "int32", name="i")  # noqa: E741 - one letter a dtype

_METHODS = [
    *((F, name, (), {}) for name in ("sum", "mean", "max", "min", "prod", "any", "all", "squeeze")),
    *((F, name, (), {"axis": 2, "keepdims": True}) for name in ("sum", "max", "min", "prod")),
    *((F, name, (), {"axis": 1}) for name in ("argmax", "argmin", "any", "all", "squeeze")),
    *((F, "clip", limits, {}) for limits in ((0, 1), (None, 1), (0,))),
    *((F, name, (), {}) for name in ("round", "ravel", "conj", "cumsum", "var", "std")),
    *((F, name, (2,), {"correction": 1}) for name in ("var", "std")),
    *((F, name, (0,), {}) for name in ("cumsum", "cumprod")),
    (F, "swapaxes", (0, 2), {}),
    (F, "repeat", (2,), {"axis": 0}),
    (F, "diagonal", (1, 0, 2), {}),
    (F, "reshape", ((4, 3),), {}),
    (F, "astype", ("int8",), {}),
    (F, "take", ([0, 2],), {"axis": 2}),
    (I, "dot", (sg.ones((4, 2), "int32"),), {}),
]
_OPERATORS = [
    *((getattr(operator, name), name) for name in ("add", "matmul", "pow")),
    (operator.sub, "subtract"),
    (operator.mul, "multiply"),
    (operator.truediv, "divide"),
    (operator.floordiv, "floor_divide"),
    (operator.mod, "remainder"),
    (operator.and_, "bitwise_and"),
    (operator.or_, "bitwise_or"),
    (operator.xor, "bitwise_xor"),
    (operator.lshift, "bitwise_left_shift"),
    (operator.rshift, "bitwise_right_shift"),
    (operator.lt, "less"),
    (operator.le, "less_equal"),
    (operator.gt, "greater"),
    (operator.ge, "greater_equal"),
    (operator.eq, "equal"),
    (operator.ne, "not_equal"),
]


def _text(result: sg.Tensor) -> str:
    return str(Graph(result, [F, I]))


@pytest.mark.parametrize(("x", "name", "operands", "options"), _METHODS)
def test_a_method_is_the_function_of_its_name(x, name, operands, options):
    by_method = getattr(x, name)(*operands, **options)
    assert _text(by_method) == _text(getattr(sg, name)(x, *operands, **options))


@pytest.mark.parametrize(("sign", "name"), _OPERATORS, ids=[row[1] for row in _OPERATORS])
def test_an_operator_is_the_function_it_is_named_after(sign, name):
    other = I.reshape((4, 3)) if name == "matmul" else 3
    assert _text(sign(I, other)) == _text(getattr(sg, name)(I, other))


def test_methods_of_diagonals_take_numpys_axes():
    assert _text(F.diagonal()) == _text(sg.diagonal(F, 0, 0, 1))
    assert _text(F.trace(1)) == _text(sg.trace(F, offset=1, axis1=0, axis2=1))
    assert sg.diagonal(F).shape == (3, 1)
    assert F.diagonal().shape == (4, 1)


def test_a_copy_is_a_node_of_its_own():
    assert F.copy() is not F
    assert F.copy().node.inputs == (F,)
