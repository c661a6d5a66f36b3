"""Public ops of complex numbers beside the functions of NumPy that have their names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.public_ops import PUBLIC_OPS
from symgrad.testing import check_gradients

GENERATOR = np.random.default_rng(7)
MATRIX = GENERATOR.standard_normal((3, 3)) + 1j * GENERATOR.standard_normal((3, 3))
OTHER = GENERATOR.standard_normal((3, 3)) + 1j * GENERATOR.standard_normal((3, 3))
WAYS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "one": ((MATRIX,), {}),
    "row": ((MATRIX[0],), {}),
    "axis": ((MATRIX,), {"axis": 0}),
    "two": ((MATRIX, OTHER), {}),
    "rows": ((MATRIX[0], OTHER[0]), {}),
    "mixed": ((MATRIX.real, OTHER), {}),
}
# NumPy refuses or reads these otherwise: memory as it is found, and angles that are no numbers.
OTHERS = {"empty_like", "deg2rad", "rad2deg", "identity", "expand_dims", "shape"}


def pairs() -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    """Yield public ops, and what NumPy calls by the same name or hands to them."""
    for name, op in PUBLIC_OPS.items():
        bare = name.rsplit(".", 1)[-1]
        found: list[Any] = [op.ufuncs[0]] if op.ufuncs else []
        named: Any = getattr(np.linalg if name.startswith("linalg.") else np, bare, None)
        if bare not in OTHERS and (found or callable(named)):
            yield name, op.function, found[0] if found else named


def outcome(function: Callable[..., Any], args: Any, options: Any) -> Any:
    """Return what a function gives, None where it refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **options)
    except (TypeError, ValueError, LookupError, np.linalg.LinAlgError):
        return None


@pytest.mark.parametrize("way", WAYS)
def test_complex_numbers_are_refused_or_give_what_numpy_gives(way):
    args, options = WAYS[way]
    named = {}
    for name, function, numpys in pairs():
        found = outcome(function, [sg.constant(a) for a in args], options)
        if isinstance(found, sg.Tensor):
            named[name] = found, outcome(numpys, args, options)
    values = sg.run([found for found, _ in named.values()])
    wrong = [
        f"{name}: {value.dtype.name}{value.shape}"
        for (name, (_, expected)), value in zip(named.items(), values, strict=True)
        if not is_same(value, expected)
    ]
    assert not wrong
    assert len(named) > 10


def is_same(value: Any, expected: Any) -> bool:
    if expected is None or isinstance(expected, tuple | list):
        return False
    expected = np.asarray(expected)
    is_alike = value.dtype == expected.dtype and value.shape == expected.shape
    return is_alike and np.allclose(value, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_each_part_that_is_no_number_is_replaced(dtype):
    ends = (0.0, -1.5, np.inf, -np.inf, np.nan)
    values = np.array([complex(a, b) for a in ends for b in ends], dtype)
    z = sg.placeholder(values.shape, dtype)
    options: list[dict[str, Any]] = [{}, {"nan": 2.0, "posinf": 5.0, "neginf": -7.0}]
    for found, option in zip(
        sg.run([sg.nan_to_num(z, **option) for option in options], {z: values}),
        options,
        strict=True,
    ):
        np.testing.assert_array_equal(found, np.nan_to_num(values, **option))


def test_covariances_of_complex_numbers_are_those_of_numpy():
    z = sg.placeholder((3, 3), "complex128")
    weights: dict[str, Any] = {"fweights": [1, 2, 3], "aweights": np.array([0.5, 1.0, 2.0])}
    outputs = [sg.cov(z), sg.cov(z[0], z[1]), sg.cov(z, **weights), sg.corrcoef(z)]
    outputs.append(sg.corrcoef(z[:1]))
    m = MATRIX
    wanted = [np.cov(m), np.cov(m[0], m[1]), np.cov(m, **weights), np.corrcoef(m)]
    wanted.append(np.corrcoef(m[:1]))
    for found, expected in zip(sg.run(outputs, {z: m}), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    check_gradients(lambda z: sg.sum(sg.abs(sg.cov(z)) ** 2), [MATRIX])


def test_variances_of_complex_numbers_leave_out_nan_and_have_gradients():
    z = sg.placeholder((2, 3), "complex128", name="z")
    values = np.array([[1 + 2j, np.nan, 3 - 1j], [2j, -1.0, 0.5]])
    found = sg.run([sg.nanvar(z), sg.nanstd(z, axis=1, correction=1), sg.nanmean(z)], {z: values})
    expected = np.nanvar(values), np.nanstd(values, axis=1, ddof=1), np.nanmean(values)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other)
    values = np.array([[1 + 2j, 2, 3 - 1j], [2j, -1.0, 0.5]])
    (slope,) = sg.gradients(sg.var(z), z)
    np.testing.assert_allclose(sg.run(slope, {z: values}), (values - values.mean()).conj() / 3)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_complex_numbers_have_no_whole_number_below(name):
    with pytest.raises(sg.DTypeError, match=rf"{name}: c128\[3, 3\] is no real number"):
        getattr(sg, name)(MATRIX)
