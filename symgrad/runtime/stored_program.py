"""Compilation cache of whole programs: found by their graph, so that no pass has to run.

    graph of known sizes, options  ->  the name of the code, and what memory it runs on

What is stored is what a step needs to be called. All else that a program is, its kernels, its IR
and where these come from, is made again of the graph when somebody asks. The key is of the graph's
structure, of how it is compiled, and of the files that the compiler consists of.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from symgrad.codegen.llvm.poll import POLL
from symgrad.codegen.native.compiler_version import compiler_version
from symgrad.codegen.native.jit import LoadedCode
from symgrad.codegen.native.machine_code import CodeName, known_code
from symgrad.codegen.native.object_store import EntryKey, digest_of, object_store
from symgrad.codegen.native.objects import made_for
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.polls import is_brief
from symgrad.compiler import Compiled, CompileOptions
from symgrad.config import settings
from symgrad.graph import dtypes
from symgrad.graph.digest import graph_digest
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.graph import Graph
from symgrad.graph.library_functions import function_of
from symgrad.graph.ops.extern import foreign_functions
from symgrad.graph.types import Array, State
from symgrad.passes.table import ALL_PASSES, Options
from symgrad.records import dataclass

_MAX_CONSTANTS = 1 << 20  # bytes: to read more takes as long as to compute it


@dataclass(frozen=True, slots=True, eq=False)
class LoadedProgram:
    """Native code and what memory it runs on: all that it takes to call it.

    `is_polled` says that it asks whether it is to stop, `is_brief` that it takes little time for
    certain. `functions` are those of C that it calls,
    wherever they are in this process.
    """

    code: LoadedCode
    arena_bytes: int
    tapes: int
    is_polled: bool
    is_brief: bool
    constants: tuple[Array, ...]
    variables: tuple[State, ...]
    functions: tuple[ForeignFunction, ...]


def loaded_program(program: Program, compiled: Compiled) -> LoadedProgram:
    """Return what runs a program that was compiled here."""
    return LoadedProgram(
        compiled.code,
        program.arena_bytes,
        len(program.tapes),
        f'@"{POLL}"' in compiled.llvm,
        is_brief(program.instrs, program.routines),
        tuple(literal.array for literal in program.constants),
        tuple(state.whole for state in program.variables),
        program.functions,
    )


def program_key(graph: Graph, options: CompileOptions, passes: Options) -> EntryKey | None:
    """Return what the program of a graph of known sizes is found by.

    None where it is not to be found: without a cache, with passes that are watched or checked, and
    for graphs and compilers of which a digest does not say all.
    """
    is_usual = options.cache and passes == ALL_PASSES and not settings().verify
    if not is_usual or object_store() is None:
        return None
    compiler, structure = compiler_version(), graph_digest(graph)
    if compiler is None or structure is None:
        return None
    how = f"{options.fast_math}, {options.threads}, {options.memory_limit}, {compiler}"
    return EntryKey("step", made_for(options.target, options.opt_level), digest_of(how, structure))


def find_program(
    key: EntryKey, graph: Graph, options: CompileOptions
) -> tuple[LoadedProgram, CodeName] | None:
    """Return the program that another compilation of an equal graph has made, None without."""
    store = object_store()
    found = None if store is None else store.read(key)
    if found is None:
        return None
    record: dict[str, Any] = json.loads(found)
    name = CodeName(record["entry"], options.target, options.opt_level)
    code = known_code(name)
    if code is None:
        return None
    states = _states(graph)
    functions = {function.name: function for function, _ in foreign_functions(graph)}
    program = LoadedProgram(
        code,
        record["arena_bytes"],
        record["tapes"],
        record["is_polled"],
        record["is_brief"],
        tuple(map(_array_of, record["constants"])),
        tuple(states[number] for number in record["variables"]),
        tuple(
            functions.get(name) or function_of(library, name)
            for library, name in record["functions"]
        ),
    )
    return program, name


def keep_program(key: EntryKey, graph: Graph, program: LoadedProgram, name: CodeName) -> None:
    """Keep a program for others that compile an equal graph."""
    store = object_store()
    if store is None or sum(array.nbytes for array in program.constants) > _MAX_CONSTANTS:
        return
    numbers = {state: number for number, state in enumerate(_states(graph))}
    record = {
        "entry": name.entry,
        "arena_bytes": program.arena_bytes,
        "tapes": program.tapes,
        "is_polled": program.is_polled,
        "is_brief": program.is_brief,
        "constants": [*map(_record_of, program.constants)],
        "functions": [[function.library, function.name] for function in program.functions],
        "variables": [numbers[state] for state in program.variables],
    }
    store.write(key, json.dumps(record).encode())


def _states(graph: Graph) -> list[State]:
    return [variable.state for variable in graph.variables]


def _record_of(array: Array) -> Mapping[str, Any]:
    content = base64.b64encode(array.tobytes()).decode()
    return {"dtype": dtypes.as_dtype(array.dtype).short, "shape": array.shape, "bytes": content}


def _array_of(record: Mapping[str, Any]) -> Array:
    content = base64.b64decode(record["bytes"])
    return np.frombuffer(content, dtypes.BY_SHORT[record["dtype"]].numpy).reshape(record["shape"])
