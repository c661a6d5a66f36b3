"""Initialisers of weights: NumPy arrays of random numbers, scaled by fan-in and fan-out.

    w = sg.variable(sg.nn.init.he_normal((3, 3, 16, 32), seed=0))

Each takes a shape, a float dtype, a seed, which is all that the numbers depend on, and the layout.
A shape of two axes is (inputs, outputs). One of more is the kernel of a convolution: with the
layout "NHWC" (*window, inputs of a group, outputs), with "NCHW" (outputs, inputs of a group,
*window). The fan-in is the window times the inputs, the fan-out the window times the outputs. All
raise `ShapeError` for other shapes, `DTypeError` for a dtype of no floats, and `GraphError` for an
unknown layout. The numbers are drawn in float64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.publication import publish as _publish
from symgrad.graph.dtypes import DTypeLike, as_dtype
from symgrad.graph.given_arrays import as_int, within_memory
from symgrad.graph.types import Array

__all__ = [
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "lecun_normal",
    "lecun_uniform",
    "orthogonal",
    "truncated_normal",
]

KernelLayout = Literal["NHWC", "NCHW"]


def glorot_uniform(
    shape: Sequence[int], dtype: DTypeLike = "float32", *, seed: int, layout: KernelLayout = "NHWC"
) -> Array:
    """Draw from Glorot's (Xavier's) uniform distribution, `+-sqrt(6 / (fan_in + fan_out))`.

    X. Glorot, Y. Bengio, "Understanding the difficulty of training deep feedforward neural
    networks", 2010.

    >>> sg.nn.init.glorot_uniform((784, 10), seed=0).shape
    (784, 10)
    """
    fan_in, fan_out = _fans("glorot_uniform", shape, layout)
    return _uniform("glorot_uniform", shape, dtype, seed, 2 / (fan_in + fan_out))


def glorot_normal(
    shape: Sequence[int], dtype: DTypeLike = "float32", *, seed: int, layout: KernelLayout = "NHWC"
) -> Array:
    """Draw from Glorot's normal distribution, of deviation `sqrt(2 / (fan_in + fan_out))`.

    >>> sg.nn.init.glorot_normal((784, 10), "float64", seed=0).dtype
    dtype('float64')
    """
    fan_in, fan_out = _fans("glorot_normal", shape, layout)
    return _normal("glorot_normal", shape, dtype, seed, 2 / (fan_in + fan_out))


def he_uniform(
    shape: Sequence[int], dtype: DTypeLike = "float32", *, seed: int, layout: KernelLayout = "NHWC"
) -> Array:
    """Draw from He's (Kaiming's) uniform distribution, `+-sqrt(6 / fan_in)`, for layers with relu.

    K. He and others, "Delving deep into rectifiers: surpassing human-level performance on ImageNet
    classification", 2015.

    >>> sg.nn.init.he_uniform((3, 3, 16, 32), seed=0).shape
    (3, 3, 16, 32)
    """
    fan_in, _ = _fans("he_uniform", shape, layout)
    return _uniform("he_uniform", shape, dtype, seed, 2 / fan_in)


def he_normal(
    shape: Sequence[int], dtype: DTypeLike = "float32", *, seed: int, layout: KernelLayout = "NHWC"
) -> Array:
    """Draw from He's normal distribution, of deviation `sqrt(2 / fan_in)`, for layers with relu.

    >>> sg.nn.init.he_normal((32, 16, 3, 3), seed=0, layout="NCHW").shape
    (32, 16, 3, 3)
    """
    fan_in, _ = _fans("he_normal", shape, layout)
    return _normal("he_normal", shape, dtype, seed, 2 / fan_in)


def lecun_uniform(
    shape: Sequence[int], dtype: DTypeLike = "float32", *, seed: int, layout: KernelLayout = "NHWC"
) -> Array:
    """Draw from LeCun's uniform distribution, `+-sqrt(3 / fan_in)`.

    Y. LeCun and others, "Efficient backprop", 1998.

    >>> sg.nn.init.lecun_uniform((784, 10), seed=0).shape
    (784, 10)
    """
    fan_in, _ = _fans("lecun_uniform", shape, layout)
    return _uniform("lecun_uniform", shape, dtype, seed, 1 / fan_in)


def lecun_normal(
    shape: Sequence[int], dtype: DTypeLike = "float32", *, seed: int, layout: KernelLayout = "NHWC"
) -> Array:
    """Draw from LeCun's normal distribution, of deviation `sqrt(1 / fan_in)`, as selu wants it.

    >>> sg.nn.init.lecun_normal((784, 10), seed=0).shape
    (784, 10)
    """
    fan_in, _ = _fans("lecun_normal", shape, layout)
    return _normal("lecun_normal", shape, dtype, seed, 1 / fan_in)


def orthogonal(
    shape: Sequence[int],
    dtype: DTypeLike = "float32",
    *,
    seed: int,
    layout: KernelLayout = "NHWC",
    gain: float = 1.0,
) -> Array:
    """Draw a matrix of fan-in rows and a column for each output, all orthogonal, of length `gain`.

    If there are more outputs than fan-in, the rows are orthogonal instead. All such matrices are
    equally likely. A shape of more than two axes is that matrix in another form.

    A. Saxe, J. McClelland, S. Ganguli, "Exact solutions to the nonlinear dynamics of learning in
    deep linear neural networks", 2014.

    >>> w = sg.nn.init.orthogonal((4, 3), "float64", seed=0)
    >>> np.allclose(w.T @ w, np.eye(3))
    True
    """
    fan_in, _ = _fans("orthogonal", shape, layout)
    sizes = _sizes("orthogonal", shape)
    is_first = len(sizes) > 2 and layout == "NCHW"
    outputs = sizes[0] if is_first else sizes[-1]
    rows = fan_in if math.prod(sizes) else 0
    of_rows = (max(rows, outputs), min(rows, outputs))
    with within_memory("orthogonal", f"shape {sizes}"):
        q, r = np.linalg.qr(_generator("orthogonal", seed).standard_normal(of_rows))
    # Of the two signs of each column QR takes one; these make all matrices equally likely.
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    matrix = gain * (q if rows >= outputs else q.T)
    return _rounded("orthogonal", (matrix.T if is_first else matrix).reshape(sizes), dtype)


def truncated_normal(
    shape: Sequence[int],
    dtype: DTypeLike = "float32",
    *,
    seed: int,
    layout: KernelLayout = "NHWC",
    std: float = 1.0,
) -> Array:
    """Draw from the normal distribution of deviation `std`, cut at two deviations.

    What is beyond is drawn anew, so what is returned has a deviation of 0.8796 * `std`. Any shape
    will do, and the layout makes no difference.

    >>> np.abs(sg.nn.init.truncated_normal((1000,), seed=0, std=0.1)).max() <= 0.2
    np.True_
    """
    _check_layout("truncated_normal", layout)
    sizes = _sizes("truncated_normal", shape)
    generator = _generator("truncated_normal", seed)
    with within_memory("truncated_normal", f"shape {sizes}"):
        drawn = generator.standard_normal(sizes)
    while (is_beyond := np.abs(drawn) > 2).any():
        drawn[is_beyond] = generator.standard_normal(int(is_beyond.sum()))
    return _rounded("truncated_normal", std * drawn, dtype)


def _fans(op: str, shape: Sequence[int], layout: KernelLayout) -> tuple[int, int]:
    """Return fan-in and fan-out, at least 1 each."""
    _check_layout(op, layout)
    sizes = _sizes(op, shape)
    if len(sizes) < 2:
        problem = f"shape {sizes} has no axes of inputs and outputs"
        raise ShapeError(op, problem, source=user_source())
    if layout == "NCHW" and len(sizes) > 2:
        outputs, inputs, *window = sizes
    else:
        *window, inputs, outputs = sizes
    size = math.prod(window)
    return max(1, size * inputs), max(1, size * outputs)


def _check_layout(op: str, layout: str) -> None:
    if layout not in ("NHWC", "NCHW"):
        problem = f"layout {layout!r} is neither 'NHWC' nor 'NCHW'"
        raise GraphError(op, problem, source=user_source())


def _sizes(op: str, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape as ints: what products of NumPy's integers overflow, those of ints do not."""
    given: Sequence[object] = shape
    sizes = []
    for size in given:
        number = as_int(size)
        if number is None or number < 0:
            raise ShapeError(op, f"{size!r} is no size", source=user_source())
        sizes.append(number)
    return tuple(sizes)


