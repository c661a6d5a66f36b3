"""Array contraction across a program: temporaries of which a launch needs one row at a time.

    launch @k0(input0, temporary0, output0)      // temporary0: f32[256, 1024]

becomes, where no other launch touches `temporary0` and the kernel reads what it has written there
in the same row only,

    launch @k1(input0, temporary0, output0)      // temporary0: f32[1024]

Sweeps that were fused leave such: the exponentials of a softmax, say, which its gradient reads.
How a kernel becomes one that keeps a row is `schedule/contract_rows.py`.
"""

from __future__ import annotations

from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import (
    Instr,
    Launch,
    Program,
)
from symgrad.codegen.program.rewrite_launches import rewrite_launches
from symgrad.codegen.schedule.contract_rows import contract_rows
from symgrad.cost_model import BYTES_SWEPT
from symgrad.graph.types import TensorType
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import replace


def contract_temporaries(program: Program) -> Program:
    """Contract arrays: return `program` with a row of temporaries that are used row by row."""
    contraction = _Contraction(program)
    return rewrite_launches(program, contraction.names, contraction.rewrite)


class _Contraction:
    """The kernels that keep a row where others keep all, and how often a buffer is named."""

    def __init__(self, program: Program) -> None:
        self._named = program.mentions
        self.names = KernelNames(program.kernels)

    def rewrite(self, instrs: list[Instr]) -> None:
        """Contract what the launches of a sequence keep for themselves."""
        instrs[:] = [self._launch(i) if isinstance(i, Launch) else i for i in instrs]

    def _launch(self, launch: Launch) -> Launch:
        kernel, arguments = launch.kernel, list(launch.arguments)
        for number, argument in enumerate(launch.arguments):
            param = kernel.params[number]
            if param.mode != "out" or not isinstance(argument, Buffer):
                continue
            is_own = argument.place == "temporary" and self._named[argument] == 1
            if not is_own or launch.starts[number] or argument.type.nbytes < BYTES_SWEPT:
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
        return replace(
            launch, kernel=self.names.shared(kernel), arguments=tuple(arguments), fused=came_of
        )
