"""Calls of NumPy's functions and ufuncs, by their names, which arrays and tensors both take.

What stands here builds graph for tensors; what stands in `REFUSED` is refused for them. Together
they are all functions of NumPy's that ask its operands (`__array_function__`) and all its ufuncs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

A = np.linspace(-0.9, 0.9, 12, dtype=np.float32).reshape(3, 4)
B = np.linspace(0.5, 2.0, 12, dtype=np.float32).reshape(3, 4)
I = np.arange(12, dtype=np.int64).reshape(3, 4) - 4  # noqa: E741 - integers
T = (np.arange(12) % 3 == 1).reshape(3, 4)  # truth values

Call = Callable[..., Any]


def _names(text: str) -> set[str]:
    return set(text.split())


def _holes(x: Any) -> Any:
    """Return `x` with nan in some places."""
    return np.where(np.abs(x) < 0.3, np.float32(np.nan), x)


# They take a tensor of A, one of B, one of integers and one of bools.
FUNCTIONS: dict[str, list[Call]] = {
    "all": [lambda x, y, i, t: np.all(t, 0), lambda x, y, i, t: np.all(x, 1, where=t)],
    "allclose": [lambda x, y, i, t: np.allclose(x, x + 1e-9, rtol=0, atol=1e-8)],
    "amax": [lambda x, y, i, t: np.amax(x, 1)],
    "amin": [lambda x, y, i, t: np.amin(x, axis=0, keepdims=True)],
    "any": [lambda x, y, i, t: np.any(x), lambda x, y, i, t: np.any(x > 0, axis=1, where=t)],
    "append": [
        lambda x, y, i, t: np.append(x, y, axis=1),
        lambda x, y, i, t: np.append(x, [1.0, 2.0]),
    ],
    "argmax": [lambda x, y, i, t: np.argmax(-x, axis=1, keepdims=True)],
    "argmin": [lambda x, y, i, t: np.argmin(y, 0, out=None)],
    "argsort": [
        lambda x, y, i, t: np.argsort(i[::-1], axis=1),
    ],
    "around": [lambda x, y, i, t: np.around(x, 1)],
    "array_equal": [
        lambda x, y, i, t: np.array_equal(x, y),
        lambda x, y, i, t: np.array_equal(x, x),
    ],
    "array_equiv": [lambda x, y, i, t: np.array_equiv(x, x[:1])],
    "array_split": [
        lambda x, y, i, t: np.array_split(x, 3, axis=1)[0],
        lambda x, y, i, t: np.array_split(x, [1, 7], axis=1)[1],
    ],
    "astype": [lambda x, y, i, t: np.astype(x, np.int32, copy=False)],
    "atleast_1d": [lambda x, y, i, t: np.atleast_1d(x[0, 0])],
    "atleast_2d": [lambda x, y, i, t: np.atleast_2d(x[0], y)[0]],
    "atleast_3d": [lambda x, y, i, t: np.atleast_3d(x), lambda x, y, i, t: np.atleast_3d(x[0])],
    "average": [
        lambda x, y, i, t: np.average(x, axis=1, weights=y),
        lambda x, y, i, t: np.average(x, axis=1, weights=y[0]),
        lambda x, y, i, t: np.average(x, 0, returned=True)[1],
    ],
    "block": [
        lambda x, y, i, t: np.block([[x, y], [y, x]]),
        lambda x, y, i, t: np.block([x[0], 1.0]),
    ],
    "broadcast_arrays": [lambda x, y, i, t: np.broadcast_arrays(x[:1], y)[0]],
    "broadcast_to": [lambda x, y, i, t: np.broadcast_to(x, (2, 3, 4))],
    "can_cast": [lambda x, y, i, t: np.can_cast(x, np.float64)],
    "clip": [
        lambda x, y, i, t: np.clip(x, 0, 0.5),
        lambda x, y, i, t: np.clip(x, None, y, out=None),
        lambda x, y, i, t: np.clip(x, min=-0.5),
    ],
    "column_stack": [lambda x, y, i, t: np.column_stack((x[0], y[0], x.T))],
    "concat": [lambda x, y, i, t: np.concat([x, y], axis=None)],
    "concatenate": [lambda x, y, i, t: np.concatenate((x, y), 1, dtype="float64")],
    "copy": [lambda x, y, i, t: np.copy(x, order="K")],
    "count_nonzero": [lambda x, y, i, t: np.count_nonzero(i, axis=1, keepdims=True)],
    "cumprod": [lambda x, y, i, t: np.cumprod(x, axis=1)],
    "cumsum": [lambda x, y, i, t: np.cumsum(x), lambda x, y, i, t: np.cumsum(i, 0, out=None)],
    "cumulative_prod": [lambda x, y, i, t: np.cumulative_prod(x[0], include_initial=True)],
    "cumulative_sum": [lambda x, y, i, t: np.cumulative_sum(x, axis=1)],
    "delete": [lambda x, y, i, t: np.delete(x, [0, 2], axis=1), lambda x, y, i, t: np.delete(x, 5)],
    "diag": [lambda x, y, i, t: np.diag(x, 1), lambda x, y, i, t: np.diag(x[0], k=-1)],
    "diagflat": [lambda x, y, i, t: np.diagflat(x[:2], 1)],
    "diagonal": [lambda x, y, i, t: np.diagonal(np.stack([x, y]), 1)],
    "diff": [
        lambda x, y, i, t: np.diff(x, 2, 1),
        lambda x, y, i, t: np.diff(i, prepend=0),
        lambda x, y, i, t: np.diff(t, axis=0),
    ],
    "digitize": [
        lambda x, y, i, t: np.digitize(x, [-0.5, 0.0, 0.5], right=True),
    ],
    "dot": [lambda x, y, i, t: np.dot(x, y.T)],
    "dsplit": [lambda x, y, i, t: np.dsplit(np.atleast_3d(x), 1)[0]],
    "dstack": [lambda x, y, i, t: np.dstack([x, y])],
    "ediff1d": [lambda x, y, i, t: np.ediff1d(x, to_begin=np.float32(1))],
    "einsum": [lambda x, y, i, t: np.einsum("ij,kj->ik", x, y, optimize=True)],
    "empty_like": [lambda x, y, i, t: np.empty_like(x).shape],
    "expand_dims": [lambda x, y, i, t: np.expand_dims(x, (0, 3))],
    "flip": [lambda x, y, i, t: np.flip(x), lambda x, y, i, t: np.flip(m=x, axis=1)],
    "fliplr": [lambda x, y, i, t: np.fliplr(x)],
    "flipud": [lambda x, y, i, t: np.flipud(x)],
    "full_like": [
        lambda x, y, i, t: np.full_like(x, 2),
        lambda x, y, i, t: np.full_like(x, 2, dtype=int, shape=(2,)),
    ],
    "histogram": [
        lambda x, y, i, t: np.histogram(x, 4, (-1, 1))[0],
    ],
    "hsplit": [lambda x, y, i, t: np.hsplit(x, 2)[1]],
    "hstack": [lambda x, y, i, t: np.hstack([x, y]), lambda x, y, i, t: np.hstack((x[0], y[0]))],
    "imag": [lambda x, y, i, t: np.imag(x)],
    "inner": [lambda x, y, i, t: np.inner(x, y)],
    "iscomplex": [lambda x, y, i, t: np.iscomplex(x)],
    "iscomplexobj": [lambda x, y, i, t: np.iscomplexobj(x)],
    "isclose": [lambda x, y, i, t: np.isclose(_holes(x), _holes(x), equal_nan=True)],
    "isin": [
        lambda x, y, i, t: np.isin(i, [1, 5, -4]),
        lambda x, y, i, t: np.isin(x, x[1], invert=True),
    ],
    "isneginf": [lambda x, y, i, t: np.isneginf(x / 0)],
    "isposinf": [lambda x, y, i, t: np.isposinf(x / 0)],
    "isreal": [lambda x, y, i, t: np.isreal(x)],
    "isrealobj": [lambda x, y, i, t: np.isrealobj(x)],
    "lexsort": [
        lambda x, y, i, t: np.lexsort((x[0], y[0])),
    ],
    "matrix_transpose": [lambda x, y, i, t: np.matrix_transpose(x)],
    "max": [
        lambda x, y, i, t: np.max(x, 1, None, True),
        lambda x, y, i, t: np.max(x, axis=0, initial=0.5, where=t),
        lambda x, y, i, t: np.max(x[:0], axis=0, initial=1.0),
    ],
    "mean": [
        lambda x, y, i, t: np.mean(x, axis=0, dtype=np.float64),
        lambda x, y, i, t: np.mean(x, where=t),
    ],
    "median": [
        lambda x, y, i, t: np.median(x, axis=1, keepdims=True),
    ],
    "meshgrid": [lambda x, y, i, t: np.meshgrid(x[0], y[0], indexing="ij")[1]],
    "min": [lambda x, y, i, t: np.min(x, initial=-2), lambda x, y, i, t: np.min(i, (0, 1))],
    "moveaxis": [lambda x, y, i, t: np.moveaxis(x, 0, 1)],
    "nan_to_num": [lambda x, y, i, t: np.nan_to_num(_holes(x), nan=2.0)],
    "nanmax": [lambda x, y, i, t: np.nanmax(_holes(x), axis=1)],
    "nanmean": [lambda x, y, i, t: np.nanmean(_holes(x), 0)],
    "nanmin": [lambda x, y, i, t: np.nanmin(_holes(x))],
    "nanprod": [lambda x, y, i, t: np.nanprod(_holes(x), axis=0)],
    "nanstd": [lambda x, y, i, t: np.nanstd(_holes(x), axis=0, ddof=1)],
    "nansum": [lambda x, y, i, t: np.nansum(_holes(x), axis=1, keepdims=True)],
    "nanvar": [lambda x, y, i, t: np.nanvar(_holes(x))],
    "ndim": [lambda x, y, i, t: np.ndim(x)],
    "ones_like": [lambda x, y, i, t: np.ones_like(x, dtype="int8")],
    "outer": [lambda x, y, i, t: np.outer(x, y)],
    "pad": [
        lambda x, y, i, t: np.pad(x, ((1, 0), (0, 2)), constant_values=((1, 2), (3, 4))),
        *(
            lambda x, y, i, t, mode=mode: np.pad(x, ((5, 1), (0, 9)), mode)
            for mode in ("edge", "reflect", "symmetric", "wrap")
        ),
    ],
    "percentile": [
        lambda x, y, i, t: np.percentile(x, 30, axis=0),
    ],
    "permute_dims": [lambda x, y, i, t: np.permute_dims(x, (1, 0))],
    "prod": [lambda x, y, i, t: np.prod(y, 1, initial=2), lambda x, y, i, t: np.prod(i, where=t)],
    "ptp": [lambda x, y, i, t: np.ptp(x, axis=1, keepdims=True)],
    "quantile": [
        lambda x, y, i, t: np.quantile(x, [0.2, 0.5], method="lower"),
    ],
    "ravel": [lambda x, y, i, t: np.ravel(x, order="C")],
    "real": [lambda x, y, i, t: np.real(x)],
    "real_if_close": [lambda x, y, i, t: np.real_if_close(x)],
    "repeat": [
        lambda x, y, i, t: np.repeat(x, 2, axis=0),
        lambda x, y, i, t: np.repeat(x, [0, 2, 1, 3], axis=1),
    ],
    "reshape": [lambda x, y, i, t: np.reshape(x, (4, -1), copy=None)],
    "result_type": [lambda x, y, i, t: np.dtype(np.result_type(x, np.float64))],
    "roll": [
        lambda x, y, i, t: np.roll(x, 1, axis=1),
        lambda x, y, i, t: np.roll(x, (1, 2), (0, 1)),
    ],
    "rollaxis": [lambda x, y, i, t: np.rollaxis(np.stack([x, y]), 2)],
    "rot90": [lambda x, y, i, t, k=k: np.rot90(x, k) for k in range(-1, 4)],
    "round": [
        lambda x, y, i, t: np.round(x),
        lambda x, y, i, t: np.round(x * 100, -1),
        lambda x, y, i, t: np.round(i, 2),
    ],
    "searchsorted": [
        lambda x, y, i, t: np.searchsorted(x[0], y[0], side="right"),
    ],
    "select": [lambda x, y, i, t: np.select([x > 0.5, t], [x, y], default=-1.0)],
    "shape": [lambda x, y, i, t: np.shape(x)],
    "sinc": [lambda x, y, i, t: np.sinc(x)],
    "size": [lambda x, y, i, t: np.size(x), lambda x, y, i, t: np.size(x, 1)],
    "sort": [
        lambda x, y, i, t: np.sort(-x, axis=0, kind="stable"),
        lambda x, y, i, t: np.sort(-x, axis=None),
    ],
    "split": [lambda x, y, i, t: np.split(x, 2, axis=1)[0], lambda x, y, i, t: np.split(x, [1])[1]],
    "squeeze": [lambda x, y, i, t: np.squeeze(x[:1])],
    "stack": [lambda x, y, i, t: np.stack((x, y), axis=-1)],
    "std": [
        lambda x, y, i, t: np.std(x, axis=0, ddof=1),
        lambda x, y, i, t: np.std(x, correction=1),
    ],
    "sum": [
        lambda x, y, i, t: np.sum(x, 0, None, None, True),
        lambda x, y, i, t: np.sum(x, where=t, initial=1.0),
        lambda x, y, i, t: np.sum(i, dtype=np.int32),
        lambda x, y, i, t: np.sum(a=x, axis=(0, 1)),
    ],
    "swapaxes": [lambda x, y, i, t: np.swapaxes(x, 0, 1)],
    "take": [
        lambda x, y, i, t: np.take(x, [2, 0], axis=1),
        lambda x, y, i, t: np.take(x, [[9, -9]], axis=1, mode="wrap"),
        lambda x, y, i, t: np.take(x, [99, -9], mode="clip"),
    ],
    "take_along_axis": [
        lambda x, y, i, t: np.take_along_axis(x, np.array([[1], [0], [2]]), axis=1)
    ],
    "tensordot": [lambda x, y, i, t: np.tensordot(x, y, axes=2)],
    "tile": [lambda x, y, i, t: np.tile(x, (2, 1, 2))],
    "trace": [lambda x, y, i, t: np.trace(np.stack([x, y]), 1, 1, 2)],
    "transpose": [lambda x, y, i, t: np.transpose(np.stack([x, y]), (1, 0, 2))],
    "trapezoid": [
        lambda x, y, i, t: np.trapezoid(x, axis=0),
        lambda x, y, i, t: np.trapezoid(x, y[:, 0], axis=0),
    ],
    "tril": [lambda x, y, i, t: np.tril(x, -1)],
    "triu": [lambda x, y, i, t: np.triu(x, k=1)],
    "unstack": [lambda x, y, i, t: np.unstack(x, axis=1)[2]],
    "var": [
        lambda x, y, i, t: np.var(x, axis=1, ddof=1, keepdims=True),
        lambda x, y, i, t: np.var(x, dtype=np.float64),
    ],
    "vdot": [lambda x, y, i, t: np.vdot(x, y)],
    "vsplit": [lambda x, y, i, t: np.vsplit(x, 3)[2]],
    "vstack": [lambda x, y, i, t: np.vstack([x, y[0]])],
    "where": [lambda x, y, i, t: np.where(x > 0, x, y), lambda x, y, i, t: np.where(i, 1.0, x)],
    "zeros_like": [lambda x, y, i, t: np.zeros_like(a=x, shape=(3,))],
}

# ---------------------------------------------------------------------------------------- ufuncs

_OF_FLOAT = (
    "absolute cbrt ceil cos cosh deg2rad exp exp2 expm1 fabs floor isfinite isinf isnan log1p "
    "negative positive rad2deg rint sign signbit sin sinh square tan tanh trunc arcsin arccos "
    "arctan arcsinh arctanh degrees radians conjugate modf"
)
_OF_POSITIVE = "log log10 log2 sqrt reciprocal arccosh"
_OF_FLOATS = (
    "add arctan2 copysign divide divmod equal float_power floor_divide fmax fmin fmod greater "
    "greater_equal heaviside hypot less less_equal logaddexp logaddexp2 maximum minimum multiply "
    "nextafter not_equal remainder subtract"
)
_OF_INTEGERS = "bitwise_and bitwise_or bitwise_xor floor_divide remainder add multiply maximum"
_OF_BOOLS = "logical_and logical_or logical_xor bitwise_and equal"


def _one(name: str) -> Call:
    return lambda x, y, i, t: getattr(np, name)(x)


def _positive(name: str) -> Call:
    return lambda x, y, i, t: getattr(np, name)(y + 1)


def _two(name: str) -> Call:
    return lambda x, y, i, t: getattr(np, name)(x, y)


UFUNCS: dict[str, list[Call]] = {}
for _group, _make in (
    (_OF_FLOAT, _one),
    (_OF_POSITIVE, _positive),
    (_OF_FLOATS, _two),
    (_OF_INTEGERS, lambda name: lambda x, y, i, t: getattr(np, name)(i, i[:1] * 2 + 11)),
    (_OF_BOOLS, lambda name: lambda x, y, i, t: getattr(np, name)(t, t[:1])),
):
    for _name in _group.split():
        UFUNCS.setdefault(_name, []).append(_make(_name))
for _name, _call in {
    "power": lambda x, y, i, t: np.power(y, x),
    "left_shift": lambda x, y, i, t: np.left_shift(3, i + 4),
    "right_shift": lambda x, y, i, t: np.right_shift(i, 1),
    "invert": lambda x, y, i, t: np.invert(i),
    "logical_not": lambda x, y, i, t: np.logical_not(t),
    "matmul": lambda x, y, i, t: np.matmul(x, y.T),
    "vecdot": lambda x, y, i, t: np.vecdot(x, y),
    "matvec": lambda x, y, i, t: np.matvec(x, y[0]),
    "vecmat": lambda x, y, i, t: np.vecmat(x[:, 0], y),
    "ldexp": lambda x, y, i, t: np.ldexp(x, i),
}.items():
    UFUNCS.setdefault(_name, []).append(_call)

# ------------------------------------------------------------------------------------- refusals

REFUSED = _names(
    """
