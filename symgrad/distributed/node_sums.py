"""Shared-memory collectives: code that adds up where each rank of a machine has its terms.

A library of MPI copies what it adds between processes, which takes the cores that compute. Here the
buffers of a step lie in memory that all ranks of the machine can read and write
(`distributed/node_memory.py`): a rank adds up pieces of the elements of all, and writes the sums
over the terms of all. The functions take what `MPI_Iallreduce` and `MPI_Wait` do, and stand in
their place:

    i32 sum_start(ptr sent, ptr terms, i32 count, i64 type, i64 op, i64 comm, ptr request)
    i32 sum_wait(ptr request, ptr status)

What is no sum of float32 or float64 in such memory, with `MPI_IN_PLACE` for what is sent, goes to
the library. Terms are added in the order of ranks, so the sum has the same bits on all.

A rank says in a slot of its memory that it has started a sum, and where, and goes on. Who comes to
the wait adds the pieces of its own part that nobody has taken, and then those of others: so a rank
that has computed its gradients adds while another one still computes, and ranks that come together
share the work. The n-th sum of a communicator is the same on all ranks, as are the n-th calls of
MPI. What one rank has written before it says so, others find there: stores release, loads acquire.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import prefetch
from symgrad.codegen.target import Target
from symgrad.codegen.team.clock import emit_clock, emit_pause
from symgrad.codegen.team.state import I8, I32, I64, NULL, PTR, TeamBuilder, define
from symgrad.distributed.node_requests import emit_open_requests, forget_open, note_open
from symgrad.distributed.node_words import (
    ADDED,
    BASE,
    BASES,
    COUNT,
    ELSEWHERE,
    FIND,
    GIVEN,
    GROUP,
    GROUP_BYTES,
    GROUPS,
    HANDLE,
    MAX_COUNT,
    MAX_GROUPS,
    MAX_PENDING,
    NEXT,
    NUMBER,
    PENDING,
    PENDING_BYTES,
    RANK,
    REQUEST,
    ROWS,
    SIZE,
    STARTED,
    TAKEN,
    TERMS,
    TYPE,
    as_integer,
    at_offset,
    counted,
    found_row,
    handle_word,
    no_pieces,
    offset_of,
    pending_row,
    slot_of,
    table_entry,
    times,
)
from symgrad.records import dataclass

START, WAIT = "sum_start", "sum_wait"
# What the module takes from the process: functions of MPI, and words that Python fills.
LIBRARY = ("MPI_Iallreduce", "MPI_Wait", "MPI_Allreduce", "MPI_Iprobe")
HANDLES = ("MPI_FLOAT", "MPI_DOUBLE", "MPI_SUM", "MPI_IN_PLACE")
_STATUS = "node.status"

STATUS_BYTES = 64  # more than an MPI_Status has
_BLOCK_BYTES = 256  # that are added between two looks at where the next rank has its own
_BYTES_AHEAD = 2048  # how far terms are asked for: other cores are further than memory
_VECTOR_BYTES = 64
_LOOKS = 64  # at a word, before the library may move messages and others have the core
_PIECE_BYTES = 128 << 10  # that a rank takes at once
assert (8 << 31) // _PIECE_BYTES < MAX_COUNT, "the pieces of the longest sum are counted"
_FREE, _UNTIL, _TAKE = "node.free", "node.until", "node.take"
_SHARE, _PIECES = "node.share", "node.pieces"
_ADD = {"float": "node.add.float", "double": "node.add.double"}
_KINDS: dict[str, ir.Type] = {"float": ir.FloatType(), "double": ir.DoubleType()}
_SUM = ir.FunctionType(I32, [PTR, PTR, I32, I64, I64, I64])
_STARTED_SUM = ir.FunctionType(I32, [*_SUM.takes, PTR])
_WAITED = ir.FunctionType(I32, [PTR, PTR])
_PROBED = ir.FunctionType(I32, [I32, I32, I64, PTR, PTR])


def emit_node_sums(target: Target) -> ir.Module:
    """Emit `sum_start`, `sum_wait`, and what starts other calls of the library."""
    module = ir.Module("node_sums")
    module.triple = target.triple
    for name, count in ((ROWS, 8), (_STATUS, STATUS_BYTES)):
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
    emit_open_requests(module)
    _emit_free(module)
    for name in _ADD:
        _emit_add(module, name)
    _emit_until(module)
    _emit_take(module)
    _emit_pieces(module)
    _emit_share(module)
    _emit_wait(module)
    _emit_start(module)
    return module


def _emit_find(module: ir.Module) -> None:
    """Emit the search for a row of a table by its first word; NULL if there is none."""
    builder, (table, count, bytes_, wanted) = define(module, FIND, [PTR, I64, I64, I64], PTR)
    with counted(builder, I64(0), count) as number:
        row = at_offset(builder, table, builder.mul(number, bytes_))
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
    with counted(builder, first, whole, block) as element:
        starts = [builder.add(element, I64(lanes * i)) for i in range(block // lanes)]
        _emit_added(builder, (terms, arrays), starts, vector, width)
    with counted(builder, whole, stop) as element:
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
    with counted(builder, I64(0), count) as number:
        array = table_entry(builder, table, number)
        is_first = builder.icmp_signed("==", number, I64(0))
        for place, start in zip(sums, starts, strict=True):
            term = _loaded(builder, array, start, kind, width)
            total = builder.fadd(builder.load(place, typ=kind), term)
            builder.store(builder.select(is_first, term, total), place)
            ahead = builder.add(start, I64(_BYTES_AHEAD))
            prefetch(builder, at_offset(builder, array, ahead), is_write=False)
    with counted(builder, I64(0), count) as number:
        array = table_entry(builder, table, number)
        for place, start in zip(sums, starts, strict=True):
            builder.store(
                builder.load(place, typ=kind), at_offset(builder, array, start), align=width
            )


def _emit_start(module: ir.Module) -> None:
    takes = list(_STARTED_SUM.takes)
    builder, given = define(module, START, takes, I32, is_public=True)
    sent, terms, count, type_, op, comm, request = given
    elsewhere = builder.append_basic_block("elsewhere")
    group = found_row(builder, GROUPS, I64(MAX_GROUPS), GROUP_BYTES, comm)
    width = _width(builder, type_)
    for refused in (
        builder.icmp_unsigned("==", group, NULL),
        builder.icmp_signed("!=", as_integer(builder, sent), handle_word(builder, "MPI_IN_PLACE")),
        builder.icmp_signed("!=", op, handle_word(builder, "MPI_SUM")),
        builder.icmp_signed("==", width, I64(0)),
    ):
        builder.go_if(refused, elsewhere)
    row = builder.run(_FREE)
    builder.go_if(builder.icmp_unsigned("==", row, NULL), elsewhere)
    number = builder.get(group, NEXT)
    builder.put(group, NEXT, builder.add(number, I64(1)))
    bytes_ = builder.mul(builder.zext(count, I64), width)
    slot = slot_of(builder, builder.get(group, BASE), number)
    builder.put(slot, TERMS, offset_of(builder, group, terms, bytes_))
    fields = (REQUEST, GROUP, GIVEN, NUMBER, COUNT, TYPE)
    values = (request, group, terms, number, builder.zext(count, I64), type_)
    for field, value in zip(fields, values, strict=True):
        builder.put(row, field, value)
    for field in (TAKEN, ADDED):
        builder.write(slot, field, no_pieces(builder, number))
    builder.write(slot, STARTED, builder.add(number, I64(1)))
    builder.ret(I32(0))
    builder.position_at_end(elsewhere)
    status = builder.run("MPI_Iallreduce", *given)
    note_open(builder, request, comm)
    builder.ret(status)


def _emit_free(module: ir.Module) -> None:
    """Emit the search for a row of a sum on its way that is free; NULL if there is none."""
    builder, _ = define(module, _FREE, result=PTR)
    used = builder.load(builder.module.globals[ROWS], typ=I64, align=8)
    found = found_row(builder, PENDING, used, PENDING_BYTES, I64(0))
    is_full = builder.icmp_signed("==", used, I64(MAX_PENDING))
    is_found = builder.icmp_unsigned("!=", found, NULL)
    with builder.if_then(builder.or_(is_found, is_full)):
        builder.ret(found)
    builder.store(builder.add(used, I64(1)), builder.module.globals[ROWS], align=8)
    builder.ret(
        at_offset(builder, builder.module.globals[PENDING], times(builder, used, PENDING_BYTES))
    )


def _emit_share(module: ir.Module) -> None:
    """Emit what this rank does for a sum until it is there: 0 if it is left to the library by all.

    It adds pieces that nobody has taken, and waits for those that others have.
    """
    builder, (row,) = define(module, _SHARE, [PTR], I64)
    group, number = builder.get(row, GROUP), builder.get(row, NUMBER)
    table = builder.alloca(PTR, builder.get(group, SIZE))
    are_here = builder.local(I64(1))
    with _each_slot(builder, group, number) as (rank, base, slot):
        builder.run(_UNTIL, group, builder.place(slot, STARTED), builder.add(number, I64(1)))
        terms = builder.read(slot, TERMS)
        builder.store(
            at_offset(builder, base, terms), at_offset(builder, table, times(builder, rank, 8))
        )
        is_elsewhere = builder.icmp_signed("==", terms, I64(ELSEWHERE))
        with builder.if_then(is_elsewhere, likely=False):
            builder.store(I64(0), are_here)
    # Others may have added all, and gone on to another sum in their slots.
    first = _part_of(builder, row, I64(0))
    is_elsewhere = builder.icmp_signed("==", builder.load(are_here, typ=I64), I64(0))
    is_open = builder.icmp_signed("<", builder.read(first.slot, ADDED), first.all_pieces)
    with builder.if_then(builder.and_(is_elsewhere, is_open), likely=False):
        builder.ret(I64(0))
    size, own = builder.get(group, SIZE), builder.get(group, RANK)
    with counted(builder, I64(0), size) as further:
        builder.run(_PIECES, row, table, builder.urem(builder.add(own, further), size))
    with counted(builder, I64(0), size) as rank:
        part = _part_of(builder, row, rank)
        builder.run(_UNTIL, group, builder.place(part.slot, ADDED), part.all_pieces)
    builder.ret(I64(1))


def _emit_take(module: ir.Module) -> None:
    """Emit how a rank takes a piece that nobody has taken: its number, -1 if there is none."""
    builder, (word, none, all_taken) = define(module, _TAKE, [PTR, I64, I64], I64)
    with builder.forever() as behind:
        found = builder.load_atomic(word, "acquire", 8, typ=I64)
        builder.go_if(builder.icmp_signed(">=", found, all_taken), behind)
        is_taken = builder.compare_exchange(word, found, builder.add(found, I64(1)))
        with builder.if_then(is_taken):
            builder.ret(builder.sub(found, none))
    builder.ret(I64(-1))


def _emit_pieces(module: ir.Module) -> None:
    """Emit the sums of the pieces that this rank can take of the part of a rank."""
    builder, (row, table, rank) = define(module, _PIECES, [PTR, PTR, I64])
    part = _part_of(builder, row, rank)
    size = builder.get(builder.get(row, GROUP), SIZE)
    with builder.forever() as behind:
        piece = builder.run(_TAKE, builder.place(part.slot, TAKEN), part.no_pieces, part.all_pieces)
        builder.go_if(builder.icmp_signed("<", piece, I64(0)), behind)
        first = builder.add(part.first, builder.mul(piece, part.length))
        stop = builder.least(builder.add(first, part.length), part.stop)
        with builder.if_else(part.is_float) as (narrow, wide):
            with narrow:
                builder.run(_ADD["float"], table, size, first, stop)
            with wide:
                builder.run(_ADD["double"], table, size, first, stop)
        builder.atomic_rmw("add", builder.place(part.slot, ADDED), I64(1), "acq_rel")
    builder.ret_void()


@dataclass(frozen=True, slots=True)
class _PartOfSum:
    """The elements from `first` to `stop` that a rank adds if no other does, `length` in a piece.

    `slot` is that of the rank, in which words count from `no_pieces` to `all_pieces`.
    """

    slot: ir.Value
    first: ir.Value
    stop: ir.Value
    length: ir.Value
    no_pieces: ir.Value
    all_pieces: ir.Value
    is_float: ir.Value


def _part_of(builder: TeamBuilder, row: ir.Value, rank: ir.Value) -> _PartOfSum:
    """Emit which part of a sum is that of a rank: an equal one, of whole lines of the cache."""
    group, number, count = (builder.get(row, field) for field in (GROUP, NUMBER, COUNT))
    size = builder.get(group, SIZE)
    slot = slot_of(builder, table_entry(builder, builder.get(group, BASES), rank), number)
    is_float = builder.icmp_signed("==", builder.get(row, TYPE), handle_word(builder, "MPI_FLOAT"))
    length = builder.select(is_float, I64(_PIECE_BYTES // 4), I64(_PIECE_BYTES // 8))
    line = _VECTOR_BYTES // 4
    share = times(builder, _parts(builder, _parts(builder, count, I64(line)), size), line)
    first = builder.least(builder.mul(rank, share), count)
    stop = builder.least(builder.add(first, share), count)
    none = no_pieces(builder, number)
    pieces = _parts(builder, builder.sub(stop, first), length)
    return _PartOfSum(slot, first, stop, length, none, builder.add(none, pieces), is_float)


def _parts(builder: TeamBuilder, count: ir.Value, size: ir.Value) -> ir.Value:
    """Return how many parts of `size` there are in `count`, of which the last may be shorter."""
    return builder.udiv(builder.add(count, builder.sub(size, I64(1))), size)


def _emit_wait(module: ir.Module) -> None:
    builder, (request, status) = define(module, WAIT, [PTR, PTR], I32, is_public=True)
    row = pending_row(builder, request)
    with builder.if_then(builder.icmp_unsigned("==", row, NULL), likely=False):
        forget_open(builder, request)
        builder.ret(builder.run("MPI_Wait", request, status))
    group = builder.get(row, GROUP)
    is_alone = builder.icmp_signed("==", builder.get(group, SIZE), I64(1))
    with builder.if_then(is_alone):
        builder.put(row, REQUEST, NULL)
        builder.ret(I32(0))
    is_refused = builder.icmp_signed("==", builder.run(_SHARE, row), I64(0))
    builder.put(row, REQUEST, NULL)
    with builder.if_then(is_refused, likely=False):
        count = builder.trunc(builder.get(row, COUNT), I32)
        in_place = builder.load(builder.module.globals["MPI_IN_PLACE"], typ=PTR, align=8)
        given = (in_place, builder.get(row, GIVEN), count, builder.get(row, TYPE))
        handles = (handle_word(builder, "MPI_SUM"), builder.get(group, HANDLE))
        builder.ret(builder.run("MPI_Allreduce", *given, *handles))
    builder.ret(I32(0))


def _emit_until(module: ir.Module) -> None:
    """Emit the wait for a word to count up, during which the library moves its messages."""
    builder, (group, word, wanted) = define(module, _UNTIL, [PTR, PTR, I64])
    place = builder.local(I64(0))
    with builder.forever() as behind:
        found = builder.load_atomic(word, "acquire", 8, typ=I64)
        builder.go_if(builder.icmp_signed(">=", found, wanted), behind)
        looked = builder.add(builder.load(place, typ=I64), I64(1))
        builder.store(looked, place)
        emit_pause(builder)
        is_long = builder.icmp_signed("==", builder.and_(looked, I64(_LOOKS - 1)), I64(0))
        with builder.if_then(is_long, likely=False):
            flag, status = builder.local(I32(0)), builder.module.globals[_STATUS]
            own = builder.trunc(builder.get(group, RANK), I32)
            builder.run("MPI_Iprobe", own, I32(0), builder.get(group, HANDLE), flag, status)
            builder.call(builder.of_c("sched_yield", []), [])
    builder.ret_void()


@contextmanager
def _each_slot(
    builder: TeamBuilder, group: ir.Value, number: ir.Value
) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """Emit the body of the `with` for each rank: yield it, its memory, and its slot of a sum."""
    with counted(builder, I64(0), builder.get(group, SIZE)) as rank:
        base = table_entry(builder, builder.get(group, BASES), rank)
        yield rank, base, slot_of(builder, base, number)


def _loaded(
    builder: TeamBuilder, array: ir.Value, start: ir.Value, kind: ir.Type, width: int
) -> ir.Value:
    return builder.load(at_offset(builder, array, start), typ=kind, align=width)


def _width(builder: TeamBuilder, type_: ir.Value) -> ir.Value:
    """Return the bytes of an element of a type of MPI, 0 for one that is not added here."""
    is_double = builder.icmp_signed("==", type_, handle_word(builder, "MPI_DOUBLE"))
    is_float = builder.icmp_signed("==", type_, handle_word(builder, "MPI_FLOAT"))
    return builder.select(is_float, I64(4), builder.select(is_double, I64(8), I64(0)))
