"""Branches by number. A number in the name of a test is that of the rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.node import Tensor
from tests.support.control_programs import check_derivatives, gradient, keep, value

POINT = np.array([0.1, -0.2, 0.3])


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


@pytest.fixture
def n() -> Tensor:
    return sg.placeholder((), "int64", name="n")


def test_r12_1_an_int_of_python_is_no_index(x):
    with pytest.raises(TypeError, match="index is 0, not an integer tensor"):
        sg.switch_case(0, [lambda: x])
    with pytest.raises(TypeError, match=r"index is f64\[3\]"):
        sg.switch_case(x, [lambda: x])


@pytest.mark.parametrize("keys", [(1, 2), (0, 2), (0, 0), (-1, 0)])
def test_r12_1_keys_count_from_0_without_gap_or_repeat(x, n, keys):
    with pytest.raises(ValueError, match=r"the keys are .*, not 0 to 1, each once"):
        sg.switch_case(n, [(key, lambda: x) for key in keys])


@pytest.mark.parametrize("key", ["0", 0.0, True, None])
def test_r12_1_keys_are_ints(x, n, key):
    with pytest.raises(TypeError, match=r"key .* is not an int"):
        sg.switch_case(n, {key: lambda: x})


def test_r12_1_branches_are_functions_and_there_is_one(x, n):
    not_a_function: Any = 3
    mixed: Any = [(0, lambda: x), lambda: x]
    with pytest.raises(TypeError, match=r"branch_1 is .* not a function"):
        sg.switch_case(n, [lambda: x, x])
    with pytest.raises(TypeError, match="default is 3, not a function"):
        sg.switch_case(n, [lambda: x], default=not_a_function)
    with pytest.raises(TypeError, match="is no pair"):
        sg.switch_case(n, mixed)
    with pytest.raises(ValueError, match="there are no branches"):
        sg.switch_case(n, [])


@pytest.mark.parametrize("form", ["list", "dict", "pairs"])
def test_r12_1_an_index_of_no_branch_runs_the_last(x, n, form):
    functions = {1: lambda: x * 2.0, 0: lambda: x, 2: lambda: x * 3.0}
    forms: dict[str, Any] = {
        "list": [functions[i] for i in range(3)],
        "dict": functions,
        "pairs": list(functions.items()),
    }
    y = sg.switch_case(n, forms[form])
    for index, factor in ((0, 1), (1, 2), (2, 3), (3, 3), (-1, 3), (1 << 40, 3)):
        np.testing.assert_array_equal(value(y, {x: POINT, n: index}), factor * POINT)


def test_r12_1_an_index_of_no_branch_runs_the_default(x, n):
    y = sg.switch_case(n, [lambda: x, lambda: x * 2.0], default=lambda: -x)
    for index, factor in ((0, 1), (1, 2), (2, -1), (-5, -1)):
        np.testing.assert_array_equal(value(y, {x: POINT, n: index}), factor * POINT)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64"])
def test_r12_1_any_integer_dtype_is_an_index(x, dtype):
    n = sg.placeholder((), dtype)
    y = sg.switch_case(n, [lambda: x, lambda: -x])
    np.testing.assert_array_equal(value(y, {x: POINT, n: 0}), POINT)
    np.testing.assert_array_equal(value(y, {x: POINT, n: 100}), -POINT)


def test_r12_2_the_gradient_is_that_of_the_branch_taken(x, n):
    z = sg.placeholder((3,), "float64")
    y = sg.switch_case(n, [lambda: x * x * z, lambda: sg.sin(x), lambda: z * 2.0])
    given = [{x: POINT, z: POINT + 1, n: i} for i in range(3)]
    check_derivatives(y, x, *given)
    check_derivatives(y, z, *given)


def test_r12_2_the_index_has_no_gradient_and_what_is_unused_has_zeros(x, n):
    y = sg.switch_case(n, [lambda: x, lambda: sg.zeros((3,), "float64")])
    assert sg.gradients(y, n) == [None]
    np.testing.assert_array_equal(value(gradient(y, x), {x: POINT, n: 1}), np.zeros(3))


def test_r11_3_messages_name_the_branches_and_the_call(x, n):
    with pytest.raises(TypeError, match=r"^switch_case: output 0 is f64\[3\] in branch_0 and f32"):
        sg.switch_case(n, [lambda: x, lambda: x.astype("float32")])
    with pytest.raises(ValueError, match=r"^switch_case: branch_0 returns 1 tensors and default 2"):
        sg.switch_case(n, [lambda: x], lambda: (x, x))


def test_r12_3_a_tensor_of_another_branch_is_refused(x, n):
    kept: list[Tensor] = []

    def first() -> Any:
        return keep(kept, x * 2.0)

    with pytest.raises(ValueError, match="of region 'branch_0', used in region 'branch_1'"):
        sg.switch_case(n, [first, lambda: kept[0]])


def test_r15_5_derivatives_of_cos_alternate(n):
    x = sg.placeholder((), "float64")
    y = sg.switch_case(n, [lambda: x, lambda: sg.cos(x)])
    for expected in (-np.sin(0.7), -np.cos(0.7), np.sin(0.7), np.cos(0.7)):
        y = gradient(y, x)
        np.testing.assert_allclose(value(y, {x: 0.7, n: 1}), expected)
