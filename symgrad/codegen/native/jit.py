"""Just-in-time compilation: LLVM IR is optimized, emitted and linked in this process.

This is the one place that knows how LLVM is tuned and which of its linkers loads an object. It
knows nothing of what the code computes or of arrays.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

import llvmlite.binding as llvm
from llvmlite.binding import ffi
from llvmlite.binding.newpassmanagers import NewPassManager

from symgrad.codegen.llvm.module import STEP
from symgrad.codegen.target import Target, target_named
from symgrad.forks import held_over_forks
from symgrad.records import dataclass

# How many libraries one linker takes; see Note [Memory of compiling].
_LIBRARIES_OF_A_LINKER = 16
# In the place of an optimization level: of functions that do nothing but call.
ONLY_CALLS = -1
# In a function: LLVM's value numbering ends the process where it comes to a value a hundred times,
# as it comes to the state of memory of a loop once for each loop inside, which has two blocks.
_MOST_BLOCKS_NUMBERED = 128
# So it does where loops of a step that have checkpoints are within each other three deep, which are
# 70 blocks and more; such functions call kernels and compute little.
_MOST_BLOCKS_OF_A_STEP = 32

_library_numbers = itertools.count()

# It is taken around each call of LLVM, whose own locks and memory are in order between two.
held_over_forks(ffi.lib._lock)


def optimize(
    module_text: str, target: Target, opt_level: int, context: llvm.ContextRef | None = None
) -> llvm.ModuleRef:
    """Parse and verify `module_text`, then run the middle end of `opt_level` (0 to 3) on it.

    The module is in a context of its own if none is given; modules that are linked share one.
    Raises `AssertionError` with LLVM's message for a module that is not well formed.
    """
    machine = _machine(target, opt_level)
    module = _parse(module_text, target, machine, context)
    passes = None
    if opt_level > 0:
        passes = llvm.create_new_module_pass_manager()
        _add_passes(passes, numbers_values=not _has_many_blocks(module_text))
    _run(passes, module, machine, opt_level)
    return module


def _has_many_blocks(module_text: str) -> bool:
    """Return whether a function has more blocks than LLVM's value numbering is asked to take."""
    if module_text.count(":\n") <= _MOST_BLOCKS_OF_A_STEP:
        return False
    functions = module_text.split("\ndefine ")
    return any(text.count(":\n") > _most_blocks(text) for text in functions)


def _most_blocks(function: str) -> int:
    is_of_step = f'@"{STEP}' in function.partition("(")[0]
    return _MOST_BLOCKS_OF_A_STEP if is_of_step else _MOST_BLOCKS_NUMBERED


def optimize_leaves(module_text: str, target: Target, opt_level: int) -> llvm.ModuleRef:
    """Parse and verify a module of leaf functions, and put into registers what they can be in.

    Their text is in its final form otherwise: all of the middle end would take a quarter of LLVM's
    time for them and leave them as they are.
    """
    machine = _machine(target, opt_level)
    module = _parse(module_text, target, machine)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    _run(passes, module, machine, opt_level)
    return module


def emit_object(module: llvm.ModuleRef, target: Target, opt_level: int) -> bytes:
    """Return the relocatable object file of `module` (position independent)."""
    return bytes(_machine(target, opt_level).emit_object(module))


def emit_calls(module_text: str, target: Target) -> bytes:
    """Return the object file of a module of functions that do nothing but call, such as steps.

    LLVM's time for those grows faster than they do, but for what it spends without optimizing.
    """
    return emit_as_is(module_text, target, ONLY_CALLS)


def emit_as_is(module_text: str, target: Target, opt_level: int) -> bytes:
    """Parse and verify a module, and return its object file: no pass runs before the back end."""
    machine = _machine(target, opt_level)
    return bytes(machine.emit_object(_parse(module_text, target, machine)))


def assembly_of_calls(module_text: str, target: Target) -> str:
    """Return the assembly of a module, as `emit_calls` would encode it."""
    machine = _machine(target, ONLY_CALLS)
    return str(machine.emit_assembly(_parse(module_text, target, machine)))


def emit_assembly(module: llvm.ModuleRef, target: Target, opt_level: int) -> str:
    """Return the assembly of `module`, as `emit_object` would encode it."""
    return str(_machine(target, opt_level).emit_assembly(module))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LoadedCode:
    """Machine code in memory, which stays there exactly as long as this object lives.

    Whoever keeps an address keeps this object too, as it does those of the code that it calls. In
    front of its table an entry finds what it is `passed`, the first of it last.
    """

    _tracker: llvm.ResourceTracker
    _symbols: Mapping[str, str]
    _called: tuple[LoadedCode, ...] = ()
    passed: tuple[int, ...] = ()

    def closure(self, passed: Sequence[int], called: Sequence[LoadedCode]) -> LoadedCode:
        """Return this code as what is passed some numbers and calls what `called` has."""
        return LoadedCode(self._tracker, self._symbols, (self, *called), tuple(passed))

    @property
    def symbols(self) -> Collection[str]:
        """What was asked for when the code was loaded."""
        return self._symbols.keys()

    def exports(self, symbol: str) -> bool:
        """Return whether `symbol` is one of those asked for when the code was loaded."""
        return symbol in self._symbols

    def address(self, symbol: str) -> int:
        """Return where `symbol`, one of those asked for when the code was loaded, is in memory."""
        assert symbol in self._symbols, f"{symbol} was not asked for when the code was loaded"
        return int(self._tracker[self._symbols[symbol]])


