"""The compiler: the whole way from a graph to native code, from top to bottom.

    Graph --as built--> Graph --sizes--> Graph --passes--> Graph --fuse--> Partition
          --lower, schedule kernels--> Program --passes--> Program
          --emit--> LLVM module --optimize, link--> a native function

Between two levels there is one function; within a level, passes are rows of a table:
`GRAPH_PASSES`, `KERNEL_PASSES` and `PROGRAM_PASSES`. What runs code, and owns the memory that it
runs on, is in `symgrad/runtime/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from symgrad.codegen.llvm.linkable import LinkableModule
from symgrad.codegen.llvm.module import STEP, emit_module
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.native.jit import LoadedCode
from symgrad.codegen.native.machine_code import CodeName, code_name, machine_code
from symgrad.codegen.program.build import build_program
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.parse import parse_program
from symgrad.codegen.program.passes import (
    PROGRAM_PASSES,
    ProgramPass,
    Scheduled,
    run_program_passes,
)
from symgrad.codegen.program.print import print_program
from symgrad.codegen.program.source_map import SourceMap
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.passes import KERNEL_PASSES, KernelPass, Machine, print_relocated
from symgrad.codegen.schedule.relocate import Relocated, unmoved
from symgrad.codegen.target import Target
from symgrad.errors import GraphError
from symgrad.graph.graph import Graph
from symgrad.graph.text.parse import parse_graph
from symgrad.passes.fusion.partition import Partition
from symgrad.passes.pipeline import (
    FUSE,
    GRAPH_PASSES,
    SPECIALIZE,
    GraphPass,
    Nesting,
    prepare_graph,
    run_graph_passes,
)
from symgrad.passes.rewrites.rewrite import Decision
from symgrad.passes.table import ALL_PASSES, AnyPass, Options, PassRunner, check_order
from symgrad.records import dataclass

PASSES = (*GRAPH_PASSES, *KERNEL_PASSES, *PROGRAM_PASSES)
check_order(PASSES)

_NO_SIZES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to compile: what `compile` was told."""

    target: Target
    opt_level: int
    fast_math: bool
    cache: bool
    threads: Threads = ONE_THREAD


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A graph behind the passes that run on it as it was built: once for all its sizes.

    `decisions` are what those passes have weighed.
    """

    graph: Graph
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A graph of known sizes: as it was, as passes leave it, and as kernels with their sources."""

    graph: Graph
    optimized: Graph
    program: Program
    sources: SourceMap


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A program as LLVM IR, and as native code in this process; `name` is that of the code."""

    llvm: str
    code: LoadedCode
    name: CodeName


def prepare(graph: Graph, *, passes: Options = ALL_PASSES) -> Prepared:
    """Run the passes over a graph as it was built; its sizes need not be known."""
    decisions: list[Decision] = []
    noting = replace(passes, on_decision=decisions.append)
    prepared = prepare_graph(graph, PassRunner(noting, PASSES))
    return Prepared(prepared, tuple(decisions))


def lower_graph(
    graph: Graph | Prepared,
    options: CompileOptions,
    sizes: Mapping[str, int] = _NO_SIZES,
    *,
    passes: Options = ALL_PASSES,
) -> Lowered:
    """Take a graph, whose unknown sizes are `sizes`, to a program of kernels for a target."""
    runner = PassRunner(replace(passes, fast_math=options.fast_math), PASSES)
    machine = Machine(options.target, options.threads)
    prepared = graph.graph if isinstance(graph, Prepared) else prepare_graph(graph, runner)
    sized = runner.apply(SPECIALIZE, prepared, sizes, is_shown=bool(sizes))
    optimized = run_graph_passes(sized, runner)
    partition = runner.apply(FUSE, optimized, Nesting())
    built = build_program(partition, machine, runner)
    program = run_program_passes(built.program, Scheduled(machine, built.alone), runner)
    return Lowered(sized, optimized, program, built.sources)


def compile_program(program: Program, options: CompileOptions) -> Compiled:
    """Take a program to a native function in this process."""
    target, opt_level = options.target, options.opt_level
    emitted = emit_linkable(program, target)
    name = code_name(emitted, target, opt_level)
    code = machine_code(emitted, target, opt_level, is_shared=options.cache)
    return Compiled(emitted.emitted, code, name)


def emit_linkable(program: Program, target: Target) -> LinkableModule:
    """Emit the module of a program, with the names that its kernels are linked by."""
    names = [kernel.name for kernel in program.kernels]
    return LinkableModule(emit_module(program, target), STEP, names)


# --------------------------------------------------------------------------------- single passes


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

    Raises `GraphError` for a name that is unknown, and for a pass of another level.
    """
    runner = PassRunner(options, PASSES)
    for name in names:
        row = next((row for row in PASSES if row.name == name), None)
        if row is None:
            raise GraphError("passes", f"{name!r} is none of {', '.join(r.name for r in PASSES)}")
        type_, given = _taken_by(row, machine, runner)
        if not isinstance(value, type_):
            raise GraphError("passes", f"{name} does not run on {_level_of(value).name}s")
        value = runner.apply(row, value, given)
    return value


def _level_of(value: object) -> Level:
    return next(level for level in LEVELS if isinstance(value, level.type))


def _taken_by(row: AnyPass, machine: Machine, runner: PassRunner) -> tuple[type, object]:
    """Return of which type a pass takes a value, and what it takes beside it."""
    match row:
        case GraphPass():
            return Graph, runner.rewrites
        case KernelPass():
            return Relocated, machine
        case ProgramPass():
            return Program, Scheduled(machine, {})
        case _:
            between = {SPECIALIZE.name: _NO_SIZES, FUSE.name: Nesting()}
            return Graph, between[row.name]
