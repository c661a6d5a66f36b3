"""Compiled step: a program that is called with arrays, specialised for sizes as they are met."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.call_errors import methods_refuse_arguments
from symgrad.collector import paused_collector
from symgrad.compiler import CompileOptions, prepare
from symgrad.errors import CompileError, GraphError, user_source
from symgrad.frontend.nests import Nest, describe, flatten, flatten_as
from symgrad.graph.graph import Graph, specialize
from symgrad.graph.identity import Immutable
from symgrad.graph.sizes import unknowns_of
from symgrad.graph.types import Array
from symgrad.passes.table import Options
from symgrad.runtime.agreement import agreement_of
from symgrad.runtime.arguments import (
    check_outputs,
    check_sizes,
    convert,
    in_order,
    input_labels,
    resolve_sizes,
)
from symgrad.runtime.choices import FORMATS, STAGES
from symgrad.runtime.entry import NativeEntry
from symgrad.runtime.executable import Executable
from symgrad.runtime.host import check_runs_here
from symgrad.runtime.output_nest import output_nest_of

if TYPE_CHECKING:
    from symgrad.runtime.aot import ExportedStep
    from symgrad.runtime.inspection.decisions import Decisions
    from symgrad.runtime.inspection.kernels import Kernels
    from symgrad.runtime.inspection.memory import Memory
    from symgrad.runtime.inspection.profile import Profile


@methods_refuse_arguments
class Step(Immutable):
    """A compiled program: call it with arrays, read what it became.

    Sizes that the inputs leave open are compiled for when they are first met. A copy is the step
    itself; what may be taken elsewhere is what `export` writes.

    >>> x = sg.placeholder((None,), name="x")
    >>> step = sg.compile([x], sg.sum(x))
    >>> step(np.float32([1.0, 2.0, 3.0]))
    array(6., dtype=float32)
    >>> len(step.kernels), step.memory.peak_bytes >= 0
    (1, True)
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
            passes = Options(checks_numerics=options.checks_numerics)
            self._prepared = prepare(graph, passes=passes)
            self._agreement = agreement_of(graph, self._prepared.graph)
            self._is_agreed = self._agreement is None
        self.name = graph.name
        self._options = options
        self._input_nest = input_nest
        self._outputs = output_nest_of(output_nest, len(graph.outputs))
        self._takes_flat = input_nest == flatten((0,) * len(graph.inputs))[1]
        self._labels = input_labels(input_nest, graph.inputs)
        self._compiled: dict[tuple[tuple[str, int], ...], tuple[Executable, NativeEntry]] = {}
        names = (u for t in graph.inputs for n in t.shape for u in unknowns_of(n))
        self._unknowns = list(dict.fromkeys(names))
        self._latest: Executable | None = None
        self._run: Callable[..., Any] = self._run_any
        self._run_flat_into: Callable[..., None] | None = None
        if not self._unknowns:
            self._specialized({})

    def __call__(self, *arrays: Any, out: Any = None, **by_name: Any) -> Any:
        """Run the step. `out` is a nest of arrays to write the outputs to, like the outputs.

        An input that is a placeholder with a name may be given by it: `step(x=..., labels=...)`.
        """
        if by_name:
            arrays = in_order(self.name, self._labels, arrays, by_name)
        if out is None:
            return self._run(*arrays)
        if self._run_flat_into is None or (outputs := self._outputs.flat(out)) is None:
            return self._run_into(arrays, out)
        self._run_flat_into(*arrays, *outputs)
        return out

    def __repr__(self) -> str:
        inputs = ", ".join(str(t.type) for t in self.graph.inputs)
        outputs = ", ".join(str(t.type) for t in self.graph.outputs)
        return f"<Step {self.name}({inputs}) -> ({outputs})>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: inputs, outputs, kernels and memory."""
        from symgrad.runtime.inspection.step_panel import step_panel  # late: see below

        return step_panel(self.name, self.graph, self._latest)

    # ---------------------------------------------------------------------------- running

    def _run_any(self, *arguments: Any) -> Any:
        """Run with nests, other dtypes, or sizes that may be new."""
        arrays = self._flat_arguments(arguments)
        entry = self._entry_for(arrays)
        return self._outputs.of(entry.call(*arrays))

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
        _, entry = self._agreed(sizes)
        return entry

    def _nested(self, entry: NativeEntry) -> Callable[..., Any]:
        """Return a way to run `entry` that puts what it returns into the nest of the outputs."""
        return lambda *arrays: self._outputs.of(entry.call(*arrays))

    def _slow_call(self, *arguments: Any) -> Any:
        """Take a call whose arguments do not fit as they are: convert, or say what is wrong."""
        arrays = convert(self.name, self.graph.inputs, arguments)
        return self._entry_for(arrays).call(*arrays)

    def _run_into(self, arguments: tuple[Any, ...], out: Any) -> Any:
        arrays = self._flat_arguments(arguments)
        entry = self._entry_for(arrays)
        flat = self._outputs.flat(out)
        outputs = self._leaves("out is", out, self._outputs.nest) if flat is None else flat
        entry.into(*arrays, *outputs)
        if flat is not None and self._takes_flat and self._is_agreed:
            self._run_flat_into = entry.into  # the short way for what fits, as `_run` is
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
        for target, result in zip(
            outputs, (results,) if self._outputs.is_single else results, strict=True
        ):
            np.copyto(target, result)

    def _agreed(self, sizes: Mapping[str, int]) -> tuple[Executable, NativeEntry]:
        """Return what is run for `sizes`, which ranks compare before, as their programs once."""
        agreement = self._agreement
        if agreement is not None and not self._is_agreed:
            again = agreement.before_run(self.name, self._prepared.graph, sizes)
            self._is_agreed = not again
        return self._specialized(sizes)

    # -------------------------------------------------------------------------- compiling

    def _specialized(self, sizes: Mapping[str, int]) -> tuple[Executable, NativeEntry]:
        key = tuple(sorted(sizes.items()))
        if key not in self._compiled:
            start = perf_counter()
            with paused_collector():
                executable = Executable(self._prepared, self._options, sizes)
            entry = executable.entry(
                name=self.name,
                single=self._outputs.is_single,
                slow_path=self._slow_call,
                into_slow_path=self._slow_into,
                none_for_nothing=self._outputs.is_nothing,
                as_list=self._outputs.is_list,
            )
            if self._agreement is not None:
                entry = self._agreement.counting(entry)
            self._compiled[key] = (executable, entry)
            self._log(sizes, perf_counter() - start)
        self._latest, entry = self._compiled[key]
        if self._takes_flat and self._is_agreed:
            # What fits these sizes takes the short way from now on; the entry sends others here.
            self._run = entry.call if self._outputs.is_direct else self._nested(entry)
            self._run_flat_into = None
        return self._compiled[key]

    def _log(self, sizes: Mapping[str, int], seconds: float) -> None:
        """Log that the step was compiled: once is expected, and again is what a user may mend."""
        if (logging := sys.modules.get("logging")) is None:
            return  # whoever listens has imported it
        level = logging.DEBUG if len(self._compiled) == 1 else logging.INFO
        chosen = ", ".join(f"{name}={size}" for name, size in sizes.items())
        logging.getLogger("symgrad").log(
            level,
            "%s: compiled%s in %.3f s (program %d of this step)",
            *(self.name, f" for {chosen}" if chosen else "", seconds, len(self._compiled)),
        )

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

    # ------------------- inspecting, by what is imported here: a first step does without
    @property
    def kernels(self) -> Kernels:
        """A record for each call of a kernel or of C: ops, lines, flops, bytes, loops, boundary."""
        from symgrad.runtime.inspection.kernels import describe_kernels

        return describe_kernels(self.executable)

    @property
    def decisions(self) -> Decisions:
        """What passes have weighed, such as keeping a value or computing it again, and why."""
        from symgrad.runtime.inspection.decisions import describe_decisions

        return describe_decisions(self.executable)

    @property
    def memory(self) -> Memory:
        """The memory plan: the arena and its buffers with their lifetimes, and the state."""
        from symgrad.runtime.inspection.memory import describe_memory

        return describe_memory(self.executable)

    def profile(self, *arrays: Any, repeat: int = 20, **by_name: Any) -> Profile:
        """Run the step `repeat` times on `arrays`, as in a call: return the time of each kernel.

        The state is as it was before when this returns.

        >>> x = sg.placeholder((100,), name="x")
        >>> profile = sg.compile([x], sg.exp(x)).profile(np.ones(100, "float32"), repeat=2)
        >>> len(profile.rows)
        1
        """
        from symgrad.runtime.inspection.profile import profile

        executable, _, flat = self._to_measure(arrays, by_name)
        return profile(executable, flat, repeat)

    def _to_measure(
        self, arrays: tuple[Any, ...], by_name: Mapping[str, Any]
    ) -> tuple[Executable, NativeEntry, list[Array]]:
        """Return the program for `arrays`, and these as it takes them."""
        if by_name:
            arrays = in_order(self.name, self._labels, arrays, by_name)
        check_runs_here(self.name, self._options.target)
        flat = self._flat_arguments(arrays)
        return *self._agreed(resolve_sizes(self.name, self.graph.inputs, flat)), flat

    def trace(self, path: str | os.PathLike[str], *arrays: Any, **by_name: Any) -> None:
        """Write a timeline of one step on `arrays`, as in a call, for ui.perfetto.dev.

        It is JSON in the trace event format, which chrome://tracing reads as well: a row for each
        thread, with the begin and end of each kernel as measured, and of each part of one that is
        shared by threads. A loop in registers is one event, in which only the kernels that it calls
        have their own. The step is run twice, and the state is as it was before. Raises what a call
        of the step raises.

        >>> import json, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "step.json"
        >>> sg.compile([], sg.ones(3)).trace(path)
        >>> sorted(json.loads(path.read_text()))
        ['displayTimeUnit', 'otherData', 'traceEvents']
        """
        from symgrad.runtime.inspection.trace import write_trace

        executable, _, flat = self._to_measure(arrays, by_name)
        write_trace(path, self.name, executable, flat)

    def report(
        self, path: str | os.PathLike[str], *arrays: Any, repeat: int = 20, **by_name: Any
    ) -> None:
        """Write a page of HTML to `path` that shows where time and memory of the step go.

        It has the source with what each line costs, the graph by name scopes, kernels, all stages
        side by side, the memory plan and decisions; it is one file that needs no network.
        With `arrays`, as in a call, or if there are no inputs, the step is run `repeat` times for
        its times; the state is as it was before. Raises `CompileError` if the library jinja2 is
        not installed, or if sizes are not known yet.

        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "step.html"
        >>> sg.compile([], sg.ones(3)).report(path, repeat=1)
        >>> path.exists()
        True
        """
        from symgrad.runtime.report.page import measure, write_report

        place = Path(path)  # what is none is refused before the step is run
        measured = None
        if arrays or by_name or not self.graph.inputs:
            executable, entry, flat = self._to_measure(arrays, by_name)
            measured = measure(executable, entry.call, flat, repeat)
        write_report(place, self.name, self.graph, self.executable, measured)

    def exported(
        self, name: str | None = None, sizes: Mapping[str, int] | None = None
    ) -> ExportedStep:
        """Return what an export needs to know, with unknown sizes as `sizes` says.

        >>> x = sg.placeholder(("n",), name="x")
        >>> sg.compile([x], 2 * x).exported(sizes={"n": 8}).name
        'step'
        """
        from symgrad.runtime.aot import ExportedStep

        given = check_sizes(self.name, self._prepared.graph.inputs, self._unknowns, sizes or {})
        graph = specialize(self._prepared.graph, given)
        nests = self._input_nest, self._outputs.nest
        return ExportedStep(name or self.name, graph, self._options, *nests)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        formats: Sequence[str] = FORMATS,
        target: str | Sequence[str] | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> tuple[Path, ...]:
        """Write the step as a library that needs no Python; `export` says what is written.

        >>> import pathlib, tempfile
        >>> x, folder = sg.placeholder((8,), name="x"), pathlib.Path(tempfile.mkdtemp())
        >>> files = sg.compile([x], 2 * x).export(folder / "twice", formats=["h"])
        >>> [file.name for file in files]
        ['twice.h']
        """
        from symgrad.runtime.aot import write_library

        of_step = self.exported(sizes=sizes)
        chosen = self._options.target.name if target is None else target
        return write_library(path, [of_step], formats, chosen)

    def ir(self, stage: str, kernel: str | None = None) -> str:
        """Return the text of a stage, one of `STAGES`.

        With `kernel`, a name as the loops stage shows it, only what that kernel is made of at that
        stage: its ops in the first two, its functions in the last three. Raises `CompileError`
        for another stage or kernel.

        >>> x = sg.placeholder((8,), name="x")
        >>> print(sg.compile([x], sg.exp(x)).ir("graph"), end="")
        graph @step(%x: f32[8]) -> f32[8] {
          %0 = exp %x : f32[8]
          return %0
        }
        """
        if stage not in STAGES:
            raise CompileError(
                self.name, f"stage {stage!r} is none of {', '.join(STAGES)}", source=user_source()
            )
        from symgrad.runtime.stages import graph_parts, parts_of_step

        if stage == "graph" and kernel is None:
            return "".join(part.text for part in graph_parts(self.graph))
        parts = parts_of_step(stage, self.graph, self.executable)
        if kernel is not None:
            parts = [part for part in parts if kernel in part.kernels]
        if not parts:
            raise CompileError(
                self.name, f"there is no kernel {kernel!r} at stage {stage!r}", source=user_source()
            )
        return "".join(part.text for part in parts)
