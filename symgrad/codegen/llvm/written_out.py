"""Inlined and unrolled kernels: emitted where they are called, on registers and memory.

Every loop is unrolled: an index into a register has to be a number. What is computed in which lanes
stays as the schedule of the kernel says, so the results are those of the kernel as a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from symgrad.codegen.llvm.kernels import KernelEmitter
from symgrad.codegen.llvm.place import CodePlace
from symgrad.codegen.llvm.register_file import RegisterFile
from symgrad.codegen.loops.language import Index, IndexAtom, Kernel, Load, Quotient, Store
from symgrad.codegen.program.language import Launch
from symgrad.codegen.target import Target
from symgrad.passes.fusion.buffers import Buffer

_I32, _I64 = ir.IntType(32), ir.IntType(64)


@dataclass(frozen=True, slots=True)
class _Held:
    """A parameter of a kernel that is in registers: from element `start` of `buffer` on."""

    buffer: Buffer
    start: int


def emit_written_out(place: CodePlace, launch: Launch, registers: RegisterFile) -> None:
    """Inline and unroll: emit the kernel of `launch` in place of a call.

    A kernel that fails leaves the index that was out of range in the watch, and ends the function.
    """
    builder, addresses = place.builder, place.addresses
    held: dict[str, _Held] = {}
    pointers: dict[str, ir.Value] = {}
    for param, argument, start in zip(
        launch.kernel.params, launch.arguments, launch.starts, strict=True
    ):
        if isinstance(argument, Buffer) and argument in registers:
            held[param.name] = _Held(argument, start)
        else:
            pointers[param.name] = addresses.of(argument, start)

    def fail(given: ir.Value, status: int) -> None:
        builder.store(given, addresses.watch, align=8)
        builder.ret(_I32(launch.statuses[status - 1]))

    target = place.functions.target
    _WrittenOut(builder, launch.kernel, pointers, held, registers, target, fail).emit()


class _WrittenOut(KernelEmitter):
    """Emits a kernel without loops; `held` are its parameters that are not in `buffers`."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        kernel: Kernel,
        buffers: Mapping[str, ir.Value],
        held: Mapping[str, _Held],
        registers: RegisterFile,
        target: Target,
        fail: Callable[[ir.Value, int], None],
    ) -> None:
        super().__init__(builder, kernel, buffers, target)
        self._held = held
        self._registers = registers
        self._fail = fail
        self._numbers: dict[str, int] = {}  # what the variables of the loops are just now

    def _carry(
        self,
        variable: str,
        bounds: tuple[int, int, int],
        initial: Sequence[ir.Value],
        body: Callable[[Sequence[ir.Value]], Sequence[ir.Value]],
    ) -> Sequence[ir.Value]:
        """Emit the iterations of a loop one after another."""
        values = initial
        for number in range(*bounds):
            self._numbers[variable] = number
            self._indices[variable] = _I64(number)
            values = body(values)
        return values

    def _emit_load(self, load: Load) -> tuple[ir.Value, int]:
        held = self._held.get(load.buffer)
        if held is None:
            return super()._emit_load(load)
        width = 1 if self._stride(load.index) == 0 else self._vector.width
        return self._registers.load(held.buffer, self._elements(held, load.index, width)), width

    def _emit_store(self, store: Store) -> None:
        held = self._held.get(store.buffer)
        if held is None:
            super()._emit_store(store)
            return
        width = self._vector.width
        value = self._atom(store.value, width)
        self._registers.store(held.buffer, self._elements(held, store.index, width), value)

    def _emit_failure(self, given: ir.Value, status: ir.Value) -> None:
        assert isinstance(status, ir.Constant), "what is written out is not cut into parts"
        self._fail(given, status.constant)

    def _elements(self, held: _Held, index: Index, width: int) -> list[int]:
        """Return which element of the buffer each lane is."""
        return [held.start + self._number(index, lane) for lane in range(width)]

    def _number(self, index: Index, lane: int) -> int:
        terms = (factor * self._number_of(atom, lane) for atom, factor in index.terms)
        return index.const + sum(terms)

    def _number_of(self, atom: IndexAtom, lane: int) -> int:
        if isinstance(atom, str):
            return self._numbers[atom] + (lane if atom == self._vector.variable else 0)
        number = self._number(atom.index, lane)
        return number // atom.by if isinstance(atom, Quotient) else number % atom.by
