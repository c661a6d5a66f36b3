"""Order statistics: quantile, percentile and median, read off sorted elements, with nan or not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, made_by_numpy, normalize_axes
from symgrad.graph.ops.arithmetic import add, isfinite, multiply, subtract
from symgrad.graph.ops.comparison import equal, isnan, logical_not, where
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.extrema import clip, maximum
from symgrad.graph.ops.gathering import gather
from symgrad.graph.ops.indexing import take_along_axis
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.ordering import sort
from symgrad.graph.ops.reduction import sum
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import broadcast_to, expand_dims, permute_dims, reshape
from symgrad.graph.ops.views import moveaxis, narrow
from symgrad.graph.ops.whole_numbers import ceil, floor, round
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import at_least

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


@public(functions=[np.quantile])
def quantile(
    x: Any, q: Any, /, axis: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Return what a share of `q`, from 0 to 1, of the elements of `x` over `axis` are below.

    Among n sorted elements it is the one at position `q * (n - 1)`; between two, `method` says
    what: "linear" interpolates, "midpoint" is the mean of both, "lower" and "higher" are one of
    them and "nearest" the nearer one, of two as near the one at an even position (Hyndman and Fan,
    Sample Quantiles in Statistical Packages, 1996, definition 7). `axis` is one axis, several, or
    None for all. The axes of `q` come first, then those of `x` but for `axis`, which stays as 1
    with `keepdims`. The result has the dtype of `x`, float32 for integers; it is nan if an element
    is. The gradient goes to the elements it is read from. Raises `ShapeError` for a `q` outside of
    0 to 1 or an axis without elements; a tensor `q` is clipped.

    >>> sg.run(sg.quantile(sg.constant([4.0, 1.0, 2.0, 3.0]), 0.5))
    array(2.5, dtype=float32)
    """
    return _quantile("quantile", x, q, 1.0, axis, method, keepdims)


