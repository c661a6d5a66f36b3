"""A class name has one meaning in the whole package, private or not, and no alias has it too."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.support.modules import MODULES, place, statements


def _classes(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the classes of a file, at any depth."""
    return (s.name for s in statements(tree.body) if isinstance(s, ast.ClassDef))


def _aliases(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a file that are assigned, or imported under another name."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (a.asname for a in names if a.asname and a.asname != a.name)
            case _:
                pass


def names_used_twice(files: dict[str, str]) -> list[str]:
    """Return a line for each class whose name is that of another class, or of an alias."""
    trees = {name: ast.parse(text) for name, text in files.items()}
    classes: dict[str, list[str]] = {}
    for file, tree in trees.items():
        for name in _classes(tree):
            classes.setdefault(name, []).append(file)
    for file, tree in trees.items():
        for name in _aliases(tree):
            if name in classes:
                classes[name].append(file)
    return [f"{name}: {', '.join(where)}" for name, where in classes.items() if len(where) > 1]


_CLASS = re.compile(r"^\s*class (\w+)", re.MULTILINE)
_NAMED = re.compile(r"^(\w+(?: = \w+)*)(?: =|:)|\bas (\w+)", re.MULTILINE)


def suspects(files: dict[str, str]) -> dict[str, str]:
    """Return the files that may have a name used twice: to parse all files takes seconds."""
    classes = {file: _CLASS.findall(text) for file, text in files.items()}
    count = Counter(name for names in classes.values() for name in names)
    others = {
        file: {name for found in _NAMED.findall(text) for name in "".join(found).split(" = ")}
        for file, text in files.items()
    }
    twice = {name for name, times in count.items() if times > 1}
    twice |= count.keys() & set[str]().union(*others.values())
    return {file: text for file, text in files.items() if twice & (others[file] | {*classes[file]})}


def test_class_names_are_unique():
    texts = {place(path): path.read_text(encoding="utf-8") for path in MODULES}
    package = {at: text for at, text in texts.items() if at.startswith("symgrad/")}
    assert not names_used_twice(suspects(package))


def test_two_classes_of_one_name_are_found():
    files = {
        "a.py": "class A: ...\nclass B:\n    class _C: ...\n",
        "b.py": "def f():\n    class A: ...\n",
        "c.py": "B = int\n_C: object = 3\nD = A = 1\n",
        "d.py": "from x import y as B, A\nimport D\n",
    }
    assert suspects({**files, "e.py": "class E: ...\nimport y as F\n"}) == files
    assert names_used_twice(files) == [
        "A: a.py, b.py, c.py",
        "B: a.py, c.py, d.py",
        "_C: a.py, c.py",
    ]
