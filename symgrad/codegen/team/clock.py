"""The clock of a team, which core a thread is on, and how it waits: what differs by machine."""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.target import Target
from symgrad.codegen.team.state import I32, I64, PTR, THREAD, TeamBuilder, define

_NOW, _PAUSE, _CORE = "team.now", "team.pause", "team.core"
_CPU_TIME = "team.cpu_time"
_PAUSES = 4  # between two looks at memory: a pause takes 40 to 140 cycles
# What tells the processor that a thread waits; the hint `yield` of AArch64 does nothing on most.
_INSTRUCTIONS: dict[str, tuple[str, tuple[ir.Value, ...]]] = {
    "x86_64": ("llvm.x86.sse2.pause", ()),
    "aarch64": ("llvm.aarch64.isb", (I32(15),)),
}


def emit_clock(module: ir.Module, target: Target) -> None:
    """Emit what tells the time, how long a thread has run and on which core, and what waits."""
    builder, _ = define(module, _NOW, result=I64)
    builder.ret(_read(builder, I32(target.monotonic_clock)))
    _emit_cpu_time(module, target)
    builder, _ = define(module, _PAUSE)
    if target.architecture in _INSTRUCTIONS:
        name, args = _INSTRUCTIONS[target.architecture]
        for _ in range(_PAUSES):
            builder.call(builder.of_c(name, [a.type for a in args], ir.VoidType()), args)
    builder.ret_void()

    # Of no core where the C library does not tell.
    builder, _ = define(module, _CORE, result=I64)
    tells = target.is_linux
    found = builder.call(builder.of_c("sched_getcpu", []), []) if tells else I32(-1)
    builder.ret(builder.sext(found, I64))


def _read(builder: TeamBuilder, clock: ir.Value) -> ir.Value:
    """Return the nanoseconds of a clock."""
    time = builder.alloca(ir.ArrayType(I64, 2))
    builder.call(builder.of_c("clock_gettime", [I32, PTR]), [clock, time])
    seconds, rest = (
        builder.load(builder.gep(time, [I64(i)], source_etype=I64), typ=I64) for i in range(2)
    )
    return builder.add(builder.mul(seconds, I64(10**9)), rest)


def _emit_cpu_time(module: ir.Module, target: Target) -> None:
    """Emit how long the thread of a slot has been on a core: 0 where the system does not tell."""
    builder, (slot,) = define(module, _CPU_TIME, [PTR], I64)
    if not target.is_linux:
        builder.ret(I64(0))
        return
    thread = builder.load(builder.place(slot, THREAD), typ=I64, align=8)
    clock = builder.alloca(I32)
    find = builder.of_c("pthread_getcpuclockid", [I64, PTR])
    failed = builder.call(find, [thread, clock])
    with builder.if_then(builder.icmp_signed("!=", failed, I32(0)), likely=False):
        builder.ret(I64(0))
    builder.ret(_read(builder, builder.load(clock, typ=I32)))


def cpu_time(builder: TeamBuilder, slot: ir.Value) -> ir.Value:
    """Return how long the thread of a slot has been on a core, in nanoseconds."""
    return builder.run(_CPU_TIME, slot)


def this_core(builder: TeamBuilder) -> ir.Value:
    """Return the number of the core on which the thread runs, negative if it is not known."""
    return builder.run(_CORE)


def time_now(builder: TeamBuilder) -> ir.Value:
    """Return the time."""
    return builder.run(_NOW)


def emit_pause(builder: TeamBuilder) -> None:
    """Wait for some hundred cycles, awake."""
    builder.run(_PAUSE)
