"""From a program in the loop language to a module of LLVM IR with one native function.

    i32 @step(ptr inputs, ptr outputs, ptr state)

`inputs` and `outputs` are tables of pointers to elements. `state` is a table too: the arena, an
int64 that receives an index found out of range, then the variables, the constants and the tapes.
The result is 0, or the status of what failed. The function calls functions of its own module and
nothing else, except that a tape grows through the C library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from llvmlite import ir

from symgrad.codegen.llvm.kernels import emit_kernel
from symgrad.codegen.llvm.tape import tape_reserve
from symgrad.codegen.llvm.target import Target
from symgrad.codegen.program import (
    Argument,
    Call,
    Choice,
    Program,
    Repeat,
    Slice,
    Step,
    Sweep,
    buffers_of,
    root,
)
from symgrad.passes.buffers import Buffer

STEP = "step"
ARENA_SLOT, FAILURE_SLOT, FIRST_VARIABLE_SLOT = 0, 1, 2

# The time LLVM takes grows faster than a function that does nothing but call: a long step is cut
# into parts, and the parts are not optimized. That costs them a nanosecond a call.
CALLS_IN_FUNCTION = 32

_I32, _I64, _PTR, _BYTE = ir.IntType(32), ir.IntType(64), ir.PointerType(), ir.IntType(8)


def emit_module(program: Program, target: Target, *, timed: bool = False) -> ir.Module:
    """Emit all kernels of `program` and the function that calls them.

    With `timed`, the function takes a fourth parameter, a table of two float64 for each call, to
    which it adds the seconds the call took, and 1; it then needs the C library's clock.
    """
    module = ir.Module(program.partition.graph.name)
    module.triple = target.triple
    kernels = {k.name: emit_kernel(module, k, k.name, target) for k in program.kernels}
    step = ir.Function(module, ir.FunctionType(_I32, [_PTR] * (4 if timed else 3)), STEP)
    clock = _declare_clock(module) if timed else None
    numbers = {id(call): number for number, call in enumerate(program.calls)}
    steps = program.steps
    if len(steps) <= CALLS_IN_FUNCTION:
        _StepsEmitter(program, kernels, step, clock, numbers).emit(steps)
    else:
        parts = [
            _emit_part(
                step,
                f"{STEP}.{start}",
                steps[start : start + CALLS_IN_FUNCTION],
                partial(_StepsEmitter, program, kernels, clock=clock, numbers=numbers),
            )
            for start in range(0, len(steps), CALLS_IN_FUNCTION)
        ]
        _emit_sequence(step, parts)
    return module


def _emit_part(
    step: ir.Function,
    name: str,
    steps: Sequence[Step],
    emitter: Callable[[ir.Function], _StepsEmitter],
) -> ir.Function:
    """Emit a function like `step` that does some of its steps."""
    part = ir.Function(step.module, step.function_type, name)
    part.linkage = "internal"
    part.attributes.add("noinline")
    part.attributes.add("optnone")
    emitter(part).emit(steps)
    return part


def _emit_sequence(step: ir.Function, parts: Sequence[ir.Function]) -> None:
    """Make `step` call `parts` one after another, up to one that fails."""
    builder = ir.IRBuilder(step.append_basic_block("entry"))
    for part in parts:
        _return_failure(builder, builder.call(part, step.args))
    builder.ret(_I32(0))


def _return_failure(builder: ir.IRBuilder, status: ir.Value) -> None:
    """Return `status` if it is a failure, go on otherwise."""
    failed = builder.append_basic_block("failed")
    passed = builder.append_basic_block("passed")
    builder.cbranch(builder.icmp_signed("==", status, _I32(0)), passed, failed)
    builder.position_at_end(failed)
    builder.ret(status)
    builder.position_at_end(passed)


class _StepsEmitter:
    """Emits steps into a function of the type of the step."""

    def __init__(
        self,
        program: Program,
        kernels: Mapping[str, ir.Function],
        function: ir.Function,
        clock: ir.Function | None,
        numbers: Mapping[int, int],
    ) -> None:
        self._program = program
        self._kernels = kernels
        self._function = function
        self._numbers = numbers
        self._inputs, self._outputs, self._state = function.args[:3]
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))
        self._clock = None if clock is None else _Clock(clock, self._builder)
        self._pointers: dict[Buffer, ir.Value] = {}
        self._iterations: dict[int, ir.Value] = {}
        self._failure = self._slot(self._state, FAILURE_SLOT)
        self._arena = self._slot(self._state, ARENA_SLOT)

    def _slot(self, table: ir.Value, number: int) -> ir.Value:
        place = self._builder.gep(table, [_I64(number)], inbounds=True, source_etype=_PTR)
        return self._builder.load(place, align=8, typ=_PTR)

    def emit(self, steps: Sequence[Step]) -> None:
        """Emit `steps` and the return."""
        # All pointers are read once, at the start: no call changes a table.
        for buffer in buffers_of(steps):
            if buffer not in self._pointers:
                self._pointers[buffer] = self._locate(buffer)
        self._emit_steps(steps)
        self._builder.ret(_I32(0))

    def _emit_steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Call():
                    self._emit_timed_call(step)
                case Choice():
                    self._emit_choice(step)
                case Repeat():
                    self._emit_repeat(step)
                case Sweep():
                    self._emit_sweep(step)

    def _emit_timed_call(self, call: Call) -> None:
        if self._clock is None:
            self._emit_call(call)
        else:
            table, number = self._function.args[3], self._numbers[id(call)]
            self._clock.measure(table, number, partial(self._emit_call, call))

    def _emit_choice(self, choice: Choice) -> None:
        builder = self._builder
        index = builder.load(self._pointer(choice.index), align=8, typ=_I64)
        blocks = [self._function.append_basic_block("branch") for _ in choice.branches]
        after = self._function.append_basic_block("joined")
        table = builder.switch(index, blocks[-1])
        for number, block in enumerate(blocks[:-1]):
            table.add_case(_I64(number), block)
        for block, steps in zip(blocks, choice.branches, strict=True):
            builder.position_at_end(block)
            self._emit_steps(steps)
            builder.branch(after)
        builder.position_at_end(after)

    def _emit_repeat(self, loop: Repeat) -> None:
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
        self._iterations[loop.number] = iteration
        self._emit_steps(loop.condition)
        builder.cbranch(self._goes_on(loop, iteration), body, after)
        builder.position_at_end(body)
        self._reserve(loop.tapes, builder.add(iteration, _I64(1)))
        self._emit_steps(loop.body)
        iteration.add_incoming(builder.add(iteration, _I64(1)), builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        builder.store(iteration, self._pointers[loop.count], align=8)

    def _emit_sweep(self, sweep: Sweep) -> None:
        builder = self._builder
        head, body, after = (
            self._function.append_basic_block(f"{name}.{sweep.number}")
            for name in ("repeat", "do", "done")
        )
        wanted = builder.load(self._pointer(sweep.trips), align=8, typ=_I64)
        fits = builder.icmp_signed("<", wanted, _I64(sweep.capacity))
        trips = builder.select(fits, wanted, _I64(sweep.capacity))
        self._reserve(sweep.tapes, trips)
        before = builder.block
        builder.branch(head)
        builder.position_at_end(head)
        done = builder.phi(_I64)
        done.add_incoming(_I64(0), before)
        builder.cbranch(builder.icmp_signed("<", done, trips), body, after)
        builder.position_at_end(body)
        following = builder.add(done, _I64(1))
        place = builder.sub(trips, following) if sweep.reverse else done
        self._iterations[sweep.number] = place
        self._emit_steps(sweep.body)
        done.add_incoming(following, builder.block)
        builder.branch(head)
        builder.position_at_end(after)

    def _reserve(self, tapes: Sequence[Slice], slices: ir.Value) -> None:
        """Make room for as many slices on `tapes`."""
        for tape in tapes:
            size = self._builder.mul(slices, _I64(tape.type.nbytes))
            reserve = tape_reserve(self._function.module)
            status = self._builder.call(reserve, [self._pointer(tape.stack), size])
            _return_failure(self._builder, status)

    def _goes_on(self, loop: Repeat, iteration: ir.Value) -> ir.Value:
        builder = self._builder
        test = builder.load(self._pointers[loop.test], align=1, typ=_BYTE)
        holds = builder.icmp_unsigned("!=", test, _BYTE(0))
        if not loop.capacity:
            return holds
        # Not even a condition that is wrong about its bound makes a loop write past its stacks.
        return builder.and_(holds, builder.icmp_signed("<", iteration, _I64(loop.capacity)))

    def _locate(self, buffer: Buffer) -> ir.Value:
        match buffer.place:
            case "input":
                return self._slot(self._inputs, buffer.number)
            case "output":
                return self._slot(self._outputs, buffer.number)
            case "variable":
                return self._slot(self._state, FIRST_VARIABLE_SLOT + buffer.number)
            case "constant":
                first = FIRST_VARIABLE_SLOT + len(self._program.variables)
                return self._slot(self._state, first + buffer.number)
            case "tape":
                program = self._program
                first = FIRST_VARIABLE_SLOT + len(program.variables) + len(program.constants)
                return self._slot(self._state, first + buffer.number)
            case "temporary":
                offset = _I64(self._program.offsets[buffer])
                return self._builder.gep(self._arena, [offset], inbounds=True, source_etype=_BYTE)

    def _place(self, argument: Argument, start: int) -> ir.Value:
        """Return the address of element `start` of an argument."""
        pointer = self._pointer(argument)
        if not start:
            return pointer
        offset = _I64(start * argument.type.dtype.itemsize)
        return self._builder.gep(pointer, [offset], inbounds=True, source_etype=_BYTE)

    def _pointer(self, argument: Argument) -> ir.Value:
        if isinstance(argument, Buffer):
            return self._pointers[argument]
        place = self._iterations[argument.loop]
        offset = self._builder.mul(place, _I64(argument.type.nbytes))
        stack = self._pointer(argument.stack)
        if root(argument).place == "tape":
            stack = self._builder.load(stack, align=8, typ=_PTR)  # it moves when it grows
        return self._builder.gep(stack, [offset], inbounds=True, source_etype=_BYTE)

    def _emit_call(self, call: Call) -> None:
        places = zip(call.arguments, call.starts, strict=True)
        arguments = [self._place(argument, start) for argument, start in places]
        kernel = self._kernels[call.kernel.name]
        if not call.kernel.can_fail:
            self._builder.call(kernel, arguments)
            return
        own = self._builder.call(kernel, [*arguments, self._failure])
        status: ir.Value = _I32(0)
        for number, of_program in enumerate(call.statuses, 1):
            is_it = self._builder.icmp_signed("==", own, _I32(number))
            status = self._builder.select(is_it, _I32(of_program), status)
        _return_failure(self._builder, status)


def _declare_clock(module: ir.Module) -> ir.Function:
    return ir.Function(module, ir.FunctionType(_I32, [_I32, _PTR]), "clock_gettime")


class _Clock:
    """Reads the C library's monotonic clock around calls."""

    def __init__(self, read: ir.Function, builder: ir.IRBuilder) -> None:
        self._read = read
        self._builder = builder
        self._time = builder.alloca(ir.ArrayType(_I64, 2))

    def _seconds(self) -> ir.Value:
        builder = self._builder
        builder.call(self._read, [_I32(1), self._time])  # 1 is CLOCK_MONOTONIC on Linux
        whole, part = (
            builder.load(
                builder.gep(self._time, [_I64(i)], inbounds=True, source_etype=_I64),
                align=8,
                typ=_I64,
            )
            for i in range(2)
        )
        nanoseconds = builder.add(builder.mul(whole, _I64(10**9)), part)
        return builder.fmul(
            builder.sitofp(nanoseconds, ir.DoubleType()), ir.Constant(ir.DoubleType(), 1e-9)
        )

    def measure(self, table: ir.Value, number: int, emit: Callable[[], None]) -> None:
        before = self._seconds()
        emit()
        self._add(table, 2 * number, self._builder.fsub(self._seconds(), before))
        self._add(table, 2 * number + 1, ir.Constant(ir.DoubleType(), 1.0))

    def _add(self, table: ir.Value, number: int, value: ir.Value) -> None:
        builder, double = self._builder, ir.DoubleType()
        place = builder.gep(table, [_I64(number)], inbounds=True, source_etype=double)
        old = builder.load(place, align=8, typ=double)
        builder.store(builder.fadd(old, value), place, align=8)
