"""Vectorcall entry in LLVM IR: two functions CPython calls, the same for every step.

They read what a step takes and makes from the step's record (`entry_record`), which they find
through `self`: a tuple of the record as an array, the slow path and the handler of failures. So a
new step costs a few Python objects and no compilation. What checks arguments is in `entry_checks`.
This module emits; it makes no Python objects.

Both have the order: objects that Python's garbage collector tracks are made first, then the lock of
steps is taken if it has to be (`entry_lock`), arguments are checked and the pointers to their
elements taken, and the step runs. From the first check on no Python code can run, so what was
checked still holds when the step begins.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.runtime.entry_access import (
    element,
    field,
    field_place,
    is_failure,
    is_null,
    load_at,
    loop,
)
from symgrad.runtime.entry_checks import declare_bind, declare_overlap
from symgrad.runtime.entry_layout import EntryLayout
from symgrad.runtime.entry_lock import (
    BEGIN,
    ENTERED,
    FINISH,
    OWNER,
    RUN_LOCKED,
    declare_lock,
)
from symgrad.runtime.entry_record import (
    RECORD_FIELDS,
    SPEC_FIELDS,
    llvm_struct,
)
from symgrad.runtime.entry_results import (
    ALLOCATE,
    FAIL,
    METHOD,
    PREPARE,
    SLOW_PATH,
    EntryEmitter,
    shared_aliases,
)

_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_PTR = ir.PointerType()
_NULL = ir.Constant(_PTR, None)
_VOID = ir.VoidType()
_ZERO = _I64(0)
_SPEC = llvm_struct(SPEC_FIELDS)

# A word of the process: other than 0 where a step that runs is to stop.
STOP = "interrupt_stop"
_STEP = ir.FunctionType(_I32, [_PTR, _PTR, _PTR])

# Places in the tuple that is `self`.
_WORDS, _ON_SLOW_PATH, _ON_FAILURE = range(3)

# The status of a step that was called while it runs, by a function that it calls.
REENTERED = 0x7FFFFFFD

# The functions that CPython calls of a brief step, and those of steps that take the lock of steps,
# each of a module of its own: most programs give no outputs.
SYMBOLS = ("call", "into")
LOCKED = {symbol: f"{symbol}_locked" for symbol in SYMBOLS}
# What words are called that say where those are.
LOCKED_WORDS = {symbol: f"place_of_{locked}" for symbol, locked in LOCKED.items()}


def emit_entry_module(layout: EntryLayout, symbol: str) -> str:
    """Emit one of `SYMBOLS` for objects laid out as `layout` says, with "call" what is `SHARED`.

    They are `call(*inputs)` and `into(*inputs, *outputs)`. Optimized, what is here would make no
    call quicker, and take several times as long to compile.
    """
    module = ir.Module("entry")
    emitter = _Emitter(module, layout)
    if symbol == "call":
        emitter.emit_shared()
        emitter.emit_call("call", is_locked=False)
        return f"{module}\n{shared_aliases()}"
    emitter.emit_into("into", is_locked=False)
    return str(module)


def emit_locked_module(layout: EntryLayout, symbol: str) -> ir.Module:
    """Emit that of `LOCKED` for one of `SYMBOLS`."""
    module = ir.Module("locked")
    emitter = _Emitter(module, layout)
    emit = emitter.emit_call if symbol == "call" else emitter.emit_into
    emit(symbol, is_locked=True)
    return module


class _Emitter(EntryEmitter):
    """Emits entries, and what they share."""

    def __init__(self, module: ir.Module, layout: EntryLayout) -> None:
        super().__init__(module, layout)
        self.stop = ir.GlobalVariable(module, _I64, STOP)
        self.owner = ir.GlobalVariable(module, _I64, OWNER)
        self.locking = declare_lock(module)
        self.bind = declare_bind(module)

    def emit_shared(self) -> None:
        """Emit what is `SHARED`."""
        self._emit_prepare()
        self._emit_allocate()
        self._emit_slow_path()
        self._emit_fail()

    def emit_call(self, symbol: str, *, is_locked: bool) -> None:
        """`call(*inputs)`: make the outputs, run the step, return them.

        That of a brief step becomes the locked one while another thread runs a step.
        """
        function, builder = self._define(LOCKED[symbol] if is_locked else symbol, METHOD)
        self_, args, nargs = function.args
        record = self._record(builder, self_)
        specs = field(builder, RECORD_FIELDS, record, "specs")
        pointers = field(builder, RECORD_FIELDS, record, "pointers")
        input_count = field(builder, RECORD_FIELDS, record, "input_count")
        output_count = field(builder, RECORD_FIELDS, record, "output_count")
        returns = field(builder, RECORD_FIELDS, record, "returns")
        result = builder.alloca(_PTR)
        with builder.if_then(builder.icmp_signed("!=", nargs, input_count), likely=False):
            builder.ret(builder.call(self._shared(SLOW_PATH), function.args))
        slots = builder.call(self._shared(PREPARE), [returns, output_count, result])
        with builder.if_then(is_null(builder, slots), likely=False):
            builder.ret(_NULL)
        token = self._begin(builder, function, record, result) if is_locked else None
        owner = _ZERO if token is None else self._load_owner(builder)
        is_bound = builder.call(self.bind, [specs, pointers, args, input_count, owner])
        with builder.if_then(builder.not_(is_bound), likely=False):
            self._finish(builder, record, token)
            self._release(builder, result)
            self._go_on_locked(builder, function, None if is_locked else symbol)
            builder.ret(builder.call(self._shared(SLOW_PATH), function.args))
        output_specs = element(builder, _SPEC, specs, input_count)
        output_pointers = element(builder, _PTR, pointers, input_count)
        is_allocated = builder.call(
            self._shared(ALLOCATE), [output_specs, output_pointers, slots, output_count]
        )
        with builder.if_then(builder.not_(is_allocated), likely=False):
            self._finish(builder, record, token)
            self._release(builder, result)
            builder.ret(_NULL)
        self._run_step(builder, function, record, token, result)
        builder.ret(builder.load(result, typ=_PTR))

    def emit_into(self, symbol: str, *, is_locked: bool) -> None:
        """`into(*inputs, *outputs)`: run the step on arrays that are all there, return None."""
        overlap = declare_overlap(self.module)
        function, builder = self._define(LOCKED[symbol] if is_locked else symbol, METHOD)
        self_, args, nargs = function.args
        record = self._record(builder, self_)
        specs = field(builder, RECORD_FIELDS, record, "specs")
        pointers = field(builder, RECORD_FIELDS, record, "pointers")
        input_count = field(builder, RECORD_FIELDS, record, "input_count")
        output_count = field(builder, RECORD_FIELDS, record, "output_count")
        count = builder.add(input_count, output_count)
        with builder.if_then(builder.icmp_signed("!=", nargs, count), likely=False):
            builder.ret(builder.call(self._shared(SLOW_PATH), function.args))
        token = self._begin(builder, function, record) if is_locked else None
        owner = _ZERO if token is None else self._load_owner(builder)
        is_bound = builder.call(self.bind, [specs, pointers, args, count, owner])
        with builder.if_then(builder.not_(is_bound), likely=False):
            self._finish(builder, record, token)
            self._go_on_locked(builder, function, None if is_locked else symbol)
            builder.ret(builder.call(self._shared(SLOW_PATH), function.args))
        has_overlap = builder.call(overlap, [specs, pointers, input_count, count])
        with builder.if_then(has_overlap, likely=False):
            self._finish(builder, record, token)
            builder.ret(builder.call(self._shared(SLOW_PATH), function.args))
        self._run_step(builder, function, record, token)
        self._external(builder, "Py_IncRef", self.none)
        builder.ret(self.none)

    def _return_failure(
        self, builder: ir.IRBuilder, function: ir.LLVMFunction, status: ir.Value, index: ir.Value
    ) -> None:
        """Return the error of the handler of failures, or run `function` again if it has none."""
        self_, args, nargs = function.args
        handled = builder.call(self._shared(FAIL), [self_, status, index, args, nargs])
        with builder.if_then(is_null(builder, handled), likely=True):
            builder.ret(_NULL)
        self._external(builder, "Py_DecRef", handled)
        builder.ret(builder.call(function, function.args))

    def _emit_slow_path(self) -> None:
        """`slow_path(self, args, nargs)`: hand a call on as it came."""
        function, builder = self._define_shared(SLOW_PATH)
        self_, args, nargs = function.args
        handler = self._item(builder, self_, _ON_SLOW_PATH)
        builder.ret(self._external(builder, "PyObject_Vectorcall", handler, args, nargs, _NULL))

    def _emit_fail(self) -> None:
        """`fail(self, status, index, args, nargs)`: call the handler of failures.

        With `status, index, *args`.
        """
        function, builder = self._define_shared(FAIL)
        self_, status, index, args, nargs = function.args
        count = builder.add(nargs, _I64(2))
        table = builder.alloca(_PTR, size=count)
        numbers = [
            self._external(builder, "PyLong_FromLong", number)
            for number in (builder.sext(status, _I64), index)
        ]
        missing = builder.or_(*(is_null(builder, number) for number in numbers))
        with builder.if_then(missing, likely=False):
            for number in numbers:
                self._external(builder, "Py_DecRef", number)
            builder.ret(_NULL)
        for place, number in enumerate(numbers):
            builder.store(number, element(builder, _PTR, table, _I64(place)))
        with loop(builder, nargs) as number:
            arg = builder.load(element(builder, _PTR, args, number), typ=_PTR)
            builder.store(arg, element(builder, _PTR, table, builder.add(number, _I64(2))))
        handler = self._item(builder, self_, _ON_FAILURE)
        result = self._external(builder, "PyObject_Vectorcall", handler, table, count, _NULL)
        for number in numbers:
            self._external(builder, "Py_DecRef", number)
        builder.ret(result)

    def _item(self, builder: ir.IRBuilder, self_: ir.Value, place: int) -> ir.Value:
        return load_at(builder, _PTR, self_, self.layout.tuple_items + 8 * place)

    def _record(self, builder: ir.IRBuilder, self_: ir.Value) -> ir.Value:
        words = self._item(builder, self_, _WORDS)
        return load_at(builder, _PTR, words, self.layout.array_pointer)

    def _load_owner(self, builder: ir.IRBuilder) -> ir.Value:
        return builder.load_atomic(self.owner, "acquire", 8, typ=_I64)

    def _go_on_locked(
        self, builder: ir.IRBuilder, function: ir.LLVMFunction, symbol: str | None
    ) -> None:
        """Go on in the locked one of a brief `symbol` where a thread has the lock of steps."""
        if symbol is None:
            return
        is_held = builder.icmp_signed("!=", self._load_owner(builder), _ZERO)
        with builder.if_then(is_held, likely=False):
            place = ir.GlobalVariable(self.module, _PTR, LOCKED_WORDS[symbol])
            locked = builder.load(place, typ=METHOD.as_pointer())
            builder.ret(builder.call(locked, function.args))

    def _begin(
        self,
        builder: ir.IRBuilder,
        function: ir.LLVMFunction,
        record: ir.Value,
        result: ir.Value | None = None,
    ) -> ir.Value:
        """Take the lock of steps; returns how the step is to run.

        If it cannot be taken, release `result` and return an error from `function`.
        """
        token = builder.call(self.locking[BEGIN], [record])
        with builder.if_then(builder.icmp_signed("<", token, _ZERO), likely=False):
            self._release_all(builder, result)
            with builder.if_then(builder.icmp_signed("==", token, _I64(ENTERED))):
                self._return_failure(builder, function, _I32(REENTERED), _ZERO)
            builder.ret(_NULL)
        return token

    def _finish(self, builder: ir.IRBuilder, record: ir.Value, token: ir.Value | None) -> None:
        """Let go of the lock of steps if `_begin` took it."""
        if token is not None:
            builder.call(self.locking[FINISH], [record])

    def _release_all(self, builder: ir.IRBuilder, result: ir.Value | None) -> None:
        if result is not None:
            self._release(builder, result)

    def _run_step(
        self,
        builder: ir.IRBuilder,
        function: ir.LLVMFunction,
        record: ir.Value,
        token: ir.Value | None,
        result: ir.Value | None = None,
    ) -> None:
        """Run the step and let go of the lock; release `result` and return what a failure is."""
        if token is None:
            status = self._run_brief(builder, record)
            with builder.if_then(is_failure(builder, status), likely=False):
                index = builder.load(field(builder, RECORD_FIELDS, record, "failed"), typ=_I64)
                self._release_all(builder, result)
                self._return_failure(builder, function, status, index)
            return
        _, args, nargs = function.args
        place = builder.alloca(_I64)
        status = builder.call(self.locking[RUN_LOCKED], [record, token, args, nargs, place])
        with builder.if_then(is_failure(builder, status), likely=False):
            self._release_all(builder, result)
            self._return_failure(builder, function, status, builder.load(place, typ=_I64))

    def _run_brief(self, builder: ir.IRBuilder, record: ir.Value) -> ir.Value:
        # What an opaque pointer points to is said by who uses it: here, the type of the load.
        place = field_place(builder, RECORD_FIELDS, record, "step")
        step = builder.load(place, typ=_STEP.as_pointer())
        state = field(builder, RECORD_FIELDS, record, "state")
        inputs = field(builder, RECORD_FIELDS, record, "pointers")
        input_count = field(builder, RECORD_FIELDS, record, "input_count")
        outputs = element(builder, _PTR, inputs, input_count)
        # An interrupt from before the step was one of what ran then.
        builder.store_atomic(_ZERO, self.stop, "monotonic", 8)
        return builder.call(step, [inputs, outputs, state])
