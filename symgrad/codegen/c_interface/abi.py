"""C ABI of an exported library: the memory layout of an instance, and names mangled for C.

It is a plan: what lies where in an instance, and what is called how.

An instance is one piece of memory: a head, the tapes, the variables, the arena. It holds no
address but those of its tapes, so the functions of a library find everything by offsets that are
known when the library is made. Nothing is emitted here; `codegen/c_interface/*.py` does that.
"""

from __future__ import annotations

import hashlib
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from symgrad.codegen.kernel_costs import kernel_parts
from symgrad.codegen.llvm.poll import (
    ASKED_WORD,
    FAILURE_WORD,
    STOP_WORD,
    STOPPED,
    WATCH_WORDS,
    WORD_BYTES,
)
from symgrad.codegen.llvm.tape import TAPE_BYTES, TAPE_FULL
from symgrad.codegen.program.language import Program
from symgrad.frontend.sparse_tensor import SparsityPattern
from symgrad.graph.aligned import ALIGNMENT
from symgrad.graph.foreign_functions import ForeignFunction, ProcessGroup
from symgrad.graph.graph import Graph
from symgrad.graph.types import ArrayLiteral, State, TensorType, read_states
from symgrad.passes.calls.thread_effects import EFFECTS
from symgrad.records import dataclass

ABI_VERSION = 1  # of the functions, their arguments and the head of an instance
STATE_VERSION = 1  # of the bytes that `save` writes
STATE_MAGIC = b"SYMGRAD\0"
STATE_HEAD_BYTES = 40  # magic, version, 0, signature, bytes of the values, their checksum

# The head of an instance: which library it belongs to, which of the library's implementations this
# machine runs, and the watch of its steps.
FINGERPRINT_OFFSET, CHOICE_OFFSET, WATCH_OFFSET, HEAD_BYTES = 0, 8, 16, 64
FAILURE_OFFSET = WATCH_OFFSET + WORD_BYTES * FAILURE_WORD
STOP_OFFSET = WATCH_OFFSET + WORD_BYTES * STOP_WORD
ASKED_OFFSET = WATCH_OFFSET + WORD_BYTES * ASKED_WORD
assert WATCH_OFFSET + WORD_BYTES * WATCH_WORDS <= HEAD_BYTES, "the head has no room for the watch"

OK = 0
NULL_POINTER, MISALIGNED, NOT_INITIALIZED, UNSUPPORTED_CPU, UNKNOWN_NAME = -1, -2, -3, -4, -5
WRONG_SIZE, NOT_A_STATE, OTHER_VERSION, OTHER_VARIABLES, DAMAGED = -6, -7, -8, -9, -10
NOT_CONNECTED, OTHER_RANKS = -11, -12

# status -> the name of its constant in the header, what it means
STATUSES: Mapping[int, tuple[str, str]] = {
    OK: ("OK", "success"),
    NULL_POINTER: ("NULL_POINTER", "a pointer is null"),
    MISALIGNED: ("MISALIGNED", "the instance does not start at a multiple of the alignment"),
    NOT_INITIALIZED: ("NOT_INITIALIZED", "the memory holds no instance of this library"),
    UNSUPPORTED_CPU: ("UNSUPPORTED_CPU", "this CPU lacks instructions the library is made of"),
    UNKNOWN_NAME: ("UNKNOWN_NAME", "there is no variable of that name"),
    WRONG_SIZE: ("WRONG_SIZE", "the buffer has another size than is needed"),
    NOT_A_STATE: ("NOT_A_STATE", "the buffer does not hold a state"),
    OTHER_VERSION: ("OTHER_VERSION", "the state has a format of another version"),
    OTHER_VARIABLES: ("OTHER_VARIABLES", "the state is one of other variables"),
    DAMAGED: ("DAMAGED", "the state is damaged: its checksum differs"),
    NOT_CONNECTED: ("NOT_CONNECTED", "the instance has no communicator yet"),
    OTHER_RANKS: (
        "OTHER_RANKS",
        "a communicator has other ranks, or is of another one, than is needed",
    ),
    STOPPED: ("STOPPED", "the step was stopped"),
    TAPE_FULL: ("TAPE_FULL", "a loop without a bound ran for longer than there is memory"),
}

