"""Executable: a program of known sizes as machine code, its state, its entry, all its stages."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from symgrad.codegen.llvm.linkable import LinkableModule
from symgrad.codegen.llvm.module import STEP
from symgrad.codegen.llvm.poll import ASKED_WORD, FAILURE_WORD, STOPPED, WATCH_WORDS
from symgrad.codegen.llvm.tape import TAPE_BYTES, TAPE_FULL
from symgrad.codegen.native.machine_code import CodeName, code_name
from symgrad.codegen.native.objects import assembly_of, optimized_text
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.source_map import SourceMap
from symgrad.codegen.target import Target
from symgrad.compiler import (
    CompileOptions,
    Lowered,
    Prepared,
    compile_program,
    emit_linkable,
    lower_graph,
)
from symgrad.errors import (
    CompileError,
    ForeignCallError,
    GraphError,
    IndexOutOfRangeError,
    TapeError,
    user_source,
)
from symgrad.forks import cached_property
from symgrad.graph.aligned import aligned_copy, aligned_empty
from symgrad.graph.effects import has_effects
from symgrad.graph.foreign_calls import locate
from symgrad.graph.foreign_functions import ForeignFunction, ProcessGroup
from symgrad.graph.graph import Graph, specialize
from symgrad.graph.node import Node, Range, Tensor
from symgrad.graph.ops.extern import failed_call, foreign_functions, functions_in
from symgrad.graph.ops.numeric_checks import check_numerics_op
from symgrad.graph.ranges import range_of
from symgrad.graph.structures import AtIndices, Extern, KernelSpec, checked_axes
from symgrad.graph.types import Array
from symgrad.passes.costs import kernel_spec
from symgrad.passes.fusion.partition import Partition
from symgrad.passes.rewrites.rewrite import Decision
from symgrad.passes.table import ALL_PASSES, Options
from symgrad.records import replace
from symgrad.runtime.entry import ArraySpec, LockUse, NativeEntry, Running, build_entry
from symgrad.runtime.entry_code import REENTERED
from symgrad.runtime.host import check_runs_here, why_not_here
from symgrad.runtime.interrupts import interrupts, raise_interrupt
from symgrad.runtime.numeric_failures import not_finite_error
from symgrad.runtime.stored_program import (
    LoadedProgram,
    find_program,
    keep_program,
    loaded_program,
    program_key,
)


class Executable:
    """A graph, for certain sizes, compiled. Its arena and its code live as long as it does.

    The passes that run on a graph as it was built have been run on it. Where another process has
    compiled an equal graph, no further pass is run until somebody asks what came of it.
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
        self._prepared = graph if isinstance(graph, Prepared) else Prepared(graph)
        self._decisions: list[Decision] = [*self._prepared.decisions]
        self._passes = replace(passes, on_decision=self._decisions.append)
        self._watch = np.zeros(WATCH_WORDS, np.int64)
        self._found: CodeName | None = None
        self.graph = specialize(self._prepared.graph, self.sizes)
        key = program_key(self.graph, options, passes)
        found = None if key is None else find_program(key, self.graph, options)
        if found is None:
            self._lower_first()
            program, name = self._compiled()
            if key is not None:
                keep_program(key, self.graph, program, name)
        else:
            program, self._found = found
        self._install(program)

    def _lower_first(self) -> None:
        """Find the program and the graphs it comes from; an error says whose they are."""
        try:
            _ = self.lowered
        except CompileError as error:  # a limit of memory that cannot be kept
            error.subject = self._prepared.graph.name if self.sizes else error.subject
            error.source = error.source or user_source()
            raise

    def _compiled(self) -> tuple[LoadedProgram, CodeName]:
        compiled = compile_program(self.lowered, self.options)
        if compiled.is_whole:
            self.llvm = compiled.llvm
        return loaded_program(self.program, compiled), compiled.name

    def _install(self, program: LoadedProgram) -> None:
        """Make the memory that a program runs on."""
        self.code = program.code
        self._arena = _arena_for(self.graph, program.arena_bytes)
        self._interrupts = interrupts() if program.is_polled else None
        if self._interrupts is not None:
            asked = self._interrupts.asked(makes_calls=has_effects(self.graph))
            self._watch[ASKED_WORD] = asked
        self._running = Running(_lock_use(program), self._watch[FAILURE_WORD:])
        self._constants = [aligned_copy(array) for array in program.constants]
        arrays = [self._arena, self._watch, *(s.array for s in program.variables)]
        # A tape is a pointer and a size; the program makes it grow, and it stays for the next run.
        self._tapes = np.zeros((program.tapes, TAPE_BYTES // 8), np.int64)
        # Not at the end of the interpreter, where a thread may still run the program.
        weakref.finalize(self, _free_tapes, self._tapes).atexit = False
        self._arrays = [*arrays, *self._constants, *self._tapes]
        addresses = self._located(program.functions)
        passed = program.code.passed  # what the entry finds in front of the table
        places = [*passed[::-1], *(a.ctypes.data for a in self._arrays), *addresses]
        self.table = np.array(places, np.int64)[len(passed) :]

    def _located(self, functions: Sequence[ForeignFunction]) -> list[int]:
        """Return where functions of C are, which stay there as long as this lives."""
        self._functions = functions
        lines = {function.name: line for function, line in foreign_functions(self.graph)}
        return [locate(function, lines.get(function.name)) for function in functions]

    # ------------------------------------------------------------------- what it was made of

    @cached_property
    def lowered(self) -> Lowered:
        """The program and the graphs it comes from."""
        sized, passes = self.graph, self._passes
        lowered = lower_graph(self._prepared, self.options, self.sizes, passes=passes, sized=sized)
        if self._found is not None:
            emitted = emit_linkable(lowered.program, self.options.target)
            name = code_name(emitted, self.options.target, self.options.opt_level)
            if name != self._found:
                # Equal graphs became different programs, as they may by what a digest leaves out.
                # Entries that there are keep what they run on; from now on this is the program.
                self._found = None
                compiled = compile_program(lowered, self.options)
                self._install(loaded_program(lowered.program, compiled))
        return lowered

    @cached_property
    def llvm(self) -> str:
        """The module as it is emitted."""
        return self.linkable.emitted

    @cached_property
    def linkable(self) -> LinkableModule:
        """The module with the names that its kernels are linked by."""
        return emit_linkable(self.program, self.options.target)

    @property
    def optimized(self) -> Graph:
        return self.lowered.optimized

    @property
    def program(self) -> Program:
        return self.lowered.program

    @property
    def sources(self) -> SourceMap:
        return self.lowered.sources

    @property
    def partition(self) -> Partition:
        return self.sources.partition

    @property
    def decisions(self) -> list[Decision]:
        """What passes have weighed."""
        assert self.lowered is not None
        return self._decisions

    def entry(
        self,
        *,
        name: str,
        single: bool,
        slow_path: Callable[..., Any],
        into_slow_path: Callable[..., Any],
        none_for_nothing: bool = True,
        as_list: bool = False,
    ) -> NativeEntry:
        """Make the built-in functions that run this program, or refuse where it is for others."""
        target = self.options.target
        if why_not_here(target) is not None:
            refuse = partial(_refuse, name, target)
            return NativeEntry(refuse, lambda: refuse)
        return build_entry(
            name=name,
            step_address=self.code.address(STEP),
            state_address=self.table.ctypes.data,
            inputs=[_spec(t, i) for i, t in enumerate(self.graph.inputs)],
            outputs=[_spec(t, i) for i, t in enumerate(self.graph.outputs)],
            single=single,
            slow_path=slow_path,
            on_failure=self.raise_failure,
            into_slow_path=into_slow_path,
            none_for_nothing=none_for_nothing,
            as_list=as_list,
            running=self._running,
            owner=(self.code, self.table, self._arrays, self._functions, self._interrupts),
        )

    def raise_failure(self, status: int, index: int, *arguments: Any) -> None:
        """Raise the error for a status that the program returned, and what it said with it.

        Returns if the program was stopped for nothing and makes no calls: it is to be run again.
        """
        if status == REENTERED:
            raise reentered_error(self.graph.name)
        for group in _starting_groups(self.graph):
            group.settle()
        if status == STOPPED:
            raise_interrupt(makes_calls=has_effects(self.graph))
            return
        if status == TAPE_FULL:
            raise TapeError(
                self.graph.name,
                "a loop without a bound ran for longer than there is memory to record it",
                hint="give it maximum_iterations",
            )
        node, spec = self.sources.failures[status]
        if isinstance(spec, Extern):
            subject, problem = failed_call(spec.function.name, index)
            raise ForeignCallError(subject, problem, source=node.source)
        if node.definition is check_numerics_op:
            inputs = arguments[: len(self.graph.inputs)]
            raise not_finite_error(self._prepared.graph, node, index, inputs)
        problem = f"index {index} is out of range for {failing_axis(node, spec)}"
        raise IndexOutOfRangeError(node.called, problem, source=node.source)

    @property
    def lock_use(self) -> LockUse:
        """How the step is kept apart from others."""
        return self._running.lock_use

    @property
    def read_failure(self) -> tuple[Any, ...]:
        """What to call, and with what, for the index that `raise_failure` is given."""
        return self._watch.__getitem__, FAILURE_WORD

    @cached_property
    def optimized_llvm(self) -> str:
        options = self.options
        return optimized_text(self.linkable, options.target, options.opt_level)

    @cached_property
    def assembly(self) -> str:
        options = self.options
        return assembly_of(self.linkable, options.target, options.opt_level)


def _lock_use(program: LoadedProgram) -> LockUse:
    """Return how a program is kept apart from others.

    One whose calls are of a group of processes keeps the global lock: what such calls work on, the
    memory that ranks share and the requests that are on their way, is changed by Python as well.
    """
    if program.is_brief or any(function.is_handle for function in program.functions):
        return LockUse.BRIEF
    needs_both = any(function.keeps_lock for function in program.functions)
    return LockUse.BOTH if needs_both else LockUse.LONG


def reentered_error(name: str) -> GraphError:
    """Return the error for a step that is called by a function which it calls."""
    problem = "it was called by a function that it calls, in whose call it still runs"
    return GraphError(name, problem, source=user_source())


def _arena_for(graph: Graph, count: int) -> Array:
    """Return memory for buffers: that which ranks see who start sums together, if there is any."""
    for group in _starting_groups(graph):
        shared: Array | None = group.allocate(count)
        if shared is not None:
            return shared
    return aligned_empty((count,), np.dtype(np.uint8))


def _starting_groups(graph: Graph) -> list[ProcessGroup]:
    """Return the groups of processes that start something together."""
    found: dict[ProcessGroup, None] = {}
    # Which functions there are is asked for anyway; most programs have none to walk to.
    for node, function in functions_in(graph) if foreign_functions(graph) else ():
        called = node.attrs["function"]
        assert isinstance(called, ForeignFunction), "a call is of a function"
        if function.group is not None and called.when == "early":
            found[function.group] = None
    return [*found]


def _free_tapes(tapes: Array) -> None:
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    for pointer, _ in tapes.tolist():
        free(pointer)


def _spec(tensor: Tensor, position: int) -> ArraySpec:
    name = tensor.name or f"{position}"
    return ArraySpec(name, tensor.type.static_shape, tensor.dtype)


def failing_axis(node: Node, spec: KernelSpec | None) -> str:
    """Return the axis that an index of `node` can be out of, as messages say it.

    Of what stands for a node that reads the same in another order, it is that of the node.
    """
    built = node.origin
    if built is not None and built.definition is node.definition and _is_permuted(node, built):
        return failing_axis(built, kernel_spec(built))
    checked = checked_axes(spec)
    assert checked, f"{node} cannot fail"
    operand = node.inputs[0].type
    indices = zip(checked, node.inputs[-len(checked) :], strict=True)
    # Those that count rows, beside the index of a column, are within them.
    open_ = [a for a, i in indices if not _is_within(range_of(i), operand.static_shape[a])]
    axes = range(open_[0], open_[-1] + 1) if open_ else checked
    sizes = operand.static_shape[axes.start : axes.stop]
    where = f"axis {axes[0]} of size {sizes[0]}"
    if len(axes) > 1:
        where = f"axes {axes[0]} to {axes[-1]} of sizes {list(sizes)}"
    if isinstance(spec, AtIndices) and spec.window is not None:
        where = f"slices of sizes {list(spec.window)} along {where}"
    return f"{where} of {operand}"


def _is_within(range_: Range | None, size: int) -> bool:
    return range_ is not None and range_[0] >= 0 and range_[1] < size


def _is_permuted(node: Node, built: Node) -> bool:
    """Return whether `node` reads an array of the sizes of that which `built` reads, in order."""
    sizes, known = node.inputs[0].type.static_shape, built.inputs[0].shape
    return all(isinstance(size, int) for size in known) and sorted(sizes) == sorted(known)


def _refuse(name: str, target: Target, *_arrays: Any) -> None:
    check_runs_here(name, target)
