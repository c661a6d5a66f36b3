"""Memory of a team, and the builder of the code that works on it.

A team is one variable of a module: words about the team, then a slot for each thread, of which the
first is that of whoever forks. What different threads write lies on different lines of the cache.
Times are nanoseconds of the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from symgrad.codegen import ir
from symgrad.records import dataclass

I8, I32, I64, PTR = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.PointerType()
VOID = ir.VoidType()
NULL = ir.Constant(PTR, None)

TEAM = "team"
LINE_BYTES = 128  # two lines of 64 bytes, which some processors fetch together
_LOCK_BYTES = 64  # of a mutex, and of a condition variable, in any C library


@dataclass(frozen=True, slots=True)
class Field:
    """A word of the team or of a slot: how far it is from the start."""

    offset: int
    type: ir.Type = I64


# ---------------------------------------------------------------------------------- of the team

OWNER = Field(0)  # 1 while somebody forks
# What runs a part, and what it is given; the core on which the parts were published.
RUN, SHARED = Field(LINE_BYTES, PTR), Field(LINE_BYTES + 8, PTR)
CORE = Field(LINE_BYTES + 16)
# How many workers were started; 1 when the team is no more.
MADE, CLOSED = Field(2 * LINE_BYTES), Field(2 * LINE_BYTES + 8)
# For who owns the team: cores it may use, and when that was looked up; the limit of a quota, 0 if
# unknown; the parts that were run so far; whether processes that fork forget the team.
CORES, LOOKED = Field(3 * LINE_BYTES), Field(3 * LINE_BYTES + 8)
QUOTA, TOTAL = Field(3 * LINE_BYTES + 16), Field(3 * LINE_BYTES + 24)
REGISTERED = Field(3 * LINE_BYTES + 32)
# Whether who forks sleeps until the parts that others began are done.
WAITING = Field(4 * LINE_BYTES)
MUTEX, SIGNAL = Field(5 * LINE_BYTES), Field(5 * LINE_BYTES + _LOCK_BYTES)
_TEAM_BYTES = 6 * LINE_BYTES

# ----------------------------------------------------------------------------------- of a slot

# The parts of this thread that nobody has begun: from the number in the low half to that in the
# high half.
RANGE = Field(0)
# Parts this thread has begun, and finished, since the team was made.
TAKEN, DONE = Field(LINE_BYTES), Field(LINE_BYTES + 8)
SPIN = Field(LINE_BYTES + 16)  # how long it waits for work before it sleeps
ASLEEP, STATE = Field(2 * LINE_BYTES), Field(2 * LINE_BYTES + 8)
# For who forks, see `team/profit.py`.
ACTIVE, LATE, SEEN = (Field(2 * LINE_BYTES + 16 + 8 * i) for i in range(3))
CREDIT, LEVEL, UNTIL, SINCE = (Field(2 * LINE_BYTES + 40 + 8 * i) for i in range(4))
THREAD = Field(2 * LINE_BYTES + 72)
RAN = Field(2 * LINE_BYTES + 80)
# The locks of a slot are where those of the team are, counted from other starts.
SLOT_MUTEX, SLOT_SIGNAL = Field(3 * LINE_BYTES), Field(3 * LINE_BYTES + _LOCK_BYTES)
_SLOT_BYTES = 4 * LINE_BYTES

# What a worker is: one that takes parts; one that does not; one that tries whether it has a core;
# one that found it has none.
READY, BENCHED, PROBING, CROWDED = range(4)

MICROSECOND, MILLISECOND = 1_000, 1_000_000


class TeamBuilder(ir.IRBuilder):
    """Appends instructions that work on the team of a module."""

    __slots__ = ()

    @property
    def team(self) -> ir.Value:
        """The address of the team."""
        address: ir.Value = self.module.globals[TEAM]
        return address

    @property
    def slots(self) -> int:
        """How many slots the team has."""
        bytes_ = self.module.globals[TEAM].value_type.count
        return int(bytes_ - _TEAM_BYTES) // _SLOT_BYTES

    def slot(self, number: ir.Value) -> ir.Value:
        """Return the address of a slot."""
        distance = self.add(self.mul(number, I64(_SLOT_BYTES)), I64(_TEAM_BYTES))
        return self.gep(self.team, [distance], inbounds=True, source_etype=I8)

    def place(self, base: ir.Value, field: Field) -> ir.Value:
        """Return the address of a word of the team or of a slot."""
        return self.gep(base, [I64(field.offset)], inbounds=True, source_etype=I8)

    def get(self, base: ir.Value, field: Field) -> ir.Value:
        """Load a word that no other thread writes meanwhile."""
        return self.load(self.place(base, field), typ=field.type, align=8)

    def put(self, base: ir.Value, field: Field, value: ir.Value | int) -> None:
        """Store a word that no other thread reads or writes meanwhile."""
        given = I64(value) if isinstance(value, int) else value
        self.store(given, self.place(base, field), align=8)

    def read(self, base: ir.Value, field: Field, ordering: str = "acquire") -> ir.Value:
        """Load a word that other threads write."""
        return self.load_atomic(self.place(base, field), ordering, 8, typ=field.type)

    def write(
        self, base: ir.Value, field: Field, value: ir.Value | int, ordering: str = "release"
    ) -> None:
        """Store a word that other threads read."""
        given = I64(value) if isinstance(value, int) else value
        self.store_atomic(given, self.place(base, field), ordering, 8)

    # ------------------------------------------------------------------------------- functions

    def of_c(self, name: str, takes: Sequence[ir.Type], result: ir.Type = I32) -> ir.LLVMFunction:
        """Declare a function of the C library, once."""
        known: ir.LLVMFunction | None = self.module.globals.get(name)
        return known or ir.LLVMFunction(self.module, ir.FunctionType(result, takes), name)

    def run(self, name: str, *args: ir.Value) -> ir.Value:
        """Call a function of the team."""
        return self.call(self.module.globals[name], args)

    def lock(self, base: ir.Value, mutex: Field) -> None:
        self.call(self.of_c("pthread_mutex_lock", [PTR]), [self.place(base, mutex)])

    def unlock(self, base: ir.Value, mutex: Field) -> None:
        self.call(self.of_c("pthread_mutex_unlock", [PTR]), [self.place(base, mutex)])

    def wait(self, base: ir.Value, signal: Field, mutex: Field) -> None:
        """Sleep until there is a signal, or for less."""
        places = self.place(base, signal), self.place(base, mutex)
        self.call(self.of_c("pthread_cond_wait", [PTR, PTR]), places)

    def signal(self, base: ir.Value, signal: Field) -> None:
        self.call(self.of_c("pthread_cond_signal", [PTR]), [self.place(base, signal)])

    # --------------------------------------------------------------------------------- control

    @contextmanager
    def forever(self) -> Iterator[ir.Block]:
        """Emit the body of the `with` as a loop, and yield the block behind it."""
        head, behind = self.append_basic_block("loop"), self.append_basic_block("behind")
        self.branch(head)
        self.position_at_end(head)
        yield behind
        if not self.block.is_terminated:
            self.branch(head)
        self.position_at_end(behind)

    def go_if(self, condition: ir.Value, target: ir.Block) -> None:
        """Go to `target` if `condition` holds, else on."""
        following = self.append_basic_block("on")
        self.cbranch(condition, target, following)
        self.position_at_end(following)

    @contextmanager
    def each_slot(self, first: int, stop: ir.Value) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Emit the body of the `with` for the slots from `first` on; yield the number and slot."""
        place = self.local(I64(first))
        with self.forever() as behind:
            number = self.load(place, typ=I64)
            self.go_if(self.icmp_signed(">=", number, stop), behind)
            self.store(self.add(number, I64(1)), place)
            yield number, self.slot(number)

    def local(self, value: ir.Value) -> ir.Value:
        """Return the address of a variable of the function, which is set to `value` here."""
        with self.goto_entry_block():
            place = self.alloca(value.type)
        self.store(value, place)
        return place

    def least(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.select(self.icmp_signed("<", a, b), a, b)

    def most(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.select(self.icmp_signed(">", a, b), a, b)


def add_team(module: ir.Module, slots: int) -> None:
    """Add the memory of a team of so many threads, all zeros."""
    kind = ir.ArrayType(I8, _TEAM_BYTES + slots * _SLOT_BYTES)
    team = ir.GlobalVariable(module, kind, TEAM)
    team.linkage = "internal"
    team.initializer = kind(None)
    team.align = LINE_BYTES


def define(
    module: ir.Module,
    name: str,
    takes: Sequence[ir.Type] = (),
    result: ir.Type = VOID,
    *,
    is_public: bool = False,
) -> tuple[TeamBuilder, list[ir.Value]]:
    """Start a function; the builder stands in its first block."""
    function = ir.LLVMFunction(module, ir.FunctionType(result, takes), name)
    function.attributes.add("nounwind")
    if not is_public:
        function.linkage = "internal"
    return TeamBuilder(function.append_basic_block("entry")), list(function.args)
