"""Launch fusion: how one launch takes the place of several, with names and temporaries of its own.

Which launches come together, and what their kernel does, is for each pass to say
(`fuse_products.py`, `fuse_batches.py`, `fuse_blocks.py`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

from symgrad.codegen.loops.canonical import renamed
from symgrad.codegen.loops.language import Index, Kernel, Param, Stmt
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import Argument, Launch, Program, buffers_of
from symgrad.codegen.schedule.fuse_batches import moved
from symgrad.graph.types import TensorType
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass, replace


class LaunchFusions:
    """The kernels that a pass makes, how often buffers are named, and numbers of new ones."""

    def __init__(self, program: Program) -> None:
        self._named = program.mentions
        # No instruction names the memory of a routine.
        held = (*self._named, *(routine.scratch for routine in program.routines))
        numbers = (b.number for b in held if b.place == "temporary")
        self._numbers = itertools.count(max(numbers, default=-1) + 1)
        self.names = KernelNames(program.kernels)

    def temporary(self, param: Param) -> Buffer:
        """Return a new temporary, as large as a parameter."""
        return Buffer("temporary", next(self._numbers), TensorType(param.dtype, (param.count,)))

    def own_temporaries(self, launches: Sequence[Launch]) -> set[Buffer]:
        """Return the temporaries that nothing but `launches` names."""
        named = Counter(buffers_of(launches))
        return {b for b, n in named.items() if b.place == "temporary" and n == self._named[b]}

    def launch(
        self, launches: Sequence[Launch], kernel: Kernel, arguments: Mapping[str, Buffer]
    ) -> Launch:
        """Return one launch of `kernel` for several; what it has no argument for is a temporary."""
        places: list[Argument] = []
        for param in kernel.params:
            argument = None if param.mode == "scratch" else arguments.get(param.name)
            places.append(self.temporary(param) if argument is None else argument)
        return Launch(
            f"{launches[0].label} with {len(launches) - 1} more",
            self.names.shared(kernel),
            tuple(places),
            (0,) * len(places),
            (),
            tuple(launches),
        )


@dataclass(frozen=True, slots=True)
class JointParams:
    """The parameters of a kernel that does the work of several launches, by what these are given.

    An argument that several launches are given is one parameter. Scratch memory is each one's own.
    """

    names: Mapping[Argument, str] = field(default_factory=dict)
    params: Mapping[str, Param] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Buffer]:
        return {n: a for a, n in self.names.items() if isinstance(a, Buffer)}

    def joined(
        self, launch: Launch, kernel: Kernel, number: int, *, first: bool = False
    ) -> tuple[JointParams, tuple[Stmt, ...]] | None:
        """Return these with those of a launch, and the statements of its `kernel` in their names.

        It comes behind the others, or as the `first` one; names that are its own bear its `number`.
        None is returned where one buffer is two parameters of it, or has two dtypes.
        """
        names, params = dict(self.names), dict(self.params)
        buffers = []
        for at, param in enumerate(kernel.params):
            is_own = param.mode == "scratch"
            own = f"scratch{number}.{at}"
            name = own if is_own else names.setdefault(launch.arguments[at], f"a{len(names)}")
            buffers.append(name)
            count = param.count if is_own else launch.starts[at] + param.count
            merged = _merged(params.get(name), replace(param, name=name, count=count), first=first)
            if merged is None:
                return None
            params[name] = merged
        if len({*buffers}) < len(buffers):
            return None
        apart = renamed(kernel, buffers, f"m{number}")
        starts = dict(zip(buffers, launch.starts, strict=True))
        return JointParams(names, params), _from_starts(apart.body, starts)


def can_be_joined(launch: Launch) -> bool:
    """Return whether a launch is given buffers alone and writes no variable and no status."""
    return not launch.statuses and all(
        isinstance(a, Buffer) and (a.place != "variable" or p.mode == "in")
        for a, p in zip(launch.arguments, launch.kernel.params, strict=True)
    )


def _merged(known: Param | None, param: Param, *, first: bool) -> Param | None:
    """Return a parameter for one of the launches before and one of another, None if they differ."""
    if known is None:
        return param
    if known.dtype != param.dtype:
        return None
    earlier, later = (param, known) if first else (known, param)
    mode = earlier.mode if earlier.mode == later.mode or earlier.mode != "in" else "inout"
    return replace(known, count=max(known.count, param.count), mode=mode)


def _from_starts(body: tuple[Stmt, ...], starts: Mapping[str, int]) -> tuple[Stmt, ...]:
    """Return statements with places counted from where buffers begin, and not a launch in them."""

    def change(buffer: str, index: Index) -> tuple[str, Index]:
        return buffer, replace(index, const=index.const + starts[buffer])

    return moved(body, change)
