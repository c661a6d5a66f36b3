"""The place of an instruction: what code is emitted with, handed down and never changed.

Who emits the inside of a loop hands down a place that knows the iteration as well. Which functions
a module has is collected here too; what an instruction becomes is in `instructions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from symgrad.codegen import ir
from symgrad.codegen.llvm.addresses import Addresses
from symgrad.codegen.llvm.alike_kernels import AlikeKernels
from symgrad.codegen.llvm.alike_products import emitted_product
from symgrad.codegen.llvm.clock import LaunchClock
from symgrad.codegen.llvm.kernels import declare_kernel, emit_kernel
from symgrad.codegen.llvm.known_kernel import NONE_KNOWN, KnownKernel
from symgrad.codegen.llvm.register_file import RegisterFile
from symgrad.codegen.llvm.tracing import TraceClock
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.equal_loops import canonical_text
from symgrad.codegen.program.language import Program, Routine, ScanInstr, WhileInstr
from symgrad.codegen.program.polls import polls_inside
from symgrad.codegen.target import Target
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of a module: a kernel and a loop are emitted where they are called first.

    `emit_loop` makes the function of a loop with registers. `clock` is the C library's if calls are
    timed, and `numbers` then says which call is which, by identity. With `whole_loops`, a loop that
    is in registers is timed as a whole, in the place of its first call; if `is_traced`, times are
    events and no sums. `calls` are those of each kernel, by its name. `passing` are those that call
    functions of C (`extern.py`). `known` are, by their names, kernels whose code is elsewhere: they
    are declared. Of those that are `alike` one is emitted. `thunks` are, by the identities of
    launches, what is called in the place of a kernel, and its row (`call_thunks.py`).
    """

    module: ir.Module
    program: Program
    target: Target
    emit_loop: Callable[[Functions, WhileInstr | ScanInstr], ir.LLVMFunction]
    clock: ir.LLVMFunction | None
    numbers: Mapping[int, int]
    whole_loops: bool = False
    is_traced: bool = False
    known: Mapping[str, KnownKernel] = NONE_KNOWN
    alike: AlikeKernels | None = None
    routines: dict[str, ir.LLVMFunction] = field(default_factory=dict)
    kernels: dict[str, ir.LLVMFunction] = field(default_factory=dict)
    calls: dict[str, list[ir.FunctionCall]] = field(default_factory=dict)
    loops: dict[str, ir.LLVMFunction] = field(default_factory=dict)
    passing: dict[str, ir.LLVMFunction] = field(default_factory=dict)
    thunks: dict[int, tuple[ir.LLVMFunction, ir.Value]] = field(default_factory=dict)

    def kernel(self, kernel: Kernel) -> ir.LLVMFunction:
        """Return the function of a kernel."""
        name = kernel.name
        if name not in self.kernels and name in self.known:
            declared = self.kernels[name] = declare_kernel(self.module, kernel, name)
            declared.lift_each([p.value(self.module) for p in self.known[name].lifted])
        elif name not in self.kernels:
            found = None if self.alike is None else self.alike.emitted(self.module, kernel)
            found = found or emitted_product(self.module, kernel, self.target)
            self.kernels[name] = found or emit_kernel(self.module, kernel, name, self.target)
        return self.kernels[name]

    def call(self, builder: ir.IRBuilder, kernel: Kernel, given: Sequence[ir.Value]) -> ir.Value:
        """Call the function of a kernel, and note that."""
        function = self.kernel(kernel)
        result, call = builder.call_of(function, [*given, *function.lifted])
        self.calls.setdefault(function.name, []).append(call)
        return result

    def can_end_early(self, routine: Routine) -> bool:
        """Return whether a routine may fail, or be stopped in a loop of its own or of an inner."""
        instrs = [instr for part in (*routine.inner, routine) for instr in part.instrs]
        return routine.can_fail or polls_inside(instrs, self.program.polled)

    def loop(self, loop: WhileInstr | ScanInstr) -> ir.LLVMFunction:
        """Return the function of a loop with registers; loops that do the same have one."""
        text = canonical_text(loop)
        if text not in self.loops:
            self.loops[text] = self.emit_loop(self, loop)
        return self.loops[text]


@dataclass(frozen=True, slots=True)
class CodePlace:
    """Where an instruction is emitted: the end of `builder`'s block, and what can be used there.

    `clock` is there if calls are timed here. `registers` is there in the function of a loop, where
    small kernels are written out, and then `cycles_left` may be as well: what counts the cycles
    until the next poll, which otherwise the watch does.
    """

    functions: Functions
    builder: ir.IRBuilder
    addresses: Addresses
    clock: LaunchClock | TraceClock | None = None
    registers: RegisterFile | None = None
    cycles_left: ir.Value | None = None

    @property
    def function(self) -> ir.LLVMFunction:
        """The function that is filled."""
        return self.builder.function

    def inside(self, loop: WhileInstr | ScanInstr, iteration: ir.Value) -> CodePlace:
        """Return the place in an iteration of `loop`."""
        return replace(self, addresses=self.addresses.inside(loop.number, iteration))


def open_function(
    functions: Functions, function: ir.LLVMFunction, arity: tuple[int, int] | None = None
) -> CodePlace:
    """Return the place at the start of a function of the type of the step, or of a routine."""
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    clock: LaunchClock | TraceClock | None = None
    if functions.clock is not None:
        kind = TraceClock if functions.is_traced else LaunchClock
        clock = kind(functions.clock, builder)
    return CodePlace(
        functions, builder, Addresses.of_function(builder, functions.program, arity), clock
    )
