"""Kernel fusion across launches: two sweeps over data that no cache holds become one.

    launch @k0(input0, variable0, input1, temporary0)          // x @ w, and what its rows are for
    launch @k1(temporary0, output0)                            // the loss
    launch @k2(input0, temporary0, variable0, temporary1)      // transpose(x) @ of these

becomes

    launch @k3(input0, variable0, input1, temporary0, temporary1)
    launch @k1(temporary0, output0)

where `k3` takes some rows of x for both. Which kernels have rows in common `schedule/fuse_rows.py`
says, and `schedule/fuse_siblings.py` of those that need nothing of one another. Here are found
launches that may come together: nothing between them touches what the one that is moved writes, or
writes what it reads, and a new value of a variable stays behind what can fail. What is between two
launches and needs nothing of the first one may be done before both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from symgrad.codegen.loops.canonical import renamed
from symgrad.codegen.loops.language import Kernel, Mode
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import (
    Argument,
    Instr,
    Launch,
    Program,
    root,
)
from symgrad.codegen.program.moving import PassedOver, can_fail
from symgrad.codegen.program.rewrite_launches import rewrite_launches, while_any
from symgrad.codegen.schedule.fuse_rows import fuse_rows, rows_loop
from symgrad.codegen.schedule.fuse_siblings import can_be_siblings, fuse_siblings
from symgrad.cost_model import BYTES_SWEPT, INSTRS_BETWEEN, STATEMENTS_SWEPT
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import replace

_GROWING = "growing"  # no kernel of a program is called so
_Extent = tuple[Argument, int, int]  # what an argument is: a buffer, where in it, and how much


def fuse_sweeps(program: Program) -> Program:
    """Fuse launches that read the same rows: return `program` with fewer sweeps over large data."""
    pool = _Pool(program.kernels)
    return rewrite_launches(program, pool.names, while_any(pool.fuse_at))


class _Pool:
    """The kernels that are made of two of a program.

    A kernel that grows has no name until it is kept: its canonical text is as long as all of it.
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.names = KernelNames(kernels)

    def fuse_at(self, position: int, instrs: list[Instr]) -> bool:
        """Fuse the launch at `position` with a later one, in place; return whether there is one.

        Where there is none the launch is kept as it is.
        """
        first = instrs[position]
        if not isinstance(first, Launch):
            return False
        if self._fused_at(position, first, instrs):
            return True
        if first.kernel.name == _GROWING:
            instrs[position] = replace(first, kernel=self.names.shared(first.kernel))
        return False

    def _fused_at(self, position: int, first: Launch, instrs: list[Instr]) -> bool:
        swept = {a for a in first.arguments if _bytes(a) >= BYTES_SWEPT}
        if not swept:
            return False
        has_rows = rows_loop(first.kernel) is not None
        written = set(_arguments(first, "out", "inout"))
        for later in range(position + 1, min(position + INSTRS_BETWEEN, len(instrs))):
            second = instrs[later]
            if not isinstance(second, Launch):
                continue
            read = set(_arguments(second, "in", "inout"))
            needs = not written.isdisjoint(read)
            can_fuse = has_rows if needs else can_be_siblings(first.kernel, second.kernel)
            if swept.isdisjoint(read) or not can_fuse:
                continue
            around = brought_together(position, later, instrs)
            fused = None if around is None else self._both(first, second, needs=needs)
            if around is not None and fused is not None:
                before, behind = around
                instrs[position : later + 1] = [*before, fused, *behind]
                return True
        return False

    def _both(self, first: Launch, second: Launch, *, needs: bool) -> Launch | None:
        """Return one launch for two, None if their kernels are not fused.

        The second reads what the first writes if it `needs` that, else both only read the same.
        """
        length = sum(1 for k in (first.kernel, second.kernel) for _ in statements(k.body))
        if first.statuses or second.statuses or length > STATEMENTS_SWEPT:
            return None
        places = {_place(first, i): f"a{i}" for i in range(len(first.arguments))}
        for i in range(len(second.arguments)):
            places.setdefault(_place(second, i), f"c{i}")
        if _may_overlap(places):
            return None
        kernels = [
            renamed(launch.kernel, [places[_place(launch, i)] for i in range(len(params))], ending)
            for launch, ending in ((first, "row"), (second, "sum"))
            for params in [launch.kernel.params]
        ]
        kernel = fuse_rows(*kernels) if needs else _siblings(*kernels)
        if kernel is None:
            return None
        return Launch(
            f"{first.label} with {second.label}",
            replace(kernel, name=_GROWING),
            tuple(argument for argument, _, _ in places),
            tuple(start for _, start, _ in places),
            (),
            (first, second),
        )


def _siblings(first: Kernel, second: Kernel) -> Kernel | None:
    """Return a kernel for two that have buffers in common which they read, None if it is none."""
    params = {p.name: p for p in first.params}
    both = [p for p in second.params if p.name in params]
    if any(p.mode != "in" or params[p.name].mode != "in" for p in both):
        return None
    swept = [p.name for p in both if p.nbytes >= BYTES_SWEPT]
    return fuse_siblings(first, second, swept)


def _may_overlap(places: Iterable[_Extent]) -> bool:
    """Return whether two parts of a buffer that are not the same may have elements in common."""
    of_buffers: dict[Buffer, list[_Extent]] = defaultdict(list)
    for place in places:
        of_buffers[root(place[0])].append(place)
    for parts in of_buffers.values():
        if len({argument for argument, _, _ in parts}) > 1:
            return True  # slices by loops
        ranges = sorted((start, start + count) for _, start, count in parts)
        if any(end > start for (_, end), (start, _) in pairwise(ranges)):
            return True
    return False


def _arguments(launch: Launch, *modes: Mode) -> list[Argument]:
    """Return the arguments that a launch has for parameters of these modes."""
    pairs = zip(launch.kernel.params, launch.arguments, strict=True)
    return [argument for param, argument in pairs if param.mode in modes]


def _bytes(argument: Argument) -> int:
    return argument.type.nbytes


def brought_together(
    position: int, later: int, instrs: Sequence[Instr]
) -> tuple[list[Instr], list[Instr]] | None:
    """Return what is before and behind two instructions that come together, None if they cannot.

    The second is moved to the first, or the first to the second. Else what is between them and
    needs nothing of the first is done before both.
    """
    first, second, between = instrs[position], instrs[later], instrs[position + 1 : later]
    passed = PassedOver(between)
    if passed.lets(second):
        return [], passed.instrs
    if not passed.conflicts(first):
        return passed.instrs, []
    before: list[Instr] = []
    behind, over = PassedOver(), PassedOver([first])
    for instr in between:
        # Which failure is met first stays as it was.
        if (over.can_fail and can_fail(instr)) or not over.lets(instr):
            behind.add(instr)
            over.add(instr)
        else:
            before.append(instr)
    return (before, behind.instrs) if behind.lets(second) else None


def _place(launch: Launch, number: int) -> _Extent:
    return launch.arguments[number], launch.starts[number], launch.kernel.params[number].count
