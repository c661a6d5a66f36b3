"""Module docstrings begin with one short line, and the glossary names terms that modules use.

Whether that line begins with the right term is for whoever reads it; whether a row of
`docs/glossary.md` points at a file that uses the term, and the word that stands for it here, is
checked.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.modules import statements

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "symgrad"
MODULES = sorted(PACKAGE.rglob("*.py"))
GLOSSARY = ROOT / "docs" / "glossary.md"
MAX_LINE = 100

Documented = ast.Module | ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True)
class Row:
    """A row of the glossary: the field's terms, the words used here, and files that use both."""

    terms: tuple[str, ...]
    words: tuple[str, ...]
    files: tuple[Path, ...]


def _rows(text: str) -> list[Row]:
    """Return the rows of all tables of the glossary, without their heads."""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and not {cells[0]} & {"term of the field", "---"}:
            terms, words, files, meaning = cells
            assert meaning, f"{terms} has no meaning"
            paths = re.findall(r"`([\w/]+\.py)`", files)
            rows.append(Row(_parts(terms), _parts(words), tuple(PACKAGE / path for path in paths)))
    return rows


def _parts(cell: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("`") for part in cell.split(","))


def _plain(text: str) -> str:
    """Return text in which neither case, line breaks, backticks nor hyphens make a difference."""
    return " ".join(text.lower().replace("`", "").replace("-", " ").split())


@cache
def _text(path: Path) -> str:
    return _plain(path.read_text(encoding="utf-8"))


@cache
def _docstrings(path: Path) -> str:
    tree = ast.parse(path.read_bytes())
    nodes = (tree, *statements(tree.body))
    return _plain("\n".join(ast.get_docstring(n) or "" for n in nodes if isinstance(n, Documented)))


_HEAD = re.compile(r'(?:#.*\n|\s)*[rR]?""".*?"""', re.DOTALL)


@cache
def _docstring(path: Path) -> str:
    """Return a module's docstring. What is behind it is not parsed, which would take a second."""
    head = _HEAD.match(path.read_text(encoding="utf-8"))
    assert head, f"{path} has no docstring"
    docstring = ast.get_docstring(ast.parse(head[0]), clean=False)
    assert docstring, f"{path} has no docstring"
    return docstring


@cache
def _first_line(path: Path) -> str:
    """Return the first line of a module's docstring, as it stands in the file."""
    return _docstring(path).partition("\n")[0]


ROWS = _rows(GLOSSARY.read_text(encoding="utf-8"))


def test_a_module_begins_with_one_short_line():
    lines = {str(path.relative_to(ROOT)): _first_line(path) for path in MODULES}
    long = {where: line for where, line in lines.items() if len(line) > MAX_LINE}
    assert not long, f"longer than {MAX_LINE} columns: {long}"
    # A sentence, or what a list follows.
    open_ended = {where: line for where, line in lines.items() if not line.endswith((".", ":"))}
    assert not open_ended, f"no sentence: {open_ended}"


def test_no_two_modules_begin_with_the_same_line():
    lines = Counter(map(_first_line, MODULES))
    assert not [line for line, count in lines.items() if count > 1]


def test_a_row_of_a_table_is_read():
    head = "| term of the field | word used here | where | it is |\n| --- | --- | --- | --- |\n"
    file = "codegen/program/plan_memory.py"
    row = f"| live range, lifetime | `Request`, life | `{file}` | From first to last. |"
    found = Row(
        ("live range", "lifetime"),
        ("Request", "life"),
        (PACKAGE / file,),
    )
    assert _rows(f"Words.\n\n{head}{row}\n") == [found]
    assert _plain("An S-T\n minimum `cut`") == _plain("an s-t minimum cut")


def test_the_glossary_lists_a_term_once():
    terms = Counter(term for row in ROWS for term in row.terms)
    assert terms
    assert not [term for term, count in terms.items() if count > 1]


def test_a_term_of_the_glossary_is_used_in_a_docstring_of_its_modules():
    for row in ROWS:
        assert row.files, f"the row of {row.terms} points at no file"
        heads = [_plain(_docstring(path)) for path in row.files]
        others = [term for term in row.terms if not any(_plain(term) in text for text in heads)]
        texts = [_docstrings(path) for path in row.files] if others else []
        missing = [term for term in others if not any(_plain(term) in text for text in texts)]
        assert not missing, f"in no docstring of {[path.name for path in row.files]}: {missing}"


def test_a_word_of_the_glossary_is_used_in_its_modules():
    for row in ROWS:
        texts = [_text(path) for path in row.files]
        missing = [word for word in row.words if not any(_plain(word) in text for text in texts)]
        assert not missing, f"not in {[path.name for path in row.files]}: {missing}"
