"""Kernel fusion across launches: elementwise kernels over the same long axis become one.

    launch @k0(input0, temporary0)                       // sums of three products each
    launch @k1(input0, temporary0, temporary1)           // what is done with vectors and sums
    launch @k2(temporary1, output0)

becomes

    launch @k3(input0, output0)

and `temporary0` and `temporary1` are nowhere, since nothing else reads them. Which kernels can be
one `schedule/fuse_elements.py` says; which launches may come together, `program/fuse_sweeps.py`.
Kernels that hand on few elements for what they compute, as the parts of a long chain do, stay
apart: no time is spent on these, and larger code is slower to compile and has more to spill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from symgrad.codegen.loops.canonical import renamed
from symgrad.codegen.loops.language import (
    Check,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
)
from symgrad.codegen.program.fuse_sweeps import brought_together
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import (
    Argument,
    Instr,
    Launch,
    Program,
    buffers_of,
    root,
)
from symgrad.codegen.program.rewrite_launches import rewrite_launches, while_any
from symgrad.codegen.schedule.fuse_elements import fuse_elements as fuse_kernels
from symgrad.codegen.schedule.interleave import interleave
from symgrad.codegen.schedule.long_loops import long_loop_of
from symgrad.codegen.target import Target
from symgrad.cost_model import (
    INSTRS_BETWEEN,
    MOST_FUSED_STREAMS,
    MOST_STREAMS_BETWEEN,
    STATEMENTS_A_SHARED_LOAD,
    STATEMENTS_AN_ACCESS,
)
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass, replace

_OPS_NAMED = 6


def fuse_elements(program: Program, target: Target) -> Program:
    """Fuse elementwise launches: return `program` with less of what they hand on in memory."""
    pool = _Launches(program, target)
    sweep = while_any(pool.fuse_at)

    def until_none_are(instrs: list[Instr]) -> None:
        """Sweep again after a fusion: what was too large beside one part may not be beside both."""
        count = len(instrs) + 1
        while len(instrs) < count:
            count = len(instrs)
            sweep(instrs)

    return rewrite_launches(program, pool.names, until_none_are)


@dataclass(frozen=True, slots=True)
class _Elements:
    """What one iteration of an elementwise kernel does: statements, and loads of each parameter."""

    statements: int
    loads: Counter[str]


@dataclass(frozen=True, slots=True, eq=False)
class _Accessed:
    """What an elementwise launch reads, and how often an iteration loads each of that.

    It is asked about once for each launch nearby that hands something on, and sets that meet need
    no hashes anew.
    """

    read: frozenset[Argument]
    loads: Mapping[Argument, int]


@dataclass(frozen=True, slots=True)
class _Fused:
    """Instructions of which two launches have become one, and where that is among them."""

    launch: Launch
    position: int
    instrs: list[Instr]


class _Launches:
    """The kernels that are made, and how often each buffer is used."""

    def __init__(self, program: Program, target: Target) -> None:
        self._target = target
        self._uses = Counter(program.mentions)
        self._elements: dict[str, _Elements | None] = {}
        self._arguments: dict[Launch, frozenset[Argument]] = {}
        self._accessed: dict[Launch, _Accessed] = {}
        self._made = 0
        self.names = KernelNames(program.kernels)

    def _elements_of(self, launch: Launch) -> _Elements | None:
        """Return what a launch does in one iteration, None if it is not elementwise."""
        name = launch.kernel.name
        if launch.statuses:
            return None
        if name not in self._elements:
            self._elements[name] = _elements(launch.kernel)
        return self._elements[name]

    def fuse_at(self, position: int, instrs: list[Instr]) -> bool:
        """Fuse the launch at `position` with later ones, in place; return whether there are any.

        A kernel on the way may have many buffers: what it hands on to the next one is in memory
        until that is fused with it as well.
        """
        tried: list[_Fused] = []
        found = self._fused_at(position, instrs)
        while found is not None:
            tried.append(found)
            if len(found.launch.arguments) <= MOST_FUSED_STREAMS:
                instrs[:] = found.instrs
                instrs[found.position] = self._named(found.launch)
                return True
            found = self._fused_at(found.position, found.instrs)
        for fusion in reversed(tried):
            self._uses.subtract(buffers_of([fusion.launch]))
            self._uses.update(buffers_of(fusion.launch.fused))
        return False

    def _fused_at(self, position: int, instrs: Sequence[Instr]) -> _Fused | None:
        """Return `instrs` with the launch at `position` fused with a later one."""
        first = instrs[position]
        if not isinstance(first, Launch):
            return None
        written = self._handed_on(first)
        if not written:
            return None
        for later in range(position + 1, min(position + INSTRS_BETWEEN, len(instrs))):
            second = instrs[later]
            if not isinstance(second, Launch) or written.isdisjoint(self._arguments_of(second)):
                continue
            if not self._is_worth_fusing(first, second, written):
                continue
            around = brought_together(position, later, instrs)
            fused = None if around is None else self._both(first, second)
            if around is not None and fused is not None:
                before, behind = around
                left = [*instrs[:position], *before, fused, *behind, *instrs[later + 1 :]]
                return _Fused(fused, position + len(before), left)
        return None

    def _handed_on(self, launch: Launch) -> set[Argument]:
        """Return what a launch writes of what anything else touches: not so updates in place."""
        own = _mentions(launch)
        written = _buffers(launch, {"out", "inout"})
        return {a for a in written if self._uses[root(a)] > own.get(root(a), 1)}

    def _named(self, launch: Launch) -> Launch:
        """Return a launch that is kept, of a kernel that is shared and has vectors in flight."""
        return replace(launch, kernel=self.names.shared(interleave(launch.kernel, self._target)))

    def _is_worth_fusing(self, first: Launch, second: Launch, written: set[Argument]) -> bool:
        """Return whether many of the elements that `second` loads are `written` by `first`."""
        one, two = self._elements_of(first), self._elements_of(second)
        if one is None or two is None:
            return False
        accessed = self._accessed_by(second, two)
        shared = self._accessed_by(first, one).read - written
        handed_on, loaded = (
            sum([accessed.loads[argument] for argument in accessed.read & known])
            for known in (written, shared)
        )
        saved = handed_on * STATEMENTS_AN_ACCESS + loaded * STATEMENTS_A_SHARED_LOAD
        if min(one.statements, two.statements) > saved:
            return False
        arguments = self._arguments_of(first) | self._arguments_of(second)
        return len(arguments - self._unread(first, second)) <= MOST_STREAMS_BETWEEN

    def _arguments_of(self, launch: Launch) -> frozenset[Argument]:
        if launch not in self._arguments:
            self._arguments[launch] = frozenset(launch.arguments)
        return self._arguments[launch]

    def _accessed_by(self, launch: Launch, elements: _Elements) -> _Accessed:
        known = self._accessed.get(launch)
        if known is None:
            pairs = zip(launch.kernel.params, launch.arguments, strict=True)
            loads: Counter[Argument] = Counter()
            for param, argument in pairs:
                if param.mode == "in":
                    loads[argument] += elements.loads[param.name]
            known = _Accessed(frozenset(loads), loads)
            self._accessed[launch] = known
        return known

    def _unread(self, first: Launch, second: Launch) -> set[Argument]:
        """Return the temporaries that only two launches use."""
        one, two = first.touched, second.touched
        if _mentions(first) or _mentions(second):
            used = Counter(buffers_of([first, second]))
            return {b for b, n in used.items() if b.place == "temporary" and self._uses[b] == n}
        of_both = [b for b in one & two if b.place == "temporary" and self._uses[b] == 2]
        of_one = [b for b in one ^ two if b.place == "temporary" and self._uses[b] == 1]
        return {*of_both, *of_one}

    def _both(self, first: Launch, second: Launch) -> Launch | None:
        """Return one launch for two, None if their kernels are not fused."""
        arguments = list(dict.fromkeys((*first.arguments, *second.arguments)))
        if len({root(argument) for argument in arguments}) < len(arguments):
            return None  # parts of a stack may overlap
        unread = self._unread(first, second)
        names = {argument: f"a{i}" for i, argument in enumerate(arguments)}
        one, two = _whole(first, names, "one"), _whole(second, names, "two")
        kernel = fuse_kernels(one, two, {names[a] for a in unread if a in names}, self._target)
        if kernel is None:
            return None
        by_name = {name: argument for argument, name in names.items()}
        left = tuple(by_name[param.name] for param in kernel.params)
        self._uses.subtract(buffers_of([first, second]))
        self._uses.update(map(root, left))
        starts = (0,) * len(left)
        self._made += 1
        kernel = replace(kernel, name=f"fused.{self._made}")  # a name of its own until it is kept
        return Launch(_label(first, second), kernel, left, starts, (), (first, second))


def _elements(kernel: Kernel) -> _Elements | None:
    loop = long_loop_of(kernel)
    if loop is None:
        return None
    values = (s.value for s in loop.body if isinstance(s, Let))
    return _Elements(len(loop.body), Counter(v.buffer for v in values if isinstance(v, Load)))


def _buffers(launch: Launch, modes: set[str]) -> set[Argument]:
    pairs = zip(launch.kernel.params, launch.arguments, strict=True)
    return {argument for param, argument in pairs if param.mode in modes}


def _mentions(launch: Launch) -> Mapping[Buffer, int]:
    """Return how often a launch names buffers, nothing where that is once each."""
    if len(launch.touched) == len(launch.arguments):
        return {}
    return Counter(buffers_of([launch]))


def _label(first: Launch, second: Launch) -> str:
    """Return the ops of both, the first ones by name."""
    words = list(dict.fromkeys(w for launch in (first, second) for w in launch.label.split()))
    named = [word for word in words if word.strip(".")]
    has_more = len(named) > _OPS_NAMED or len(named) < len(words)
    return " ".join(named[:_OPS_NAMED] + ["..."] * has_more)


def _whole(launch: Launch, names: dict[Argument, str], ending: str) -> Kernel:
    """Return the kernel of a launch on whole buffers, which are called by `names`."""
    kernel = renamed(launch.kernel, [p.name for p in launch.kernel.params], ending)
    places = {
        param.name: (names[argument], start)
        for param, argument, start in zip(
            launch.kernel.params, launch.arguments, launch.starts, strict=True
        )
    }
    params = {
        names[argument]: replace(param, name=names[argument], count=argument.type.count)
        for param, argument in zip(launch.kernel.params, launch.arguments, strict=True)
    }
    return replace(kernel, params=tuple(params.values()), body=_placed(kernel.body, places))


def _placed(body: Sequence[Stmt], places: dict[str, tuple[str, int]]) -> tuple[Stmt, ...]:
    """Return statements of whole buffers, each called otherwise and begun at an element."""
    found: list[Stmt] = []
    for statement in body:
        match statement:
            case Let(name, Load(buffer, index, dtype)):
                buffer, start = places[buffer]
                found.append(Let(name, Load(buffer, _further(index, start), dtype)))
            case Store(buffer, index, value):
                buffer, start = places[buffer]
                found.append(Store(buffer, _further(index, start), value))
            case For():
                found.append(replace(statement, body=_placed(statement.body, places)))
            case Let() | Check() | SortRows() | Product() | Fold() | Prefix():
                found.append(statement)
    return tuple(found)


def _further(index: Index, start: int) -> Index:
    return replace(index, const=index.const + start)
