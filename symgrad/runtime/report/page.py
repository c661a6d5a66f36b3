"""The page of a report: what goes on it, and the templates it is poured into.

It is opened to ask where time and memory go, so that is what it begins with; then come the user's
source with what each line costs, the graph, the kernels, the stages side by side, the memory plan
and the decisions of passes. It is one file without links to others: style and scripts are part of
it, and what is shown on demand is compressed (`packing.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from symgrad.display.units import (
    bytes_text,
    count_text,
    rate_text,
    seconds_text,
    share_text,
)
from symgrad.errors import CompileError, user_source
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node
from symgrad.graph.outline import Outline, cut_to, outline_of
from symgrad.graph.types import Array
from symgrad.records import dataclass
from symgrad.runtime.choices import STAGES
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.decisions import describe_decisions
from symgrad.runtime.inspection.host import describe_host
from symgrad.runtime.inspection.kernels import KernelRecord, Kernels, describe_kernels
from symgrad.runtime.inspection.memory import describe_memory
from symgrad.runtime.inspection.profile import KernelTime, Profile, profile
from symgrad.runtime.inspection.step_time import StepTime, measure_step
from symgrad.runtime.provenance import Provenance
from symgrad.runtime.report.memory_chart import HEIGHT, chart_memory
from symgrad.runtime.report.packing import packed, packed_parts, ranges
from symgrad.runtime.report.source_lines import source_files
from symgrad.runtime.stages import parts_of_step

_TEMPLATES = ("page.html", "macros.html", "style.css", "page.js", "graph.js", "stages.js")
_MOST_BOXES = 20_000  # of the graph: what is deeper is left out of the page
_TOP = 8  # kernels on the first screen


@dataclass(frozen=True, slots=True)
class Measured:
    """What a step was measured to take: each call of a kernel, and the whole as it is called."""

    profile: Profile
    step: StepTime

    @property
    def of_limit(self) -> float:
        """How much of what one core can do the step does, in all its kernels."""
        least = sum(row.least_seconds for row in self.profile.rows)
        return least / self.profile.seconds if self.profile.seconds else 0.0


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A kernel on the page: its record, its calls as numbers, and what they take, if measured."""

    record: KernelRecord
    calls: tuple[int, ...]
    time: KernelTime | None


def measure(
    executable: Executable, call: Callable[..., Any], arrays: Sequence[Array], runs: int
) -> Measured:
    """Call the step `runs` times on arrays that are converted for it, and time its kernels."""
    fitting = [np.require(a, a.dtype, ["C", "A", "E"]) for a in arrays]
    kernels = profile(executable, arrays, runs)
    return Measured(kernels, measure_step(executable, call, fitting, runs))


def write_report(
    path: str | os.PathLike[str],
    name: str,
    graph: Graph,
    executable: Executable,
    measured: Measured | None,
) -> None:
    """Write the page to `path`. Raises `CompileError` if the template library is not installed."""
    template = _template()
    kernels = describe_kernels(executable)
    times = measured.profile if measured else None
    entries = _entries(kernels, times)
    provenance = Provenance(executable.program.native_calls, executable.sources, graph)
    outline = cut_to(outline_of(graph), _MOST_BOXES)
    page = template.render(
        name=name,
        graph=graph,
        calls=kernels,
        entries=entries,
        top=[e for e in entries if e.time and e.time.seconds][:_TOP],
        measured=measured,
        host=describe_host(executable.options.target),
        options=executable.options,
        memory=describe_memory(executable),
        chart=chart_memory(executable.program, times),
        chart_height=HEIGHT,
        files=source_files(kernels, times),
        decisions=describe_decisions(executable),
        stages={s: packed_parts(parts_of_step(s, graph, executable)) for s in STAGES},
        shown=("graph", "loops", "asm"),
        outline=packed(_boxes(outline, provenance)),
        told=packed(_told(kernels, times)),
        ranges=ranges,
    )
    Path(path).write_text(page, encoding="utf-8")


def _entries(kernels: Kernels, profile: Profile | None) -> list[KernelEntry]:
    """Return the kernels, equal calls together: the dearest first, in their order if unmeasured."""
    calls: dict[str, list[int]] = {}
    for number, record in enumerate(kernels):
        calls.setdefault(record.name, []).append(number)
    times = {row.kernel.name: row for row in profile.by_kernel} if profile else {}
    entries = [KernelEntry(kernels[c[0]], tuple(c), times.get(name)) for name, c in calls.items()]
    return sorted(entries, key=lambda e: -e.time.seconds if e.time else 0.0)


def _told(kernels: Kernels, profile: Profile | None) -> list[list[str]]:
    """Return what the page says of a call that is chosen: its kernel, what it does and takes."""
    times = [""] * len(kernels)
    if profile is not None:
        times = [f"{seconds_text(r.seconds)}, {share_text(r.share)}" for r in profile.rows]
    return [[r.name, r.label, t, ", ".join(r.lines)] for r, t in zip(kernels, times, strict=True)]


def _boxes(part: Outline | Node, provenance: Provenance) -> dict[str, Any]:
    """Return a box of the graph as JSON: its name, type, kind and calls, and what is in it.

    Kinds are group, op and leaf, by the letters g, o and l.
    """
    if isinstance(part, Node):
        types = ", ".join(str(t.type) for t in part.outputs)
        return {
            "n": part.name or part.op,
            "o": part.op,
            "t": types,
            "k": "l" if part.definition.is_leaf else "o",
            "g": int(part.origin is not None),
            "c": ranges(provenance.calls_of(part)),
            "s": "" if part.source is None else str(part.source),
        }
    children = [_boxes(child, provenance) for child in part.children]
    calls: set[int] = set()
    for op in part.ops:
        calls.update(provenance.calls_of(op))
    return {
        "n": part.name,
        "k": "g",
        "g": int(part.is_gradient),
        "c": ranges(calls),
        "b": children,
        "e": [number for edge in part.edges for number in edge],
    }


def _template() -> Any:
    try:
        from jinja2 import DictLoader, Environment, StrictUndefined
    except ImportError as error:
        raise CompileError(
            "report",
            "the page is made with the library jinja2, which is not installed",
            hint="pip install 'symgrad[report]'",
            source=user_source(),
        ) from error
    folder = resources.files("symgrad.runtime.report")
    sources = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in _TEMPLATES}
    environment = Environment(
        loader=DictLoader(sources),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bytes": bytes_text,
        "count": count_text,
        "seconds": seconds_text,
        "share": share_text,
        "rate": rate_text,
    }
    return environment.get_template("page.html")
