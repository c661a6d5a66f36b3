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
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), _ROWS, ids=[text for _, _, text in _ROWS])
def test_what_a_layer_that_reads_at_places_does_not_take(
    call: Callable[[], Any], error: type[Exception], text: str
) -> None:
    assert_refused(call, error, f"{text}\n  --> <here>")