@public(functions=[np.percentile])
def percentile(
    x: Any, q: Any, /, axis: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Return the quantile of `q` hundredths: see `quantile`.

    >>> sg.run(sg.percentile(sg.constant([4.0, 1.0, 2.0, 3.0]), 50))
    array(2.5, dtype=float32)
    """
    return _quantile("percentile", x, q, 100.0, axis, method, keepdims)


@public(functions=[np.median])
def median(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Return the middle element of `x` over `axis`, or the mean of the two in the middle.

    It is the quantile of a half: see `quantile`; nan of no elements.

    >>> sg.run(sg.median(sg.constant([4.0, 1.0, 2.0])))
    array(2., dtype=float32)
    """
    return _quantile("median", x, 0.5, 1.0, axis, "linear", keepdims)


@public(functions=[np.nanquantile])
def nanquantile(
    x: Any, q: Any, /, axis: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Return the quantile of the elements that are no nan: see `quantile`; nan where all are.

    >>> sg.run(sg.nanquantile(sg.constant([4.0, float("nan"), 2.0, 3.0]), 0.5))
    array(3., dtype=float32)
    """
    return _quantile("nanquantile", x, q, 1.0, axis, method, keepdims, skips_nan=True)


@public(functions=[np.nanpercentile])
def nanpercentile(
    x: Any, q: Any, /, axis: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Return the quantile of `q` hundredths of the elements that are no nan: see `nanquantile`.

    >>> sg.run(sg.nanpercentile(sg.constant([4.0, float("nan"), 2.0, 3.0]), 50))
    array(3., dtype=float32)
    """
    return _quantile("nanpercentile", x, q, 100.0, axis, method, keepdims, skips_nan=True)


@public(functions=[np.nanmedian])
def nanmedian(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Return the median of the elements that are no nan: see `nanquantile`.

    >>> sg.run(sg.nanmedian(sg.constant([4.0, float("nan"), 2.0])))
    array(3., dtype=float32)
    """
    return _quantile("nanmedian", x, 0.5, 1.0, axis, "linear", keepdims, skips_nan=True)


def _quantile(
    op: str, x: Any, q: Any, whole: float, axis: Any, method: str, keepdims: bool, *,
    skips_nan: bool = False,
) -> Tensor:  # fmt: skip
    x = as_tensor(x)
    if method not in _METHODS:
        known = ", ".join(_METHODS)
        raise ShapeError(op, f"method {method!r} is none of {known}", source=user_source())
    if not x.dtype.is_float:
        x = cast(x, dtypes.float32)
    axes = normalize_axes(op, axis, x.ndim)
    if op in ("quantile", "percentile"):
        count = math.prod([x.shape[a] for a in axes], start=1)
        x = require_least(x, count, 1, op, f"x: {{x}} has no elements along {axes}")
    rows = sort(_some_of(_rows(x, axes)))
    shares = _shares(op, q, whole)
    size = rows.shape[-1]
    if skips_nan:
        found = _read_numbers(rows, as_tensor(shares), method)
    elif isinstance(size, int) and isinstance(shares, np.ndarray):
        found = _nan_where_one_is(rows, _read_known(rows, size, shares, method))
    else:
        found = _nan_where_one_is(rows, _read(rows, as_tensor(shares), method))
    share_shape = shares.shape
    result = reshape(moveaxis(found, -1, 0), (*share_shape, *rows.shape[:-1]))
    places = [a + len(share_shape) for a in axes]
    return expand_dims(result, axis=tuple(places)) if keepdims and places else result


def _some_of(rows: Tensor) -> Tensor:
    """Return `rows`, each of nan if they have no elements, as a size that is not known may be 0."""
    missing = at_least(1 - rows.shape[-1], 0)
    if missing == 0:
        return rows
    return concat([rows, filled((*rows.shape[:-1], missing), math.nan, rows.dtype)], axis=-1)


def _nan_where_one_is(rows: Tensor, found: Tensor) -> Tensor:
    """Return `found`, or nan for rows that end with one."""
    greatest = narrow(rows, rows.ndim - 1, rows.shape[-1] - 1, 1)
    has_nan = broadcast_to(isnan(greatest), found.shape)
    return where(has_nan, broadcast_to(greatest, found.shape), found)


def _rows(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return `x` with all of `axes` as one last axis."""
    rest = [a for a in range(x.ndim) if a not in axes]
    size = math.prod([x.shape[a] for a in axes], start=1)
    return reshape(permute_dims(x, [*rest, *axes]), (*(x.shape[a] for a in rest), size))


def _shares(op: str, q: Any, whole: float) -> Tensor | np.ndarray[Any, Any]:
    """Return `q` as shares of 1 in float64, an array if it is known."""
    if isinstance(q, Tensor):
        if not (q.dtype.is_float or q.dtype.is_integer):
            raise DTypeError(op, f"q: {q.type} is no number", source=user_source())
        return clip(multiply(cast(q, dtypes.float64), 1 / whole), 0.0, 1.0)
    if made_by_numpy(q).dtype.kind not in "biuf":
        raise DTypeError(op, f"q: {q!r} is no number", source=user_source())
    given = np.asarray(q, np.float64)
    if not ((given >= 0) & (given <= whole)).all():
        raise ShapeError(op, f"q: {q!r} is not between 0 and {whole:g}", source=user_source())
    return np.asarray(given / whole)


def _read_known(rows: Tensor, size: int, shares: np.ndarray[Any, Any], method: str) -> Tensor:
    """Return the quantiles of sorted rows along a last axis, at places that are known."""
    places = shares.reshape(-1) * (size - 1)
    low, high, part = _between(places, method, np.floor, np.ceil, np.rint)
    below, above = (
        gather(rows, [as_tensor(p.astype(np.int64))], rows.ndim - 1) for p in (low, high)
    )
    weight = np.asarray(part, rows.dtype.numpy)
    return _interpolated(below, above, as_tensor(weight)) if np.any(part) else below


def _read(rows: Tensor, shares: Tensor, method: str) -> Tensor:
    """Return the quantiles of sorted rows along a last axis, at places that are data."""
    last = subtract(as_tensor(rows.shape[-1], dtypes.int64), 1)
    places = multiply(reshape(shares, (-1,)), cast(last, dtypes.float64))
    low, high, part = _between(places, method, floor, ceil, round)
    below, above = (gather(rows, [cast(p, dtypes.int64)], rows.ndim - 1) for p in (low, high))
    return _interpolated(below, above, cast(as_tensor(part), rows.dtype))


def _read_numbers(rows: Tensor, shares: Tensor, method: str) -> Tensor:
    """Return the quantiles of what comes before nan in sorted rows; of nothing it is nan."""
    count = sum(cast(logical_not(isnan(rows)), dtypes.int64), -1, keepdims=True)
    last = cast(maximum(subtract(count, 1), 0), dtypes.float64)
    places = multiply(last, reshape(cast(shares, dtypes.float64), (-1,)))
    low, high, part = _between(places, method, floor, ceil, round)
    below, above = (take_along_axis(rows, cast(p, dtypes.int64), axis=-1) for p in (low, high))
    return _interpolated(below, above, cast(as_tensor(part), rows.dtype))


def _between(places: Any, method: str, down: Any, up: Any, near: Any) -> tuple[Any, Any, Any]:
    """Return the positions on both sides of `places`, and how far between them the result is."""
    low, high = down(places), up(places)
    if method == "linear":
        return low, high, places - low
    if method == "midpoint":
        return low, high, (high - low) * 0.5
    chosen = {"lower": low, "higher": high}.get(method)
    chosen = near(places) if chosen is None else chosen
    return chosen, chosen, chosen - chosen


def _interpolated(below: Tensor, above: Tensor, part: Tensor) -> Tensor:
    """Return what lies between two elements: exact at both, and where they are equal.

    The gradient goes to both, in shares, also where they are equal.
    """
    whole = subtract(above, below)
    is_finite = isfinite(whole)
    step = where(is_finite, whole, 0)
    # Of what is infinite, or of two that are so far apart.
    far = add(multiply(below, subtract(1, part)), multiply(above, part))
    upwards = add(below, multiply(step, part))
    downwards = subtract(above, multiply(step, subtract(1, part)))
    is_near = broadcast_to(part < 0.5, below.shape)
    between = where(is_finite, where(is_near, upwards, downwards), far)
    return where(broadcast_to(equal(part, 0), below.shape), below, between)
