"""Signal handling: Ctrl-C in native code ends a step that polls, and is KeyboardInterrupt.

Python's own handler of signals leaves a note that the interpreter reads between its instructions,
of which there are none while a step runs. So a handler of ours is put before it, which sets a word
and then calls Python's. A step that finds the word set ends with its state as it was, the
interpreter goes on, and does with the signal what it would have done. A step that has called
functions of C cannot be run again, and ends only where that is to raise KeyboardInterrupt.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import signal
import threading
import time
from functools import cache

from symgrad.codegen import ir
from symgrad.codegen.native.jit import LoadedCode, load_object
from symgrad.codegen.native.objects import object_of
from symgrad.codegen.target import target_named
from symgrad.records import dataclass

# Note [Before Python's handler of signals]
# `signal.signal` puts Python's handler in the place of ours, and so do other libraries with theirs.
# So each poll asks which handler there is, and puts ours before it: a call of the system, which is
# why polls are rare. Where a signal ends the process or is ignored, we have nothing to add.
#
# Another library may call ours from its own. Then each of both is before the other, and `busy` says
# that a signal has been around already.

# Note [A step with calls is run once]
# What a handler of the user's does with a signal is known when it has run, which it must not in the
# middle of a step. So a step ends first, and is run again if the handler raises nothing. That would
# make a second time the calls that functions of C have had, such as collectives that other ranks
# have left. A step with calls therefore asks who handles the signal: the usual handler raises
# KeyboardInterrupt, for which the step ends, and for any other it goes on to its end.

_HANDLER, _ASKED, _ENDING = "on_signal", "is_interrupted", "is_ending"
_WORDS = ("stop", "previous", "busy", "is_closed")

_I32, _I64, _PTR = ir.IntType(32), ir.IntType(64), ir.PointerType()
_TAKES_SIGNAL = ir.FunctionType(ir.VoidType(), [_I32])
_EXTERNALS = {
    "PyOS_getsig": ir.FunctionType(_I64, [_I32]),
    "PyOS_setsig": ir.FunctionType(_I64, [_I32, _PTR]),
    "PyGILState_Ensure": ir.FunctionType(_I32, []),
    "PyGILState_Release": ir.FunctionType(ir.VoidType(), [_I32]),
    "PyObject_Vectorcall": ir.FunctionType(_PTR, [_PTR, _PTR, _I64, _PTR]),
    "Py_DecRef": ir.FunctionType(ir.VoidType(), [_PTR]),
}
# Objects of Python that the code reads. `getsignal` is that of C, which runs no Python code.
_OBJECTS = {
    "getsignal": importlib.import_module("_signal").getsignal,
    "usual_handler": signal.default_int_handler,
    "number": int(signal.SIGINT),
}


@cache
def stop_word() -> ctypes.c_int64:
    """Return the word of the process that is set when the step that runs is to stop."""
    return ctypes.c_int64(0)


def raise_interrupt(*, makes_calls: bool) -> None:
    """Raise KeyboardInterrupt for a step that was stopped, or what a handler of signals raises.

    Returns if a handler of the user's has taken the signal and raises nothing, but not for a step
    that makes calls of functions of C. In a thread that Python calls no handlers in, only the usual
    one is known to end what runs.
    """
    _check_signals()
    if makes_calls:
        raise KeyboardInterrupt
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        raise KeyboardInterrupt
    time.sleep(0)  # gives the lock to the main thread, which may have a handler to run


# Raises what a handler raises.
_check_signals = ctypes.PYFUNCTYPE(ctypes.c_int)(("PyErr_CheckSignals", ctypes.pythonapi))


@dataclass(frozen=True, slots=True, eq=False)
class Interrupts:
    """The code of the handler, and its words; whoever keeps an address keeps this too."""

    code: LoadedCode
    words: dict[str, ctypes.c_int64]

    def asked(self, *, makes_calls: bool) -> int:
        """Return the address of the function that steps ask whether they are to stop.

        That of steps with calls says so only where KeyboardInterrupt is what follows: see
        Note [A step with calls is run once].
        """
        return self.code.address(_ENDING if makes_calls else _ASKED)


@cache
def interrupts() -> Interrupts:
    """Return the one handler of the process. The first poll puts it in its place."""
    words = {name: ctypes.c_int64(0) for name in _WORDS} | {"stop": stop_word()}
    imports = {name: ctypes.addressof(word) for name, word in words.items()}
    for name in _EXTERNALS:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        assert address is not None, f"{name} has no address"
        imports[name] = address
    imports.update({name: id(value) for name, value in _OBJECTS.items()})
    native = target_named("native")
    image = object_of(str(_emit_functions()), native, 1)
    installed = Interrupts(load_object(image, [_HANDLER, _ASKED, _ENDING], imports), words)
    atexit.register(_take_back, installed)
    return installed


def _take_back(installed: Interrupts) -> None:
    """Leave signals to the handler that was there before: the code of ours does not stay."""
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_int)(("PyOS_getsig", ctypes.pythonapi))
    set_ = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(
        ("PyOS_setsig", ctypes.pythonapi)
    )
    installed.words["is_closed"].value = 1
    if get(signal.SIGINT) == installed.code.address(_HANDLER):
        set_(signal.SIGINT, installed.words["previous"].value)


def _emit_functions() -> ir.Module:
    module = ir.Module("interrupts")
    words = {name: ir.GlobalVariable(module, _I64, name) for name in _WORDS}
    for name, kind in _EXTERNALS.items():
        ir.LLVMFunction(module, kind, name)
    _emit_asked(module, words, _emit_handler(module, words))
    _emit_ending(module, words)
    return module


def _emit_handler(module: ir.Module, words: dict[str, ir.GlobalVariable]) -> ir.LLVMFunction:
    """Emit the handler: set the word, and call the handler before ours."""
    handler = ir.LLVMFunction(module, _TAKES_SIGNAL, _HANDLER)
    (number,) = handler.args
    builder = ir.IRBuilder(handler.append_basic_block("entry"))
    builder.store_atomic(_I64(1), words["stop"], "monotonic", 8)
    was_busy = builder.atomic_rmw("xchg", words["busy"], _I64(1), "monotonic")
    with builder.if_then(builder.icmp_signed("==", was_busy, _I64(0)), likely=True):
        # What an opaque pointer points to is said by who uses it: here, the type of the load.
        previous = builder.load(words["previous"], align=8, typ=_TAKES_SIGNAL.as_pointer())
        builder.call(previous, [number])
        builder.store_atomic(_I64(0), words["busy"], "monotonic", 8)
    builder.ret_void()
    return handler


def _emit_asked(
    module: ir.Module, words: dict[str, ir.GlobalVariable], handler: ir.LLVMFunction
) -> None:
    """Emit what a poll asks: put the handler before another one that is there, read the word."""
    asked = ir.LLVMFunction(module, ir.FunctionType(_I32, []), _ASKED)
    builder = ir.IRBuilder(asked.append_basic_block("entry"))
    interrupt = _I32(signal.SIGINT)
    there = builder.call(module.globals["PyOS_getsig"], [interrupt])
    is_ours = builder.icmp_unsigned("==", there, builder.ptrtoint(handler, _I64))
    # 0 is the system's own, 1 ignores the signal, -1 is an error.
    is_function = builder.icmp_unsigned("<", builder.sub(there, _I64(2)), _I64(-3))
    is_open = builder.icmp_signed("==", builder.load(words["is_closed"], typ=_I64), _I64(0))
    is_before = builder.and_(builder.and_(is_function, is_open), builder.not_(is_ours))
    with builder.if_then(is_before, likely=False):
        builder.store(there, words["previous"], align=8)
        builder.call(module.globals["PyOS_setsig"], [interrupt, handler])
    word = builder.load_atomic(words["stop"], "monotonic", 8, typ=_I64)
    builder.ret(builder.zext(builder.icmp_signed("!=", word, _I64(0)), _I32))


def _emit_ending(module: ir.Module, words: dict[str, ir.GlobalVariable]) -> None:
    """Emit what a poll of a step with calls asks: whether the usual handler has a signal."""
    objects = {name: ir.GlobalVariable(module, ir.IntType(8), name) for name in _OBJECTS}
    ending = ir.LLVMFunction(module, ir.FunctionType(_I32, []), _ENDING)
    builder = ir.IRBuilder(ending.append_basic_block("entry"))
    is_asked = builder.call(module.globals[_ASKED], [])
    with builder.if_then(builder.icmp_signed("==", is_asked, _I32(0)), likely=True):
        builder.ret(_I32(0))
    arguments = builder.alloca(_PTR)
    builder.store(objects["number"], arguments)
    call, none = module.globals["PyObject_Vectorcall"], ir.Constant(_PTR, None)
    before = builder.call(module.globals["PyGILState_Ensure"], [])
    found = builder.call(call, [objects["getsignal"], arguments, _I64(1), none])
    builder.call(module.globals["Py_DecRef"], [found])
    builder.call(module.globals["PyGILState_Release"], [before])
    is_usual = builder.icmp_unsigned("==", found, objects["usual_handler"])
    with builder.if_then(builder.not_(is_usual), likely=False):
        # Python's own handler has noted the signal, and calls the user's when the step has ended.
        builder.store_atomic(_I64(0), words["stop"], "monotonic", 8)
    builder.ret(builder.zext(is_usual, _I32))
