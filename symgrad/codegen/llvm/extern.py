"""Foreign calls: a function of C is called by an address that the step finds in its table.

What it is passed lies in a function of its own, for each layout one: that holds what is passed by
its address on the stack, which a loop around the call must not let grow.

    i32 @extern.0(ptr function, ptr memory..., ptr symbols...)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from symgrad.codegen import ir
from symgrad.codegen.llvm.place import CodePlace
from symgrad.codegen.llvm.poll import FAILURE_WORD, watch_word
from symgrad.codegen.program.language import ExternInstr
from symgrad.graph.foreign_functions import (
    PassedArgument,
    PassedNumber,
    PassedOperand,
    PassedStatus,
    PassedSymbol,
    PassedText,
    PassedWorkspace,
)

_I8, _I32, _I64, _PTR = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.PointerType()


def emit_foreign_call(place: CodePlace, call: ExternInstr) -> ir.Value:
    """Emit a call; return 0, or the status of the program that stands for its failure.

    What the function returned is then in the first word of the watch.
    """
    builder, addresses = place.builder, place.addresses
    symbols = [a.symbol.name for a in call.layout if isinstance(a, PassedSymbol)]
    given = [
        addresses.symbol(call.function.name),
        *(addresses.of(argument) for argument in call.arguments),
        *(addresses.symbol(name) for name in symbols),
    ]
    own = builder.call(_passing(place, call), given)
    has_failed = builder.icmp_signed("!=", own, _I32(0))
    with builder.if_then(has_failed, likely=False):
        word = watch_word(builder, addresses.watch, FAILURE_WORD)
        builder.store(builder.sext(own, _I64), word, align=8)
    return builder.select(has_failed, _I32(call.status), _I32(0))


def _passing(place: CodePlace, call: ExternInstr) -> ir.LLVMFunction:
    """Return the function that calls another with the arguments of a layout."""
    counts = len(call.inputs), len(call.outputs)
    key = f"{call.layout} {counts}"
    known = place.functions.passing
    if key not in known:
        known[key] = _emit_passing(place.functions.module, f"extern.{len(known)}", call)
    return known[key]


def _emit_passing(module: ir.Module, name: str, call: ExternInstr) -> ir.LLVMFunction:
    symbols = [a for a in call.layout if isinstance(a, PassedSymbol)]
    takes = [_PTR] * (1 + len(call.arguments) + len(symbols))
    function = ir.LLVMFunction(module, ir.FunctionType(_I32, takes), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    callee, *memory = function.args
    status = builder.alloca(_I32)
    builder.store(_I32(0), status, align=4)
    passed = _Passed(builder, call, memory, status)
    values = [passed.value(argument) for argument in call.layout]
    is_told = any(isinstance(argument, PassedStatus) for argument in call.layout)
    kind = ir.FunctionType(ir.VoidType() if is_told else _I32, [v.type for v in values])
    # What an opaque pointer points to is said by who uses it.
    returned = builder.call(ir.Value(kind.as_pointer(), callee.ref), values)
    builder.ret(builder.load(status, align=4, typ=_I32) if is_told else returned)
    return function


class _Passed:
    """The values of the arguments of a call."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        call: ExternInstr,
        memory: Sequence[ir.Value],
        status: ir.Value,
    ) -> None:
        self._builder = builder
        self._status = status
        self._inputs = memory[: len(call.inputs)]
        self._outputs = memory[len(call.inputs) :]
        self._workspace = memory[len(call.arguments) - 1]
        self._symbols = iter(memory[len(call.arguments) :])

    def value(self, argument: PassedArgument) -> ir.Value:
        builder = self._builder
        match argument:
            case PassedOperand(place, number):
                return (self._inputs if place == "in" else self._outputs)[number]
            case PassedWorkspace(offset):
                return builder.gep(self._workspace, [_I64(offset)], inbounds=True, source_etype=_I8)
            case PassedNumber(bits, value, is_pointer):
                kind = _I32 if bits == 32 else _I64
                return self._stored(kind(value), bits // 8) if is_pointer else kind(value)
            case PassedText(value):
                codes = [*value.encode(), 0]
                return self._stored(ir.ArrayType(_I8, len(codes))(codes), 1)
            case PassedStatus():
                return self._status
            case PassedSymbol():
                return next(self._symbols)
            case _:
                assert_never(argument)

    def _stored(self, value: ir.Constant, align: int) -> ir.Value:
        """Return the address of a value on the stack: whoever is called may write there."""
        place = self._builder.alloca(value.type)
        self._builder.store(value, place, align=align)
        return place
