"""Compiler driver: from a graph to a callable step, specialised for sizes as they are met."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from symgrad.codegen.native.cores import usable_cores
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, prepare
from symgrad.errors import CompileError, DTypeError, GraphError, user_source
from symgrad.frontend.nests import Nest, describe, flatten, flatten_as, is_leaf, unflatten
from symgrad.graph.graph import Graph, Update, specialize
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.sizes import unknowns_of
from symgrad.graph.types import Array, Immutable
from symgrad.runtime.aot import FORMATS, ExportedStep, write_library
from symgrad.runtime.arguments import check_outputs, check_sizes, convert, resolve_sizes
from symgrad.runtime.collector import paused_collector
from symgrad.runtime.entry import NativeEntry
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.decisions import Decisions, describe_decisions
from symgrad.runtime.inspection.kernels import Kernels, describe_kernels
from symgrad.runtime.inspection.memory import Memory, describe_memory
from symgrad.runtime.inspection.profile import Profile, profile
from symgrad.runtime.provenance import Provenance
from symgrad.runtime.report.page import write_report
from symgrad.runtime.stages import STAGES, Part, graph_parts, stage_parts

UpdateLike = Update | tuple[Variable, Any]


def compile(
    inputs: Any,
    outputs: Any,
    updates: Iterable[UpdateLike] = (),
    *,
    name: str | None = None,
    threads: int | Literal["auto"] | None = None,
    target: str = "native",
    opt_level: int = 3,
    fast_math: bool = False,
    memory_limit: int | None = None,
    check_numerics: bool = False,
    cache: bool = True,
) -> Step:
    """Compile `outputs` and `updates` as one native program over `inputs`.

    `inputs` is a list of placeholders, or of nests of them: one argument of the step each.
    `outputs` is any nest of tensors; arrays come back in the same nest. `updates` are `Update`s or
    (variable, new value) pairs, all applied at once when the step has been computed.

    `threads` is how many threads share the work of a kernel that is worth it, None for one, "auto"
    for as many as this process may use cores: of its affinity, and of the quota of a container.
    Results have the same bits whatever it is. No more threads run than there are such cores, and
    where other programs keep a core busy, one thread does what more would do no faster.

    `target` is "native" or an x86-64 level; `opt_level` is that of LLVM's code generator, 0 to 3,
    and 0 leaves out its middle end; `fast_math` allows rewrites that hold for real numbers only;
    `cache` shares the machine code of equal programs, in files also with other processes.
    Raises `GraphError` for a placeholder that is missing from `inputs`, `CompileError` for a
    target that is not known, a number of threads that is none, or an option this version does not
    have.
    """
    _refuse_options(memory_limit=memory_limit, check_numerics=check_numerics)
    arguments = inputs if isinstance(inputs, tuple | list) else (inputs,)
    flat_inputs, input_nest = flatten(tuple(arguments))
    flat_outputs, output_nest = flatten(outputs)
    graph = Graph(
        [as_tensor(t) for t in flat_outputs],
        [_as_input(t) for t in flat_inputs],
        [_as_update(u) for u in updates],
        name=name or "step",
    )
    if opt_level not in range(4):
        raise CompileError(
            "compile", f"opt_level {opt_level} is none of 0, 1, 2, 3", source=user_source()
        )
    options = CompileOptions(
        target_named(target), opt_level, fast_math, cache, Threads(_thread_count(threads))
    )
    return Step(graph, options, input_nest, output_nest)


def _refuse_options(**options: object) -> None:
    """Refuse what is part of the interface and not of this version, rather than ignore it."""
    for option, value in options.items():
        if value not in (None, False):
            raise CompileError(
                "compile", f"{option}={value!r} is not supported in this version",
                source=user_source(),
            )  # fmt: skip


def _thread_count(threads: int | Literal["auto"] | None) -> int:
    """Return how many threads a step runs on; None is one."""
    if threads == "auto":
        return usable_cores()
    is_count = isinstance(threads, int) and not isinstance(threads, bool) and threads >= 1
    if threads is None or is_count:
        return threads or 1
    raise CompileError(
        "compile", f"threads={threads!r} is no positive number of threads", source=user_source()
    )


def _as_input(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise DTypeError("compile", f"input {value!r} is no placeholder", source=user_source())
    return value


def _as_update(update: Any) -> Update:
    if isinstance(update, Update):
        return update
    if isinstance(update, tuple) and len(update) == 2 and isinstance(update[0], Variable):
        variable, value = update
        return Update(variable, as_tensor(value, variable.dtype))
    raise DTypeError(
        "compile",
        f"{update!r} is neither an Update nor a pair of a variable and its new value",
        source=user_source(),
    )


class Step(Immutable):
    """A compiled program: call it with arrays, read what it became.

    Sizes that the inputs leave open are compiled for when they are first met. A copy is the step
    itself; what may be taken elsewhere is what `export` writes.
    """

    pickled_instead = "step.export(path) writes what sg.load runs, or pickle step.graph"

    def __init__(
        self,
        graph: Graph,
        options: CompileOptions,
        input_nest: Nest,
        output_nest: Nest,
    ) -> None:
        self.graph = graph
        with paused_collector():
            self._prepared = prepare(graph)
        self.name = graph.name
        self._options = options
        self._input_nest = input_nest
        self._output_nest = output_nest
        self._is_single = is_leaf(output_nest)
        nothing, as_tuple = flatten(None)[1], flatten((0,) * len(graph.outputs))[1]
        self._is_nothing = output_nest == nothing
        self._is_direct = self._is_single or output_nest in (nothing, as_tuple)
        self._takes_flat = input_nest == flatten((0,) * len(graph.inputs))[1]
        self._compiled: dict[tuple[tuple[str, int], ...], tuple[Executable, NativeEntry]] = {}
        self._unknowns = _unknowns(graph)
        self._latest: Executable | None = None
        self._run: Callable[..., Any] = self._run_any
        self._run_single_into: Callable[..., None] | None = None
        if not self._unknowns:
            self._specialized({})

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """Run the step. `out` is a nest of arrays to write the outputs to, like the outputs."""
        if out is None:
            return self._run(*arrays)
        if self._run_single_into is not None:
            self._run_single_into(*arrays, out)
            return out
        return self._run_into(arrays, out)

    def __repr__(self) -> str:
        inputs = ", ".join(str(t.type) for t in self.graph.inputs)
        outputs = ", ".join(str(t.type) for t in self.graph.outputs)
        return f"<Step {self.name}({inputs}) -> ({outputs})>"

    # ---------------------------------------------------------------------------- running

    def _run_any(self, *arguments: Any) -> Any:
        """Run with nests, other dtypes, or sizes that may be new."""
        arrays = self._flat_arguments(arguments)
        entry = self._entry_for(arrays)
        return self._as_nest(entry.call(*arrays))

    def _flat_arguments(self, arguments: tuple[Any, ...]) -> list[Array]:
        flat: Sequence[Any] = arguments
        if not self._takes_flat:
            flat = self._leaves("the inputs are", arguments, self._input_nest)
        return convert(self.name, self.graph.inputs, flat)

    def _leaves(self, what: str, tree: Any, nest: Nest) -> list[Any]:
        try:
            return flatten_as(nest, tree)
        except ValueError as error:
            _, given = flatten(tree)
            problem = f"{what} {describe(given)}, {describe(nest)} is needed"
            raise GraphError(self.name, problem, source=user_source()) from error

    def _entry_for(self, arrays: Sequence[Array]) -> NativeEntry:
        sizes = resolve_sizes(self.name, self.graph.inputs, arrays)
        _, entry = self._specialized(sizes)
        return entry

    def _nested(self, entry: NativeEntry) -> Callable[..., Any]:
        """Return a way to run `entry` that puts what it returns into the nest of the outputs."""
        return lambda *arrays: self._as_nest(entry.call(*arrays))

    def _as_nest(self, result: Any) -> Any:
        if self._is_direct:
            return result
        return unflatten(self._output_nest, () if result is None else result)

    def _slow_call(self, *arguments: Any) -> Any:
        """Take a call whose arguments do not fit as they are: convert, or say what is wrong."""
        arrays = convert(self.name, self.graph.inputs, arguments)
        return self._entry_for(arrays).call(*arrays)

    def _run_into(self, arguments: tuple[Any, ...], out: Any) -> Any:
        arrays = self._flat_arguments(arguments)
        entry = self._entry_for(arrays)
        outputs = [out] if self._is_single else self._leaves("out is", out, self._output_nest)
        entry.into(*arrays, *outputs)
        return out

    def _slow_into(self, *arguments: Any) -> None:
        """Take what does not fit: convert and compute into fresh arrays, or say what is wrong.

        Outputs that overlap or are not contiguous come here too.
        """
        count = len(arguments) - len(self.graph.outputs)
        arrays = convert(self.name, self.graph.inputs, arguments[:count])
        outputs = arguments[count:]
        executable, entry = self._specialized(resolve_sizes(self.name, self.graph.inputs, arrays))
        check_outputs(self.name, executable.graph.outputs, outputs)
        results = entry.call(*arrays)
        for target, result in zip(outputs, (results,) if self._is_single else results, strict=True):
            np.copyto(target, result)

    # -------------------------------------------------------------------------- compiling

    def _specialized(self, sizes: Mapping[str, int]) -> tuple[Executable, NativeEntry]:
        key = tuple(sorted(sizes.items()))
        if key not in self._compiled:
            with paused_collector():
                executable = Executable(self._prepared, self._options, sizes)
            entry = executable.entry(
                name=self.name,
                single=self._is_single,
                slow_path=self._slow_call,
                into_slow_path=self._slow_into,
                none_for_nothing=self._is_nothing,
            )
            self._compiled[key] = (executable, entry)
        self._latest, entry = self._compiled[key]
        if self._takes_flat:
            # What fits these sizes takes the short way from now on; the entry sends others here.
            self._run = entry.call if self._is_direct else self._nested(entry)
            self._run_single_into = entry.into if self._is_single else None
        return self._compiled[key]

    @property
    def executable(self) -> Executable:
        """The program of the latest sizes. Raises `CompileError` if no sizes are known yet."""
        if self._latest is None:
            names = ", ".join(self._unknowns)
            raise CompileError(
                self.name,
                f"sizes {names} are not known yet",
                hint="call the step once first",
                source=user_source(),
            )
        return self._latest

    # -------------------------------------------------------------------------- inspecting

    @property
    def kernels(self) -> Kernels:
        """One record for each call of a kernel: ops, lines, flops, bytes, loops, and boundary."""
        return describe_kernels(self.executable)

    @property
    def decisions(self) -> Decisions:
        """What passes have weighed, such as keeping a value or computing it again, and why."""
        return describe_decisions(self.executable)

    @property
    def memory(self) -> Memory:
        """The memory plan: the arena and its buffers with their lifetimes, and the state."""
        return describe_memory(self.executable)

    def profile(self, *arrays: Any, repeat: int = 20) -> Profile:
        """Run the step `repeat` times on `arrays` and return the time of each kernel.

        The state is as it was before when this returns.
        """
        flat = self._flat_arguments(arrays)
        sizes = resolve_sizes(self.name, self.graph.inputs, flat)
        executable, _ = self._specialized(sizes)
        return profile(executable, flat, repeat)

    def report(self, path: str | os.PathLike[str], *arrays: Any, repeat: int = 20) -> None:
        """Write a page of HTML to `path` that shows the step: stages, kernels, memory, profile.

        With `arrays`, as in a call, or if there are no inputs, the step is run `repeat` times for
        its profile; the state is as it was before. Raises `CompileError` if the library jinja2 is
        not installed, or if sizes are not known yet.
        """
        is_run = bool(arrays) or not self.graph.inputs
        measured = self.profile(*arrays, repeat=repeat) if is_run else None
        stages = {stage: self._parts(stage) for stage in STAGES}
        write_report(path, self.name, self.executable, stages, measured)

    def exported(
        self, name: str | None = None, sizes: Mapping[str, int] | None = None
    ) -> ExportedStep:
        """Return what an export needs to know, with unknown sizes as `sizes` says."""
        given = check_sizes(self.name, self._unknowns, sizes or {})
        graph = specialize(self._prepared.graph, given)
        nests = self._input_nest, self._output_nest
        return ExportedStep(name or self.name, graph, self._options, *nests)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        formats: Sequence[str] = FORMATS,
        target: str | Sequence[str] | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> tuple[Path, ...]:
        """Write the step as a library that needs no Python; `export` says what is written."""
        of_step = self.exported(sizes=sizes)
        chosen = self._options.target.name if target is None else target
        return write_library(path, [of_step], formats, chosen)

    def ir(self, stage: str, kernel: str | None = None) -> str:
        """Return the text of a stage, one of `STAGES`.

        With `kernel`, a name as the loops stage shows it, only what that kernel is made of at that
        stage: its ops in the first two, its functions in the last three. Raises `CompileError`
        for another stage or kernel.
        """
        if stage not in STAGES:
            raise CompileError(
                self.name, f"stage {stage!r} is none of {', '.join(STAGES)}", source=user_source()
            )
        if stage == "graph" and kernel is None:
            return "".join(part.text for part in graph_parts(self.graph))
        parts = self._parts(stage)
        if kernel is not None:
            parts = [part for part in parts if kernel in part.kernels]
        if not parts:
            raise CompileError(
                self.name, f"there is no kernel {kernel!r} at stage {stage!r}", source=user_source()
            )
        return "".join(part.text for part in parts)

    def _parts(self, stage: str) -> list[Part]:
        """Return the parts of a stage, which say what kernels they belong to."""
        if stage == "graph":
            executable = self.executable
            provenance = Provenance(executable.program.launches, executable.sources)
            return graph_parts(self.graph, provenance)
        return stage_parts(stage, self.executable)


def _unknowns(graph: Graph) -> list[str]:
    names = (name for t in graph.inputs for n in t.shape for name in unknowns_of(n))
    return list(dict.fromkeys(names))


# ------------------------------------------------------------------------------------------ run

_RUN_CACHE_SIZE = 128
_run_cache: OrderedDict[tuple[object, ...], Step] = OrderedDict()


def run(fetches: Any, feed_dict: Mapping[Tensor, Any] | None = None) -> Any:
    """Compute `fetches`, any nest of tensors, with placeholders fed as `feed_dict` says.

    The compiled program is kept and used again for the same fetches and placeholders.
    """
    feeds = dict(feed_dict or {})
    flat, nest = flatten(fetches)
    key = (nest, tuple(flat), tuple(feeds))
    step = _run_cache.pop(key, None)
    if step is None:
        step = compile(list(feeds), fetches, name="run")
    _run_cache[key] = step
    while len(_run_cache) > _RUN_CACHE_SIZE:
        _run_cache.popitem(last=False)
    return step(*feeds.values())