angle apply_along_axis apply_over_axes argpartition argwhere array2string array_repr
array_str busday_count busday_offset choose common_type compress convolve copyto corrcoef
correlate cov cross datetime_as_string diag_indices_from einsum_path extract fill_diagonal
fix flatnonzero geomspace gradient histogram2d histogram_bin_edges histogramdd i0 insert
interp intersect1d is_busday ix_ kron linspace logspace may_share_memory min_scalar_type
nanargmax nanargmin nancumprod nancumsum nanmedian nanpercentile nanquantile packbits
partition piecewise place poly polyadd polyder polydiv polyfit polyint polymul polysub
polyval put put_along_axis putmask ravel_multi_index resize roots save savetxt savez
savez_compressed setdiff1d setxor1d shares_memory sort_complex tril_indices_from trim_zeros
triu_indices_from union1d unique unique_all unique_counts unique_inverse unique_values
unpackbits unravel_index unwrap vander
"""
)
# The shape of what these give depends on data, unless our functions are told a size.
NEED_A_SIZE = {
    "bincount": ("length=", lambda x, y, i, t: np.bincount(i[0])),
    "nonzero": ("size=", lambda x, y, i, t: np.nonzero(x)),
}
REFUSED_UFUNCS = _names(
    """
bitwise_count frexp gcd isnat lcm ldexp spacing
"""
)
