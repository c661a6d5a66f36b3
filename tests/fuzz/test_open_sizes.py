"""Unknown sizes beside known ones: what a step of an open axis does is what one of its size does.

Random programs know their sizes when they are made, where most ops look whether an axis is empty.
Here each row is built twice, with an axis of unknown size and with one of each size, 0 and 1 among
them, and run with its gradient: results are equal, or both are refused by an error of one class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradError
from symgrad.graph.node import Tensor
from tests.support.open_size_rows import ROWS, OpenRow
from tests.support.together import together

_SIZES = (0, 1, 2, 3, 5)


def _name(row: OpenRow) -> str:
    return row.name


def _shape(row: OpenRow, size: int) -> tuple[int, ...]:
    return tuple(n if isinstance(n, int) else size for n in row.shape)


def _graph(
    build: Callable[[Tensor], Tensor], shape: Any, of_each: Callable[[Tensor], Tensor] = sg.sin
) -> tuple[Tensor, list[Tensor]]:
    """Return a placeholder of `shape`, and the result and its gradient, if it has one."""
    x = sg.placeholder(shape, "float64", name="x")
    y = build(x)
    if not y.dtype.is_float:
        return x, [y]
    gradients = sg.gradients(sg.sum(of_each(y)), [x])
    return x, [y, *(g for g in gradients if g is not None)]


def _step(build: Callable[[Tensor], Tensor], shape: Any) -> sg.Step:
    x, results = _graph(build, shape)
    return sg.compile([x], results, opt_level=0)


def _outcome(run: Callable[[], Any]) -> Any:
    """Return the results, or the error."""
    try:
        return run()
    except SymgradError as error:
        return error


def _compare(row: OpenRow, size: int, open_step: sg.Step) -> None:
    shape = _shape(row, size)
    value = np.random.default_rng(size).normal(size=shape)
    wanted = _outcome(lambda: _step(row.build, shape)(value))
    found = _outcome(lambda: open_step(value))
    if isinstance(wanted, SymgradError) or isinstance(found, SymgradError):
        assert type(found) is type(wanted), f"size {size}: {found}, known: {wanted}"
        assert found.subject == wanted.subject, f"size {size}: {found}, known: {wanted}"
        return
    for of_open, of_known in zip(found, wanted, strict=True):
        assert of_open.dtype == of_known.dtype
        np.testing.assert_allclose(of_open, of_known, rtol=1e-12, atol=1e-13, err_msg=str(size))


@together("row", [row for row in ROWS if row.is_quick], ids=_name, at_once=10)
def test_an_open_empty_axis_is_one_of_size_0(row: OpenRow) -> None:
    _compare(row, 0, _step(row.build, row.shape))


def _gradient_is_refused(row: OpenRow, size: int) -> None:
    """Assert that a gradient alone is refused where the op of a known size is.

    That of a sum needs no result, of which it might have the demands.
    """
    shape = _shape(row, size)
    x, results = _graph(row.build, row.shape, sg.negative)
    of_known = _outcome(lambda: _graph(row.build, shape))
    if isinstance(of_known, SymgradError) and len(results) == 2:
        step = sg.compile([x], results[1], opt_level=0)
        found = _outcome(lambda: step(np.zeros(shape)))
        assert isinstance(found, SymgradError), f"size {size}: {found}, known: {of_known}"


@together("row", [row for row in ROWS if row.is_quick], ids=_name, at_once=10)
def test_a_gradient_alone_of_an_open_empty_axis_is_refused_as_well(row: OpenRow) -> None:
    _gradient_is_refused(row, 0)


@pytest.mark.slow
@together("row", ROWS, ids=_name, at_once=20)
def test_a_gradient_alone_of_an_open_axis_is_refused_as_well(row: OpenRow) -> None:
    for size in _SIZES:
        _gradient_is_refused(row, size)


@pytest.mark.slow
@together("row", ROWS, ids=_name, at_once=20)
def test_an_open_axis_is_one_of_its_size(row: OpenRow) -> None:
    open_step = _step(row.build, row.shape)
    for size in _SIZES:
        _compare(row, size, open_step)
