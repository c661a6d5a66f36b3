"""Functions of complex numbers: rounding, infinities, nan, signs of zeros and branch cuts."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.testing import check_gradients
from tests.support.evaluators import evaluate_native

Array = np.ndarray[Any, Any]

_NUMPY = {
    **{n: n for n in ("exp", "log", "log2", "log10", "sqrt", "sin", "cos", "tan")},
    **{n: n for n in ("sinh", "cosh", "tanh")},
    **{f"a{n}": f"arc{n}" for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
# Where the standard leaves the sign of a zero, or of an infinity beside nan, to the implementation.
_UNSPECIFIED = {"exp", "sin", "cos", "tan", "sinh", "cosh", "tanh"}
_PARTS = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.0, 1e28)


def _run(functions: list[str], values: Array) -> dict[str, Array]:
    z = sg.placeholder(values.shape, values.dtype)
    graph = Graph([getattr(sg, name)(z) for name in functions], [z])
    outputs = evaluate_native(graph, [values])
    return dict(zip(functions, outputs, strict=True))


def _points() -> Array:
    rng = np.random.default_rng(0)
    angles = np.exp(1j * rng.uniform(-np.pi, np.pi, 300))
    near_one = 1 + (rng.normal(size=100) + 1j * rng.normal(size=100)) * 1e-3
    return np.concatenate([angles * np.exp(rng.uniform(-6, 4, 300)), near_one, -near_one])


def _special() -> Array:
    return np.array([complex(a, b) for a in _PARTS for b in _PARTS])


@cache
def _all_functions(dtype: str) -> dict[str, Array]:
    """Return what the functions give for ordinary and then for special values, by one program."""
    return _run(list(_NUMPY), np.concatenate([_points(), _special()]).astype(dtype))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_functions_are_within_a_few_roundings_of_the_modulus(dtype):
    values = _points().astype(dtype)
    for name, everything in _all_functions(dtype).items():
        found = everything[: len(values)]
        wanted = getattr(np, _NUMPY[name])(values.astype(np.complex128))
        assert found.dtype == dtype
        apart = np.abs(found - wanted) / np.abs(wanted)
        assert apart.max() < 4 * np.finfo(dtype).eps, name


def test_logarithms_and_exponentials_near_zero_keep_their_digits():
    values = np.array([1e-12 + 2e-12j, 3e-9j, -1e-10 + 0j, 1e-5 - 1e-5j])
    found = _run(["log1p", "expm1"], values)
    np.testing.assert_allclose(found["log1p"], values - values**2 / 2 + values**3 / 3, rtol=1e-14)
    np.testing.assert_allclose(found["expm1"], values + values**2 / 2 + values**3 / 6, rtol=1e-14)


def test_special_values_are_those_of_numpy():
    values = _special()
    for name, everything in _all_functions("complex128").items():
        found = everything[-len(values) :]
        with np.errstate(all="ignore"):
            wanted = getattr(np, _NUMPY[name])(values)
        for part, expected, other in (
            (found.real, wanted.real, wanted.imag),
            (found.imag, wanted.imag, wanted.real),
        ):
            has_no_sign = (expected == 0) | (np.isinf(expected) & np.isnan(other))
            is_open = has_no_sign & (name in _UNSPECIFIED)
            np.testing.assert_allclose(np.abs(part), np.abs(expected), rtol=1e-15, err_msg=name)
            signs = np.signbit(part) == np.signbit(expected)
            assert np.all(signs | is_open | np.isnan(expected)), name


def test_zeros_have_the_sign_of_the_formula_wherever_the_argument_is_finite():
    # sin is negative at most of these, so that a zero has not just the sign of the other part.
    parts = (0.0, -0.0, 2.0, -2.0, 4.0, -4.0, 80.0, -80.0, 1e10)
    values = np.array([complex(a, b) for a in parts for b in parts])
    values = values[(values.real == 0) | (values.imag == 0)]
    for name, found in _run(list(_NUMPY), values).items():
        with np.errstate(all="ignore"):
            wanted = getattr(np, _NUMPY[name])(values)
        for part, expected in ((found.real, wanted.real), (found.imag, wanted.imag)):
            np.testing.assert_array_equal(np.signbit(part), np.signbit(expected), err_msg=name)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_logarithms_of_moduli_that_are_no_normal_numbers_keep_their_digits(dtype):
    limits = np.finfo(dtype)
    least, tiny = float(limits.smallest_subnormal), float(limits.tiny)
    parts = [0.0, least, -least, 3 * least, 70 * least, tiny / 8, -tiny, 2 * tiny]
    values = np.array([complex(a, b) for a in parts for b in parts if a or b], dtype)
    for name, found in _run(["log", "log2", "log10"], values).items():
        wanted = getattr(np, name)(values.astype(np.clongdouble))
        np.testing.assert_allclose(found, wanted, rtol=4 * limits.eps, err_msg=name)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_quotients_of_special_values_are_those_of_numpy(dtype):
    parts = (0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan)
    ends = np.array([complex(a, b) for a in parts for b in parts], dtype)
    a, b = (values.ravel() for values in np.meshgrid(ends, ends))
    z, w = sg.placeholder(a.shape, dtype), sg.placeholder(b.shape, dtype)
    found = evaluate_native(Graph([z / w, sg.reciprocal(w)], [z, w]), [a, b])
    with np.errstate(all="ignore"):
        wanted = a / b, np.ones((), dtype) / b
    for one, other in zip(found, wanted, strict=True):
        for part, expected in ((one.real, other.real), (one.imag, other.imag)):
            np.testing.assert_allclose(part, expected, rtol=2 * np.finfo(dtype).eps)


def test_special_values_of_expm1_are_those_of_the_standard():
    inf, nan = np.inf, np.nan
    rows = {
        0j: 0j, complex(inf, 0): complex(inf, 0), complex(-inf, 1): complex(-1, 0),
        complex(-inf, inf): complex(-1, 0), complex(inf, inf): complex(inf, nan),
        complex(nan, 0): complex(nan, 0), complex(1, nan): complex(nan, nan),
    }  # fmt: skip
    found = _run(["expm1"], np.array(list(rows)))["expm1"]
    np.testing.assert_array_equal(found, np.array(list(rows.values())))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_what_is_finite_does_not_overflow_on_its_way(dtype):
    limits = np.finfo(dtype)
    large, top = float(limits.max), float(np.log(limits.max))
    values = np.array([complex(large, large) / 2, complex(top + 0.2, np.pi / 4)]).astype(dtype)
    found = _run(["sqrt", "log", "exp", "sinh"], values)
    wide = values.astype(np.clongdouble)
    np.testing.assert_allclose(found["sqrt"], np.sqrt(wide), rtol=8 * limits.eps)
    np.testing.assert_allclose(found["log"], np.log(wide), rtol=8 * limits.eps)
    for name in ("exp", "sinh"):
        rtol = 4 * top * limits.eps
        np.testing.assert_allclose(found[name][1], getattr(np, name)(wide[1]), rtol=rtol)


def test_division_scales_by_the_greater_part():
    a = np.array([1e300 + 1e300j, 1e-300 + 2e-300j, 1 + 2j, 1 + 0j, 0j])
    b = np.array([1e300 - 2e300j, 3e-300 - 1e-300j, 1e200 + 1e-200j, 0j, 0j])
    z, w = sg.placeholder((5,), "complex128"), sg.placeholder((5,), "complex128")
    found = evaluate_native(Graph([z / w], [z, w]), [a, b])[0]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, a / b, rtol=1e-15)


def test_powers_of_zero_and_of_nothing():
    z, w = sg.placeholder((4,), "complex128"), sg.placeholder((4,), "complex128")
    a, b = np.array([0j, 0j, 2j, 1 + 1j]), np.array([2 + 0j, 0j, 0j, 0.5 + 0j])
    found = evaluate_native(Graph([z**w, z**2, z**0, z**-1], [z, w]), [a, b])
    np.testing.assert_allclose(found[0], [0, 1, 1, np.sqrt(1 + 1j)], rtol=1e-15)
    np.testing.assert_allclose(found[1], [0, 0, -4, 2j], atol=1e-15)
    np.testing.assert_array_equal(found[2], np.ones(4))
    np.testing.assert_allclose(found[3][2:], 1 / a[2:], rtol=1e-15)


_SMOOTH = ["asinh", "acosh", "tan", "pow", "direction"]


@pytest.mark.parametrize("name", _SMOOTH)
def test_derivatives_to_second_order_are_right_on_all_sides_of_the_cuts(name):
    rng = np.random.default_rng(1)
    values = rng.normal(size=6) + 1j * rng.normal(size=6)
    functions = {"pow": lambda z: z ** (0.5 + 1j), "direction": sg.sign}
    check_gradients(functions.get(name) or getattr(sg, name), [values], order=2)


def test_different_complex_numbers_are_those_of_numpy_in_its_order():
    x = np.array([complex(a, b) for a in (1.0, np.nan, 0.0, -0.0, -1.0) for b in (2.0, np.nan, 0)])
    x = np.concatenate([x, x[::2]])
    wanted = np.unique(x, True, True, True, equal_nan=False)
    z = sg.placeholder(x.shape, x.dtype)
    found = sg.compile([z], list(sg.unique_all(z, size=len(wanted[0]) + 1, fill_value=5j)))(x)
    np.testing.assert_array_equal(found[0][:-1], wanted[0])
    assert found[0][-1] == 5j
    np.testing.assert_array_equal(found[1][:-1], wanted[1])
    np.testing.assert_array_equal(found[2], wanted[2])
    np.testing.assert_array_equal(found[3], [*wanted[3], 0])
