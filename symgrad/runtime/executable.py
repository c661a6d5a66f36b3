"""Executable: a program of known sizes as machine code, its state, its entry, all its stages."""

from __future__ import annotations

import ctypes
import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from symgrad.codegen.llvm.module import STEP, emit_module
from symgrad.codegen.llvm.poll import ASKED_WORD, FAILURE_WORD, POLL, STOPPED, WATCH_WORDS
from symgrad.codegen.llvm.tape import TAPE_BYTES, TAPE_FULL
from symgrad.codegen.program.build import build_program
from symgrad.codegen.program.source_map import BuiltProgram
from symgrad.codegen.program.verify import verify_program
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import Target
from symgrad.config import settings
from symgrad.errors import IndexOutOfRangeError, TapeError
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import KernelSpec, checked_axes
from symgrad.graph.types import Array, aligned_copy, aligned_empty
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.pipeline import Options
from symgrad.passes.pipeline import optimize as optimize_graph
from symgrad.passes.rewrites.rewrite import Decision
from symgrad.runtime.entry import ArraySpec, NativeEntry, build_entry
from symgrad.runtime.interrupts import interrupts, raise_interrupt
from symgrad.runtime.jit import LoadedCode, emit_assembly, emit_object, load_object, optimize
from symgrad.runtime.openmp import runtime_symbols


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to compile: what `compile` was told."""

    target: Target
    opt_level: int
    fast_math: bool
    cache: bool
    threads: Threads = ONE_THREAD


def lower(
    graph: Graph, options: CompileOptions, on_decision: Callable[[Decision], None] | None = None
) -> tuple[Graph, BuiltProgram]:
    """Return a graph of known sizes as the passes leave it, and its program.

    `on_decision` is told what passes that weigh costs decide, and why.
    """
    passes = Options(fast_math=options.fast_math, on_decision=on_decision)
    optimized = optimize_graph(graph, options=passes)
    built = build_program(fuse(optimized), options.target, options.threads)
    if settings().verify:
        verify_program(built.program)
    return optimized, built


class Executable:
    """A graph of known sizes, compiled. Its arena and its code live as long as it does."""

    def __init__(self, graph: Graph, options: CompileOptions) -> None:
        self.graph = graph
        self.options = options
        self.decisions: list[Decision] = []
        self.optimized, built = lower(graph, options, self.decisions.append)
        self.program, self.sources = built.program, built.sources
        self.partition = self.sources.partition
        self.llvm = str(emit_module(self.program, options.target))
        self.code = machine_code(self.llvm, options)
        self._arena = aligned_empty((self.program.arena_bytes,), np.dtype(np.uint8))
        self._watch = np.zeros(WATCH_WORDS, np.int64)
        self._interrupts = interrupts() if f'@"{POLL}"' in self.llvm else None
        if self._interrupts is not None:
            self._watch[ASKED_WORD] = self._interrupts.asked
        self._constants = [aligned_copy(c.array) for c in self.program.constants]
        arrays = [self._arena, self._watch, *(s.array for s in self.program.variables)]
        # A tape is a pointer and a size; the program makes it grow, and it stays for the next run.
        self._tapes = np.zeros((len(self.program.tapes), TAPE_BYTES // 8), np.int64)
        weakref.finalize(self, _free_tapes, self._tapes)
        self._arrays = [*arrays, *self._constants, *self._tapes]
        self.table = np.array([a.ctypes.data for a in self._arrays], np.int64)

    def entry(
        self,
        *,
        name: str,
        single: bool,
        slow_path: Callable[..., Any],
        into_slow_path: Callable[..., Any],
        none_for_nothing: bool = True,
    ) -> NativeEntry:
        """Make the built-in functions that run this program."""
        return build_entry(
            name=name,
            step_address=self.code.address(STEP),
            state_address=self.table.ctypes.data,
            inputs=[_spec(t, i) for i, t in enumerate(self.graph.inputs)],
            outputs=[_spec(t, i) for i, t in enumerate(self.graph.outputs)],
            single=single,
            slow_path=slow_path,
            on_failure=self.raise_failure,
            target=self.options.target,
            into_slow_path=into_slow_path,
            none_for_nothing=none_for_nothing,
            owner=(self.code, self.table, self._arrays, self._interrupts),
        )

    def raise_failure(self, status: int, *_arguments: object) -> None:
        """Raise the error for a status that the program returned.

        Returns if the program was stopped for nothing: it is to be run again.
        """
        if status == STOPPED:
            raise_interrupt()
            return
        if status == TAPE_FULL:
            raise TapeError(
                self.graph.name,
                "a loop without a bound ran for longer than there is memory to record it",
                hint="give it maximum_iterations",
            )
        node, spec = self.sources.failures[status]
        problem = (
            f"index {self._watch[FAILURE_WORD]} is out of range for {failing_axis(node, spec)}"
        )
        raise IndexOutOfRangeError(node.op, problem, source=node.source)

    @cached_property
    def optimized_llvm(self) -> str:
        options = self.options
        return str(optimize(self.llvm, options.target, options.opt_level))

    @cached_property
    def assembly(self) -> str:
        options = self.options
        module = optimize(self.llvm, options.target, options.opt_level)
        return emit_assembly(module, options.target, options.opt_level)


def _free_tapes(tapes: Array) -> None:
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    for pointer, _ in tapes.tolist():
        free(pointer)


def _spec(tensor: Tensor, position: int) -> ArraySpec:
    name = tensor.name or f"{position}"
    return ArraySpec(name, tensor.type.static_shape, tensor.dtype)


def failing_axis(node: Node, spec: KernelSpec | None) -> str:
    """Return the axis that an index of `node` can be out of, as messages say it."""
    axes = checked_axes(spec)
    assert axes, f"{node} cannot fail"
    operand = node.inputs[0].type
    sizes = operand.static_shape[axes.start : axes.stop]
    where = f"axis {axes[0]} of size {sizes[0]}"
    if len(axes) > 1:
        where = f"axes {axes[0]} to {axes[-1]} of sizes {list(sizes)}"
    return f"{where} of {operand}"


# ----------------------------------------------------------------------------- machine code

_CACHE_SIZE = 256  # programs whose code stays loaded for the next compilation of an equal one
_loaded: OrderedDict[bytes, LoadedCode] = OrderedDict()


def machine_code(module_text: str, options: CompileOptions) -> LoadedCode:
    """Compile a module and load it; equal modules share their code."""
    target, level = options.target, options.opt_level
    if not options.cache:
        return _compiled(module_text, target, level)
    key = f"{target}\n{level}\n{module_text}".encode()
    digest = hashlib.blake2b(key, digest_size=20).digest()
    code = _loaded.pop(digest, None) or _compiled(module_text, target, level)
    _loaded[digest] = code
    while len(_loaded) > _CACHE_SIZE:
        _loaded.popitem(last=False)
    return code


def _compiled(module_text: str, target: Target, level: int) -> LoadedCode:
    image = emit_object(optimize(module_text, target, level), target, level)
    return load_object(image, [STEP], runtime_symbols(module_text))
