"""Vectorcall entry: a compiled step as a built-in function of Python, called in under 1 us.

`build_entry` makes it. The code behind it is compiled once per process (`entry_code`), and that for
outputs that are given not before it is used; a step adds a record (`entry_record`). What an
argument that does not fit becomes is not decided here: such a call goes to the slow path as it is.

A compiled step is a native function of the ABI

    i32 step(ptr inputs, ptr outputs, ptr state)

`inputs` and `outputs` are tables of pointers to elements, `state` is passed through, and a result
other than 0 is a failure. It knows nothing of Python, nor do threads that it forks. Unless it is
brief it runs without Python's global lock: see Note [The lock of steps].
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from symgrad.codegen.native.compiler_version import caller_version, kept_text
from symgrad.codegen.native.jit import ONLY_CALLS, LoadedCode, load_objects
from symgrad.codegen.native.object_store import digest_of
from symgrad.codegen.native.objects import (
    final_object_of,
    known_final_object,
    precompile_final,
)
from symgrad.codegen.target import Target, target_named
from symgrad.forks import cached_property
from symgrad.runtime.entry_checks import BIND, OVERLAP, emit_checks_module
from symgrad.runtime.entry_code import (
    LOCKED,
    LOCKED_WORDS,
    STOP,
    SYMBOLS,
    emit_entry_module,
    emit_locked_module,
)
from symgrad.runtime.entry_layout import verified_platform
from symgrad.runtime.entry_lock import (
    HOLD,
    LET_GO,
    LOCK_OBJECTS,
    LOCKING,
    WAIT,
    emit_lock_module,
)
from symgrad.runtime.entry_record import (
    ArraySpec,
    LockUse,
    Record,
    Returns,
    Running,
    build_record,
)
from symgrad.runtime.entry_results import RESULT_BLOCKS, RESULT_HANDLER, SHARED
from symgrad.runtime.interrupts import stop_word
from symgrad.runtime.result_memory import SYMBOLS as ALLOCATOR
from symgrad.runtime.result_memory import result_memory
from symgrad.runtime.step_lock import step_lock

__all__ = ["ArraySpec", "LockUse", "NativeEntry", "Running", "build_entry", "steps_held"]

_METH_NOARGS, _METH_FASTCALL = 0x4, 0x80

# More makes the entry no faster, nor does a middle end; less makes it read each argument at two
# thirds of the speed.
_OPT_LEVEL = 1

# What code of steps that take the lock calls of that of `call`. The `into` of brief steps checks
# arguments by a function of its own, which is nearer.
_SHARED_CHECKED = (*SHARED, BIND)


# The functions that CPython calls of which this process has the code.
_loaded: set[str] = set()


class NativeEntry:
    """The two ways to call a step; each is a built-in function that owns all it needs.

    `call(*inputs)` returns fresh outputs: the array, or a tuple or a list of arrays; None or an
    empty tuple if there are none.
    """

    def __init__(
        self, call: Callable[..., Any], make_into: Callable[[], Callable[..., Any]]
    ) -> None:
        self.call = call
        self._make_into = make_into

    @cached_property
    def into(self) -> Callable[..., Any]:
        """`into(*inputs, *outputs)` writes to the arrays it is given and returns None.

        After a failure their contents are undefined.
        """
        return self._make_into()


def build_entry(
    *,
    name: str,
    step_address: int,
    state_address: int,
    inputs: Sequence[ArraySpec],
    outputs: Sequence[ArraySpec],
    single: bool,
    slow_path: Callable[..., Any],
    on_failure: Callable[..., None],
    into_slow_path: Callable[..., Any] | None = None,
    owner: object = None,
    running: Running | None = None,
    none_for_nothing: bool = True,
    as_list: bool = False,
) -> NativeEntry:
    """Make the entry of the step at `step_address`: for this machine, whatever the step is for.

    An argument fits if it is exactly an `ndarray`, C-contiguous and aligned, with the very shape
    and the very dtype object of its `ArraySpec`; an output of `into` also has to be writeable and
    to overlap no other array. A call with too few, too many or unfit arguments returns
    `slow_path(*args)` (of `into`: `into_slow_path`, if there is one). A slow path that calls the
    entry again must make all arguments fit: `np.require(x, dtype, ["C", "A", "E"])` does,
    whereas `astype(copy=False)` keeps an equal dtype that is another object.

    If the step fails, its outputs are released and `on_failure(status, index, *args)` raises, with
    what the step has left in `running.failed`; where it returns, after a step that was only
    stopped, the step is run again. `running` says which locks the step takes, by default that of
    brief ones. A step that is called by a function which it calls, and so runs already, fails with
    the status `REENTERED`. `single`
    returns the one output itself and not a tuple, `as_list` a list of some outputs; without
    outputs, `none_for_nothing` returns None and not an empty tuple. `owner` is whatever the
    addresses need to stay valid: it lives as long as either function does.
    """
    assert not single or len(outputs) == 1, f"{name} has {len(outputs)} outputs, not a single one"
    returns = Returns.LIST if as_list and outputs else Returns.TUPLE
    if single:
        returns = Returns.SINGLE
    elif none_for_nothing and not outputs:
        returns = Returns.NONE
    running = running or Running()
    record = build_record(step_address, state_address, inputs, outputs, returns, running)
    handlers = {"call": slow_path, "into": into_slow_path or slow_path}
    is_brief = running.lock_use == LockUse.BRIEF

    def make(symbol: str) -> Callable[..., Any]:
        code = _code_of(symbol, is_brief=is_brief)
        function = symbol if is_brief else LOCKED[symbol]
        return _builtin(name, function, code, record, (handlers[symbol], on_failure), owner)

    return NativeEntry(make("call"), partial(make, "into"))


@cache
def _entry_code(symbol: str) -> LoadedCode:
    exported = [symbol] if symbol == "into" else [symbol, *ALLOCATOR, *_SHARED_CHECKED]
    called = [_entry_code("call")] if symbol == "into" else []
    code = _load(_images(symbol, partial(_modules, symbol)), exported, called)
    if symbol == "call":
        result_memory().runs(code)
    _loaded.add(symbol)
    return code


@cache
def _locked_code(symbol: str) -> LoadedCode:
    """Return the code of steps that take the lock of steps: what no others need is made here."""
    images = _images(LOCKED[symbol], partial(_locked_modules, symbol))
    if symbol == "into":
        called = [_entry_code("call"), _locked_code("call")]
        code = _load(images, [LOCKED[symbol]], called, (*_SHARED_CHECKED, *LOCKING))
    else:
        exported = [LOCKED[symbol], WAIT, HOLD, LET_GO, *LOCKING]
        code = _load(images, exported, [_entry_code("call")], _SHARED_CHECKED)
        wait, hold, let_go = (_lock_function(code, name) for name in (WAIT, HOLD, LET_GO))
        step_lock().serves(wait, hold, let_go)
    # A brief step, which has nothing else of it, may call it at any time.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    _places_of_locked()[symbol].value = code.address(LOCKED[symbol])
    _loaded.add(LOCKED[symbol])
    return code


def _code_of(symbol: str, *, is_brief: bool) -> LoadedCode:
    """Return the code of one way to call a step, with all that it may go on in.

    The `into` of a brief step goes on in that of one with the lock, where a thread has it.
    """
    code = _entry_code(symbol) if is_brief else _locked_code(symbol)
    # Both are noted before either is looked for, so of two threads one sees both.
    if {"into", LOCKED["call"]} <= _loaded:
        _locked_code("into")
    return code


@cache
def _places_of_locked() -> dict[str, ctypes.c_int64]:
    """Return the words of `LOCKED_WORDS`, by the symbols of the functions they are for."""
    words = {symbol: ctypes.c_int64(0) for symbol in SYMBOLS}
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(words))
    return words


def _images(name: str, modules: Callable[[], list[tuple[str, int]]]) -> list[bytes]:
    """Return the objects of `modules`, of which no text is made where their digests are known."""
    # Arrays of all steps are freed by it, so it must not be for a machine that a step is only made
    # for, as one that is looked at or exported.
    native, version = target_named("native"), caller_version()
    made = cache(modules)
    if version is not None:
        layout = repr(verified_platform().layout)
        kept = kept_text(name, digest_of(version, layout), lambda: _digests_of(made()))
        known = [known_final_object(digest, native, level) for digest, level in json.loads(kept)]
        found = [image for image in known if image is not None]
        if len(found) == len(known):
            return found
    return [final_object_of(text, native, level) for text, level in made()]


def _digests_of(modules: Sequence[tuple[str, int]]) -> str:
    return json.dumps([(digest_of(text), level) for text, level in modules])


def _load(
    images: Sequence[bytes],
    exported: Sequence[str],
    called: Sequence[LoadedCode],
    needed: Sequence[str] = tuple(SHARED),
) -> LoadedCode:
    memory = result_memory()
    places = _places_of_locked()
    imports = {
        **dict(verified_platform().imports),
        **step_lock().imports,
        **{name: id(value) for name, value in LOCK_OBJECTS.items()},
        **{LOCKED_WORDS[symbol]: ctypes.addressof(word) for symbol, word in places.items()},
        **{name: _address_of(name, called) for name in (needed if called else ())},
        STOP: ctypes.addressof(stop_word()),
        RESULT_BLOCKS: memory.blocks.ctypes.data,
        RESULT_HANDLER: id(memory.capsule),
    }
    return load_objects(images, {name: name for name in exported}, imports, called)


def _address_of(symbol: str, called: Sequence[LoadedCode]) -> int:
    """Return where a function is, in the one of what is called that exports it."""
    return next(code.address(symbol) for code in called if code.exports(symbol))


def precompile_entry(target: Target) -> bool:
    """Compile what calls any step, for Pythons and NumPys whose objects are laid out as here.

    Returns whether all of it is in the folder of what is precompiled now.
    """
    ways = (_modules, _locked_modules)
    modules = [module for symbol in SYMBOLS for make in ways for module in make(symbol)]
    return all([precompile_final(text, target, level) for text, level in modules])


def _modules(symbol: str) -> list[tuple[str, int]]:
    """Return the modules of an entry, and how each is optimized."""
    layout = verified_platform().layout
    calls = emit_entry_module(layout, symbol)
    checks = emit_checks_module(layout, (BIND,) if symbol == "call" else (BIND, OVERLAP))
    return [(calls, ONLY_CALLS), (str(checks), _OPT_LEVEL)]


def _locked_modules(symbol: str) -> list[tuple[str, int]]:
    layout = verified_platform().layout
    calls = str(emit_locked_module(layout, symbol))
    if symbol == "call":
        return [(calls, ONLY_CALLS), (str(emit_lock_module(STOP)), ONLY_CALLS)]
    checks = str(emit_checks_module(layout, (OVERLAP,)))
    return [(calls, ONLY_CALLS), (checks, _OPT_LEVEL)]


class _PyMethodDef(ctypes.Structure):
    _fields_ = (
        ("ml_name", ctypes.c_char_p),
        ("ml_meth", ctypes.c_void_p),
        ("ml_flags", ctypes.c_int),
        ("ml_doc", ctypes.c_char_p),
    )


# Takes the definition, `self` and the name of the module.
_new_builtin = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object
)(("PyCFunction_NewEx", ctypes.pythonapi))


def _builtin(
    name: str,
    symbol: str,
    code: LoadedCode,
    record: Record,
    handlers: tuple[Callable[..., Any], Callable[..., None]],
    owner: object,
) -> Callable[..., Any]:
    doc = f"Run the compiled step {name} on arrays of exactly the shapes and dtypes it has."
    definition = _PyMethodDef(name.encode(), code.address(symbol), _METH_FASTCALL, doc.encode())
    # `self` owns everything the function needs, its definition included: built-in functions may
    # outlive the NativeEntry. It is a tuple since the garbage collector sees through one, and
    # handlers that lead back to the function make a cycle.
    self_ = (record.words, *handlers, record.tables, definition, code, stop_word(), owner)
    function: Callable[..., Any] = _new_builtin(ctypes.addressof(definition), self_, "symgrad")
    return function


def _lock_function(code: LoadedCode, symbol: str) -> Callable[[], None]:
    """Return one of the functions of Python that work on the lock of steps."""
    definition = _PyMethodDef(symbol.encode(), code.address(symbol), _METH_NOARGS, None)
    kept = (definition, code, step_lock(), stop_word())
    function: Callable[[], None] = _new_builtin(ctypes.addressof(definition), kept, "symgrad")
    return function


@contextmanager
def steps_held() -> Iterator[None]:
    """Keep other threads from running steps in the block, where the global lock may be given up."""
    code = _code_of("call", is_brief=False)
    hold, let_go = (_lock_function(code, name) for name in (HOLD, LET_GO))
    try:
        hold()
        yield
    finally:
        let_go()  # does nothing where a handler of signals kept this thread from waiting
