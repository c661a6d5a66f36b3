"""Subcommands that show a step: its stages, what passes do to it, times, page and timeline."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from symgrad.commands.loading import CommandError, Loaded, refuse_os_errors
from symgrad.compiler import lower_graph
from symgrad.passes.table import Options


def inspect_text(loaded: Loaded, stage: str | None, kernel: str | None) -> str:
    """Return the text of a stage; without one, the tables of kernels and of memory."""
    _meet_sizes(loaded)
    if stage is not None or kernel is not None:
        return loaded.step.ir(stage or "loops", kernel)
    return f"{loaded.step!r}\n\n{loaded.step.kernels}\n\n{loaded.step.memory}\n"


def passes_text(loaded: Loaded) -> str:
    """Return the graph as it was built, and what each pass makes of it, its kernels and program."""
    _meet_sizes(loaded)
    step = loaded.step
    texts = [("as it was built", str(step.graph))]
    passes = Options(print_after=lambda *given: texts.append(given))
    executable = step.executable
    lower_graph(step.graph, executable.options, executable.sizes, passes=passes)
    return "\n".join(_changed(texts))


def _changed(texts: list[tuple[str, str]]) -> Iterator[str]:
    before = ""
    for name, text in texts:
        if text == before:
            yield f"// after {name}: nothing changed\n"
        else:
            yield f"// after {name}\n{text}" if before else f"// {name}\n{text}"
        before = text


def diff_text(a: Loaded, b: Loaded, stage: str | None, kernel: str | None) -> str:
    """Return the differences of a stage of two steps, as unified diff; empty if there are none."""
    texts = [inspect_text(loaded, stage or "loops", kernel) for loaded in (a, b)]
    before, after = (text.splitlines(keepends=True) for text in texts)
    return "".join(difflib.unified_diff(before, after, a.name, b.name))


def profile_text(loaded: Loaded, repeat: int) -> str:
    """Return the table of a step's times."""
    return f"{loaded.step.profile(*loaded.arguments(), repeat=repeat)}\n"


def write_page(loaded: Loaded, path: Path) -> str:
    """Write the page of a step, with a profile if there are arrays; say how large it is."""
    _meet_sizes(loaded)
    with refuse_os_errors(str(path)):
        loaded.step.report(path, *(loaded.arrays or ()))
        return f"{path}: {path.stat().st_size:,} bytes\n"


def write_timeline(loaded: Loaded, path: Path) -> str:
    """Write the timeline of one step on its arrays; say how large it is."""
    arrays = loaded.arguments()
    with refuse_os_errors(str(path)):
        loaded.step.trace(path, *arrays)
        return f"{path}: {path.stat().st_size:,} bytes\n"


def _meet_sizes(loaded: Loaded) -> None:
    """Run a step whose sizes the call decides, so that it is compiled for some."""
    if any(not t.type.is_static for t in loaded.step.graph.inputs):
        if loaded.arrays is None:
            raise CommandError(
                loaded.name,
                "sizes of the step are not known until it is called, and there are no arrays",
                hint="return the step and a list of arrays: `return step, [x, y]`",
            )
        loaded.call()
