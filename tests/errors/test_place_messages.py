"""What layers that read at places refuse: the full text of each error, with the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import symgrad as sg
from tests.support.refusals import assert_refused

X = sg.placeholder((3, 4), name="x")
I = sg.placeholder((2, 5), "int64", name="i")  # noqa: E741 - indices
N = sg.placeholder((5,), "int64", name="n")
IMAGES = sg.placeholder((2, 5, 6, 4), name="images")
GRID = sg.placeholder((2, 3, 3, 2), name="grid")
UNKNOWN = sg.placeholder((2, "m", 3), name="unknown")
KEY = sg.random.key(0)
BAD: Any = "median"
NO_INT: Any = 1.0

_ROWS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: sg.nn.embedding_bag(I, X[0]), sg.ShapeError,
     "embedding_bag: table: f32[4] is no matrix"),
    (lambda: sg.nn.embedding_bag(X, X), sg.DTypeError,
     "embedding_bag: indices: f32[3, 4] are of no integer dtype"),
    (lambda: sg.nn.embedding_bag(1, X), sg.ShapeError,
     "embedding_bag: indices: i32[] have no axis for a bag"),
    (lambda: sg.nn.embedding_bag([[0, 3]], X), sg.IndexOutOfRangeError,
     "embedding_bag: index 3 is outside of axis 0 of size 3"),
    (lambda: sg.nn.embedding_bag(I, X, reduction=BAD), sg.GraphError,
     "embedding_bag: reduction 'median' is none of mean, sum, max"),
    (lambda: sg.nn.embedding_bag(I, X, weights=I), sg.GraphError,
     "embedding_bag: weights are for the reduction sum, it is mean"),
    (lambda: sg.nn.embedding_bag(N, X, reduction="sum", weights=X), sg.ShapeError,
     "embedding_bag: ranks differ: 2 of weights: f32[3, 4], 1 of indices: f32[5]"),
    (lambda: sg.nn.embedding_bag(I, X, padding_index=NO_INT), sg.DTypeError,
     "embedding_bag: padding_index is 1.0, not an int"),
    (lambda: sg.nn.embedding_bag(I, X, padding_index=-4), sg.IndexOutOfRangeError,
     "embedding_bag: index -4 is outside of axis 0 of size 3"),
    (lambda: sg.nn.embedding_bag(I, X, [0]), sg.ShapeError,
     "embedding_bag: offsets: i64[1] and indices: i64[2, 5] are not two vectors"),
    (lambda: sg.nn.embedding_bag(N, X, N * 0.5), sg.DTypeError,
     "embedding_bag: offsets: f32[5] are of no integer dtype"),
    (lambda: sg.nn.embedding_bag(N, X, [0, 3, 2]), sg.ShapeError,
     "embedding_bag: offsets [0, 3, 2] do not rise from 0"),
    (lambda: sg.nn.embedding_bag(N, X, [1, 2]), sg.ShapeError,
     "embedding_bag: offsets [1, 2] do not rise from 0"),
    (lambda: sg.nn.embedding_bag(N, X, [0, 6]), sg.ShapeError,
     "embedding_bag: offset 6 is beyond the 5 of indices: i64[5]"),
    (lambda: sg.nn.pdist(X[0]), sg.ShapeError,
     "pdist: x: f32[4] has no axes for rows and for features"),
    (lambda: sg.nn.pdist(X, 0), sg.GraphError, "pdist: p is 0, it must be positive"),
    (lambda: sg.nn.pdist(X, BAD), sg.DTypeError, "pdist: p is 'median', not a number"),
    (lambda: sg.nn.affine_grid(X, 3), sg.ShapeError,
     "affine_grid: theta: f32[3, 4] is not (n, space, space + 1) for 1 to 3 axes of space"),
    (lambda: sg.nn.affine_grid(sg.ones((1, 4, 5)), 3), sg.ShapeError,
     "affine_grid: theta: f32[1, 4, 5] is not (n, space, space + 1) for 1 to 3 axes of space"),
    (lambda: sg.nn.affine_grid(sg.ones((1, 2, 3)), (3, 0)), sg.ShapeError,
     "affine_grid: size (3, 0) is less than 1"),
    (lambda: sg.nn.affine_grid(sg.ones((1, 2, 3)), (3, 3, 1)), sg.ShapeError,
     "affine_grid: size (3, 3, 1) is no integer, nor one for each axis of space, 2"),
    (lambda: sg.nn.grid_sample(X, GRID), sg.ShapeError,
     "grid_sample: x: f32[3, 4] has not a batch, channels, and 1 to 3 axes of space"),
    (lambda: sg.nn.grid_sample(IMAGES, GRID[..., :1]), sg.ShapeError,
     "grid_sample: grid: f32[2, 3, 3, 1] is not (n, *out, 2), as x: f32[2, 5, 6, 4] has it"),
    (lambda: sg.nn.grid_sample(IMAGES, GRID[0]), sg.ShapeError,
     "grid_sample: grid: f32[3, 3, 2] is not (n, *out, 2), as x: f32[2, 5, 6, 4] has it"),
    (lambda: sg.nn.grid_sample(IMAGES, sg.ones((3, 1, 1, 2))), sg.ShapeError,
     "grid_sample: sizes differ: 3 in axis 0 of grid: f32[3, 1, 1, 2], "
     "2 in axis 0 of points of x: f32[2, 1, 1, 2]"),
    (lambda: sg.nn.grid_sample(IMAGES[:, :0], GRID), sg.ShapeError,
     "grid_sample: axis 1 of x: f32[2, 0, 6, 4] is empty"),
    (lambda: sg.nn.grid_sample(IMAGES, GRID, method=BAD), sg.GraphError,
     "grid_sample: method 'median' is none of nearest, linear, cubic"),
    (lambda: sg.nn.grid_sample(IMAGES, GRID, padding=BAD), sg.GraphError,
     "grid_sample: padding 'median' is none of zeros, border, reflection"),
    (lambda: sg.nn.grid_sample(IMAGES, GRID, layout=BAD), sg.GraphError,
     "grid_sample: layout is 'median', neither 'NHWC' nor 'NCHW'"),
    (lambda: sg.nn.grid_sample(IMAGES[:, None], GRID, method="cubic"), sg.ShapeError,
     "grid_sample: the method cubic is for 2 axes of space at most, x: f32[2, 1, 5, 6, 4]"),
    (lambda: sg.nn.max_pool_with_indices(X > 0, 2), sg.DTypeError,
     "max_pool_with_indices: x: bool[3, 4] is no number"),
    (lambda: sg.nn.max_pool_with_indices(IMAGES, 6), sg.ShapeError,
     "max_pool_with_indices: a window reaches over 6 elements, and there are 5 in axis 1 of x: "
     "f32[2, 5, 6, 4]"),
    (lambda: sg.nn.max_unpool(IMAGES, IMAGES, 8), sg.DTypeError,
     "max_unpool: indices: f32[2, 5, 6, 4] are of no integer dtype"),
    (lambda: sg.nn.max_unpool(IMAGES, I, 8), sg.ShapeError,
     "max_unpool: ranks differ: 2 of indices: i64[2, 5], 4 of x: i64[2, 5, 6, 4]"),
    (lambda: sg.nn.max_unpool(IMAGES, sg.zeros(IMAGES.shape, "int64"), 0), sg.ShapeError,
     "max_unpool: size 0 is less than 1"),
    (lambda: sg.nn.max_unpool(IMAGES, sg.zeros(IMAGES.shape, "int64"), (3, 4, 5)), sg.ShapeError,
     "max_unpool: size (3, 4, 5) is no integer, nor one for each axis of space, 2"),
    (lambda: sg.nn.max_unpool(X, I, 8), sg.ShapeError,
     "max_unpool: x: f32[3, 4] has not a batch, channels, and 1 to 3 axes of space"),
    (lambda: sg.nn.max_unpool(sg.ones((1, 1, 1)), [[[4]]], 4), sg.IndexOutOfRangeError,
     "max_unpool: index 4 is outside of axis 1 of size 4"),
    (lambda: sg.nn.fractional_max_pool(IMAGES, 3, 4, KEY), sg.ShapeError,
     "fractional_max_pool: 4 windows of 3 need 6 elements, and there are 5 in axis 1 of x: "
     "f32[2, 5, 6, 4]"),
    (lambda: sg.nn.fractional_max_pool(UNKNOWN, 1, 1, KEY), sg.ShapeError,
     "fractional_max_pool: axis 1 of x: f32[2, m, 3] is of unknown size"),
    (lambda: sg.nn.fractional_max_pool(IMAGES, 0, 1, KEY), sg.ShapeError,
     "fractional_max_pool: window 0 is less than 1"),
    (lambda: sg.nn.fractional_max_pool(IMAGES, 2, 1.5, KEY), sg.ShapeError,
     "fractional_max_pool: size 1.5 is no integer, nor one for each axis of space, 2"),
    (lambda: sg.nn.fractional_max_pool(IMAGES, 2, 3), sg.GraphError,
     "fractional_max_pool: there are neither a generator nor samples"),
    (lambda: sg.nn.fractional_max_pool(IMAGES, 2, 3, KEY, samples=X), sg.GraphError,
     "fractional_max_pool: there are both a generator and samples"),
    (lambda: sg.nn.fractional_max_pool(IMAGES, 2, 3, samples=sg.zeros((2, 4, 1))), sg.ShapeError,
     "fractional_max_pool: sizes differ: 1 in axis 2 of samples: f32[2, 4, 1], "
     "2 in axis 2 of channels and axes of x: f32[2, 4, 2]"),
    (lambda: sg.nn.fractional_max_pool(IMAGES, 2, 3, X), sg.DTypeError,
     "fractional_max_pool: key: f32[3, 4] is no key, a uint64 scalar"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), _ROWS, ids=[text for _, _, text in _ROWS])
def test_what_a_layer_that_reads_at_places_does_not_take(
    call: Callable[[], Any], error: type[Exception], text: str
) -> None:
    assert_refused(call, error, f"{text}\n  --> <here>")
