"""Executable: a program of known sizes as machine code, its state, its entry, all its stages."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from symgrad.codegen.llvm.linkable import LinkableModule
from symgrad.codegen.llvm.module import STEP
from symgrad.codegen.llvm.poll import ASKED_WORD, FAILURE_WORD, POLL, STOPPED, WATCH_WORDS
from symgrad.codegen.llvm.tape import TAPE_BYTES, TAPE_FULL
from symgrad.codegen.native.jit import emit_assembly, optimize
from symgrad.compiler import CompileOptions, Prepared, compile_graph, emit_linkable
from symgrad.errors import IndexOutOfRangeError, TapeError
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import AtIndices, KernelSpec, checked_axes
from symgrad.graph.types import Array, aligned_copy, aligned_empty
from symgrad.passes.rewrites.rewrite import Decision
from symgrad.passes.table import ALL_PASSES, Options
from symgrad.runtime.entry import ArraySpec, NativeEntry, build_entry
from symgrad.runtime.interrupts import interrupts, raise_interrupt


class Executable:
    """A graph, for certain sizes, compiled. Its arena and its code live as long as it does.

    The passes that run on a graph as it was built have been run on it.
    """

    def __init__(
        self,
        graph: Graph | Prepared,
        options: CompileOptions,
        sizes: Mapping[str, int] | None = None,
        passes: Options = ALL_PASSES,
    ) -> None:
        self.options = options
        self.sizes = dict(sizes or {})
        prepared = graph if isinstance(graph, Prepared) else Prepared(graph)
        self.decisions: list[Decision] = [*prepared.decisions]
        passes = replace(passes, on_decision=self.decisions.append)
        compiled = compile_graph(prepared, options, self.sizes, passes=passes)
        self.graph = compiled.lowered.graph
        self.optimized, self.program = compiled.lowered.optimized, compiled.lowered.program
        self.sources = compiled.lowered.sources
        self.partition = self.sources.partition
        self.llvm, self.code = compiled.llvm, compiled.code
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
        return LinkableModule.without_aliases(str(self._optimized_module()))

    @cached_property
    def assembly(self) -> str:
        options = self.options
        text = emit_assembly(self._optimized_module(), options.target, options.opt_level)
        return LinkableModule.without_aliases(text)

    def _optimized_module(self) -> llvm.ModuleRef:
        options = self.options
        module = emit_linkable(self.program, options.target)
        return optimize(module.text(module.kernels), options.target, options.opt_level)


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
    if isinstance(spec, AtIndices) and spec.window is not None:
        where = f"slices of sizes {list(spec.window)} along {where}"
    return f"{where} of {operand}"
