"""Closure conversion of code: what an entry passes to kernels is read in front of its table.

    call void @"k.1ba6..."(ptr %.6, ptr @"leaf.d371...", i64 64)

becomes

    %passed0 = load ptr, ptr %at0          what is 8 bytes in front of the table
    %passed1 = load ptr, ptr %at1          what is 16 bytes in front of it
    %passed2 = load i64, ptr %at2
    call void %passed0(ptr %.6, ptr %passed1, i64 %passed2)

So of a step that is compiled for many sizes of a batch most entries have the code of the first one:
they call other kernels, pass other sizes to them and have their temporaries at other places.
"""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.codegen import ir
from symgrad.records import dataclass

MOST_PASSED = 512  # of an entry; a longer one is cut into parts, which are no closures

_ENTRY = ir.FunctionType(ir.IntType(32), [ir.PointerType()] * 3)
_PTR, _I64 = ir.PointerType(), ir.IntType(64)


@dataclass(frozen=True, slots=True, eq=False)
class EntryClosure:
    """An entry as a module: the text that it shares with others, and what it is passed.

    `passed` are symbols, and the numbers in 64 bits.
    """

    text: str
    passed: tuple[int | str, ...]


def entry_closure(entry: ir.LLVMFunction, symbols: Mapping[str, str]) -> EntryClosure | None:
    """Return a function that does nothing but call kernels as a closure, None for any other.

    `symbols` are those of kernels and leaf functions, by name.
    """
    if entry.function_type != _ENTRY or "optnone" not in entry.attributes:
        return None
    conversion = _Conversion(entry, symbols)
    lines = conversion.lines()
    if len(conversion.passed) > MOST_PASSED or any('@"' in line for line in lines):
        return None  # or it refers to what cannot be passed
    triple = entry.module.triple
    head = [f'target triple = "{triple}"'] if triple else []
    text = "\n".join([*head, f"{entry.header} {{", *lines, "}\n"])
    return EntryClosure(text, tuple(conversion.passed))


class _Conversion:
    def __init__(self, entry: ir.LLVMFunction, symbols: Mapping[str, str]) -> None:
        self.passed: list[int | str] = []
        self._entry = entry
        self._symbols = symbols
        self._loads: list[str] = []

    def lines(self) -> list[str]:
        """Return the body of the function, with what loads that in front of where it is used."""
        lines = []
        for block in self._entry.blocks:
            lines.append(f"{block.name}:")
            for instruction in block.instructions:
                line = instruction if isinstance(instruction, str) else self._line(instruction)
                lines += [*self._loads, line]
                self._loads.clear()
        return lines

    def _line(self, instruction: ir.Instruction) -> str:
        match instruction:
            case ir.FunctionCall(function=function):
                callee = self._loaded(function)
                return instruction.with_operands(
                    callee.ref, list(map(self._loaded, instruction.args))
                )
            case ir.ByteOffset(offset=offset):
                return instruction.with_operand(self._loaded(offset))
            case _:
                return instruction.line()

    def _loaded(self, value: ir.Value) -> ir.Value:
        """Return what is loaded in the place of `value`, itself if it is not passed."""
        if isinstance(value, ir.LLVMFunction):
            if value.name not in self._symbols:
                return value
            return self._load(_PTR, self._symbols[value.name])
        bits = value.bits() if isinstance(value, ir.Constant) else None
        return value if bits is None else self._load(value.type, bits)

    def _load(self, kind: ir.Type, passed: int | str) -> ir.Value:
        number = len(self.passed)  # names without a dot are no builder's
        self.passed.append(passed)
        self._loads += [
            f"  %at{number} = getelementptr inbounds i8, ptr %.2, i64 {-8 * (number + 1)}",
            f"  %passed{number} = load {kind.text}, ptr %at{number}, align 8",
        ]
        return ir.Value(kind, f"%passed{number}")
