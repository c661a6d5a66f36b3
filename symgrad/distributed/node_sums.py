"""Shared-memory collectives: code that adds up where each rank of a machine has its terms.

A library of MPI copies what it adds between processes, which takes the cores that compute. Here the
buffers of a step lie in memory that all ranks of the machine can read and write
(`distributed/node_memory.py`): each rank adds up one part of the elements of all, and writes the
sum over the terms of all. The functions take what `MPI_Iallreduce` and `MPI_Wait` do, and stand in
their place:

    i32 sum_start(ptr sent, ptr terms, i32 count, i64 type, i64 op, i64 comm, ptr request)
    i32 sum_wait(ptr request, ptr status)

What is no sum of float32 or float64 in such memory, with `MPI_IN_PLACE` for what is sent, goes to
the library. Terms are added in the order of ranks, so the sum has the same bits on all.

A rank says in a slot of the memory that it has started a sum, and where; and then that it has added
its part. The n-th sum of a communicator is the same on all ranks, as are the n-th calls of MPI.
What one rank has written before it says so, others find there: stores release, loads acquire.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import prefetch
from symgrad.codegen.target import Target
from symgrad.codegen.team.clock import emit_clock, emit_pause
from symgrad.codegen.team.state import I8, I32, I64, NULL, PTR, Field, TeamBuilder, define

START, WAIT = "sum_start", "sum_wait"
# What the module takes from the process: functions of MPI, and words that Python fills.
LIBRARY = ("MPI_Iallreduce", "MPI_Wait", "MPI_Allreduce", "MPI_Iprobe")
HANDLES = ("MPI_FLOAT", "MPI_DOUBLE", "MPI_SUM", "MPI_IN_PLACE")
GROUPS, PENDING = "node.groups", "node.pending"
_ROWS, _STATUS = "node.rows", "node.status"

# A group: its handle, the rank, its size, how many sums were started, where the memory of this rank
# is and how much, and a table of where that of each rank is.
HANDLE, RANK, SIZE, NEXT, BYTES = (Field(8 * i) for i in range(5))
BASE, BASES = Field(40, PTR), Field(48, PTR)
GROUP_BYTES, MAX_GROUPS = 64, 64
# A sum on its way: where its request is, its group, what was given, its number, and its state: this
# rank waits for others, has added its part, or leaves it to the library with all.
REQUEST, GROUP, GIVEN = (Field(8 * i, PTR) for i in range(3))
NUMBER, COUNT, TYPE, STATE = (Field(24 + 8 * i) for i in range(4))
_WAITS, _IS_ADDED, _REFUSED = range(3)
PENDING_BYTES, MAX_PENDING = 64, 1024
# A slot, from the start of the memory of each rank: the number of the sum behind the last that was
# started in it; where its terms are, from the start of the memory, or that they are not there; and
# the number behind that of the last whose part was added.
STARTED, TERMS, ADDED = (Field(8 * i) for i in range(3))
SLOT_BYTES, SLOTS = 64, 2048
assert SLOTS > MAX_PENDING, "a slot is free when its turn comes again"

STATUS_BYTES = 64  # more than an MPI_Status has
_ELSEWHERE = -1
_BLOCK_BYTES = 256  # that are added between two looks at where the next rank has its own
_BYTES_AHEAD = 2048  # how far terms are asked for: other cores are further than memory
_VECTOR_BYTES = 64
_LOOKS = 64  # at a word, before the library may move messages and others have the core
_BYTES_OF_LOOK = 4096
_FIND, _FREE, _UNTIL, _PART = "node.find", "node.free", "node.until", "node.part"
_ADD = {"float": "node.add.float", "double": "node.add.double"}
_KINDS: dict[str, ir.Type] = {"float": ir.FloatType(), "double": ir.DoubleType()}
_SUM = ir.FunctionType(I32, [PTR, PTR, I32, I64, I64, I64])
_STARTED_SUM = ir.FunctionType(I32, [*_SUM.takes, PTR])
_WAITED = ir.FunctionType(I32, [PTR, PTR])
_PROBED = ir.FunctionType(I32, [I32, I32, I64, PTR, PTR])


def emit_node_sums(target: Target) -> ir.Module:
    """Emit `sum_start` and `sum_wait`."""
    module = ir.Module("node_sums")
    module.triple = target.triple
    for name, count in ((_ROWS, 8), (_STATUS, STATUS_BYTES)):
        kind = ir.ArrayType(I8, count)
        memory = ir.GlobalVariable(module, kind, name)
        memory.linkage, memory.initializer, memory.align = "internal", kind(None), _VECTOR_BYTES
    for name in (GROUPS, PENDING, *HANDLES):
        ir.GlobalVariable(module, I64, name)
    kinds = (_STARTED_SUM, _WAITED, _SUM, _PROBED)
    for name, takes in zip(LIBRARY, kinds, strict=True):
        ir.LLVMFunction(module, takes, name)
    emit_clock(module, target)
    _emit_find(module)
    _emit_free(module)
    for name in _ADD:
        _emit_add(module, name)
    _emit_until(module)
    _emit_part(module)
    _emit_wait(module)
    _emit_start(module)
    return module


def _emit_find(module: ir.Module) -> None:
    """Emit the search for a row of a table by its first word; NULL if there is none."""
    builder, (table, count, bytes_, wanted) = define(module, _FIND, [PTR, I64, I64, I64], PTR)
    with _counted(builder, I64(0), count) as number:
        row = _at(builder, table, builder.mul(number, bytes_))
        found = builder.icmp_signed("==", builder.load(row, typ=I64, align=8), wanted)
        with builder.if_then(found):
            builder.ret(row)
    builder.ret(NULL)


def _emit_add(module: ir.Module, name: str) -> None:
    """Emit the sum of elements of arrays, which each of these gets."""
    builder, (terms, arrays, first, stop) = define(module, _ADD[name], [PTR, I64, I64, I64])
    kind = _KINDS[name]
    width = 4 if name == "float" else 8
    lanes = _VECTOR_BYTES // width
    vector, block = ir.VectorType(kind, lanes), _BLOCK_BYTES // width
    whole = builder.sub(stop, builder.urem(builder.sub(stop, first), I64(block)))
    with _counted(builder, first, whole, block) as element:
        starts = [builder.add(element, I64(lanes * i)) for i in range(block // lanes)]
        _emit_added(builder, (terms, arrays), starts, vector, width)
    with _counted(builder, whole, stop) as element:
        _emit_added(builder, (terms, arrays), [element], kind, width)
    builder.ret_void()


def _emit_added(
    builder: TeamBuilder,
    terms: tuple[ir.Value, ir.Value],
    elements: Sequence[ir.Value],
    kind: ir.Type,
    width: int,
) -> None:
    """Emit the sums of values of a type, which begin at some elements of so many arrays."""
    table, count = terms
    starts = [builder.mul(element, I64(width)) for element in elements]
    sums = [builder.local(kind(None)) for _ in starts]
    with _counted(builder, I64(0), count) as number:
        array = _entry(builder, table, number)
        is_first = builder.icmp_signed("==", number, I64(0))
        for place, start in zip(sums, starts, strict=True):
            term = _loaded(builder, array, start, kind, width)
            total = builder.fadd(builder.load(place, typ=kind), term)
            builder.store(builder.select(is_first, term, total), place)
            ahead = builder.add(start, I64(_BYTES_AHEAD))
            prefetch(builder, _at(builder, array, ahead), is_write=False)
    with _counted(builder, I64(0), count) as number:
        array = _entry(builder, table, number)
        for place, start in zip(sums, starts, strict=True):
            builder.store(builder.load(place, typ=kind), _at(builder, array, start), align=width)


def _emit_start(module: ir.Module) -> None:
    takes = list(_STARTED_SUM.takes)
    builder, given = define(module, START, takes, I32, is_public=True)
    sent, terms, count, type_, op, comm, request = given
    elsewhere = builder.append_basic_block("elsewhere")
    group = _found(builder, GROUPS, I64(MAX_GROUPS), GROUP_BYTES, comm)
    width = _width(builder, type_)
    for refused in (
        builder.icmp_unsigned("==", group, NULL),
        builder.icmp_signed("!=", _integer(builder, sent), _handle(builder, "MPI_IN_PLACE")),
        builder.icmp_signed("!=", op, _handle(builder, "MPI_SUM")),
        builder.icmp_signed("==", width, I64(0)),
    ):
        builder.go_if(refused, elsewhere)
    row = builder.run(_FREE)
    builder.go_if(builder.icmp_unsigned("==", row, NULL), elsewhere)
    number = builder.get(group, NEXT)
    builder.put(group, NEXT, builder.add(number, I64(1)))
    bytes_ = builder.mul(builder.zext(count, I64), width)
    slot = _slot(builder, builder.get(group, BASE), number)
    builder.put(slot, TERMS, _offset(builder, group, terms, bytes_))
    fields = (REQUEST, GROUP, GIVEN, NUMBER, COUNT, TYPE)
    values = (request, group, terms, number, builder.zext(count, I64), type_)
    for field, value in zip(fields, values, strict=True):
        builder.put(row, field, value)
    builder.write(slot, STARTED, builder.add(number, I64(1)))
    # The sooner it is added, the more of it is in caches: about as long as that saves is waited.
    looks = builder.add(builder.udiv(bytes_, I64(_BYTES_OF_LOOK)), I64(1))
    builder.put(row, STATE, builder.run(_PART, row, looks))
    builder.ret(I32(0))
    builder.position_at_end(elsewhere)
    builder.ret(builder.run("MPI_Iallreduce", *given))


def _emit_free(module: ir.Module) -> None:
    """Emit the search for a row of a sum on its way that is free; NULL if there is none."""
    builder, _ = define(module, _FREE, result=PTR)
    used = builder.load(builder.module.globals[_ROWS], typ=I64, align=8)
    found = _found(builder, PENDING, used, PENDING_BYTES, I64(0))
    is_full = builder.icmp_signed("==", used, I64(MAX_PENDING))
    is_found = builder.icmp_unsigned("!=", found, NULL)
    with builder.if_then(builder.or_(is_found, is_full)):
        builder.ret(found)
    builder.store(builder.add(used, I64(1)), builder.module.globals[_ROWS], align=8)
    builder.ret(_at(builder, builder.module.globals[PENDING], _times(builder, used, PENDING_BYTES)))


def _emit_part(module: ir.Module) -> None:
    """Emit the sum of the part of this rank, if all have started: what has become of it.

    Others are waited for while a word is looked at so many times, and for ever if it is negative.
    """
    builder, (row, looks) = define(module, _PART, [PTR, I64], I64)
    group, number = builder.get(row, GROUP), builder.get(row, NUMBER)
    after, size = builder.add(number, I64(1)), builder.get(group, SIZE)
    table = builder.alloca(PTR, size)
    are_here = builder.local(I64(1))
    with _each_slot(builder, group, number) as (rank, base, slot):
        has_come = builder.run(_UNTIL, group, builder.place(slot, STARTED), after, looks)
        with builder.if_then(builder.icmp_signed("==", has_come, I64(0)), likely=False):
            builder.ret(I64(_WAITS))
        terms = builder.get(slot, TERMS)
        builder.store(_at(builder, base, terms), _at(builder, table, _times(builder, rank, 8)))
        is_elsewhere = builder.icmp_signed("==", terms, I64(_ELSEWHERE))
        with builder.if_then(is_elsewhere, likely=False):
            builder.store(I64(0), are_here)
    is_elsewhere = builder.icmp_signed("==", builder.load(are_here, typ=I64), I64(0))
    with builder.if_then(is_elsewhere, likely=False):
        builder.ret(I64(_REFUSED))
    _emit_own_part(builder, group, table, builder.get(row, COUNT), builder.get(row, TYPE))
    builder.write(_slot(builder, builder.get(group, BASE), number), ADDED, after)
    builder.ret(I64(_IS_ADDED))


def _emit_wait(module: ir.Module) -> None:
    builder, (request, status) = define(module, WAIT, [PTR, PTR], I32, is_public=True)
    row = _pending(builder, request)
    with builder.if_then(builder.icmp_unsigned("==", row, NULL), likely=False):
        builder.ret(builder.run("MPI_Wait", request, status))
    with builder.if_then(builder.icmp_signed("==", builder.get(row, STATE), I64(_WAITS))):
        builder.put(row, STATE, builder.run(_PART, row, I64(-1)))
    builder.put(row, REQUEST, NULL)
    group, number = builder.get(row, GROUP), builder.get(row, NUMBER)
    is_refused = builder.icmp_signed("==", builder.get(row, STATE), I64(_REFUSED))
    with builder.if_then(is_refused, likely=False):
        count = builder.trunc(builder.get(row, COUNT), I32)
        in_place = builder.load(builder.module.globals["MPI_IN_PLACE"], typ=PTR, align=8)
        given = (in_place, builder.get(row, GIVEN), count, builder.get(row, TYPE))
        handles = (_handle(builder, "MPI_SUM"), builder.get(group, HANDLE))
        builder.ret(builder.run("MPI_Allreduce", *given, *handles))
    with _each_slot(builder, group, number) as (_, _, slot):
        after = builder.add(number, I64(1))
        builder.run(_UNTIL, group, builder.place(slot, ADDED), after, I64(-1))
    builder.ret(I32(0))


def _emit_until(module: ir.Module) -> None:
    """Emit the wait for another rank to count a word up: whether it has, before so many looks.

    The library moves its messages meanwhile.
    """
    builder, (group, word, wanted, looks) = define(module, _UNTIL, [PTR, PTR, I64, I64], I64)
    place = builder.local(I64(0))
    with builder.forever() as behind:
        found = builder.load_atomic(word, "acquire", 8, typ=I64)
        with builder.if_then(builder.icmp_signed(">=", found, wanted)):
            builder.ret(I64(1))
        looked = builder.add(builder.load(place, typ=I64), I64(1))
        builder.store(looked, place)
        builder.go_if(builder.icmp_signed("==", looked, looks), behind)
        emit_pause(builder)
        is_long = builder.icmp_signed("==", builder.and_(looked, I64(_LOOKS - 1)), I64(0))
        with builder.if_then(is_long, likely=False):
            flag, status = builder.local(I32(0)), builder.module.globals[_STATUS]
            own = builder.trunc(builder.get(group, RANK), I32)
            builder.run("MPI_Iprobe", own, I32(0), builder.get(group, HANDLE), flag, status)
            builder.call(builder.of_c("sched_yield", []), [])
    builder.ret(I64(0))


def _emit_own_part(
    builder: TeamBuilder,
    group: ir.Value,
    table: ir.Value,
    count: ir.Value,
    type_: ir.Value,
) -> None:
    """Emit the sum of the part of this rank: an equal one, of whole lines of the cache.

    There is none to add for one that is alone.
    """
    size, rank = builder.get(group, SIZE), builder.get(group, RANK)
    line = _VECTOR_BYTES // 4
    lines = builder.udiv(builder.add(count, I64(line - 1)), I64(line))
    share = _times(builder, builder.udiv(builder.add(lines, builder.sub(size, I64(1))), size), line)
    first = builder.least(builder.mul(rank, share), count)
    stop = builder.least(builder.add(first, share), count)
    stop = builder.select(builder.icmp_signed("==", size, I64(1)), first, stop)
    is_float = builder.icmp_signed("==", type_, _handle(builder, "MPI_FLOAT"))
    with builder.if_else(is_float) as (narrow, wide):
        for branch, name in ((narrow, "float"), (wide, "double")):
            with branch:
                builder.run(_ADD[name], table, size, first, stop)


# ---------------------------------------------------------------------------------------- words


@contextmanager
def _counted(
    builder: TeamBuilder, first: ir.Value, stop: ir.Value, step: int = 1
) -> Iterator[ir.Value]:
    """Emit the body of the `with` for numbers from `first` on, and yield the number."""
    place = builder.local(first)
    with builder.forever() as behind:
        number = builder.load(place, typ=I64)
        builder.go_if(builder.icmp_signed(">=", number, stop), behind)
        builder.store(builder.add(number, I64(step)), place)
        yield number


@contextmanager
def _each_slot(
    builder: TeamBuilder, group: ir.Value, number: ir.Value
) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """Emit the body of the `with` for each rank: yield it, its memory, and its slot of a sum."""
    with _counted(builder, I64(0), builder.get(group, SIZE)) as rank:
        base = _entry(builder, builder.get(group, BASES), rank)
        yield rank, base, _slot(builder, base, number)


def _at(builder: TeamBuilder, base: ir.Value, offset: ir.Value) -> ir.Value:
    return builder.gep(base, [offset], source_etype=I8)


def _times(builder: TeamBuilder, number: ir.Value, factor: int) -> ir.Value:
    return builder.mul(number, I64(factor))


def _entry(builder: TeamBuilder, table: ir.Value, number: ir.Value) -> ir.Value:
    """Return a pointer of a table."""
    return builder.load(_at(builder, table, _times(builder, number, 8)), typ=PTR, align=8)


def _loaded(
    builder: TeamBuilder, array: ir.Value, start: ir.Value, kind: ir.Type, width: int
) -> ir.Value:
    return builder.load(_at(builder, array, start), typ=kind, align=width)


def _found(
    builder: TeamBuilder, table: str, count: ir.Value, bytes_: int, wanted: ir.Value
) -> ir.Value:
    return builder.run(_FIND, builder.module.globals[table], count, I64(bytes_), wanted)


def _pending(builder: TeamBuilder, request: ir.Value) -> ir.Value:
    """Return the row of the sum that a request stands for, NULL if there is none."""
    used = builder.load(builder.module.globals[_ROWS], typ=I64, align=8)
    return _found(builder, PENDING, used, PENDING_BYTES, _integer(builder, request))


def _handle(builder: TeamBuilder, name: str) -> ir.Value:
    return builder.load(builder.module.globals[name], typ=I64, align=8)


def _integer(builder: TeamBuilder, pointer: ir.Value) -> ir.Value:
    return builder.ptrtoint(pointer, I64)


def _slot(builder: TeamBuilder, base: ir.Value, number: ir.Value) -> ir.Value:
    turn = builder.and_(number, I64(SLOTS - 1))
    return _at(builder, base, _times(builder, turn, SLOT_BYTES))


def _width(builder: TeamBuilder, type_: ir.Value) -> ir.Value:
    """Return the bytes of an element of a type of MPI, 0 for one that is not added here."""
    is_double = builder.icmp_signed("==", type_, _handle(builder, "MPI_DOUBLE"))
    is_float = builder.icmp_signed("==", type_, _handle(builder, "MPI_FLOAT"))
    return builder.select(is_float, I64(4), builder.select(is_double, I64(8), I64(0)))


def _offset(builder: TeamBuilder, group: ir.Value, pointer: ir.Value, bytes_: ir.Value) -> ir.Value:
    """Return how far from the start of the memory of this rank an array is, or that it is not."""
    base = _integer(builder, builder.get(group, BASE))
    offset = builder.sub(_integer(builder, pointer), base)
    room = builder.sub(builder.get(group, BYTES), bytes_)
    is_inside = builder.icmp_unsigned("<=", offset, room)
    return builder.select(is_inside, offset, I64(_ELSEWHERE))
