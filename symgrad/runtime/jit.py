"""From LLVM IR to machine code in this process: optimize, emit, link.

This is the one place that knows how LLVM is tuned and which of its linkers loads an object. It
knows nothing of what the code computes, of steps or of arrays.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from symgrad.codegen.llvm.target import Target, target_named

_LINKER_LOCK = threading.Lock()
_library_numbers = itertools.count()


def optimize(
    module_text: str, target: Target, opt_level: int, context: llvm.ContextRef | None = None
) -> llvm.ModuleRef:
    """Parse and verify `module_text`, then run LLVM's pipeline of `opt_level` (0 to 3) on it.

    The module is in a context of its own if none is given; modules that are linked share one.
    Raises `AssertionError` with LLVM's message for a module that is not well formed.
    """
    machine = target.machine(opt_level)
    module = _parse(module_text, context)
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    passes = llvm.create_pass_builder(machine, _tuning(opt_level))
    passes.getModulePassManager().run(module, passes)
    return module


def emit_object(module: llvm.ModuleRef, target: Target, opt_level: int) -> bytes:
    """Return the relocatable object file of `module` (position independent)."""
    return bytes(target.machine(opt_level).emit_object(module))


def emit_assembly(module: llvm.ModuleRef, target: Target, opt_level: int) -> str:
    """Return the assembly of `module`, as `emit_object` would encode it."""
    return str(target.machine(opt_level).emit_assembly(module))


@dataclass(frozen=True, slots=True, eq=False)
class LoadedCode:
    """Machine code in memory, which stays there exactly as long as this object lives.

    Whoever keeps an address keeps this object too.
    """

    _tracker: llvm.ResourceTracker
    _symbols: frozenset[str]

    def address(self, symbol: str) -> int:
        """Return where `symbol`, one of those asked for when the code was loaded, is in memory."""
        assert symbol in self._symbols, f"{symbol} was not asked for when the code was loaded"
        return int(self._tracker[symbol])


def load_object(
    image: bytes, symbols: Sequence[str], imports: Mapping[str, int] | None = None
) -> LoadedCode:
    """Link the object file `image` into this process; `symbols` are those whose address is wanted.

    Undefined symbols of the object are looked up in `imports` (symbol -> address), then in the
    process. Raises `AssertionError` with LLVM's message for one that is in neither.
    """
    library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
    for symbol in symbols:
        library.export_symbol(symbol)
    for symbol, address in (imports or {}).items():
        library.import_symbol(symbol, address)
    try:
        # The name of a library cannot be used again, not even after the library is gone.
        tracker = library.link(_linker(), f"symgrad.{next(_library_numbers)}")
    except RuntimeError as error:
        raise AssertionError(f"linking {', '.join(symbols)}: {error}") from error
    return LoadedCode(tracker, frozenset(symbols))


def _parse(module_text: str, context: llvm.ContextRef | None) -> llvm.ModuleRef:
    # Never in the global context: there the types and constants of every program that was ever
    # compiled would stay for good.
    try:
        module = llvm.parse_assembly(module_text, context or llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise AssertionError(f"LLVM refuses the module: {error}") from error
    return module


def _tuning(opt_level: int) -> llvm.PipelineTuningOptions:
    # Kernels arrive as explicit vector code, tiled and unrolled by their schedule. LLVM's own
    # unroller then costs a third of the compile time and gains nothing measurable, and the SLP
    # vectorizer makes such code slower. Full unrolling that metadata asks for is still done.
    tuning = llvm.create_pipeline_tuning_options(opt_level)
    tuning.loop_vectorization = False
    tuning.loop_interleaving = False
    tuning.loop_unrolling = False
    tuning.slp_vectorization = False
    return tuning


def _linker() -> llvm.LLJIT:
    with _LINKER_LOCK:
        return _make_linker()


@cache
def _make_linker() -> llvm.LLJIT:
    """Make the linker of the process; it is never disposed of, so it outlives all code it loaded.

    It is JITLink: it takes a fifth of the time of the older RuntimeDyld, and it lays the sections
    of an object out next to each other, as the small code model requires.
    """
    machine = target_named("native").machine()
    return llvm.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)
