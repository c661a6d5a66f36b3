"""Fourier transforms along an axis: the ops, their adjoints as gradients, and their algorithms.

All are unscaled. A complex tensor is a pair of real ones. The inverse transform is the forward one
of the swapped pair, swapped again, and so is the adjoint.
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
from symgrad.graph.operands import meet_shapes, require_dtype
from symgrad.graph.ops.arithmetic import add, multiply, negative, subtract
from symgrad.graph.ops.block_matrices import expansion, in_parts
from symgrad.graph.ops.butterflies import roots_of_unity
from symgrad.graph.ops.comparison import equal, logical_or, where
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.fourier_plan import ComplexPair, parts_of, spectrum, table
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.slicing import concat, flip, stack
from symgrad.graph.ops.small_matrices import is_wide_float
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.triangles import arrived
from symgrad.graph.ops.views import narrow
from symgrad.graph.sizes import Dim, divide
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType, static

PART_BYTES = 1 << 18  # of the real parts that are transformed together: with all else, in L2


def fourier(re: Tensor, im: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return the forward transform, y[k] = sum over j of x[j] exp(-2 pi i j k / n)."""
    found = apply_node(fourier_op, (re, im), {"axis": axis}).outputs
    return found[0], found[1]


def inverse_fourier(re: Tensor, im: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return the inverse transform without its 1 / n, which is the adjoint of `fourier`."""
    found_im, found_re = fourier(im, re, axis)
    return found_re, found_im


def real_fourier(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return the first n // 2 + 1 numbers of the forward transform of n real ones."""
    found = apply_node(real_fourier_op, (x,), {"axis": axis}).outputs
    return found[0], found[1]


def hermitian_fourier(re: Tensor, im: Tensor, axis: int, n: Dim) -> Tensor:
    """Return n real numbers: the unscaled inverse transform of y, with y[n - k] = conj(y[k]).

    There are n // 2 + 1 numbers y, of which the first one, and for even n the last, count as real.
    """
    return apply(hermitian_fourier_op, re, im, axis=axis, n=n)


def _with_size(x: TensorType, axis: int, size: Dim) -> TensorType:
    return x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :]))


def _half(x: TensorType, axis: int) -> TensorType:
    """Return the type of what determines the transform of real numbers; of none, nothing does."""
    n = x.shape[axis]
    is_empty = isinstance(n, int) and n == 0
    return _with_size(x, axis, 0 if is_empty else divide(n, 2) + 1)


def _check(op: str, re: TensorType, im: TensorType) -> None:
    require_dtype(op, "re", re, is_wide_float)
    require_dtype(op, "im", im, lambda dtype: dtype == re.dtype)
    meet_shapes(op, "re", re, "im", im)


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


def _infer(re: TensorType, im: TensorType, *, axis: int) -> tuple[TensorType, TensorType]:
    _check("fourier", re, im)
    return re, im


def _reference(re: Array, im: Array, *, axis: int) -> tuple[Array, Array]:
    if not re.size:
        return re, im
    found = np.fft.fft(re.astype(np.float64) + 1j * im.astype(np.float64), axis=axis)
    return found.real.astype(re.dtype), found.imag.astype(im.dtype)


def _grad(node: Node, of_re: Tensor | None, of_im: Tensor | None, *, axis: int) -> Grads:
    g = _pair_arrived(node, of_re, of_im)
    return (None, None) if g is None else inverse_fourier(*g, axis)


def _kernel(re: TensorType, _im: TensorType, *, axis: int) -> Call:
    rows = _as_rows(re.static_shape, axis)

    def fourier(re: Tensor, im: Tensor) -> list[Tensor]:
        (z,) = _in_parts(lambda x: [spectrum(x, 3)], re, im, rows)
        found = parts_of(reshape(z, (*re.shape, 2)), re.ndim)
        return [found.re, found.im]

    def nothing(re: Tensor, im: Tensor) -> list[Tensor]:
        return [re, im]

    return expansion(fourier if re.count and rows[1] > 1 else nothing, re, re)


def _batch(operands: Operands, *, axis: int) -> list[Tensor]:
    re, im = operands.lifted()
    return list(fourier(re, im, axis + 1))


fourier_op = define(
    "fourier", infer=_infer, reference=_reference, grad=_grad, kernel=_kernel, batch=_batch
)


# ----------------------------------------------------------------------------- from real numbers


