"""Subcommand `new`: writes a small project that trains, tests and exports a model.

Its files are in `symgrad/commands/project/`, with `{{name}}` where the name of the project stands.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from symgrad.commands.loading import CommandError, refuse_os_errors

_FILES = {
    "README.md": "README.md.in",
    "Makefile": "Makefile.in",
    "model.py": "model.py.in",
    "train.py": "train.py.in",
    "export.py": "export.py.in",
    "test_model.py": "test_model.py.in",
    ".gitignore": "gitignore.in",
}


def new_text(path: Path) -> str:
    """Write the project `path`, a folder that must not be there; say what is in it and what next.

    Raises `CommandError` for a name that no C library can have, and for a folder that is there.
    """
    name = path.name
    if not (name.isidentifier() and name.isascii()):
        raise CommandError(
            str(path), f"{name!r} is no name of a library", hint="letters, digits and underscores"
        )
    with refuse_os_errors(str(path)):
        if path.exists():
            raise CommandError(str(path), "it is there already")
        path.mkdir(parents=True)
        for file, template in _FILES.items():
            text = _template(template).replace("{{name}}", name)
            (path / file).write_text(text, encoding="utf-8")
    written = "".join(f"  {path / file}\n" for file in _FILES)
    return f"wrote\n{written}next: cd {path} && make train test export\n"


def _template(file: str) -> str:
    folder = resources.files("symgrad.commands") / "project"
    return (folder / file).read_text(encoding="utf-8")
