"""From a program in the loop language to a module of LLVM IR with one native function.

    i32 @step(ptr inputs, ptr outputs, ptr state)

`inputs` and `outputs` are tables of pointers to elements. `state` is a table too: the arena, an
int64 that receives an index found out of range, then the variables, the constants and the tapes.
The result is 0, or the status of what failed. A routine is a function of its own, which takes its
inputs and outputs as parameters, and `state`. The function calls functions of its own module and
nothing else, except that a tape grows through the C library and that parallel kernels fork through
an OpenMP runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from llvmlite import ir

from symgrad.codegen.equal_loops import canonical_text
from symgrad.codegen.llvm.clock import Clock, declare_clock
from symgrad.codegen.llvm.kernels import emit_kernel
from symgrad.codegen.llvm.lanes import Lanes
from symgrad.codegen.llvm.register_file import RegisterFile
from symgrad.codegen.llvm.tape import TapeInRegisters, tape_reserve
from symgrad.codegen.llvm.target import Target
from symgrad.codegen.llvm.written_out import emit_written_out
from symgrad.codegen.loops import Kernel
from symgrad.codegen.program import (
    Argument,
    Call,
    Choice,
    Invoke,
    Program,
    Repeat,
    Slice,
    Step,
    Sweep,
    buffers_of,
)
from symgrad.codegen.registers import is_written_out, loops_around
from symgrad.passes.buffers import Buffer

STEP = "step"
ARENA_SLOT, FAILURE_SLOT, FIRST_VARIABLE_SLOT = 0, 1, 2

# The time LLVM takes grows faster than a function that does nothing but call: a long step is cut
# into parts, and the parts are not optimized. That costs them a nanosecond a call.
CALLS_IN_FUNCTION = 32

_I32, _I64, _PTR, _BYTE = ir.IntType(32), ir.IntType(64), ir.PointerType(), ir.IntType(8)


def loop_function(number: int) -> str:
    """Return the name of the function that is a loop with registers."""
    return f"{STEP}.loop.{number}"


def emit_module(program: Program, target: Target, *, timed: bool = False) -> ir.Module:
    """Emit the function of `program`, and the kernels that it calls.

    With `timed`, the function takes a fourth parameter, a table of two float64 for each call, to
    which it adds the seconds the call took, and 1; it then needs the C library's clock.
    """
    module = ir.Module(program.partition.graph.name)
    module.triple = target.triple
    functions: dict[str, ir.Function] = {}  # kernels and routines by name, loops by what they do
    step = ir.Function(module, ir.FunctionType(_I32, [_PTR] * (4 if timed else 3)), STEP)
    clock = declare_clock(module) if timed else None
    numbers = {id(call): number for number, call in enumerate(program.calls)}
    emitter = partial(
        _StepsEmitter, program, functions, clock=clock, numbers=numbers, target=target
    )
    for routine in program.routines:
        rest = len(step.args) - 2  # what comes after the tables of inputs and outputs
        takes = ir.FunctionType(_I32, [_PTR] * (sum(routine.arity) + rest))
        function = ir.Function(module, takes, f"routine.{routine.name}")
        function.linkage = "internal"
        function.attributes.add("noinline")
        _emit_steps(function, routine.steps, partial(emitter, arity=routine.arity))
        functions[function.name] = function
    _emit_steps(step, program.steps, emitter)
    return module


def _emit_steps(
    function: ir.Function, steps: Sequence[Step], emitter: Callable[[ir.Function], _StepsEmitter]
) -> None:
    """Make `function` do `steps`, in parts if there are many."""
    if len(steps) <= CALLS_IN_FUNCTION:
        emitter(function).emit(steps)
        return
    parts = [
        _emit_part(
            function, f"{function.name}.{start}", steps[start : start + CALLS_IN_FUNCTION], emitter
        )
        for start in range(0, len(steps), CALLS_IN_FUNCTION)
    ]
    _emit_sequence(function, parts)


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
    """Emits steps into a function of the type of the step, or of a routine.

    That has no tables of inputs and outputs, but as many of each as `arity` says, as parameters.
    """

    def __init__(
        self,
        program: Program,
        functions: dict[str, ir.Function],
        function: ir.Function,
        clock: ir.Function | None,
        numbers: Mapping[int, int],
        target: Target,
        arity: tuple[int, int] | None = None,
    ) -> None:
        self._program = program
        self._functions = functions
        self._function = function
        self._numbers = numbers
        self._target = target
        self._arity = arity
        first = 2 if arity is None else sum(arity)
        self._rest = function.args[first : first + (1 if clock is None else 2)]
        self._state = self._rest[0]
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))
        self._clock = None if clock is None else Clock(clock, self._builder)
        self._pointers: dict[Buffer, ir.Value] = {}
        self._iterations: dict[int, ir.Value] = {}
        self._failure = self._slot(self._state, FAILURE_SLOT)
        self._arena = self._slot(self._state, ARENA_SLOT)

    def _slot(self, table: ir.Value, number: int) -> ir.Value:
        place = self._builder.gep(table, [_I64(number)], inbounds=True, source_etype=_PTR)
        return self._builder.load(place, align=8, typ=_PTR)

    def emit(self, steps: Sequence[Step]) -> None:
        """Emit `steps` and the return."""
        self._locate_all(steps)
        self._emit_steps(steps)
        self._builder.ret(_I32(0))

    def _locate_all(self, steps: Sequence[Step]) -> None:
        """Read all pointers, once, at the start: no call changes a table."""
        for buffer in buffers_of(steps):
            if buffer not in self._pointers:
                self._pointers[buffer] = self._locate(buffer)

    def _emit_steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Call():
                    self._emit_timed_call(step)
                case Choice():
                    self._emit_choice(step)
                case Repeat() | Sweep() if step.registers and self._clock is None:
                    self._emit_in_registers(step)
                case Repeat():
                    self._emit_repeat(step)
                case Sweep():
                    self._emit_sweep(step)
                case Invoke():
                    self._emit_invoke(step)

    def _emit_invoke(self, invoke: Invoke) -> None:
        places = [self._pointer(argument) for argument in (*invoke.inputs, *invoke.outputs)]
        routine = self._functions[f"routine.{invoke.routine.name}"]
        status = self._builder.call(routine, [*places, *self._rest])
        if invoke.routine.can_fail:
            _return_failure(self._builder, status)

    def _emit_timed_call(self, call: Call) -> None:
        if self._clock is None:
            self._emit_call(call)
        else:
            table, number = self._rest[1], self._numbers[id(call)]
            self._clock.measure(table, number, partial(self._emit_call, call))

    def _emit_in_registers(self, loop: Repeat | Sweep) -> None:
        """Emit a loop as a function of its own, in which LLVM has the registers to itself."""
        around, text = loops_around(loop), canonical_text(loop)
        if text not in self._functions:
            self._functions[text] = self._loop_function(loop, around)
        buffers = dict.fromkeys(buffers_of([loop]))
        pointers = [self._pointers[buffer] for buffer in buffers]
        iterations = [self._iterations[number] for number in around]
        # It needs no tables of inputs and outputs: it is given all addresses.
        given = [_PTR(None), _PTR(None), self._state, *pointers, *iterations]
        _return_failure(self._builder, self._builder.call(self._functions[text], given))

    def _loop_function(self, loop: Repeat | Sweep, around: Sequence[int]) -> ir.Function:
        """Emit a function that takes the addresses of buffers, and the iterations around."""
        outer, buffers = self._function, dict.fromkeys(buffers_of([loop]))
        takes = [*[_PTR] * (3 + len(buffers)), *[_I64] * len(around)]
        kind = ir.FunctionType(_I32, takes)
        function = ir.Function(outer.module, kind, loop_function(loop.number))
        function.linkage = "internal"
        function.attributes.add("noinline")
        emitter = _LoopEmitter(
            self._program, self._functions, function, None, self._numbers, self._target
        )
        values = function.args[3:]
        emitter.emit_loop(
            loop,
            dict(zip(buffers, values, strict=False)),
            dict(zip(around, values[len(buffers) :], strict=True)),
        )
        return function

    def _emit_choice(self, choice: Choice) -> None:
        builder = self._builder
        index = self._scalar(choice.index)
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
        self._set_count(loop.count, iteration)

    def _emit_sweep(self, sweep: Sweep) -> None:
        builder = self._builder
        head, body, after = (
            self._function.append_basic_block(f"{name}.{sweep.number}")
            for name in ("repeat", "do", "done")
        )
        wanted = self._scalar(sweep.trips)
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
        holds = self._scalar(loop.test)
        if not loop.capacity:
            return holds
        # Not even a condition that is wrong about its bound makes a loop write past its stacks.
        return builder.and_(holds, builder.icmp_signed("<", iteration, _I64(loop.capacity)))

    def _scalar(self, argument: Argument) -> ir.Value:
        """Return the one element of `argument`: an int64, or one bit of a bool."""
        dtype = argument.type.dtype
        lanes = Lanes(self._builder, self._target, 1)
        return lanes.load(self._pointer(argument), dtype, dtype.itemsize)

    def _set_count(self, count: Buffer, value: ir.Value) -> None:
        self._builder.store(value, self._pointers[count], align=8)

    def _locate(self, buffer: Buffer) -> ir.Value:
        match buffer.place:
            case "input":
                return self._parameter(0, buffer.number)
            case "output":
                return self._parameter(1, buffer.number)
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

    def _parameter(self, table: int, number: int) -> ir.Value:
        """Return the address of an input, in table 0 or its place, or of an output, in table 1."""
        arguments = self._function.args
        if self._arity is None:
            return self._slot(arguments[table], number)
        return arguments[number + table * self._arity[0]]

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
        stack = argument.stack
        if isinstance(stack, Buffer) and stack.place == "tape":
            memory = self._tape_memory(stack)
        else:
            memory = self._pointer(stack)
        return self._builder.gep(memory, [offset], inbounds=True, source_etype=_BYTE)

    def _tape_memory(self, tape: Buffer) -> ir.Value:
        """Return where the memory of a tape is just now: it moves when it grows."""
        return self._builder.load(self._pointers[tape], align=8, typ=_PTR)

    def _kernel(self, kernel: Kernel) -> ir.Function:
        """Return the function of a kernel, which is emitted when it is called first."""
        if kernel.name not in self._functions:
            module, name = self._function.module, kernel.name
            self._functions[name] = emit_kernel(module, kernel, name, self._target)
        return self._functions[kernel.name]

    def _emit_call(self, call: Call) -> None:
        places = zip(call.arguments, call.starts, strict=True)
        arguments = [self._place(argument, start) for argument, start in places]
        kernel = self._kernel(call.kernel)
        if not call.kernel.can_fail:
            self._builder.call(kernel, arguments)
            return
        own = self._builder.call(kernel, [*arguments, self._failure])
        status: ir.Value = _I32(0)
        for number, of_program in enumerate(call.statuses, 1):
            is_it = self._builder.icmp_signed("==", own, _I32(number))
            status = self._builder.select(is_it, _I32(of_program), status)
        _return_failure(self._builder, status)


class _LoopEmitter(_StepsEmitter):
    """Emits a loop with buffers in registers: small kernels are written out, not called."""

    def emit_loop(
        self,
        loop: Repeat | Sweep,
        pointers: Mapping[Buffer, ir.Value],
        iterations: Mapping[int, ir.Value],
    ) -> None:
        """Emit `loop`, and around it what is read into registers and written back.

        `pointers` are those of all its buffers, `iterations` those of the loops around it.
        """
        self._pointers.update(pointers)
        self._iterations.update(iterations)
        self._tapes = {
            buffer: TapeInRegisters(self._builder, pointer)
            for buffer, pointer in self._pointers.items()
            if buffer.place == "tape"
        }
        held = (register.buffer for register in loop.registers)
        self._registers = RegisterFile(self._builder, self._target, held)
        for register in loop.registers:
            if register.mode != "local":
                self._registers.fill(register.buffer, self._pointers[register.buffer])
        if isinstance(loop, Repeat):
            self._emit_repeat(loop)
        else:
            self._emit_sweep(loop)
        for register in loop.registers:
            if register.mode == "inout":
                self._registers.spill(register.buffer, self._pointers[register.buffer])
        self._builder.ret(_I32(0))

    def _scalar(self, argument: Argument) -> ir.Value:
        if isinstance(argument, Buffer) and argument in self._registers:
            return self._registers.load(argument, [0])
        return super()._scalar(argument)

    def _set_count(self, count: Buffer, value: ir.Value) -> None:
        if count in self._registers:
            self._registers.store(count, [0], value)
        else:
            super()._set_count(count, value)

    def _emit_call(self, call: Call) -> None:
        if not is_written_out(call.kernel, self._target.vector_bytes):
            super()._emit_call(call)
            return
        emit_written_out(
            self._builder, call, self._place, self._registers, self._failure, self._target
        )

    def _tape_memory(self, tape: Buffer) -> ir.Value:
        return self._tapes[tape].memory()

    def _reserve(self, tapes: Sequence[Slice], slices: ir.Value) -> None:
        for tape in tapes:
            assert isinstance(tape.stack, Buffer), "a tape is a buffer"
            size = self._builder.mul(slices, _I64(tape.type.nbytes))
            with self._builder.if_then(self._tapes[tape.stack].is_too_small(size), likely=False):
                super()._reserve([tape], slices)
                self._tapes[tape.stack].read()
