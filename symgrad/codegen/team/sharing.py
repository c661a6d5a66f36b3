"""Work stealing: threads claim parts of a fork, also those of threads that do not come.

Each thread of a fork has a range of the parts, and takes them from its start; then it takes those
that are left of the others. So who forks takes whatever nobody has begun, and waits for nothing but
parts that somebody has. The range of a thread stays the same from one kernel to the next, and with
it what the cache of a core holds, while all of them come in time.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.team.clock import cpu_time, emit_pause, this_core, time_now
from symgrad.codegen.team.state import (
    ACTIVE,
    ASLEEP,
    CORE,
    DONE,
    I64,
    LATE,
    MADE,
    MICROSECOND,
    MILLISECOND,
    MUTEX,
    PTR,
    RAN,
    RANGE,
    RUN,
    SEEN,
    SHARED,
    SIGNAL,
    TAKEN,
    TOTAL,
    VOID,
    WAITING,
    TeamBuilder,
    define,
)

TAKE, TAKE_ALL = "team.take", "team.take_all"
PUBLISH, JOIN, WAKE = "team.publish", "team.join", "team.wake"
_SUM, _SLEEP, _MARK_LATE = "team.parts_done", "team.sleep_until_done", "team.mark_late"

# What runs parts of a fork: what all share, the number of the first and of the one behind the last.
PART = ir.FunctionType(VOID, [PTR, I64, I64])

# How long who forks waits awake for parts that others have begun: as long as such a part may take.
_LEAST_WAIT, _MOST_WAIT = 50 * MICROSECOND, 2 * MILLISECOND
_NEXT = 0xFFFFFFFF


def emit_sharing(module: ir.Module) -> None:
    """Emit how parts are handed out, taken, and waited for."""
    _emit_take(module)
    _emit_take_all(module)
    _emit_publish(module)
    _emit_sum(module)
    _emit_mark_late(module)
    _emit_sleep(module)
    _emit_join(module)


def _emit_take(module: ir.Module) -> None:
    """Emit what runs the parts that are left in the range of a slot, in the thread of another."""
    builder, (me, victim) = define(module, TAKE, [PTR, PTR])
    with builder.forever() as behind:
        found = builder.read(victim, RANGE)
        part, stop = builder.and_(found, I64(_NEXT)), builder.lshr(found, I64(32))
        builder.go_if(builder.icmp_unsigned(">=", part, stop), behind)
        # The range may meanwhile be that of another fork. If it reads the same, the part is to be
        # run just as well: what is run is read only then, and does not change before it is done.
        following = builder.add(found, I64(1))
        claimed = builder.compare_exchange(builder.place(victim, RANGE), found, following)
        with builder.if_then(claimed):
            taken = builder.add(builder.read(me, TAKEN, "monotonic"), I64(1))
            builder.write(me, TAKEN, taken, "monotonic")
            run = builder.load(builder.place(builder.team, RUN), typ=PART.as_pointer(), align=8)
            shared = builder.get(builder.team, SHARED)
            builder.call(run, [shared, part, builder.add(part, I64(1))])
            # Of one order with `WAITING`: who waits sees the part done, or is seen to wait.
            builder.atomic_rmw("add", builder.place(me, DONE), I64(1), "seq_cst")
            waits = builder.read(builder.team, WAITING, "seq_cst")
            with builder.if_then(builder.icmp_signed("!=", waits, I64(0)), likely=False):
                builder.lock(builder.team, MUTEX)
                builder.signal(builder.team, SIGNAL)
                builder.unlock(builder.team, MUTEX)
    builder.ret_void()


def _emit_take_all(module: ir.Module) -> None:
    """Emit what runs the parts of a slot, then those that are left of the others."""
    builder, (me,) = define(module, TAKE_ALL, [PTR])
    builder.run(TAKE, me, me)
    stop = builder.add(builder.read(builder.team, MADE), I64(1))
    with builder.each_slot(0, stop) as (_, victim):
        builder.run(TAKE, me, victim)
    builder.ret_void()


def _emit_publish(module: ir.Module) -> None:
    """Emit what gives each of `count` active threads its range, and wakes those that sleep."""
    builder, (parts, count) = define(module, PUBLISH, [I64, I64])
    builder.write(builder.team, CORE, this_core(builder), "monotonic")
    rank = builder.local(I64(0))
    stop = builder.add(builder.read(builder.team, MADE, "monotonic"), I64(1))
    with builder.each_slot(0, stop) as (_, slot):
        is_active = builder.icmp_signed("!=", builder.get(slot, ACTIVE), I64(0))
        with builder.if_then(is_active):
            mine = builder.load(rank, typ=I64)
            following = builder.add(mine, I64(1))
            builder.store(following, rank)
            first = builder.udiv(builder.mul(parts, mine), count)
            last = builder.udiv(builder.mul(parts, following), count)
            found = builder.or_(builder.shl(last, I64(32)), first)
            # Of one order with `ASLEEP`: a worker sees its range, or is seen to sleep.
            builder.write(slot, RANGE, found, "seq_cst")
    with builder.each_slot(1, stop) as (_, slot):
        is_active = builder.icmp_signed("!=", builder.get(slot, ACTIVE), I64(0))
        sleeps = builder.icmp_signed("!=", builder.read(slot, ASLEEP, "seq_cst"), I64(0))
        with builder.if_then(builder.and_(is_active, sleeps)):
            builder.run(WAKE, slot)
    builder.ret_void()


def _emit_sum(module: ir.Module) -> None:
    """Emit how many parts were run since the team was made."""
    builder, _ = define(module, _SUM, result=I64)
    total = builder.local(I64(0))
    stop = builder.add(builder.read(builder.team, MADE, "monotonic"), I64(1))
    with builder.each_slot(0, stop) as (_, slot):
        # Also of those who were not to help: one of them may have been about to take a part.
        done = builder.read(slot, DONE, "seq_cst")
        builder.store(builder.add(builder.load(total, typ=I64), done), total)
    builder.ret(builder.load(total, typ=I64))


def _emit_mark_late(module: ir.Module) -> None:
    """Emit what marks the workers that are at a part, with how long they have run, or 0."""
    builder, (is_long,) = define(module, _MARK_LATE, [I64])
    stop = builder.add(builder.read(builder.team, MADE, "monotonic"), I64(1))
    with builder.each_slot(1, stop) as (_, slot):
        done = builder.read(slot, DONE)
        is_late = builder.icmp_signed("!=", builder.read(slot, TAKEN, "monotonic"), done)
        builder.put(slot, LATE, builder.zext(is_late, I64))
        builder.put(slot, RAN, 0)
        long = builder.icmp_signed("!=", is_long, I64(0))
        with builder.if_then(builder.and_(is_late, long)):
            builder.put(slot, RAN, cpu_time(builder, slot))
    builder.ret_void()


def _emit_sleep(module: ir.Module) -> None:
    """Emit what sleeps until so many parts have been run."""
    builder, (target,) = define(module, _SLEEP, [I64])
    builder.lock(builder.team, MUTEX)
    builder.write(builder.team, WAITING, 1, "seq_cst")
    with builder.forever() as behind:
        builder.go_if(builder.icmp_signed("==", builder.run(_SUM), target), behind)
        builder.wait(builder.team, SIGNAL, MUTEX)
    builder.write(builder.team, WAITING, 0, "seq_cst")
    builder.unlock(builder.team, MUTEX)
    builder.ret_void()


def _emit_join(module: ir.Module) -> None:
    """Emit the wait for the parts others have begun: awake as long as one may take, then asleep.

    It takes how many parts there are, when this thread began and ended its own, and returns when
    all are done.
    """
    builder, (parts, begun, ended) = define(module, JOIN, [I64, I64, I64], I64)
    team = builder.team
    total = builder.add(builder.get(team, TOTAL), parts)
    builder.put(team, TOTAL, total)
    done = builder.append_basic_block("done")
    now = builder.local(ended)
    builder.go_if(builder.icmp_signed("==", builder.run(_SUM), total), done)
    builder.run(_MARK_LATE, I64(0))
    _emit_waiting(builder, total, builder.add(ended, I64(_LEAST_WAIT)), now, done)
    # A wait worth asking the system whether who is late has a core.
    builder.run(_MARK_LATE, I64(1))
    first = builder.slot(I64(0))
    own = builder.sub(builder.read(first, DONE), builder.get(first, SEEN))
    each = builder.sdiv(builder.sub(ended, begun), builder.most(own, I64(1)))
    expected = builder.least(builder.add(each, each), I64(_MOST_WAIT))
    limit = builder.add(ended, builder.most(expected, I64(_LEAST_WAIT)))
    _emit_waiting(builder, total, limit, now, done)
    builder.run(_SLEEP, total)
    builder.store(time_now(builder), now)
    builder.branch(done)
    builder.position_at_end(done)
    builder.ret(builder.load(now, typ=I64))


def _emit_waiting(
    builder: TeamBuilder, total: ir.Value, limit: ir.Value, now: ir.Value, done: ir.Block
) -> None:
    """Wait awake until so many parts are done, which goes to `done`, or until a time."""
    with builder.forever() as behind:
        emit_pause(builder)
        builder.store(time_now(builder), now)
        builder.go_if(builder.icmp_signed("==", builder.run(_SUM), total), done)
        builder.go_if(builder.icmp_signed(">", builder.load(now, typ=I64), limit), behind)
