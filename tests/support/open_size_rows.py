"""Ops along an axis of unknown size: the rows of `tests/fuzz/test_open_sizes.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

import symgrad as sg
from symgrad.graph.node import Tensor

Build = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class OpenRow:
    """An op of a float64 tensor of `shape`, in which "n" is the size that is not known."""

    name: str
    shape: tuple[int | str, ...]
    build: Build
    is_quick: bool = False


# Where an axis without elements needs something of its own: run for size 0 in the quick tests.
_QUICK = {
    *("median", "nanmedian", "nanquantile", "quantile", "layer_norm", "standardize", "histogram"),
    *("histogram_edges", "digitize", "instance_norm", "group_norm", "batch_norm"),
    *("split", "set", "fft", "fftfreq", "conv", "adaptive_avg_pool", "unique_values", "interp"),
    *("conv_transpose", "pad", "take", "take_along_axis", "getitem"),
    *("expm", "sqrtm", "lu", "matrix_rank", "response_norm"),
}
_ALONG = (
    *("sum", "prod", "mean", "max", "min", "any", "all", "std", "var", "ptp", "median", "nanmax"),
    *("nanmean", "nanmedian", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "average"),
    *("argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "flip"),
    *("count_nonzero", "nancumsum", "nancumprod"),
)
_OF_NN = ("softmax", "log_softmax", "normalize", "standardize", "layer_norm", "rms_norm")
_PLACES = {"vector": (("n",), 0), "rows": (("n", 3), 0), "columns": ((2, "n"), 1)}


def _along(axis: int) -> Iterator[tuple[str, Build]]:
    for name in _ALONG:
        yield name, partial(getattr(sg, name), axis=axis)
    for name in _OF_NN:
        yield name, partial(getattr(sg.nn, name), axis=axis)
    for name in ("quantile", "nanquantile"):
        yield name, _quantiles(getattr(sg, name), axis)
    yield "sort", lambda x: sg.sort(x, axis=axis)
    yield "argsort", lambda x: sg.argsort(x, axis=axis)
    yield "diff", lambda x: sg.diff(x, axis=axis)
    yield "initial", lambda x: sg.cumulative_sum(x, axis=axis, include_initial=True)
    yield "roll", lambda x: sg.roll(x, 1, axis=axis)
    yield "repeat", lambda x: sg.repeat(x, 2, axis=axis)
    yield "concat", lambda x: sg.concat([x, 2 * x], axis=axis)
    yield "vector_norm", lambda x: sg.linalg.vector_norm(x, axis=axis)
    yield "logsumexp", lambda x: sg.nn.logsumexp(x, axis=axis)
    yield "top_k", lambda x: sg.top_k(x, 1, axis=axis)[0]
    yield "cosine", lambda x: sg.nn.cosine_similarity(x, x * x, axis=axis)
    yield "associative_scan", lambda x: sg.associative_scan(lambda a, b: a * b, x, axis=axis)


def _quantiles(of: Callable[..., Tensor], axis: int) -> Build:
    return lambda x: of(x, [0.0, 0.3], axis=axis)


def _batch_norm(x: Tensor) -> Tensor:
    return sg.nn.batch_norm(x, np.zeros(2), np.ones(2), training=True)[0]


_IMAGE = (2, "n", 2)
_OTHERS: tuple[tuple[str, tuple[int | str, ...], Build], ...] = (
    ("histogram", ("n",), lambda x: sg.histogram(x, 2)[0]),
    ("histogram", ("n", 2), lambda x: sg.histogram(x, 3, density=True)[1]),
    ("histogram_edges", ("n",), lambda x: sg.histogram(sg.constant([0.1]), sg.sort(x))[0]),
    ("digitize", ("n",), lambda x: sg.digitize([0.0, 1.0], sg.sort(x))),
    ("searchsorted", ("n",), lambda x: sg.searchsorted(sg.sort(x), [0.0, 1.0])),
    ("isin", ("n",), lambda x: sg.isin([0.0, 1.0], x)),
    ("instance_norm", _IMAGE, lambda x: sg.nn.instance_norm(x)),
    ("group_norm", _IMAGE, lambda x: sg.nn.group_norm(x, 2)),
    ("batch_norm", ("n", 3, 2), _batch_norm),
    ("split", ("n",), lambda x: sg.split(x, 2)[1]),
    ("getitem", ("n", 3), lambda x: x[1]),
    ("getitem", (2, "n"), lambda x: x[0, -2]),
    ("set", ("n", 3), lambda x: x.at[1].set(2.0)),
    ("add", ("n", 3), lambda x: x.at[-2].add(x[0])),
    ("fft", ("n", 3), lambda x: sg.real(sg.fft.fft(x, axis=0))),
    ("fftfreq", ("n",), lambda x: sg.fft.fftfreq(x.shape[0])),
    ("conv", _IMAGE, lambda x: sg.nn.conv1d(x, np.ones((2, 2, 3)), padding="SAME")),
    ("conv", _IMAGE, lambda x: sg.nn.conv1d(x, np.ones((3, 2, 1)))),
    ("conv_transpose", _IMAGE, lambda x: sg.nn.conv_transpose(x, np.ones((2, 2, 2)), padding=1)),
    ("adaptive_avg_pool", _IMAGE, lambda x: sg.nn.adaptive_avg_pool(x, 2)),
    ("unique_values", ("n",), lambda x: sg.unique_values(x, size=3)),
    ("interp", ("n",), lambda x: sg.interp([0.0, 0.5], sg.sort(x), 2 * x)),
    ("pad", ("n", 3), lambda x: sg.pad(x, [(2, 1), (0, 0)], mode="reflect")),
    ("matmul", ("n", 3), lambda x: x @ x.T),
    ("products", ("n", 3), lambda x: x.T @ x),
    ("take", (2, "n"), lambda x: sg.take(x, sg.constant([1, 0]) * 1, axis=1)),
    ("take_along_axis", (1, "n"), lambda x: sg.take_along_axis(x, sg.constant([[1, 0]]), axis=1)),
    ("trace", ("n", "n"), lambda x: sg.trace(x)),
    ("tril", ("n", 3), lambda x: sg.tril(x)),
    ("reshape", ("n", 3), lambda x: sg.reshape(x, (-1,))),
    ("scan", ("n", 3), lambda x: sg.scan(lambda c, t: (c + t, c * t), x[:0].sum(0), x)[1]),
    ("map", ("n", 3), lambda x: sg.map(lambda t: t * t, x)),
    ("vmap", ("n", 3), lambda x: sg.vmap(sg.median, in_axes=1)(x)),
    ("segment_max", ("n", 3), lambda x: sg.segment_max(x, sg.arange(x.shape[0]) // 2, 3)),
    ("attention", ("n", 4), lambda x: sg.nn.scaled_dot_product_attention(x, 2 * x, x + 1)),
    ("max_pool", _IMAGE, lambda x: sg.nn.max_pool(x, 2)),
    ("cholesky", ("n", "n"), lambda x: sg.linalg.cholesky(x @ x.T + 3 * sg.eye(x.shape[0]))),
    ("expm", ("n", "n"), lambda x: sg.linalg.expm(x)),
    ("sqrtm", (2, "n", "n"), lambda x: sg.linalg.sqrtm(x @ x.mT + sg.eye(x.shape[-1]))),
    ("lu", ("n", "n"), lambda x: sg.linalg.lu(x)[2]),
    ("matrix_rank", ("n", "n"), lambda x: sg.linalg.matrix_rank(x)),
    ("response_norm", (2, "n"), lambda x: sg.nn.local_response_norm(x, 3)),
    ("losses", ("n", 3), lambda x: sg.nn.cross_entropy(x, sg.arange(x.shape[0]) % 3)),
    ("pdist", ("n", 3), lambda x: sg.nn.pdist(x)),
)


def _rows() -> Iterator[OpenRow]:
    for place, (shape, axis) in _PLACES.items():
        for name, build in _along(axis):
            yield OpenRow(f"{name} of {place}", shape, build, name in _QUICK)
    for name, shape, build in _OTHERS:
        sizes = ", ".join(map(str, shape))
        yield OpenRow(f"{name} of [{sizes}]", shape, build, name in _QUICK)


ROWS: tuple[OpenRow, ...] = tuple(_rows())
