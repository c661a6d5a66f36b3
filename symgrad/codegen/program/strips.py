"""Loop strip mining, recognition: while loops that count, and so need no counter of their own.

A loop that polls counts cycles down in every iteration. If its condition needs that a counter of
the user's is below a bound, `i < n`, a lower bound can end a strip of iterations just as well, and
after each strip there is a poll:

    while i < n and rest {            again:
      body                       ->     limit = min(n, i + (cycles left / cycles of an iteration))
    }                                   while i < limit and rest { body }
                                        if i >= limit and limit < n { poll; goto again }

As in HotSpot's compiler, the loop inside is as fast as one that cannot be interrupted. It is right
where the condition holds for a lower bound only if it does for the bound itself, and where every
iteration adds to the counter. No result changes, so it is a decision about code (`llvm/strips.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from symgrad.codegen.loops.language import (
    Atom,
    Const,
    Expr,
    Index,
    Kernel,
    Let,
    Load,
    Op,
    Ref,
    Store,
)
from symgrad.codegen.loops.rewrite import arguments
from symgrad.codegen.program.language import Argument, Launch, WhileInstr
from symgrad.graph.dtypes import int64
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass

_FIRST = Index(0, ())
# Numbers beyond it would make strips of fewer iterations than a poll is worth.
_LONGEST_STEP = 1 << 16


@dataclass(frozen=True, slots=True)
class Strip:
    """A loop goes on only while `counter < bound`; an iteration adds `step` > 0 to the counter."""

    counter: Buffer
    bound: Buffer
    step: int


def strip_of(loop: WhileInstr) -> Strip | None:
    """Return what `loop` counts, None if it is not known to count anything."""
    if len(loop.condition) != 1 or not isinstance(loop.condition[0], Launch):
        return None
    launches = [instr for instr in loop.body if isinstance(instr, Launch)]
    if len(launches) < len(loop.body):
        return None
    written = Counter(argument for launch in launches for argument in _written(launch))
    steps = {buffer: step for launch in launches for buffer, step in _steps(launch)}
    for counter, bound in _compared(loop.condition[0], loop.test):
        if counter in steps and written[counter] == 1 and not written[bound]:
            return Strip(counter, bound, steps[counter])
    return None


def _written(launch: Launch) -> Iterator[Argument]:
    pairs = zip(launch.kernel.params, launch.arguments, strict=True)
    return (argument for param, argument in pairs if param.mode != "in")


def _compared(test: Launch, result: Buffer) -> Iterator[tuple[Buffer, Buffer]]:
    """Yield pairs of which `result` needs that the first is less, and nothing else is told by it.

    The second is read for that comparison alone, and writing all again does no harm.
    """
    kernel, buffers = test.kernel, _scalars(test)
    values, uses = _values(kernel), _uses(kernel)
    if any(param.mode == "inout" for param in kernel.params):
        return
    stores = (s for s in kernel.body if isinstance(s, Store))
    stored = [s.value for s in stores if buffers.get(s.buffer) == result]
    if len(stored) != 1 or not isinstance(stored[0], Ref):
        return
    loads = Counter(value.buffer for value in values.values() if isinstance(value, Load))
    for conjunct in _conjuncts(stored[0].name, values, uses):
        match values.get(conjunct):
            case Op("lt", (Ref(less, dtype), Ref(more, _))) if dtype == int64 and uses[more] == 1:
                low, high = (_loaded(values.get(name)) for name in (less, more))
                if low in buffers and high in buffers and loads[high] == 1:
                    yield buffers[low], buffers[high]


def _loaded(value: Expr | None) -> str:
    """Return the name of the parameter whose first element `value` is, else an empty one."""
    match value:
        case Load(name, index, _) if index == _FIRST:
            return name
    return ""


def _conjuncts(name: str, values: dict[str, Expr], uses: Counter[str]) -> Iterator[str]:
    """Yield the values that must all be true for `name` to be, if they are for nothing else."""
    if uses[name] != 1:
        return
    value = values.get(name)
    if not isinstance(value, Op) or value.name != "and":
        yield name
        return
    for part in value.args:
        if isinstance(part, Ref):
            yield from _conjuncts(part.name, values, uses)


def _steps(launch: Launch) -> Iterator[tuple[Buffer, int]]:
    """Yield the counters to which a launch adds a positive constant, and that."""
    kernel, buffers = launch.kernel, _scalars(launch)
    values = _values(kernel)
    stores = Counter(s.buffer for s in kernel.body if isinstance(s, Store))
    for statement in kernel.body:
        if not isinstance(statement, Store) or not isinstance(statement.value, Ref):
            continue
        name = statement.buffer
        match values.get(statement.value.name):
            case Op("add", (Ref(old, dtype), Const(step, _))) if (
                dtype == int64 and _loaded(values.get(old)) == name and 0 < step <= _LONGEST_STEP
            ):
                if name in buffers and stores[name] == 1:
                    yield buffers[name], int(step)


def _scalars(launch: Launch) -> dict[str, Buffer]:
    """Return the buffers of one element that a launch is given once, by the parameter's name."""
    times = Counter(launch.arguments)
    pairs = zip(launch.kernel.params, launch.arguments, strict=True)
    return {
        param.name: argument
        for param, argument in pairs
        if isinstance(argument, Buffer) and argument.type.count == 1 and times[argument] == 1
    }


def _values(kernel: Kernel) -> dict[str, Expr]:
    """Return what names are bound to outside of the kernel's loops."""
    return {s.name: s.value for s in kernel.body if isinstance(s, Let)}


def _uses(kernel: Kernel) -> Counter[str]:
    """Count the uses of each value of a kernel without loops; of one with any, none is counted."""
    atoms: list[Atom] = []
    for statement in kernel.body:
        if isinstance(statement, Let):
            atoms += arguments(statement.value)
        elif isinstance(statement, Store):
            atoms.append(statement.value)
        else:
            return Counter()
    return Counter(atom.name for atom in atoms if isinstance(atom, Ref))
