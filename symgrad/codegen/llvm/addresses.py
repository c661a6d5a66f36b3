"""Operand addressing: the table, arena, stack or tape in which a call reads and writes.

    i32 @step(ptr inputs, ptr outputs, ptr state)

`state` is a table: the arena, the watch (`poll.py`), which also receives an index found out of
range, then the variables, the constants and the tapes. Where a temporary lies in the arena has been
decided.
"""

from __future__ import annotations

from collections.abc import Iterable

from llvmlite import ir

from symgrad.codegen.llvm.tape import TapeInRegisters
from symgrad.codegen.program.language import Argument, Program
from symgrad.passes.fusion.buffers import Buffer

ARENA_SLOT, WATCH_SLOT, FIRST_VARIABLE_SLOT = 0, 1, 2

_I64, _PTR, _BYTE = ir.IntType(64), ir.PointerType(), ir.IntType(8)


class Addresses:
    """Gives the addresses of arguments in a function of the type of the step, or of a routine.

    That has no tables of inputs and outputs, but as many of each as `arity` says, as parameters.
    `pointers` are those of buffers, `iterations` says which one each loop around is in, and `tapes`
    are those that are not read from memory.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        program: Program,
        function: ir.Function,
        arity: tuple[int, int] | None = None,
    ) -> None:
        self._builder = builder
        self._program = program
        self._arguments = function.args
        self._arity = arity
        self.state: ir.Value = function.args[2 if arity is None else sum(arity)]
        self.pointers: dict[Buffer, ir.Value] = {}
        self.iterations: dict[int, ir.Value] = {}
        self.tapes: dict[Buffer, TapeInRegisters] = {}
        self.watch = self._slot(self.state, WATCH_SLOT)
        self._arena = self._slot(self.state, ARENA_SLOT)

    def locate(self, buffers: Iterable[Buffer]) -> None:
        """Read the pointers of `buffers`, once, at the start: no call changes a table."""
        for buffer in buffers:
            if buffer not in self.pointers:
                self.pointers[buffer] = self._locate(buffer)

    def of(self, argument: Argument, start: int = 0) -> ir.Value:
        """Return the address of element `start` of an argument."""
        pointer = self._pointer(argument)
        if not start:
            return pointer
        offset = _I64(start * argument.type.dtype.itemsize)
        return self._builder.gep(pointer, [offset], inbounds=True, source_etype=_BYTE)

    def _pointer(self, argument: Argument) -> ir.Value:
        if isinstance(argument, Buffer):
            return self.pointers[argument]
        place = self.iterations[argument.loop]
        offset = self._builder.mul(place, _I64(argument.type.nbytes))
        stack = argument.stack
        if isinstance(stack, Buffer) and stack.place == "tape":
            memory = self._tape_memory(stack)
        else:
            memory = self._pointer(stack)
        return self._builder.gep(memory, [offset], inbounds=True, source_etype=_BYTE)

    def _tape_memory(self, tape: Buffer) -> ir.Value:
        """Return where the memory of a tape is just now: it moves when it grows."""
        if tape in self.tapes:
            return self.tapes[tape].memory()
        return self._builder.load(self.pointers[tape], align=8, typ=_PTR)

    def _locate(self, buffer: Buffer) -> ir.Value:
        match buffer.place:
            case "input":
                return self._parameter(0, buffer.number)
            case "output":
                return self._parameter(1, buffer.number)
            case "variable":
                return self._slot(self.state, FIRST_VARIABLE_SLOT + buffer.number)
            case "constant":
                first = FIRST_VARIABLE_SLOT + len(self._program.variables)
                return self._slot(self.state, first + buffer.number)
            case "tape":
                program = self._program
                first = FIRST_VARIABLE_SLOT + len(program.variables) + len(program.constants)
                return self._slot(self.state, first + buffer.number)
            case "temporary":
                offset = _I64(self._program.offsets[buffer])
                return self._builder.gep(self._arena, [offset], inbounds=True, source_etype=_BYTE)

    def _parameter(self, table: int, number: int) -> ir.Value:
        """Return the address of an input, in table 0 or its place, or of an output, in table 1."""
        if self._arity is None:
            return self._slot(self._arguments[table], number)
        return self._arguments[number + table * self._arity[0]]

    def _slot(self, table: ir.Value, number: int) -> ir.Value:
        place = self._builder.gep(table, [_I64(number)], inbounds=True, source_etype=_PTR)
        return self._builder.load(place, align=8, typ=_PTR)
