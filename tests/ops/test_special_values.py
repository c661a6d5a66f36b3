"""Elementwise ops at zeros, infinities, nan, huge numbers and the limits of integers."""

from __future__ import annotations

import itertools
from itertools import chain

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph
from tests.support.case import Array, Real, placeholders, widened
from tests.support.elementary_cases import ELEMENTARY
from tests.support.elementwise_cases import ELEMENTWISE
from tests.support.evaluators import EVALUATORS
from tests.support.together import together

_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, np.inf, -np.inf, np.nan, 1e30, -1e30)

_OF_ELEMENTS_ALONE = [
    case
    for case in (*ELEMENTWISE, *ELEMENTARY)
    if all(isinstance(given, Real) for given in case.inputs)
    and dtypes.float32 in case.dtypes
    and case.op not in ("astype", "dim_size", "match_shape", "nextafter")
    and case.name not in ("shape", "linspace_of_a_size", "by_size")
]

every_evaluator = pytest.mark.parametrize("evaluator", EVALUATORS)


@every_evaluator
@together("case", _OF_ELEMENTS_ALONE, ids=lambda case: case.name, at_once=15)
def test_special_floats_give_what_numpy_gives(case, evaluator):
    tuples = list(itertools.product(_SPECIAL, repeat=len(case.inputs)))
    columns = [np.array(column) for column in zip(*tuples, strict=True)]
    flat = case.with_shapes(tuple(column.shape for column in columns))
    xs = {dtype: placeholders(flat, dtype) for dtype in (dtypes.float32, dtypes.float64)}
    given = {dtype: [c.astype(dtype.numpy) for c in columns] for dtype in xs}
    graph = Graph([case.build(*of_dtype) for of_dtype in xs.values()], [*chain(*xs.values())])
    results = EVALUATORS[evaluator](graph, [*chain(*given.values())])
    for found, (dtype, arrays) in zip(results, given.items(), strict=True):
        with np.errstate(all="ignore"):
            # Computed in float64 and rounded, so that what overflows float32 does so here.
            expected = np.asarray(case.expected(*widened(arrays))).astype(found.dtype)
        close = 1e-5 if dtype.bits == 32 else 1e-12
        np.testing.assert_allclose(found, expected, rtol=close, err_msg=str(dtype))


@every_evaluator
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("int8", [0, 0, 0, 127, -128, 127, -128, 1, -1]),
        ("uint8", [0, 0, 0, 255, 0, 255, 0, 1, 0]),
        ("int32", [0, 0, 0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 1, -1]),
        ("int64", [0, 0, 0, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 1, -1]),
        ("uint64", [0, 0, 0, 2**64 - 1, 0, 2**64 - 1, 0, 1, 0]),
        ("bool", [False, False, True, True, True, True, True, True, True]),
    ],
)
def test_a_float_becomes_the_nearest_integer_there_is(target, expected, evaluator):
    values = np.array([0, -0.0, np.nan, np.inf, -np.inf, 1e30, -1e30, 1.9, -1.9], np.float32)
    x = sg.placeholder(values.shape)
    (found,) = EVALUATORS[evaluator](Graph(x.astype(target), [x]), [values])
    np.testing.assert_array_equal(found, np.array(expected, target))


@every_evaluator
def test_integers_wrap_around(evaluator):
    x = sg.placeholder((3,), "int8")
    outputs = [x + 100, x * 2, -x, abs(x), x.astype("uint8"), x.astype("int16").astype("int8")]
    values = np.array([-128, 127, -1], np.int8)
    found = EVALUATORS[evaluator](Graph(outputs, [x]), [values])
    expected = [
        [-28, -29, 99], [0, -2, -2], [-128, -127, 1], [-128, 127, 1], [128, 127, 255],
        [-128, 127, -1],
    ]  # fmt: skip
    assert [f.tolist() for f in found] == expected


@every_evaluator
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
def test_an_integer_by_zero_is_zero(dtype, evaluator):
    x, y = sg.placeholder((3,), dtype), sg.placeholder((3,), dtype)
    values = [np.array([5, 0, 1], dtype), np.zeros(3, dtype)]
    found = EVALUATORS[evaluator](Graph([x // y, x % y], [x, y]), values)
    assert [f.tolist() for f in found] == [[0, 0, 0], [0, 0, 0]]


@every_evaluator
def test_an_integer_to_a_negative_power_is_zero_but_for_one_and_minus_one(evaluator):
    x, y = sg.placeholder((6,), "int32"), sg.placeholder((6,), "int32")
    values = [np.array([1, -1, -1, 2, 0, -3], "int32"), np.array([-1, -1, -2, -1, -1, -3], "int32")]
    (found,) = EVALUATORS[evaluator](Graph(x**y, [x, y]), values)
    assert found.tolist() == [1, -1, 1, 0, 0, 0]


@every_evaluator
@pytest.mark.parametrize(
    ("values", "greatest", "least"),
    [
        ([1.0, 3.0, 3.0, 1.0], 1, 0),
        ([1.0, np.nan, 5.0, np.nan], 1, 1),
        ([-np.inf, -np.inf], 0, 0),
        ([np.inf, np.inf, 0.0], 0, 2),
        ([-0.0, 0.0], 0, 0),
    ],
)
def test_the_first_of_equal_elements_is_found_and_nan_before_all(
    values, greatest, least, evaluator
):
    x = sg.placeholder((len(values),))
    graph = Graph([x.argmax(), x.argmin(), x.max(), x.min()], [x])
    array = np.array(values, np.float32)
    found = EVALUATORS[evaluator](graph, [array])
    assert [int(f) for f in found[:2]] == [greatest, least]
    np.testing.assert_array_equal(found[2:], [array.max(), array.min()])


@every_evaluator
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_extremes_of_integers_are_found(dtype, evaluator):
    limits = np.iinfo(dtype)
    for value in (limits.min, limits.max):
        x = sg.placeholder((2,), dtype)
        graph = Graph([x.max(), x.min(), x.argmax(), x.argmin()], [x])
        found = EVALUATORS[evaluator](graph, [np.full(2, value, dtype)])
        assert [int(f) for f in found] == [value, value, 0, 0]


@every_evaluator
def test_reductions_of_nothing_give_the_identity(evaluator):
    x = sg.placeholder((0, 2))
    graph = Graph([x.sum(0), x.prod(0), (x > 0).any(0), (x > 0).all(0), x.mean(0)], [x])
    found = EVALUATORS[evaluator](graph, [np.zeros((0, 2), np.float32)])
    assert [f.tolist() for f in found[:4]] == [[0, 0], [1, 1], [False, False], [True, True]]
    assert np.isnan(found[4]).all()


@every_evaluator
def test_small_integers_are_summed_in_64_bits_and_halves_in_float32(evaluator):
    i, h = sg.placeholder((300,), "int8"), sg.placeholder((4096,), "float16")
    arrays: list[Array] = [np.full(300, 127, np.int8), np.full(4096, 1.0, np.float16)]
    graph = Graph([i.sum(), i.prod(dtype="int8"), h.sum(), h.mean()], [i, h])
    found = EVALUATORS[evaluator](graph, arrays)
    assert [f.dtype.name for f in found] == ["int64", "int8", "float16", "float16"]
    assert [float(f) for f in found] == [38100, 1, 4096, 1]