def _generator(op: str, seed: int) -> np.random.Generator:
    number = as_int(seed)
    if number is None:
        raise DTypeError(op, f"seed is {seed!r}, not an int", source=user_source())
    if number < 0:
        raise GraphError(op, f"seed is {number}, it must not be negative", source=user_source())
    return np.random.default_rng(number)


def _uniform(op: str, shape: Sequence[int], dtype: DTypeLike, seed: int, variance: float) -> Array:
    limit, sizes, generator = math.sqrt(3 * variance), _sizes(op, shape), _generator(op, seed)
    with within_memory(op, f"shape {sizes}"):
        drawn = generator.uniform(-limit, limit, sizes)
    return _rounded(op, drawn, dtype)


def _normal(op: str, shape: Sequence[int], dtype: DTypeLike, seed: int, variance: float) -> Array:
    sizes, generator = _sizes(op, shape), _generator(op, seed)
    with within_memory(op, f"shape {sizes}"):
        drawn = generator.normal(0, math.sqrt(variance), sizes)
    return _rounded(op, drawn, dtype)


def _rounded(op: str, drawn: Array, dtype: DTypeLike) -> Array:
    wanted = as_dtype(dtype)
    if not wanted.is_float:
        raise DTypeError(op, f"{wanted.name} is no float dtype", source=user_source())
    return drawn.astype(wanted.numpy)


_publish(globals())
