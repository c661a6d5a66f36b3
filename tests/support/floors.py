"""The ways to run a graph, floor by floor: each must give what the one below it gives.

    reference       the NumPy meaning of each op
    passes          the same, of the graph the passes made
    loops           the kernels in the loop interpreter, on buffers laid out as the plan of memory
    native          machine code, for this machine and for the levels below it

`run_everywhere` takes a graph through all of them and names the first that disagrees.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from symgrad import compiler
from symgrad.codegen.contract.panel_width import panel_bytes
from symgrad.codegen.llvm.addresses import FIRST_VARIABLE_SLOT
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.run import POISON, Results, poisoned, run_program
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.dtypes import as_dtype, bfloat16, float16, float32, float64
from symgrad.graph.graph import Graph, specialize
from symgrad.graph.reference import bind_sizes, evaluate
from symgrad.passes.calls.callees import graphs_within
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.pipeline import optimize
from symgrad.passes.table import Options, PassRunner
from symgrad.runtime.executable import Executable
from tests.support.complex_results import in_parts, parts_of
from tests.support.guard_pages import (
    Side,
    arena_apart,
    guarded_copy,
    guarded_empty,
    temporaries_apart,
)
from tests.support.programs import program_of
from tests.support.schedules import SCHEDULES
from tests.support.templates import emitted_anew

Array = np.ndarray[Any, Any]

TARGETS = ("native", "x86-64-v3", "x86-64")


@dataclass(frozen=True, slots=True)
class Memory:
    """Where machine code finds its memory: between guard pages on one side, if one is given.

    `is_apart`: every temporary of the arena has pages of its own, so that none is planned over
    another.
    """

    side: Side | None = None
    is_apart: bool = False


@dataclass(frozen=True, slots=True)
class Variant:
    """How machine code is made and run."""

    target: str = "native"
    opt_level: int = 1
    threads: Threads = ONE_THREAD
    memory: Memory = Memory()
    interleaves: bool = False
    packs: bool = False
    tiles: bool = False
    squares: bool = False
    unrolls: bool = False
    sums: bool = False
    rows: bool = False
    blocks: bool = False
    borders: bool = False
    windows: bool = False
    in_place: bool = False
    apart: bool = False
    places: bool = False
    sweeps: bool = False
    elements: bool = False
    products: bool = False
    triangles: bool = False
    split: bool = False
    pairs: bool = False
    calls: bool = False


# ------------------------------------------------------------------------------------ results


def run_reference(graph: Graph, inputs: Sequence[Array]) -> Results:
    """Run the NumPy meaning of each op."""
    outputs, new = evaluate(graph, inputs)
    state = {variable.state: variable.value for variable in graph.variables}
    state.update(zip((u.variable.state for u in graph.updates), new, strict=True))
    return Results(outputs, state)


def run_native(step: Executable, inputs: Sequence[Array]) -> Results:
    """Run machine code, in an arena full of garbage. The state is put back as it was."""
    ctypes.memset(int(step.table[0]), POISON, step.program.arena_bytes)
    outputs = [poisoned(t.type.static_shape, t.dtype) for t in step.graph.outputs]
    with kept_state(step.graph):
        _enter(step, inputs, outputs)
        state = {variable.state: variable.value for variable in step.graph.variables}
    return Results(outputs, state)


def run_between_guards(step: Executable, inputs: Sequence[Array], memory: Memory) -> Results:
    """Run machine code on memory between guard pages. A fault ends the process."""
    side = memory.side or "end"
    program, given = step.program, [guarded_copy(a, side) for a in inputs]
    types = [t.type for t in step.graph.outputs]
    outputs = [guarded_empty(t.static_shape, t.dtype.numpy, side) for t in types]
    arena = guarded_empty((program.arena_bytes,), np.dtype(np.uint8), side)
    if memory.is_apart:
        arena = arena_apart(program)
    variables = [guarded_copy(state.array, side) for state in program.variables]
    constants = [guarded_copy(literal.array, side) for literal in program.constants]
    poison = [*outputs, *([] if memory.is_apart else [arena])]
    for array in poison:
        array.reshape(-1).view(np.uint8)[...] = 1 if array.dtype == bool else POISON
    table = step.table.copy()
    pieces = {0: arena, **dict(enumerate((*variables, *constants), FIRST_VARIABLE_SLOT))}
    for slot, array in pieces.items():
        step.table[slot] = array.ctypes.data
    try:
        _enter(step, given, outputs)
    finally:
        step.table[...] = table
    return Results(outputs, dict(zip(program.variables, variables, strict=True)))


def _enter(step: Executable, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    entry = step.entry(name="native", single=False, slow_path=_refuse, into_slow_path=_refuse)
    entry.into(*(np.require(a, requirements=["C", "A", "E"]) for a in inputs), *outputs)


def _refuse(*_arguments: object) -> None:
    raise AssertionError("the arguments of the step do not fit")


@contextmanager
def kept_state(graph: Graph) -> Iterator[None]:
    """Put the variables of `graph` back to what they were when the block ends."""
    kept = {variable.state: variable.value for variable in graph.variables}
    try:
        yield
    finally:
        for state, value in kept.items():
            state.array[...] = value


# -------------------------------------------------------------------------------- comparison

# How far results of different floors may be apart, relative to the largest element: functions
# differ in their last bits, and sums in their order and in what is fused.
TOLERANCES = {float64: 1e-11, float32: 1e-4, float16: 2e-2, bfloat16: 1e-1}


@dataclass(frozen=True, slots=True)
class Disagreement:
    """The first floor that differs from the reference, and in what."""

    floor: str
    result: str
    found: Array
    wanted: Array

    def __str__(self) -> str:
        return (
            f"{self.floor} differs from the reference in {self.result}:\n"
            f"  found  {_head(self.found)}\n  wanted {_head(self.wanted)}"
        )


def _head(array: Array) -> str:
    shown = ", ".join(str(v) for v in array.reshape(-1)[:6])
    return f"{array.dtype.name}{list(array.shape)} [{shown}{', ...' if array.size > 6 else ''}]"


def run_everywhere(
    graph: Graph,
    inputs: Sequence[Array],
    *,
    targets: Sequence[str] = TARGETS,
    opt_level: int = 1,
    slack: float = 1.0,
    threads: Threads = ONE_THREAD,
) -> Disagreement | None:
    """Run `graph` on all floors; return the first that disagrees with the reference, or None.

    Integers and bools must be equal, floats within `TOLERANCES` times `slack`.
    """
    variants = [Variant(target, opt_level, threads) for target in targets]
    return run_variants(graph, inputs, variants, slack=slack)


def run_variants(
    graph: Graph,
    inputs: Sequence[Array],
    variants: Sequence[Variant],
    *,
    slack: float = 1.0,
    interprets: bool = True,
) -> Disagreement | None:
    """Do what `run_everywhere` does, with machine code made and run in each of some ways.

    Without `interprets`, the loops are not run but as machine code.
    """
    graph = specialize(graph, bind_sizes(graph, inputs))
    wanted = in_parts(run_reference(graph, inputs))
    with optimized_once():
        tolerance, met = Tolerance(slack, coarsest(graph)), set[Graph]()
        for variant in variants:
            floors = _floors(graph, inputs, variant, met, interprets=interprets)
            different = _first_difference(floors, variant, wanted, tolerance)
            if different is not None:
                return different
        return None


def _first_difference(
    floors: Iterable[tuple[str, Callable[[], Results]]],
    variant: Variant,
    wanted: Results,
    tolerance: Tolerance,
) -> Disagreement | None:
    for floor, run in floors:
        try:
            found = in_parts(run())
        except Exception as error:
            error.add_note(f"raised by {floor} for {variant.target}")
            raise
        different = _difference(f"{floor} for {variant.target}", found, wanted, tolerance)
        if different is not None:
            return different
    return None


_PASSES = "run_graph_passes"  # what the compiler calls to run them


@contextmanager
def optimized_once() -> Iterator[None]:
    """Have the passes run once for all programs made of one graph for targets that they tell alike.

    All they know of a target is how wide its panels of weights are.
    """
    run_passes = getattr(compiler, _PASSES)
    known: dict[tuple[Graph, int], Graph] = {}

    def once(graph: Graph, runner: PassRunner) -> Graph:
        key = graph, runner.rewrites.panel_bytes
        if key not in known:
            known[key] = run_passes(graph, runner)
        return known[key]

    with mock.patch.object(compiler, _PASSES, once):
        yield


def compile_for(
    graph: Graph,
    target: str = "native",
    *,
    opt_level: int = 1,
    threads: Threads = ONE_THREAD,
) -> Executable:
    """Compile a graph of known sizes, without a share in what was kept of others.

    Under pytest kernels of a text that was compiled before are linked (`compiled_kernels.py`).
    """
    return Executable(graph, CompileOptions(target_named(target), opt_level, False, False, threads))


def program_for(graph: Graph, target: str = "native") -> Program:
    """Return the kernels for a graph of known sizes; no machine code is made."""
    options = Options(panel_bytes=panel_bytes(target_named(target)))
    return program_of(fuse(optimize(graph, options=options)), target)


def _floors(
    graph: Graph, inputs: Sequence[Array], variant: Variant, met: set[Graph], *, interprets: bool
) -> Iterator[tuple[str, Callable[[], Results]]]:
    memory = temporaries_apart() if variant.memory.is_apart else nullcontext()
    with ExitStack() as stack:
        stack.enter_context(memory)
        stack.enter_context(emitted_anew())
        for name, schedule in SCHEDULES.items():
            stack.enter_context(schedule() if getattr(variant, name) else nullcontext())
        made = compile_for(
            graph, variant.target, opt_level=variant.opt_level, threads=variant.threads
        )
    # What the passes made is the same for most of them.
    if made.optimized not in met:
        met.add(made.optimized)
        yield (
            "the graph after the passes",
            partial(run_reference, made.optimized, [parts_of(a) for a in inputs]),
        )
    if interprets:
        yield "the loops", partial(run_program, made.program, inputs)
    if variant.memory.side is None:
        yield "native code", partial(run_native, made, inputs)
    else:
        guarded = partial(run_between_guards, made, inputs, variant.memory)
        yield "native code between guard pages", guarded


def _difference(
    floor: str, found: Results, wanted: Results, tolerance: Tolerance
) -> Disagreement | None:
    pairs = [
        (f"output {i}", a, b)
        for i, (a, b) in enumerate(zip(found.outputs, wanted.outputs, strict=True))
    ]
    # What a floor knows nothing of, since nothing of it is left, stays what it is.
    pairs += [
        (f"variable {s.name}", found.state.get(s, parts_of(s.array)), b)
        for s, b in wanted.state.items()
    ]
    for name, a, b in pairs:
        if not agree(a, b, tolerance):
            return Disagreement(floor, name, a, b)
    return None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far floats may be apart: `slack` times `TOLERANCES`, and `least` in any case."""

    slack: float = 1.0
    least: float = 0.0


