"""The OpenMP runtime of the process: where the functions are that start a team of threads.

Any that has the functions of GCC's code will do: GNU's libgomp, LLVM's libomp, Intel's libiomp5.
Where there is none, functions of our own take its place: a team of one. Steps then compute the same
on one thread.

A process that was forked has none of its parent's threads, and GNU's runtime would wait for them
for ever. So code forks through a function of our own, which asks no runtime in such a process.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from symgrad.codegen import ir
from symgrad.codegen.llvm.parallel import FORK, OPENMP, SIGNATURES, THREAD_COUNT, THREAD_NUMBER
from symgrad.codegen.native.jit import LoadedCode, load_object
from symgrad.codegen.native.objects import object_of
from symgrad.codegen.target import target_named

_FILES = (
    "libgomp.so.1",
    "libomp.so",
    "libomp.so.5",
    "libiomp5.so",
    "libgomp.1.dylib",
    "libomp.dylib",
)
_NAMES = ("gomp", "omp", "iomp5")
_WORD = "runtime_fork"


@dataclass(frozen=True, slots=True, eq=False)
class OpenMP:
    """What code that forks is linked to.

    `name` is the file of the runtime, None if there is none; `fork` holds the address of its
    function that forks, 0 where the thread that forks is to do all the work. `code` is kept.
    """

    name: str | None
    addresses: Mapping[str, int]
    fork: ctypes.c_int64
    code: LoadedCode


def runtime_symbols(images: Iterable[bytes]) -> Mapping[str, int]:
    """Return where the functions are that objects call to fork; none if none of them does."""
    name = FORK.encode()
    return openmp().addresses if any(name in image for image in images) else {}


@cache
def openmp() -> OpenMP:
    """Return the runtime of this process: one that is loaded already, or the first that loads."""
    found = next(filter(None, map(_functions, _candidates())), None)
    runtime = link_runtime(*found) if found is not None else link_runtime(None, {})
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _give_up(runtime))
    return runtime


def _give_up(runtime: OpenMP) -> None:
    runtime.fork.value = 0


def _candidates() -> Iterator[str | None]:
    yield None  # what the process has loaded for all to use
    yield from _FILES
    # This runs programs of the system, which takes long.
    yield from filter(None, map(ctypes.util.find_library, _NAMES))


def _functions(file: str | None) -> tuple[str, dict[str, int]] | None:
    """Return the functions in a library, None if there is no such library or not all it takes."""
    try:
        library = ctypes.CDLL(file)
        functions = {symbol: getattr(library, symbol) for symbol in OPENMP}
    except (OSError, AttributeError):
        return None
    addresses = {s: ctypes.cast(f, ctypes.c_void_p).value or 0 for s, f in functions.items()}
    return file or "the process", addresses


def link_runtime(name: str | None, found: Mapping[str, int]) -> OpenMP:
    """Return what code is linked to, for a runtime with the functions `found`, all or none."""
    fork = ctypes.c_int64(found.get(FORK, 0))
    native = target_named("native")
    image = object_of(str(_emit_functions()), native, 1)
    code = load_object(image, OPENMP, {_WORD: ctypes.addressof(fork)})
    addresses = {symbol: code.address(symbol) for symbol in OPENMP}
    numbers = {symbol: found[symbol] for symbol in found if symbol != FORK}
    return OpenMP(name, addresses | numbers, fork, code)


def _emit_functions() -> ir.Module:
    """Emit a fork that may have no runtime, and the numbers of a team of one."""
    module = ir.Module("openmp")
    for name, result in ((THREAD_NUMBER, 0), (THREAD_COUNT, 1)):
        function = ir.LLVMFunction(module, SIGNATURES[name], name)
        ir.IRBuilder(function.append_basic_block("entry")).ret(ir.IntType(32)(result))
    # What an opaque pointer points to is said by who uses it: here, the types of a parameter and
    # of a load.
    team = ir.FunctionType(ir.VoidType(), [ir.PointerType()]).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [team, *SIGNATURES[FORK].takes[1:]])
    word = ir.GlobalVariable(module, kind.as_pointer(), _WORD)
    fork = ir.LLVMFunction(module, kind, FORK)
    builder = ir.IRBuilder(fork.append_basic_block("entry"))
    runtime = builder.load(word, typ=kind.as_pointer())
    is_there = builder.icmp_unsigned(
        "!=", builder.ptrtoint(runtime, ir.IntType(64)), ir.IntType(64)(0)
    )
    with builder.if_else(is_there) as (there, missing):
        with there:
            builder.call(runtime, fork.args)
        with missing:
            builder.call(fork.args[0], [fork.args[1]])
    builder.ret_void()
    return module
