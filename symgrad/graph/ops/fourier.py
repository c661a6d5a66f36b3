"""Fourier transforms along an axis: the ops, their adjoints as gradients, and their algorithms.

All are sums times a `scale`. A complex tensor is a pair of real ones. The inverse transform is the
forward one of the swapped pair, swapped again, and so is the adjoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply, apply_node
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import constant, meet_shapes, require_dtype
from symgrad.graph.ops.arithmetic import add, multiply, negative, subtract
from symgrad.graph.ops.block_matrices import expansion, in_parts
from symgrad.graph.ops.butterflies import roots_of_unity
from symgrad.graph.ops.comparison import equal, logical_or, where
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.fourier_columns import even_odd_columns, paired_columns
from symgrad.graph.ops.fourier_plan import ComplexPair, SpectrumLayout, parts_of, spectrum
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.slicing import concat, flip, stack
from symgrad.graph.ops.small_matrices import is_wide_float
from symgrad.graph.ops.structure import broadcast_to, expand_dims, reshape
from symgrad.graph.ops.triangles import arrived
from symgrad.graph.ops.views import narrow
from symgrad.graph.sizes import Dim, divide
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType, static

PART_BYTES = 1 << 18  # of the real parts that are transformed together: with all else, in L2


def fourier(
    re: Tensor, im: Tensor, axis: int, scale: float = 1.0, *, is_inverse: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the transform, y[k] = scale * sum over j of x[j] exp(-2 pi i j k / n).

    That is with the other sign if it `is_inverse`, which is the adjoint.
    """
    attrs = {"axis": axis, "scale": scale, "is_inverse": is_inverse}
    found = apply_node(fourier_op, (re, im), attrs).outputs
    return found[0], found[1]


def real_fourier(x: Tensor, axis: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return the first n // 2 + 1 numbers of the forward transform of n real ones."""
    found = apply_node(real_fourier_op, (x,), {"axis": axis, "scale": scale}).outputs
    return found[0], found[1]


def hermitian_fourier(re: Tensor, im: Tensor, axis: int, n: Dim, scale: float = 1.0) -> Tensor:
    """Return n real numbers: the inverse transform of y, where y[n - k] = conj(y[k]).

    There are n // 2 + 1 numbers y, of which the first one, and for even n the last, count as real.
    """
    return apply(hermitian_fourier_op, re, im, axis=axis, n=n, scale=scale)


def _with_size(x: TensorType, axis: int, size: Dim) -> TensorType:
    return x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :]))


def _half(x: TensorType, axis: int) -> TensorType:
    """Return the type of what determines the transform of real numbers; of none, nothing does."""
    n = x.shape[axis]
    is_empty = isinstance(n, int) and n == 0
    return _with_size(x, axis, 0 if is_empty else divide(n, 2) + 1)


def _check_axis(op: str, x: TensorType, axis: int) -> None:
    if not 0 <= axis < x.ndim:
        raise ShapeError(op, f"axis {axis} is not one of {x.ndim}")


def _check(op: str, re: TensorType, im: TensorType, axis: int) -> None:
    require_dtype(op, "re", re, is_wide_float)
    require_dtype(op, "im", im, lambda dtype: dtype == re.dtype)
    meet_shapes(op, "re", re, "im", im)
    _check_axis(op, re, axis)


