"""Arguments of Fourier transforms: operands, sizes, axes and norms, as all of them take these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.given_arrays import require_size
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast, normalize_axis
from symgrad.graph.ops.arithmetic import as_number, divide
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.slicing import place
from symgrad.graph.ops.structure import broadcast_to
from symgrad.graph.ops.transcendental import sqrt
from symgrad.graph.ops.views import narrow
from symgrad.graph.sizes import Dim, at_least

Norm = Literal["backward", "ortho", "forward"] | None
NORMS = ("backward", "ortho", "forward")


def as_operand(op: str, x: Any) -> Tensor:
    """Return numbers as float32, float64 or complex ones; what has fewer bits becomes float32."""
    tensor = as_number(op, x)
    if not tensor.ndim:
        raise ShapeError(op, f"x: {tensor.type} has no axis", source=user_source())
    if tensor.dtype.is_complex or tensor.dtype == dtypes.float64:
        return tensor
    return cast(tensor, dtypes.float32)


def as_real_operand(op: str, x: Any) -> Tensor:
    """Return real numbers as float32 or float64."""
    tensor = as_operand(op, x)
    if tensor.dtype.is_complex:
        raise DTypeError(op, f"x: {tensor.type} is not real", source=user_source())
    return tensor


def as_axis(op: str, axis: Any, x: Tensor) -> int:
    """Return an axis counted from 0."""
    return normalize_axis(op, axis, x.ndim)


def as_length(op: str, n: Any, name: str = "n") -> Dim:
    """Return how many numbers are transformed, or are the result."""
    length = require_size(op, name, n)
    if isinstance(length, int) and length < 1:
        raise ShapeError(op, f"{name} must be 1 or more, it is {length}", source=user_source())
    return length


def require_numbers(op: str, x: Tensor, axis: int) -> Tensor:
    """Return `x`; raise `ShapeError` for an axis without numbers, which has no transform."""
    return require_least(x, x.shape[axis], 1, op, f"x: {{x}} has no numbers on axis {axis}")


def resized(x: Tensor, axis: int, n: Dim) -> Tensor:
    """Return `n` numbers along an axis: the first ones, or all and then zeros."""
    size = x.shape[axis]
    if size == n:
        return x
    if isinstance(size, int) and isinstance(n, int) and n < size:
        return narrow(x, axis, 0, n)
    longer = n if isinstance(size, int) and isinstance(n, int) else at_least(n - size, 0) + size
    shape = tuple(longer if a == axis else s for a, s in enumerate(x.shape))
    padded = place(x, shape, (0,) * x.ndim, (1,) * x.ndim)
    return padded if longer is n else narrow(padded, axis, 0, n)


def axes_and_sizes(
    op: str, x: Tensor, s: Sequence[Any] | None, axes: Sequence[Any] | None
) -> list[tuple[int, Any]]:
    """Return axes counted from 0, each with the size that is asked for, None if there is none."""
    if axes is None:
        chosen = list(range(x.ndim))[-len(s) :] if s else list(range(x.ndim))
        chosen = [] if s is not None and not len(s) else chosen
    else:
        chosen = [normalize_axis(op, a, x.ndim) for a in axes]
    sizes: list[Any] = [None] * len(chosen) if s is None else list(s)
    if len(sizes) != len(chosen):
        raise ShapeError(op, f"{len(sizes)} sizes for {len(chosen)} axes", source=user_source())
    if not chosen:
        raise ShapeError(op, "there is no axis to transform along", source=user_source())
    if len(set(chosen)) < len(chosen):
        raise ShapeError(op, f"an axis is repeated in {tuple(axes or ())}", source=user_source())
    return [(axis, x.shape[axis] if n == -1 else n) for axis, n in zip(chosen, sizes, strict=True)]


def scale_of(op: str, norm: Norm, n: Dim, *, is_inverse: bool) -> float | Tensor:
    """Return by what a transform of `n` numbers is multiplied, a scalar tensor if n is unknown."""
    chosen = "backward" if norm is None else norm
    if chosen not in NORMS:
        raise GraphError(op, f"norm {norm!r} is none of {', '.join(NORMS)}", source=user_source())
    if chosen == "ortho":
        if isinstance(n, int):
            return 1.0 / math.sqrt(n)
        return divide(1.0, sqrt(size_of(n, dtypes.float64)))
    if (chosen == "backward") != is_inverse:
        return 1.0
    return 1.0 / n if isinstance(n, int) else divide(1.0, size_of(n, dtypes.float64))


def split_scale(x: Tensor, scale: float | Tensor) -> tuple[Tensor, float]:
    """Return an operand and a number, whose product is that with `scale`."""
    if not isinstance(scale, Tensor):
        return x, scale
    part = x.dtype.real if x.dtype.is_complex else x.dtype
    return x * broadcast_to(cast(scale, part), x.shape), 1.0
