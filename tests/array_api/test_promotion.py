"""Type promotion is the standard's table within a kind, and one default for each kind of number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

# A row for each signed integer, a column for each unsigned one; None where the two do not meet.
_MIXED = {
    "int8": ("int16", "int32", "int64", None),
    "int16": ("int16", "int32", "int64", None),
    "int32": ("int32", "int32", "int64", None),
    "int64": ("int64", "int64", "int64", None),
}
_SIGNED = tuple(_MIXED)
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float32", "float64")


def _rows() -> list[tuple[str, str, str | None]]:
    rows: list[tuple[str, str, str | None]] = [("bool", "bool", "bool")]
    for kind in (_SIGNED, _UNSIGNED, _FLOATS):
        rows += [(a, b, kind[max(i, j)]) for i, a in enumerate(kind) for j, b in enumerate(kind)]
    rows += [
        (s, u, met) for s, row in _MIXED.items() for u, met in zip(_UNSIGNED, row, strict=True)
    ]
    return rows


def _both_ways() -> list[tuple[str, str, str | None]]:
    return [row for a, b, met in _rows() for row in dict.fromkeys([(a, b, met), (b, a, met)])]


@pytest.mark.parametrize(("a", "b", "met"), [r for r in _both_ways() if r[2] is not None])
def test_two_dtypes_meet_where_the_standard_says(a, b, met):
    x, y = sg.placeholder((1,), a), sg.placeholder((1,), b)
    chosen = sg.where(sg.placeholder((1,), "bool"), x, y)
    assert sg.result_type(a, b) == chosen.dtype == sg.concat([x, y]).dtype == met
    assert sg.equal(x, y).dtype == sg.bool
    assert sg.can_cast(a, b) == (met == b)


@pytest.mark.parametrize(("a", "b"), [r[:2] for r in _both_ways() if r[2] is None])
@pytest.mark.parametrize("call", [sg.add, sg.result_type, lambda x, y: sg.concat([x, y])])
def test_an_unsigned_and_a_signed_integer_may_meet_nowhere(call, a, b):
    with pytest.raises(sg.DTypeError, match="have no common dtype"):
        call(sg.placeholder((1,), a), sg.placeholder((1,), b))
    assert not sg.can_cast(a, b)


@pytest.mark.parametrize("name", [*_SIGNED, *_UNSIGNED, *_FLOATS])
def test_a_python_number_takes_the_dtype_of_the_array(name):
    x = sg.placeholder((2,), name)
    for found in (x + 1, 1 - x, sg.maximum(x, 2), x * True):
        assert found.dtype == name
    assert sg.result_type(x, 1) == sg.result_type(1, name) == name
    if name in _FLOATS:
        assert (x + 0.5).dtype == (2.5 / x).dtype == sg.result_type(0.5, name) == name
    else:
        # The standard leaves it open; never a silent float64.
        assert (x + 0.5).dtype == sg.result_type(name, 0.5) == "float32"


def test_one_default_for_each_kind_of_number():
    defaults = sg.__array_namespace_info__().default_dtypes()
    whole = (
        sg.asarray(1),
        sg.asarray([[1], [2]]),
        sg.full(2, 3),
        sg.arange(3),
        sg.sum(sg.placeholder((2,), "int8")),
        sg.prod(sg.placeholder((2,), "int32")),
        sg.cumulative_sum(sg.placeholder((2,), "int16")),
    )
    assert {x.dtype for x in whole} == {defaults["integral"]} == {sg.int64}
    real = (
        sg.asarray(1.0),
        sg.full(2, 0.5),
        sg.arange(3.0),
        sg.linspace(0, 1, 3),
        *(make((2,)) for make in (sg.zeros, sg.ones, sg.empty)),
        sg.eye(2),
        sg.divide(sg.arange(2), 2),
        sg.mean(sg.arange(2)),
    )
    assert {x.dtype for x in real} == {defaults["real floating"]} == {sg.float32}
    indices = (sg.argmax(sg.zeros(2)), sg.count_nonzero(sg.zeros(2)))
    assert {x.dtype for x in indices} == {defaults["indexing"]} == {sg.int64}
    # A constant is no creation function of the standard.
    assert sg.constant(1).dtype == sg.int32


_MADE: list[Any] = [
    *(lambda dtype, f=f: f((2,), dtype=dtype) for f in (sg.zeros, sg.ones, sg.empty)),
    *(
        lambda dtype, f=f: f(sg.zeros((2,)), dtype=dtype)
        for f in (sg.zeros_like, sg.ones_like, sg.empty_like)
    ),
    lambda dtype: sg.full((2,), 1.0, dtype=dtype),
    lambda dtype: sg.full_like(sg.zeros(2), 1.0, dtype=dtype),
    lambda dtype: sg.eye(2, dtype=dtype),
    lambda dtype: sg.linspace(0, 1, 3, dtype=dtype),
    lambda dtype: sg.arange(3.0, dtype=dtype),
    lambda dtype: sg.asarray(1.5, dtype=dtype),
    lambda dtype: sg.sum(sg.zeros(2), dtype=dtype),
    lambda dtype: sg.prod(sg.zeros(2), dtype=dtype),
]


@pytest.mark.parametrize("make", _MADE)
def test_no_dtype_is_the_default_and_never_float64(make):
    assert make(None).dtype == "float32"
    for dtype in ("float64", np.float64, np.dtype("float64"), sg.float64):
        assert make(dtype).dtype is sg.float64


def test_none_is_no_dtype():
    nothing: Any = None
    for call in (lambda: sg.zeros(2).astype(nothing), lambda: sg.can_cast("int8", nothing)):
        with pytest.raises(sg.DTypeError, match="None is none of bool"):
            call()
