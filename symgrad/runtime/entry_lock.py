"""Step lock in LLVM IR: mutual exclusion of steps that give up Python's global lock while they run.

What it protects, and why no two threads wait for each other, says Note [The lock of steps].
"""

from __future__ import annotations

import sys

from symgrad.codegen import ir
from symgrad.codegen.ir.read_only import read_only_bytes
from symgrad.runtime.entry_access import element, field, field_place, loop
from symgrad.runtime.entry_record import RECORD_FIELDS, LockUse

# Note [The lock of steps]
# A brief step keeps Python's global lock, and that alone keeps it apart from other brief ones. A
# step that may take long holds the lock of steps, one for the process, and gives up the global one
# while it runs. `owner` is the thread that holds the lock of steps, 0 if none does. It is set under
# the global lock only, so who finds it 0 may go on as long as that lock is kept: a brief step pays
# for reading a word. Who finds another thread there waits for the lock of steps and has it then,
# however brief it is.
#
# Whoever waits for the lock of steps has given up the global one, so its holder can always come to
# that: for a callback in Python, for a handler of signals. It lets go of the lock of steps before
# it takes the global one again: so a daemon thread holds nothing when the end of the interpreter
# keeps it from going on. One that is in a callback then has the lock for good: whoever would wait
# for it while the interpreter ends is refused.
#
# There is one lock and not one of each step: steps share variables, steps of a library all their
# memory, and all steps one team of threads, so that two at once would be no faster. And a thread
# that holds several locks, as one in a callback that calls other steps does, could wait for one
# that waits for it.
#
# A step that a callback calls runs below the step that made the call: `depth` counts them. The one
# that is running already cannot be run, since its memory is in use: `entered` says so.

BEGIN, FINISH, RUN_LOCKED = LOCKING = ("step_begin", "step_finish", "step_run_locked")
# Functions of Python: to wait until no other thread runs a step, to keep them from it, to end that.
WAIT, HOLD, LET_GO = "wait_for_steps", "hold_steps", "let_steps_go"
LOCK_WORDS = ("owner", "depth", "lock")
OWNER = "step_lock_owner"

# What `begin` returns: who has to call `finish`, and whether the step is to run without the global
# lock; or why it is not to run.
KEEPING, RELEASING = 1, 2
RAISED, ENTERED = -1, -2

_I32, _I64, _PTR, _VOID = ir.IntType(32), ir.IntType(64), ir.PointerType(), ir.VoidType()
_NULL, _ZERO, _ONE = ir.Constant(_PTR, None), _I64(0), _I64(1)
_ACQUIRED = _I32(1)  # PY_LOCK_ACQUIRED
_STEP = ir.FunctionType(_I32, [_PTR, _PTR, _PTR])
_METHOD = ir.FunctionType(_PTR, [_PTR, _PTR])  # METH_NOARGS

_SIGNATURES = {
    BEGIN: ir.FunctionType(_I64, [_PTR]),
    FINISH: ir.FunctionType(_VOID, [_PTR]),
    RUN_LOCKED: ir.FunctionType(_I32, [_PTR, _I64, _PTR, _I64, _PTR]),
}
_EXTERNALS = {
    "PyErr_CheckSignals": ir.FunctionType(_I32, []),
    "PyErr_SetString": ir.FunctionType(_VOID, [_PTR, _PTR]),
    "PyEval_RestoreThread": ir.FunctionType(_VOID, [_PTR]),
    "PyEval_SaveThread": ir.FunctionType(_PTR, []),
    "PyObject_Vectorcall": ir.FunctionType(_PTR, [_PTR, _PTR, _I64, _PTR]),
    "PyThread_acquire_lock_timed": ir.FunctionType(_I32, [_PTR, _I64, _I32]),
    "PyThread_get_thread_ident": ir.FunctionType(_I64, []),
    "PyThread_release_lock": ir.FunctionType(_VOID, [_PTR]),
    "Py_DecRef": ir.FunctionType(_VOID, [_PTR]),
    "Py_IncRef": ir.FunctionType(_VOID, [_PTR]),
}

