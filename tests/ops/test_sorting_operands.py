"""What functions that sort, search and count do not take is refused at the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

F = sg.placeholder((3, 4), name="f")
V = sg.placeholder((5,), name="v")
I = sg.placeholder((5,), "int32", name="i")  # noqa: E741 - one letter a dtype
U = sg.placeholder((5,), "uint64", name="u")
S = sg.placeholder((), name="s")
HALF: Any = 2.5
SIDE: Any = "middle"

_ROWS = [
    (lambda: sg.sort(F, axis=2), sg.ShapeError, "sort: axis 2 is not an axis of a tensor of rank"),
    (lambda: sg.sort(S), sg.ShapeError, "sort: axis -1 is not an axis of a tensor of rank 0"),
    (lambda: sg.argsort(F, axis=-3), sg.ShapeError, "argsort: axis -3 is not an axis of a tensor"),
    (lambda: sg.top_k(F, 5), sg.ShapeError, "top_k: k is 5, axis 1 of x: f32[3, 4] has 4"),
    (lambda: sg.top_k(F, -1), sg.ShapeError, "top_k: k is -1, axis 1 of x: f32[3, 4] has 4"),
    (lambda: sg.top_k(F, HALF), sg.DTypeError, "top_k: k must be an int, it is 2.5"),
    (lambda: sg.searchsorted(F, V), sg.ShapeError, "searchsorted: x1: f32[3, 4] is no vector"),
    (lambda: sg.searchsorted(I, U), sg.DTypeError, "searchsorted: int32 and uint64 have no common"),
    (lambda: sg.searchsorted(V, V, side=SIDE), sg.ShapeError, "side 'middle' is neither 'left'"),
    (lambda: sg.digitize(V, F), sg.ShapeError, "digitize: x1: f32[3, 4] is no vector"),
    (lambda: sg.lexsort([]), sg.ShapeError, "lexsort: there is no key"),
    (lambda: sg.bincount(I), sg.ShapeError, "bincount: the greatest element is known only when"),
    (lambda: sg.bincount(V, length=3), sg.DTypeError, "bincount: x: f32[5] is no integer"),
    (lambda: sg.bincount(F, length=3), sg.ShapeError, "bincount: x: f32[3, 4] is no vector"),
    (lambda: sg.bincount(I, None, 9, length=3), sg.ShapeError, "length 3 is below minlength 9"),
    (lambda: sg.bincount(I, F, length=3), sg.ShapeError, "bincount: weights: f32[3, 4] do not fit"),
    (lambda: sg.histogram(V, 0), sg.ShapeError, "histogram: bins is 0, less than one"),
    (lambda: sg.histogram(V, F), sg.ShapeError, "histogram: bins: f32[3, 4] are no edges"),
    (lambda: sg.quantile(V, 1.5), sg.ShapeError, "quantile: q: 1.5 is not between 0 and 1"),
    (lambda: sg.percentile(V, 101), sg.ShapeError, "percentile: q: 101 is not between 0 and 100"),
    (lambda: sg.median(V, axis=1), sg.ShapeError, "median: axis 1 is not an axis of a tensor of"),
    (
        lambda: sg.quantile(sg.zeros((0,)), 0.5),
        sg.ShapeError,
        "quantile: x: f32[0] has no elements along",
    ),
    (lambda: sg.quantile(V, 0.5, method=SIDE), sg.ShapeError, "method 'middle' is none of linear"),
    (lambda: sg.unique_values(V), sg.ShapeError, "unique_values: the size of the result is known"),
    (lambda: sg.unique_all(V, size=-1), sg.ShapeError, "unique_all: size is -1, less than 0"),
    (lambda: sg.unique_counts(sg.zeros((0,)), size=1), sg.ShapeError, "x: f32[0] has no elements"),
    (lambda: sg.nonzero(V), sg.ShapeError, "nonzero: the size of the result is known only when"),
    (lambda: sg.nonzero(S, size=1), sg.ShapeError, "nonzero: x: f32[] has no axes"),
    (
        lambda: sg.nonzero(V, size=1, fill_value=(0, 0)),
        sg.ShapeError,
        "2 fill values for x: f32[5]",
    ),
]


@pytest.mark.parametrize(("build", "error", "text"), _ROWS, ids=[row[2] for row in _ROWS])
def test_it_is_refused_at_the_line_of_the_user(build, error, text):
    with pytest.raises(error) as refused:
        build()
    assert text in str(refused.value)
    assert "test_sorting_operands.py" in str(refused.value)


def test_a_negative_element_stops_a_count():
    step = sg.compile([I], sg.bincount(I, length=3))
    with pytest.raises(sg.IndexOutOfRangeError):
        step(np.array([0, 1, -1, 2, 9], np.int32))


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.parametrize("name", ["median", "nanmedian", "nanquantile"])
def test_of_no_elements_it_is_nan_as_in_numpy(name):
    q = [0.5] if name == "nanquantile" else []
    for shape, axis in [((2, 0), 1), ((2, 0), 0), ((0,), None), ((2, 0, 3), (1, 2))]:
        x = sg.placeholder(shape)
        given = np.zeros(shape, "float32")
        found = sg.compile([x], getattr(sg, name)(x, *q, axis=axis))(given)
        np.testing.assert_array_equal(found, getattr(np, name)(given, *q, axis=axis))


_INFINITE = [
    [np.inf, np.inf, 1.0, 2.0],
    [-np.inf, -np.inf, 1.0, 2.0],
    [-np.inf, 3.0, 1.0, 2.0],
    [np.inf, 3.0, 1.0, 2.0],
    [1e308, -1e308, 1.5e308, -1.5e308],
]


def test_between_a_number_and_infinity_is_infinity():
    x, q = sg.placeholder((5, 4), "float64"), sg.placeholder((2,), "float64")
    found = [sg.median(x, axis=1), sg.nanmedian(x, axis=1), sg.quantile(x, [0.5, 0.4], axis=1)]
    step = sg.compile([x, q], [*found, sg.quantile(x, q, axis=1)])
    given, shares = np.array(_INFINITE), np.array([0.5, 0.4])
    medians = np.array([np.inf, -np.inf, 1.5, 2.5, 0.0])
    middle, numbers, known, asked = step(given, shares)
    for got in (middle, numbers, known[0], asked[0]):
        np.testing.assert_array_equal(got, medians)
    for got in (known[1], asked[1]):
        np.testing.assert_allclose(got, [np.inf, -np.inf, 1.2, 2.2, -6e307], rtol=1e-12)


def test_slopes_of_quantiles_by_their_shares_beside_what_is_infinite():
    x, q = sg.placeholder((4,), "float64"), sg.placeholder((), "float64")
    (to_q,) = sg.gradients(sg.quantile(x, q), [q])
    assert sg.compile([x, q], to_q)(np.array([np.inf, 3.0, 1.0, 2.0]), 0.5) == 3.0


@pytest.mark.parametrize("function", [sg.median, sg.nanmedian])
def test_the_gradient_of_a_median_of_equals_is_of_both_in_the_middle(function):
    x = sg.placeholder((2, 4), "float64")
    (gradient,) = sg.gradients(function(x, axis=1), [x])
    found = sg.compile([x], gradient)(np.array([[2.0, 2.0, 2.0, 2.0], [5.0, 1.0, 3.0, 3.0]]))
    np.testing.assert_array_equal(found, [[0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5]])
