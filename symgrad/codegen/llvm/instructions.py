"""Control-flow emission: calls of kernels and routines, branches and loops of a program.

Which functions there are, and which of them an instruction is in, `module.py` decides; what a
kernel does is in `kernels.py`. Behind each call that can fail, a failure is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from llvmlite import ir

from symgrad.codegen.llvm.addresses import Addresses
from symgrad.codegen.llvm.clock import LaunchClock
from symgrad.codegen.llvm.kernels import emit_kernel
from symgrad.codegen.llvm.lanes import Lanes
from symgrad.codegen.llvm.poll import CYCLES_WORD, emit_count, watch_word
from symgrad.codegen.llvm.tape import tape_reserve
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.equal_loops import canonical_text
from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    Instr,
    Launch,
    Program,
    Routine,
    ScanInstr,
    Slice,
    SwitchInstr,
    WhileInstr,
    buffers_of,
    launches_of,
)
from symgrad.codegen.program.polls import polls_inside
from symgrad.codegen.program.registers import loops_around, timed_as_one
from symgrad.codegen.target import Target
from symgrad.passes.fusion.buffers import Buffer

_I32, _I64 = ir.IntType(32), ir.IntType(64)


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of a module: a kernel and a loop are emitted where they are called first.

    `emit_loop` makes the function of a loop with registers. `clock` is the C library's if calls are
    timed, and `numbers` then says which call is which, by identity. With `whole_loops`, a loop that
    is in registers is timed as a whole, in the place of its first call. `polled` are the cycles of
    an iteration of each loop that polls.
    """

    module: ir.Module
    program: Program
    target: Target
    emit_loop: Callable[[Functions, WhileInstr | ScanInstr], ir.Function]
    clock: ir.Function | None
    numbers: Mapping[int, int]
    polled: Mapping[int, int]
    whole_loops: bool = False
    routines: dict[str, ir.Function] = field(default_factory=dict)
    kernels: dict[str, ir.Function] = field(default_factory=dict)
    loops: dict[str, ir.Function] = field(default_factory=dict)

    def kernel(self, kernel: Kernel) -> ir.Function:
        """Return the function of a kernel."""
        if kernel.name not in self.kernels:
            made = emit_kernel(self.module, kernel, kernel.name, self.target)
            self.kernels[kernel.name] = made
        return self.kernels[kernel.name]

    def can_end_early(self, routine: Routine) -> bool:
        """Return whether a routine may fail, or be stopped in a loop of its own or of an inner."""
        instrs = [instr for part in (*routine.inner, routine) for instr in part.instrs]
        return routine.can_fail or polls_inside(instrs, self.polled)

    def loop(self, loop: WhileInstr | ScanInstr) -> ir.Function:
        """Return the function of a loop with registers; loops that do the same have one."""
        text = canonical_text(loop)
        if text not in self.loops:
            self.loops[text] = self.emit_loop(self, loop)
        return self.loops[text]


def return_failure(builder: ir.IRBuilder, status: ir.Value) -> None:
    """Return `status` if it is a failure, go on otherwise."""
    failed = builder.append_basic_block("failed")
    passed = builder.append_basic_block("passed")
    builder.cbranch(builder.icmp_signed("==", status, _I32(0)), passed, failed)
    builder.position_at_end(failed)
    builder.ret(status)
    builder.position_at_end(passed)


