"""Shared-memory words: where code that adds for ranks of one machine finds groups, sums and slots.

The tables are of this process: a row for each group, which Python fills, and for each sum on its
way. Slots lie in the memory of each rank, for all to read. What is done with them is in
`distributed/node_sums.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from symgrad.codegen import ir
from symgrad.codegen.team.state import I8, I64, PTR, Field, TeamBuilder

GROUPS, PENDING = "node.groups", "node.pending"
ROWS = "node.rows"  # how many rows of sums were ever used
FIND = "node.find"  # the function that finds a row of a table by its first word

# A group: its handle, the rank, its size, how many sums were started, where the memory of this rank
# is and how much, and a table of where that of each rank is.
HANDLE, RANK, SIZE, NEXT, BYTES = (Field(8 * i) for i in range(5))
BASE, BASES = Field(40, PTR), Field(48, PTR)
GROUP_BYTES, MAX_GROUPS = 64, 64
# A sum on its way: where its request is, its group, what was given, its number, and of what it is.
REQUEST, GROUP, GIVEN = (Field(8 * i, PTR) for i in range(3))
NUMBER, COUNT, TYPE = (Field(24 + 8 * i) for i in range(3))
PENDING_BYTES, MAX_PENDING = 64, 1024
# A slot, from the start of the memory of each rank: the number of the sum behind the last that was
# started in it, and where its terms are, from the start of the memory, or that they are not there.
# Of the pieces of the part of the rank it says how many were taken, and how many are added: beside
# the number of the sum, so that who comes late finds more than there were of an earlier one.
STARTED, TERMS, TAKEN, ADDED = (Field(8 * i) for i in range(4))
ELSEWHERE = -1
_COUNT_BITS = 20
MAX_COUNT = 1 << _COUNT_BITS
SLOT_BYTES, SLOTS = 64, 2048
assert SLOTS > MAX_PENDING, "a slot is free when its turn comes again"


@contextmanager
def counted(
    builder: TeamBuilder, first: ir.Value, stop: ir.Value, step: int = 1
) -> Iterator[ir.Value]:
    """Emit the body of the `with` for numbers from `first` on, and yield the number."""
    place = builder.local(first)
    with builder.forever() as behind:
        number = builder.load(place, typ=I64)
        builder.go_if(builder.icmp_signed(">=", number, stop), behind)
        builder.store(builder.add(number, I64(step)), place)
        yield number


def at_offset(builder: TeamBuilder, base: ir.Value, offset: ir.Value) -> ir.Value:
    """Return the address so many bytes behind another."""
    return builder.gep(base, [offset], source_etype=I8)


def times(builder: TeamBuilder, number: ir.Value, factor: int) -> ir.Value:
    """Return a product with a constant."""
    return builder.mul(number, I64(factor))


def table_entry(builder: TeamBuilder, table: ir.Value, number: ir.Value) -> ir.Value:
    """Return a pointer of a table."""
    return builder.load(at_offset(builder, table, times(builder, number, 8)), typ=PTR, align=8)


def found_row(
    builder: TeamBuilder, table: str, count: ir.Value, bytes_: int, wanted: ir.Value
) -> ir.Value:
    """Return the row of a table whose first word is the one that is wanted, NULL if none is."""
    return builder.run(FIND, builder.module.globals[table], count, I64(bytes_), wanted)


def pending_row(builder: TeamBuilder, request: ir.Value) -> ir.Value:
    """Return the row of the sum that a request stands for, NULL if there is none."""
    used = builder.load(builder.module.globals[ROWS], typ=I64, align=8)
    return found_row(builder, PENDING, used, PENDING_BYTES, as_integer(builder, request))


def no_pieces(builder: TeamBuilder, number: ir.Value) -> ir.Value:
    """Return the word that says that no piece of a sum was taken, or added."""
    return builder.shl(builder.add(number, I64(1)), I64(_COUNT_BITS))


def handle_word(builder: TeamBuilder, name: str) -> ir.Value:
    """Return a handle of MPI, which Python has written."""
    return builder.load(builder.module.globals[name], typ=I64, align=8)


def as_integer(builder: TeamBuilder, pointer: ir.Value) -> ir.Value:
    """Return an address as a number."""
    return builder.ptrtoint(pointer, I64)


def slot_of(builder: TeamBuilder, base: ir.Value, number: ir.Value) -> ir.Value:
    """Return the slot of a sum in the memory of a rank."""
    turn = builder.and_(number, I64(SLOTS - 1))
    return at_offset(builder, base, times(builder, turn, SLOT_BYTES))


def offset_of(
    builder: TeamBuilder, group: ir.Value, pointer: ir.Value, bytes_: ir.Value
) -> ir.Value:
    """Return how far from the start of the memory of this rank an array is, or that it is not."""
    base = as_integer(builder, builder.get(group, BASE))
    offset = builder.sub(as_integer(builder, pointer), base)
    room = builder.sub(builder.get(group, BYTES), bytes_)
    is_inside = builder.icmp_unsigned("<=", offset, room)
    return builder.select(is_inside, offset, I64(ELSEWHERE))
