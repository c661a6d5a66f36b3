"""Sizes: polynomials that are equal when they are the same, and agree with ints when known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symgrad.graph.sizes import (
    Size,
    at_least,
    at_most,
    divide,
    is_natural,
    substitute,
    unknown,
    unknowns_of,
)

N, M = unknown("n"), unknown("m")
VALUES = st.integers(0, 7)

# A size, with a function that computes what it should be for known n and m.
_leaves = st.one_of(
    st.integers(-3, 3).map(lambda k: (k, lambda n, m: k)),
    st.sampled_from([(N, lambda n, m: n), (M, lambda n, m: m)]),
)


def _combine(children):
    pair = st.tuples(children, children)
    return st.one_of(
        pair.map(lambda p: (p[0][0] + p[1][0], lambda n, m: p[0][1](n, m) + p[1][1](n, m))),
        pair.map(lambda p: (p[0][0] - p[1][0], lambda n, m: p[0][1](n, m) - p[1][1](n, m))),
        pair.map(lambda p: (p[0][0] * p[1][0], lambda n, m: p[0][1](n, m) * p[1][1](n, m))),
        pair.map(
            lambda p: (at_least(p[0][0], p[1][0]), lambda n, m: max(p[0][1](n, m), p[1][1](n, m)))
        ),
        pair.map(
            lambda p: (at_most(p[0][0], p[1][0]), lambda n, m: min(p[0][1](n, m), p[1][1](n, m)))
        ),
        st.tuples(children, st.integers(1, 4)).map(
            lambda p: (divide(p[0][0], p[1]), lambda n, m: p[0][1](n, m) // p[1])
        ),
    )


SIZES = st.recursive(_leaves, _combine, max_leaves=6)


@given(SIZES, VALUES, VALUES)
def test_a_size_with_its_unknowns_replaced_is_what_ints_give(size, n, m):
    symbolic, compute = size
    assert substitute(symbolic, {"n": n, "m": m}) == compute(n, m)


@given(SIZES, VALUES, VALUES)
def test_what_is_natural_by_its_form_is_never_negative(size, n, m):
    symbolic, compute = size
    assert not is_natural(symbolic) or compute(n, m) >= 0


@given(SIZES, SIZES)
def test_sums_and_products_do_not_depend_on_the_order(a, b):
    assert a[0] + b[0] == b[0] + a[0]
    assert a[0] * b[0] == b[0] * a[0]
    assert a[0] - b[0] == -(b[0] - a[0])


@given(SIZES)
def test_a_size_less_itself_is_zero_and_equal_sizes_hash_alike(size):
    symbolic, _ = size
    assert symbolic - symbolic == 0
    assert hash(symbolic + 0) == hash(symbolic)
    assert set(unknowns_of(symbolic)) <= {"n", "m"}


@given(SIZES, st.integers(0, 7))
def test_unknowns_may_be_replaced_one_at_a_time_or_by_others(size, n):
    symbolic, compute = size
    partly = substitute(symbolic, {"n": n})
    assert "n" not in unknowns_of(partly)
    assert substitute(partly, {"m": 3}) == compute(n, 3)
    swapped = substitute(symbolic, {"n": M, "m": N})
    assert substitute(swapped, {"m": n, "n": 3}) == compute(n, 3)


def test_unknowns_without_a_name_are_all_different():
    first, second = unknown(), unknown()
    assert first != second
    assert unknown("n") == unknown("n")
    assert isinstance(first - second, Size)


def test_an_unknown_is_never_one():
    assert N != 1
    assert N * 1 == N
    assert isinstance(N * 0, int)


@pytest.mark.parametrize(
    ("size", "by", "quotient"),
    [
        (6 * N + 4, 2, 3 * N + 2),
        (N * M, N, M),
        (2 * N * M + 4 * N, 2 * N, M + 2),
        (N + 1, N + 1, 1),
        (7, 2, 3),
        (-7, 2, -4),
        (0 * N, N, 0),
    ],
)
def test_exact_divisions_are_carried_out(size, by, quotient):
    assert divide(size, by) == quotient


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (N, "n"),
        (N - 1, "n-1"),
        (1 - N, "-n+1"),
        (2 * N * M - 3, "2*m*n-3"),
        (divide(N + 1, 2), "floordiv(n+1, 2)"),
        (divide(N, M), "floordiv(n, m)"),
        (at_least(N - M, 0), "max(-m+n, 0)"),
        (at_most(N, 3), "min(n, 3)"),
        (at_most(N, 0), "0"),
        (at_least(N, 0), "n"),
    ],
)
def test_a_size_prints_as_one_reads_it(size, text):
    assert str(size) == text
