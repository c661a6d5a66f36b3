"""Data layout and integer narrowing of constants: they are stored as vectors read them.

    constant0: i64[462, 5] = ...
    launch @k0(constant0, input0, output0)  // for i in 0..462 vector(32) { ... b0[5*i + j] ... }

becomes, if nothing else reads the constant,

    constant0: i32[5, 462] = ...
    launch @k1(constant0, input0, output0)  // for i in 0..462 vector(32) { ... b0[i + 462*j] ... }

A table of places is written as a user thinks of it, a row for each result, and results are what
vectors have. Integers of 64 bits that fit in 32 take half of a cache, and a gather takes places of
32 bits as they are. How a kernel is changed is in `schedule/constant_loads.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import Instr, Launch, Program, buffers_of
from symgrad.codegen.program.rewrite_launches import rewrite_launches
from symgrad.codegen.schedule.constant_loads import (
    columns_apart,
    reads_elements,
    with_columns_apart,
    with_narrow_loads,
)
from symgrad.cost_model import LEAST_NARROWED
from symgrad.graph.dtypes import int64
from symgrad.graph.types import ArrayLiteral
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass, replace

_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A parameter of a kernel that a constant is the argument for."""

    kernel: Kernel
    name: str


# How a kernel reads a parameter that is stored otherwise.
_Change = Callable[[Kernel, str], Kernel]


def lay_out_constants(program: Program) -> Program:
    """Return `program` with columns of constants one behind another where vectors go along them."""
    columns = {
        buffer: ways.pop()
        for buffer, readings in _readings(program).items()
        if len(ways := {columns_apart(r.kernel, r.name) for r in readings}) == 1
    }
    found = {}
    for buffer, count in columns.items():
        if count is not None:
            turned = program.constants[buffer.number].array.reshape(-1, count).T
            found[buffer] = ArrayLiteral(turned), _reader_of_columns(count)
    return _with_constants(program, found)


def narrow_constants(program: Program) -> Program:
    """Return `program` with integers of 32 bits for those constants of 64 that fit in them."""
    found: dict[Buffer, tuple[ArrayLiteral, _Change]] = {}
    for buffer in _readings(program):
        array = program.constants[buffer.number].array
        is_long = buffer.type.dtype == int64 and array.size >= LEAST_NARROWED
        if is_long and array.min() >= _INT32.min and array.max() <= _INT32.max:
            found[buffer] = ArrayLiteral(array.astype(np.int32)), with_narrow_loads
    return _with_constants(program, found)


def _reader_of_columns(columns: int) -> _Change:
    return lambda kernel, name: with_columns_apart(kernel, name, columns)


def _readings(program: Program) -> Mapping[Buffer, list[_Reading]]:
    """Return the constants that kernels alone read, whole and element by element, and how."""
    named = Counter(b for b in buffers_of(program.all_instrs) if b.place == "constant")
    found: dict[Buffer, list[_Reading]] = {}
    for launch in program.launches if named else ():
        read = _constants_of(launch)
        if read and reads_elements(launch.kernel):
            for number, buffer in read.items():
                reading = _Reading(launch.kernel, launch.kernel.params[number].name)
                found.setdefault(buffer, []).append(reading)
    return {b: readings for b, readings in found.items() if len(readings) == named[b]}


def _constants_of(launch: Launch) -> dict[int, Buffer]:
    """Return the constants among the arguments of a launch that its kernel has whole."""
    params = launch.kernel.params
    return {
        number: argument
        for number, argument in enumerate(launch.arguments)
        if isinstance(argument, Buffer) and argument.place == "constant"
        if not launch.starts[number] and params[number].count == argument.type.count
    }


def _with_constants(
    program: Program, found: Mapping[Buffer, tuple[ArrayLiteral, _Change]]
) -> Program:
    """Return `program` with other constants, and kernels that read these."""
    names = KernelNames(program.kernels)
    places = {b: Buffer(b.place, b.number, literal.type) for b, (literal, _) in found.items()}

    def changed(launch: Launch) -> Launch:
        kernel, arguments = launch.kernel, list(launch.arguments)
        for number, buffer in _constants_of(launch).items():
            if buffer in found:
                kernel = found[buffer][1](kernel, kernel.params[number].name)
                arguments[number] = places[buffer]
        if kernel is launch.kernel:
            return launch
        came_of = launch.fused or (launch,)
        kernel = names.shared(kernel)
        return replace(launch, kernel=kernel, arguments=tuple(arguments), fused=came_of)

    def rewrite(instrs: list[Instr]) -> None:
        instrs[:] = [changed(i) if isinstance(i, Launch) else i for i in instrs]

    if not found:
        return program
    literals = {buffer.number: literal for buffer, (literal, _) in found.items()}
    constants = tuple(literals.get(i, literal) for i, literal in enumerate(program.constants))
    return replace(rewrite_launches(program, names, rewrite), constants=constants)
