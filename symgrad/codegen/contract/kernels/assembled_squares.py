"""Transpose of a square of vectors as one statement of inline assembly, for x86-64.

    vunpcklps  %zmm4, %zmm0, %zmm16     the lower halves of two lines in turns, within 128 bits
    vshuff32x4 $0x88, %zmm1, %zmm0, %zmm5     the even sectors of two lines
    vinsertf64x4 $1, (%rax), %zmm0, %zmm0     or half of another line, as it is loaded

These are the shuffles of `pack.py`, each of which is an instruction. Where LLVM selects them it
looks for fewer, which takes it ten times as long. Where shuffles have one unit only, a square that
is in memory is loaded by half lines, and a quarter of the shuffles are not needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import POINTER, Elements, index, scalar_type
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

    def load(self, line: int, places: Sequence[int | None], offset: int) -> None:
        """Load two halves to a line, so many bytes behind two places, or 0 where there is none."""
        low, high = places
        if low is None or high is None:
            self.text.append(f"vpxorq ${line}, ${line}, ${line}")
        else:
            self.text.append(f"vbroadcastf64x4 {offset}(${low}), ${line}")
            low = None  # it is in both halves
        for half, place in enumerate((low, high)):
            if place is not None:
                self.text.append(f"vinsertf64x4 $${half}, {offset}(${place}), ${line}, ${line}")

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


def can_load_halves(elements: Elements, lanes: int) -> bool:
    """Return whether squares of `lanes` by `lanes` elements in memory are loaded by half lines."""
    dtype, target = elements.compute, elements.target
    is_float = dtype.is_float and dtype.itemsize in (4, 8) and dtype == elements.stored
    is_whole = lanes * dtype.itemsize == target.vector_bytes == 64
    return target.shuffles_singly and is_float and is_whole


def emit_halves(
    builder: ir.IRBuilder, corner: ir.Value, apart: ir.Value, count: int, elements: Elements
) -> list[ir.Value]:
    """Return the columns of the square in memory at `corner`, of `count` lines that are `apart`.

    Lanes of lines that are not there are 0. Both halves of a line are loaded one after the other,
    since the nearest cache keeps few lines that are whole pages apart.
    """
    sector, way = 16 // elements.compute.itemsize, int(elements.compute.itemsize == 8)
    size, square = 4 * sector, _Square(4 * sector)
    places = [size + 1 + at for at in range(4)]
    for row in range(sector):
        square.text += [f"addq ${size + 5}, ${place}" for place in places if row]
        there = [place if at * sector + row < count else None for at, place in enumerate(places)]
        for half in (0, 1):
            line = 2 * sector * half + row
            square.load(line, there[:2], 32 * half)
            square.load(line + sector, there[2:], 32 * half)
    columns: list[int] = []
    for first in (0, 2 * sector):
        groups = [
            square.interleave([start + at for at in range(sector)], _INTERLEAVED[way])
            for start in (first, first + sector)
        ]
        pairs = [square.shuffle(pair, _SECTORS[64][way]) for pair in zip(*groups, strict=True)]
        columns += [line for lines in zip(*pairs, strict=True) for line in lines]
    starts = [corner]
    for _ in places[1:]:
        starts.append(elements.address(builder, starts[-1], builder.mul(apart, index(sector))))
    kind, target = ir.VectorType(scalar_type(elements.compute), size), elements.target
    constraints = [f"=&{target.register_constraint}"] * (size + 1) + ["=&r"] * len(places)
    constraints += ["r", *map(str, places), "~{memory}", "~{flags}"]
    given = [builder.mul(apart, index(elements.compute.itemsize)), *starts]
    gives = ir.LiteralStructType([kind] * (size + 1) + [POINTER] * len(places))
    function = ir.FunctionType(gives, [value.type for value in given])
    text = "\n    ".join(square.text)
    after = builder.asm(function, text, ",".join(constraints), given, side_effect=True)
    return [builder.extract_value(after, column) for column in columns]
