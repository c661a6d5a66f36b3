"""The example of `docs/linalg.md` runs, and its table has every function of `sg.linalg`."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np

import symgrad as sg

_TEXT = (Path(__file__).parents[2] / "docs" / "linalg.md").read_text(encoding="utf-8")


def test_the_example_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", _TEXT, re.DOTALL)
    names: dict[str, Any] = {"sg": sg}
    exec(block, names)
    a, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    loss, of_a, of_b = names["step"](a, b)
    inverse = np.linalg.inv(a)
    np.testing.assert_allclose(loss, b @ inverse @ b / 2 + np.log(np.linalg.det(a)) / 2)
    np.testing.assert_allclose(of_b, inverse @ b)
    outer = np.outer(inverse @ b, inverse @ b)
    np.testing.assert_allclose(of_a, (inverse - outer) / 2, atol=1e-12)


def test_the_table_has_every_function() -> None:
    names = set(re.findall(r"`(\w+)[(`]", _TEXT.partition("## Where")[0]))
    functions = {n for n in sg.linalg.__all__ if not inspect.isclass(getattr(sg.linalg, n))}
    assert functions <= names
