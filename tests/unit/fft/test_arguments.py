"""Arguments of Fourier transforms mean what they mean in NumPy, whose functions stand for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.evaluators import evaluate_reference

_RNG = np.random.default_rng(0)
_COMPLEX = _RNG.standard_normal((3, 6, 4)) + 1j * _RNG.standard_normal((3, 6, 4))
_ALONG_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_ALONG_SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")
_OF_REAL = ("rfft", "ihfft", "rfftn", "rfft2")


def _operand(name: str) -> Any:
    return _COMPLEX.real.copy() if name in _OF_REAL else _COMPLEX


def _values(build: Any, *arrays: Any) -> list[Any]:
    xs = [sg.placeholder(a.shape, a.dtype) for a in arrays]
    return evaluate_reference(Graph([*build(*xs)], xs), list(arrays))


@pytest.mark.parametrize("name", _ALONG_ONE)
def test_every_length_axis_and_norm_is_numpys(name):
    ways = [
        {"n": n, "axis": axis, "norm": norm}
        for n in (None, 1, 3, 6, 9)
        for axis in (0, 1, -1)
        for norm in ("backward", "ortho", "forward", None)
    ]
    x = _operand(name)
    found = _values(lambda t: [getattr(sg.fft, name)(t, **way) for way in ways], x)
    for way, value in zip(ways, found, strict=True):
        expected = getattr(np.fft, name)(x, **way)
        assert value.dtype == expected.dtype, way
        np.testing.assert_allclose(value, expected, atol=1e-12, err_msg=str(way))


@pytest.mark.parametrize("name", _ALONG_SEVERAL)
def test_sizes_and_axes_are_numpys(name):
    ways: list[dict[str, Any]] = [
        {"s": s, "axes": axes, "norm": norm}
        for s, axes in ((None, (0, 2)), ((4, 5), (1, 2)), ((2, -1), (2, 0)), (None, (1,)))
        for norm in ("backward", "ortho", "forward")
    ]
    ways += [{}, {"s": (3, 4), "axes": (-1, -2)}, {"axes": (2, 1)}]
    x = _operand(name)
    found = _values(lambda t: [getattr(sg.fft, name)(t, **way) for way in ways], x)
    for way, value in zip(ways, found, strict=True):
        expected = getattr(np.fft, name)(x, **way)
        np.testing.assert_allclose(value, expected, atol=1e-12, err_msg=str(way))


@pytest.mark.parametrize("name", [*_ALONG_ONE, *_ALONG_SEVERAL, "fftshift", "ifftshift"])
def test_numpys_functions_stand_for_ours(name):
    x = _operand(name)
    (found,) = _values(lambda t: [getattr(np.fft, name)(t)], x)
    np.testing.assert_allclose(found, getattr(np.fft, name)(x), atol=1e-12)


def test_arguments_by_place_are_those_of_numpy():
    found = _values(
        lambda t: [np.fft.fft(t, 5, 1, "ortho"), np.fft.fftn(t, (2, 3), (0, 1))], _COMPLEX
    )
    np.testing.assert_allclose(found[0], np.fft.fft(_COMPLEX, 5, 1, "ortho"), atol=1e-12)
    np.testing.assert_allclose(found[1], np.fft.fftn(_COMPLEX, (2, 3), (0, 1)), atol=1e-12)


@pytest.mark.parametrize(
    ("given", "of_complex", "of_real"),
    [
        ("float16", "complex64", "float32"),
        ("float32", "complex64", "float32"),
        ("int8", "complex64", "float32"),
        ("int64", "complex64", "float32"),
        ("float64", "complex128", "float64"),
        ("complex64", "complex64", "float32"),
        ("complex128", "complex128", "float64"),
    ],
)
def test_the_dtype_of_the_result(given, of_complex, of_real):
    x = sg.placeholder((4,), given)
    assert sg.fft.fft(x).dtype.name == of_complex
    assert sg.fft.irfft(x).dtype.name == of_real


def test_frequencies_are_numpys():
    for n in (1, 2, 5, 8):
        for ours, theirs in ((sg.fft.fftfreq, np.fft.fftfreq), (sg.fft.rfftfreq, np.fft.rfftfreq)):
            found = sg.run(ours(n, 0.5, dtype="float64"))
            np.testing.assert_array_equal(found, theirs(n, 0.5))
            assert ours(n).dtype.name == "float32"


@pytest.mark.parametrize("axes", [None, 0, (0, 2), -1])
def test_shifts_are_numpys_and_each_others_inverse(axes):
    def build(t: Tensor) -> list[Tensor]:
        back = sg.fft.ifftshift(sg.fft.fftshift(t, axes=axes), axes=axes)
        return [sg.fft.fftshift(t, axes=axes), sg.fft.ifftshift(t, axes=axes), back]

    x = np.arange(60).reshape(3, 4, 5)
    forward, inverse, back = _values(build, x)
    np.testing.assert_array_equal(forward, np.fft.fftshift(x, axes=axes))
    np.testing.assert_array_equal(inverse, np.fft.ifftshift(x, axes=axes))
    np.testing.assert_array_equal(back, x)


def test_a_size_that_only_a_call_tells_is_transformed_padded_and_cut():
    x = sg.placeholder(("n",), "float64")
    n = x.shape[0]
    outputs = [
        sg.fft.fft(x, norm="ortho"),
        sg.fft.ifft(x, n=8),
        sg.fft.irfft(sg.fft.rfft(x), n=n),
        sg.fft.fft(x, n=n + 3),
        sg.fft.fftshift(x),
        sg.fft.fftfreq(n, dtype="float64"),
        sg.fft.irfft(x),
    ]
    step = sg.compile([x], outputs, opt_level=0)
    for size in (5, 12):
        a = np.random.default_rng(size).standard_normal(size)
        expected = [
            np.fft.fft(a, norm="ortho"), np.fft.ifft(a, n=8), a, np.fft.fft(a, n=size + 3),
            np.fft.fftshift(a), np.fft.fftfreq(size), np.fft.irfft(a),
        ]  # fmt: skip
        for found, wanted in zip(step(a), expected, strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-12)
