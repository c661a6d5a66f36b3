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
    made: dict[int, Kernel] = {}  # by identity: many launches share a kernel, and a hash reads it

    def changed(instr: Instr) -> Instr:
        if not isinstance(instr, Launch):
            return instr
        before = instr.kernel
        kernel = made.get(id(before))
        if kernel is None:
            kernel = change(before)
            same = kernel is before or kernel == before
            kernel = made[id(before)] = before if same else names.shared(kernel)
        if kernel is before:
            return instr
        return replace(instr, kernel=kernel, fused=instr.fused or (instr,))

    def rewrite(instrs: list[Instr]) -> None:
        instrs[:] = map(changed, instrs)

    return rewrite_launches(program, names, rewrite)


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
    left = [i if type(i) is Launch else _inside(i, rewrite) for i in instrs]
    rewrite(left)
    return tuple(left)


def _inside(instr: Instr, rewrite: SequenceRewrite) -> Instr:
    match instr:
        case SwitchInstr():
            branches = tuple(_rewritten(branch, rewrite) for branch in instr.branches)
            return replace(instr, branches=branches)
        case WhileInstr():
            condition = _rewritten(instr.condition, rewrite)
            return replace(instr, condition=condition, body=_rewritten(instr.body, rewrite))
        case ScanInstr():
            return replace(instr, body=_rewritten(instr.body, rewrite))
        case Launch() | ExternInstr() | CallInstr():
            return instr
        case _:
            assert_never(instr)
