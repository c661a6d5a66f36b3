"""The page of a report: what goes on it, and the template it is poured into.

The page holds every stage of a step side by side, the kernels as table and picture, the arena over
time and, if there are arrays to run it on, its profile. It is one file without links to others:
style and script are part of the template, `page.html`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from symgrad.errors import CompileError, user_source
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.decisions import describe_decisions
from symgrad.runtime.inspection.kernels import describe_kernels
from symgrad.runtime.inspection.memory import describe_memory
from symgrad.runtime.inspection.profile import Profile
from symgrad.runtime.report.drawings import BOX, draw_arena, draw_calls
from symgrad.runtime.stages import Part

_DRAWN = 400  # calls: a picture of more of them shows nothing


def write_report(
    path: str | os.PathLike[str],
    name: str,
    executable: Executable,
    stages: Mapping[str, Sequence[Part]],
    measured: Profile | None,
) -> None:
    """Write the page to `path`. Raises `CompileError` if the template library is not installed."""
    page = _template().render(
        name=name,
        target=executable.options.target.name,
        nodes=len(executable.graph.nodes),
        kernels=describe_kernels(executable),
        memory=describe_memory(executable),
        decisions=describe_decisions(executable),
        stages=stages,
        shown=("graph", "loops", "asm"),
        picture=draw_calls(executable.program.launches) if _is_drawn(executable) else None,
        box=BOX,
        arena=draw_arena(executable.program),
        profile=measured,
        slowest=sorted(measured.rows, key=lambda row: -row.seconds) if measured else (),
    )
    Path(path).write_text(page, encoding="utf-8")


def _is_drawn(executable: Executable) -> bool:
    return len(executable.program.launches) <= _DRAWN


def _template() -> Any:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise CompileError(
            "report",
            "the page is made with the library jinja2, which is not installed",
            hint="pip install 'symgrad[report]'",
            source=user_source(),
        ) from error
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = resources.files("symgrad.runtime.report").joinpath("page.html")
    return environment.from_string(source.read_text(encoding="utf-8"))
