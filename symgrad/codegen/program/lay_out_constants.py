"""Data layout and integer narrowing of constants: they are stored as vectors read them.

    constant0: i64[462, 5] = ...
    launch @k0(constant0, input0, output0)  // for i in 0..462 vector(32) { ... b0[5*i + j] ... }

becomes, if nothing else reads the constant,

    constant0: i16[5, 462] = ...
    launch @k1(constant0, input0, output0)  // for i in 0..462 vector(32) { ... b0[i + 462*j] ... }

A table of places is written as a user thinks of it, a row for each result, and results are what
vectors have. Integers that fit in 16 or 32 bits take a quarter or half of a cache, and so do floats
that are as many of 32 bits, such as signs. How a kernel is changed is in
`schedule/constant_loads.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import Instr, Launch, Program
from symgrad.codegen.program.rewrite_launches import rewrite_launches
from symgrad.codegen.schedule.constant_loads import (
    columns_apart,
    looks_up,
    reads_elements,
    with_columns_apart,
    with_narrow_loads,
)
from symgrad.cost_model import LEAST_FLOATS_NARROWED, LEAST_NARROWED
from symgrad.graph.dtypes import DType, float32, float64, int16, int32, int64
from symgrad.graph.types import Array, ArrayLiteral
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass, replace

# Of each dtype those that may do, the narrowest first, and how many numbers are worth it.
_NARROWER: dict[DType, tuple[tuple[DType, ...], int]] = {
    int64: ((int16, int32), LEAST_NARROWED),
    float64: ((float32,), LEAST_FLOATS_NARROWED),
}
_GATHERED = 4  # bytes of an element at least


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
    """Return `program` with constants of 64 bits that fit in fewer in as few as these need."""
    found: dict[Buffer, tuple[ArrayLiteral, _Change]] = {}
    for buffer, readings in _readings(program).items():
        array = program.constants[buffer.number].array
        near, least = _NARROWER.get(buffer.type.dtype, ((), 0))
        if any(looks_up(r.kernel, r.name) for r in readings):
            # One instruction gathers lanes of four bytes, and none those of two.
            near = tuple(dtype for dtype in near if dtype.itemsize >= _GATHERED)
        if array.size >= least and (fitting := [d for d in near if _fits(array, d)]):
            narrow = ArrayLiteral(array.astype(fitting[0].numpy))
            found[buffer] = narrow, _reader_of_narrow(fitting[0])
    return _with_constants(program, found)


def _fits(array: Array, dtype: DType) -> bool:
    """Return whether each number of a constant is one of `dtype`, to the bit.

    One that is subnormal there takes a processor long, or is 0 where it takes such for that.
    """
    with np.errstate(all="ignore"):
        narrow = array.astype(dtype.numpy)
    if dtype.is_float and np.any((narrow != 0) & (abs(narrow) < np.finfo(narrow.dtype).tiny)):
        return False
    return narrow.astype(array.dtype).tobytes() == array.tobytes()


def _reader_of_narrow(dtype: DType) -> _Change:
    return lambda kernel, name: with_narrow_loads(kernel, name, dtype)


def _reader_of_columns(columns: int) -> _Change:
    return lambda kernel, name: with_columns_apart(kernel, name, columns)


def _readings(program: Program) -> Mapping[Buffer, list[_Reading]]:
    """Return the constants that kernels alone read, whole and element by element, and how."""
    named = {b: n for b, n in program.mentions.items() if b.place == "constant"}
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