# Objects of Python that the code reads, by its symbols.
LOCK_OBJECTS = {"is_finalizing": sys.is_finalizing, "true": True, "refusal": RuntimeError}
_REASON = b"the interpreter ends while a thread that is no more runs a step\0"


def lock_word(name: str) -> str:
    """Return the symbol of a word of the lock, one of `LOCK_WORDS`."""
    return f"step_lock_{name}"


def declare_lock(module: ir.Module) -> dict[str, ir.LLVMFunction]:
    """Declare what entries call.

    - `begin(record)`: take the lock of steps, under the global lock; may run Python code
    - `finish(record)`: let go of it, with or without the global lock
    - `run_locked(record, token, args, nargs, index)`: run the step, and finish; an index that was
      out of range is written to `index`
    """
    return {name: _declared(module, name, kind) for name, kind in _SIGNATURES.items()}


def emit_lock_module(stop: str) -> ir.Module:
    """Emit what `declare_lock` declares, and `WAIT`, `HOLD`, `LET_GO`.

    `stop` is the word by which signals stop a step.
    """
    module = ir.Module("lock")
    _LockEmitter(module, ir.GlobalVariable(module, _I64, stop)).emit()
    return module


def _declared(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.LLVMFunction:
    function = ir.LLVMFunction(module, kind, name)
    # It mostly calls others, and compiling it at all costs more than optimizing it could gain.
    function.attributes |= {"nounwind", "noinline"}
    return function


class _LockEmitter:
    """Emits the functions of the lock, one after another."""

    def __init__(self, module: ir.Module, stop: ir.GlobalVariable) -> None:
        self.module = module
        self.stop = stop
        self.none = ir.GlobalVariable(module, ir.IntType(8), "_Py_NoneStruct")
        self.objects = {n: ir.GlobalVariable(module, ir.IntType(8), n) for n in LOCK_OBJECTS}
        self.words = {n: ir.GlobalVariable(module, _I64, lock_word(n)) for n in LOCK_WORDS}
        self.externals = {
            name: ir.LLVMFunction(module, kind, name) for name, kind in _EXTERNALS.items()
        }
        self.functions = declare_lock(module)
        self.enter = self._declared_own("enter", ir.FunctionType(_I64, [_PTR]))
        self.leave = self._declared_own("leave", ir.FunctionType(_VOID, [_PTR]))
        self.contend = self._declared_own("contend", ir.FunctionType(_I32, []))

    def emit(self) -> None:
        self._emit_leave()
        self._emit_contend()
        self._emit_enter()
        self._emit_begin()
        self._emit_finish()
        self._emit_run_locked()
        self._emit_methods()

    def _emit_enter(self) -> None:
        """`enter(entered)`: 0, or why not: take the lock, and mark that its memory is in use."""
        builder = ir.IRBuilder(self.enter.append_basic_block("entry"))
        (entered,) = self.enter.args
        me = self._call(builder, "PyThread_get_thread_ident")
        with builder.if_then(builder.icmp_unsigned("==", me, self._owner(builder))):
            is_entered = builder.icmp_signed("!=", builder.load(entered, typ=_I64), _ZERO)
            with builder.if_then(is_entered, likely=False):
                builder.ret(_I64(ENTERED))
            depth = builder.load(self.words["depth"], typ=_I64)
            builder.store(builder.add(depth, _ONE), self.words["depth"])
            builder.store(_ONE, entered)
            builder.ret(_ZERO)
        found = self._acquire(builder, 0, is_interruptible=False)
        with builder.if_then(self._is_acquired(builder, found), likely=True):
            self._own(builder, me)
            builder.store(_ONE, entered)
            builder.ret(_ZERO)
        raised = builder.call(self.contend, [])
        with builder.if_then(builder.icmp_signed("!=", raised, _I32(0)), likely=False):
            builder.ret(_I64(RAISED))
        builder.store(_ONE, entered)
        builder.ret(_ZERO)

    def _emit_contend(self) -> None:
        """`contend()`: wait for the lock and own it; other than 0 if a handler of signals raises.

        Signals are looked at after each wait, by the one who owns the lock by then: a handler is
        Python code, which may call steps.
        """
        builder = ir.IRBuilder(self.contend.append_basic_block("entry"))
        me = self._call(builder, "PyThread_get_thread_ident")
        scratch = builder.alloca(_I64)
        with builder.if_then(self._is_finalizing(builder), likely=False):
            reason = read_only_bytes(self.module, _REASON)
            self._call(builder, "PyErr_SetString", self.objects["refusal"], reason)
            builder.ret(_I32(1))
        again = builder.append_basic_block("again")
        builder.branch(again)
        builder.position_at_end(again)
        thread = self._call(builder, "PyEval_SaveThread")
        found = self._acquire(builder, -1, is_interruptible=True)
        self._call(builder, "PyEval_RestoreThread", thread)
        is_acquired = self._is_acquired(builder, found)
        with builder.if_then(is_acquired):
            self._own(builder, me)
        raised = self._call(builder, "PyErr_CheckSignals")
        with builder.if_then(builder.icmp_signed("!=", raised, _I32(0)), likely=False):
            with builder.if_then(is_acquired):
                builder.call(self.leave, [scratch])
            builder.ret(raised)
        done = builder.append_basic_block("done")
        builder.cbranch(is_acquired, done, again)
        builder.position_at_end(done)
        builder.ret(_I32(0))

    def _emit_leave(self) -> None:
        """`leave(entered)`: undo `enter`."""
        builder = ir.IRBuilder(self.leave.append_basic_block("entry"))
        (entered,) = self.leave.args
        builder.store(_ZERO, entered)
        depth = builder.sub(builder.load(self.words["depth"], typ=_I64), _ONE)
        builder.store(depth, self.words["depth"])
        with builder.if_then(builder.icmp_signed("==", depth, _ZERO)):
            # Another thread reads the owner, and then what the step has written.
            builder.store_atomic(_ZERO, self.words["owner"], "release", 8)
            self._call(builder, "PyThread_release_lock", self._lock(builder))
        builder.ret_void()

    def _emit_begin(self) -> None:
        function, builder = self._define(BEGIN)
        (record,) = function.args
        entered = field(builder, RECORD_FIELDS, record, "entered")
        failed = builder.call(self.enter, [entered])
        with builder.if_then(builder.icmp_signed("!=", failed, _ZERO), likely=False):
            builder.ret(failed)
        use = field(builder, RECORD_FIELDS, record, "lock_use")
        is_long = builder.icmp_signed("==", use, _I64(LockUse.LONG))
        builder.ret(builder.select(is_long, _I64(RELEASING), _I64(KEEPING)))

    def _emit_finish(self) -> None:
        function, builder = self._define(FINISH)
        builder.call(self.leave, [field(builder, RECORD_FIELDS, function.args[0], "entered")])
        builder.ret_void()

    def _emit_run_locked(self) -> None:
        function, builder = self._define(RUN_LOCKED)
        record, token, args, nargs, index = function.args
        releases = builder.icmp_signed("==", token, _I64(RELEASING))
        thread = builder.alloca(_PTR)
        with builder.if_then(releases):
            # Another thread may let go of an array, or make it larger if nobody else has it.
            self._each(builder, "Py_IncRef", args, nargs)
            builder.store(self._call(builder, "PyEval_SaveThread"), thread)
        # What an opaque pointer points to is said by who uses it: here, the type of the load.
        place = field_place(builder, RECORD_FIELDS, record, "step")
        step = builder.load(place, typ=_STEP.as_pointer())
        inputs = field(builder, RECORD_FIELDS, record, "pointers")
        outputs = element(
            builder, _PTR, inputs, field(builder, RECORD_FIELDS, record, "input_count")
        )
        state = field(builder, RECORD_FIELDS, record, "state")
        status = builder.call(step, [inputs, outputs, state])
        failed = field(builder, RECORD_FIELDS, record, "failed")
        builder.store(builder.load(failed, typ=_I64), index)
        builder.call(self.functions[FINISH], [record])
        with builder.if_then(releases):
            self._call(builder, "PyEval_RestoreThread", builder.load(thread, typ=_PTR))
            self._each(builder, "Py_DecRef", args, nargs)
        builder.ret(status)

    def _emit_methods(self) -> None:
        """Emit the functions of Python, which are called under the global lock."""
        builder, entered = self._define_method(WAIT)
        me, owner = self._call(builder, "PyThread_get_thread_ident"), self._owner(builder)
        is_other = builder.icmp_unsigned("!=", owner, me)
        is_held = builder.icmp_unsigned("!=", owner, _ZERO)
        with builder.if_then(builder.and_(is_held, is_other), likely=False):
            self._enter_or_raise(builder, entered)
            builder.call(self.leave, [entered])
        self._return_none(builder)
        builder, entered = self._define_method(HOLD)
        self._enter_or_raise(builder, entered)
        self._return_none(builder)
        builder, entered = self._define_method(LET_GO)
        me = self._call(builder, "PyThread_get_thread_ident")
        with builder.if_then(builder.icmp_unsigned("==", self._owner(builder), me)):
            builder.call(self.leave, [entered])
        self._return_none(builder)

    # ------------------------------------------------------------------------------- pieces

    def _declared_own(self, name: str, kind: ir.FunctionType) -> ir.LLVMFunction:
        function = _declared(self.module, f"step_lock.{name}", kind)
        function.linkage = "internal"
        return function

    def _define(self, name: str) -> tuple[ir.LLVMFunction, ir.IRBuilder]:
        function = self.functions[name]
        return function, ir.IRBuilder(function.append_basic_block("entry"))

    def _define_method(self, name: str) -> tuple[ir.IRBuilder, ir.Value]:
        """Begin a function of Python; returns a word for it that says nothing is entered."""
        function = _declared(self.module, name, _METHOD)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        entered = builder.alloca(_I64)
        builder.store(_ZERO, entered)
        return builder, entered

    def _enter_or_raise(self, builder: ir.IRBuilder, entered: ir.Value) -> None:
        failed = builder.call(self.enter, [entered])
        with builder.if_then(builder.icmp_signed("!=", failed, _ZERO), likely=False):
            builder.ret(_NULL)

    def _return_none(self, builder: ir.IRBuilder) -> None:
        self._call(builder, "Py_IncRef", self.none)
        builder.ret(self.none)

    def _own(self, builder: ir.IRBuilder, me: ir.Value) -> None:
        builder.store(_ONE, self.words["depth"])
        builder.store_atomic(me, self.words["owner"], "monotonic", 8)
        # An interrupt from before the step was one of what ran then.
        builder.store_atomic(_ZERO, self.stop, "monotonic", 8)

    def _owner(self, builder: ir.IRBuilder) -> ir.Value:
        return builder.load_atomic(self.words["owner"], "acquire", 8, typ=_I64)

    def _lock(self, builder: ir.IRBuilder) -> ir.Value:
        return builder.load(self.words["lock"], typ=_PTR)

    def _acquire(
        self, builder: ir.IRBuilder, microseconds: int, *, is_interruptible: bool
    ) -> ir.Value:
        given = [self._lock(builder), _I64(microseconds), _I32(is_interruptible)]
        return self._call(builder, "PyThread_acquire_lock_timed", *given)

    def _is_acquired(self, builder: ir.IRBuilder, found: ir.Value) -> ir.Value:
        return builder.icmp_signed("==", found, _ACQUIRED)

    def _is_finalizing(self, builder: ir.IRBuilder) -> ir.Value:
        given = self.objects["is_finalizing"], _NULL, _ZERO, _NULL
        found = self._call(builder, "PyObject_Vectorcall", *given)
        self._call(builder, "Py_DecRef", found)
        return builder.icmp_unsigned("==", found, self.objects["true"])

    def _each(self, builder: ir.IRBuilder, name: str, args: ir.Value, nargs: ir.Value) -> None:
        with loop(builder, nargs) as index:
            self._call(builder, name, builder.load(element(builder, _PTR, args, index), typ=_PTR))

    def _call(self, builder: ir.IRBuilder, name: str, *operands: ir.Value) -> ir.Value:
        return builder.call(self.externals[name], operands)
