"""Control-flow emission: calls of kernels and routines, branches and loops of a program.

Where one is emitted, and with what, its place says (`place.py`); which functions there are, and
which of them an instruction is in, `module.py` decides; what a kernel does is in `kernels.py`.
Behind each call that can fail, a failure is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from symgrad.codegen import ir
from symgrad.codegen.llvm.extern import emit_foreign_call
from symgrad.codegen.llvm.lanes import Lanes
from symgrad.codegen.llvm.place import CodePlace
from symgrad.codegen.llvm.poll import CYCLES_WORD, emit_count, emit_poll, watch_word
from symgrad.codegen.llvm.register_file import RegisterFile
from symgrad.codegen.llvm.strips import affordable, spend, strip_limit
from symgrad.codegen.llvm.tape import tape_reserve
from symgrad.codegen.llvm.written_out import emit_written_out
from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    ExternInstr,
    Instr,
    Launch,
    NativeCall,
    ScanInstr,
    Slice,
    SwitchInstr,
    WhileInstr,
    buffers_of,
    native_calls_of,
)
from symgrad.codegen.program.registers import is_written_out, loops_around, timed_as_one
from symgrad.codegen.program.strips import Strip, strip_of
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import replace

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def return_failure(builder: ir.IRBuilder, status: ir.Value) -> None:
    """Return `status` if it is a failure, go on otherwise."""
    failed = builder.append_basic_block("failed")
    passed = builder.append_basic_block("passed")
    builder.cbranch(builder.icmp_signed("==", status, _I32(0)), passed, failed)
    builder.position_at_end(failed)
    builder.ret(status)
    builder.position_at_end(passed)


def emit_function(place: CodePlace, instrs: Sequence[Instr]) -> None:
    """Emit `instrs` and the return, at the start of a function."""
    own = [instr for instr in instrs if id(instr) not in place.functions.thunks]
    located = replace(place, addresses=place.addresses.located(buffers_of(own)))
    emit_instrs(located, instrs)
    place.builder.ret(_I32(0))


def emit_instrs(place: CodePlace, instrs: Sequence[Instr]) -> None:
    """Emit `instrs`; the builder then stands behind them."""
    for instr in instrs:
        _emit_instr(place, instr)


def _emit_instr(place: CodePlace, instr: Instr) -> None:
    match instr:
        case Launch():
            _emit_timed(place, instr, partial(_emit_launch, place, instr))
        case SwitchInstr():
            _emit_switch(place, instr)
        case WhileInstr() | ScanInstr() if instr.registers and place.clock is None:
            _emit_in_registers(place, instr)
        case WhileInstr() | ScanInstr() if _is_timed_as_one(place, instr):
            assert place.clock is not None, "without one the case before is taken"
            number = place.functions.numbers[id(next(native_calls_of([instr])))]
            place.clock.measure(number, partial(_emit_in_registers, place, instr), is_loop=True)
        case WhileInstr():
            emit_while(place, instr)
        case ScanInstr():
            emit_scan(place, instr)
        case CallInstr():
            _emit_call(place, instr)
        case ExternInstr():
            _emit_timed(place, instr, partial(_emit_extern, place, instr))


# ------------------------------------------------------------------------------------------- calls


def _is_timed_as_one(place: CodePlace, loop: WhileInstr | ScanInstr) -> bool:
    return place.functions.whole_loops and loop in timed_as_one([loop])


def _emit_timed(place: CodePlace, call: NativeCall, emit: Callable[[], None]) -> None:
    """Emit what is timed in the place of `call`, if anything is."""
    if place.clock is None or _is_inlined(place, call):
        emit()
    else:
        place.clock.measure(place.functions.numbers[id(call)], emit)


def _is_inlined(place: CodePlace, call: NativeCall) -> bool:
    """Return whether `call` is of a kernel that is written out here, in a loop with registers."""
    if place.registers is None or not isinstance(call, Launch):
        return False
    return is_written_out(call.kernel, place.functions.target.vector_bytes)


def _emit_launch(place: CodePlace, launch: Launch) -> None:
    if place.registers is not None and _is_inlined(place, launch):
        emit_written_out(place, launch, place.registers)
        return
    builder, functions = place.builder, place.functions
    if id(launch) in functions.thunks:
        thunk, row = functions.thunks[id(launch)]
        builder.call(thunk, [*place.function.args, row])
        return
    starts = zip(launch.arguments, launch.starts, strict=True)
    arguments = [place.addresses.of(argument, start) for argument, start in starts]
    cannot_fail = isinstance(functions.kernel(launch.kernel).function_type.return_type, ir.VoidType)
    watch = [] if cannot_fail else [place.addresses.watch]
    own = functions.call(builder, launch.kernel, [*arguments, *watch])
    if cannot_fail:
        return
    status: ir.Value = _I32(0)
    for number, of_program in enumerate(launch.statuses, 1):
        is_it = builder.icmp_signed("==", own, _I32(number))
        status = builder.select(is_it, _I32(of_program), status)
    return_failure(builder, status)


def _emit_extern(place: CodePlace, call: ExternInstr) -> None:
    return_failure(place.builder, emit_foreign_call(place, call))


def _emit_call(place: CodePlace, call: CallInstr) -> None:
    addresses = place.addresses
    given = [addresses.of(argument) for argument in (*call.inputs, *call.outputs)]
    rest = [addresses.state, *([] if place.clock is None else place.function.args[-1:])]
    routine = place.functions.routines[call.routine.name]
    status = place.builder.call(routine, [*given, *rest])
    if place.functions.can_end_early(call.routine):
        return_failure(place.builder, status)


def _emit_in_registers(place: CodePlace, loop: WhileInstr | ScanInstr) -> None:
    """Call the function of a loop, which takes all addresses and the iterations around."""
    function, addresses = place.functions.loop(loop), place.addresses
    pointers = [addresses.pointers[b] for b in dict.fromkeys(buffers_of([loop]))]
    iterations = [addresses.iterations[number] for number in loops_around(loop)]
    no_tables = [ir.PointerType()(None)] * 2
    given = [*no_tables, addresses.state, *pointers, *iterations]
    return_failure(place.builder, place.builder.call(function, given))


# ------------------------------------------------------------------------------ branches and loops


def _emit_switch(place: CodePlace, switch: SwitchInstr) -> None:
    builder = place.builder
    index = _scalar(place, switch.index)
    blocks = [place.function.append_basic_block("branch") for _ in switch.branches]
    after = place.function.append_basic_block("joined")
    table = builder.switch(index, blocks[-1])
    for number, block in enumerate(blocks[:-1]):
        table.add_case(_I64(number), block)
    for block, instrs in zip(blocks, switch.branches, strict=True):
        builder.position_at_end(block)
        emit_instrs(place, instrs)
        builder.branch(after)
    builder.position_at_end(after)


def emit_while(place: CodePlace, loop: WhileInstr) -> None:
    """Emit a loop as blocks of the function that is filled."""
    strip = _strip(place, loop)
    if strip is None:
        iteration = _emit_iterations(place, loop, _I64(0), partial(_poll, loop=loop))
    else:
        iteration = _emit_strips(place, loop, strip)
    _set_count(place, loop.count, iteration)


def _strip(place: CodePlace, loop: WhileInstr) -> Strip | None:
    """Return what ends strips of `loop`, None if it runs in none."""
    registers = place.registers
    if registers is None or place.cycles_left is None or not _cycles(place, loop):
        return None
    strip = strip_of(loop)
    # What a kernel that is called reads as well is in memory, where no limit takes its place.
    if strip is None or strip.counter not in registers or strip.bound not in registers:
        return None
    return strip


def _emit_iterations(
    place: CodePlace,
    loop: WhileInstr,
    first: ir.Value,
    poll: Callable[[CodePlace], None],
    limited: RegisterFile | None = None,
) -> ir.Value:
    """Emit a loop from its iteration `first` on; return the number of that which does not run.

    The condition reads `limited` registers, if there are any, in the place of the others.
    """
    builder = place.builder
    head, body, after = (
        place.function.append_basic_block(f"{name}.{loop.number}")
        for name in ("while", "do", "done")
    )
    before = builder.block
    builder.branch(head)
    builder.position_at_end(head)
    iteration = builder.phi(_I64)
    iteration.add_incoming(first, before)
    inside = place.inside(loop, iteration)
    testing = inside if limited is None else replace(inside, registers=limited)
    builder.cbranch(_goes_on(testing, loop, iteration), body, after)
    builder.position_at_end(body)
    poll(inside)
    _reserve(inside, loop.tapes, builder.add(iteration, _I64(1)))
    emit_instrs(inside, loop.body)
    iteration.add_incoming(builder.add(iteration, _I64(1)), builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return iteration


def _emit_strips(place: CodePlace, loop: WhileInstr, strip: Strip) -> ir.Value:
    """Emit a loop in a loop of strips of iterations, each as many as the cycles left allow."""
    builder, registers, left = place.builder, place.registers, place.cycles_left
    assert registers is not None, "strips are of loops in registers"
    assert left is not None, "whose cycles are counted in one"
    limited = registers.with_new(strip.bound)
    head, after = (
        place.function.append_basic_block(f"{name}.{loop.number}") for name in ("strip", "whole")
    )
    before = builder.block
    builder.branch(head)
    builder.position_at_end(head)
    first = builder.phi(_I64)
    first.add_incoming(_I64(0), before)
    start, bound = (registers.load(b, [0]) for b in (strip.counter, strip.bound))
    cycles = _cycles(place, loop)
    limit = strip_limit(builder, start, bound, affordable(builder, left, cycles), strip.step)
    limited.store(strip.bound, [0], limit)
    following = _emit_iterations(place, loop, first, lambda _: None, limited)
    counter = registers.load(strip.counter, [0])
    iterations = builder.udiv(builder.sub(counter, start), _I64(strip.step))
    spend(builder, left, builder.mul(iterations, _I64(cycles)))
    # Where anything else has ended the loop, the next strip finds that before its first iteration.
    is_cut = builder.and_(
        builder.icmp_signed(">=", counter, limit), builder.icmp_signed("<", limit, bound)
    )
    going_on = place.function.append_basic_block(f"cut.{loop.number}")
    builder.cbranch(is_cut, going_on, after)
    builder.position_at_end(going_on)
    return_failure(builder, emit_poll(builder, place.addresses.watch, left))
    first.add_incoming(following, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return following


def emit_scan(place: CodePlace, scan: ScanInstr) -> None:
    """Emit a loop that runs a number of times, as blocks of the function that is filled."""
    builder = place.builder
    head, body, after = (
        place.function.append_basic_block(f"{name}.{scan.number}")
        for name in ("scan", "do", "done")
    )
    wanted = _scalar(place, scan.trips)
    fits = builder.icmp_signed("<", wanted, _I64(scan.capacity))
    trips = builder.select(fits, wanted, _I64(scan.capacity))
    _reserve(place, scan.tapes, trips)
    before = builder.block
    builder.branch(head)
    builder.position_at_end(head)
    done = builder.phi(_I64)
    done.add_incoming(_I64(0), before)
    builder.cbranch(builder.icmp_signed("<", done, trips), body, after)
    builder.position_at_end(body)
    following = builder.add(done, _I64(1))
    inside = place.inside(scan, builder.sub(trips, following) if scan.reverse else done)
    _poll(inside, scan)
    emit_instrs(inside, scan.body)
    # Of an edge back that is never taken LLVM's value numbering can end the process: where it sees
    # so by the range of `trips` alone, and a loop inside carries on what this one carries.
    if scan.capacity == 1:
        builder.branch(after)
    else:
        done.add_incoming(following, builder.block)
        builder.branch(head)
    builder.position_at_end(after)


def _cycles(place: CodePlace, loop: WhileInstr | ScanInstr) -> int:
    """Return what an iteration of a loop counts, 0 if it does not poll."""
    return place.functions.program.polled.get(loop.number, 0)


def _goes_on(place: CodePlace, loop: WhileInstr, iteration: ir.Value) -> ir.Value:
    """Emit the condition of a loop, and return whether there is another iteration."""
    builder = place.builder
    emit_instrs(place, loop.condition)
    holds = _scalar(place, loop.test)
    if not loop.capacity:
        return holds
    # Not even a condition that is wrong about its bound makes a loop write past its stacks.
    return builder.and_(holds, builder.icmp_signed("<", iteration, _I64(loop.capacity)))


def _poll(place: CodePlace, loop: WhileInstr | ScanInstr) -> None:
    """Count an iteration of a loop that polls."""
    cycles = _cycles(place, loop)
    if cycles:
        left = place.cycles_left
        if left is None:
            left = cycles_in_memory(place)
        status = emit_count(place.builder, place.addresses.watch, left, cycles)
        return_failure(place.builder, status)


def cycles_in_memory(place: CodePlace) -> ir.Value:
    """Return where the watch counts the cycles until the next poll."""
    return watch_word(place.builder, place.addresses.watch, CYCLES_WORD)


def _reserve(place: CodePlace, tapes: Sequence[Slice], slices: ir.Value) -> None:
    """Make room for as many slices on `tapes`."""
    builder = place.builder
    for tape in tapes:
        assert isinstance(tape.stack, Buffer), "a tape is a buffer"
        held = place.addresses.tapes.get(tape.stack)
        if held is None:
            _grow(place, tape, slices)
            continue
        size = builder.mul(slices, _I64(tape.type.nbytes))
        with builder.if_then(held.is_too_small(size), likely=False):
            _grow(place, tape, slices)
            held.read()


def _grow(place: CodePlace, tape: Slice, slices: ir.Value) -> None:
    builder = place.builder
    size = builder.mul(slices, _I64(tape.type.nbytes))
    reserve = tape_reserve(place.function.module)
    return_failure(builder, builder.call(reserve, [place.addresses.of(tape.stack), size]))


def _scalar(place: CodePlace, argument: Argument) -> ir.Value:
    """Return the one element of `argument`: an int64, or one bit of a bool."""
    registers = place.registers
    if registers is not None and isinstance(argument, Buffer) and argument in registers:
        return registers.load(argument, [0])
    dtype = argument.type.dtype
    lanes = Lanes(place.builder, place.functions.target, 1)
    return lanes.load(place.addresses.of(argument), dtype, dtype.itemsize)


def _set_count(place: CodePlace, count: Buffer, value: ir.Value) -> None:
    if place.registers is not None and count in place.registers:
        place.registers.store(count, [0], value)
    else:
        place.builder.store(value, place.addresses.pointers[count], align=8)
