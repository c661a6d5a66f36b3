"""What the text points at exists: Notes, files and programs it names, links, docstrings.

A Note is a comment that starts with a line holding its heading and nothing else; other places
cite it by that heading. Whether the text is true is not checked here.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import PurePosixPath

import pytest

from tests.support.modules import FOLDERS, MODULES, ROOT, place

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

# A line break inside a comment, with the `#` of the next line.
_BREAK = r"\s+(?:#\s*)?"
_CITATION = re.compile(rf"\bsee{_BREAK}Note{_BREAK}\[(?P<name>[^\]]+)\]", re.IGNORECASE)
_NOTE = re.compile(r"[Nn][Oo][Tt][Ee]")  # what has none is not looked through for either
_HEADING = re.compile(r"^[ \t]*#[ \t]*Note \[(?P<name>[^\]\n]+)\][ \t]*$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)(?:\s+\"[^\"]*\")?\)")
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)
_FILE = re.compile(r"`(?P<path>[\w./]+\*?[\w./]*\.(?:py|sg|md|cfg|toml))`")
_PROGRAM = re.compile(rf"\bpython{_BREAK}-m{_BREAK}(?P<name>(?:symgrad|benchmarks)(?:\.\w+)*)")
FILES = [
    PurePosixPath(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.*"), *(p for f in (*FOLDERS, "docs") for p in (ROOT / f).rglob("*")))
]
FACES = ("symgrad", *(f"symgrad.{name}" for name in ("arrays", "nn", "optim", "testing")))


def _notes_cited(text: str) -> set[str]:
    if not _NOTE.search(text):
        return set()
    return {re.sub(_BREAK, " ", match["name"]) for match in _CITATION.finditer(text)}


def _notes_headed(text: str) -> list[str]:
    if not _NOTE.search(text):
        return []
    # A citation broken before its second word leaves a line that looks like a heading.
    without_citations = _CITATION.sub("", text)
    return [match["name"] for match in _HEADING.finditer(without_citations)]


def _links(text: str) -> list[str]:
    """Return the targets of the links of a document that are files of this repository."""
    targets = [match["target"] for match in _LINK.finditer(_CODE.sub("", text))]
    return [target.partition("#")[0] for target in targets if not _ELSEWHERE.match(target)]


@cache
def _ends_of_paths() -> frozenset[tuple[str, ...]]:
    return frozenset(path.parts[start:] for path in FILES for start in range(len(path.parts)))


@cache
def _is_file(named: str) -> bool:
    """Say whether a file of the repository has this path, or ends with it."""
    if "*" in named:
        return any(path.match(named) for path in FILES)
    return PurePosixPath(named).parts in _ends_of_paths()


def _is_program(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def _is_documented(value: object) -> bool:
    """Say whether `value` has a docstring that someone wrote for it or for its class."""
    docstring = value.__doc__
    if inspect.isclass(value) and dataclasses.is_dataclass(value):
        # What a dataclass without a docstring gets from Python.
        return bool(docstring) and not str(docstring).startswith(f"{value.__name__}(")
    return bool(docstring and docstring.strip())


def test_every_note_cited_has_a_heading_and_only_one():
    texts = {path: path.read_text(encoding="utf-8") for path in MODULES}
    headings = Counter(name for text in texts.values() for name in _notes_headed(text))
    twice = [name for name, count in headings.items() if count > 1]
    missing = [
        f"{place(path)}: Note [{name}]"
        for path, text in texts.items()
        for name in sorted(_notes_cited(text) - headings.keys())
    ]
    assert not twice, f"headed more than once: {twice}"
    assert not missing, f"cited but never headed: {missing}"


def test_a_note_is_found_where_the_comment_breaks():
    text = "# Loops, s" + "ee\n#   Note [Gradient of\n# while], and s" + "ee Note [Tape]."
    assert _notes_cited(text) == {"Gradient of while", "Tape"}
    assert _notes_headed("x = 1\n    # Note [Tape]\n    # A reason.\n") == ["Tape"]
    assert _notes_headed("# Loops: s" + "ee\n# Note [Tape]\n") == []


def test_the_documents_include_a_readme():
    assert ROOT / "README.md" in DOCUMENTS


def test_links_between_files_point_at_files():
    missing = [
        f"{place(path)} links to {target}"
        for path in DOCUMENTS
        for target in _links(path.read_text(encoding="utf-8"))
        if not (path.parent / target).exists()
    ]
    assert not missing, "\n".join(missing)


def test_files_and_programs_that_are_named_exist():
    missing = []
    for path in [*DOCUMENTS, *MODULES]:
        text = path.read_text(encoding="utf-8")
        named = [match["path"] for match in _FILE.finditer(text)]
        run = [match["name"] for match in _PROGRAM.finditer(text)]
        missing += [f"{place(path)} names {file}" for file in named if not _is_file(file)]
        missing += [f"{place(path)} says to run {name}" for name in run if not _is_program(name)]
    assert not missing, "\n".join(missing)


def test_a_file_is_known_by_the_end_of_its_path():
    assert _is_file("passes/fusion/fuse.py")
    assert _is_file("runtime/aot*.py")
    assert not _is_file("passes/infuse.py")
    assert not _is_file("use.py")
    assert _is_program("benchmarks")
    assert not _is_program("benchmarks.nothing")


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_exists_and_has_a_docstring(face):
    module = import_module(face)
    assert module.__all__, f"{face} is empty"
    assert len(set(module.__all__)) == len(module.__all__), "a public name is listed twice"
    bare = [name for name in module.__all__ if not _is_documented(getattr(module, name))]
    assert not bare, f"public names without a docstring: {bare}"
