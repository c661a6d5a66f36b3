"""Every function and ufunc of NumPy's builds for tensors what it computes, or says what to use."""

from __future__ import annotations

import re
import warnings
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.frontend.numpy_refusals import METHODS, instead_of, is_named, named_instead
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.evaluators import evaluate_reference
from tests.support.numpy_calls import FUNCTIONS, A, B, Call, I, T
from tests.support.numpy_refused import NEED_A_SIZE, OF_ARRAYS, REFUSED, REFUSED_UFUNCS, UFUNCS
from tests.support.together import together

_DISPATCHER = type(np.sum)
_ARRAYS = [A, B, I, T]


def _of_numpy(kind: type) -> dict[str, Any]:
    """Return what NumPy has of a kind, each under one of its names."""
    found = {name: getattr(np, name) for name in dir(np) if isinstance(getattr(np, name), kind)}
    return {f.__name__: f for f in found.values()} | {
        name: f for name, f in found.items() if f.__name__ not in dir(np)
    }


_DISPATCHED = _of_numpy(_DISPATCHER)
_ALL_UFUNCS = _of_numpy(np.ufunc)


def _computed(call: Any) -> Any:
    xs = [sg.placeholder(a.shape, a.dtype) for a in _ARRAYS]
    built = call(*xs)
    if isinstance(built, tuple) and any(isinstance(part, Tensor) for part in built):
        return tuple(evaluate_reference(Graph(list(built), xs), _ARRAYS))
    return evaluate_reference(Graph(built, xs), _ARRAYS)[0] if isinstance(built, Tensor) else built


def _assert_agrees(call: Any) -> None:
    found = _computed(call)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of means of nothing
        expected = call(*_ARRAYS)
    for one, other in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, expected)),
                          strict=True):  # fmt: skip
        if not isinstance(one, np.ndarray):
            assert one == other
            continue
        # A float and an integer meet in the float's dtype here, and small integers stay what
        # they are, so that kinds are compared.
        assert one.dtype.kind == np.asarray(other).dtype.kind
        np.testing.assert_allclose(one, other, rtol=3e-6, atol=1e-6)


def _rows(table: dict[str, list[Call]], left_out: set[str]) -> list[tuple[str, Call]]:
    return [
        (f"{name}-{place}", call)
        for name, calls in table.items()
        if name not in left_out
        for place, call in enumerate(calls)
    ]


@together("row", _rows(FUNCTIONS, REFUSED), ids=itemgetter(0))
def test_a_function_gives_for_tensors_what_it_gives_for_arrays(row):
    _assert_agrees(row[1])


@together("row", _rows(UFUNCS, REFUSED_UFUNCS), ids=itemgetter(0))
def test_a_ufunc_gives_for_tensors_what_it_gives_for_arrays(row):
    _assert_agrees(row[1])


def test_every_function_of_numpy_is_in_one_of_the_lists():
    assert not FUNCTIONS.keys() & REFUSED
    assert _DISPATCHED.keys() - FUNCTIONS.keys() - NEED_A_SIZE.keys() <= REFUSED
    assert len(FUNCTIONS) >= 160
    assert len(FUNCTIONS) + len(REFUSED) + len(NEED_A_SIZE) >= 210


def test_every_ufunc_of_numpy_is_in_one_of_the_lists():
    assert _ALL_UFUNCS.keys() - UFUNCS.keys() <= REFUSED_UFUNCS
    assert len(UFUNCS) >= 89


def test_what_is_named_instead_exists_and_is_said_of_functions_that_are_refused():
    refused = REFUSED | REFUSED_UFUNCS
    # Of dates, memory and files there is nothing but what takes the array of a result.
    of_arrays = {name for name in refused if not is_named(name)}
    assert of_arrays == OF_ARRAYS
    assert named_instead() <= refused
    for name in sorted(refused - OF_ARRAYS):
        words = re.findall(r"\bsg\.([a-z_0-9.]*[a-z_0-9])", instead_of(name))
        for word in words:
            assert callable(attrgetter(word)(sg)), (name, word)


@pytest.mark.parametrize("name", sorted(REFUSED & _DISPATCHED.keys()))
def test_a_refused_function_says_what_to_use(name):
    x = sg.placeholder((3, 4))
    with pytest.raises(sg.DTypeError, match=rf"^numpy\.{name}: ") as caught:
        x.__array_function__(_DISPATCHED[name], (Tensor,), (x,), {})
    assert str(caught.value.hint).startswith("use ")
    assert caught.value.source is not None


@pytest.mark.parametrize("name", sorted(REFUSED_UFUNCS & _ALL_UFUNCS.keys()))
def test_a_refused_ufunc_says_what_to_use(name):
    ufunc = _ALL_UFUNCS[name]
    operands = [sg.placeholder((3, 4))] * ufunc.nin
    with pytest.raises(sg.DTypeError, match=rf"^numpy\.{ufunc.__name__}: ") as caught:
        ufunc(*operands)
    assert str(caught.value.hint).startswith("use ")


@pytest.mark.parametrize(("option", "call"), NEED_A_SIZE.values(), ids=NEED_A_SIZE)
def test_a_function_whose_result_has_no_known_size_asks_for_one(option, call):
    with pytest.raises(sg.SymgradError) as caught:
        call(*(sg.placeholder(a.shape, a.dtype) for a in _ARRAYS))
    assert option in str(caught.value.hint)


