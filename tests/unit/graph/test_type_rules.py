"""Type rules of ops that public functions call with what fits: they say what does not, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import symgrad as sg
from symgrad.errors import SymgradError
from symgrad.graph.ops.ordering import search
from symgrad.graph.ops.picking import pick

ROWS = sg.placeholder((2, 3), name="rows")
MIDDLE: Any = "middle"  # what a type checker would refuse first


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: search(ROWS, sg.zeros((4, 5)), "left"),
            "search: sizes differ: 2 in axis 0 of rows: f32[2], 4 in axis 0 of queries: f32[4]",
        ),
        (lambda: search(ROWS, sg.zeros(5), "left"), "search: ranks differ: rows: f32[2, 3]"),
        (lambda: search(ROWS, ROWS.astype("float64"), "left"), "queries: f64[2, 3] are looked for"),
        (lambda: search(ROWS, ROWS, MIDDLE), "side 'middle' is neither 'left' nor 'right'"),
        (lambda: pick(ROWS, sg.zeros(4, "int64")), "sizes differ: 2 in axis 0 of rows without"),
        (lambda: pick(ROWS, sg.zeros(2, "int32")), "pick: index: i32[2] is not int64"),
        (lambda: sg.cov(ROWS, fweights=[0.5, 1.0, 2.0]), "cov: fweights: f32[3] is no integer"),
        (lambda: sg.cov(ROWS, aweights=[[1.0]]), "cov: aweights: f32[1, 1] is no vector"),
    ],
)
def test_what_does_not_fit_is_named(call: Callable[[], object], text: str) -> None:
    with pytest.raises(SymgradError) as caught:
        call()
    assert text in str(caught.value)