def _real_infer(x: TensorType, *, axis: int) -> tuple[TensorType, TensorType]:
    require_dtype("real_fourier", "x", x, is_wide_float)
    half = _half(x, axis)
    return half, half


def _real_reference(x: Array, *, axis: int) -> tuple[Array, Array]:
    found = np.fft.rfft(x.astype(np.float64), axis=axis) if x.shape[axis] else x
    return found.real.astype(x.dtype), found.imag.astype(x.dtype)


def _real_grad(node: Node, of_re: Tensor | None, of_im: Tensor | None, *, axis: int) -> Grads:
    # x_bar[j] = sum over k <= n / 2 of re_bar[k] cos(2 pi j k / n) - im_bar[k] sin(2 pi j k / n).
    # The inverse adds up all k: those that it has twice count half here.
    g = _pair_arrived(node, of_re, of_im)
    if g is None:
        return (None,)
    n = node.inputs[0].shape[axis]
    halved = [_weighted(t, axis, n, 0.5) for t in g]
    return (hermitian_fourier(halved[0], halved[1], axis, n),)


def _weighted(x: Tensor, axis: int, n: Dim, weight: float) -> Tensor:
    """Multiply what stands for two numbers of n by `weight`: all but the first and the middle."""
    place = iota((x.shape[axis],), 0)
    is_single = logical_or(equal(place, 0), equal(add(place, place), n))
    ones = filled(place.shape, 1, x.dtype)
    weights = where(is_single, ones, filled(place.shape, weight, x.dtype))
    shape = tuple(size if a == axis else 1 for a, size in enumerate(x.shape))
    return multiply(x, broadcast_to(reshape(weights, shape), x.shape))


def _real_kernel(x: TensorType, *, axis: int) -> Call:
    outer, n, inner = _as_rows(x.static_shape, axis)
    half = _half(x, axis).static_shape

    def real_fourier(x: Tensor) -> list[Tensor]:
        rows = reshape(x, (outer, n, inner))
        parts = in_parts(
            lambda x: _packed(x) if n % 2 == 0 and n > 2 else _of_real(x),
            rows,
            nbytes=PART_BYTES,
            least=1,
        )
        return [reshape(part, half) for part in parts]

    def nothing(x: Tensor) -> list[Tensor]:
        return [filled(half, 0, x.dtype)] * 2

    return expansion(real_fourier if x.count else nothing, x)


def _of_real(x: Tensor) -> list[Tensor]:
    found = parts_of(spectrum(ComplexPair(x, filled_like(x, 0)), 3), 3)
    count = x.type.static_shape[1] // 2 + 1
    return [narrow(part, 1, 0, count) for part in (found.re, found.im)]


def _packed(x: Tensor) -> list[Tensor]:
    """Transform n real numbers as n / 2 complex ones, the even and the odd ones.

    Of z = even + i odd, with m = n / 2: even[k] = (z[k] + conj(z[m - k])) / 2, odd[k] =
    (z[k] - conj(z[m - k])) / 2i, and y[k] = even[k] + exp(-2 pi i k / n) odd[k].
    """
    outer, n, inner = x.type.static_shape
    m = n // 2
    z = parts_of(spectrum(parts_of(reshape(x, (outer, m, 2, inner)), 2), 0), 0)
    first = ComplexPair(narrow(z.re, 1, 0, 1), narrow(z.im, 1, 0, 1))
    a = ComplexPair(narrow(z.re, 1, 1, m - 1), narrow(z.im, 1, 1, m - 1))
    b = ComplexPair(flip(a.re, axis=1), flip(a.im, axis=1))
    odd = ComplexPair(add(a.im, b.im), subtract(b.re, a.re)).times(_half_turns(a, 1, n))
    re = multiply(add(add(a.re, b.re), odd.re), 0.5)
    im = multiply(add(subtract(a.im, b.im), odd.im), 0.5)
    zero = filled_like(first.re, 0)
    ends = add(first.re, first.im), subtract(first.re, first.im)
    return [concat([ends[0], re, ends[1]], axis=1), concat([zero, im, zero], axis=1)]


def _half_turns(x: ComplexPair, start: int, n: int) -> ComplexPair:
    """Return the roots of unity of n from `start` on, for the second axis of `x`."""
    roots = roots_of_unity(start + np.arange(x.shape[1]), n)
    return table(roots, (x.shape[1], 1), x.dtype, x.shape)


