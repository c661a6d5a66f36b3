"""Foreign functions (FFI): a function of C as an attribute, and the layout of what it is passed.

A layout lists the arguments of a call in their order. As an attribute, and in text, an argument is
a list of a word and values:

    ["in", 0]         const T *       the elements of operand 0, in row-major order
    ["out", 1]        T *             those of result 1
    ["workspace", 64] void *          the workspace, from its byte 64 on
    ["int32", 5]      int32_t         a number, "int64" for an int64_t
    ["int32*", 5]     int32_t *       the address of one, "int64*" for an int64_t
    ["char*", "V"]    const char *    a string
    ["status*"]       int32_t *       where the status is written, in the place of a result
    ["symbol", f]     const void *    the address of a symbol

So the conventions of Fortran, and of libraries with handles, are layouts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, assert_never

from symgrad.records import dataclass


class ProcessGroup(Protocol):
    """Processes that make collective calls together, each of which is one of its ranks."""

    @property
    def rank(self) -> int:
        """The number of this process in the group."""

    @property
    def size(self) -> int:
        """The number of processes of the group."""

    @property
    def lineage(self) -> tuple[str, ...]:
        """The names of the groups that this one is a part of, largest first, its own last."""

    def exchange(self, value: Any) -> list[Any]:
        """Return what each rank has given; all ranks call it."""

    def collect(self, value: Any) -> list[Any] | None:
        """Return on rank 0 what each rank has given, elsewhere None; all ranks call it."""

    def allocate(self, count: int) -> Any:
        """Return `count` bytes that all processes of the group see, None where there are none."""

    def settle(self) -> None:
        """End what was started by a step that failed: other ranks wait for it."""

    def counting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call`, which is one of all ranks, such that others can see that it runs."""

    def constants(self, names: Sequence[str]) -> list[int]:
        """Return the values that the library of the group gives to names, such as `MPI_FLOAT`.

        An export that calls the library finds its functions in the process from then on.
        """

    @property
    def value(self) -> int:
        """What the library takes for the group, as an int of 64 bits."""


@dataclass(frozen=True, slots=True)
class RankTable:
    """A rank of a group for each rank that asks, None where it is nobody."""

    group: ProcessGroup
    ranks: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class ForeignFunction:
    """A function of C: its symbol, and its address in this process where that is known.

    Without an `address` the symbol is looked up in the process when a program is loaded. `library`
    is what an export that calls it is linked with, such as "lapack". `owner` is kept alive with it;
    `hint` says what to do where the symbol is in no library of the process. `is_handle` marks a
    symbol whose address is a value, such as that of a communicator, which no linker knows; `group`
    are the processes that it stands for, and `chosen` the ranks of which it is the one for the rank
    that asks; else the library gives the value to the name. `gives_equal` says of a function that
    is called by a group that its results are the same on all ranks. `when` says of a function that
    starts something, or waits for it, that it is best called as early, or as late, as operands
    allow. `keeps_lock` says that it has to be called under Python's global lock.
    """

    name: str
    address: int | None = None
    library: str | None = field(default=None, compare=False)
    owner: object = field(default=None, compare=False, repr=False)
    hint: str | None = field(default=None, compare=False, repr=False)
    is_handle: bool = field(default=False, compare=False, repr=False)
    group: ProcessGroup | None = field(default=None, compare=False, repr=False)
    chosen: RankTable | None = field(default=None, compare=False, repr=False)
    gives_equal: bool = field(default=False, compare=False, repr=False)
    when: Literal["early", "late"] | None = field(default=None, compare=False, repr=False)
    keeps_lock: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PassedOperand:
    """A pointer to the elements of an operand, or of a result."""

    place: Literal["in", "out"]
    number: int


@dataclass(frozen=True, slots=True)
class PassedWorkspace:
    """A pointer into the workspace."""

    offset: int


@dataclass(frozen=True, slots=True)
class PassedNumber:
    """An integer, or with `is_pointer` the address of one."""

    bits: Literal[32, 64]
    value: int
    is_pointer: bool


@dataclass(frozen=True, slots=True)
class PassedText:
    """A pointer to a string that ends with a zero."""

    value: str


@dataclass(frozen=True, slots=True)
class PassedStatus:
    """A pointer to the int32 that is the status of the call."""


@dataclass(frozen=True, slots=True)
class PassedSymbol:
    """The address of a symbol, such as that of a handle of a library."""

    symbol: ForeignFunction


PassedArgument = (
    PassedOperand | PassedWorkspace | PassedNumber | PassedText | PassedStatus | PassedSymbol
)
Layout = tuple[PassedArgument, ...]

# What an argument is as an attribute of a node.
_AsAttribute = tuple[Any, ...]


def plain_layout(inputs: int, outputs: int, *, has_workspace: bool) -> tuple[_AsAttribute, ...]:
    """Return, as an attribute, the layout `f(in..., out..., workspace)`."""
    places = [("in", i) for i in range(inputs)] + [("out", i) for i in range(outputs)]
    return (*places, ("workspace", 0)) if has_workspace else tuple(places)


def read_layout(attribute: Iterable[_AsAttribute]) -> Layout:
    """Return the layout that an attribute says, whose sizes are known.

    Raises ValueError for what is none.
    """
    return tuple(map(_read_argument, attribute))


def _read_argument(attribute: _AsAttribute) -> PassedArgument:
    match attribute:
        case ("in" | "out" as place, int(number)):
            return PassedOperand(place, number)
        case ("workspace", int(offset)):
            return PassedWorkspace(offset)
        case ("int32" | "int32*" as word, int(value)) if -(2**31) <= value < 2**31:
            return PassedNumber(32, value, word.endswith("*"))
        case ("int64" | "int64*" as word, int(value)) if -(2**63) <= value < 2**63:
            return PassedNumber(64, value, word.endswith("*"))
        case ("char*", str(value)) if value.isascii() and "\0" not in value:
            return PassedText(value)
        case ("status*",):
            return PassedStatus()
        case ("symbol", ForeignFunction() as symbol):
            return PassedSymbol(symbol)
        case _:
            raise ValueError(f"{attribute} is no argument of a function of C")


def layout_attribute(layout: Layout) -> tuple[_AsAttribute, ...]:
    """Return a layout as an attribute."""
    return tuple(map(_attribute_of, layout))


def _attribute_of(argument: PassedArgument) -> _AsAttribute:
    match argument:
        case PassedOperand(place, number):
            return place, number
        case PassedWorkspace(offset):
            return "workspace", offset
        case PassedNumber(bits, value, is_pointer):
            return f"int{bits}{'*' if is_pointer else ''}", value
        case PassedText(value):
            return "char*", value
        case PassedStatus():
            return ("status*",)
        case PassedSymbol(symbol):
            return "symbol", symbol
        case _:
            assert_never(argument)


def symbols_in(function: ForeignFunction, layout: Layout) -> Iterator[ForeignFunction]:
    """Yield the function of a call, and the symbols it is passed."""
    yield function
    yield from (argument.symbol for argument in layout if isinstance(argument, PassedSymbol))


def is_symbol(name: object) -> bool:
    """Return whether `name` can be that of a function of C."""
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None
