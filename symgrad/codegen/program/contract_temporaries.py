"""Array contraction across a program: temporaries of which a launch needs one row at a time.

    launch @k0(input0, temporary0, output0)      // temporary0: f32[256, 1024]

becomes, where no other launch touches `temporary0` and the kernel reads what it has written there
in the same row only,

    launch @k1(input0, temporary0, output0)      // temporary0: f32[1024]

Sweeps that were fused leave such: the exponentials of a softmax, say, which its gradient reads.
How a kernel becomes one that keeps a row is `schedule/contract_rows.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from symgrad.codegen.loops.canonical import canonical
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.print import print_kernel
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
    buffers_of,
    launches_of,
    routines_of,
    with_routines,
)
from symgrad.codegen.schedule.contract_rows import contract_rows
from symgrad.cost_model import BYTES_SWEPT
from symgrad.graph.types import TensorType
from symgrad.passes.fusion.buffers import Buffer


def contract_temporaries(program: Program) -> Program:
    """Contract arrays: return `program` with a row of temporaries that are used row by row."""
    contraction = _Contraction(program)

    def of_routine(routine: Routine) -> Routine:
        instrs = contraction.instrs(routine.instrs)
        return replace(routine, instrs=instrs, inner=routines_of(instrs))

    changed = with_routines(program, of_routine)
    changed = replace(changed, instrs=contraction.instrs(changed.instrs))
    if not contraction.made:
        return program
    used = {launch.kernel.name for launch in launches_of(changed.all_instrs)}
    kernels = (*program.kernels, *contraction.made)
    return replace(changed, kernels=tuple(k for k in kernels if k.name in used))


class _Contraction:
    """The kernels that keep a row where others keep all, and how often a buffer is named."""

    def __init__(self, program: Program) -> None:
        self._named = Counter(buffers_of(program.all_instrs))
        self._names = {kernel.name for kernel in program.kernels}
        self._by_text: dict[str, Kernel] = {}

    @property
    def made(self) -> tuple[Kernel, ...]:
        return tuple(self._by_text.values())

    def instrs(self, instrs: Sequence[Instr]) -> tuple[Instr, ...]:
        return tuple(map(self._instr, instrs))

    def _instr(self, instr: Instr) -> Instr:
        match instr:
            case Launch():
                return self._launch(instr)
            case ExternInstr() | CallInstr():
                return instr
            case SwitchInstr():
                return replace(instr, branches=tuple(map(self.instrs, instr.branches)))
            case WhileInstr():
                condition = self.instrs(instr.condition)
                return replace(instr, condition=condition, body=self.instrs(instr.body))
            case ScanInstr():
                return replace(instr, body=self.instrs(instr.body))

    def _launch(self, launch: Launch) -> Launch:
        kernel, arguments = launch.kernel, list(launch.arguments)
        for number, argument in enumerate(launch.arguments):
            param = kernel.params[number]
            if not isinstance(argument, Buffer) or argument.place != "temporary":
                continue
            is_own = self._named[argument] == 1 and not launch.starts[number]
            if param.mode != "out" or not is_own or argument.type.nbytes < BYTES_SWEPT:
                continue
            contracted = contract_rows(kernel, param.name)
            if contracted is None:
                continue
            kernel = contracted
            kind = TensorType(param.dtype, (kernel.params[number].count,))
            arguments[number] = replace(argument, type=kind)
        if kernel is launch.kernel:
            return launch
        came_of = launch.fused or (launch,)
        shared = self._shared(kernel)
        return replace(launch, kernel=shared, arguments=tuple(arguments), fused=came_of)

    def _shared(self, kernel: Kernel) -> Kernel:
        kernel = canonical(kernel)
        text = print_kernel(kernel)
        if text not in self._by_text:
            number = len(self._names)
            while f"k{number}" in self._names:
                number += 1
            self._names.add(f"k{number}")
            self._by_text[text] = replace(kernel, name=f"k{number}")
        return self._by_text[text]
