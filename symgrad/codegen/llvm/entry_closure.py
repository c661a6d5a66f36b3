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

import re
import struct

from symgrad.records import dataclass

MOST_PASSED = 512  # of an entry; a longer one is cut into parts, which are no closures

_SYMBOL = r'@"((?:k|leaf)\.[0-9a-f]{32})"'
_CALL = re.compile(rf"  (?:%\S+ = )?call \S+ {_SYMBOL}\(")
_OFFSET = re.compile(r"  %\S+ = getelementptr inbounds i8, ptr %\S+, i64 \d+")
_PASSED = re.compile(rf"(?:ptr )?{_SYMBOL}|\bi64 (-?\d+)\b|\b(float|double) (0x[0-9a-f]{{16}})\b")
_HEAD = re.compile(r'define internal i32 @"[^"]*"\(ptr %\.0, ptr %\.1, ptr %\.2\) noinline optnone')


@dataclass(frozen=True, slots=True, eq=False)
class EntryClosure:
    """An entry as a module: the text that it shares with others, and what it is passed.

    `passed` are symbols, and the numbers in 64 bits.
    """

    text: str
    passed: tuple[int | str, ...]


def entry_closure(module_text: str) -> EntryClosure | None:
    """Return a module of a function that does nothing but call as a closure, None of any other."""
    before, head, behind = module_text.partition("define ")
    body, _, rest = behind.partition("\n}\n")
    is_one = _HEAD.match(head + body) is not None and "\ndefine " not in f"\n{rest}"
    if not is_one or "!" in module_text:  # metadata has numbers, too
        return None
    first, *lines = body.split("\n")
    conversion = _Conversion()
    converted = [line for given in lines for line in conversion.lines(given)]
    if len(conversion.passed) > MOST_PASSED or any('@"' in line for line in converted):
        return None
    text = "\n".join([f"{before}define {first.removeprefix('internal ')}", *converted, "}\n"])
    return EntryClosure(text, tuple(conversion.passed))


class _Conversion:
    def __init__(self) -> None:
        self.passed: list[int | str] = []

    def lines(self, line: str) -> list[str]:
        """Return a line of a function behind those that load what it is passed."""
        if not (" call " in line and _CALL.match(line)) and not _OFFSET.fullmatch(line):
            return [line]
        loads: list[str] = []

        def load(found: re.Match[str]) -> str:
            symbol, integer, kind, bits = found.groups()
            number = len(self.passed)
            if symbol is not None:
                self.passed.append(symbol)
                kind = "ptr"
            elif integer is not None:
                self.passed.append((int(integer) + (1 << 63)) % (1 << 64) - (1 << 63))
                kind = "i64"
            else:
                self.passed.append(_in_64_bits(kind, bits))
            place = f"%at{number} = getelementptr inbounds i8, ptr %.2, i64 {-8 * (number + 1)}"
            loads.extend(
                [f"  {place}", f"  %passed{number} = load {kind}, ptr %at{number}, align 8"]
            )
            is_callee = symbol is not None and not found[0].startswith("ptr ")
            return f"%passed{number}" if is_callee else f"{kind} %passed{number}"

        converted = _PASSED.sub(load, line)  # names without a dot are no builder's
        return [*loads, converted]


def _in_64_bits(kind: str, bits: str) -> int:
    """Return the bits of a float, which LLVM writes as those of a double."""
    stated = struct.pack("<Q", int(bits, 16))
    if kind == "float":
        (value,) = struct.unpack("<d", stated)
        stated = struct.pack("<f", value) + bytes(4)
    (number,) = struct.unpack("<q", stated)
    return int(number)
