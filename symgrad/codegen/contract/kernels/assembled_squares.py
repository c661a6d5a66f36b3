"""Transpose of a square of vectors as one statement of inline assembly, for x86-64.

    vunpcklps  %zmm4, %zmm0, %zmm16     the lower halves of two lines in turns, within 128 bits
    vshuff32x4 $0x88, %zmm1, %zmm0, %zmm5     the even sectors of two lines

These are the shuffles of `pack.py`, each of which is an instruction. Where LLVM selects them it
looks for fewer, which takes it ten times as long.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.target import Target
from symgrad.graph.dtypes import DType

# Sectors of 128 bits of two lines, even ones and odd ones, by the bytes of a vector: the words of
# instructions, the last of which are for elements of four bytes and of eight.
_SECTORS = {
    32: (("vperm2f128 $$0x20", "vperm2f128 $$0x31"),) * 2,
    64: (
        ("vshuff32x4 $$0x88", "vshuff32x4 $$0xdd"),
        ("vshuff64x2 $$0x88", "vshuff64x2 $$0xdd"),
    ),
}
_INTERLEAVED = (("vunpcklps", "vunpckhps"), ("vunpcklpd", "vunpckhpd"))


def is_assembled_square(lines: list[ir.Value], dtype: DType, target: Target) -> bool:
    """Return whether the transpose of a square of vectors is a statement of assembly."""
    nbytes = len(lines) * dtype.itemsize
    is_float = dtype.is_float and dtype.itemsize in (4, 8)
    is_x86 = target.architecture == "x86_64"
    return is_x86 and is_float and nbytes == target.vector_bytes and nbytes in _SECTORS


class _Square:
    """Lines in registers, and one that is free: two lines become two others in place."""

    def __init__(self, size: int) -> None:
        self.text: list[str] = []
        self._free = size

    def shuffle(self, pair: tuple[int, int], names: tuple[str, str]) -> tuple[int, int]:
        """Shuffle a pair of lines in two ways, and return the registers that these are in."""
        (a, b), (first, second) = pair, names
        comma = ", " if "$$" in first else " "
        self.text += [
            f"{first}{comma}${b}, ${a}, ${self._free}",
            f"{second}{comma}${b}, ${a}, ${b}",
        ]
        made, self._free = self._free, a
        return made, b

    def interleave(self, lines: list[int], names: tuple[str, str]) -> list[int]:
        """Transpose the squares of sectors that lie side by side in lines."""
        for _ in range(len(lines).bit_length() - 1):
            half = len(lines) // 2
            pairs = zip(lines[:half], lines[half:], strict=True)
            lines = [line for pair in pairs for line in self.shuffle(pair, names)]
        return lines

    def transpose_sectors(self, lines: list[int], names: tuple[str, str]) -> list[int]:
        """Transpose a square of sectors."""
        if len(lines) == 1:
            return lines
        pairs = zip(lines[::2], lines[1::2], strict=True)
        shuffled = [self.shuffle(pair, names) for pair in pairs]
        halves = [list(half) for half in zip(*shuffled, strict=True)]
        evens, odds = [self.transpose_sectors(half, names) for half in halves]
        return [line for pair in zip(evens, odds, strict=True) for line in pair]


def emit_square(
    builder: ir.IRBuilder, lines: list[ir.Value], dtype: DType, target: Target
) -> list[ir.Value]:
    """Return the columns of a square of vectors, as `transpose` does."""
    size, sector = len(lines), 16 // dtype.itemsize
    way, square = int(dtype.itemsize == 8), _Square(size)
    groups = [
        square.interleave(list(range(start, start + sector)), _INTERLEAVED[way])
        for start in range(0, size, sector)
    ]
    names = _SECTORS[target.vector_bytes][way]
    columns = [
        square.transpose_sectors([group[c] for group in groups], names) for c in range(sector)
    ]
    kind, letter = lines[0].type, target.register_constraint
    constraints = ",".join([*[f"=&{letter}"] * (size + 1), *map(str, range(size))])
    gives = ir.LiteralStructType([kind] * (size + 1))
    function = ir.FunctionType(gives, [kind] * size)
    text = "\n    ".join(square.text)
    after = builder.asm(function, text, constraints, lines, side_effect=False)
    places = [columns[i % sector][i // sector] for i in range(size)]
    return [builder.extract_value(after, place) for place in places]
