"""Work sharing in loops: threads that one kernel of an iteration keeps awake share others, too.

    scan loop 0 {
      launch @k0(...)  // for i in 0..4 parallel(2) { product ... }
      launch @k1(...)  // for i in 0..8192 vector(16) { ... }
    }

becomes

    scan loop 0 {
      launch @k0(...)
      launch @k2(...)  // for i in 0..8192 vector(16) parallel(4096) { ... }
    }

A kernel alone is worth a fork from so much work on that threads which sleep are woken for it
(`schedule/parallelize.py`). In an iteration whose other kernels they share they do not sleep, and
what each of them makes of its rows is in its own caches. No result changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symgrad.codegen.loops.language import For, Generated, Kernel, Parallel
from symgrad.codegen.loops.rewrite import is_free_of, statements
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import Instr, Launch, LoopInstr, Program
from symgrad.codegen.program.rewrite_launches import rewrite_launches
from symgrad.codegen.schedule.parallelize import share_work
from symgrad.codegen.schedule.passes import Machine
from symgrad.cost_model import SHARE_OF_LOOP
from symgrad.records import replace


def share_in_loops(program: Program, machine: Machine) -> Program:
    """Share small kernels of loops whose other kernels are shared: return `program` with these."""
    if machine.threads.count == 1:
        return program
    names = KernelNames(program.kernels)
    awake = replace(machine.threads, least_cycles=SHARE_OF_LOOP * machine.threads.least_cycles)

    def shared(instr: Instr) -> Instr:
        if not isinstance(instr, Launch) or not _may_be_shared(instr.kernel):
            return instr
        kernel = share_work(instr.kernel, machine.target, awake)
        if not _is_shared(kernel):
            return instr
        return replace(instr, kernel=names.shared(kernel), fused=instr.fused or (instr,))

    def rewrite(instrs: list[Instr]) -> None:
        for position, instr in enumerate(instrs):
            if isinstance(instr, LoopInstr) and any(_shared_launches(instr.body)):
                instrs[position] = replace(instr, body=tuple(map(shared, instr.body)))

    return rewrite_launches(program, names, rewrite)


def _shared_launches(instrs: Sequence[Instr]) -> Iterator[bool]:
    return (_is_shared(instr.kernel) for instr in instrs if isinstance(instr, Launch))


def _is_shared(kernel: Kernel) -> bool:
    return any(isinstance(s, Parallel) and s.parts > 1 for s in statements(kernel.body))


def _may_be_shared(kernel: Kernel) -> bool:
    """Return whether a kernel is loops that have no scratch memory, and runs on one thread."""
    has_loops = any(isinstance(statement, For) for statement in kernel.body)
    return has_loops and is_free_of(kernel.body, Generated) and not _is_shared(kernel)
