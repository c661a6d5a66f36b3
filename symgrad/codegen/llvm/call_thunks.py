"""Thunks of launches: what a long step calls alike again and again is emitted once.

    call void @"k0"(ptr %.12, ptr %.9, ptr %.13)       call void @"step.k0"(..., ptr @"rows" + 0)
    call void @"k0"(ptr %.13, ptr %.9, ptr %.14)   ->  call void @"step.k0"(..., ptr @"rows" + 24)
    call void @"k0"(ptr %.14, ptr %.9, ptr %.15)       call void @"step.k0"(..., ptr @"rows" + 48)

A thunk takes what the step does, and a row of a table: of each argument where it lies in the arena,
or where its pointer is in the table of inputs, outputs or state, and how far behind that it begins.
Launches have one thunk if their kernel is the same and each argument is in the same of these. So a
chain of 5,000 ops with its gradient, which passes 10,000 pointers, is a fifth of the code. What has
few arguments is called as it is: LLVM gains little, and the step is a call longer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import count

from symgrad.codegen import ir
from symgrad.codegen.ir.read_only import read_only_bytes
from symgrad.codegen.llvm.addresses import slot_of
from symgrad.codegen.llvm.place import Functions, open_function
from symgrad.codegen.program.language import Instr, Launch, Program, root
from symgrad.cost_model import LEAST_ARGUMENTS_OF_THUNK, LEAST_CALLS_OF_THUNK
from symgrad.passes.fusion.buffers import Buffer

_I64, _PTR, _BYTE = ir.IntType(64), ir.PointerType(), ir.IntType(8)
_WORD_BYTES = 8


def add_thunks(functions: Functions, function: ir.LLVMFunction, instrs: Sequence[Instr]) -> None:
    """Emit thunks for what many launches of the function of a step have in common."""
    alike: dict[tuple[str, ...], list[Launch]] = {}
    for instr in instrs:
        if isinstance(instr, Launch) and _may_be_shared(instr):
            places = [root(argument).place for argument in instr.arguments]
            alike.setdefault((instr.kernel.name, *places), []).append(instr)
    for launches in alike.values():
        if len(launches) < LEAST_CALLS_OF_THUNK or launches[0].can_fail:
            continue
        thunk = _emit_thunk(functions, function, launches[0])
        rows = [_row(functions.program, launch) for launch in launches]
        content = b"".join(struct.pack(f"<{len(row)}q", *row) for row in rows)
        table = read_only_bytes(functions.module, content, align=_WORD_BYTES)
        for number, launch in enumerate(launches):
            start = number * len(rows[0]) * _WORD_BYTES
            row = ir.Literal(_PTR, f"getelementptr (i8, {table}, i64 {start})")
            functions.thunks[id(launch)] = thunk, row


def _may_be_shared(launch: Launch) -> bool:
    arguments = launch.arguments
    is_long = len(arguments) >= LEAST_ARGUMENTS_OF_THUNK
    return is_long and all([isinstance(argument, Buffer) for argument in arguments])


def _row(program: Program, launch: Launch) -> list[int]:
    """Return where each argument of a launch is in the arena, or its pointer in a table."""
    words = []
    for argument, start in zip(launch.arguments, launch.starts, strict=True):
        assert isinstance(argument, Buffer), "no other has a thunk"
        first = start * argument.type.dtype.itemsize if start else 0
        if argument.place == "temporary":
            words.append(program.offsets[argument] + first)
        else:
            words += [slot_of(program, argument) * _WORD_BYTES, first]
    return words


def _emit_thunk(functions: Functions, function: ir.LLVMFunction, launch: Launch) -> ir.LLVMFunction:
    """Emit what calls a kernel with what a row says; it takes what the step takes, and the row."""
    module, takes = functions.module, [*function.function_type.takes, _PTR]
    name = module.get_unique_name(f"{function.name}.{launch.kernel.name}")
    thunk = ir.LLVMFunction(module, ir.FunctionType(ir.VoidType(), takes), name)
    thunk.linkage = "internal"
    thunk.attributes |= {"noinline", "optnone"}
    place = open_function(functions, thunk)
    builder = place.builder
    words = _words(builder, thunk.args[-1])
    pointers = []
    for argument in map(root, launch.arguments):
        if argument.place == "temporary":
            base = place.addresses.arena
        else:
            table = place.addresses.table(argument.place)
            slot = builder.gep(table, [next(words)], inbounds=True, source_etype=_BYTE)
            base = builder.load(slot, align=_WORD_BYTES, typ=_PTR)
        pointers.append(builder.gep(base, [next(words)], inbounds=True, source_etype=_BYTE))
    functions.call(builder, launch.kernel, pointers)
    builder.ret_void()
    return thunk


def _words(builder: ir.IRBuilder, row: ir.Value) -> Iterator[ir.Value]:
    """Load the words of a row, one after another."""
    for number in count():
        word = builder.gep(row, [_I64(number)], inbounds=True, source_etype=_I64)
        yield builder.load(word, align=_WORD_BYTES, typ=_I64)
