"""Creation functions: zeros, ranges, the identity matrix, triangles, from a shape and a rule.

Nothing big is stored in the graph: they are broadcast scalars or computed from indices. A size may
be symbolic, as in `zeros(x.shape)`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DTypeLike, as_dtype
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.comparison import equal, greater_equal, where
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.structure import broadcast_to
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, Size, at_least, divide
from symgrad.graph.types import Shape, require_int64_count


def as_shape(op: str, shape: Any) -> Shape:
    """Return a size or a sequence of sizes as a shape; raises for what is no size or negative."""
    sizes = (shape,) if isinstance(shape, int | np.integer | Size) else tuple(shape)
    plain = tuple(int(n) if isinstance(n, np.integer) else n for n in sizes)
    for size in plain:
        if isinstance(size, bool) or not isinstance(size, int | Size):
            raise DTypeError(op, f"{size!r} is no size", source=user_source())
        if isinstance(size, int) and size < 0:
            raise ShapeError(op, f"size {size} is negative", source=user_source())
    try:
        require_int64_count(op, list(plain), plain)
    except ShapeError as error:
        error.source = user_source()
        raise
    return plain


@public(is_standard=True)
def asarray(value: Any, /, dtype: DTypeLike | None = None) -> Tensor:
    """Return `value` as a tensor, in `dtype` if given: itself, or a constant of it."""
    if dtype is None:
        return as_tensor(value)
    wanted = as_dtype(dtype)
    return cast(value, wanted) if isinstance(value, Tensor) else as_tensor(value, wanted)


@public(is_standard=True)
def zeros(shape: Any, dtype: DTypeLike = "float32") -> Tensor:
    """Return zeros."""
    return filled(as_shape("zeros", shape), 0, as_dtype(dtype))


@public(is_standard=True)
def ones(shape: Any, dtype: DTypeLike = "float32") -> Tensor:
    """Return ones."""
    return filled(as_shape("ones", shape), 1, as_dtype(dtype))


@public(is_standard=True)
def full(shape: Any, fill_value: Any, dtype: DTypeLike | None = None) -> Tensor:
    """Return `fill_value`, a number or a tensor, broadcast to `shape`."""
    return broadcast_to(asarray(fill_value, dtype), as_shape("full", shape))


@public(is_standard=True, functions=[np.zeros_like])
def zeros_like(x: Any, /, dtype: DTypeLike | None = None) -> Tensor:
    """Return zeros of the shape of `x`, in its dtype if none is given."""
    x = as_tensor(x)
    return filled(x.shape, 0, x.dtype if dtype is None else as_dtype(dtype))


@public(is_standard=True, functions=[np.ones_like])
def ones_like(x: Any, /, dtype: DTypeLike | None = None) -> Tensor:
    """Return ones of the shape of `x`, in its dtype if none is given."""
    x = as_tensor(x)
    return filled(x.shape, 1, x.dtype if dtype is None else as_dtype(dtype))


@public(is_standard=True, functions=[np.full_like])
def full_like(x: Any, fill_value: Any, /, dtype: DTypeLike | None = None) -> Tensor:
    """Return `fill_value` broadcast to the shape of `x`, in its dtype if none is given."""
    x = as_tensor(x)
    return full(x.shape, fill_value, x.dtype if dtype is None else dtype)


@public(is_standard=True)
def arange(
    start: Dim | float,
    /,
    stop: Dim | float | None = None,
    step: int | float = 1,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return `start`, `start + step`, ... before `stop`; with one argument, from 0 to that.

    Integers are int64 and floats float32 if no dtype is given. A symbolic size may bound it.
    """
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ShapeError("arange", "the step is 0", source=user_source())
    is_float = any(isinstance(bound, float) for bound in (first, last, step))
    wanted = as_dtype(dtype or (dtypes.float32 if is_float else dtypes.int64))
    index = iota((_range_count(first, last, step),), 0)
    # Floats are computed in float64 and rounded once.
    wide = cast(index, dtypes.float64) if is_float or wanted.is_float else index
    scaled = multiply(wide, step) if step != 1 else wide
    origin = size_of(first) if isinstance(first, Size) else first
    return cast(add(scaled, origin) if first != 0 else scaled, wanted)


def _range_count(first: Any, last: Any, step: Any) -> Dim:
    if not isinstance(first, Size) and not isinstance(last, Size):
        count: int = math.ceil((last - first) / step)
        return max(0, count)
    if not isinstance(step, int):
        raise ShapeError(
            "arange", f"step {step} from {first} to {last} is no int", source=user_source()
        )
    span: Dim = last - first if step > 0 else first - last
    return at_least(divide(span + (abs(step) - 1), abs(step)), 0)


@public(is_standard=True)
def linspace(
    start: float,
    stop: float,
    /,
    num: int,
    *,
    dtype: DTypeLike = "float32",
    endpoint: bool = True,
) -> Tensor:
    """Return `num` evenly spaced values from `start` to `stop`, which is the last of them."""
    (count,) = as_shape("linspace", num)
    assert isinstance(count, int), "the number of values is an int"
    intervals = max(1, count - 1 if endpoint else count)
    index = iota((count,), 0)
    step = (stop - start) / intervals
    values = add(multiply(cast(index, dtypes.float64), step), start)
    if endpoint and count > 1:
        values = where(equal(index, count - 1), float(stop), values)
    return cast(values, as_dtype(dtype))


@public(is_standard=True)
def eye(
    n_rows: Dim, n_cols: Dim | None = None, /, *, k: int = 0, dtype: DTypeLike = "float32"
) -> Tensor:
    """Return a matrix of ones on the `k`-th diagonal above the main one, and zeros."""
    shape = as_shape("eye", (n_rows, n_rows if n_cols is None else n_cols))
    row, column = iota(shape, 0), iota(shape, 1)
    return cast(equal(add(row, k) if k else row, column), as_dtype(dtype))


@public(is_standard=True)
def tril(x: Any, /, *, k: int = 0) -> Tensor:
    """Return `x` with zeros above the `k`-th diagonal of its last two axes."""
    x = as_tensor(x)
    row, column = _matrix_indices("tril", x)
    return where(greater_equal(add(row, k), column), x, zeros_like(x))


@public(is_standard=True)
def triu(x: Any, /, *, k: int = 0) -> Tensor:
    """Return `x` with zeros below the `k`-th diagonal of its last two axes."""
    x = as_tensor(x)
    row, column = _matrix_indices("triu", x)
    return where(greater_equal(column, add(row, k)), x, zeros_like(x))


def _matrix_indices(op: str, x: Tensor) -> tuple[Tensor, Tensor]:
    if x.ndim < 2:
        raise ShapeError(op, f"x: {x.type} has fewer than two axes", source=user_source())
    shape = x.shape[-2:]
    return iota(shape, 0), iota(shape, 1)
