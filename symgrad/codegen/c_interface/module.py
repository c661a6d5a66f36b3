"""LLVM module of the C interface: functions that run steps, and what a library says of itself.

The functions that compute the steps are declared here and defined elsewhere, one for each level
of machine; see `codegen/llvm/module.py` for what they take.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.c_interface.abi import (
    ABI_VERSION,
    CHOICE_OFFSET,
    FAILURE_OFFSET,
    STATUSES,
    STOP_OFFSET,
    Handle,
    Implementation,
    Interface,
    Slot,
    StepInterface,
    TableEntry,
    pattern_symbols,
)
from symgrad.codegen.c_interface.code import (
    I32,
    I64,
    PTR,
    VOID,
    at,
    define,
    load_at,
    of_c,
    require_instance,
    require_pointers,
    return_unless_instance,
    store_at,
    text,
)
from symgrad.codegen.c_interface.connection import emit_connect, require_connection
from symgrad.codegen.c_interface.cpu import emit_choose
from symgrad.codegen.c_interface.state import emit_state_functions
from symgrad.codegen.c_interface.variables import emit_table, emit_variable_functions
from symgrad.codegen.ir.read_only import read_only_bytes
from symgrad.codegen.llvm.poll import STOPPED
from symgrad.graph.aligned import ALIGNMENT
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.types import ArrayLiteral


def emit_interface(interface: Interface, triple: str, manifest: str) -> ir.Module:
    """Emit every function of the header of `interface`; `manifest` is what one of them returns."""
    module = ir.Module(interface.name)
    module.triple = triple
    for name, kind, value in (
        ("abi_version", I32, ABI_VERSION),
        ("size", I64, interface.size),
        ("alignment", I64, ALIGNMENT),
    ):
        _, builder = define(module, f"{interface.name}_{name}", kind, [], is_public=True)
        builder.ret(kind(value))
    _, builder = define(module, f"{interface.name}_manifest", PTR, [], is_public=True)
    builder.ret(text(module, manifest))
    table = emit_table(module, interface)
    emit_variable_functions(module, interface, table)
    emit_state_functions(module, interface, table, emit_choose(module, interface))
    _emit_message(module, interface)
    _emit_failed_index(module, interface)
    _emit_stop(module, interface)
    emit_connect(module, interface)
    steps = _Steps(module, interface)
    for step in interface.steps:
        steps.emit(step)
    return module


def _emit_message(module: ir.Module, interface: Interface) -> None:
    function, builder = define(module, f"{interface.name}_message", PTR, [I32], is_public=True)
    messages = {status: meaning for status, (_, meaning) in STATUSES.items()}
    for step in interface.steps:
        messages.update(step.messages)
    unknown = builder.append_basic_block("unknown")
    table = builder.switch(function.args[0], unknown)
    for status, meaning in messages.items():
        block = builder.append_basic_block("status")
        table.add_case(I32(status), block)
        builder.position_at_end(block)
        builder.ret(text(module, meaning))
    builder.position_at_end(unknown)
    builder.ret(text(module, "a status that no function of this library returns"))


def _emit_failed_index(module: ir.Module, interface: Interface) -> None:
    name = f"{interface.name}_failed_index"
    function, builder = define(module, name, I64, [PTR], is_public=True)
    (instance,) = function.args
    return_unless_instance(builder, instance, interface, I64(0))
    builder.ret(load_at(builder, instance, FAILURE_OFFSET, I64))


def _emit_stop(module: ir.Module, interface: Interface) -> None:
    function, builder = define(module, f"{interface.name}_stop", VOID, [PTR], is_public=True)
    (instance,) = function.args
    return_unless_instance(builder, instance, interface, None)
    # A loop reads it in another thread, or in this one below a handler of signals.
    store_at(builder, I64(1), instance, STOP_OFFSET)
    builder.ret_void()


def _emit_pattern(module: ir.Module, symbols: tuple[str, str], slot: Slot) -> None:
    assert slot.pattern is not None
    for name, array in zip(symbols, (slot.pattern.indptr, slot.pattern.indices), strict=True):
        # C has no arrays without elements.
        content = array.tobytes() or bytes(array.itemsize)
        read_only_bytes(module, content, align=ALIGNMENT, public_name=name)


class _Steps:
    """Emits the functions that run steps; constants that several use are embedded once."""

    def __init__(self, module: ir.Module, interface: Interface) -> None:
        self._module = module
        self._interface = interface
        self._constants: dict[ArrayLiteral, ir.GlobalVariable] = {}

    def emit(self, step: StepInterface) -> None:
        """Emit the function that takes tables of pointers, and the one that takes pointers.

        With them the patterns of sparse results, which are constants for whoever calls.
        """
        for slot in step.sparse_outputs:
            _emit_pattern(
                self._module, pattern_symbols(self._interface.name, step.name, slot), slot
            )
        run = self._emit_run(step)
        count = 1 + len(step.inputs) + len(step.outputs)
        name = f"{self._interface.name}_{step.name}"
        function, builder = define(self._module, name, I32, [PTR] * count, is_public=True)
        instance, *buffers = function.args
        inputs = _table(builder, buffers[: len(step.inputs)])
        outputs = _table(builder, buffers[len(step.inputs) :])
        builder.ret(builder.call(run, [instance, inputs, outputs]))

    def _emit_run(self, step: StepInterface) -> ir.LLVMFunction:
        name = f"{self._interface.name}_{step.name}_run"
        function, builder = define(self._module, name, I32, [PTR] * 3, is_public=True)
        instance, inputs, outputs = function.args
        require_instance(builder, instance, self._interface)
        require_connection(builder, instance, self._interface, step)
        for table, slots in ((inputs, step.inputs), (outputs, step.outputs)):
            _require_buffers(builder, table, slots)
        others = step.implementations[1:]
        choice = load_at(builder, instance, CHOICE_OFFSET, I32, 4)
        for number, implementation in enumerate(others, 1):
            chosen, other = (builder.append_basic_block(n) for n in ("chosen", "other"))
            is_chosen = builder.icmp_signed("==", choice, I32(number))
            builder.cbranch(is_chosen, chosen, other)
            builder.position_at_end(chosen)
            self._emit_call(builder, step, implementation)
            builder.position_at_end(other)
        self._emit_call(builder, step, step.implementations[0])
        return function

    def _emit_call(
        self, builder: ir.IRBuilder, step: StepInterface, implementation: Implementation
    ) -> None:
        """Emit the call of an implementation, and the return of its status."""
        instance, inputs, outputs = builder.function.args
        kind = ir.FunctionType(I32, [PTR] * 3)
        callee = ir.LLVMFunction(self._module, kind, implementation.symbol)
        places = [self._place(builder, instance, place) for place in implementation.table]
        own = builder.call(callee, [inputs, outputs, _table(builder, places)])
        is_failure = builder.icmp_signed(">", own, I32(0))
        is_numbered = builder.and_(is_failure, builder.icmp_signed("<", own, I32(STOPPED)))
        numbered = builder.add(own, I32(step.status_base))
        builder.ret(builder.select(is_numbered, numbered, own))

    def _place(self, builder: ir.IRBuilder, instance: ir.Value, place: TableEntry) -> ir.Value:
        if isinstance(place, int):
            return at(builder, instance, place)
        if isinstance(place, Handle):
            return load_at(builder, instance, place.offset, PTR)
        if isinstance(place, ForeignFunction):
            return of_c(self._module, place.name, I32)
        if place not in self._constants:
            content = place.array.tobytes()
            self._constants[place] = read_only_bytes(self._module, content, align=ALIGNMENT)
        return self._constants[place]


def _require_buffers(builder: ir.IRBuilder, table: ir.Value, slots: tuple[Slot, ...]) -> None:
    """Return a status where a table or a pointer in it is null; what has no elements may be."""
    if not slots:
        return
    require_pointers(builder, [table])
    for number, slot in enumerate(slots):
        if slot.type.count:
            require_pointers(builder, [load_at(builder, table, 8 * number, PTR)])


def _table(builder: ir.IRBuilder, pointers: Sequence[ir.Value]) -> ir.Value:
    """Make a table of pointers on the stack."""
    table = builder.alloca(ir.ArrayType(PTR, max(len(pointers), 1)))
    for number, pointer in enumerate(pointers):
        slot = builder.gep(table, [I64(number)], inbounds=True, source_etype=PTR)
        builder.store(pointer, slot, align=8)
    return table
