"""Rows of ops on complex numbers: each makes them of real inputs, and gives a real number back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from tests.support.case import Array, Case, Real, Whole

_FLOATS = (dtypes.float32, dtypes.float64)
_SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (((), ()), ((0, 3), (0, 3)), ((2, 1, 3),) * 2)


def _pair(*numbers: Tensor) -> list[Tensor]:
    return [sg.complex(re, im) for re, im in zip(numbers[::2], numbers[1::2], strict=True)]


def _one_number(z: Tensor) -> Tensor:
    return sg.real(z) + 2 * sg.imag(z) if z.dtype.is_complex else z


def _numpy_pair(*numbers: Array) -> list[Any]:
    return [re + 1j * im for re, im in zip(numbers[::2], numbers[1::2], strict=True)]


def _numpy_number(z: Any) -> Any:
    return np.real(z) + 2 * np.imag(z) if np.iscomplexobj(z) else z


def _case(
    name: str,
    build: Callable[..., Tensor],
    expected: Callable[..., Any],
    *shapes: tuple[int, ...],
    op: str | None = None,
    also: Any = (),
    order: int = 1,
    slack: float = 8.0,
    low: float = 0.2,
    high: float = 2.0,
    symbolic: bool = True,
) -> Case:
    """Return a row of one or two complex operands; an element is never 0."""
    return Case(
        f"complex_{name}",
        op,
        lambda *xs: _one_number(build(*_pair(*xs))),
        lambda *xs: _numpy_number(expected(*_numpy_pair(*xs))),
        tuple(Real(shape, low, high) for shape in shapes for _ in range(2)),
        _FLOATS,
        order,
        also,
        slack=slack,
        symbolic=symbolic,
    )


def _unary(name: str, expected: Callable[..., Any], **options: Any) -> Case:
    build = getattr(sg, name)
    options = {"op": name, **options}
    return _case(name, build, expected, (3, 4), also=_SHAPES, **options)


def _binary(name: str, expected: Callable[..., Any], **options: Any) -> Case:
    return _case(name, getattr(sg, name), expected, (3, 4), (4,), op=name, **options)


def _convolved(z: Array, w: Array) -> Any:
    """Return a convolution with the stride 2 of what is padded by 1."""
    padded = np.pad(z, ((0, 0), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[0], axis=1)[:, ::2]
    return np.einsum("nock,kcf->nof", windows, w)


def _convolved_in_groups(z: Array, w: Array) -> Any:
    """Return a convolution of two groups, with channels first, every second element and padding."""
    padded = np.pad(z, ((0, 0), (0, 0), (1, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 5, axis=2)[..., ::2]
    return np.stack(
        [np.einsum("nclk,ck->nl", windows[:, 2 * g : 2 * g + 2], w[g]) for g in range(2)], axis=1
    )


def _spread(z: Array, w: Array) -> Any:
    """Return a transposed convolution with the stride 2; nothing is conjugated."""
    n, size, _ = z.shape
    found = np.zeros((n, 2 * (size - 1) + w.shape[0], w.shape[1]), z.dtype)
    for place in range(size):
        found[:, 2 * place : 2 * place + w.shape[0]] += np.einsum("nc,kfc->nkf", z[:, place], w)
    return found


def _recurred(z: Array) -> Any:
    return np.cumprod(z, axis=-1)


def _gathered(z: Tensor, indices: Tensor) -> Tensor:
    return _one_number(sg.take(z, indices, axis=0))


COMPLEX: tuple[Case, ...] = (
    _unary("real", np.real, order=2),
    _unary("imag", np.imag, order=2),
    _unary("conj", np.conjugate, order=2),
    _case("of_parts", lambda z: sg.complex(sg.imag(z), sg.real(z)), lambda z: z.imag + 1j * z.real,
          (3, 4), op="complex"),
    _unary("abs", np.abs, op="modulus", order=2),
    _unary("sign", lambda z: z / np.abs(z), op="direction", order=2),
    _unary("angle", np.angle, op=None),
    _unary("negative", np.negative),
    _unary("exp", np.exp),
    _unary("expm1", lambda z: np.exp(z) - 1),
    _unary("log", np.log),
    _unary("log1p", lambda z: np.log(1 + z)),
    _unary("log2", lambda z: np.log(z) / np.log(2)),
    _unary("log10", lambda z: np.log(z) / np.log(10)),
    _unary("sqrt", np.sqrt, order=2),
    _unary("sin", np.sin),
    _unary("cos", np.cos),
    _unary("tan", np.tan, high=1.0),
    _unary("asin", np.arcsin),
    _unary("acos", np.arccos),
    _unary("atan", np.arctan),
    _unary("sinh", np.sinh),
    _unary("cosh", np.cosh),
    _unary("tanh", np.tanh, high=1.0),
    _unary("asinh", np.arcsinh),
    _unary("acosh", np.arccosh),
    _unary("atanh", np.arctanh),
    _binary("add", np.add),
    _binary("subtract", np.subtract),
    _binary("multiply", np.multiply, order=2),
    _binary("divide", np.divide, order=2),
    _binary("pow", np.power, slack=64.0),
    _case("pow_of_a_number", lambda z: z**3 + z**-2, lambda z: z**3 + z**-2.0, (3, 4), slack=512.0),
    _case("real_factor", lambda z: z * sg.real(z) / sg.imag(z), lambda z: z * z.real / z.imag,
          (3, 4)),
    _case("matmul", sg.matmul, np.matmul, (2, 3), (3, 4), op="einsum", order=2, slack=32.0),
    _case("matmul_real", lambda z, w: sg.matmul(sg.abs(z), w), lambda z, w: np.abs(z) @ w, (2, 3),
          (3, 2), op="einsum", slack=32.0),
    _case("conv", lambda z, w: sg.nn.conv1d(z, w, strides=2, padding=1), _convolved, (2, 6, 3),
          (3, 3, 2), op="convolution", order=2, slack=32.0, symbolic=False),
    _case("conv_real", lambda z, w: sg.nn.conv(sg.abs(z), w, strides=2, padding=1),
          lambda z, w: _convolved(np.abs(z), w), (2, 6, 3), (3, 3, 2), op="convolution",
          slack=32.0, symbolic=False),
    _case("conv_groups", lambda z, w: sg.nn.conv(z, w, padding=[(1, 2)], dilation=2, groups=2,
                                                 layout="NCHW"),
          _convolved_in_groups, (1, 4, 5), (2, 2, 3), op="convolution", slack=32.0, symbolic=False),
    _case("conv_transpose", lambda z, w: sg.nn.conv_transpose(z, w, strides=2), _spread, (1, 3, 2),
          (3, 2, 2), op="convolution", order=2, slack=32.0, symbolic=False),
    _case("vecdot", sg.vecdot, np.vecdot, (2, 3), (2, 3), op="einsum", slack=32.0),
    _case("sum", lambda z: sg.sum(z, axis=0), lambda z: z.sum(0), (3, 4), op="sum"),
    _case("mean", sg.mean, np.mean, (3, 4), op="sum"),
    _case("prod", lambda z: sg.prod(z, axis=1), lambda z: z.prod(1), (2, 5), op="prod", high=1.2,
          also=(((2, 0),) * 2, ((3, 1),) * 2), slack=64.0),
    _case("cumsum", lambda z: sg.cumulative_sum(z, axis=0), lambda z: z.cumsum(0), (4, 2),
          op="cumsum"),
    _case("cumprod", lambda z: sg.cumulative_prod(z, axis=1), _recurred, (2, 5), op="cumprod",
          high=1.2, also=(((2, 0),) * 2, ((3, 1),) * 2), slack=64.0, order=2),
    _case("where", lambda z, w: sg.where(sg.abs(z) > sg.abs(w), z, w),
          lambda z, w: np.where(abs(z) > abs(w), z, w), (3, 4), (3, 4), op="where"),
    _case("joined", lambda z, w: sg.flip(sg.concat([z, w], axis=1), axis=1)[1:].mT,
          lambda z, w: np.concatenate([z, w], 1)[1:, ::-1].T, (3, 4), (3, 2), op="concat"),
    _case("padded", lambda z: sg.pad(z, ((1, 0), (0, 2)), constant_values=3),
          lambda z: np.pad(z, ((1, 0), (0, 2)), constant_values=3), (2, 3), op="pad"),
    _case("norm", sg.linalg.norm, np.linalg.norm, (2, 3)),
    Case("complex_take", "gather", lambda x, y, i: _gathered(sg.complex(x, y), i),
         lambda x, y, i: _numpy_number((x + 1j * y)[i]),
         (Real((4, 2)), Real((4, 2)), Whole((3,), 0, 4)), _FLOATS),
)  # fmt: skip