def _as_rows(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return known sizes as three: what is before the axis, the axis, and what is behind it."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _zeros(x: Tensor) -> Tensor:
    return filled_like(x, 0)


def _pair_arrived(node: Node, re: Tensor | None, im: Tensor | None) -> tuple[Tensor, Tensor] | None:
    re, im = arrived(re), arrived(im)
    if re is None and im is None:
        return None
    like = node.outputs[0]
    return _zeros(like) if re is None else re, _zeros(like) if im is None else im


def _in_parts(
    build: Callable[[ComplexPair], list[Tensor]], re: Tensor, im: Tensor, rows: tuple[int, int, int]
) -> list[Tensor]:
    """Return what `build` makes of a pair of three axes, if it is large for a part at a time."""
    if rows[0] == 1 or re.type.nbytes <= 2 * PART_BYTES:
        return build(ComplexPair(re, im).reshaped(*rows))
    whole = reshape(stack([re, im], axis=re.ndim), (*rows, 2))
    return in_parts(lambda z: build(parts_of(z, 3)), whole, nbytes=2 * PART_BYTES, least=1)


# ----------------------------------------------------------------------------------- complex


def _infer(
    re: TensorType, im: TensorType, *, axis: int, scale: float, is_inverse: bool
) -> tuple[TensorType, TensorType]:
    _check("fourier", re, im, axis)
    return re, im


def _reference(
    re: Array, im: Array, *, axis: int, scale: float, is_inverse: bool
) -> tuple[Array, Array]:
    if not re.size:
        return re, im
    numbers = re.astype(np.float64) + 1j * im.astype(np.float64)
    if is_inverse:
        found = np.fft.ifft(numbers, axis=axis, norm="forward") * scale
    else:
        found = np.fft.fft(numbers, axis=axis) * scale
    return found.real.astype(re.dtype), found.imag.astype(im.dtype)


def _grad(
    node: Node,
    of_re: Tensor | None,
    of_im: Tensor | None,
    *,
    axis: int,
    scale: float,
    is_inverse: bool,
) -> Grads:
    g = _pair_arrived(node, of_re, of_im)
    return (None, None) if g is None else fourier(*g, axis, scale, is_inverse=not is_inverse)


def _kernel(re: TensorType, _im: TensorType, *, axis: int, scale: float, is_inverse: bool) -> Call:
    rows = _as_rows(re.static_shape, axis)
    layout = SpectrumLayout(3, scale, is_swapped=is_inverse)

    def transform(x: ComplexPair) -> list[Tensor]:
        return [spectrum(x.swapped if is_inverse else x, layout)]

    def fourier(re: Tensor, im: Tensor) -> list[Tensor]:
        (z,) = _in_parts(transform, re, im, rows)
        found = parts_of(reshape(z, (*re.shape, 2)), re.ndim)
        return [found.re, found.im]

    def nothing(re: Tensor, im: Tensor) -> list[Tensor]:
        return [re, im]

    return expansion(fourier if re.count else nothing, re, re)


def _batch(operands: Operands, *, axis: int, scale: float, is_inverse: bool) -> list[Tensor]:
    re, im = operands.lifted()
    return list(fourier(re, im, axis + 1, scale, is_inverse=is_inverse))


fourier_op = define(
    "fourier", infer=_infer, reference=_reference, grad=_grad, kernel=_kernel, batch=_batch
)


# ----------------------------------------------------------------------------- from real numbers


def _real_infer(x: TensorType, *, axis: int, scale: float) -> tuple[TensorType, TensorType]:
    require_dtype("real_fourier", "x", x, is_wide_float)
    _check_axis("real_fourier", x, axis)
    half = _half(x, axis)
    return half, half


def _real_reference(x: Array, *, axis: int, scale: float) -> tuple[Array, Array]:
    found = scale * (np.fft.rfft(x.astype(np.float64), axis=axis) if x.shape[axis] else x)
    return found.real.astype(x.dtype), found.imag.astype(x.dtype)


def _real_grad(
    node: Node, of_re: Tensor | None, of_im: Tensor | None, *, axis: int, scale: float
) -> Grads:
    # x_bar[j] = sum over k <= n / 2 of re_bar[k] cos(2 pi j k / n) - im_bar[k] sin(2 pi j k / n).
    # The inverse adds up all k: those that it has twice count half here.
    g = _pair_arrived(node, of_re, of_im)
    if g is None:
        return (None,)
    n = node.inputs[0].shape[axis]
    halved = [_weighted(t, axis, n, 0.5) for t in g]
    return (hermitian_fourier(halved[0], halved[1], axis, n, scale),)


def _weighted(x: Tensor, axis: int, n: Dim, weight: float) -> Tensor:
    """Multiply what stands for two numbers of n by `weight`: all but the first and the middle."""
    place = iota((x.shape[axis],), 0)
    is_single = logical_or(equal(place, 0), equal(add(place, place), n))
    ones = filled(place.shape, 1, x.dtype)
    weights = where(is_single, ones, filled(place.shape, weight, x.dtype))
    shape = tuple(size if a == axis else 1 for a, size in enumerate(x.shape))
    return multiply(x, broadcast_to(reshape(weights, shape), x.shape))


def _real_kernel(x: TensorType, *, axis: int, scale: float) -> Call:
    outer, n, inner = _as_rows(x.static_shape, axis)
    half = _half(x, axis).static_shape

    def real_fourier(x: Tensor) -> list[Tensor]:
        algorithm = _packed if n % 2 == 0 and n > 2 else _of_real
        rows = reshape(x, (outer, n, inner))
        (z,) = in_parts(lambda x: [algorithm(x, scale)], rows, nbytes=PART_BYTES, least=1)
        found = parts_of(reshape(z, (*half, 2)), len(half))
        return [found.re, found.im]

    def nothing(x: Tensor) -> list[Tensor]:
        return [filled(half, 0, x.dtype)] * 2

    return expansion(real_fourier if x.count else nothing, x)


def _of_real(x: Tensor, scale: float) -> Tensor:
    z = spectrum(ComplexPair(x, filled_like(x, 0)), SpectrumLayout(3, scale))
    return narrow(z, 1, 0, x.type.static_shape[1] // 2 + 1)


def _packed(x: Tensor, scale: float) -> Tensor:
    """Transform n real numbers as n / 2 complex ones, the even and the odd ones.

    Of z = even + i odd, with m = n / 2: even[k] = (z[k] + conj(z[m - k])) / 2, odd[k] =
    (z[k] - conj(z[m - k])) / 2i, and y[k] = even[k] + exp(-2 pi i k / n) odd[k].
    """
    outer, n, inner = x.type.static_shape
    m = n // 2
    pairs = parts_of(reshape(x, (outer, m, 2, inner)), 2)
    z = spectrum(pairs, SpectrumLayout(0, scale))
    first = parts_of(narrow(z, 2, 0, 1), 0)
    rest = narrow(z, 2, 1, m - 1)
    roots = roots_of_unity(np.arange(1, m), n)
    turns = reshape(constant(np.stack(roots), x.dtype), (2, 1, m - 1, 1))
    inside = even_odd_columns(rest, flip(rest, axis=2), broadcast_to(turns, rest.shape))
    zero = filled_like(first.re, 0)
    ends = [add(first.re, first.im), zero], [subtract(first.re, first.im), zero]
    low, high = (stack(end, axis=3) for end in ends)
    return concat([low, inside, high], axis=1)


def _real_batch(operands: Operands, *, axis: int, scale: float) -> list[Tensor]:
    (x,) = operands.lifted()
    return list(real_fourier(x, axis + 1, scale))


real_fourier_op = define(
    "real_fourier",
    infer=_real_infer,
    reference=_real_reference,
    grad=_real_grad,
    kernel=_real_kernel,
    batch=_real_batch,
)


# ------------------------------------------------------------------------------- to real numbers


def _hermitian_infer(
    re: TensorType, im: TensorType, *, axis: int, n: Dim, scale: float
) -> TensorType:
    op = "hermitian_fourier"
    _check(op, re, im, axis)
    count = re.shape[axis]
    result = _with_size(re, axis, n)
    needed = _half(result, axis).shape[axis]
    if isinstance(count, int) and isinstance(needed, int) and count != needed:
        raise ShapeError(op, f"re: {re} does not have the {needed} numbers for {n}")
    return result


def _hermitian_reference(re: Array, im: Array, *, axis: int, n: Dim, scale: float) -> Array:
    if not n:
        return np.zeros((*re.shape[:axis], 0, *re.shape[axis + 1 :]), re.dtype)
    numbers = re.astype(np.float64) + 1j * im.astype(np.float64)
    found = scale * np.fft.irfft(numbers, static(n), axis=axis, norm="forward")
    return np.asarray(found).astype(re.dtype)


def _hermitian_grad(_node: Node, g: Tensor, *, axis: int, n: Dim, scale: float) -> Grads:
    return tuple(_weighted(t, axis, n, 2.0) for t in real_fourier(g, axis, scale))


def _hermitian_kernel(re: TensorType, _im: TensorType, *, axis: int, n: Dim, scale: float) -> Call:
    outer, count, inner = _as_rows(re.static_shape, axis)
    size = static(n)
    shape = _with_size(re, axis, size).shape

    def hermitian_fourier(re: Tensor, im: Tensor) -> list[Tensor]:
        algorithm = _unpacked if size % 2 == 0 and size > 2 else _to_real
        (x,) = _in_parts(lambda y: [algorithm(y, size, scale)], re, im, (outer, count, inner))
        return [reshape(x, shape)]

    def nothing(_re: Tensor, _im: Tensor) -> list[Tensor]:
        return [filled(shape, 0, re.dtype)]

    return expansion(hermitian_fourier if re.count and size else nothing, re, re)


def _to_real(x: ComplexPair, n: int, scale: float) -> Tensor:
    """Return the real part of the inverse transform of all n numbers."""
    count = x.shape[1]
    re, im = (flip(narrow(t, 1, 1, n - count), axis=1) for t in (x.re, x.im))
    full = ComplexPair(concat([x.re, re], axis=1), concat([x.im, negative(im)], axis=1))
    return parts_of(spectrum(full.swapped, SpectrumLayout(0, scale)), 0).im


def _unpacked(x: ComplexPair, n: int, scale: float) -> Tensor:
    """Find the even and the odd ones of n real numbers as n / 2 complex ones: see `_packed`."""
    m = n // 2
    outer, _, inner = x.shape
    place = iota((outer, m + 1, inner), 1)
    is_real = logical_or(equal(place, 0), equal(place, m))
    im = where(is_real, filled_like(x.im, 0), x.im)
    here = tuple(expand_dims(narrow(t, 1, 0, m), 0) for t in (x.re, im))
    mirrored = tuple(expand_dims(flip(narrow(t, 1, 1, m), axis=1), 0) for t in (x.re, im))
    roots = np.stack(roots_of_unity(np.arange(m), n))
    turns = broadcast_to(reshape(constant(roots, x.dtype), (2, 1, m, 1)), (2, outer, m, inner))
    # The inverse of odd + i even, by the transform of the swapped parts: even numbers come first.
    swapped = parts_of(paired_columns((here[0], here[1]), (mirrored[0], mirrored[1]), turns), 0)
    return reshape(spectrum(swapped, SpectrumLayout(2, scale)), (outer, n, inner))


def _hermitian_batch(operands: Operands, *, axis: int, n: Dim, scale: float) -> Tensor:
    re, im = operands.lifted()
    return hermitian_fourier(re, im, axis + 1, n, scale)


hermitian_fourier_op = define(
    "hermitian_fourier",
    infer=_hermitian_infer,
    reference=_hermitian_reference,
    grad=_hermitian_grad,
    kernel=_hermitian_kernel,
    batch=_hermitian_batch,
)
