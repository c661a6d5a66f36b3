"""Operand addressing: the table, arena, stack or tape in which a call reads and writes.

    i32 @step(ptr inputs, ptr outputs, ptr state)

`state` is a table: the arena, the watch (`poll.py`), which also receives an index found out of
range, then the variables, the constants, the tapes, and the addresses of functions of C. Where a
temporary lies in the arena has been decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from symgrad.codegen import ir
from symgrad.codegen.llvm.tape import TapeInRegisters
from symgrad.codegen.program.language import Argument, Program
from symgrad.passes.fusion.buffers import Buffer, BufferPlace
from symgrad.records import dataclass, replace

ARENA_SLOT, WATCH_SLOT, FIRST_VARIABLE_SLOT = 0, 1, 2

_I64, _PTR, _BYTE = ir.IntType(64), ir.PointerType(), ir.IntType(8)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Gives the addresses of arguments in a function of the type of the step, or of a routine.

    That has no tables of inputs and outputs, but as many of each as `arity` says, as parameters.
    `pointers` are those of buffers, `iterations` says which one each loop around is in, and `tapes`
    are those that are not read from memory.
    """

    builder: ir.IRBuilder
    program: Program
    arity: tuple[int, int] | None
    state: ir.Value
    watch: ir.Value
    arena: ir.Value
    pointers: Mapping[Buffer, ir.Value] = field(default_factory=dict)
    iterations: Mapping[int, ir.Value] = field(default_factory=dict)
    tapes: Mapping[Buffer, TapeInRegisters] = field(default_factory=dict)

    @staticmethod
    def of_function(
        builder: ir.IRBuilder, program: Program, arity: tuple[int, int] | None
    ) -> Addresses:
        """Return those at the start of a function: of no buffer yet, and in no loop."""
        state: ir.Value = builder.function.args[2 if arity is None else sum(arity)]
        watch, arena = (_slot(builder, state, number) for number in (WATCH_SLOT, ARENA_SLOT))
        return Addresses(builder, program, arity, state, watch, arena)

    def located(self, buffers: Iterable[Buffer]) -> Addresses:
        """Read the pointers of `buffers`, once, at the start: no call changes a table."""
        pointers = {buffer: self._locate(buffer) for buffer in dict.fromkeys(buffers)}
        return replace(self, pointers=pointers)

    def inside(self, loop: int, iteration: ir.Value) -> Addresses:
        """Return the addresses in an iteration of the loop with that number."""
        return replace(self, iterations={**self.iterations, loop: iteration})

    def of(self, argument: Argument, start: int = 0) -> ir.Value:
        """Return the address of element `start` of an argument."""
        pointer = self._pointer(argument)
        if not start:
            return pointer
        return self.builder.byte_offset(pointer, _I64(start * argument.type.dtype.itemsize))

    def _pointer(self, argument: Argument) -> ir.Value:
        if isinstance(argument, Buffer):
            return self.pointers[argument]
        place = self.iterations[argument.loop]
        offset = self.builder.mul(place, _I64(argument.type.nbytes))
        stack = argument.stack
        if isinstance(stack, Buffer) and stack.place == "tape":
            memory = self._tape_memory(stack)
        else:
            memory = self._pointer(stack)
        return self.builder.gep(memory, [offset], inbounds=True, source_etype=_BYTE)

    def _tape_memory(self, tape: Buffer) -> ir.Value:
        """Return where the memory of a tape is just now: it moves when it grows."""
        if tape in self.tapes:
            return self.tapes[tape].memory()
        return self.builder.load(self.pointers[tape], align=8, typ=_PTR)

    def _locate(self, buffer: Buffer) -> ir.Value:
        if buffer.place == "temporary":
            return self.builder.byte_offset(self.arena, _I64(self.program.offsets[buffer]))
        if self.arity is not None and buffer.place in ("input", "output"):
            before = self.arity[0] if buffer.place == "output" else 0
            return self.builder.function.args[before + buffer.number]
        return _slot(self.builder, self.table(buffer.place), slot_of(self.program, buffer))

    def table(self, place: BufferPlace) -> ir.Value:
        """Return the table that has the pointers of buffers; there are such in no routine."""
        number = {"input": 0, "output": 1}.get(place)
        return self.state if number is None else self.builder.function.args[number]

    def symbol(self, name: str) -> ir.Value:
        """Return the address of a function of C, or of another symbol of a library."""
        program = self.program
        names = [function.name for function in program.functions]
        held = len(program.variables) + len(program.constants) + len(program.tapes)
        return _slot(self.builder, self.state, FIRST_VARIABLE_SLOT + held + names.index(name))


def slot_of(program: Program, buffer: Buffer) -> int:
    """Return at which place of its table the pointer of a buffer is."""
    variables, constants = len(program.variables), len(program.constants)
    match buffer.place:
        case "variable":
            return FIRST_VARIABLE_SLOT + buffer.number
        case "constant":
            return FIRST_VARIABLE_SLOT + variables + buffer.number
        case "tape":
            return FIRST_VARIABLE_SLOT + variables + constants + buffer.number
        case _:
            return buffer.number


def _slot(builder: ir.IRBuilder, table: ir.Value, number: int) -> ir.Value:
    place = builder.gep(table, [_I64(number)], inbounds=True, source_etype=_PTR)
    return builder.load(place, align=8, typ=_PTR)
