"""Register promotion, emission: loops with buffers in registers, and small kernels inlined.

What is in registers while a loop runs was chosen before (`codegen/program/registers.py`); how a
kernel is written out is in `written_out.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.codegen import ir
from symgrad.codegen.llvm.instructions import cycles_in_memory, emit_scan, emit_while
from symgrad.codegen.llvm.place import CodePlace
from symgrad.codegen.llvm.register_file import RegisterFile
from symgrad.codegen.llvm.tape import TapeInRegisters
from symgrad.codegen.program.language import ScanInstr, WhileInstr, calls_of
from symgrad.codegen.program.polls import polls_inside
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import replace

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def emit_loop_function(
    place: CodePlace,
    loop: WhileInstr | ScanInstr,
    pointers: Mapping[Buffer, ir.Value],
    iterations: Mapping[int, ir.Value],
) -> None:
    """Fill a function with `loop`, and around it what is read into registers and written back.

    In a function of its own LLVM has the registers to itself. `pointers` are those of all its
    buffers, `iterations` those of the loops around it. What is in registers is timed from outside;
    a trace has events of the kernels that are called nevertheless.
    """
    builder = place.builder
    tapes = {b: TapeInRegisters(builder, p) for b, p in pointers.items() if b.place == "tape"}
    addresses = replace(place.addresses, pointers=pointers, iterations=iterations, tapes=tapes)
    counted = _count_in_register(place, loop)
    held = (register.buffer for register in loop.registers)
    registers = RegisterFile(builder, place.functions.target, held)
    clock = None if place.clock is None else place.clock.in_registers()
    inside = replace(
        place, addresses=addresses, clock=clock, registers=registers, cycles_left=counted
    )
    for register in loop.registers:
        if register.mode != "local":
            registers.fill(register.buffer, pointers[register.buffer])
    if isinstance(loop, WhileInstr):
        emit_while(inside, loop)
    else:
        emit_scan(inside, loop)
    for register in loop.registers:
        if register.mode == "inout":
            registers.spill(register.buffer, pointers[register.buffer])
    if counted is not None:
        left = builder.load(counted, align=8, typ=_I64)
        builder.store(left, cycles_in_memory(place), align=8)
    builder.ret(_I32(0))


def _count_in_register(place: CodePlace, loop: WhileInstr | ScanInstr) -> ir.Value | None:
    """Return a register with the cycles until the next poll, None if they stay in memory.

    Routines count them in memory. Where the loop ends early, no more is known of the register:
    that only makes another poll come sooner or later.
    """
    if not polls_inside([loop], place.functions.program.polled) or any(calls_of([loop])):
        return None
    register = place.builder.alloca(_I64)
    left = place.builder.load(cycles_in_memory(place), align=8, typ=_I64)
    place.builder.store(left, register, align=8)
    return register
