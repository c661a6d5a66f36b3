"""Fourier transforms within programs: every plan, gradients, vmap, loops, threads, exports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.ops.butterflies import roots_of_unity
from symgrad.graph.ops.fourier_plan import LARGEST_PRIME, largest_factor, padded_size, radices
from tests.support.together import together

Array = np.ndarray[Any, Any]
# Lengths that are written out, cut into passes in every way, and convolved with a chirp.
_LENGTHS = (1, 2, 3, 4, 7, 8, 13, 16, 18, 24, 29, 37, 49, 64, 100, 121, 243, 1000, 1009)
_TOLERANCE = {"float32": 2e-6, "float64": 5e-15}


def _numbers(shape: tuple[int, ...], dtype: str) -> Array:
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return x.astype({"float32": "complex64", "float64": "complex128"}[dtype])


def _assert_near(found: Array, expected: Array, dtype: str, what: object) -> None:
    assert found.shape == expected.shape, what
    scale = np.abs(expected).max(initial=1e-30)
    # The error of a transform grows with the logarithm of its length.
    bound = _TOLERANCE[dtype] * max(1.0, np.log2(found.size + 1) / 4)
    assert np.abs(found - expected).max(initial=0) <= bound * scale, what


def _check_length(n: int, dtype: str, shapes: tuple[tuple[tuple[int, ...], int], ...]) -> None:
    arrays: list[Array] = []
    inputs: list[sg.Tensor] = []
    outputs: list[sg.Tensor] = []
    expected: list[Array] = []
    for shape, axis in shapes:
        z = _numbers(shape, dtype)
        x = sg.placeholder(shape, z.dtype)
        wide = z.astype(np.complex128)
        half = np.take(wide, range(n // 2 + 1), axis)
        part = x[tuple(slice(n // 2 + 1) if a == axis else slice(None) for a in range(x.ndim))]
        outputs += [
            sg.fft.fft(x, axis=axis), sg.fft.ifft(x, axis=axis),
            sg.fft.rfft(sg.real(x), axis=axis), sg.fft.irfft(part, n=n, axis=axis),
        ]  # fmt: skip
        expected += [
            np.fft.fft(wide, axis=axis), np.fft.ifft(wide, axis=axis),
            np.fft.rfft(wide.real, axis=axis), np.fft.irfft(half, n=n, axis=axis),
        ]  # fmt: skip
        inputs.append(x)
        arrays.append(z)
    step = sg.compile(inputs, outputs, opt_level=1)
    for number, (found, wanted) in enumerate(zip(step(*arrays), expected, strict=True)):
        _assert_near(found, wanted, dtype, (n, dtype, number))


@together("n", _LENGTHS, at_once=4)
def test_a_transform_of_each_plan_is_numpys(n):
    _check_length(n, ("float32", "float64")[n % 2], (((2, n), 1),))


@together("n", (6, 32, 41), at_once=3)
def test_lanes_lie_along_what_is_not_transformed(n):
    _check_length(n, ("float32", "float64")[n % 2], (((n, 9), 0),))


@pytest.mark.slow
@together("n", range(1, 65), at_once=8)
def test_a_transform_of_every_short_length_is_numpys(n):
    for dtype in ("float32", "float64"):
        _check_length(n, dtype, (((n,), 0), ((3, n), 1), ((2, n, 9), 1)))


@pytest.mark.slow
@together("n", (1 << 12, 3**8, 5**5, 10_007, 1 << 16, 60_000, 1 << 20), at_once=1)
def test_a_long_transform_is_numpys(n):
    for dtype in ("float32", "float64"):
        _check_length(n, dtype, (((n,), 0),))


def test_a_batch_that_leaves_the_cache_is_transformed_part_by_part():
    z = _numbers((67, 2048), "float32")
    x = sg.placeholder(z.shape, z.dtype)
    real = sg.placeholder(z.shape, "float32")
    step = sg.compile([x, real], [sg.fft.ifft(x), sg.fft.rfft(real)], opt_level=1)
    assert "scan" in str(step.ir("optimized"))
    inverse, half = step(z, z.real.copy())
    _assert_near(inverse, np.fft.ifft(z.astype(np.complex128)), "float32", "ifft")
    _assert_near(half, np.fft.rfft(z.real.astype(np.float64)), "float32", "rfft")


def test_complex_numbers_are_read_and_written_where_they_are():
    x = sg.placeholder((4, 64), "complex64")
    step = sg.compile([x], sg.fft.ifft(x), opt_level=1)
    assert len(step.kernels) == 2  # the passes of 64 = 8 * 8, and nothing that copies


def test_the_bits_are_the_same_for_every_number_of_threads():
    z = _numbers((64, 512), "float64")
    x = sg.placeholder(z.shape, z.dtype)
    found = [sg.compile([x], sg.fft.fft(x), threads=n, opt_level=1)(z) for n in (1, 2)]
    np.testing.assert_array_equal(*found)


def test_gradients_are_the_adjoint_transforms():
    z = _numbers((6,), "float64")
    w = _numbers((6,), "float64")
    x = sg.placeholder((6,), "complex128")
    loss = sg.sum(sg.real(sg.fft.fft(x) * w))
    (g,) = sg.gradients(loss, [x])
    # dL/dRe - i dL/dIm of the real part of a holomorphic function is its derivative.
    np.testing.assert_allclose(sg.compile([x], g, opt_level=0)(z), np.fft.fft(w), atol=1e-12)


_LOSSES = {
    "fft": lambda x: sg.fft.fft(x, n=7, norm="ortho"),
    "ifft": lambda x: sg.fft.ifft(x, axis=0),
    "rfft": lambda x: sg.fft.rfft(x),
    "irfft": lambda x: sg.fft.irfft(x, n=5),
    "hfft": lambda x: sg.fft.hfft(x),
    "ihfft": lambda x: sg.fft.ihfft(x, n=6),
    "rfftn": lambda x: sg.fft.rfftn(x),
    "irfftn": lambda x: sg.fft.irfftn(x, norm="forward"),
    "fftshift": lambda x: sg.fft.fftshift(x),
}


@pytest.mark.parametrize("name", _LOSSES)
def test_gradients_to_second_order_are_the_differences(name):
    x = sg.placeholder((2, 4), "float64")
    y = sg.sum(sg.abs(_LOSSES[name](x) + 0.5) ** 2 * np.float64(0.1)) ** 2
    (g,) = sg.gradients(y, [x], unconnected_gradients="zero")
    slope = sg.sum(sg.multiply(g, np.arange(8.0).reshape(2, 4)))
    feed = {x: np.random.default_rng(0).standard_normal((2, 4))}
    sg.testing.check_gradients([y, slope], [x], feed)


def test_vmap_and_forward_mode_are_those_of_each_row():
    z = _numbers((3, 5, 12), "float64")
    x = sg.placeholder(z.shape, z.dtype)
    mapped = sg.vmap(lambda row: sg.fft.fft(row, axis=0))(x)
    real = sg.vmap(lambda row: sg.fft.irfft(sg.fft.rfft(sg.real(row)), n=12))(x)
    found = sg.compile([x], [mapped, real], opt_level=0)(z)
    np.testing.assert_allclose(found[0], np.fft.fft(z, axis=1), atol=1e-12)
    np.testing.assert_allclose(found[1], z.real, atol=1e-12)


def test_a_transform_in_a_loop_is_one_of_each_iteration():
    z = _numbers((8,), "float64")
    x = sg.placeholder((8,), "complex128")
    out = sg.fori_loop(0, 3, lambda _i, y: sg.fft.fft(y, norm="ortho"), x)
    expected = np.fft.fft(np.fft.fft(np.fft.fft(z, norm="ortho"), norm="ortho"), norm="ortho")
    np.testing.assert_allclose(sg.compile([x], out, opt_level=1)(z), expected, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 6, 64, 1000, 1 << 20, 17 * 19])
def test_the_passes_of_a_length_make_it_up(n):
    assert np.prod(radices(n), dtype=int) == n


def test_a_chirp_is_padded_to_a_length_that_is_cut_into_passes():
    for n in (37, 1009, 10_007):
        size = padded_size(n)
        assert 2 * n - 1 <= size <= 4 * n
        assert largest_factor(size) <= LARGEST_PRIME


def test_roots_of_unity_are_right_to_rounding():
    numbers = np.arange(1000)
    re, im = roots_of_unity(numbers, 1000)
    pi = np.longdouble("3.14159265358979323846")
    angles = 2 * pi * numbers.astype(np.longdouble) / 1000
    assert np.abs(re - np.cos(angles)).max() < 1.2e-16
    assert np.abs(im + np.sin(angles)).max() < 1.2e-16
