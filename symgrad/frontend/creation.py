"""Creation functions: zeros, ranges and grids, from a shape and a rule.

Nothing big is stored in the graph: they are broadcast scalars or computed from indices. A size may
be symbolic, as in `zeros(x.shape)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, shortened, user_source
from symgrad.graph import dtypes
from symgrad.graph.devices import require_device
from symgrad.graph.dtypes import (
    DEFAULT_FLOAT,
    DEFAULT_INTEGER,
    DType,
    DTypeLike,
    as_dtype,
    dtype_or,
)
from symgrad.graph.foreign_arrays import arrays_within, as_numpy, has_own_dtype
from symgrad.graph.given_arrays import as_size, require_fit
from symgrad.graph.late_binding import provide
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, constant, holds_size, refuse_tensors
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.comparison import equal, greater, logical_and, where
from symgrad.graph.ops.conversion import identity, size_of
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.whole_numbers import floor
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, Size, at_least, divide
from symgrad.graph.types import ArrayLiteral, Shape, require_int64_count


def as_shape(op: str, shape: Any) -> Shape:
    """Return a size or a sequence of sizes as a shape; raises for what is no size or negative."""
    is_one = as_size(shape) is not None
    is_scalar = isinstance(shape, np.ndarray) and not shape.ndim
    if not is_one and (is_scalar or not isinstance(shape, Iterable)):
        problem = f"shape {shape!r} is neither a size nor a sequence of sizes"
        raise DTypeError(op, problem, source=user_source())
    sizes = (shape,) if is_one else tuple(shape)
    refuse_tensors(op, sizes)
    plain = []
    for given in sizes:
        size = as_size(given)
        if size is None:
            raise DTypeError(op, f"{given!r} is no size", source=user_source())
        if isinstance(size, int) and size < 0:
            raise ShapeError(op, f"size {size} is negative", source=user_source())
        plain.append(size)
    try:
        require_int64_count(op, plain, tuple(plain))
    except ShapeError as error:
        error.source = user_source()
        raise
    return tuple(plain)


@public(is_standard=True)
def asarray(
    obj: Any,
    /,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """Return `obj` as a tensor, in `dtype` if given: itself, the tensor of a size, or a constant.

    A size may stand in a list, too. Python ints become int64 and floats float32; arrays keep their
    dtype. With `copy=True` a tensor becomes a node of its own, with `copy=False` what is no
    tensor, or of another dtype, is refused with a `GraphError`: a constant is a copy.

    >>> sg.asarray([1, 2]).dtype
    symgrad.int64
    """
    require_device("asarray", device)
    if isinstance(obj, Tensor):
        wanted = dtype_or(dtype, obj.dtype)
        if copy is False and wanted != obj.dtype:
            _refuse_copy(f"{obj.type} in {wanted.name}")
        return identity(obj) if copy and wanted == obj.dtype else cast(obj, wanted)
    if copy is False:
        _refuse_copy(f"a constant of {type(obj).__name__}")
    if dtype is not None or has_own_dtype(obj) or holds_size(obj):
        return as_tensor(obj, None if dtype is None else as_dtype(dtype))
    return constant(obj, _default_dtype(obj))


def _refuse_copy(what: str) -> None:
    raise GraphError("asarray", f"{what} is a copy, copy=False asks for none", source=user_source())


def _default_dtype(value: Any) -> DType | None:
    """Return the default dtype of Python ints, None where another one follows from the value."""
    try:
        kind = np.asarray(value).dtype.kind
    except (ValueError, TypeError):
        return None  # `constant` says what is wrong
    return DEFAULT_INTEGER if kind == "i" and not arrays_within(value) else None


@public(is_standard=True)
def empty(shape: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return zeros, float32 if no dtype is given: a value of a graph is never left undefined.

    >>> sg.run(sg.empty(3))
    array([0., 0., 0.], dtype=float32)
    """
    return _filled("empty", shape, 0, dtype, device)


