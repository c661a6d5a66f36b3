"""Examples of docstrings (doctests): what is found in a module, and when a result is as printed.

A result is as printed if its text is, but for white space and for the last digits of floats: these
depend on whether a machine has a fused multiply-add.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np

import symgrad as sg

_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)")
_RTOL, _ATOL = 1e-5, 1e-6


class ResultChecker(doctest.OutputChecker):
    """Compares floats up to rounding and all else exactly; `...` stands for any text."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags | doctest.ELLIPSIS):
            return True
        if _skeleton(want) != _skeleton(got):
            return False
        wanted, found = ([float(number) for number in _FLOAT.findall(text)] for text in (want, got))
        return bool(np.allclose(wanted, found, rtol=_RTOL, atol=_ATOL))


def _skeleton(text: str) -> str:
    """Return text without white space, in which all floats are the same."""
    return re.sub(r"\s", "", _FLOAT.sub("#", text))


@cache
def modules_with_examples() -> tuple[str, ...]:
    """Return the names of the modules of symgrad that have examples in docstrings."""
    found = []
    for module in pkgutil.walk_packages(sg.__path__, "symgrad."):
        specification = importlib.util.find_spec(module.name)
        assert specification is not None
        assert specification.origin is not None
        if ">>> " in Path(specification.origin).read_text(encoding="utf-8"):
            found.append(module.name)
    return tuple(found)


def examples_of(module: ModuleType) -> Iterator[doctest.DocTest]:
    """Yield the examples of a module, one test for each docstring, with `sg` and `np` at hand."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for found in finder.find(module, module.__name__, globs={"sg": sg, "np": np}):
        if found.examples:
            yield found


def example_without_result(docstring: str) -> bool:
    """Say whether no example of a docstring shows a result, so that nothing is asserted."""
    examples = doctest.DocTestParser().get_examples(inspect.cleandoc(docstring))
    return not any(example.want or _asserts(example.source) for example in examples)


def _asserts(source: str) -> bool:
    """Say whether a statement checks something itself, as those of `sg.testing` do."""
    return "sg.testing." in ast.unparse(ast.parse(source))
