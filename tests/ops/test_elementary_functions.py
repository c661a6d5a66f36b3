"""The elementary functions at special values, at neighbours, within their bounds, and as NumPy's.

The special values are those that the Array API standard lists, 2025.12, each function by its own
table. The bounds of what is one scalar operation are measured in `test_math_accuracy.py`.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

import symgrad as sg
from symgrad.graph.cube_roots import exact_cbrt
from symgrad.graph.graph import Graph
from tests.support.case import FLOATS, Array
from tests.support.evaluators import EVALUATORS, evaluate_native, evaluate_reference

INF, NAN, PI = math.inf, math.nan, math.pi

# Arguments and results. A result that is 0, an integer, infinite or nan is exact, with its sign.
_SPECIAL: dict[str, list[tuple[float, ...]]] = {
    "acos": [(NAN, NAN), (1.5, NAN), (-1.5, NAN), (INF, NAN), (1, 0.0)],
    "acosh": [(NAN, NAN), (0.5, NAN), (-INF, NAN), (-2, NAN), (1, 0.0), (INF, INF)],
    "asin": [(NAN, NAN), (1.5, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0), (1, PI / 2)],
    "asinh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "atan": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2)],
    "atanh": [(NAN, NAN), (-1.5, NAN), (1.5, NAN), (INF, NAN), (-1, -INF), (1, INF), (0.0, 0.0),
              (-0.0, -0.0)],
    "atan2": [
        (NAN, 1, NAN), (1, NAN, NAN), (NAN, NAN, NAN), (INF, NAN, NAN), (NAN, -INF, NAN),
        (2, 0.0, PI / 2), (2, -0.0, PI / 2), (0.0, 2, 0.0), (0.0, 0.0, 0.0), (0.0, -0.0, PI),
        (0.0, -2, PI), (-0.0, 2, -0.0), (-0.0, 0.0, -0.0), (-0.0, -0.0, -PI), (-0.0, -2, -PI),
        (-2, 0.0, -PI / 2), (-2, -0.0, -PI / 2), (2, INF, 0.0), (2, -INF, PI), (-2, INF, -0.0),
        (-2, -INF, -PI), (INF, 2, PI / 2), (-INF, 2, -PI / 2), (INF, INF, PI / 4),
        (INF, -INF, 3 * PI / 4), (-INF, INF, -PI / 4), (-INF, -INF, -3 * PI / 4),
        (6e4, 6e4, PI / 4), (6e-8, -6e-8, 3 * PI / 4),
    ],
    "cbrt": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (-27, -3)],
    "copysign": [(2, -3, -2), (2, -0.0, -2), (-2, 0.0, 2), (-2, 3, 2), (0.0, -1, -0.0),
                 (INF, -1, -INF), (NAN, 1, NAN), (-2, NAN, 2), (2, -NAN, -2)],
    "cosh": [(NAN, NAN), (0.0, 1), (-0.0, 1), (INF, INF), (-INF, INF)],
    "exp2": [(NAN, NAN), (0.0, 1), (-0.0, 1), (10, 1024), (INF, INF), (-INF, 0.0)],
    "fmod": [(NAN, 1, NAN), (1, 0.0, NAN), (INF, 2, NAN), (-0.0, 2, -0.0), (3, INF, 3),
             (-3, -INF, -3), (-4, 2, -0.0), (-5, 3, -2)],
    "hypot": [(INF, NAN, INF), (-INF, NAN, INF), (NAN, INF, INF), (NAN, -INF, INF), (INF, 1, INF),
              (0.0, -3, 3), (-0.0, 2, 2), (-5, 0.0, 5), (-0.0, -0.0, 0.0), (1, NAN, NAN),
              (NAN, 0.0, NAN), (NAN, NAN, NAN), (-3, 4, 5)],
    "log2": [(NAN, NAN), (-1, NAN), (-INF, NAN), (0.0, -INF), (-0.0, -INF), (1, 0.0), (INF, INF),
             (0.125, -3)],
    "log10": [(NAN, NAN), (-1, NAN), (-INF, NAN), (0.0, -INF), (-0.0, -INF), (1, 0.0), (INF, INF),
              (100, 2)],
    "logaddexp": [(NAN, 1, NAN), (1, NAN, NAN), (INF, 1, INF), (-1, INF, INF), (INF, INF, INF),
                  (INF, -INF, INF), (NAN, INF, NAN), (INF, NAN, NAN), (-INF, -INF, -INF),
                  (-INF, 3, 3), (0.0, 0.0, math.log(2))],
    "logaddexp2": [(NAN, 1, NAN), (1, NAN, NAN), (INF, 1, INF), (INF, INF, INF), (-INF, 3, 3),
                   (-INF, -INF, -INF), (3, 3, 4)],
    "nextafter": [(NAN, 1, NAN), (1, NAN, NAN), (NAN, NAN, NAN), (-0.0, 0.0, 0.0),
                  (0.0, -0.0, -0.0), (INF, INF, INF), (2, 2, 2)],
    "reciprocal": [(NAN, NAN), (0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (0.25, 4)],
    "signbit": [(0.0, 0), (-0.0, 1), (INF, 0), (-INF, 1), (2, 0), (-2, 1), (NAN, 0), (-NAN, 1)],
    "sinc": [(NAN, NAN), (0.0, 1), (-0.0, 1), (1, 0.0), (-3, 0.0), (0.5, 2 / PI)],
    "sinh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "tan": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "trunc": [(NAN, NAN), (INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (-3, -3), (0.9, 0.0),
              (-0.9, -0.0), (2.5, 2)],
}  # fmt: skip


def _is_wrong(wanted: float, found: Any, spacing: float) -> bool:
    if found.dtype == bool:
        return bool(found) != bool(wanted)
    value = float(found)
    if math.isnan(wanted):
        return not math.isnan(value)
    if math.isinf(wanted) or wanted == int(wanted):
        return value != wanted or math.copysign(1, value) != math.copysign(1, wanted)
    return not math.isclose(value, wanted, rel_tol=2 * spacing)


@pytest.mark.parametrize("initial", ["a", "c-e", "f-l", "m-z"])
@pytest.mark.parametrize("evaluator", EVALUATORS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_special_values_are_those_of_the_standard(dtype, evaluator, initial):
    inputs, outputs, arrays = [], [], []
    chosen = [name for name in _SPECIAL if initial[0] <= name[0] <= initial[-1]]
    for name in chosen:
        columns = np.array(_SPECIAL[name]).T[:-1].astype(dtype.numpy)
        xs = [sg.placeholder(c.shape, dtype) for c in columns]
        inputs += xs
        arrays += [np.ascontiguousarray(c) for c in columns]
        outputs.append(getattr(sg, name)(*xs))
    results = EVALUATORS[evaluator](Graph(outputs, inputs), arrays)
    spacing = 2.0 ** {"float16": -10, "bfloat16": -7, "float32": -23, "float64": -52}[dtype.name]
    wrong = [
        (name, row, value)
        for name, found in zip(chosen, results, strict=True)
        for row, value in zip(_SPECIAL[name], found, strict=True)
        if _is_wrong(row[-1], value, spacing)
    ]
    assert not wrong


def test_copysign_gives_nan_the_sign_bit():
    x, y = np.array([NAN, -NAN, NAN]), np.array([-1.0, 2.0, -NAN])
    a, b = sg.placeholder((3,), "float64"), sg.placeholder((3,), "float64")
    (found,) = evaluate_native(Graph(sg.copysign(a, b), [a, b]), [x, y])
    assert np.isnan(found).all()
    assert np.signbit(found).tolist() == [True, False, True]


# -------------------------------------------------------------------------------- neighbours


def _many_bit_patterns(dtype: Any) -> Array:
    bits = np.arange(2**16, dtype=np.uint16) if dtype.is_half else None
    if bits is not None:
        return bits.view(dtype.numpy)
    few = np.random.default_rng(3).integers(0, 2**dtype.bits, 2000, dtype=f"u{dtype.itemsize}")
    limits = np.finfo(dtype.numpy)
    edges = [0.0, limits.tiny, limits.smallest_subnormal, limits.max, 1.0, 2.0, INF]
    edge = np.array([*edges, *(-e for e in edges)], dtype.numpy)
    return np.concatenate([few.view(dtype.numpy), edge])


@pytest.mark.parametrize("evaluator", EVALUATORS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nextafter_gives_the_neighbour(dtype, evaluator):
    values = _many_bit_patterns(dtype)
    x, y = sg.placeholder(values.shape, dtype), sg.placeholder((), dtype)
    graph = Graph(sg.nextafter(x, y), [x, y])
    for target in (INF, -INF, 0.0, 1.5):
        goal = np.array(target, dtype.numpy)
        (found,) = EVALUATORS[evaluator](graph, [values, goal])
        with np.errstate(all="ignore"):
            # NumPy keeps the sign of a zero of float16, and the standard does not.
            wanted = np.where(values == goal, goal, np.nextafter(values, goal))
            is_nan = np.isnan(values)
        assert np.isnan(found[is_nan]).all()
        whole = f"u{dtype.itemsize}"
        np.testing.assert_array_equal(found[~is_nan].view(whole), wanted[~is_nan].view(whole))


# ------------------------------------------------------------------------------------ bounds


def _error_in_ulps(build: Any, exact: Any, columns: list[Array]) -> float:
    """Return the largest error of native code, in units of the larger of the result and `scale`."""
    xs = [sg.placeholder(c.shape, c.dtype) for c in columns]
    (found,) = evaluate_native(Graph(build(*xs), xs), columns)
    worst = 0.0
    with mp.workprec(160):
        for value, *args in zip(found, *columns, strict=True):
            wanted, scale = exact(*(mpf(float(a)) for a in args))
            size = found.dtype.type(max(abs(float(wanted)), abs(float(scale))))
            unit = float(np.spacing(max(size, np.finfo(found.dtype).tiny)))
            worst = max(worst, abs(float((mpf(float(value)) - wanted) / unit)))
    return worst


def _logaddexp(x: mpf, y: mpf) -> tuple[mpf, mpf]:
    rest = mp.log1p(mp.exp(-abs(x - y)))
    return max(x, y) + rest, max(abs(x), abs(y))


def _logaddexp2(x: mpf, y: mpf) -> tuple[mpf, mpf]:
    rest = mp.log1p(mpf(2) ** -abs(x - y)) / mp.log(2)
    return max(x, y) + rest, max(abs(x), abs(y))


_BOUNDS = [
    ("logaddexp", _logaddexp, 2, 2.5),
    ("logaddexp2", _logaddexp2, 2, 2.5),
    ("sinc", lambda x: (mp.sincpi(x), mpf(0)), 1, 3.5),
    ("deg2rad", lambda x: (x * mp.pi / 180, mpf(0)), 1, 1.25),
    ("rad2deg", lambda x: (x * 180 / mp.pi, mpf(0)), 1, 1.25),
]


def _points(dtype: str, count: int, arity: int) -> list[Array]:
    rng = np.random.default_rng(8)
    columns = []
    for _ in range(arity):
        wide = rng.choice([-1, 1], count) * np.exp2(rng.uniform(-40, 10, count))
        mixed = np.where(np.arange(count) % 3 == 0, wide, rng.uniform(-6, 6, count))
        columns.append(mixed.astype(dtype))
    if arity == 2:
        near = columns[0] + rng.uniform(-1, 1, count)  # terms of like size, and a small sum
        columns[1] = np.where(np.arange(count) % 2 == 0, near, columns[1]).astype(dtype)
    return columns


def _assert_within(name: str, dtype: str, count: int) -> None:
    ((exact, arity, bound),) = [row[1:] for row in _BOUNDS if row[0] == name]
    assert _error_in_ulps(getattr(sg, name), exact, _points(dtype, count, arity)) <= bound


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [row[0] for row in _BOUNDS])
def test_a_composed_function_keeps_its_bound(name, dtype):
    _assert_within(name, dtype, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [row[0] for row in _BOUNDS])
def test_a_composed_function_keeps_its_bound_at_many_points(name, dtype):
    _assert_within(name, dtype, 20_000)


def test_powers_of_2_are_exact_both_ways():
    powers_of_2 = np.exp2(np.arange(-1074.0, 1024.0))
    x = sg.placeholder(powers_of_2.shape, "float64")
    logs, back = evaluate_native(Graph([sg.log2(x), sg.exp2(sg.log2(x))], [x]), [powers_of_2])
    np.testing.assert_array_equal(logs, np.arange(-1074.0, 1024.0))
    np.testing.assert_array_equal(back, powers_of_2)


# --------------------------------------------------------------------------------- gradients


def _gradients(build: Any, *values: Any, order: int = 1) -> list[Array]:
    arrays = [np.array(v, np.float64) for v in values]
    xs = [sg.placeholder(a.shape, a.dtype) for a in arrays]
    result = build(*xs)
    found: list[Any] = []
    for _ in range(order):
        found = sg.gradients(result, xs, unconnected_gradients="zero")
        result = found[0]
    return evaluate_reference(Graph(found, xs), arrays)


def test_gradients_at_the_corners():
    far = 1e300
    rows: list[tuple[Any, tuple[Any, ...], Any]] = [
        (sg.hypot, ([0.0, 3.0], [0.0, 4.0]), [[0, 0.6], [0, 0.8]]),
        (sg.hypot, ([far, 1 / far], [far, 0.0]), [[math.sqrt(0.5), 1], [math.sqrt(0.5), 0]]),
        (sg.atan2, ([0.0, 1.0], [0.0, 0.0]), [[0, 0], [0, -1]]),
        (sg.logaddexp, ([1.0, INF, -INF, INF], [1.0, INF, -INF, 0]),
         [[0.5, 0.5, 0.5, 1], [0.5, 0.5, 0.5, 0]]),
        (sg.copysign, ([2.0, -2.0, 0.0], [-1.0, -1.0, 1.0]), [[-1, 1, 0], [0, 0, 0]]),
        (sg.nextafter, ([1.0], [2.0]), [[1], [0]]),
        (sg.fmod, ([-7.5, 7.5], [2.0, -2.0]), [[1, 1], [3, 3]]),
        (sg.asinh, ([far, 0.0],), [[1 / far, 1]]),
        (sg.acosh, ([far],), [[1 / far]]),
        (sg.atan, ([far, 0.0],), [[0, 1]]),
        (sg.sinc, ([0.0, 1.0, 1e-9],), [[0, -1, -(PI**2) * 1e-9 / 3]]),
        (sg.cbrt, ([8.0, 0.0],), [[1 / 12, INF]]),
        (sg.trunc, ([1.5],), [[0]]),
    ]  # fmt: skip
    for build, values, wanted in rows:
        found = _gradients(build, *values)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-300, err_msg=str(build))


def test_second_derivatives_at_the_corners():
    (found,) = _gradients(sg.sinc, [0.0, 0.3, 0.7], order=2)
    wanted = [float(mp.diff(mpmath.sincpi, x, 2)) for x in (0.0, 0.3, 0.7)]
    np.testing.assert_allclose(found, wanted, rtol=1e-11)
    to_x, to_y = _gradients(sg.logaddexp, [1.0], [1.0], order=2)
    assert (to_x.tolist(), to_y.tolist()) == ([0.25], [-0.25])


def test_the_gradient_of_sinc_does_not_cancel():
    points = np.concatenate([np.exp2(np.linspace(-40, 2, 200)), [0.5, np.nextafter(0.5, 0)]])
    (found,) = _gradients(sg.sinc, points)
    with mp.workprec(200):
        wanted = [float((mp.cospi(mpf(x)) - mp.sincpi(mpf(x))) / mpf(x)) for x in points]
    # The slope has zeros; beside them an error is measured by its size elsewhere.
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-15)


# ------------------------------------------------------------------------- operands and NumPy


def test_integers_and_bools_become_float32_and_python_scalars_are_weak():
    i, b = sg.placeholder((2,), "int8"), sg.placeholder((2,), "bool")
    h = sg.placeholder((2,), "float16")
    of_one = [sg.tan(i), sg.log2(i), sg.asinh(i), sg.reciprocal(i), sg.sinc(b)]
    assert {y.dtype for y in of_one} == {sg.float32}
    assert sg.atan2(i, 1).dtype == sg.hypot(b, i).dtype == sg.copysign(2, i).dtype == sg.float32
    assert sg.hypot(h, 2.0).dtype == sg.nextafter(1, h).dtype == sg.logaddexp(h, 1).dtype == h.dtype
    assert sg.fmod(i, 3).dtype == sg.trunc(i).dtype == sg.int8
    assert sg.trunc(i) is i
    with pytest.raises(sg.DTypeError, match=r"^trunc: "):
        sg.trunc(b)
    with pytest.raises(sg.DTypeError, match=r"^fmod: "):
        sg.fmod(b, b)


def test_operands_are_broadcast_and_refused_by_name():
    x, y = sg.placeholder((3, 1)), sg.placeholder((4,))
    assert sg.atan2(x, y).shape == (3, 4)
    for name in ("atan2", "hypot", "copysign", "nextafter", "fmod", "logaddexp", "logaddexp2"):
        with pytest.raises(sg.ShapeError, match=f"^{name}: shapes do not broadcast"):
            getattr(sg, name)(sg.placeholder((3,)), y)


_UFUNCS: list[tuple[Any, str]] = [
    *((np.arccos, "acos"), (np.arccosh, "acosh"), (np.arcsin, "asin"), (np.arcsinh, "asinh")),
    *((np.arctan, "atan"), (np.arctanh, "atanh"), (np.cbrt, "cbrt"), (np.cosh, "cosh")),
    *((np.deg2rad, "deg2rad"), (np.radians, "deg2rad"), (np.degrees, "rad2deg")),
    *((np.rad2deg, "rad2deg"), (np.exp2, "exp2"), (np.log10, "log10"), (np.log2, "log2")),
    *((np.reciprocal, "reciprocal"), (np.signbit, "signbit"), (np.sinc, "sinc"), (np.tan, "tan")),
    *((np.sinh, "sinh"), (np.trunc, "trunc")),
    *((np.arctan2, "atan2"), (np.copysign, "copysign"), (np.fmod, "fmod"), (np.hypot, "hypot")),
    *((np.logaddexp, "logaddexp"), (np.logaddexp2, "logaddexp2"), (np.nextafter, "nextafter")),
]


@pytest.mark.parametrize(("function", "name"), _UFUNCS, ids=[f.__name__ for f, _ in _UFUNCS])
def test_a_function_of_numpy_builds_the_graph_of_ours(function, name):
    x = sg.placeholder((2,))
    operands = (x, 2.0) if getattr(function, "nin", 1) == 2 else (x,)
    from symgrad.graph.compare import structurally_equal

    ours = Graph(getattr(sg, name)(*operands), [x])
    assert structurally_equal(Graph(function(*operands), [x]), ours)


def test_cube_roots_of_the_interpreter_are_within_an_ulp():
    random = np.random.default_rng(0)
    x = random.standard_normal(20_000) * 10.0 ** random.integers(-300, 300, 20_000)
    x = np.concatenate([x, -(np.arange(1.0, 400.0) ** 3), [5e-324, 1e-310, np.finfo(float).max]])
    found = exact_cbrt(x)
    exact = np.cbrt(x.astype(np.longdouble))
    errors = np.abs((found.astype(np.longdouble) - exact) / np.spacing(np.abs(found)))
    assert errors.max() < 1
    given = np.array([0.0, -0.0, np.inf, -np.inf])
    assert exact_cbrt(given).tobytes() == given.tobytes()
    assert np.isnan(exact_cbrt(np.array([np.nan]))).all()
