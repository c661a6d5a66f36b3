"""Register promotion, emission: loops with buffers in registers, and small kernels inlined.

What is in registers while a loop runs was chosen before (`codegen/program/registers.py`); how a
kernel is written out is in `written_out.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from symgrad.codegen.llvm.instructions import InstrEmitter
from symgrad.codegen.llvm.register_file import RegisterFile
from symgrad.codegen.llvm.tape import TapeInRegisters
from symgrad.codegen.llvm.written_out import emit_written_out
from symgrad.codegen.program.language import (
    Argument,
    Launch,
    ScanInstr,
    Slice,
    WhileInstr,
    calls_of,
)
from symgrad.codegen.program.polls import polls_inside
from symgrad.codegen.program.registers import is_written_out
from symgrad.passes.fusion.buffers import Buffer

_I32, _I64 = ir.IntType(32), ir.IntType(64)


class LoopEmitter(InstrEmitter):
    """Emits a loop into a function of its own, in which LLVM has the registers to itself."""

    def emit_loop(
        self,
        loop: WhileInstr | ScanInstr,
        pointers: Mapping[Buffer, ir.Value],
        iterations: Mapping[int, ir.Value],
    ) -> None:
        """Emit `loop`, and around it what is read into registers and written back.

        `pointers` are those of all its buffers, `iterations` those of the loops around it.
        """
        self._clock = None  # what is in registers is timed from outside
        addresses = self._addresses
        addresses.pointers.update(pointers)
        addresses.iterations.update(iterations)
        for buffer, pointer in pointers.items():
            if buffer.place == "tape":
                addresses.tapes[buffer] = TapeInRegisters(self._builder, pointer)
        self._counted = self._count_in_register(loop)
        held = (register.buffer for register in loop.registers)
        self._registers = RegisterFile(self._builder, self._target, held)
        for register in loop.registers:
            if register.mode != "local":
                self._registers.fill(register.buffer, pointers[register.buffer])
        if isinstance(loop, WhileInstr):
            self._emit_while(loop)
        else:
            self._emit_scan(loop)
        for register in loop.registers:
            if register.mode == "inout":
                self._registers.spill(register.buffer, pointers[register.buffer])
        if self._counted is not None:
            left = self._builder.load(self._counted, align=8, typ=_I64)
            self._builder.store(left, super()._cycles_left(), align=8)
        self._builder.ret(_I32(0))

    def _count_in_register(self, loop: WhileInstr | ScanInstr) -> ir.Value | None:
        """Return a register with the cycles until the next poll, None if they stay in memory.

        Routines count them in memory. Where the loop ends early, no more is known of the register:
        that only makes another poll come sooner or later.
        """
        polled = self._functions.polled
        if not polls_inside([loop], polled) or any(calls_of([loop])):
            return None
        register = self._builder.alloca(_I64)
        left = self._builder.load(super()._cycles_left(), align=8, typ=_I64)
        self._builder.store(left, register, align=8)
        return register

    def _cycles_left(self) -> ir.Value:
        return super()._cycles_left() if self._counted is None else self._counted

    def _scalar(self, argument: Argument) -> ir.Value:
        if isinstance(argument, Buffer) and argument in self._registers:
            return self._registers.load(argument, [0])
        return super()._scalar(argument)

    def _set_count(self, count: Buffer, value: ir.Value) -> None:
        if count in self._registers:
            self._registers.store(count, [0], value)
        else:
            super()._set_count(count, value)

    def _emit_launch(self, launch: Launch) -> None:
        if not is_written_out(launch.kernel, self._target.vector_bytes):
            super()._emit_launch(launch)
            return
        addresses = self._addresses
        emit_written_out(
            self._builder, launch, addresses.of, self._registers, addresses.watch, self._target
        )

    def _reserve(self, tapes: Sequence[Slice], slices: ir.Value) -> None:
        for tape in tapes:
            assert isinstance(tape.stack, Buffer), "a tape is a buffer"
            held = self._addresses.tapes[tape.stack]
            size = self._builder.mul(slices, _I64(tape.type.nbytes))
            with self._builder.if_then(held.is_too_small(size), likely=False):
                super()._reserve([tape], slices)
                held.read()
