"""Every function and ufunc of NumPy's builds for tensors what it computes, or says what to use."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.frontend.numpy_refusals import METHODS
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.evaluators import evaluate_reference
from tests.support.numpy_calls import (
    FUNCTIONS,
    NEED_A_SIZE,
    REFUSED,
    REFUSED_UFUNCS,
    UFUNCS,
    A,
    B,
    Call,
    I,
    T,
)

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


def _rows(table: dict[str, list[Call]], left_out: set[str]) -> list[Any]:
    return [
        pytest.param(call, id=f"{name}-{place}")
        for name, calls in table.items()
        if name not in left_out
        for place, call in enumerate(calls)
    ]


@pytest.mark.parametrize("call", _rows(FUNCTIONS, REFUSED))
def test_a_function_gives_for_tensors_what_it_gives_for_arrays(call):
    _assert_agrees(call)


@pytest.mark.parametrize("call", _rows(UFUNCS, REFUSED_UFUNCS))
def test_a_ufunc_gives_for_tensors_what_it_gives_for_arrays(call):
    _assert_agrees(call)


def test_every_function_of_numpy_is_in_one_of_the_lists():
    assert not FUNCTIONS.keys() & REFUSED
    assert _DISPATCHED.keys() - FUNCTIONS.keys() - NEED_A_SIZE.keys() <= REFUSED
    assert len(FUNCTIONS) + len(REFUSED) >= 200


def test_every_ufunc_of_numpy_is_in_one_of_the_lists():
    assert _ALL_UFUNCS.keys() - UFUNCS.keys() <= REFUSED_UFUNCS
    assert len(_ALL_UFUNCS) >= 90


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
        (lambda: np.linalg.norm(X), "numpy.norm: nothing stands for it on a tensor"),
        *((lambda m=m: np.add.reduceat(X, [0]) if m == "reduceat" else np.add.at(X, 0, 1),
           f"numpy.add: its method {m} has no meaning") for m in ("reduceat", "at")),
    ],
)  # fmt: skip
def test_an_argument_without_a_meaning_is_refused(call, text):
    with pytest.raises((sg.DTypeError, sg.ShapeError, sg.GraphError, TypeError)) as caught:
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
