"""Back-off: which workers of a team are to help, by what they have saved and what they have cost.

Who forks measures how long its own parts took. A worker that ran parts saved as long; one that was
still at a part when all others were done cost the wait, but for as long as it was on a core itself:
its part may just take longer, as where it is the first to touch memory. While no other program
wants its core a worker saves much and costs little. Where one does, it is taken off its core in the
middle of a part now and then, which costs milliseconds: its credit is soon used up. Then it is
benched: it is given nothing for a time that is many times that of the wait, and is longer each time
this comes to pass. Afterwards it has to find out first, by itself, whether it has a core: it is
awake for some milliseconds, and looks whether it was kept from running meanwhile. A worker that is
called to the core of the caller, and finds no other, is crowded, too.

    ready --(credit used up)--> benched --(time is over)--> probing --> ready
                                   ^                            |
                                   +---------- crowded <--------+
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.team.clock import cpu_time, emit_pause, time_now
from symgrad.codegen.team.sharing import WAKE
from symgrad.codegen.team.state import (
    ACTIVE,
    BENCHED,
    CLOSED,
    CREDIT,
    CROWDED,
    DONE,
    I64,
    LATE,
    LEVEL,
    MADE,
    MILLISECOND,
    PROBING,
    PTR,
    RAN,
    READY,
    SEEN,
    SINCE,
    STATE,
    UNTIL,
    TeamBuilder,
    define,
)

ADMIT, SETTLE, PROBE = "team.admit", "team.settle", "team.probe"
_BENCH, _CREDIT = "team.bench", "team.credit"

_MOST_CREDIT = 10 * MILLISECOND
_PER_LOSS = 16  # how many times the wait that used up its credit a worker is benched
_BENCHED, _LEVELS = 50 * MILLISECOND, 6  # at the least, and how often that may double
_LONG = 8  # times as long as it was benched: who was ready for that starts anew
# A probe takes so long, and fails after so many gaps in it, of which one may be the system's.
_PROBED, _GAP, _MOST_GAPS = 10 * MILLISECOND, MILLISECOND, 2 * MILLISECOND


def emit_profit(module: ir.Module) -> None:
    """Emit who is to help, and how it is settled what that was worth."""
    _emit_bench(module)
    _emit_admit(module)
    _emit_probe(module)
    _emit_credit(module)
    _emit_settle(module)


def _emit_bench(module: ir.Module) -> None:
    """Emit what gives a worker nothing for a while, from now on."""
    builder, (slot, now, loss) = define(module, _BENCH, [PTR, I64, I64])
    level = builder.get(slot, LEVEL)
    last = builder.mul(builder.shl(I64(_BENCHED), level), I64(_LONG))
    was_good = builder.icmp_signed(">", builder.sub(now, builder.get(slot, SINCE)), last)
    higher = builder.least(builder.add(level, I64(1)), I64(_LEVELS))
    following = builder.select(was_good, I64(0), higher)
    builder.put(slot, LEVEL, following)
    alone = builder.most(builder.shl(I64(_BENCHED), following), builder.mul(loss, I64(_PER_LOSS)))
    builder.put(slot, UNTIL, builder.add(now, alone))
    builder.put(slot, CREDIT, 0)
    builder.write(slot, STATE, BENCHED)
    builder.ret_void()


def _emit_admit(module: ir.Module) -> None:
    """Emit whether a worker is to help now: 1 or 0."""
    builder, (slot, now) = define(module, ADMIT, [PTR, I64], I64)
    state = builder.read(slot, STATE)
    ready, no = builder.append_basic_block("ready"), builder.append_basic_block("no")
    builder.go_if(builder.icmp_signed("==", state, I64(READY)), ready)
    with builder.if_then(builder.icmp_signed("==", state, I64(CROWDED))):
        builder.run(_BENCH, slot, now, I64(0))
    is_benched = builder.icmp_signed("==", state, I64(BENCHED))
    is_over = builder.icmp_signed(">=", now, builder.get(slot, UNTIL))
    with builder.if_then(builder.and_(is_benched, is_over)):
        builder.put(slot, UNTIL, now)
        builder.write(slot, STATE, PROBING, "seq_cst")
        builder.run(WAKE, slot)
    builder.branch(no)
    builder.position_at_end(no)
    builder.ret(I64(0))
    builder.position_at_end(ready)
    builder.ret(I64(1))


def _emit_probe(module: ir.Module) -> None:
    """Emit what a worker does to find out whether it has a core."""
    builder, (slot,) = define(module, PROBE, [PTR])
    woken = builder.get(slot, UNTIL)
    begun, last, gaps = time_now(builder), builder.local(woken), builder.local(I64(0))
    crowded = builder.append_basic_block("crowded")
    with builder.forever() as behind:
        emit_pause(builder)
        now = time_now(builder)
        gap = builder.sub(now, builder.load(last, typ=I64))
        builder.store(now, last)
        counted = builder.select(builder.icmp_signed(">", gap, I64(_GAP)), gap, I64(0))
        total = builder.add(builder.load(gaps, typ=I64), counted)
        builder.store(total, gaps)
        builder.go_if(builder.icmp_signed(">", total, I64(_MOST_GAPS)), crowded)
        is_over = builder.icmp_signed(">", builder.sub(now, begun), I64(_PROBED))
        closed = builder.icmp_signed("!=", builder.read(builder.team, CLOSED), I64(0))
        builder.go_if(builder.or_(is_over, closed), behind)
    builder.put(slot, SINCE, builder.load(last, typ=I64))
    builder.write(slot, STATE, READY)
    builder.ret_void()
    builder.position_at_end(crowded)
    builder.put(slot, SINCE, builder.load(last, typ=I64))
    builder.write(slot, STATE, CROWDED)
    builder.ret_void()


def _emit_credit(module: ir.Module) -> None:
    """Emit what adds to the credit of a worker, and benches it where there is none left."""
    builder, (slot, gain, loss, now) = define(module, _CREDIT, [PTR, I64, I64, I64])
    change = builder.sub(gain, loss)
    credit = builder.least(builder.add(builder.get(slot, CREDIT), change), I64(_MOST_CREDIT))
    builder.put(slot, CREDIT, credit)
    is_ready = builder.icmp_signed("==", builder.read(slot, STATE), I64(READY))
    with builder.if_then(builder.and_(is_ready, builder.icmp_signed("<", credit, I64(0)))):
        builder.run(_BENCH, slot, now, loss)
    builder.ret_void()


def _emit_settle(module: ir.Module) -> None:
    """Emit the account of a fork: when the own parts began and ended, and when all were done."""
    builder, (begun, ended, joined) = define(module, SETTLE, [I64] * 3)
    own = _newly_done(builder, builder.slot(I64(0)))
    each = builder.sdiv(builder.sub(ended, begun), builder.most(own, I64(1)))
    wait = builder.sub(joined, ended)
    ran_some = builder.icmp_signed(">", own, I64(0))
    stop = builder.add(builder.read(builder.team, MADE, "monotonic"), I64(1))
    with builder.each_slot(1, stop) as (_, slot):
        helped = _newly_done(builder, slot)
        is_late = builder.icmp_signed("!=", builder.get(slot, LATE), I64(0))
        builder.put(slot, LATE, 0)
        lost = builder.local(builder.select(is_late, wait, I64(0)))
        ran = builder.get(slot, RAN)
        with builder.if_then(builder.icmp_signed("!=", ran, I64(0)), likely=False):
            # Who was on a core had a part that takes longer, and no other program to wait for.
            since = builder.sub(cpu_time(builder, slot), ran)
            builder.store(builder.most(builder.sub(wait, since), I64(0)), lost)
            builder.put(slot, RAN, 0)
        loss = builder.load(lost, typ=I64)
        is_active = builder.icmp_signed("!=", builder.get(slot, ACTIVE), I64(0))
        # Who ran no part has no measure of one.
        with builder.if_then(builder.and_(is_active, ran_some)):
            builder.run(_CREDIT, slot, builder.mul(helped, each), loss, joined)
    builder.ret_void()


def _newly_done(builder: TeamBuilder, slot: ir.Value) -> ir.Value:
    """Return how many parts a thread has run since this was asked last."""
    done = builder.read(slot, DONE)
    since = builder.sub(done, builder.get(slot, SEEN))
    builder.put(slot, SEEN, done)
    return since
