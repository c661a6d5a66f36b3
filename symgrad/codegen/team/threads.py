"""The threads of a team: started when they are first needed, on no more cores than there are.

Workers take no signals, so those of a process go to the threads of its own.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.target import Target
from symgrad.codegen.team.quota import READ_QUOTA, emit_quota
from symgrad.codegen.team.sharing import WAKE
from symgrad.codegen.team.state import (
    CLOSED,
    I8,
    I32,
    I64,
    MADE,
    MUTEX,
    NULL,
    OWNER,
    PTR,
    QUOTA,
    REGISTERED,
    SIGNAL,
    SLOT_MUTEX,
    SLOT_SIGNAL,
    TEAM,
    THREAD,
    Field,
    TeamBuilder,
    define,
)
from symgrad.codegen.team.worker import WORKER

START, COUNT_CORES = "team.start", "team.count_cores"
CLOSE, FORGET, SET_QUOTA = "team.close", "team.forget", "team.set_quota"

_DESTRUCTOR = "team.destructor"
_SIGNAL_SET_BYTES = 128
_MASK_BYTES = 1024  # of a set of cores: more than any kernel has
_UNTIL_CLOSED, _BETWEEN = 1000, 1000  # how often it is tried to close a team, and microseconds


def emit_threads(module: ir.Module, target: Target, *, is_exported: bool) -> None:
    """Emit how workers are started, and end.

    The team of an exported library reads the quota by itself, forgets its workers where the process
    forks, and ends them when the library is unloaded. Else who uses the team sees to that.
    """
    if is_exported:
        emit_quota(module)
    _emit_count_cores(module, target, is_exported=is_exported)
    _emit_forget(module)
    _emit_start(module, target, is_exported=is_exported)
    _emit_close(module)
    if is_exported:
        _add_destructor(module, target)
        return
    builder, (quota,) = define(module, SET_QUOTA, [I64], is_public=True)
    builder.put(builder.team, QUOTA, quota)
    builder.ret_void()


def _add_destructor(module: ir.Module, target: Target) -> None:
    """Have the team closed when the code is unloaded, or the process ends."""
    # Written out: LLVM's own table of destructors becomes a section that not all linkers know.
    row = ir.GlobalVariable(module, PTR, _DESTRUCTOR)
    row.linkage, row.section = "internal", target.destructors
    row.initializer = ir.Literal(PTR, module.globals[CLOSE].ref)
    kept = ir.GlobalVariable(module, ir.ArrayType(PTR, 1), "llvm.used")
    kept.linkage, kept.section = "appending", "llvm.metadata"
    kept.initializer = ir.ArrayType(PTR, 1)([row])


def _emit_count_cores(module: ir.Module, target: Target, *, is_exported: bool) -> None:
    """Emit how many cores this thread may use, and its quota is worth."""
    builder, _ = define(module, COUNT_CORES, result=I64)
    if is_exported:
        known = builder.get(builder.team, QUOTA)
        with builder.if_then(builder.icmp_signed("==", known, I64(0)), likely=False):
            found = builder.run(READ_QUOTA)
            is_none = builder.icmp_signed("==", found, I64(0))
            builder.put(builder.team, QUOTA, builder.select(is_none, I64(-1), found))
    quota = builder.get(builder.team, QUOTA)
    limit = builder.select(builder.icmp_signed(">", quota, I64(0)), quota, I64(builder.slots))
    if not target.is_linux:
        builder.ret(limit)
        return
    mask = builder.alloca(ir.ArrayType(I64, _MASK_BYTES // 8))
    mask.align = 8
    _fill(builder, mask, _MASK_BYTES)
    find = builder.of_c("sched_getaffinity", [I32, I64, PTR])
    failed = builder.call(find, [I32(0), I64(_MASK_BYTES), mask])
    with builder.if_then(builder.icmp_signed("!=", failed, I32(0)), likely=False):
        builder.ret(limit)
    count = builder.of_c("llvm.ctpop.i64", [I64], I64)
    total, place = builder.local(I64(0)), builder.local(I64(0))
    with builder.forever() as behind:
        number = builder.load(place, typ=I64)
        builder.go_if(builder.icmp_signed(">=", number, I64(_MASK_BYTES // 8)), behind)
        word = builder.load(builder.gep(mask, [number], source_etype=I64), typ=I64, align=8)
        builder.store(builder.add(builder.load(total, typ=I64), builder.call(count, [word])), total)
        builder.store(builder.add(number, I64(1)), place)
    builder.ret(builder.least(builder.load(total, typ=I64), limit))


def _fill(builder: TeamBuilder, place: ir.Value, size: int) -> None:
    """Set bytes to zero."""
    fill = builder.of_c("memset", [PTR, I32, I64], PTR)
    builder.call(fill, [place, I32(0), I64(size)])


def _emit_forget(module: ir.Module) -> None:
    """Emit what makes a process that was forked, which has no workers, begin with none."""
    builder, _ = define(module, FORGET, is_public=True)
    team = builder.team
    kept = [(field, builder.get(team, field)) for field in (QUOTA, REGISTERED)]
    _fill(builder, team, module.globals[TEAM].value_type.count)
    for field, value in kept:
        builder.put(team, field, value)
    builder.ret_void()


def _emit_start(module: ir.Module, target: Target, *, is_exported: bool) -> None:
    """Emit what starts the worker of a slot: 1, or 0 if there can be no such thread."""
    builder, (slot,) = define(module, START, [PTR], I64)
    team = builder.team
    made = builder.read(team, MADE, "monotonic")
    with builder.if_then(builder.icmp_signed("==", made, I64(0))):
        _initialize(builder, team, MUTEX, SIGNAL)
    if is_exported:
        known = builder.get(team, REGISTERED)
        with builder.if_then(builder.icmp_signed("==", known, I64(0))):
            builder.put(team, REGISTERED, 1)
            register = builder.of_c("pthread_atfork", [PTR] * 3)
            builder.call(register, [NULL, NULL, module.globals[FORGET]])
    _initialize(builder, slot, SLOT_MUTEX, SLOT_SIGNAL)
    every, before = (builder.alloca(ir.ArrayType(I8, _SIGNAL_SET_BYTES)) for _ in range(2))
    every.align = before.align = 8
    builder.call(builder.of_c("sigfillset", [PTR]), [every])
    mask = builder.of_c("pthread_sigmask", [I32, PTR, PTR])
    how = I32(target.set_signal_mask)
    builder.call(mask, [how, every, before])
    create = builder.of_c("pthread_create", [PTR] * 4)
    place = builder.place(slot, THREAD)
    failed = builder.call(create, [place, NULL, module.globals[WORKER], slot])
    builder.call(mask, [how, before, NULL])
    with builder.if_then(builder.icmp_signed("!=", failed, I32(0)), likely=False):
        builder.ret(I64(0))
    builder.write(team, MADE, builder.add(made, I64(1)))
    builder.ret(I64(1))


def _initialize(builder: TeamBuilder, base: ir.Value, mutex: Field, signal: Field) -> None:
    for name, field in (("pthread_mutex_init", mutex), ("pthread_cond_init", signal)):
        builder.call(builder.of_c(name, [PTR, PTR]), [builder.place(base, field), NULL])


def _emit_close(module: ir.Module) -> None:
    """Emit what ends all workers: forks run alone from then on.

    A step that runs meanwhile is waited for, but not for long: it may be below this very call, in
    a handler of signals that ends the process. Then workers are left as they are.
    """
    builder, _ = define(module, CLOSE, is_public=True)
    team = builder.team
    tries = builder.local(I64(0))
    with builder.forever() as behind:
        is_mine = builder.compare_exchange(builder.place(team, OWNER), I64(0), I64(1))
        builder.go_if(is_mine, behind)
        tried = builder.add(builder.load(tries, typ=I64), I64(1))
        builder.store(tried, tries)
        with builder.if_then(builder.icmp_signed(">", tried, I64(_UNTIL_CLOSED))):
            builder.ret_void()
        builder.call(builder.of_c("usleep", [I32]), [I32(_BETWEEN)])
    builder.write(team, CLOSED, 1, "seq_cst")
    stop = builder.add(builder.read(team, MADE), I64(1))
    with builder.each_slot(1, stop) as (_, slot):
        builder.run(WAKE, slot)
    with builder.each_slot(1, stop) as (_, slot):
        thread = builder.load(builder.place(slot, THREAD), typ=I64, align=8)
        builder.call(builder.of_c("pthread_join", [I64, PTR]), [thread, NULL])
    builder.write(team, MADE, 0)
    builder.ret_void()
