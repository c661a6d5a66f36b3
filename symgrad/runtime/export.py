"""Exporting several steps over the same variables as one library."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from symgrad.errors import CompileError, user_source
from symgrad.runtime.aot import write_library
from symgrad.runtime.choices import FORMATS
from symgrad.runtime.step import Step


def export(
    steps: Mapping[str, Step],
    path: str | os.PathLike[str],
    *,
    formats: Sequence[str] = FORMATS,
    target: str | Sequence[str] | None = None,
    sizes: Mapping[str, Mapping[str, int]] | None = None,
) -> tuple[Path, ...]:
    """Write `steps` as one library without Python; steps share the variables they have in common.

    `path` has no suffix; its last part is the name of the library, with which the names of its
    functions in C begin. `formats` are any of "so", a shared library for which the system's `cc`
    is needed, and with it a manifest for `load`; "o", an object file; "h", the header. `target` is
    one that `compile` takes, "aarch64", or several levels of x86-64, of which an instance runs the
    best its CPU has; without it, that of the first step. `sizes` gives the unknown sizes of the
    steps by their names. An instance begins with the values that the variables have now.

    Returns the files written. Raises `CompileError`, with nothing written, for a name that is no
    identifier of C, a size that is not known, a nest or a target that cannot be written, or a
    linker that is missing.

    >>> import pathlib, tempfile
    >>> w, x = sg.variable(1.0, name="w"), sg.placeholder((), name="x")
    >>> train = sg.compile([x], w * x, [(w, w + x)])
    >>> steps = {"train": train, "predict": sg.compile([x], w * x)}
    >>> files = sg.export(steps, pathlib.Path(tempfile.mkdtemp()) / "net", formats=("o", "h"))
    >>> [file.name for file in files]
    ['net.o', 'net.h']
    """
    if not steps:
        raise CompileError("export", "no step was given", source=user_source())
    given = sizes or {}
    foreign = [name for name in given if name not in steps]
    if foreign:
        raise CompileError(
            "export", f"sizes are given for {foreign[0]!r}, which is no step", source=user_source()
        )
    parts = [step.exported(name, given.get(name)) for name, step in steps.items()]
    chosen = parts[0].options.target.name if target is None else target
    return write_library(path, parts, formats, chosen)