class InstrEmitter:
    """Emits instructions into a function of the type of the step, or of a routine of `arity`."""

    def __init__(
        self,
        functions: Functions,
        function: ir.Function,
        arity: tuple[int, int] | None = None,
    ) -> None:
        self._functions = functions
        self._function = function
        self._target = functions.target
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))
        self._clock = (
            None if functions.clock is None else LaunchClock(functions.clock, self._builder)
        )
        self._addresses = Addresses(self._builder, functions.program, function, arity)

    def emit(self, instrs: Sequence[Instr]) -> None:
        """Emit `instrs` and the return."""
        self._addresses.locate(buffers_of(instrs))
        self._emit_instrs(instrs)
        self._builder.ret(_I32(0))

    def _emit_instrs(self, instrs: Sequence[Instr]) -> None:
        for instr in instrs:
            match instr:
                case Launch():
                    self._emit_timed(instr, partial(self._emit_launch, instr))
                case SwitchInstr():
                    self._emit_switch(instr)
                case WhileInstr() | ScanInstr() if instr.registers and self._clock is None:
                    self._emit_in_registers(instr)
                case WhileInstr() | ScanInstr() if self._is_timed_as_one(instr):
                    self._emit_timed(
                        next(launches_of([instr])), partial(self._emit_in_registers, instr)
                    )
                case WhileInstr():
                    self._emit_while(instr)
                case ScanInstr():
                    self._emit_scan(instr)
                case CallInstr():
                    self._emit_call(instr)

    # --------------------------------------------------------------------------------- calls

    def _is_timed_as_one(self, loop: WhileInstr | ScanInstr) -> bool:
        return self._functions.whole_loops and loop in timed_as_one([loop])

    def _emit_timed(self, launch: Launch, emit: Callable[[], None]) -> None:
        """Emit what is timed in the place of `call`, if anything is."""
        if self._clock is None:
            emit()
        else:
            table, number = self._function.args[-1], self._functions.numbers[id(launch)]
            self._clock.measure(table, number, emit)

    def _emit_launch(self, launch: Launch) -> None:
        places = zip(launch.arguments, launch.starts, strict=True)
        arguments = [self._addresses.of(argument, start) for argument, start in places]
        kernel = self._functions.kernel(launch.kernel)
        if not launch.kernel.can_fail:
            self._builder.call(kernel, arguments)
            return
        own = self._builder.call(kernel, [*arguments, self._addresses.watch])
        status: ir.Value = _I32(0)
        for number, of_program in enumerate(launch.statuses, 1):
            is_it = self._builder.icmp_signed("==", own, _I32(number))
            status = self._builder.select(is_it, _I32(of_program), status)
        return_failure(self._builder, status)

    def _emit_call(self, call: CallInstr) -> None:
        places = [self._addresses.of(argument) for argument in (*call.inputs, *call.outputs)]
        rest = [self._addresses.state, *([] if self._clock is None else self._function.args[-1:])]
        routine = self._functions.routines[call.routine.name]
        status = self._builder.call(routine, [*places, *rest])
        if self._functions.can_end_early(call.routine):
            return_failure(self._builder, status)

    def _emit_in_registers(self, loop: WhileInstr | ScanInstr) -> None:
        """Call the function of a loop, which takes all addresses and the iterations around."""
        function = self._functions.loop(loop)
        pointers = [self._addresses.pointers[b] for b in dict.fromkeys(buffers_of([loop]))]
        iterations = [self._addresses.iterations[number] for number in loops_around(loop)]
        no_tables = [ir.PointerType()(None)] * 2
        given = [*no_tables, self._addresses.state, *pointers, *iterations]
        return_failure(self._builder, self._builder.call(function, given))

    # --------------------------------------------------------------------- branches and loops

    def _emit_switch(self, switch: SwitchInstr) -> None:
        builder = self._builder
        index = self._scalar(switch.index)
        blocks = [self._function.append_basic_block("branch") for _ in switch.branches]
        after = self._function.append_basic_block("joined")
        table = builder.switch(index, blocks[-1])
        for number, block in enumerate(blocks[:-1]):
            table.add_case(_I64(number), block)
        for block, instrs in zip(blocks, switch.branches, strict=True):
            builder.position_at_end(block)
            self._emit_instrs(instrs)
            builder.branch(after)
        builder.position_at_end(after)

    def _emit_while(self, loop: WhileInstr) -> None:
        builder = self._builder
        head, body, after = (
            self._function.append_basic_block(f"{name}.{loop.number}")
            for name in ("while", "do", "done")
        )
        before = builder.block
        builder.branch(head)
        builder.position_at_end(head)
        iteration = builder.phi(_I64)
        iteration.add_incoming(_I64(0), before)
        self._addresses.iterations[loop.number] = iteration
        self._emit_instrs(loop.condition)
        builder.cbranch(self._goes_on(loop, iteration), body, after)
        builder.position_at_end(body)
        self._poll(loop)
        self._reserve(loop.tapes, builder.add(iteration, _I64(1)))
        self._emit_instrs(loop.body)
        iteration.add_incoming(builder.add(iteration, _I64(1)), builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        self._set_count(loop.count, iteration)

    def _emit_scan(self, scan: ScanInstr) -> None:
        builder = self._builder
        head, body, after = (
            self._function.append_basic_block(f"{name}.{scan.number}")
            for name in ("scan", "do", "done")
        )
        wanted = self._scalar(scan.trips)
        fits = builder.icmp_signed("<", wanted, _I64(scan.capacity))
        trips = builder.select(fits, wanted, _I64(scan.capacity))
        self._reserve(scan.tapes, trips)
        before = builder.block
        builder.branch(head)
        builder.position_at_end(head)
        done = builder.phi(_I64)
        done.add_incoming(_I64(0), before)
        builder.cbranch(builder.icmp_signed("<", done, trips), body, after)
        builder.position_at_end(body)
        following = builder.add(done, _I64(1))
        place = builder.sub(trips, following) if scan.reverse else done
        self._addresses.iterations[scan.number] = place
        self._poll(scan)
        self._emit_instrs(scan.body)
        done.add_incoming(following, builder.block)
        builder.branch(head)
        builder.position_at_end(after)

    def _goes_on(self, loop: WhileInstr, iteration: ir.Value) -> ir.Value:
        builder = self._builder
        holds = self._scalar(loop.test)
        if not loop.capacity:
            return holds
        # Not even a condition that is wrong about its bound makes a loop write past its stacks.
        return builder.and_(holds, builder.icmp_signed("<", iteration, _I64(loop.capacity)))

    def _poll(self, loop: WhileInstr | ScanInstr) -> None:
        """Count an iteration of a loop that polls."""
        cycles = self._functions.polled.get(loop.number)
        if cycles is not None:
            watch = self._addresses.watch
            status = emit_count(self._builder, watch, self._cycles_left(), cycles)
            return_failure(self._builder, status)

    def _cycles_left(self) -> ir.Value:
        """Return where the cycles until the next poll are counted."""
        return watch_word(self._builder, self._addresses.watch, CYCLES_WORD)

    def _reserve(self, tapes: Sequence[Slice], slices: ir.Value) -> None:
        """Make room for as many slices on `tapes`."""
        for tape in tapes:
            size = self._builder.mul(slices, _I64(tape.type.nbytes))
            reserve = tape_reserve(self._function.module)
            status = self._builder.call(reserve, [self._addresses.of(tape.stack), size])
            return_failure(self._builder, status)

    def _scalar(self, argument: Argument) -> ir.Value:
        """Return the one element of `argument`: an int64, or one bit of a bool."""
        dtype = argument.type.dtype
        lanes = Lanes(self._builder, self._target, 1)
        return lanes.load(self._addresses.of(argument), dtype, dtype.itemsize)

    def _set_count(self, count: Buffer, value: ir.Value) -> None:
        self._builder.store(value, self._addresses.pointers[count], align=8)
