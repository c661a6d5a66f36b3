"""Adaptive spinning: how a worker of a team waits for parts, awake for a while and then asleep.

It spins for long where that would have met the last work, else shortly. A worker that was called
runs its parts, then those that nobody has begun of the others.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.target import Target
from symgrad.codegen.team.clock import emit_pause, this_core, time_now
from symgrad.codegen.team.profit import PROBE
from symgrad.codegen.team.sharing import TAKE_ALL, WAKE
from symgrad.codegen.team.state import (
    ASLEEP,
    CLOSED,
    CORE,
    CROWDED,
    I32,
    I64,
    MICROSECOND,
    NULL,
    PROBING,
    PTR,
    RANGE,
    READY,
    SLOT_MUTEX,
    SLOT_SIGNAL,
    SPIN,
    STATE,
    TeamBuilder,
    define,
)

WORKER = "team.worker"
_IS_CALLED, _SLEEP, _WAIT = "team.is_called", "team.sleep", "team.wait"
_LEAVE = "team.leave_core"
_MASK_WORDS = 128  # of a set of cores: more than any kernel has

# How long a worker waits awake: long, where that would have met the last work, else shortly.
_LONG_SPIN, _SHORT_SPIN = 500 * MICROSECOND, 20 * MICROSECOND


def emit_worker(module: ir.Module, target: Target) -> None:
    """Emit the function of a thread, which takes its slot, and what wakes it."""
    _emit_leave(module, target)
    _emit_is_called(module)
    _emit_sleep(module)
    _emit_wait(module)
    builder, (slot,) = define(module, WORKER, [PTR], PTR)
    with builder.forever() as behind:
        builder.run(_WAIT, slot)
        closed = builder.read(builder.team, CLOSED)
        builder.go_if(builder.icmp_signed("!=", closed, I64(0)), behind)
        is_probing = builder.icmp_signed("==", builder.read(slot, STATE), I64(PROBING))
        with builder.if_then(is_probing, likely=False):
            builder.run(PROBE, slot)
        with builder.if_then(_has_parts(builder, slot)):
            _take_or_decline(builder, slot)
    builder.ret(NULL)


def _emit_leave(module: ir.Module, target: Target) -> None:
    """Emit what moves a thread away from a core, to another one that it may use.

    Who is woken is often put to the core of who wakes it, and left there for milliseconds, however
    idle the others are.
    """
    builder, (core,) = define(module, _LEAVE, [I64])
    if not target.is_linux:
        builder.ret_void()
        return
    all_, others = (builder.alloca(ir.ArrayType(I64, _MASK_WORDS)) for _ in range(2))
    all_.align = others.align = 8
    size = I64(_MASK_WORDS * 8)
    find, choose = (builder.of_c(f"sched_{w}affinity", [I32, I64, PTR]) for w in ("get", "set"))
    for mask in (all_, others):
        builder.call(builder.of_c("memset", [PTR, I32, I64], PTR), [mask, I32(0), size])
        failed = builder.call(find, [I32(0), size, mask])
        with builder.if_then(builder.icmp_signed("<", failed, I32(0)), likely=False):
            builder.ret_void()
    word = builder.gep(others, [builder.lshr(core, I64(6))], source_etype=I64)
    bit = builder.shl(I64(1), builder.and_(core, I64(63)))
    rest = builder.and_(builder.load(word, typ=I64, align=8), builder.xor(bit, I64(-1)))
    builder.store(rest, word, align=8)
    # It fails where there is no other core, and then nothing is to be undone.
    moved = builder.call(choose, [I32(0), size, others])
    with builder.if_then(builder.icmp_signed("==", moved, I32(0))):
        builder.call(choose, [I32(0), size, all_])
    builder.ret_void()


def _take_or_decline(builder: TeamBuilder, slot: ir.Value) -> None:
    """Run parts, but where that keeps from its core the very thread that waits for them."""
    published = builder.read(builder.team, CORE, "monotonic")
    is_near = builder.icmp_signed("==", this_core(builder), published)
    with builder.if_then(builder.and_(is_near, builder.icmp_signed(">=", published, I64(0)))):
        builder.run(_LEAVE, published)
    core = this_core(builder)
    is_same = builder.icmp_signed("==", core, published)
    is_known = builder.icmp_signed(">=", core, I64(0))
    with builder.if_else(builder.and_(is_same, is_known)) as (same, other):
        with same:
            builder.put(slot, SPIN, 0)
            builder.write(slot, STATE, CROWDED, "seq_cst")
        with other:
            builder.run(TAKE_ALL, slot)


def emit_wake(module: ir.Module) -> None:
    """Emit what wakes a worker that sleeps."""
    builder, (slot,) = define(module, WAKE, [PTR])
    builder.lock(slot, SLOT_MUTEX)
    # Here, not by the worker: so that nobody wakes it again before it runs.
    builder.write(slot, ASLEEP, 0, "seq_cst")
    builder.signal(slot, SLOT_SIGNAL)
    builder.unlock(slot, SLOT_MUTEX)
    builder.ret_void()


def _has_parts(builder: TeamBuilder, slot: ir.Value) -> ir.Value:
    found = builder.read(slot, RANGE, "seq_cst")
    first = builder.and_(found, I64(0xFFFFFFFF))
    has_some = builder.icmp_unsigned("<", first, builder.lshr(found, I64(32)))
    is_ready = builder.icmp_signed("==", builder.read(slot, STATE), I64(READY))
    return builder.and_(has_some, is_ready)


def _emit_is_called(module: ir.Module) -> None:
    """Emit whether there is something to do for a worker: 1 or 0."""
    builder, (slot,) = define(module, _IS_CALLED, [PTR], I64)
    is_probing = builder.icmp_signed("==", builder.read(slot, STATE, "seq_cst"), I64(PROBING))
    closed = builder.icmp_signed("!=", builder.read(builder.team, CLOSED, "seq_cst"), I64(0))
    other = builder.or_(is_probing, closed)
    builder.ret(builder.zext(builder.or_(_has_parts(builder, slot), other), I64))


def _emit_sleep(module: ir.Module) -> None:
    """Emit how a worker sleeps until there is something to do, or it is woken."""
    builder, (slot,) = define(module, _SLEEP, [PTR])
    builder.lock(slot, SLOT_MUTEX)
    builder.write(slot, ASLEEP, 1, "seq_cst")
    with builder.forever() as behind:
        builder.go_if(builder.icmp_signed("!=", builder.run(_IS_CALLED, slot), I64(0)), behind)
        builder.wait(slot, SLOT_SIGNAL, SLOT_MUTEX)
        asleep = builder.read(slot, ASLEEP, "seq_cst")
        builder.go_if(builder.icmp_signed("==", asleep, I64(0)), behind)
    builder.write(slot, ASLEEP, 0, "seq_cst")
    builder.unlock(slot, SLOT_MUTEX)
    builder.ret_void()


def _emit_wait(module: ir.Module) -> None:
    """Emit how a worker waits until there is something to do, or it was woken."""
    builder, (slot,) = define(module, _WAIT, [PTR])
    begun = time_now(builder)
    now = builder.local(begun)
    limit = builder.add(begun, builder.get(slot, SPIN))
    called = builder.append_basic_block("called")
    with builder.forever() as behind:
        builder.go_if(builder.icmp_signed("!=", builder.run(_IS_CALLED, slot), I64(0)), called)
        builder.go_if(builder.icmp_signed(">", builder.load(now, typ=I64), limit), behind)
        emit_pause(builder)
        builder.store(time_now(builder), now)
    builder.run(_SLEEP, slot)
    builder.store(time_now(builder), now)
    builder.branch(called)
    builder.position_at_end(called)
    waited = builder.sub(builder.load(now, typ=I64), begun)
    was_short = builder.icmp_signed("<", waited, I64(_LONG_SPIN))
    builder.put(slot, SPIN, builder.select(was_short, I64(_LONG_SPIN), I64(_SHORT_SPIN)))
    builder.ret_void()
