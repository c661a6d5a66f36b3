"""Inline assembly of a GEMM microkernel's steps of k, and what an address of x86 takes.

    vmovups      (%rsi), %zmm27             a row of the right
    vbroadcastss (%rdi,%r9), %zmm30         an element of the left, for all lanes
    vfmadd231ps  %zmm27, %zmm30, %zmm3      its products, added to a vector of sums

Sums are the first vectors of a statement, row by row, then come a row of the right and an element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import INDEX
from symgrad.codegen.contract.kernels.prefetching import shared_out
from symgrad.codegen.contract.kernels.register_tile import Microkernel
from symgrad.codegen.contract.kernels.walking import Walk, told_row

# The mask of the elements that fill no vector of the right.
MASK = "%k1"
# General registers of a statement that begin as nothing.
SCRATCH = 3


class Statement:
    """Lines of assembly with the operands they name: a value has one, however often it is named.

    The first operands are registers that it writes: those `changed`, which begin as values given,
    `scratch`, which are two for any use and one for the step of k, and `vectors`, as many as steps
    of k take. LLVM is slow to find registers that are stated by their names.
    """

    def __init__(self, kernel: Microkernel, changed: Sequence[ir.Value], spare: int) -> None:
        count = len(changed) + SCRATCH
        self.changed = list(changed)
        first, second, self.step = (f"${number}" for number in range(len(changed), count))
        self.scratch = first, second, self.step
        self.vectors = [f"${count + number}" for number in range(registers_of(kernel))]
        letter = kernel.left.target.register_constraint
        scratch = [("=&r", INDEX)] * SCRATCH
        vectors = [(f"=&{letter}", kernel.vector_type)] * len(self.vectors)
        self._written = [*(("=&r", value.type) for value in changed), *scratch, *vectors]
        self._spare = spare
        self._lines: list[str] = []
        self._first = len(self._written) + len(changed)
        self._inputs: dict[tuple[str, str], ir.Value] = {}
        self._names: dict[tuple[str, str], str] = {
            ("r", value.ref): f"${number}" for number, value in enumerate(changed)
        }

    def write(self, *lines: str) -> None:
        """Append some lines."""
        self._lines += lines

    def register(self, value: ir.Value) -> str:
        """Return the register that a value is in."""
        return self._named("r", value)

    def number(self, value: ir.Value) -> str:
        """Return what an instruction reads a value from: itself, a register or the stack."""
        if isinstance(value, ir.Constant):
            return f"$${value.number}"
        is_known = ("m", value.ref) in self._names or ("r", value.ref) in self._names
        if not is_known and self._spare:
            self._spare -= 1
            return self._named("r", value)
        return self._named("r" if ("r", value.ref) in self._names else "m", value)

    def pointer(self, value: ir.Value, scratch: str) -> str:
        """Return a register that a value is in: its own, or `scratch`, to which it is read."""
        place = self.number(value)
        if ("r", value.ref) in self._names:
            return place
        self.write(f"movq {place}, {scratch}")
        return scratch

    def _named(self, kind: str, value: ir.Value) -> str:
        key = kind, value.ref
        if key not in self._names:
            self._names[key] = f"${self._first + len(self._inputs)}"
            self._inputs[key] = value
        return self._names[key]

    def emit(self, builder: ir.IRBuilder, clobbered: Sequence[str] = ()) -> None:
        """Emit the statement, which changes memory and what is `clobbered`."""
        takes = [*self.changed, *self._inputs.values()]
        constraints = [
            *(constraint for constraint, _ in self._written),
            *map(str, range(len(self.changed))),
            *(kind for kind, _ in self._inputs),
            *(f"~{{{name.removeprefix('%')}}}" for name in (*clobbered, "memory", "flags")),
        ]
        gives = ir.LiteralStructType([kind for _, kind in self._written])
        kind = ir.FunctionType(gives, [value.type for value in takes])
        text = "\n    ".join(self._lines)
        builder.asm(kind, text, ",".join(constraints), takes, side_effect=True)


class Address(NamedTuple):
    """What an instruction of x86 finds in memory: a base, and a register once, 2, 4 or 8 times."""

    base: str
    displacement: int = 0
    register: str = ""
    scale: int = 1

    def __str__(self) -> str:
        scaled = f",{self.register},{self.scale}" if self.register else ""
        return f"{self.displacement or ''}({self.base}{scaled})"

    def further(self, nbytes: int) -> Address:
        """Return the address so many bytes further."""
        return self._replace(displacement=self.displacement + nbytes)


def behind(statement: Statement, address: Address, count: ir.Value, size: int) -> Address:
    """Return the address so many elements of a size behind another one."""
    if isinstance(count, ir.Constant):
        return address.further((count.number or 0) * size)
    if address.register:
        statement.write(f"leaq {address}, {statement.scratch[0]}")
        address = Address(statement.scratch[0])
    return address._replace(register=statement.register(count), scale=size)


def instruction(kernel: Microkernel, name: str) -> str:
    """Return an instruction with the letter of the dtype: of single or of double precision."""
    return name + ("s" if kernel.left.compute.itemsize == 4 else "d")


def registers_of(kernel: Microkernel) -> int:
    """Return how many vector registers steps of k take: an element that is folded takes none."""
    return (kernel.rows + 1) * kernel.vectors + (not _is_folded(kernel))


def _is_folded(kernel: Microkernel) -> bool:
    """Return whether the multiply-add of an element, which is the only one, reads it itself."""
    return kernel.vectors == 1 and kernel.left.target.folds_broadcasts


def write_step(statement: Statement, kernel: Microkernel, operands: Walk, number: int) -> None:
    """Write the step `number` of an iteration: an element of each row times a row of the right."""
    size, line = kernel.right.stored.itemsize, kernel.right.target.memory.line_bytes
    right = Address(statement.register(operands.right))
    if isinstance(operands.right_step, ir.Constant):
        right = right.further(number * (operands.right_step.number or 0) * size)
    elif number:
        step = statement.register(operands.right_step)
        statement.write(f"leaq ({right.base},{step},{size}), {right.base}")
    if kernel.left_ahead:
        begin = Address(statement.register(operands.left))
        begin = behind(statement, begin, operands.steps[number], size)
        place = behind(statement, begin, operands.ahead, size)
        _prefetch(statement, place, kernel.rows * size, line, "t0" if kernel.brings_near else "t1")
    if kernel.right_ahead:
        place = behind(statement, right, operands.right_ahead, size)
        hint = "t0" if kernel.brings_right_near else "t1"
        _prefetch(statement, place, kernel.columns * size, line, hint)
        if kernel.brings_right_near:
            _prefetch(statement, place.further((kernel.columns - 1) * size), size, line, "t0")
    near: list[Address] = []
    if kernel.right_near:
        place = right.further(kernel.right_near)
        near += (place.further(start) for start in range(0, kernel.columns * size, line))
    if kernel.left_near:
        near += _left_near(statement, kernel, operands, number)
    _write_row(statement, kernel, operands, (right, number))
    # One by one: few lines can be on their way at a time.
    prefetching = [f"prefetcht0 {place}" for place in near]
    prefetching += _prefetching_product(statement, kernel, operands, number)
    _write_products(statement, kernel, operands, (number, prefetching))


def _prefetch(
    statement: Statement, place: Address, nbytes: int, line: int, hint: str = "t1"
) -> None:
    statement.write(*(f"prefetch{hint} {place.further(start)}" for start in range(0, nbytes, line)))


def _left_near(
    statement: Statement, kernel: Microkernel, operands: Walk, number: int
) -> list[Address]:
    """Return which lines of a packed left, or of some rows, the nearest cache is to have."""
    if kernel.has_packed_left:
        begin = Address(statement.register(operands.left)).further(kernel.left_near)
        size, line = kernel.left.stored.itemsize, kernel.left.target.memory.line_bytes
        first, stop = (step * kernel.left_k.stride * size for step in (number, number + 1))
        return [begin.further(start) for start in range(-(-first // line) * line, stop, line)]
    rows = [r for r in range(kernel.rows) if r * kernel.unrolled // kernel.rows == number]
    near: list[Address] = []
    for row in rows:
        place = _place_of_left(statement, kernel, operands, (row, number)).further(kernel.left_near)
        if place.base == statement.scratch[0]:  # where the next place is, too: no later
            statement.write(f"prefetcht0 {place}")
        else:
            near.append(place)
    return near


def _write_row(
    statement: Statement, kernel: Microkernel, operands: Walk, at: tuple[Address, int]
) -> None:
    """Read a row of the right, and store it where one packs."""
    (right, number), size = at, kernel.left.target.vector_bytes
    sums, whole = kernel.rows * kernel.vectors, kernel.columns // kernel.lanes
    for each in range(kernel.vectors):
        masked = f" {{{MASK}}} {{z}}" if each == whole else ""
        read = f"{right.further(each * size)}, {statement.vectors[sums + each]}{masked}"
        statement.write(f"{instruction(kernel, 'vmovup')} {read}")
    if operands.packed is not None:
        packed = Address(statement.register(operands.packed), number * kernel.vectors * size)
        for each in range(kernel.vectors):
            stored = f"{statement.vectors[sums + each]}, {packed.further(each * size)}"
            statement.write(f"{instruction(kernel, 'vmovap')} {stored}")


def _write_products(
    statement: Statement, kernel: Microkernel, operands: Walk, turn: tuple[int, Sequence[str]]
) -> None:
    """Add the products of each element of the left with the row of the right in registers.

    The `turn` is a step of an iteration, and what prefetches lines meanwhile.
    """
    number, prefetching = turn
    sums = kernel.rows * kernel.vectors
    add = instruction(kernel, "vfmadd231p")
    prefetched = shared_out(prefetching, kernel.rows)
    for row in range(kernel.rows):
        statement.write(*prefetched[row])
        place = _place_of_left(statement, kernel, operands, (row, number))
        if _is_folded(kernel):
            lanes = f"{{1to{kernel.lanes}}}"
            statement.write(
                f"{add} {place}{lanes}, {statement.vectors[sums]}, {statement.vectors[row]}"
            )
            continue
        item = statement.vectors[sums + kernel.vectors]
        statement.write(f"{instruction(kernel, 'vbroadcasts')} {place}, {item}")
        for each in range(kernel.vectors):
            total = statement.vectors[row * kernel.vectors + each]
            statement.write(f"{add} {statement.vectors[sums + each]}, {item}, {total}")


def _prefetching_product(
    statement: Statement, kernel: Microkernel, operands: Walk, number: int
) -> list[str]:
    """Return what prefetches lines of the next product in the step `number` of an iteration."""
    line, offset = kernel.left.target.memory.line_bytes, statement.scratch[1]
    are_even = len(set(kernel.next_bytes)) == 1
    prefetches = "prefetcht0" if kernel.brings_next_near else "prefetcht1"
    text: list[str] = []
    for place, nbytes in zip(operands.prefetched, kernel.next_bytes, strict=False):
        begin = -(-number * nbytes // line) * line
        starts = range(begin, (number + 1) * nbytes, line)
        if starts and not (are_even and (number or text)):
            text.append(f"imulq $${nbytes}, {statement.step}, {offset}")
        text += [f"{prefetches} {at}({statement.register(place)},{offset})" for at in starts]
    return text


def _place_of_left(
    statement: Statement, kernel: Microkernel, operands: Walk, at: tuple[int, int]
) -> Address:
    """Return where the left has a row and a step."""
    row, number = at
    size, step = kernel.left.stored.itemsize, operands.steps[number]
    if not operands.rows:
        begin = Address(statement.register(operands.left), row * kernel.left_row * size)
        return behind(statement, begin, step, size)
    pointer, multiple, scale = told_row(kernel, operands, row)
    index = "" if multiple is None else statement.register(multiple)
    begin = Address(statement.register(pointer), 0, index, scale)
    return behind(statement, begin, step, size)
