"""Ahead-of-time compilation: steps as an object file, a shared library and a C header.

Everything is made in a folder of its own beside the result and renamed into place when all of it is
there. What lies where and what is called how, `codegen/c_interface/abi.py` plans;
`runtime/library.py` runs a library in Python.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from symgrad.codegen.c_interface.abi import (
    FUNCTIONS,
    MPI_FUNCTIONS,
    Interface,
    StepPrograms,
    is_identifier,
    pattern_symbols,
    plan_interface,
)
from symgrad.codegen.c_interface.module import emit_interface
from symgrad.codegen.llvm.module import STEP, emit_module
from symgrad.codegen.native.jit import emit_object, optimize
from symgrad.codegen.program.polls import is_brief
from symgrad.codegen.target import Target, target_named, without_matrix_unit
from symgrad.codegen.target_attributes import bind_functions
from symgrad.codegen.team.fork import TEAM_FUNCTIONS, emit_team
from symgrad.compiler import CompileOptions, Lowered, Prepared, lower_graph
from symgrad.errors import CompileError, user_source
from symgrad.frontend.nests import Nest
from symgrad.frontend.sparse_tensor import patterns_of
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node
from symgrad.graph.ops.numeric_checks import check_numerics_op, checked_by
from symgrad.graph.structures import Extern, KernelSpec, checked_axes
from symgrad.records import dataclass, replace
from symgrad.runtime.aot_header import print_header
from symgrad.runtime.aot_manifest import (
    Failure,
    StepRecord,
    describe_library,
    digest_of,
    make_manifest,
    print_manifest,
)
from symgrad.runtime.choices import FORMATS
from symgrad.runtime.executable import failing_axis

_BASES = {"x86_64": "x86-64", "aarch64": "aarch64"}
_COMPILERS = {"x86_64": "x86_64-linux-gnu-gcc", "aarch64": "aarch64-linux-gnu-gcc"}


@dataclass(frozen=True, slots=True, eq=False)
class ExportedStep:
    """A step to export: a graph of known sizes, and how it is called."""

    name: str
    graph: Graph
    options: CompileOptions
    input_nest: Nest
    output_nest: Nest


def write_library(
    path: str | os.PathLike[str],
    steps: Sequence[ExportedStep],
    formats: Sequence[str],
    target: str | Sequence[str],
) -> tuple[Path, ...]:
    """Write `path` with the suffix of each of `formats`, and the manifest of a library.

    Returns what was written. Raises `CompileError`, with nothing written, for what `export` says.
    """
    stem = Path(path)
    targets = _checked_targets(target)
    _check_names(stem.name, [s.name for s in steps], formats)
    folder = stem.resolve().parent
    if not folder.is_dir():
        raise _refuse(f"there is no folder {folder}")
    interface, programs = _plan(stem.name, steps, targets)
    _check_functions(interface)
    _check_shards(interface)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=folder) as scratch:
        made = Path(scratch) / stem.name
        if "h" in formats:
            made.with_suffix(".h").write_text(print_header(interface), encoding="utf-8")
        description: dict[str, Any] = {}
        if "so" in formats:
            records = [_record(s, p[0]) for s, p in zip(steps, programs, strict=True)]
            description = describe_library(interface, records, targets)
        if "o" in formats or "so" in formats:
            image = _object(interface, steps, programs, targets, digest_of(description))
            made.with_suffix(".o").write_bytes(image)
        if "so" in formats:
            _link(made, targets[0].architecture, interface)
            manifest = make_manifest(description, made.with_suffix(".so"))
            made.with_suffix(".json").write_text(print_manifest(manifest))
        wanted = (*formats, "json") if "so" in formats else formats
        files = [made.with_suffix(f".{suffix}") for suffix in wanted]
        return tuple(file.replace(folder / file.name) for file in files)


# --------------------------------------------------------------------------------- arguments


def _refuse(problem: str, hint: str | None = None) -> CompileError:
    return CompileError("export", problem, hint=hint, source=user_source())


def _checked_targets(names: str | Sequence[str]) -> tuple[Target, ...]:
    """Return the targets, ascending; several must be different levels of one architecture."""
    listed = [names] if isinstance(names, str) else list(names)
    if not listed:
        raise _refuse("no target was given")
    # A process may use a matrix unit if it has asked for it, which a library does not.
    portable = (without_matrix_unit(target_named(name)) for name in listed)
    targets = sorted(portable, key=lambda t: t.level)
    levels = [t.level for t in targets]
    if len(targets) > 1 and (0 in levels or len(set(levels)) < len(levels)):
        raise _refuse(f"targets {', '.join(listed)} are not different levels of x86-64")
    return tuple(targets)


def _check_names(name: str, steps: Sequence[str], formats: Sequence[str]) -> None:
    unknown = [f for f in formats if f not in FORMATS]
    if unknown or not formats or isinstance(formats, str):
        raise _refuse(f"formats {formats!r} are none of {', '.join(FORMATS)}")
    for what, given in (
        ("the name of the file", name),
        *(("the name of a step", s) for s in steps),
    ):
        if not is_identifier(given):
            raise _refuse(f"{what}, {given!r}, becomes part of names in C and is no identifier")
    taken = [s for s in steps if s.removesuffix("_run") in (*FUNCTIONS, *MPI_FUNCTIONS)]
    taken += [s for s in steps if s.removesuffix("_run") != s and s.removesuffix("_run") in steps]
    if taken:
        raise _refuse(f"a step cannot be called {taken[0]!r}: a function of the library is")


def _check_functions(interface: Interface) -> None:
    """Raise `CompileError` for a name in C that would be there twice."""
    own = {f"{interface.name}_{s.name}{end}" for s in interface.steps for end in ("", "_run")}
    for step in interface.steps:
        for slot in step.sparse_outputs:
            for name in own.intersection(pattern_symbols(interface.name, step.name, slot)):
                raise _refuse(f"a step and the pattern of {slot.name} would both be called {name}")
    names = (f.name for f in interface.functions if f.name.startswith(f"{interface.name}_"))
    for name in names:
        rest = name.removeprefix(f"{interface.name}_")
        if rest.removesuffix("_run") in (
            *FUNCTIONS,
            *MPI_FUNCTIONS,
            *(step.name for step in interface.steps),
        ):
            raise _refuse(f"extern {name} has the name of a function of the library")


def _check_shards(interface: Interface) -> None:
    """Raise `CompileError` for parts of a rank where no communicator tells whose library it is."""
    for name in interface.ranks.keys() - {group.lineage[-1] for group in interface.groups}:
        problem = f"variables are the parts of one rank of {name}, on which no step calls"
        raise _refuse(problem, "export it with a step that does")


# ---------------------------------------------------------------------------------- planning


def _plan(
    name: str, steps: Sequence[ExportedStep], targets: Sequence[Target]
) -> tuple[Interface, list[tuple[Lowered, ...]]]:
    built, parts = [], []
    for step in steps:
        options = [replace(step.options, target=t) for t in targets]
        of_step = tuple(lower_graph(Prepared(step.graph), o) for o in options)
        symbols = tuple(f"{name}.{step.name}.{number}" for number in range(len(targets)))
        failures = [made.sources.failures for made in of_step]
        assert all(f.keys() == failures[0].keys() for f in failures), (
            f"the statuses of {step.name} depend on the target"
        )
        messages = {status: f.message for status, f in _failures(of_step[0]).items()}
        built.append(of_step)
        programs = tuple(made.program for made in of_step)
        patterns = patterns_of(step.output_nest)
        graph = of_step[0].graph
        parts.append(StepPrograms(step.name, graph, programs, symbols, messages, patterns))
    return plan_interface(name, [t.level for t in targets], parts), built


def _failures(lowered: Lowered) -> dict[int, Failure]:
    """Return what can fail, by the statuses of the program."""
    return {
        status: _failure(node, spec)
        for status, (node, spec) in lowered.sources.failures.items()
        if checked_axes(spec) or isinstance(spec, Extern)
    }


def _failure(node: Node, spec: KernelSpec | None) -> Failure:
    if isinstance(spec, Extern):
        return Failure(f"extern {spec.function.name}", None, node.source)
    if node.definition is check_numerics_op:
        return Failure(node.op, None, node.source, checked_by(node))
    return Failure(node.called, failing_axis(node, spec), node.source)


def _record(step: ExportedStep, lowered: Lowered) -> StepRecord:
    program = lowered.program
    brief = is_brief(program.instrs, program.routines)
    return StepRecord(step.name, step.input_nest, step.output_nest, _failures(lowered), brief)


# ----------------------------------------------------------------------------------- emitting


def _object(
    interface: Interface,
    steps: Sequence[ExportedStep],
    programs: Sequence[Sequence[Lowered]],
    targets: Sequence[Target],
    manifest: str,
) -> bytes:
    """Return the object file of the interface and all implementations.

    Each implementation is optimized by itself, as a compiled step is, so that it computes the
    same bits; only the machine code of all is made at once. Threads are those of one team, which
    the oldest of the machines can run.
    """
    base = target_named(_BASES[targets[0].architecture])
    context = llvm.create_context()
    joined = optimize(str(emit_interface(interface, base.triple, manifest)), base, 2, context)
    if interface.is_threaded:
        team = emit_team("team", base, interface.threads, is_exported=True)
        joined.link_in(optimize(str(team), base, 2, context))
    opt_levels = [step.options.opt_level for step in steps]
    for planned, of_step, opt_level in zip(interface.steps, programs, opt_levels, strict=True):
        rows = zip(planned.implementations, of_step, targets, strict=True)
        for implementation, built, target in rows:
            emitted = emit_module(built.program, target)
            bind_functions(emitted, target)
            part = optimize(str(emitted), target, opt_level, context)
            part.triple, part.data_layout = joined.triple, joined.data_layout
            part.get_function(STEP).name = implementation.symbol
            joined.link_in(part)
            joined.get_function(implementation.symbol).linkage = "internal"
    for name in TEAM_FUNCTIONS if interface.is_threaded else ():
        joined.get_function(name).linkage = "internal"
    return emit_object(joined, base, max(opt_levels))


def _link(made: Path, architecture: str, interface: Interface) -> None:
    """Make a shared library of the object `made`.o by the system's C compiler.

    What is undefined in it but functions of C, which are the host's to provide, is refused.
    """
    is_native = target_named("native").architecture == architecture
    compiler = "cc" if is_native else _COMPILERS[architecture]
    if shutil.which(compiler) is None:
        raise _refuse(
            f"a shared library is linked by {compiler}, which is not installed",
            hint='formats=("o", "h") needs no linker',
        )
    library = made.with_suffix(".so")
    command = [compiler, "-shared", "-o", str(library), f"{made}.o", "-lm"]
    if not interface.functions:
        command.append("-Wl,-z,defs")
    if interface.is_threaded:
        command.append("-lpthread")  # a library of its own where the C library is old
    import subprocess  # a hundredth of what importing symgrad would take

    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _refuse(f"{compiler} failed: {done.stderr.strip()}")