def load_object(
    image: bytes, symbols: Sequence[str], imports: Mapping[str, int] | None = None
) -> LoadedCode:
    """Link the object file `image` into this process; `symbols` are those whose address is wanted.

    Undefined symbols of the object are looked up in `imports` (symbol -> address), then in the
    process. Raises `AssertionError` with LLVM's message for one that is in neither.
    """
    return load_objects([image], {symbol: symbol for symbol in symbols}, imports)


def load_objects(
    images: Sequence[bytes],
    symbols: Mapping[str, str],
    imports: Mapping[str, int] | None = None,
    called: Sequence[LoadedCode] = (),
) -> LoadedCode:
    """Link object files into this process as `load_object` does one; each may use the others.

    `symbols` maps what the code is asked for to what that is called in the objects. What several
    of them define as `weak_odr` is taken from one. `called` has to stay as long as this does.
    """
    library = llvm.JITLibraryBuilder()
    for image in images:
        library.add_object_img(image)
    library.add_current_process()
    for symbol in symbols.values():
        library.export_symbol(symbol)
    for symbol, address in (imports or {}).items():
        library.import_symbol(symbol, address)
    number = next(_library_numbers)
    try:
        # The name of a library cannot be used again, not even after the library is gone.
        tracker = library.link(_linker(number // _LIBRARIES_OF_A_LINKER), f"symgrad.{number}")
    except RuntimeError as error:
        raise AssertionError(f"linking {', '.join(symbols)}: {error}") from error
    return LoadedCode(tracker, dict(symbols), tuple(called))


class _Machines(threading.local):
    """The target machines of a thread: half a millisecond each, and not safe to share."""

    def __init__(self) -> None:
        self.made: dict[tuple[Target, int], llvm.TargetMachine] = {}


_machines = _Machines()


def _machine(target: Target, opt_level: int) -> llvm.TargetMachine:
    made = _machines.made
    if (target, opt_level) not in made:
        only_calls = opt_level == ONLY_CALLS
        made[target, opt_level] = target.machine(opt_level, only_calls=only_calls)
    return made[target, opt_level]


class _Module(llvm.ModuleRef):  # type: ignore[misc]  # llvmlite is not typed
    """A module of a context that may be disposed of before it, in a cycle of garbage.

    There objects are finalized in any order, as where an exception keeps the frames in which a
    module was compiled. A context deletes the modules that are left in it.
    """

    def _dispose(self) -> None:
        if not self._context.closed:
            super()._dispose()


def _parse(
    module_text: str,
    target: Target,
    machine: llvm.TargetMachine,
    context: llvm.ContextRef | None = None,
) -> llvm.ModuleRef:
    # Never in the global context: there the types and constants of every program that was ever
    # compiled would stay for good.
    try:
        parsed = llvm.parse_assembly(module_text, context or llvm.create_context())
        module = _Module(parsed._ptr, parsed._context)
        parsed.detach()
        module.verify()
    except RuntimeError as error:
        raise AssertionError(f"LLVM refuses the module: {error}") from error
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    return module


def _add_passes(passes: llvm.ModulePassManager, *, numbers_values: bool) -> None:
    """Add the middle end: what explicit vector code, tiled and hoisted already, still needs.

    Calls of our own functions are inlined, what all callers of a kernel pass becomes a constant of
    it, index arithmetic is simplified and its repeats are merged, loops end where they are entered
    again. LLVM's own pipelines repeat each of these up to seven times, unroll and vectorize, which
    takes three times as long and gains such code nothing measurable. Reassociation is for what
    `fast_math` marks, and for integers.
    """
    passes.add_always_inliner_pass()
    passes.add_ipsccp_pass()
    passes.add_dead_arg_elimination_pass()
    passes.add_sroa_pass()
    passes.add_loop_rotate_pass()
    passes.add_instruction_combine_pass()
    passes.add_reassociate_pass()
    if numbers_values:
        passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()


def _run(
    passes: llvm.ModulePassManager | None,
    module: llvm.ModuleRef,
    machine: llvm.TargetMachine,
    opt_level: int,
) -> None:
    """Run `passes` on a module, or LLVM's own of `opt_level`, and give their memory back."""
    tuning = llvm.create_pipeline_tuning_options(opt_level)
    builder = llvm.create_pass_builder(machine, tuning)
    passes = passes or builder.getModulePassManager()
    try:
        passes.run(module, builder)
    finally:
        # Not `close`, which would leave it; see Note [Memory of compiling].
        NewPassManager._dispose(passes)
        passes.detach()


# Note [Memory of compiling]
#
# A process may compile any number of programs, so what one of them takes has to be given back. Of
# LLVM as llvmlite hands it out, two things are not:
#
# - A pass manager, with the tables its passes have filled: 30 KB when made, 125 KB after a small
#   program. Its class inherits `_dispose` from `ObjectRef`, where it does nothing, before that of
#   `NewPassManager`, which disposes. So this one is called by name, once, and `detach` keeps
#   anything else from calling it again.
# - What a linker notes about a library, 9 KB, also when the library is gone. It goes with the
#   linker, and a linker goes with the last library it linked, since each refers to it. So there is
#   a new one for every few libraries: fewer would take longer, a millisecond each, and with more of
#   them one library that stays would keep what is noted about more that are gone.
#
# What remains is the 1 KB of callbacks that a pass builder makes and leaves to nobody.
# `benchmarks/compile_memory.py` measures it.


@lru_cache(maxsize=1)
def _linker(_number: int) -> llvm.LLJIT:
    """Make the linker `_number`; it lives while it is the newest or a library it linked does.

    Threads that ask at once may each be given one of their own, which does no harm.
    It is JITLink: it takes a fifth of the time of the older RuntimeDyld, and it lays the sections
    of an object out next to each other, as the small code model requires.
    """
    machine = target_named("native").machine()
    return llvm.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)
