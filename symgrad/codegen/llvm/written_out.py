"""Kernels that are written out where they are called, on buffers in registers and in memory.

Every loop is unrolled: an index into a register has to be a number. What is computed in which lanes
stays as the schedule of the kernel says, so the results are those of the kernel as a function.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.llvm.kernels import emit_body
from symgrad.codegen.llvm.place import CodePlace
from symgrad.codegen.llvm.register_file import RegisterFile
from symgrad.codegen.llvm.scope import Held, WrittenOut, kernel_scope
from symgrad.codegen.program.language import Launch
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import replace


def emit_written_out(place: CodePlace, launch: Launch, registers: RegisterFile) -> None:
    """Emit the kernel of `launch` in its place, with what it can have from `registers`."""
    held: dict[str, Held] = {}
    pointers: dict[str, ir.Value] = {}
    for param, argument, start in zip(
        launch.kernel.params, launch.arguments, launch.starts, strict=True
    ):
        if isinstance(argument, Buffer) and argument in registers:
            held[param.name] = Held(argument, start)
        else:
            pointers[param.name] = place.addresses.of(argument, start)
    written_out = WrittenOut(registers, held, place.addresses.watch, launch.statuses)
    scope = kernel_scope(place.builder, launch.kernel, pointers, place.functions.target)
    emit_body(replace(scope, written_out=written_out), launch.kernel.body)
