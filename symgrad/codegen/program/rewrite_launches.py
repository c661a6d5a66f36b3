"""Rewriting launches: passes that make other kernels of those of a program, wherever they run.

Which launches are fused, or how one is changed, is for the passes that do it (`fuse_elements.py`,
`fuse_sweeps.py`, `contract_temporaries.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import (
    CallInstr,
    ExternInstr,
    Instr,
    Launch,
    Program,
    Routine,
    ScanInstr,
    SwitchInstr,
    WhileInstr,
    launches_of,
    routines_of,
    with_routines,
)
from symgrad.records import replace

# Changes instructions that run one after another, in place.
SequenceRewrite = Callable[[list[Instr]], None]


def rewrite_launches(program: Program, names: KernelNames, rewrite: SequenceRewrite) -> Program:
    """Return `program` with each of its sequences rewritten, and the kernels it then launches.

    Those inside of branches and loops come before the ones around them. `names` has the kernels
    that `rewrite` made: if there are none, nothing was changed.
    """

    def of_routine(routine: Routine) -> Routine:
        instrs = _rewritten(routine.instrs, rewrite)
        return replace(routine, instrs=instrs, inner=routines_of(instrs))

    changed = with_routines(program, of_routine)
    instrs = _rewritten(changed.instrs, rewrite)
    if not names.made:
        return program
    changed = replace(changed, instrs=instrs)
    used = {launch.kernel.name for launch in launches_of(changed.all_instrs)}
    kernels = (*program.kernels, *names.made)
    return replace(changed, kernels=tuple(k for k in kernels if k.name in used))


def rewrite_kernels(program: Program, change: Callable[[Kernel], Kernel]) -> Program:
    """Return `program` with each kernel as `change` makes it, whatever it is launched on."""
    names = KernelNames(program.kernels)

    def kept(kernel: Kernel) -> Kernel:
        made = change(kernel)
        return kernel if made is kernel or made == kernel else names.shared(made)

    kernel_for = once_for_each(kept)

    def changed(instr: Instr) -> Instr:
        if not isinstance(instr, Launch):
            return instr
        kernel = kernel_for(instr.kernel)
        if kernel is instr.kernel:
            return instr
        return replace(instr, kernel=kernel, fused=instr.fused or (instr,))

    def rewrite(instrs: list[Instr]) -> None:
        instrs[:] = map(changed, instrs)

    return rewrite_launches(program, names, rewrite)


def once_for_each(change: Callable[[Kernel], Kernel]) -> Callable[[Kernel], Kernel]:
    """Return what does as `change`, which is asked once for a kernel of many launches."""
    known: dict[int, tuple[Kernel, Kernel]] = {}  # by identity: a hash reads all of a kernel

    def changed(kernel: Kernel) -> Kernel:
        if id(kernel) not in known:
            known[id(kernel)] = kernel, change(kernel)
        return known[id(kernel)][1]

    return changed


def while_any(fuse_at: Callable[[int, list[Instr]], bool]) -> SequenceRewrite:
    """Return what tries `fuse_at` at each place of a sequence until it finds nothing there."""

    def rewrite(instrs: list[Instr]) -> None:
        position = 0
        while position < len(instrs):
            if not fuse_at(position, instrs):
                position += 1

    return rewrite


def _rewritten(instrs: Sequence[Instr], rewrite: SequenceRewrite) -> tuple[Instr, ...]:
    """Return `instrs`, and those inside of them, as they are rewritten."""
    left = [_inside(instr, rewrite) for instr in instrs]
    rewrite(left)
    return tuple(left)


def _inside(instr: Instr, rewrite: SequenceRewrite) -> Instr:
    match instr:
        case Launch() | ExternInstr() | CallInstr():  # nearly all are launches
            return instr
        case SwitchInstr():
            branches = tuple(_rewritten(branch, rewrite) for branch in instr.branches)
            return replace(instr, branches=branches)
        case WhileInstr():
            condition = _rewritten(instr.condition, rewrite)
            return replace(instr, condition=condition, body=_rewritten(instr.body, rewrite))
        case ScanInstr():
            return replace(instr, body=_rewritten(instr.body, rewrite))
        case _:
            assert_never(instr)
