"""Data alignment: where in a cache line arrays begin, so that vectors are stored within lines.

    for i0 in 0..9999 vector(8) {       temporary0: f64[10000] at 0
      ...                          ->
      b5[i0 + 1] = t3                   temporary0: f64[10000] at 56
    }

A vector that is stored one element off spans two cache lines, each of which is written on its own.
What is loaded so costs less. So each temporary begins where the accesses of all vector loops to it
cost least; most often that is at the beginning of a line.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from symgrad.codegen.loops.language import For, Index, Kernel, Let, Load, Store
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.program.language import Argument, Instr, Launch, Slice, launches_of
from symgrad.cost_model import CYCLES_OF_SPLIT_LOAD, CYCLES_OF_SPLIT_STORE, LEAST_BYTES_IN_PHASE
from symgrad.graph.aligned import ALIGNMENT
from symgrad.passes.fusion.buffers import Buffer

# Cycles of vectors that begin so many bytes behind the beginning of a cache line.
Costs = Counter[int]
_BEGINNING = {0}


def phases_of(instrs: Sequence[Instr]) -> dict[Buffer, int]:
    """Return at which byte of a cache line each temporary begins, where that is not the first."""
    launches = list(launches_of(instrs))
    kernels = {id(launch.kernel): launch.kernel for launch in launches}  # a hash reads all of one
    of_kernels = {number: _costs_of(kernel) for number, kernel in kernels.items()}
    displaced = _displaced(launches, of_kernels)
    if not displaced:
        return {}
    uses: dict[Buffer, list[tuple[Costs, int]]] = defaultdict(list)
    for launch in launches:
        for buffer, costs, offset in _uses(launch, of_kernels[id(launch.kernel)]):
            if buffer in displaced:
                uses[buffer].append((costs, offset))
    phases = {buffer: _phase(uses[buffer]) for buffer in displaced}
    return {buffer: phase for buffer, phase in phases.items() if phase}


def _displaced(
    launches: Sequence[Launch], of_kernels: Mapping[int, Mapping[str, Costs]]
) -> dict[Buffer, None]:
    """Return the temporaries of which some vectors begin elsewhere than lines."""
    even = {
        number
        for number, of_kernel in of_kernels.items()
        if all(costs.keys() == _BEGINNING for costs in of_kernel.values())
    }
    found: dict[Buffer, None] = {}
    for launch in launches:
        if id(launch.kernel) in even and not any(launch.starts):
            continue  # as most
        for buffer, costs, offset in _uses(launch, of_kernels[id(launch.kernel)]):
            if offset or costs.keys() != _BEGINNING:
                found[buffer] = None
    return found


def _uses(launch: Launch, of_kernel: Mapping[str, Costs]) -> Iterator[tuple[Buffer, Costs, int]]:
    """Yield each temporary that vectors of a launch access, their costs, and where it begins."""
    for param, argument, start in zip(
        launch.kernel.params, launch.arguments, launch.starts, strict=True
    ):
        costs = of_kernel.get(param.name)
        buffer = None if costs is None else _in_phase(argument)
        if costs is not None and buffer is not None:
            yield buffer, costs, start * param.dtype.itemsize


def _phase(uses: Iterable[tuple[Costs, int]]) -> int:
    """Return where a buffer begins whose vectors cost that, each with what it is begun behind."""
    whole: Costs = Counter()
    for costs, offset in uses:
        for place, cycles in costs.items():
            whole[(place + offset) % ALIGNMENT] += cycles
    return _cheapest(whole)


def _in_phase(argument: Argument) -> Buffer | None:
    """Return the temporary that begins as an argument does, in each iteration of loops."""
    while isinstance(argument, Slice):
        if argument.type.nbytes % ALIGNMENT:
            return None
        argument = argument.stack
    is_large = argument.place == "temporary" and argument.type.nbytes >= LEAST_BYTES_IN_PHASE
    return argument if is_large else None


def _costs_of(kernel: Kernel) -> dict[str, Costs]:
    """Return what the vectors that a kernel accesses would cost in two lines, by the parameter."""
    sizes = {param.name: param.dtype.itemsize for param in kernel.params}
    found: dict[str, Costs] = defaultdict(Counter)
    for loop in statements(kernel.body):
        if not isinstance(loop, For) or loop.vector == 1:
            continue
        for buffer, index, cycles in _accesses(loop):
            size = sizes[buffer]
            is_of_lines = ALIGNMENT % min(loop.vector * size, ALIGNMENT) == 0
            if is_of_lines and _is_even(index, loop.var, size):
                lines = loop.extent * size // ALIGNMENT
                found[buffer][index.const * size % ALIGNMENT] += cycles * lines
    return found


def _accesses(loop: For) -> Iterator[tuple[str, Index, int]]:
    for statement in loop.body:
        if isinstance(statement, Store):
            yield statement.buffer, statement.index, CYCLES_OF_SPLIT_STORE
        elif isinstance(statement, Let) and isinstance(statement.value, Load):
            yield statement.value.buffer, statement.value.index, CYCLES_OF_SPLIT_LOAD


def _is_even(index: Index, variable: str, size: int) -> bool:
    """Return whether vectors along `variable` are side by side, and begin alike in all loops."""
    steps = dict(index.terms)
    if steps.pop(variable, 0) != 1:
        return False
    return all(step * size % ALIGNMENT == 0 for step in steps.values())


def _cheapest(costs: Costs) -> int:
    """Return the phase in which what is not at the beginning of a line costs least."""
    whole = sum(costs.values())
    phases = [0, *(-place % ALIGNMENT for place in costs)]
    return min(phases, key=lambda phase: whole - costs[-phase % ALIGNMENT])