def _real_batch(operands: Operands, *, axis: int) -> list[Tensor]:
    (x,) = operands.lifted()
    return list(real_fourier(x, axis + 1))


real_fourier_op = define(
    "real_fourier",
    infer=_real_infer,
    reference=_real_reference,
    grad=_real_grad,
    kernel=_real_kernel,
    batch=_real_batch,
)


# ------------------------------------------------------------------------------- to real numbers


def _hermitian_infer(re: TensorType, im: TensorType, *, axis: int, n: Dim) -> TensorType:
    op = "hermitian_fourier"
    _check(op, re, im)
    count = re.shape[axis]
    result = _with_size(re, axis, n)
    needed = _half(result, axis).shape[axis]
    if isinstance(count, int) and isinstance(needed, int) and count != needed:
        raise ShapeError(op, f"re: {re} does not have the {needed} numbers for {n}")
    return result


def _hermitian_reference(re: Array, im: Array, *, axis: int, n: Dim) -> Array:
    if not n:
        return np.zeros((*re.shape[:axis], 0, *re.shape[axis + 1 :]), re.dtype)
    numbers = re.astype(np.float64) + 1j * im.astype(np.float64)
    return np.fft.irfft(numbers, static(n), axis=axis, norm="forward").astype(re.dtype)


def _hermitian_grad(_node: Node, g: Tensor, *, axis: int, n: Dim) -> Grads:
    return tuple(_weighted(t, axis, n, 2.0) for t in real_fourier(g, axis))


def _hermitian_kernel(re: TensorType, _im: TensorType, *, axis: int, n: Dim) -> Call:
    outer, count, inner = _as_rows(re.static_shape, axis)
    size = static(n)
    shape = _with_size(re, axis, size).shape

    def hermitian_fourier(re: Tensor, im: Tensor) -> list[Tensor]:
        algorithm = _unpacked if size % 2 == 0 and size > 2 else _to_real
        (x,) = _in_parts(lambda y: [algorithm(y, size)], re, im, (outer, count, inner))
        return [reshape(x, shape)]

    def nothing(_re: Tensor, _im: Tensor) -> list[Tensor]:
        return [filled(shape, 0, re.dtype)]

    return expansion(hermitian_fourier if re.count and size else nothing, re, re)


def _to_real(x: ComplexPair, n: int) -> Tensor:
    """Return the real part of the inverse transform of all n numbers."""
    count = x.shape[1]
    re, im = (flip(narrow(t, 1, 1, n - count), axis=1) for t in (x.re, x.im))
    full = ComplexPair(concat([x.re, re], axis=1), concat([x.im, negative(im)], axis=1))
    return parts_of(spectrum(full.swapped, 0), 0).im


def _unpacked(x: ComplexPair, n: int) -> Tensor:
    """Find the even and the odd ones of n real numbers as n / 2 complex ones: see `_packed`."""
    m = n // 2
    outer, _, inner = x.shape
    place = iota((outer, m + 1, inner), 1)
    is_real = logical_or(equal(place, 0), equal(place, m))
    im = where(is_real, filled_like(x.im, 0), x.im)
    a = ComplexPair(narrow(x.re, 1, 0, m), narrow(im, 1, 0, m))
    b = ComplexPair(flip(narrow(x.re, 1, 1, m), axis=1), flip(narrow(im, 1, 1, m), axis=1))
    even = ComplexPair(add(a.re, b.re), subtract(a.im, b.im))
    roots = _half_turns(a, 0, n)
    odd = ComplexPair(subtract(a.re, b.re), add(a.im, b.im)).times(
        ComplexPair(roots.re, negative(roots.im))
    )
    # The inverse of odd + i even, by the transform of the swapped parts: even numbers come first.
    swapped = ComplexPair(add(odd.im, even.re), subtract(odd.re, even.im))
    return reshape(spectrum(swapped, 2), (outer, n, inner))


def _hermitian_batch(operands: Operands, *, axis: int, n: Dim) -> Tensor:
    re, im = operands.lifted()
    return hermitian_fourier(re, im, axis + 1, n)


hermitian_fourier_op = define(
    "hermitian_fourier",
    infer=_hermitian_infer,
    reference=_hermitian_reference,
    grad=_hermitian_grad,
    kernel=_hermitian_kernel,
    batch=_hermitian_batch,
)
