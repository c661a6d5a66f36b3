"""The registry of public names: every name that users reach from `sg`, with what it stands for.

It is read off the package itself: the names of `symgrad.__all__`, those of each module among them,
and the methods and properties of each class. The reference pages are made from it, and tests ask it
what must have a docstring and an example.
"""

from __future__ import annotations

import enum
import functools
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # a script is given the folder it lies in


@dataclass(frozen=True)
class PublicName:
    """A name as users write it, such as `sg.nn.relu` or `sg.Step.ir`, and what it stands for."""

    name: str
    value: Any

    @property
    def docstring(self) -> str:
        return inspect.getdoc(self.value) or ""

    @property
    def is_callable(self) -> bool:
        return callable(self.value)

    @property
    def is_constant(self) -> bool:
        """Whether it is a value, such as a dtype or pi, and no class, function or property."""
        return not (
            self.is_callable or isinstance(self.value, property | functools.cached_property)
        )


def faces() -> dict[str, ModuleType]:
    """Return the modules users know by what they write: `sg`, `sg.nn`, `sg.nn.init`, ..."""
    import symgrad

    found = {"sg": symgrad}
    pending = ["sg"]
    while pending:
        face = pending.pop()
        for name in found[face].__all__:
            value = getattr(found[face], name)
            if inspect.ismodule(value):
                found[f"{face}.{name}"] = value
                pending.append(f"{face}.{name}")
    return dict(sorted(found.items()))


def names_of(face: str, module: ModuleType) -> list[PublicName]:
    """Return the public names of a module that are no modules themselves."""
    values = {name: getattr(module, name) for name in module.__all__}
    return [
        PublicName(f"{face}.{name}", value)
        for name, value in sorted(values.items())
        if not inspect.ismodule(value)
    ]


def members_of(owner: PublicName) -> list[PublicName]:
    """Return the public methods and properties of a class that are symgrad's own."""
    found: dict[str, Any] = {}
    for base in reversed(owner.value.__mro__):
        if base.__module__.startswith("symgrad"):
            found |= {n: v for n, v in vars(base).items() if _is_member(n, v)}
    if issubclass(owner.value, enum.Enum):
        return []
    if _is_named_tuple(owner.value):
        return []
    return [PublicName(f"{owner.name}.{name}", _bare(found[name])) for name in sorted(found)]


def public_names() -> Iterator[PublicName]:
    """Yield every public name, once for each place it is found at, and the members of classes."""
    for face, module in faces().items():
        for name in names_of(face, module):
            yield name
            if inspect.isclass(name.value):
                yield from members_of(name)


def _is_member(name: str, value: Any) -> bool:
    kinds = (property, functools.cached_property, staticmethod, classmethod)
    return not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))


def _is_named_tuple(owner: type) -> bool:
    return issubclass(owner, tuple) and hasattr(owner, "_fields")


def _bare(value: Any) -> Any:
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value


def main() -> None:
    """Print the names that have no example."""
    for name in public_names():
        if name.is_callable and ">>>" not in name.docstring:
            print(name.name)


if __name__ == "__main__":
    main()