EXACT_TYPES = Tolerance()


def coarsest(graph: Graph) -> float:
    """Return the tolerance of the coarsest float of a program: it rounds what the others hold."""
    dtypes = {t.dtype.real for g in graphs_within(graph) for node in g.nodes for t in node.outputs}
    return max((TOLERANCES[dtype] for dtype in dtypes if dtype in TOLERANCES), default=0.0)


def agree(found: Array, wanted: Array, tolerance: Tolerance = EXACT_TYPES) -> bool:
    """Return whether two arrays are of one type, and equal up to a tolerance."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    found, wanted = parts_of(found), parts_of(wanted)
    dtype = as_dtype(wanted.dtype)
    if not dtype.is_float:
        return np.array_equal(found, wanted)
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    largest = np.max(np.abs(b), where=np.isfinite(b), initial=1.0)
    apart = max(tolerance.slack * TOLERANCES[dtype], tolerance.least)
    return np.allclose(a, b, rtol=0.0, atol=apart * largest, equal_nan=True)


def is_unstable(graph: Graph, inputs: Sequence[Array], slack: float = 1.0) -> bool:
    """Return whether the reference gives other results if what it reads changes in its last bits.

    That is inputs and variables. A floor or a comparison of what cancels to 0 jumps there, and two
    ways of computing it need not jump alike.
    """
    tolerance = Tolerance(slack, coarsest(graph))
    wanted = in_parts(run_reference(graph, inputs))
    for seed in range(4):
        rng = np.random.default_rng(seed)
        with kept_state(graph):
            for variable in graph.variables:
                variable.state.array[...] = _nudged(rng, variable.state.array)
            found = in_parts(run_reference(graph, [_nudged(rng, a) for a in inputs]))
        pairs = [*zip(found.outputs, wanted.outputs, strict=True)]
        pairs += [(found.state[state], value) for state, value in wanted.state.items()]
        if not all(agree(a, b, tolerance) for a, b in pairs):
            return True
    return False


def _nudged(rng: np.random.Generator, array: Array) -> Array:
    dtype = as_dtype(array.dtype)
    if dtype.is_complex:
        nudged = _nudged(rng, parts_of(array))
        return nudged.reshape(-1).view(array.dtype).reshape(array.shape)
    if not dtype.is_float:
        return array
    ulps = rng.integers(-4, 5, array.shape) * float(np.spacing(dtype.numpy.type(1)))
    return np.asarray(array.astype(np.float64) * (1 + ulps)).astype(array.dtype)
