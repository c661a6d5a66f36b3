"""Copy elimination: what a kernel computes for a place in another result is written there.

    launch @k0(input0, temporary0)
    launch @k1(temporary0, output0, input1)      // for i in 0..640 { output0[i] = temporary0[i] }
                                                 // and then the elements behind these
becomes

    launch @k0(input0, output0)
    launch @k2(output0, input1)                  // the elements behind

Of products and reductions the fuse pass knows it (`fusion/placing.py`); this is for kernels that
themselves are pieces of a row, and for what has become one kernel since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

from symgrad.codegen.loops.index_arithmetic import bounds
from symgrad.codegen.loops.language import (
    Check,
    For,
    Generated,
    Index,
    Kernel,
    Let,
    Load,
    Reduction,
    Ref,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import (
    buffers_used,
    index_extents,
    is_free_of,
    statements,
)
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import (
    Argument,
    Instr,
    Launch,
    Program,
    buffers_of,
    launches_of,
    root,
)
from symgrad.cost_model import INSTRS_BETWEEN
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass, replace

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class _Copy:
    """A loop of a kernel that copies all of one parameter into another, from `start` on."""

    loop: For
    source: int
    target: int
    start: int


def place_results(program: Program) -> Program:
    """Return `program` with results written where they would be copied to."""
    uses = Counter(program.mentions)
    names = KernelNames(program.kernels)
    instrs = list(program.instrs)
    has_changed = False
    for number, instr in enumerate(program.instrs):
        if isinstance(instr, Launch) and not instr.statuses:
            while _place_copies(number, instrs, uses, names):
                has_changed = True
    if not has_changed:
        return program
    left = tuple(i for i in instrs if not isinstance(i, Launch) or i.kernel.body)
    changed = replace(program, instrs=left)
    used = {launch.kernel.name for launch in launches_of(changed.all_instrs)}
    kernels = (*program.kernels, *names.made)
    return replace(changed, kernels=tuple(k for k in kernels if k.name in used))


def _place_copies(
    number: int, instrs: list[Instr], uses: Counter[Buffer], names: KernelNames
) -> bool:
    """Do away with copies that the launch at `number` makes; return whether there was one."""
    launch = instrs[number]
    assert isinstance(launch, Launch), "only launches copy"
    placed = [c.loop for c in _copies(launch.kernel) if _place_copy(c, number, instrs, uses)]
    if placed:
        instrs[number] = _without(launch, placed, names)
        uses.subtract(buffers_of([launch]))
        uses.update(buffers_of([instrs[number]]))
    return bool(placed)


def _place_copy(copy: _Copy, number: int, instrs: list[Instr], uses: Counter[Buffer]) -> bool:
    """Let the launch that makes what `copy` copies write it there; return whether it can."""
    launch = instrs[number]
    assert isinstance(launch, Launch), "only launches copy"
    source, target = launch.arguments[copy.source], launch.arguments[copy.target]
    maker = _maker(number, instrs, source, target, uses)
    made = None if maker is None else instrs[maker]
    is_whole = launch.starts[copy.source] == 0 and source.type.count == copy.loop.extent
    if maker is None or not isinstance(made, Launch) or not is_whole:
        return False
    place = made.arguments.index(source)
    if made.starts[place] != 0 or made.kernel.params[place].mode != "out":
        return False
    instrs[maker] = replace(
        made,
        arguments=_with(made.arguments, place, target),
        starts=_with(made.starts, place, launch.starts[copy.target] + copy.start),
    )
    # The target has one launch more that writes it: it is not copied elsewhere as a whole.
    uses.subtract(buffers_of([made]))
    uses.update(buffers_of([instrs[maker]]))
    return True


def _with(items: tuple[_Item, ...], place: int, item: _Item) -> tuple[_Item, ...]:
    return (*items[:place], item, *items[place + 1 :])


def _maker(
    number: int,
    instrs: Sequence[Instr],
    source: Argument,
    target: Argument,
    uses: Counter[Buffer],
) -> int | None:
    """Return which launch writes `source` for a copy into `target` alone, None if none does.

    Nothing that runs between the two touches either. The launch may write other pieces of the
    target, which are elsewhere in it.
    """
    if not isinstance(source, Buffer) or source.place != "temporary" or uses[source] != 2:
        return None
    if not isinstance(target, Buffer) or target.place not in ("output", "temporary"):
        return None
    for before in range(number - 1, max(number - INSTRS_BETWEEN, 0) - 1, -1):
        instr = instrs[before]
        touched = set(buffers_of([instr]))
        if source in touched:
            return before if isinstance(instr, Launch) and not _reads(instr, target) else None
        if target in touched:
            return None
    return None


def _reads(launch: Launch, buffer: Buffer) -> bool:
    pairs = zip(launch.kernel.params, launch.arguments, strict=True)
    return any(root(argument) == buffer and param.mode != "out" for param, argument in pairs)


def _copies(kernel: Kernel) -> list[_Copy]:
    """Return the loops of a kernel that only copy, each the only one that reads what it copies.

    Nothing else is stored where they copy to, as a fill would be.
    """
    copies = [found for statement in kernel.body for found in _whole_copies(statement)]
    if not copies:
        return []
    numbers = {param.name: i for i, param in enumerate(kernel.params)}
    readers = Counter(name for s in kernel.body for name in set().union(*buffers_used((s,))))
    stores = _Stores(kernel.body)
    found = []
    for loop, load, store in copies:
        is_alone = readers[load.buffer] == 1
        is_out = kernel.params[numbers[store.buffer]].mode == "out"
        if is_alone and is_out and stores.is_clear(store, loop.extent):
            place = numbers[load.buffer], numbers[store.buffer]
            found.append(_Copy(loop, *place, store.index.const))
    return found


def _whole_copies(statement: Stmt) -> Iterator[tuple[For, Load, Store]]:
    """Yield a loop that only copies, from the first element on, with its load and its store."""
    if not isinstance(statement, For) or len(statement.body) != 2:
        return
    let, store = statement.body
    if not isinstance(let, Let) or not isinstance(let.value, Load):
        return
    if not isinstance(store, Store) or store.value != Ref(let.name, let.value.dtype):
        return
    terms = ((statement.var, 1),)
    if let.value.index == Index(0, terms) and store.index.terms == terms:
        yield statement, let.value, store


class _Stores:
    """Where the statements of a body store, by buffer: from which element to which."""

    def __init__(self, body: Sequence[Stmt]) -> None:
        self._are_loops = is_free_of(body, Generated | Reduction | Check)
        self._ranges: dict[str, list[tuple[int, int]]] = {}
        for part in body:
            # Loops beside each other may bind the same name, and go on for longer or shorter.
            extents = index_extents((part,))
            for s in statements((part,)):
                if isinstance(s, Store):
                    at = bounds(s.index, extents) if self._are_loops else (0, 0)
                    self._ranges.setdefault(s.buffer, []).append(at)

    def is_clear(self, store: Store, extent: int) -> bool:
        """Return whether no other statement stores where `store` of a copy does."""
        ranges = self._ranges[store.buffer]
        first, last = store.index.const, store.index.const + extent - 1
        if not self._are_loops:
            return len(ranges) == 1
        return sum(low <= last and high >= first for low, high in ranges) == 1


def _without(launch: Launch, loops: Sequence[Stmt], names: KernelNames) -> Launch:
    """Return a launch of a kernel without loops of its own, on what is left to read and write."""
    gone = set(map(id, loops))
    body = tuple(statement for statement in launch.kernel.body if id(statement) not in gone)
    used = set().union(*buffers_used(body))
    left = [i for i, param in enumerate(launch.kernel.params) if param.name in used]
    params = tuple(launch.kernel.params[i] for i in left)
    return replace(
        launch,
        kernel=names.shared(replace(launch.kernel, params=params, body=body)),
        arguments=tuple(launch.arguments[i] for i in left),
        starts=tuple(launch.starts[i] for i in left),
    )