@public(is_standard=True)
def zeros(shape: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return zeros, float32 if no dtype is given. A size may be symbolic, as in `zeros(x.shape)`.

    >>> sg.run(sg.zeros((2, 2), "int64"))
    array([[0, 0],
           [0, 0]])
    """
    return _filled("zeros", shape, 0, dtype, device)


@public(is_standard=True)
def ones(shape: Any, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return ones, float32 if no dtype is given. A size may be symbolic, as in `ones(x.shape)`.

    >>> sg.run(sg.ones((2, 2)))
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _filled("ones", shape, 1, dtype, device)


def _filled(op: str, shape: Any, value: int, dtype: DTypeLike | None, device: str | None) -> Tensor:
    require_device(op, device)
    return filled(as_shape(op, shape), value, dtype_or(dtype, DEFAULT_FLOAT))


@public(is_standard=True)
def full(
    shape: Any, fill_value: Any, dtype: DTypeLike | None = None, *, device: str | None = None
) -> Tensor:
    """Return `fill_value`, a number or a tensor, broadcast to `shape`.

    Its dtype is that of `asarray(fill_value)` if none is given.

    >>> sg.run(sg.full((2, 3), 7))
    array([[7, 7, 7],
           [7, 7, 7]])
    """
    require_device("full", device)
    return broadcast_to(asarray(fill_value, dtype), as_shape("full", shape))


@public(is_standard=True)
def empty_like(x: Any, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return zeros of the shape of `x`, in its dtype if none is given; as `empty`.

    >>> sg.run(sg.empty_like([1, 2]))
    array([0, 0], dtype=int32)
    """
    return _filled_like("empty_like", x, 0, dtype, device)


@public(is_standard=True)
def zeros_like(x: Any, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return zeros of the shape of `x`, in its dtype if none is given.

    >>> sg.run(sg.zeros_like([5.0, 6.0]))
    array([0., 0.], dtype=float32)
    """
    return _filled_like("zeros_like", x, 0, dtype, device)


@public(is_standard=True)
def ones_like(x: Any, /, dtype: DTypeLike | None = None, *, device: str | None = None) -> Tensor:
    """Return ones of the shape of `x`, in its dtype if none is given.

    >>> sg.run(sg.ones_like([5, 6]))
    array([1, 1], dtype=int32)
    """
    return _filled_like("ones_like", x, 1, dtype, device)


def _filled_like(
    op: str, x: Any, value: int, dtype: DTypeLike | None, device: str | None
) -> Tensor:
    require_device(op, device)
    x = as_tensor(x)
    return filled(x.shape, value, dtype_or(dtype, x.dtype))


@public(is_standard=True)
def full_like(
    x: Any, /, fill_value: Any, dtype: DTypeLike | None = None, *, device: str | None = None
) -> Tensor:
    """Return `fill_value` broadcast to the shape of `x`, in its dtype if none is given.

    >>> sg.run(sg.full_like([1.0, 2.0], 7))
    array([7., 7.], dtype=float32)
    """
    x = as_tensor(x)
    return full(x.shape, fill_value, dtype_or(dtype, x.dtype), device=device)


@public(is_standard=True)
def arange(
    start: Dim | float,
    /,
    stop: Dim | float | None = None,
    step: int | float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return `start`, `start + step`, ... before `stop`; with one argument, from 0 to that.

    Integers are int64 and floats float32 if no dtype is given. A symbolic size may bound it. Raises
    `DTypeError` for ints that the dtype does not hold.

    >>> sg.run(sg.arange(2, 10, 3))
    array([2, 5, 8])
    """
    require_device("arange", device)
    bounds: tuple[Any, ...] = (0, start, step) if stop is None else (start, stop, step)
    for bound in bounds:
        if isinstance(bound, Tensor) or not hasattr(bound, "__sub__"):
            raise DTypeError(
                "arange",
                f"{bound.type if isinstance(bound, Tensor) else repr(bound)} is no number",
                hint="the size of a result is known before it runs: a bound may be x.shape[0]",
                source=user_source(),
            )
        if isinstance(bound, float) and not math.isfinite(bound):
            raise ShapeError("arange", f"{bound} is no end of a range", source=user_source())
    if step == 0:
        raise ShapeError("arange", "the step is 0", source=user_source())
    is_float = any(isinstance(bound, float) for bound in bounds)
    if any(isinstance(bound, Size) for bound in bounds):
        bounds = tuple(_whole(bound, bounds) for bound in bounds)
    first, last, step = bounds
    wanted = dtype_or(dtype, DEFAULT_FLOAT if is_float else DEFAULT_INTEGER)
    count = _range_count(first, last, step)
    if not is_float and isinstance(count, int) and count:
        require_fit("arange", (first, first + (count - 1) * step), wanted)
    index = iota((count,), 0)
    # Floats are computed in float64 and rounded once.
    wide = cast(index, dtypes.float64) if is_float or wanted.is_float else index
    scaled = multiply(wide, step) if step != 1 else wide
    origin = size_of(first) if isinstance(first, Size) else first
    return cast(add(scaled, origin) if first != 0 else scaled, wanted)


def _whole(bound: Any, bounds: tuple[Any, ...]) -> Any:
    """Return an int for a number: beside a size, only those make a number of elements."""
    if isinstance(bound, Size) or bound == int(bound):
        return bound if isinstance(bound, Size) else int(bound)
    first, last, step = bounds
    raise ShapeError(
        "arange",
        f"{bound} in the range from {first} to {last} by {step} is no int",
        hint="use sg.linspace, or scale an sg.arange of ints",
        source=user_source(),
    )


def _range_count(first: Any, last: Any, step: Any) -> Dim:
    if not isinstance(first, Size) and not isinstance(last, Size):
        count: int = math.ceil((last - first) / step)
        return max(0, count)
    span: Dim = last - first if step > 0 else first - last
    return at_least(divide(span + (abs(step) - 1), abs(step)), 0)


@public(is_standard=True)
def linspace(
    start: Dim | float,
    stop: Dim | float,
    /,
    num: Dim,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """Return `num` evenly spaced values from `start` to `stop`, float32 if no dtype is given.

    `stop` is the last of them, or with `endpoint=False` the one that would follow. All three may be
    sizes that only a call tells. An integer dtype has the floors of the values, as NumPy's.

    >>> sg.run(sg.linspace(0, 1, 5))
    array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    require_device("linspace", device)
    (count,) = as_shape("linspace", num)
    intervals = at_least(count - 1 if endpoint else count, 1)
    index = iota((count,), 0)
    # Numbers are computed by Python, in float64, and so is what has sizes in it.
    first, last = (_float64(bound) for bound in (start, stop))
    step = (last - first) / (intervals if isinstance(intervals, int) else _float64(intervals))
    values = add(multiply(cast(index, dtypes.float64), step), first)
    if endpoint and count != 1:
        is_last = logical_and(equal(index, count - 1), greater(index, 0))
        values = where(is_last, last, values)
    wanted = dtype_or(dtype, DEFAULT_FLOAT)
    return cast(floor(values) if wanted.is_integer else values, wanted)


def _float64(bound: Any) -> Any:
    return size_of(bound, dtypes.float64) if isinstance(bound, Size) else float(bound)


@public(is_standard=True)
def meshgrid(*arrays: Any, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Return coordinate matrices (a grid): each vector broadcast to the sizes of all of them.

    Vector i runs along axis i of its grid, but with "xy", as for pictures, the first two are
    exchanged. Dtypes stay. The gradient of a vector is a sum over the other axes. Raises
    `ShapeError` for what is no vector.

    >>> rows, columns = sg.meshgrid(sg.arange(2), sg.arange(3), indexing="ij")
    >>> rows.shape
    (2, 3)
    """
    if indexing not in ("xy", "ij"):
        raise GraphError("meshgrid", f"{indexing!r} is neither 'xy' nor 'ij'", source=user_source())
    vectors = [reshape(v, (1,)) if v.ndim == 0 else v for v in map(as_tensor, arrays)]
    for position, vector in enumerate(vectors):
        if vector.ndim != 1:
            problem = f"operand {position}: {vector.type} is no vector"
            raise ShapeError("meshgrid", problem, source=user_source())
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = [1, 0]
    shape = tuple(vectors[i].shape[0] for i in order)
    return tuple(
        broadcast_to(reshape(v, tuple(v.shape[0] if j == i else 1 for j in order)), shape)
        for i, v in enumerate(vectors)
    )


@public(is_standard=True)
def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Return what another library holds as a constant; a tensor as it is.

    A constant is a copy, so `copy=False` is refused with a `GraphError`. Raises `DTypeError` for a
    dtype symgrad does not have.

    >>> sg.run(sg.from_dlpack(np.arange(3)))
    array([0, 1, 2])
    """
    require_device("from_dlpack", device)
    if isinstance(x, Tensor):
        return x
    if not hasattr(x, "__dlpack__"):
        problem = f"{shortened(x)} has no method __dlpack__"
        raise DTypeError("from_dlpack", problem, source=user_source())
    if copy is False:
        _refuse_copy(f"a constant of {type(x).__name__}")
    try:
        return constant(np.from_dlpack(x))
    except (BufferError, RuntimeError) as error:
        # DLPack of NumPy has no bfloat16, and no other order of bytes: arrays go without it.
        if has_own_dtype(x):
            return constant(as_numpy("from_dlpack", x))
        problem = f"{type(x).__name__} hands nothing over: {error}"
        raise DTypeError("from_dlpack", problem, source=user_source()) from error


@provide
def value_to_export(x: Tensor, copy: bool | None) -> np.ndarray[Any, Any]:
    """Return a copy of the value of a constant; raises for any other tensor, which has none."""
    literal = x.node.attrs.get("value")
    if not isinstance(literal, ArrayLiteral):
        raise DTypeError(
            x.node.op,
            f"a symbolic tensor {x.type} has no value to export by DLPack",
            hint="compile the graph and call it, or use sg.run",
            source=user_source(),
        )
    if copy is False:
        raise BufferError("a constant is not exported without a copy")
    return literal.array.copy()
