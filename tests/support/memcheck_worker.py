"""A process that has valgrind's memcheck run random programs, as machine code of no optimization.

    python -m tests.support.memcheck_worker control 100 200

prints what `fuzz_worker` prints. The programs are compiled here and linked into one library; what
runs under valgrind is a small program in C (`memcheck_driver.c`) that loads it. Memory that no step
wrote is undefined, so memcheck also sees a branch that depends on it.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from symgrad.codegen.llvm.addresses import FIRST_VARIABLE_SLOT
from symgrad.codegen.llvm.module import STEP, emit_module
from symgrad.codegen.llvm.poll import WATCH_WORDS
from symgrad.codegen.llvm.tape import TAPE_BYTES
from symgrad.codegen.native.jit import emit_object, optimize
from symgrad.codegen.program.language import Program
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, Prepared, lower_graph
from symgrad.graph.graph import Graph, specialize
from symgrad.graph.reference import bind_sizes
from symgrad.graph.types import Array
from tests.support.floors import Tolerance, agree, coarsest, is_unstable, run_reference
from tests.support.fuzz_families import FAMILIES
from tests.support.guard_pages import temporaries_apart

# Valgrind knows no instructions of AVX-512, and not every form of those of AVX.
OPTIONS = CompileOptions(target_named("x86-64-v3"), opt_level=0, fast_math=False, cache=False)
PLAIN = replace(OPTIONS, target=target_named("x86-64"))
_UNKNOWN = "Illegal opcode"
VALGRIND = ("valgrind", "-q", "--leak-check=full", "--error-exitcode=9", "--max-threads=20")

_UNDEFINED, _GIVEN, _TAPE, _FUNCTION = range(4)


def write_program(
    folder: Path,
    seed: int,
    graph: Graph,
    inputs: Sequence[Array],
    options: CompileOptions = OPTIONS,
) -> None:
    """Write the object file of a program, and what it is given."""
    with temporaries_apart():
        program = lower_graph(Prepared(graph), options).program
    module = optimize(str(emit_module(program, options.target)), options.target, 0)
    image = folder / f"{seed}.o"
    image.write_bytes(emit_object(module, options.target, 0))
    symbol = f"step_{seed}"
    rename = ("objcopy", f"--redefine-sym={STEP}={symbol}", f"--keep-global-symbol={symbol}")
    subprocess.run([*rename, str(image)], check=True)
    (folder / f"{seed}.in").write_bytes(b"".join(_tables(program, inputs)))


def _numbers(*values: int) -> bytes:
    return struct.pack(f"={len(values)}q", *values)


def _given(array: Array) -> bytes:
    content = np.ascontiguousarray(array).tobytes()
    return _numbers(len(content), _GIVEN) + content


def _function(name: str) -> bytes:
    return _numbers(len(name), _FUNCTION) + name.encode()


def _undefined(size: int) -> bytes:
    return _numbers(size, _UNDEFINED)


def _tables(program: Program, inputs: Sequence[Array]) -> Iterator[bytes]:
    """Yield the tables of inputs, outputs and state, and where temporaries lie in the arena."""
    yield _numbers(len(inputs))
    yield from map(_given, inputs)
    yield _numbers(len(program.outputs))
    yield from (_undefined(t.nbytes) for t in program.outputs)
    variables = [_given(state.array) for state in program.variables]
    constants = [_given(literal.array) for literal in program.constants]
    tapes = [_numbers(TAPE_BYTES, _TAPE)] * len(program.tapes)
    state = [_undefined(program.arena_bytes), _given(np.zeros(WATCH_WORDS, np.int64))]
    assert len(state) == FIRST_VARIABLE_SLOT, "what is in front of the variables has changed"
    state += [*variables, *constants, *tapes]
    state += [_function(function.name) for function in program.functions]
    yield _numbers(len(state))
    yield from state
    scratch = {routine.scratch for routine in program.routines}
    own = [buffer for buffer in program.offsets if buffer not in scratch]
    yield _numbers(len(own))
    yield from (_numbers(program.offsets[b], b.type.nbytes) for b in own)


def run_programs(folder: Path, seeds: Sequence[int]) -> dict[int, str]:
    """Run the programs that are written; return what memcheck says of each, if anything."""
    source = Path(__file__).with_name("memcheck_driver.c")
    library, driver = folder / "programs.so", folder / "driver"
    objects = [str(folder / f"{seed}.o") for seed in seeds]
    subprocess.run(["gcc", "-shared", "-o", str(library), *objects, "-lm"], check=True)
    subprocess.run(["gcc", "-O1", "-g", "-o", str(driver), str(source), "-ldl"], check=True)
    command = [*VALGRIND, str(driver), str(folder), *map(str, seeds)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    said: dict[int, list[str]] = defaultdict(list)
    seed = seeds[0]
    for line in found.stderr.splitlines():
        text = re.sub(r"^(\*\*|==)\d+(\*\*|==) ", "", line)
        if match := re.fullmatch(r"program (\d+)", text):
            seed = int(match[1])
        elif text != "status 0":
            said[seed].append(text)
    if found.returncode and not said:
        said[seed].append(f"valgrind ended with status {found.returncode}")
    return {seed: "\n".join(lines) for seed, lines in said.items()}


def run_all(folder: Path, programs: Mapping[int, tuple[Graph, list[Array]]]) -> dict[int, str]:
    """Run the programs that are written, one after another whatever becomes of those before.

    One with an instruction that valgrind does not know is compiled for the oldest machine.
    """
    said: dict[int, str] = {}
    left, plain = list(programs), set[int]()
    while left:
        found = run_programs(folder, left)
        left = [seed for seed in left if not (folder / f"{seed}.out").exists()]
        if left and left[0] not in plain and _UNKNOWN in found.get(left[0], ""):
            plain.add(left[0])
            del found[left[0]]
            write_program(folder, left[0], *programs[left[0]], PLAIN)
        else:
            left = left[1:]
        said |= found
    return said


def wrong_results(results: Path, graph: Graph, inputs: Sequence[Array], slack: float) -> str:
    """Return which result of a program differs from the reference, '' if none does."""
    wanted, content = run_reference(graph, inputs), results.read_bytes()
    tolerance = Tolerance(slack, coarsest(graph))
    start = 0
    for number, array in enumerate(wanted.outputs):
        piece = content[start : start + array.nbytes]
        found = np.frombuffer(piece, array.dtype).reshape(array.shape)
        start += array.nbytes
        if not agree(found, array, tolerance):
            what = f"output {number} is {found}, not {array}\n{graph}"
            return "" if is_unstable(graph, inputs, slack) else what
    return ""


def main(name: str, first: str, end: str) -> None:
    """Run the programs of the seeds from `first` up to `end`."""
    family, programs = FAMILIES[name], {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for seed in range(int(first), int(end)):
            print("run", seed, flush=True)
            try:
                graph, inputs = family.program(seed)
                graph = specialize(graph, bind_sizes(graph, inputs))
                write_program(folder, seed, graph, inputs)
                programs[seed] = graph, inputs
            except Exception:
                _complain(seed, traceback.format_exc())
        for seed, text in run_all(folder, programs).items():
            _complain(seed, f"{text}\n{programs.pop(seed)[0]}")
        for seed, (graph, inputs) in programs.items():
            _complain(seed, wrong_results(folder / f"{seed}.out", graph, inputs, family.slack))
    print("done", flush=True)


def _complain(seed: int, text: str) -> None:
    if text:
        print("wrong", seed, json.dumps(text), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
