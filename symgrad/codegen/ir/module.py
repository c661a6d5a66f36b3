"""Modules of LLVM IR: what an IR builder makes of variables, functions and blocks, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from symgrad.codegen.ir.types import Constant, FunctionType, LLVMValue, PointerType, Type


def symbol(name: str) -> str:
    """Return the text that refers to a global name, whatever characters it is of."""
    if name.isascii() and name.isprintable() and '"' not in name and "\\" not in name:
        return f'@"{name}"'
    quoted = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02x}" for b in name.encode())
    return f'@"{"".join(quoted)}"'


def _words(*words: str) -> str:
    return " ".join(filter(None, words))


class KnownFunction(NamedTuple):
    """A function whose code is elsewhere: its name, the types that it takes, and its digest."""

    name: str
    takes: tuple[str, ...]
    digest: str


class Module:
    """Functions and variables; its text is what LLVM parses.

    `made_of` are functions by what they were made of. Those `elsewhere` are declared only, and have
    the digests of their texts; `find` says what to declare of one that is to be made, if it knows.
    `merged` are functions that are not there any more, by name, each with what is called instead.
    """

    find: Callable[[Any], KnownFunction | None] = staticmethod(lambda _made_of: None)

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.triple = ""
        self.globals: dict[str, Any] = {}
        self.included: dict[LLVMFunction, LLVMFunction] = {}
        self.made_of: dict[Any, LLVMFunction] = {}
        self.elsewhere: dict[str, str] = {}
        self.merged: dict[str, tuple[LLVMFunction, LLVMFunction]] = {}
        self._metadata: list[str] = []

    @property
    def functions(self) -> list[LLVMFunction]:
        return [g for g in self.globals.values() if isinstance(g, LLVMFunction)]

    @property
    def metadata(self) -> tuple[str, ...]:
        """The lines of the nodes, in the order of their numbers."""
        return tuple(self._metadata)

    def add(self, made: LLVMFunction | GlobalVariable) -> None:
        """Add what has a name of its own."""
        assert made.name not in self.globals, f"{made.name} is there already"
        self.globals[made.name] = made

    def include(self, made: LLVMFunction) -> LLVMFunction:
        """Return a copy of a function that is finished in a module of its own, made once.

        `included` has the copies. The functions that it calls are of their names everywhere.
        """
        if made not in self.included:
            assert not made.module.metadata, (
                f"{made.name} has metadata, whose numbers are another's"
            )
            for called in made.module.globals.values():
                if called is not made:
                    self.globals.setdefault(called.name, called)
            self.included[made] = made.copied(self, self.get_unique_name(made.name))
        return self.included[made]

    def get_unique_name(self, name: str) -> str:
        """Return `name`, with a number behind it if that is taken."""
        unique, number = name, 0
        while unique in self.globals:
            number += 1
            unique = f"{name}.{number}"
        return unique

    def merge(self, function: LLVMFunction, into: LLVMFunction) -> None:
        """Take out a function that nothing calls any more: `into` is called instead."""
        del self.globals[function.name]
        self.merged[function.name] = function, into

    def add_metadata(self, operands: str) -> str:
        """Add a node and return what refers to it."""
        ref = f"!{len(self._metadata)}"
        self._metadata.append(f"{ref} = !{{{operands}}}")
        return ref

    def __str__(self) -> str:
        lines = [f'target triple = "{self.triple}"'] if self.triple else []
        for made in self.globals.values():
            lines += made.lines()
        return "\n".join([*lines, *self._metadata, ""])


class GlobalVariable(LLVMValue):
    """The address of a variable of the module, or of one elsewhere if nothing initializes it."""

    __slots__ = (
        "align",
        "global_constant",
        "initializer",
        "linkage",
        "name",
        "section",
        "value_type",
    )

    def __init__(self, module: Module, kind: Type, name: str) -> None:
        super().__init__(PointerType(), symbol(name))
        self.name = name
        self.value_type = kind
        self.linkage = ""
        self.global_constant = False
        self.initializer: Constant | None = None
        self.align: int | None = None
        self.section = ""
        module.add(self)

    def lines(self) -> Iterator[str]:
        linkage = self.linkage or ("external" if self.initializer is None else "")
        what = "constant" if self.global_constant else "global"
        value = self.value_type.text if self.initializer is None else str(self.initializer)
        align = "" if self.align is None else f", align {self.align}"
        section = f', section "{self.section}"' if self.section else ""
        yield _words(self.ref, "=", linkage, what, f"{value}{section}{align}")


class _Argument(LLVMValue):
    __slots__ = ("attributes",)

    def __init__(self, kind: Type, ref: str) -> None:
        super().__init__(kind, ref)
        self.attributes: list[str] = []

    def add_attribute(self, attribute: str) -> None:
        self.attributes.append(attribute)

    def declared(self) -> str:
        return " ".join((self.type.text, *self.attributes, self.ref))


class LLVMFunction(LLVMValue):
    """The address of a function; one without blocks is elsewhere.

    Every call passes `lifted` behind all other arguments.
    """

    __slots__ = (
        "_body",
        "_names",
        "args",
        "attributes",
        "blocks",
        "function_type",
        "lifted",
        "linkage",
        "module",
        "name",
    )

    def __init__(self, module: Module, kind: FunctionType, name: str) -> None:
        super().__init__(kind.as_pointer(), symbol(name))
        self.module = module
        self.name = name
        self.function_type = kind
        self.linkage = ""
        self.attributes: set[str] = set()
        self.blocks: list[Block] = []
        self.lifted: list[LLVMValue] = []
        self._body: Callable[[], str] | None = None
        self._names = len(kind.takes)
        self.args = [_Argument(t, f"%.{number}") for number, t in enumerate(kind.takes)]
        module.add(self)

    @property
    def is_declaration(self) -> bool:
        return not self.blocks

    def copied(self, module: Module, name: str) -> LLVMFunction:
        """Return this function, to which nothing is added any more, in another module."""
        if self._body is None:
            text = "\n".join(self._lines_of_blocks())
            self._body = lambda: text
        return self.like(module, name, self._body)

    def like(self, module: Module, name: str, body: Callable[[], str]) -> LLVMFunction:
        """Return a function as this one, with the lines of blocks that `body` gives."""
        copy = LLVMFunction(module, self.function_type, name)
        copy.linkage, copy.attributes = self.linkage, set(self.attributes)
        copy.args, copy.blocks, copy._body = self.args, self.blocks, body
        return copy

    def lift(self, value: LLVMValue) -> LLVMValue:
        """Lambda lifting: add a parameter for which every call passes `value`, and return it."""
        self.lift_each([value])
        return self.args[-1]

    def lift_each(self, values: Sequence[LLVMValue]) -> None:
        """Add a parameter for each of some values, as `lift` does for one."""
        takes, result = self.function_type.takes, self.function_type.return_type
        self.function_type = FunctionType(result, [*takes, *(value.type for value in values)])
        self.type = self.function_type.as_pointer()
        self.lifted += values
        self.args += [_Argument(value.type, f"%.{self.new_name()}") for value in values]

    def new_name(self) -> int:
        """Return a number that no value and no block of the function has."""
        number = self._names
        self._names = number + 1
        return number

    def append_basic_block(self, name: str = "block") -> Block:
        """Append a block; in the first one the function begins."""
        label = f"{name}.{self.new_name()}" if self.blocks else name
        block = Block(self, label)
        self.blocks.append(block)
        return block

    @property
    def header(self) -> str:
        """What stands in front of the body, whether there is one or not."""
        takes = ", ".join(argument.declared() for argument in self.args)
        named = self.function_type.return_type.text, f"{self.ref}({takes})"
        return _words("define", self.linkage, *named, *sorted(self.attributes))

    def lines(self) -> Iterator[str]:
        if not self.blocks:
            takes = ", ".join(t.text for t in self.function_type.takes)
            result = self.function_type.return_type.text
            yield _words("declare", result, f"{self.ref}({takes})", *sorted(self.attributes))
            return
        yield f"{self.header} {{"
        yield from self._lines_of_blocks() if self._body is None else (self._body(),)
        yield "}"

    def _lines_of_blocks(self) -> Iterator[str]:
        for block in self.blocks:
            yield f"{block.name}:"
            for instruction in block.instructions:
                yield instruction if isinstance(instruction, str) else instruction.line()


class Block:
    """Instructions that run one after another, up to a branch or a return."""

    __slots__ = ("function", "instructions", "is_terminated", "name", "ref")

    def __init__(self, function: LLVMFunction, name: str) -> None:
        self.function = function
        self.name = name
        self.ref = f"%{name}"
        self.instructions: list[str | Instruction] = []
        self.is_terminated = False


# What is known only after it was appended.


class FunctionCall:
    """A call of a function, or of what that was merged into; `result` is "" without one."""

    __slots__ = ("args", "function", "result")

    def __init__(self, function: LLVMFunction, args: Sequence[LLVMValue], result: str) -> None:
        self.function = function
        self.args = [*args]
        self.result = result

    def redirect(self, merged: LLVMFunction, more: Sequence[LLVMValue]) -> None:
        """Call another function, behind whose other arguments it passes some `more`."""
        self.function = merged
        self.args += more

    def line(self) -> str:
        return self.with_operands(self.function.ref, self.args)

    def with_operands(self, callee: str, args: Sequence[LLVMValue]) -> str:
        """Return the line with another `callee`, as text that refers to it, and arguments."""
        kind = self.function.function_type.return_type.text
        given = f"{self.result} = " if self.result else ""
        return f"  {given}call {kind} {callee}({', '.join(map(str, args))})"


class ByteOffset(LLVMValue):
    """The address that lies a number of bytes behind another one."""

    __slots__ = ("base", "offset")

    def __init__(self, ref: str, base: LLVMValue, offset: LLVMValue) -> None:
        super().__init__(PointerType(), ref)
        self.base = base
        self.offset = offset

    def line(self) -> str:
        return self.with_operand(self.offset)

    def with_operand(self, offset: LLVMValue) -> str:
        """Return the line with another offset."""
        return f"  {self.ref} = getelementptr inbounds i8, {self.base}, {offset}"


class Phi(LLVMValue):
    """The value that belongs to the block from which this one was entered."""

    __slots__ = ("incoming",)

    def __init__(self, kind: Type, ref: str) -> None:
        super().__init__(kind, ref)
        self.incoming: list[tuple[LLVMValue, Block]] = []

    def add_incoming(self, value: LLVMValue, block: Block) -> None:
        self.incoming.append((value, block))

    def line(self) -> str:
        pairs = ", ".join(f"[ {value.ref}, {block.ref} ]" for value, block in self.incoming)
        return f"  {self.ref} = phi {self.type.text} {pairs}"


class Alloca(LLVMValue):
    """The address of memory that lives as long as the call of the function."""

    __slots__ = ("align", "allocated", "count")

    def __init__(self, ref: str, allocated: Type, count: LLVMValue | None) -> None:
        super().__init__(PointerType(), ref)
        self.allocated = allocated
        self.count = count
        self.align: int | None = None

    def line(self) -> str:
        count = "" if self.count is None else f", {self.count}"
        align = "" if self.align is None else f", align {self.align}"
        return f"  {self.ref} = alloca {self.allocated.text}{count}{align}"


class Branch:
    """A jump, to one of two blocks if it has a condition."""

    __slots__ = ("_metadata", "_text", "module")

    def __init__(
        self, module: Module, condition: LLVMValue | None, targets: Sequence[Block]
    ) -> None:
        self.module = module
        labels = ", ".join(f"label {block.ref}" for block in targets)
        self._text = f"  br {labels}" if condition is None else f"  br {condition}, {labels}"
        self._metadata = ""

    def set_metadata(self, kind: str, node: str) -> None:
        """Say something of the branch that `Module.add_metadata` has made a node of."""
        self._metadata += f", !{kind} {node}"

    def line(self) -> str:
        return self._text + self._metadata


class SwitchBranch:
    """A jump to the block of a number."""

    __slots__ = ("_cases", "_default", "_value")

    def __init__(self, value: LLVMValue, default: Block) -> None:
        self._value = value
        self._default = default
        self._cases: list[tuple[Constant, Block]] = []

    def add_case(self, value: Constant, block: Block) -> None:
        self._cases.append((value, block))

    def line(self) -> str:
        cases = " ".join(f"{value}, label {block.ref}" for value, block in self._cases)
        return f"  switch {self._value}, label {self._default.ref} [ {cases} ]"


Instruction = ByteOffset | FunctionCall | Phi | Alloca | Branch | SwitchBranch
