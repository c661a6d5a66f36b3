"""Calls of NumPy's functions, by their names, which arrays and tensors both take.

What stands here builds graph for tensors. Together with what `numpy_refused` has they are all
functions of NumPy's that ask their operands (`__array_function__`).
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


def _holes(x: Any) -> Any:
    """Return `x` with nan in some places."""
    return np.where(np.abs(x) < 0.3, np.float32(np.nan), x)


# They take a tensor of A, one of B, one of integers and one of bools.
FUNCTIONS: dict[str, list[Call]] = {
    "all": [lambda x, y, i, t: np.all(t, 0), lambda x, y, i, t: np.all(x, 1, where=t)],
    "allclose": [lambda x, y, i, t: np.allclose(x, x + 1e-9, rtol=0, atol=1e-8)],
    "amax": [lambda x, y, i, t: np.amax(x, 1)],
    "amin": [lambda x, y, i, t: np.amin(x, axis=0, keepdims=True)],
    "angle": [lambda x, y, i, t: np.angle(x), lambda x, y, i, t: np.angle(x, deg=True)],
    "any": [lambda x, y, i, t: np.any(x), lambda x, y, i, t: np.any(x > 0, axis=1, where=t)],
    "append": [
        lambda x, y, i, t: np.append(x, y, axis=1),
        lambda x, y, i, t: np.append(x, [1.0, 2.0]),
    ],
    "apply_over_axes": [lambda x, y, i, t: np.apply_over_axes(np.sum, x, [0, -1])],
    "argmax": [lambda x, y, i, t: np.argmax(-x, axis=1, keepdims=True)],
    "argmin": [lambda x, y, i, t: np.argmin(y, 0, out=None)],
    "argpartition": [lambda x, y, i, t: np.argpartition(-x, 2, axis=1)[:, 2]],
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
    "choose": [
        lambda x, y, i, t: np.choose(i % 2, [x, y]),
        lambda x, y, i, t: np.choose(i, [x, y[0], 7.0], mode="clip"),
        lambda x, y, i, t: np.choose(i, np.stack([x, y]), mode="wrap"),
    ],
    "clip": [
        lambda x, y, i, t: np.clip(x, 0, 0.5),
        lambda x, y, i, t: np.clip(x, None, y, out=None),
        lambda x, y, i, t: np.clip(x, min=-0.5),
    ],
    "column_stack": [lambda x, y, i, t: np.column_stack((x[0], y[0], x.T))],
    "compress": [
        lambda x, y, i, t: np.compress([True, False, True], x, axis=0),
        lambda x, y, i, t: np.compress([False, True, False, True], x),
    ],
    "concat": [lambda x, y, i, t: np.concat([x, y], axis=None)],
    "concatenate": [lambda x, y, i, t: np.concatenate((x, y), 1, dtype="float64")],
    "convolve": [
        *(
            lambda x, y, i, t, mode=mode, n=n: np.convolve(x[0], np.ravel(y)[:n], mode)
            for mode in ("full", "same", "valid")
            for n in (1, 2, 3, 4, 7)
        ),
    ],
    "copy": [lambda x, y, i, t: np.copy(x, order="K")],
    "corrcoef": [lambda x, y, i, t: np.corrcoef(x * y, y[:1] * x[:1])],
    "correlate": [
        *(
            lambda x, y, i, t, mode=mode, n=n: np.correlate(x[0], np.ravel(y)[:n], mode)
            for mode in ("full", "same", "valid")
            for n in (1, 2, 3, 4, 7)
        ),
        lambda x, y, i, t: np.correlate(i[0], i[1][:2]),
    ],
    "count_nonzero": [lambda x, y, i, t: np.count_nonzero(i, axis=1, keepdims=True)],
    "cov": [
        lambda x, y, i, t: np.cov(x),
        lambda x, y, i, t: np.cov(x[0]),
        lambda x, y, i, t: np.cov(x, y, rowvar=False, bias=True),
        lambda x, y, i, t: np.cov(x, fweights=[1, 2, 3, 1], aweights=[0.5, 1.0, 0.25, 2.0]),
        lambda x, y, i, t: np.cov(x, aweights=y[0], ddof=0),
    ],
    "cross": [
        lambda x, y, i, t: np.cross(x, y, axis=0),
        lambda x, y, i, t: np.cross(x[:, :3], y[0, :3]),
        lambda x, y, i, t: (
            np.cross(x, y[:, 1:], axisa=0, axisb=1, axisc=0)
            if x.shape[1] == 3
            else np.cross(x[:, :3], y.T[:3], axisa=1, axisb=1, axisc=0)
        ),
    ],
    "cumprod": [lambda x, y, i, t: np.cumprod(x, axis=1)],
    "cumsum": [lambda x, y, i, t: np.cumsum(x), lambda x, y, i, t: np.cumsum(i, 0, out=None)],
    "cumulative_prod": [lambda x, y, i, t: np.cumulative_prod(x[0], include_initial=True)],
    "cumulative_sum": [lambda x, y, i, t: np.cumulative_sum(x, axis=1)],
    "delete": [lambda x, y, i, t: np.delete(x, [0, 2], axis=1), lambda x, y, i, t: np.delete(x, 5)],
    "diag": [lambda x, y, i, t: np.diag(x, 1), lambda x, y, i, t: np.diag(x[0], k=-1)],
    "diag_indices_from": [lambda x, y, i, t: np.diag_indices_from(x[:, :3])],
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
    "extract": [lambda x, y, i, t: np.extract([1, 0, 0, 1], x)],
    "fix": [lambda x, y, i, t: np.fix(x * 4)],
    "flip": [lambda x, y, i, t: np.flip(x), lambda x, y, i, t: np.flip(m=x, axis=1)],
    "fliplr": [lambda x, y, i, t: np.fliplr(x)],
    "flipud": [lambda x, y, i, t: np.flipud(x)],
    "full_like": [
        lambda x, y, i, t: np.full_like(x, 2),
        lambda x, y, i, t: np.full_like(x, 2, dtype=int, shape=(2,)),
    ],
    "gradient": [
        lambda x, y, i, t: np.gradient(x * x),
        lambda x, y, i, t: np.gradient(x * x, 0.5, axis=1, edge_order=2),
        lambda x, y, i, t: np.gradient(x * x, 0.5, np.cumsum(y[0]), edge_order=2),
        lambda x, y, i, t: np.gradient(y[0] ** 3, [0.0, 0.25, 1.0, 3.0]),
        lambda x, y, i, t: np.gradient(y[0, :2] ** 3),
        lambda x, y, i, t: np.gradient(i),
    ],
    "histogram": [
        lambda x, y, i, t: np.histogram(x, 4, (-1, 1))[0],
    ],
    "histogram_bin_edges": [lambda x, y, i, t: np.histogram_bin_edges(x, 4)],
    "hsplit": [lambda x, y, i, t: np.hsplit(x, 2)[1]],
    "hstack": [lambda x, y, i, t: np.hstack([x, y]), lambda x, y, i, t: np.hstack((x[0], y[0]))],
    "i0": [lambda x, y, i, t: np.i0(x * 3)],
    "imag": [lambda x, y, i, t: np.imag(x)],
    "inner": [lambda x, y, i, t: np.inner(x, y)],
    "insert": [
        lambda x, y, i, t: np.insert(x, 1, 5.0),
        lambda x, y, i, t: np.insert(x, [0, 3, 3], y[:, :3], axis=1),
        lambda x, y, i, t: np.insert(x, 2, y[:, :2].T, axis=1),
        lambda x, y, i, t: np.insert(x, slice(0, 4, 2), 1.5, axis=1),
        lambda x, y, i, t: np.insert(x, [-1], y[:, :2], axis=1),
    ],
    "interp": [
        lambda x, y, i, t: np.interp(x * 3, y[0], x[1]),
        lambda x, y, i, t: np.interp(x * 3, y[0], x[1], left=-9.0, right=9.0),
        lambda x, y, i, t: np.interp(x * 9, [2.0, -0.5, 1.0], [1.0, 2.0, 5.0], period=3.0),
        lambda x, y, i, t: np.interp(0.75, [0.5], [7.0], left=1.0),
        lambda x, y, i, t: np.interp(_holes(x), [0.0, 0.5, 0.5, 1.0], [0.0, 1.0, 2.0, 3.0]),
    ],
    "isclose": [lambda x, y, i, t: np.isclose(_holes(x), _holes(x), equal_nan=True)],
    "iscomplex": [lambda x, y, i, t: np.iscomplex(x)],
    "iscomplexobj": [lambda x, y, i, t: np.iscomplexobj(x)],
    "isin": [
        lambda x, y, i, t: np.isin(i, [1, 5, -4]),
        lambda x, y, i, t: np.isin(x, x[1], invert=True),
    ],
    "isneginf": [lambda x, y, i, t: np.isneginf(x / 0)],
    "isposinf": [lambda x, y, i, t: np.isposinf(x / 0)],
    "isreal": [lambda x, y, i, t: np.isreal(x)],
    "isrealobj": [lambda x, y, i, t: np.isrealobj(x)],
    "ix_": [lambda x, y, i, t: x[np.ix_([0, 2], i[1] - i[1, 0])]],
    "kron": [lambda x, y, i, t: np.kron(x, y[:2]), lambda x, y, i, t: np.kron(i[0], i)],
    "lexsort": [
        lambda x, y, i, t: np.lexsort((x[0], y[0])),
    ],
    "linspace": [
        lambda x, y, i, t: np.linspace(x, y, 5),
        lambda x, y, i, t: np.linspace(x, 1.0, 4, endpoint=False, axis=-1),
        lambda x, y, i, t: np.linspace(x[0], y, 3, retstep=True),
        lambda x, y, i, t: np.linspace(x[0, 0], 2, 1),
    ],
    "logspace": [
        lambda x, y, i, t: np.logspace(x, y, 3, base=2),
        lambda x, y, i, t: np.logspace(x[0, 0], 1, 3, axis=0),
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
    "nanargmax": [
        lambda x, y, i, t: np.nanargmax(_holes(x), axis=0),
        lambda x, y, i, t: np.nanargmax(i),
    ],
    "nanargmin": [lambda x, y, i, t: np.nanargmin(_holes(x), axis=0, keepdims=True)],
    "nancumprod": [lambda x, y, i, t: np.nancumprod(_holes(x), axis=1)],
    "nancumsum": [lambda x, y, i, t: np.nancumsum(_holes(x))],
    "nanmax": [lambda x, y, i, t: np.nanmax(_holes(x), axis=1)],
    "nanmean": [lambda x, y, i, t: np.nanmean(_holes(x), 0)],
    "nanmedian": [
        lambda x, y, i, t: np.nanmedian(_holes(x), axis=1, keepdims=True),
        lambda x, y, i, t: np.nanmedian(np.where(t[0], np.nan, x)[:, ::-1], axis=0),
    ],
    "nanmin": [lambda x, y, i, t: np.nanmin(_holes(x))],
    "nanpercentile": [lambda x, y, i, t: np.nanpercentile(_holes(x), [30, 100], axis=(0, 1))],
    "nanprod": [lambda x, y, i, t: np.nanprod(_holes(x), axis=0)],
    "nanquantile": [
        *(
            lambda x, y, i, t, m=m: np.nanquantile(_holes(x), [0.1, 0.62], axis=1, method=m)
            for m in ("linear", "lower", "higher", "midpoint", "nearest")
        ),
    ],
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
    "partition": [lambda x, y, i, t: np.partition(-x, 2, axis=1)[:, 2]],
    "percentile": [
        lambda x, y, i, t: np.percentile(x, 30, axis=0),
    ],
    "permute_dims": [lambda x, y, i, t: np.permute_dims(x, (1, 0))],
    "piecewise": [
        lambda x, y, i, t: np.piecewise(x, [x < -0.5, x > 0.5], [np.negative, np.exp, 2.0]),
        lambda x, y, i, t: np.piecewise(x[0], x[0] > -0.5, [lambda v, n: v + n], 3),
    ],
    "polyadd": [lambda x, y, i, t: np.polyadd(x[0], [1.0, 2.0])],
    "polyder": [lambda x, y, i, t: np.polyder(x[0]), lambda x, y, i, t: np.polyder(x[0], 2)],
    "polysub": [lambda x, y, i, t: np.polysub(x[0, :2], y[0])],
    "polyval": [lambda x, y, i, t: np.polyval(x[0], y), lambda x, y, i, t: np.polyval([1, 2], i)],
    "prod": [lambda x, y, i, t: np.prod(y, 1, initial=2), lambda x, y, i, t: np.prod(i, where=t)],
    "ptp": [lambda x, y, i, t: np.ptp(x, axis=1, keepdims=True)],
    "quantile": [
        lambda x, y, i, t: np.quantile(x, [0.2, 0.5], method="lower"),
    ],
    "ravel": [
        lambda x, y, i, t: np.ravel(x, order="C"),
        lambda x, y, i, t: np.ravel(x, order="F"),
    ],
    "ravel_multi_index": [
        lambda x, y, i, t: np.ravel_multi_index((i, i), (3, 5), mode=("wrap", "clip")),
        lambda x, y, i, t: np.ravel_multi_index((i, i), (3, 5), mode="wrap", order="F"),
    ],
    "real": [lambda x, y, i, t: np.real(x)],
    "real_if_close": [lambda x, y, i, t: np.real_if_close(x)],
    "repeat": [
        lambda x, y, i, t: np.repeat(x, 2, axis=0),
        lambda x, y, i, t: np.repeat(x, [0, 2, 1, 3], axis=1),
    ],
    "reshape": [
        lambda x, y, i, t: np.reshape(x, (4, -1), copy=None),
        lambda x, y, i, t: np.reshape(x, (2, -1, 3), order="F"),
        lambda x, y, i, t: np.reshape(x, -1, "F"),
    ],
    "resize": [lambda x, y, i, t: np.resize(x, (5, 4)), lambda x, y, i, t: np.resize(x, 3)],
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
    "tril_indices_from": [lambda x, y, i, t: np.tril_indices_from(x, -1)],
    "triu": [lambda x, y, i, t: np.triu(x, k=1)],
    "triu_indices_from": [lambda x, y, i, t: np.triu_indices_from(x)],
    "unravel_index": [
        lambda x, y, i, t: np.unravel_index(i + 4, (3, 2, 5)),
        lambda x, y, i, t: np.unravel_index(i + 4, (3, 2, 5), order="F"),
    ],
    "unstack": [lambda x, y, i, t: np.unstack(x, axis=1)[2]],
    "unwrap": [
        lambda x, y, i, t: np.unwrap(x * 20, axis=0),
        lambda x, y, i, t: np.unwrap(x * 20, discont=4.0, period=5.0),
    ],
    "vander": [
        lambda x, y, i, t: np.vander(x[0]),
        lambda x, y, i, t: np.vander(i[0], 3, increasing=True),
    ],
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
