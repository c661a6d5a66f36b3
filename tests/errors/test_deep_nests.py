"""Nests that are too deep for recursion: the call, the argument, how deep it is, the line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.refusals import assert_refused

LIMIT = f"recursion goes {sys.getrecursionlimit():,} calls deep"


def deep(levels: int) -> Any:
    value: Any = np.float32(1.0)
    for _ in range(levels):
        value = [value]
    return value


def in_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


X = sg.placeholder((3,), name="x")
P = sg.placeholder((), "bool", name="p")
THOUSANDS = partial(deep, 3000)
REFUSED: dict[str, Callable[[], Any]] = {
    "add: x is nested 3,000 deep": lambda: sg.add(deep(3000), 1.0),
    "concat: arrays is nested 3,000 deep": lambda: sg.concat(deep(3000)),
    "scan: a value is nested 3,000 deep": lambda: sg.scan(lambda c, x: (c, x), deep(3000), X),
    "map: a value is nested 4,000 deep": lambda: sg.map(lambda x: x, deep(4000)),
    "cond: a value is nested 3,000 deep": lambda: sg.cond(P, THOUSANDS, THOUSANDS),
    "compile: a value is nested 3,000 deep": lambda: sg.compile([X], deep(3000)),
    "nest: a value is nested 3,000 deep": lambda: sg.grad(lambda x: 0.0)(deep(3000)),
    "multiply: y is nested 100,000 or more deep": lambda: sg.multiply(X, in_itself()),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_nested_too_deep_is_named(text: str) -> None:
    assert_refused(REFUSED[text], ValueError, f"""
        {text}, and {LIMIT}
          --> <here>
    """)  # fmt: skip


def test_a_recursion_without_end_of_the_users_is_left_as_it_is() -> None:
    def again(x: Any) -> Any:
        return again(x)

    with pytest.raises(RecursionError):
        sg.cond(P, lambda: again(X), lambda: X)
