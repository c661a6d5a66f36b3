"""Single passes: the text of a value of any level is read, taken through passes by name, printed.

It is what golden files and the command line ask for. The whole way is in `compiler.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from symgrad.codegen.contract.panel_width import panel_bytes
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.parse import parse_program
from symgrad.codegen.program.passes import ProgramPass, Scheduled
from symgrad.codegen.program.print import print_program
from symgrad.codegen.schedule.passes import KernelPass, Machine, print_relocated
from symgrad.codegen.schedule.relocate import Relocated, unmoved
from symgrad.compiler import NO_SIZES, PASSES
from symgrad.errors import GraphError
from symgrad.graph.graph import Graph
from symgrad.graph.text.parse import parse_graph
from symgrad.passes.fusion.partition import Partition
from symgrad.passes.pipeline import FUSE, SPECIALIZE, GraphPass, Nesting
from symgrad.passes.table import ALL_PASSES, AnyPass, Options, PassRunner
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Level:
    """What a program is at some point of its way: a line of its text begins with the name.

    There is nothing to `parse` the text of a level that no pass starts from.
    """

    name: str
    type: type
    print: Callable[[Any], str]
    parse: Callable[[str], Any] | None = None


LEVELS = (
    Level("graph", Graph, str, parse_graph),
    Level("partition", Partition, str),
    Level("kernel", Relocated, print_relocated, lambda text: unmoved(parse_kernel(text))),
    Level("program", Program, print_program, parse_program),
)


def parse_level(text: str) -> Any:
    """Return what `text` states, of the last level that a line of it begins with the name of.

    Kernels stand before their program. Raises `GraphError` for text of no level that is read.
    """
    parsers = {level.name: level.parse for level in LEVELS if level.parse is not None}
    for name in reversed(parsers):
        if re.search(rf"^\s*{name}\s+@", text, re.MULTILINE):
            return parsers[name](text)
    begins = text.split(maxsplit=1)[:1]
    raise GraphError("passes", f"the text begins with {begins}, none of {', '.join(parsers)}")


def print_level(value: object) -> str:
    """Return the text of a value of some level."""
    return _level_of(value).print(value)


def run_passes(
    value: Any, names: Iterable[str], machine: Machine, *, options: Options = ALL_PASSES
) -> Any:
    """Return what the passes `names` make of a value of some level, once each, in this order.

    What a pass knows of the kernels it made, those behind it are told: "leave-out-zeros" and
    "fuse-batches" go on from the products of "fuse-products" in front of them.

    Raises `GraphError` for a name that is unknown, and for a pass of another level.
    """
    told = replace(options, panel_bytes=panel_bytes(machine.target))
    runner, scheduled = PassRunner(told, PASSES), Scheduled(machine, {})
    for name in names:
        row = next((row for row in PASSES if row.name == name), None)
        if row is None:
            raise GraphError("passes", f"{name!r} is none of {', '.join(r.name for r in PASSES)}")
        type_, given = _taken_by(row, scheduled, runner)
        if not isinstance(value, type_):
            raise GraphError("passes", f"{name} does not run on {_level_of(value).name}s")
        value = runner.apply(row, value, given)
    return value


def _level_of(value: object) -> Level:
    return next(level for level in LEVELS if isinstance(value, level.type))


def _taken_by(row: AnyPass, scheduled: Scheduled, runner: PassRunner) -> tuple[type, object]:
    """Return of which type a pass takes a value, and what it takes beside it."""
    match row:
        case GraphPass():
            return Graph, runner.rewrites
        case KernelPass():
            return Relocated, scheduled.machine
        case ProgramPass():
            return Program, scheduled
        case _:
            between = {SPECIALIZE.name: NO_SIZES, FUSE.name: Nesting()}
            return Graph, between[row.name]
