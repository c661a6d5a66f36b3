"""Names of symgrad that pages write exist: `sg.nn.relu`, also with arguments, and methods of steps.

So the tables of what is called how elsewhere stay true. What a page says in other words is not
checked; what it says in blocks of code is run (`tests/docs/test_pages.py`).
"""

from __future__ import annotations

import functools
import inspect
import re
from pathlib import Path

import pytest

import symgrad as sg
from tests.docs.test_pages import PAGES
from tests.support.page_blocks import blocks_of

_NAME = re.compile(r"\bsg((?:\.[A-Za-z_]\w*)+)(\([^`]*\))?")
_STEP = re.compile(r"`step\.(?!html|json)(\w+)")  # no name of a file
# What pages show as mistakes, to say how they are told.
MISTAKES = {"reduce_sum"}
_KEYWORD = re.compile(r"(?<![\w=])(\w+)=(?!=)")


def names_in(text: str) -> list[tuple[str, str]]:
    """Return what stands in the code of the prose: dotted names, and what they are called with."""
    prose = text
    for block in blocks_of(text):
        prose = prose.replace(block.text, "")
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose)
    return [(m[1][1:], m[2] or "") for span in spans for m in _NAME.finditer(span)]


def _found(name: str) -> object:
    return functools.reduce(getattr, name.split("."), sg)


def _unknown_keywords(name: str, arguments: str) -> list[str]:
    """Return the keywords of a call, as `epsilon=e`, that the function does not take."""
    function = _found(name)
    if not arguments or not callable(function) or "(" in arguments[1:]:
        return []  # a call within: whose keyword it is cannot be told by looking
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return []
    return [k for k in _KEYWORD.findall(arguments) if k not in {p.name for p in parameters}]


@pytest.mark.parametrize("page", sorted(p for p in PAGES if p != "docs/architecture.md"))
def test_names_that_a_page_writes_exist(page: str) -> None:
    missing = []
    for name, arguments in names_in(PAGES[page]):
        try:
            wrong = _unknown_keywords(name, arguments)
        except AttributeError:
            missing += [f"sg.{name}"] if name not in MISTAKES else []
        else:
            missing += [f"sg.{name} takes no {keyword}=" for keyword in wrong]
    missing += [f"step.{n}" for n in _STEP.findall(PAGES[page]) if not hasattr(sg.Step, n)]
    assert not missing, f"{page} writes {missing}"


@pytest.mark.parametrize("page", [p for p in PAGES if "/coming_from/" in p])
def test_a_table_of_names_is_a_table(page: str) -> None:
    rows = [line for line in PAGES[page].splitlines() if line.startswith("| ")]
    assert len(rows) > 15
    assert len(names_in(PAGES[page])) > 15
    assert Path(page).stem != "index"


def test_a_name_that_does_not_exist_is_found() -> None:
    assert names_in("`sg.nn.relu(x, alpha=1)` and ``sg.x`` and `np.sin`") == [
        ("nn.relu", "(x, alpha=1)")
    ]
    assert _unknown_keywords("nn.relu", "(x, alpha=1)") == ["alpha"]
    assert _unknown_keywords("optim.Adam", "(lr, beta1=b, epsilon=e)") == []
