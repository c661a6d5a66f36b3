"""Fork and join: the function by which kernels share their parts among a team.

    void team.fork(void (*run)(ptr shared, i64 first, i64 stop), ptr shared, i64 parts, i64 threads)

It runs all parts, by at most so many threads, and returns when they are done. One team serves one
caller at a time: who comes meanwhile, from another thread or from a part, runs its parts alone. Who
is alone runs them all by one call, which costs nothing that one thread would not.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.target import Target
from symgrad.codegen.team.clock import emit_clock, time_now
from symgrad.codegen.team.profit import ADMIT, SETTLE, emit_profit
from symgrad.codegen.team.sharing import JOIN, PART, PUBLISH, TAKE_ALL, emit_sharing
from symgrad.codegen.team.state import (
    ACTIVE,
    CLOSED,
    CORES,
    I64,
    LOOKED,
    MADE,
    MILLISECOND,
    OWNER,
    PTR,
    RUN,
    SHARED,
    VOID,
    TeamBuilder,
    add_team,
    define,
)
from symgrad.codegen.team.threads import CLOSE, COUNT_CORES, FORGET, START, emit_threads
from symgrad.codegen.team.worker import emit_wake, emit_worker

FORK = "team.fork"
FORK_TYPE = ir.FunctionType(VOID, [PTR, PTR, I64, I64])

# What the functions are that other modules may call.
TEAM_FUNCTIONS = (FORK, FORGET, CLOSE)

_GATHER = "team.gather"
_BETWEEN_LOOKS = 100 * MILLISECOND  # at which cores there are


def emit_team(name: str, target: Target, slots: int, *, is_exported: bool) -> ir.Module:
    """Emit the functions of a team of at most so many threads; see `emit_threads`."""
    module = ir.Module(name)
    module.triple = target.triple
    add_team(module, slots)
    emit_clock(module, target)
    emit_wake(module)
    emit_sharing(module)
    emit_profit(module)
    emit_worker(module, target)
    emit_threads(module, target, is_exported=is_exported)
    _emit_gather(module)
    _emit_fork(module)
    return module


def _emit_gather(module: ir.Module) -> None:
    """Emit who is to help at a fork by so many threads: how many there are, with the caller."""
    builder, (threads, now) = define(module, _GATHER, [I64, I64], I64)
    team = builder.team
    _look_at_cores(builder, now)
    closed = builder.icmp_signed("!=", builder.read(team, CLOSED), I64(0))
    cores = builder.select(closed, I64(1), builder.get(team, CORES))
    limit = builder.least(builder.least(threads, cores), I64(builder.slots))
    count = builder.local(I64(1))
    builder.put(builder.slot(I64(0)), ACTIVE, 1)
    before = builder.read(team, MADE, "monotonic")
    with builder.each_slot(1, builder.add(before, I64(1))) as (number, slot):
        builder.put(slot, ACTIVE, 0)
        with builder.if_then(builder.icmp_signed("<", number, limit)):
            _admit(builder, slot, now, count)
    with builder.each_slot(1, limit) as (number, slot):
        is_new = builder.icmp_signed(">", number, before)
        with builder.if_then(is_new, likely=False):
            _start(builder, number, slot, count)
            _admit(builder, slot, now, count)
    builder.ret(builder.load(count, typ=I64))


def _look_at_cores(builder: TeamBuilder, now: ir.Value) -> None:
    team = builder.team
    looked = builder.get(team, LOOKED)
    is_due = builder.icmp_signed(">", builder.sub(now, looked), I64(_BETWEEN_LOOKS))
    is_first = builder.icmp_signed("==", looked, I64(0))
    with builder.if_then(builder.or_(is_due, is_first), likely=False):
        builder.put(team, LOOKED, now)
        builder.put(team, CORES, builder.run(COUNT_CORES))


def _start(builder: TeamBuilder, number: ir.Value, slot: ir.Value, count: ir.Value) -> None:
    """Start a worker; return the count from the function if there can be no such thread."""
    has_failed = builder.icmp_signed("==", builder.run(START, slot), I64(0))
    with builder.if_then(has_failed, likely=False):
        builder.put(builder.team, CORES, number)  # until it is looked at again
        builder.ret(builder.load(count, typ=I64))


def _admit(builder: TeamBuilder, slot: ir.Value, now: ir.Value, count: ir.Value) -> None:
    admitted = builder.run(ADMIT, slot, now)
    builder.put(slot, ACTIVE, admitted)
    builder.store(builder.add(builder.load(count, typ=I64), admitted), count)


def _emit_fork(module: ir.Module) -> None:
    builder, (run, shared, parts, threads) = define(
        module, FORK, [PART.as_pointer(), PTR, I64, I64], is_public=True
    )
    team = builder.team
    mine, alone = builder.append_basic_block("mine"), builder.append_basic_block("alone")
    builder.go_if(builder.compare_exchange(builder.place(team, OWNER), I64(0), I64(1)), mine)
    builder.branch(alone)
    builder.position_at_end(mine)
    count = builder.run(_GATHER, builder.least(threads, parts), time_now(builder))
    with builder.if_then(builder.icmp_signed("<=", count, I64(1))):
        builder.write(team, OWNER, 0)
        builder.branch(alone)
    builder.store(run, builder.place(team, RUN), align=8)
    builder.store(shared, builder.place(team, SHARED), align=8)
    builder.run(PUBLISH, parts, count)
    begun = time_now(builder)
    builder.run(TAKE_ALL, builder.slot(I64(0)))
    ended = time_now(builder)
    joined = builder.run(JOIN, parts, begun, ended)
    builder.run(SETTLE, begun, ended, joined)
    builder.write(team, OWNER, 0)
    builder.ret_void()
    builder.position_at_end(alone)
    builder.call(run, [shared, I64(0), parts])
    builder.ret_void()