X = sg.placeholder((3, 4))
W: Any = None  # wrong, also for a type checker


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: np.sin(X, out=np.zeros((3, 4), np.float32)), "numpy.sin: out= has no meaning"),
        (lambda: np.sin(X, where=X > 0), "numpy.sin: where= leaves elements without a value"),
        (lambda: np.sum(X, out=np.zeros(4, np.float32)), "numpy.sum: out= has no meaning"),
        (lambda: np.sum(X, 0, None, np.zeros(4)), "numpy.sum: out= has no meaning"),
        (lambda: np.mean(X, bias=True), "unexpected keyword argument"),  # type: ignore[call-overload]
        (lambda: np.max(X, where=X > 0), "numpy.max: where= leaves nothing to begin with"),
        (lambda: np.where(X > 0), "numpy.where: without x and y the shape"),
        (lambda: np.pad(X, 1, "linear_ramp"), "pad: mode 'linear_ramp' is none of"),
        (lambda: np.pad(X, 1, "mean", stat_length=2), "numpy.pad: stat_length= has no meaning"),
        (lambda: np.meshgrid(X[0], X[0], sparse=True), "numpy.meshgrid: sparse= has no meaning"),
        (lambda: np.delete(X, X[0]), "numpy.delete: the shape of the result would depend"),
        (lambda: np.reshape(X, 12, order=W), "numpy.reshape: order None is neither 'C' nor 'F'"),
        (lambda: np.compress(X[0] > 0, X), "numpy.compress: the shape of the result would depend"),
        (lambda: np.insert(X, X[0] > 0, 1.0), "numpy.insert: the shape of the result would depend"),
        (lambda: np.gradient(X, 1.0, 2.0, axis=0), "numpy.gradient: 2 spacings for 1 axes"),
        (lambda: np.gradient(X[:1], axis=0), "numpy.gradient: axis 0 of f: f32[1, 4] is too short"),
        (lambda: np.gradient(X, edge_order=W), "gradient: edge_order None is neither 1 nor 2"),
        (lambda: np.convolve(X[0], X), "numpy.convolve: v: f32[3, 4] is no vector"),
        (lambda: np.correlate(X[0], X[0], W), "numpy.correlate: mode None is none of valid"),
        (lambda: np.polyval(X, X), "numpy.polyval: p: f32[3, 4] is no vector of coefficients"),
        (lambda: np.partition(X, 4), "numpy.partition: index 4 is outside of axis 1 of size 4"),
        (lambda: np.ravel_multi_index((X.astype(int),) * 2, (3, 5)), "mode 'raise' would look at"),
        (lambda: np.ldexp(X, X), "numpy.ldexp: x2: f32[3, 4] is no integer"),
        (lambda: np.gcd(X, 3), "numpy.gcd: f32[3, 4] is no integer"),
        (lambda: np.unique(X), "numpy.unique: nothing stands for it on a tensor"),
        (lambda: np.linalg.tensorinv(X), "numpy.tensorinv: nothing stands for it on a tensor"),
        *((lambda m=m: np.add.reduceat(X, [0]) if m == "reduceat" else np.add.at(X, 0, 1),
           f"numpy.add: its method {m} has no meaning") for m in ("reduceat", "at")),
    ],
)  # fmt: skip
def test_an_argument_without_a_meaning_is_refused(call, text):
    with pytest.raises((sg.SymgradError, TypeError)) as caught:
        call()
    assert text in str(caught.value)


def test_methods_of_ufuncs():
    with np.errstate(all="ignore"):
        for call in (
            lambda x, y, i, t: np.add.reduce(x),
            lambda x, y, i, t: np.add.reduce(x, axis=None, initial=1.0, where=t),
            lambda x, y, i, t: np.maximum.reduce(x, axis=1, keepdims=True),
            lambda x, y, i, t: np.logical_or.reduce(t, axis=1),
            lambda x, y, i, t: np.multiply.outer(x[0], y[0]),
            lambda x, y, i, t: np.subtract.outer(x[0], y),
            lambda x, y, i, t: np.add(x, y, dtype=np.float64),
            lambda x, y, i, t: np.add(x, y, casting="same_kind", where=True),
        ):
            _assert_agrees(call)
    assert METHODS.keys() == {"reduce", "accumulate", "reduceat", "at", "outer"}


def test_exponents_of_floats_are_exact_at_the_limits():
    for dtype in (np.float32, np.float64):
        limits = np.finfo(dtype)
        given = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.tiny, -1.5, 1.0,
                          limits.smallest_subnormal, -limits.tiny / 8 * 3, 2 - limits.eps,
                          *np.ldexp(1.0, np.arange(-20, 20))], dtype)  # fmt: skip
        x = sg.placeholder(given.shape, dtype)
        found = sg.run([*np.frexp(x), np.spacing(x)], {x: given})
        with np.errstate(all="ignore"):
            expected = [*np.frexp(given), np.spacing(given)]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        powers = np.array([-2200, -1100, -1074, -600, -149, -60, -1, 0, 3, 130, 1000, 2098, 5000])
        with np.errstate(all="ignore"):
            wanted = np.ldexp(given[:, None], powers)
        np.testing.assert_array_equal(sg.run(np.ldexp(x[:, None], powers), {x: given}), wanted)


def test_the_first_number_is_the_greatest_where_it_is_as_small_as_floats_are():
    x = sg.constant([[np.nan, -np.inf, -np.inf], [np.nan, np.nan, np.nan]])
    assert sg.run(sg.nanargmax(x, axis=1)).tolist() == [1, -1]
    assert sg.run(sg.nanargmin(-x, axis=1)).tolist() == [1, -1]
