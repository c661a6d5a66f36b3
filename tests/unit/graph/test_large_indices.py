"""Indices of uint64 beyond int64 are out of range for all that reads indices, on every floor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.run import ProgramInterpreter
from symgrad.graph.reference import evaluate
from tests.support.floors import TARGETS, program_for, run_everywhere

_HUGE = [2**64 - 1, 2**63, 2**64 - 3]  # -1, the least int64 and -3, if their bits were int64
_X = sg.constant(np.arange(12, dtype=np.float32).reshape(4, 3))


def _array() -> sg.TensorArray:
    return sg.TensorArray(4, (3,), "float32").unstack(_X)


def _ones(index: sg.Tensor) -> sg.Tensor:
    return sg.expand_dims(index, axis=0)


def _gradient(index: sg.Tensor) -> sg.Tensor:
    (gradient,) = sg.gradients(sg.sum(sg.take(_X, index, axis=0) ** 2), _X)
    assert gradient is not None
    return gradient


_READERS: dict[str, Callable[[sg.Tensor], sg.Tensor]] = {
    "take": lambda i: sg.take(_X, i, axis=0),
    "take of the last axis": lambda i: sg.take(_X, i, axis=1),
    "take of all": lambda i: sg.take(_X, i),
    "take_along_axis": lambda i: sg.take_along_axis(_X, sg.broadcast_to(i, (4, 1)), axis=1),
    "brackets": lambda i: _X[i],
    "brackets of two": lambda i: _X[sg.constant(1), i],
    "brackets of one and a slice": lambda i: _X[1:, i],
    "scatter_add": lambda i: sg.scatter_add(_X, _ones(i), sg.ones((1, 3))),
    "TensorArray.read": lambda i: _array().read(i),
    "TensorArray.gather": lambda i: _array().gather(_ones(i)),
    "TensorArray.write": lambda i: _array().write(i, sg.ones((3,))).stack(),
    "TensorArray.scatter": lambda i: _array().scatter(_ones(i), sg.ones((1, 3))).stack(),
    "cross_entropy": lambda i: sg.nn.cross_entropy(_X, sg.broadcast_to(i, (4,))),
    "a gradient of take": _gradient,
}


_OUTSIDE = "index 9223372036854775807 is out"


@pytest.mark.parametrize("reader", _READERS)
def test_an_index_beyond_int64_is_out_of_range_on_every_floor(reader):
    index = sg.placeholder((), sg.uint64)
    graph = sg.Graph(_READERS[reader](index), [index])
    steps = [sg.compile([index], graph.outputs[0], target=target) for target in TARGETS]
    for given in (np.array(value, np.uint64) for value in _HUGE):
        with pytest.raises(sg.IndexOutOfRangeError, match=_OUTSIDE):
            evaluate(graph, [given])
        assert ProgramInterpreter(program_for(graph), [given]).run() != 0
        for step in steps:
            with pytest.raises(sg.IndexOutOfRangeError, match=_OUTSIDE):
                step(given)
    assert run_everywhere(graph, [np.array(2, np.uint64)]) is None


@pytest.mark.parametrize("value", _HUGE)
def test_what_takes_any_number_takes_one_beyond_int64_for_none_of_its_own(value):
    index = sg.placeholder((), sg.uint64)
    chosen = sg.switch_case(index, [partial(sg.constant, n) for n in (1.0, 2.0, 3.0)])
    (count,) = sg.while_loop(
        lambda n: n < 5, lambda n: (n + 1,), (sg.constant(0),), maximum_iterations=index
    )
    graph = sg.Graph([sg.one_hot(index, 4), chosen, count], [index])
    given = [np.array(value, np.uint64)]
    assert run_everywhere(graph, given) is None
    hot, branch, iterations = evaluate(graph, given)[0]
    assert not hot.any()
    assert (float(branch), int(iterations)) == (3.0, 5)


@pytest.mark.parametrize("value", _HUGE)
def test_an_index_beyond_int64_that_is_known_is_out_of_range_when_it_is_built(value):
    for index in (value, np.uint64(value), np.array([value], np.uint64), [value]):
        with pytest.raises(sg.IndexOutOfRangeError, match=rf"index {value} is outside of axis 0"):
            sg.take(_X, index, axis=0)
        with pytest.raises(sg.IndexOutOfRangeError, match=rf"index {value} is outside of axis 0"):
            _X[index]


def test_a_known_index_beyond_int64_of_an_axis_of_unknown_size_is_out_of_range_when_it_runs():
    x = sg.placeholder((None,))
    y = sg.take(x, np.array([2**64 - 1], np.uint64))
    with pytest.raises(sg.IndexOutOfRangeError, match=_OUTSIDE):
        sg.compile([x], y)(np.ones(3, np.float32))