# What the functions of a library are called, after its name; no step may be called so.
FUNCTIONS = (
    "abi_version", "size", "alignment", "init", "init_from", "release", "message", "failed_index",
    "variable_count", "variable_at", "find", "address", "read", "write", "state_size", "save",
    "restore", "manifest", "instance", "variable", "stop",
)  # fmt: skip
MPI_FUNCTIONS = ("connect", "connect_mpi", "init_mpi")  # where steps call MPI


@dataclass(frozen=True, slots=True)
class Slot:
    """An input or an output: `name` as the user gave it or by position, `c_name` in C.

    With a `pattern` it has the values of a sparse matrix in compressed sparse rows.
    """

    name: str
    c_name: str
    type: TensorType
    pattern: SparsityPattern | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A variable, and at which byte of an instance it is."""

    name: str
    state: State
    offset: int

    @property
    def type(self) -> TensorType:
        return self.state.type


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """What a library of processes takes for `symbol`, and at which byte of an instance it is."""

    symbol: ForeignFunction
    offset: int


# A byte of the instance, a constant, a symbol, a value that the instance holds.
TableEntry = int | ArrayLiteral | ForeignFunction | Handle


@dataclass(frozen=True, slots=True, eq=False)
class Implementation:
    """A step for one machine: the function that is it, and what its table of pointers holds."""

    symbol: str
    table: tuple[TableEntry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StepInterface:
    """A step as C sees it.

    Status s of its functions becomes `status_base + s`; `messages` says what has failed by the
    statuses that C sees. `implementations` are those for the levels of the library, in its order.
    """

    name: str
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    status_base: int
    messages: Mapping[int, str]
    implementations: tuple[Implementation, ...]

    @property
    def sparse_outputs(self) -> tuple[Slot, ...]:
        """The outputs that are the values of sparse matrices."""
        return tuple(slot for slot in self.outputs if slot.pattern is not None)

    @property
    def is_connected(self) -> bool:
        """Whether it runs on instances alone that have been given handles."""
        entries = (entry for made in self.implementations for entry in made.table)
        return any(isinstance(entry, Handle) for entry in entries)


@dataclass(frozen=True, slots=True, eq=False)
class Interface:
    """The whole interface of a library called `name`.

    `levels` are the x86-64 levels its implementations need, ascending; (0,) where none is checked.
    `tapes` are the offsets of all tapes; `size` is that of an instance. `threads` is how many
    threads share a kernel at the most. `functions` are those of C that whoever links it provides,
    `handles` what `connect` is given, in its order: behind a word that says whether it was called.
    `ranks` are, by the names of groups, those whose parts of shared state the variables start with.
    """

    name: str
    levels: tuple[int, ...]
    variables: tuple[Stored, ...]
    tapes: tuple[int, ...]
    size: int
    threads: int
    steps: tuple[StepInterface, ...]
    functions: tuple[ForeignFunction, ...] = ()
    handles: tuple[Handle, ...] = ()
    ranks: Mapping[str, int] = field(default_factory=dict)

    @property
    def head_bytes(self) -> int:
        """What an instance has in front of its variables, zeros at the start."""
        return _head_bytes(self.tapes, self.handles)

    @property
    def connected_offset(self) -> int:
        """Where an instance says whether it has been given its handles."""
        return self.handles[0].offset - WORD_BYTES

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        """The groups of processes that steps call in, one for each name."""
        symbols = (handle.symbol for handle in self.handles)
        found = [s.group or (s.chosen.group if s.chosen else None) for s in symbols]
        return tuple({g.lineage[-1]: g for g in found if g is not None}.values())

    @property
    def is_threaded(self) -> bool:
        """Whether threads share a kernel: then the library has a team of them."""
        return self.threads > 1

    @property
    def state_bytes(self) -> int:
        """The size of a saved state."""
        return STATE_HEAD_BYTES + sum(padded(v.type.nbytes) for v in self.variables)

    @property
    def signature(self) -> int:
        """What a saved state must agree in with the library: names, dtypes, shapes, order."""
        return _hash(f"{v.name} {v.type}" for v in self.variables)

    @property
    def fingerprint(self) -> int:
        """What an instance must agree in with the library: the place of everything; never 0."""
        places = [f"{v.name} {v.type} {v.offset}" for v in self.variables]
        places += [f"{h.symbol.name} {h.offset}" for h in self.handles]
        return _hash((self.name, str(self.size), str(self.tapes), *places)) | 1


@dataclass(frozen=True, slots=True, eq=False)
class StepPrograms:
    """A step to give an interface to: the graph, which names its inputs and outputs.

    Its programs, one for each level, what their functions are called, by the statuses of these what
    has failed, and by the numbers of outputs the patterns of sparse matrices.
    """

    name: str
    graph: Graph
    programs: tuple[Program, ...]
    symbols: tuple[str, ...]
    messages: Mapping[int, str]
    patterns: Mapping[int, SparsityPattern] = field(default_factory=dict)


def pattern_symbols(library: str, step: str, slot: Slot) -> tuple[str, str]:
    """Return what the arrays of the pattern of an output are called: indptr and indices."""
    stem = f"{library}_{step}_{slot.c_name}"
    return f"{stem}_indptr", f"{stem}_indices"


def plan_interface(name: str, levels: Sequence[int], steps: Sequence[StepPrograms]) -> Interface:
    """Lay out the instance of a library and give everything in it a name."""
    programs = [p for step in steps for p in step.programs]
    states = dict.fromkeys(s.whole for p in programs for s in p.variables if s is not EFFECTS)
    tape_counts = [max(len(p.tapes) for p in step.programs) for step in steps]
    tapes = tuple(HEAD_BYTES + TAPE_BYTES * number for number in range(sum(tape_counts)))
    symbols = {f.name: f for p in programs for f in p.functions}.values()
    handles = _handles([s for s in symbols if s.is_handle], HEAD_BYTES + TAPE_BYTES * len(tapes))
    first_variable = _head_bytes(tapes, handles)
    names = distinct([state.name for state in states])
    variables, arena = [], first_variable
    for state, unique in zip(states, names, strict=True):
        variables.append(Stored(unique, state, arena))
        arena = _aligned(arena + state.type.nbytes)
    size = _aligned(arena + max(p.arena_bytes for p in programs))
    threads = max((kernel_parts(kernel) for p in programs for kernel in p.kernels), default=1)
    offsets = {stored.state: stored.offset for stored in variables}
    offsets[EFFECTS] = first_variable  # of no bytes
    by_name = {handle.symbol.name: handle for handle in handles}
    planned, first_tape, status_base = [], HEAD_BYTES, 0
    for step, count in zip(steps, tape_counts, strict=True):
        tables = [_table(p, arena, offsets, first_tape, by_name) for p in step.programs]
        planned.append(_step_interface(step, tables, status_base))
        first_tape += TAPE_BYTES * count
        status_base += max(step.messages, default=0)
    functions = tuple(s for s in symbols if not s.is_handle)
    return Interface(
        name, tuple(levels), tuple(variables), tapes, size, threads, tuple(planned), functions,
        handles, _ranks_of_parts(states),
    )  # fmt: skip


def _ranks_of_parts(states: Iterable[State]) -> dict[str, int]:
    """Return, by the names of groups, the ranks whose parts `states` are.

    But for shared slots before the first step, which are zeros on all ranks.
    """
    found = {}
    for state in states:
        sharding = state.sharding
        if sharding is None or sharding.group.size == 1:
            continue
        if sharding.axis is not None or read_states([state])[0].any():
            found[sharding.group.lineage[-1]] = sharding.group.rank
    return found


def _head_bytes(tapes: Sequence[int], handles: Sequence[Handle]) -> int:
    """Return where variables begin: behind the head, the tapes and the handles."""
    after_tapes = HEAD_BYTES + TAPE_BYTES * len(tapes)
    return _aligned(handles[-1].offset + WORD_BYTES if handles else after_tapes)


def _handles(symbols: Sequence[ForeignFunction], start: int) -> tuple[Handle, ...]:
    """Lay out handles from byte `start` of an instance on, behind the word of `connect`."""
    places = range(start + WORD_BYTES, start + WORD_BYTES * (len(symbols) + 1), WORD_BYTES)
    return tuple(Handle(*parts) for parts in zip(symbols, places, strict=True))


def _table(
    program: Program,
    arena: int,
    offsets: Mapping[State, int],
    first_tape: int,
    handles: Mapping[str, Handle],
) -> tuple[TableEntry, ...]:
    """Return what the table `state` of the function of `program` points at, slot by slot."""
    tapes = (first_tape + TAPE_BYTES * i for i in range(len(program.tapes)))
    variables = (offsets[state.whole] for state in program.variables)
    symbols = (handles.get(f.name, f) for f in program.functions)
    return (arena, WATCH_OFFSET, *variables, *program.constants, *tapes, *symbols)


def _step_interface(
    step: StepPrograms, tables: Sequence[tuple[TableEntry, ...]], status_base: int
) -> StepInterface:
    graph = step.graph
    inputs = [tensor.name or f"input{i}" for i, tensor in enumerate(graph.inputs)]
    outputs = [tensor.name or f"output{i}" for i, tensor in enumerate(graph.outputs)]
    c_names = c_identifiers(["self", *inputs, *outputs])[1:]
    types = [tensor.type for tensor in (*graph.inputs, *graph.outputs)]
    patterns = [None] * len(inputs) + [step.patterns.get(i) for i in range(len(outputs))]
    parts = zip([*inputs, *outputs], c_names, types, patterns, strict=True)
    slots = [Slot(*of_slot) for of_slot in parts]
    made = zip(step.symbols, tables, strict=True)
    return StepInterface(
        step.name,
        tuple(slots[: len(inputs)]),
        tuple(slots[len(inputs) :]),
        status_base,
        {status_base + status: message for status, message in step.messages.items()},
        tuple(Implementation(*parts) for parts in made),
    )


def padded(size: int) -> int:
    """Return the bytes that a value takes in a saved state: whole words of 8."""
    return -(-size // 8) * 8


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _hash(lines: Iterable[str]) -> int:
    digest = hashlib.blake2b(
        "\n".join(lines).encode("utf-8", "surrogatepass"), digest_size=8
    ).digest()
    return int.from_bytes(digest, "little")


def distinct(names: Sequence[str]) -> list[str]:
    """Return `names`, with a number after each that stands there before."""
    taken: set[str] = set()
    result = []
    for name in names:
        unique, number = name, 0
        while unique in taken or (unique != name and unique in names):
            number += 1
            unique = f"{name}_{number}"
        taken.add(unique)
        result.append(unique)
    return result


# Words of C, C++ or the GNU dialects that Python does not reserve.
_RESERVED = """
EOF NULL alignas alignof and_eq asm assert auto bitand bitor bool case catch char char16_t
char32_t char8_t co_await co_return co_yield compl concept const const_cast consteval constexpr
constinit decltype default delete do double dynamic_cast enum errno explicit export extern false
float friend goto inline int int16_t int32_t int64_t int8_t linux long mutable namespace new
noexcept not_eq nullptr operator or_eq private protected public register reinterpret_cast requires
restrict short signed size_t sizeof static static_assert static_cast stderr stdin stdout struct
switch template this thread_local throw true typedef typeid typename typeof typeof_unqual uint16_t
uint32_t uint64_t uint8_t union unix unsigned using virtual void volatile wchar_t xor xor_eq
"""
# Macros that <stdint.h>, which the header includes, defines as numbers.
_LIMIT = re.compile(r"[A-Z][A-Z0-9_]*_(MIN|MAX|WIDTH)")


def is_identifier(name: str) -> bool:
    """Return whether `name` can be part of the name of a function of C."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None


def c_identifiers(names: Sequence[str]) -> list[str]:
    """Name mangling: return distinct identifiers of C and C++ that look like `names`."""
    plain = [re.sub(r"[^A-Za-z0-9_]", "_", name) for name in names]
    led = [n if is_identifier(n) else f"x{n}" for n in plain]
    reserved = {*_RESERVED.split(), *keyword.kwlist}
    taken = [f"{n}_" if n in reserved or _LIMIT.fullmatch(n) else n for n in led]
    return distinct(taken)
