"""Programs from text, as `program/print.py` writes it or as people do.

A kernel begins at a line `kernel @name...` and ends at a line `}`; `loops/parse.py` reads it. The
rest is read for its form and for what names stand for. Variables start at zero. Whether the program
makes sense is for `verify_program` to say.

    program  := "program" "@" name "arena" "(" bytes ")" [polls] "{" {memory} {routine} {instr} "}"
    polls    := "polls" "(" loop ":" cycles {"," loop ":" cycles} ")"
    routine  := "routine" "@" name "scratch" "(" buffer ")" "{" {memory} {instr} "}"
    extern   := "extern" string arguments "->" arguments ["workspace" "(" buffer ")"]
                "passing" layout "else" "(" status ")"
    argument := buffer {"[" "iteration" "of" "loop" number [":" type] "]"}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import cast, get_args

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.arena import Lifetimes, placed
from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    ExternInstr,
    Instr,
    Launch,
    Program,
    Register,
    RegisterMode,
    Routine,
    ScanInstr,
    Slice,
    SwitchInstr,
    WhileInstr,
    routines_of,
)
from symgrad.codegen.program.parse_parts import layout_of, parse_kernels
from symgrad.codegen.program.print import slice_type
from symgrad.errors import GraphError
from symgrad.graph.foreign_functions import ForeignFunction, is_symbol
from symgrad.graph.text.tokens import Token, Tokens, error_at
from symgrad.graph.text.values import Values, as_literal, check_storable, unquote
from symgrad.graph.types import UNBOUNDED, ArrayLiteral, State, TensorType
from symgrad.passes.fusion.buffers import Buffer, BufferPlace
from symgrad.records import dataclass

_SLICES = 60  # of one another, far below what Python's stack takes
# What is counted from 0 in the order of the text; temporaries have any numbers.
_BUFFER = re.compile(r"(?P<place>[a-z]+)(?P<number>0|[1-9][0-9]{0,17})")


def parse_program(text: str) -> Program:
    """Return the program that `text` states.

    Raises `GraphError`, with the line of the text, for what is no program.
    """
    kernels, rest = parse_kernels(text)
    try:
        return _ProgramParser(rest, kernels).program()
    except GraphError as error:
        raise GraphError("program text", error.problem) from error


@dataclass(frozen=True, slots=True)
class _Memory:
    """The memory that the text has declared so far, by names, and what is said of it."""

    buffers: dict[str, Buffer]
    types: dict[BufferPlace, list[TensorType]] = field(default_factory=dict)
    variables: list[State] = field(default_factory=list)
    constants: list[ArrayLiteral] = field(default_factory=list)
    offsets: dict[Buffer, int] = field(default_factory=dict)
    lifetimes: Lifetimes = field(default_factory=dict)

    def types_of(self, place: BufferPlace) -> tuple[TensorType, ...]:
        return tuple(self.types.get(place, ()))


class _ProgramParser:
    """Reads one program; `_memory` is that of the routine or of the program being read."""

    def __init__(self, text: str, kernels: dict[str, Kernel]) -> None:
        self._tokens = Tokens(text)
        self._values = Values(self._tokens, text)
        self._kernels = kernels
        self._routines: dict[str, Routine] = {}
        self._memory = _Memory({})
        self._readers: dict[str, Callable[[], Instr]] = {
            "launch": self._launch,
            "switch": self._switch,
            "while": self._while,
            "scan": self._scan,
            "call": self._call,
            "extern": self._extern,
        }

    def program(self) -> Program:
        self._tokens.expect("program")
        name = self._name()
        size = self._numbers("arena", 1)[0]
        polled = self._polls() if self._tokens.take_if("polls") else {}
        self._tokens.expect("{")
        self._declarations(("input", "output", "variable", "constant", "tape", "temporary"))
        while self._tokens.next.text == "routine":
            self._routine()
        instrs = self._instrs()
        if self._tokens.next.kind != "end":
            raise self._tokens.wrong("expected the end of the text")
        memory = self._memory
        program = Program(
            name=name,
            inputs=memory.types_of("input"),
            outputs=memory.types_of("output"),
            variables=tuple(memory.variables),
            constants=tuple(memory.constants),
            tapes=memory.types_of("tape"),
            kernels=tuple(self._kernels.values()),
            instrs=instrs,
            routines=tuple(self._routines.values()),
            offsets={},
            lifetimes={},
            arena_bytes=size,
            polled=polled,
        )
        return placed(program, memory.offsets, memory.lifetimes, size)

    def _polls(self) -> dict[int, int]:
        """Read `(0: 137, 1: 20)`."""
        line = self._tokens.expect("(").line
        pairs = list(self._values.list_until(")", self._poll))
        polled = dict(pairs)
        if len(polled) < len(pairs):
            raise error_at(line, "a loop polls twice")
        return polled

    def _poll(self) -> tuple[int, int]:
        number = self._values.integer()
        self._tokens.expect(":")
        return number, self._values.integer()

    def _routine(self) -> None:
        line = self._tokens.expect("routine").line
        name = self._name()
        self._tokens.expect("scratch")
        self._tokens.expect("(")
        scratch = self._buffer()
        self._tokens.expect(")")
        self._tokens.expect("{")
        if name in self._routines:
            raise error_at(line, f"there are two routines @{name}")
        around = self._memory
        shared = ("variable", "constant", "tape")
        self._memory = _Memory({n: b for n, b in around.buffers.items() if b.place in shared})
        self._declarations(("input", "output", "temporary"))
        instrs = self._instrs()
        memory, self._memory = self._memory, around
        self._routines[name] = Routine(
            name=name,
            inputs=memory.types_of("input"),
            outputs=memory.types_of("output"),
            instrs=instrs,
            scratch=scratch,
            offsets=memory.offsets,
            inner=routines_of(instrs),
        )

    # --------------------------------------------------------------------------------- memory

    def _declarations(self, places: Sequence[BufferPlace]) -> None:
        while (found := _BUFFER.fullmatch(self._tokens.next.text)) is not None:
            token = self._tokens.take()
            place = next((place for place in places if place == found["place"]), None)
            if place is None:
                raise error_at(token.line, f"{token.text} cannot be declared here")
            self._declaration(token, place, int(found["number"]))

    def _declaration(self, token: Token, place: BufferPlace, number: int) -> None:
        memory = self._memory
        self._tokens.expect(":")
        if place == "tape":
            self._tokens.expect("slices")
            self._tokens.expect("of")
        type_ = self._type(token.line)
        types = memory.types.setdefault(place, [])
        if token.text in memory.buffers:
            raise error_at(token.line, f"{token.text} is declared twice")
        if place != "temporary" and number != len(types):
            raise error_at(token.line, f"expected {place}{len(types)}, found {token.text}")
        if place == "tape":
            type_ = type_.with_shape((UNBOUNDED, *type_.shape))
        types.append(type_)
        buffer = memory.buffers[token.text] = Buffer(place, number, type_)
        if place == "variable":
            memory.variables.append(self._state(type_, token.line))
        elif place == "constant":
            self._tokens.expect("=")
            memory.constants.append(as_literal(self._values.value(), type_, token.line))
        elif place == "temporary":
            self._placing(buffer)

    def _type(self, line: int) -> TensorType:
        type_ = self._values.type()
        if not type_.is_static:
            raise error_at(line, f"{type_} has a size that is not known")
        check_storable(type_, line)
        return type_

    def _state(self, type_: TensorType, line: int) -> State:
        self._expect_all("{", "name", "=")
        name = self._values.string()
        self._expect_all(",", "trainable", "=")
        trainable = self._tokens.take()
        if trainable.text not in ("true", "false"):
            raise error_at(trainable.line, "a variable is trainable, true or false")
        self._tokens.expect("}")
        try:
            return State.zeros(type_, name=name, trainable=trainable.text == "true")
        except MemoryError as error:
            raise error_at(line, f"no memory for a variable {type_}") from error

    def _placing(self, buffer: Buffer) -> None:
        if self._tokens.take_if("at"):
            self._memory.offsets[buffer] = self._values.integer()
        if self._tokens.take_if("alive"):
            first = self._values.integer()
            self._tokens.expect("to")
            self._memory.lifetimes[buffer] = (first, self._values.integer())

    # -------------------------------------------------------------------------- small things

    def _expect_all(self, *texts: str) -> None:
        for text in texts:
            self._tokens.expect(text)

    def _name(self) -> str:
        token = self._tokens.expect_kind("graph", "a name such as @step")
        name = token.text[1:]
        return unquote(name, token.line) if name.startswith('"') else name

    def _numbers(self, word: str, count: int | None = None) -> tuple[int, ...]:
        """Read `word(1, 2)`, with as many numbers as `count` says."""
        line = self._tokens.expect(word).line
        self._tokens.expect("(")
        numbers = self._values.list_until(")", self._values.integer)
        if count is not None and len(numbers) != count:
            raise error_at(line, f"{word} has {len(numbers)} numbers, not {count}")
        return tuple(numbers)

    def _buffer(self) -> Buffer:
        token = self._tokens.expect_kind("word", "a buffer such as input0")
        if token.text not in self._memory.buffers:
            raise error_at(token.line, f"{token.text} is not declared")
        return self._memory.buffers[token.text]

    def _argument(self) -> Argument:
        argument, start = self._argument_from()
        if start:
            raise self._tokens.wrong(f"only a launch begins at element {start}")
        return argument

    def _argument_from(self) -> tuple[Argument, int]:
        """Read an argument, and the element a kernel begins at."""
        argument: Argument = self._buffer()
        start = depth = 0
        while not start and self._tokens.take_if("["):
            depth += 1
            if depth > _SLICES:
                raise self._tokens.wrong(f"a slice of more than {_SLICES} slices")
            if self._tokens.next.kind == "int":
                start = self._values.integer()
            else:
                argument = self._slice(argument)
            self._tokens.expect("]")
        return argument, start

    def _slice(self, stack: Argument) -> Slice:
        line = self._tokens.next.line
        self._expect_all("iteration", "of", "loop")
        number = self._values.integer()
        type_ = self._type(line) if self._tokens.take_if(":") else slice_type(stack)
        if type_ is None:
            raise error_at(line, f"a slice of {stack.type} names no type")
        return Slice(stack, number, type_)

    def _arguments(self) -> tuple[Argument, ...]:
        self._tokens.expect("(")
        return tuple(self._values.list_until(")", self._argument))

    # --------------------------------------------------------------------------- instructions

    def _instrs(self) -> tuple[Instr, ...]:
        """Read instructions up to the brace behind them, and that."""
        instrs: list[Instr] = []
        with self._values.nested():
            while not self._tokens.take_if("}"):
                if self._tokens.next.text not in self._readers:
                    raise self._tokens.wrong("expected an instruction")
                instrs.append(self._readers[self._tokens.take().text]())
        return tuple(instrs)

    def _block(self) -> tuple[Instr, ...]:
        self._tokens.expect("{")
        return self._instrs()

    def _launch(self) -> Launch:
        token = self._tokens.next
        name = self._name()
        if name not in self._kernels:
            raise error_at(token.line, f"there is no kernel @{name}")
        self._tokens.expect("(")
        places = self._values.list_until(")", self._argument_from)
        statuses = self._numbers("else") if self._tokens.next.text == "else" else ()
        # The comment has been read with the word behind it, wherever that is.
        label = self._tokens.comment(token.line).removeprefix("//").removeprefix(" ")
        arguments, starts = (tuple(a for a, _ in places), tuple(s for _, s in places))
        return Launch(label, self._kernels[name], arguments, starts, statuses)

    def _switch(self) -> SwitchInstr:
        index = self._argument()
        self._tokens.expect("{")
        branches: list[tuple[Instr, ...]] = []
        while not self._tokens.take_if("}"):
            line = self._tokens.expect("case").line
            if self._values.integer() != len(branches):
                raise error_at(line, f"expected case {len(branches)}")
            branches.append(self._block())
        return SwitchInstr(index, tuple(branches))

    def _while(self) -> WhileInstr:
        self._tokens.expect("loop")
        number = self._values.integer()
        capacity = self._limit() if self._tokens.next.text == "at" else 0
        tapes, registers = self._tapes(), self._registers()
        self._tokens.expect("->")
        count, condition = self._buffer(), self._block()
        test, body = self._buffer(), self._block()
        return WhileInstr(number, condition, test, body, count, capacity, tapes, registers)

    def _scan(self) -> ScanInstr:
        self._tokens.expect("loop")
        number, trips, capacity = self._values.integer(), self._argument(), self._limit()
        reverse = self._tokens.take_if("backwards")
        tapes, registers = self._tapes(), self._registers()
        return ScanInstr(number, trips, self._block(), capacity, reverse, tapes, registers)

    def _limit(self) -> int:
        self._expect_all("at", "most")
        return self._values.integer()

    def _tapes(self) -> tuple[Slice, ...]:
        if not self._tokens.take_if("tapes"):
            return ()
        line, arguments = self._tokens.next.line, self._arguments()
        if not all(isinstance(argument, Slice) for argument in arguments):
            raise error_at(line, "what grows is a slice of a tape")
        return cast("tuple[Slice, ...]", arguments)

    def _registers(self) -> tuple[Register, ...]:
        if not self._tokens.take_if("registers"):
            return ()
        self._tokens.expect("(")
        return tuple(self._values.list_until(")", self._register))

    def _register(self) -> Register:
        for mode in get_args(RegisterMode):
            if self._tokens.take_if(mode):
                return Register(self._buffer(), mode)
        raise self._tokens.wrong("expected in, inout or local")

    def _call(self) -> CallInstr:
        token = self._tokens.next
        name = self._name()
        if name not in self._routines:
            raise error_at(token.line, f"there is no routine @{name} before this")
        inputs = self._arguments()
        self._tokens.expect("->")
        return CallInstr(self._routines[name], inputs, self._arguments())

    def _extern(self) -> ExternInstr:
        line = self._tokens.next.line
        name = self._values.string()
        if not is_symbol(name):
            raise error_at(line, f"{name!r} is no name of a function of C")
        inputs = self._arguments()
        self._tokens.expect("->")
        outputs = self._arguments()
        workspace = None
        if self._tokens.take_if("workspace"):
            self._tokens.expect("(")
            workspace = self._buffer()
            self._tokens.expect(")")
        self._tokens.expect("passing")
        layout = layout_of(self._values.value(), line)
        (status,) = self._numbers("else", 1)
        label = self._tokens.comment(line).removeprefix("//").removeprefix(" ")
        return ExternInstr(label, ForeignFunction(name), layout, inputs, outputs, workspace, status)
