"""The scope of statements of a kernel: what they are emitted with, handed down from body to body.

Each body has a scope of its own, which begins with the names that are bound around it. What a
statement or a value becomes is in `kernels.py` and `expressions.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.codegen import ir
from symgrad.codegen.kernel_costs import count_calls
from symgrad.codegen.llvm.lanes import Lanes
from symgrad.codegen.llvm.lifting import Lifting
from symgrad.codegen.llvm.register_file import RegisterFile
from symgrad.codegen.loops.language import For, Index, Kernel, Param
from symgrad.codegen.target import Target
from symgrad.cost_model import MAX_INLINE_CALLS
from symgrad.graph.dtypes import DType
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Vector:
    """The loop whose iterations lie side by side: its variable and how many."""

    variable: str | None
    width: int


SCALAR = Vector(None, 1)
PrefetchedLine = tuple[str, Index, int]  # a buffer, and a place in it for a lane


@dataclass(frozen=True, slots=True)
class Held:
    """A parameter of a kernel that is in registers: from element `start` of `buffer` on."""

    buffer: Buffer
    start: int


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """How a kernel is written out where it is called, with parameters `held` in `registers`.

    One that fails stores at `watch` the index that was out of range, and ends the function with
    the status of the program that its own stands for.
    """

    registers: RegisterFile
    held: Mapping[str, Held]
    watch: ir.Value
    statuses: Sequence[int]


@dataclass(frozen=True, slots=True)
class KernelScope:
    """Where statements of a kernel are emitted: the end of `builder`'s block, and what is known.

    `buffers` are the addresses of parameters. `indices` are the loop variables and checked indices,
    as int64, and `values` what is bound, with its width: 1, or that of the loop. Statements of a
    body add to both, in the scope that is the body's own. `part` says which parts of a parallel
    statement are run: the first, and the one behind the last. `numbers` says what the loop
    variables are of a kernel written out. `around` is the loop around statements one by one,
    `blocks` the one around that, and `matrices` the innermost one around that goes through the
    matrices of a batch. Where statements run once in a call, or are of an epilogue, `lifting` has
    what calls pass of numbers. `prefetched` are lines that a body is to prefetch while it computes.
    Where the lanes of a vector are not all there, `mask` has those that are (`masking.py`).
    `loaded` says of vectors of integers, and of what those are as int64, where in memory that
    nothing writes.
    """

    builder: ir.IRBuilder
    target: Target
    params: Mapping[str, Param]
    inline_math: bool
    buffers: Mapping[str, ir.Value]
    indices: dict[str, ir.Value]
    values: dict[str, tuple[ir.Value, int]]
    numbers: Mapping[str, int]
    loaded: dict[ir.Value, tuple[ir.Value, DType]]
    vector: Vector = SCALAR
    part: tuple[ir.Value, ir.Value] | None = None
    written_out: WrittenOut | None = None
    around: For | None = None
    blocks: For | None = None
    matrices: For | None = None
    lifting: Lifting | None = None
    prefetched: Sequence[PrefetchedLine] = ()
    mask: ir.Value | None = None

    @property
    def function(self) -> ir.LLVMFunction:
        """The function that is filled."""
        return self.builder.function

    def lanes(self, width: int) -> Lanes:
        """Return the arithmetic of so many lanes."""
        return Lanes(self.builder, self.target, width, inline_math=self.inline_math)

    def held(self, buffer: str) -> Held | None:
        """Return where a parameter is in registers, None if it has an address."""
        return None if self.written_out is None else self.written_out.held.get(buffer)

    def inner(self) -> KernelScope:
        """Return the scope of a body in this one."""
        return replace(self, indices=dict(self.indices), values=dict(self.values))

    def inside(self, variable: str, index: ir.Value) -> KernelScope:
        """Return the scope of the body of a loop over `variable`."""
        return replace(self, indices={**self.indices, variable: index}, lifting=None)


def kernel_scope(
    builder: ir.IRBuilder, kernel: Kernel, buffers: Mapping[str, ir.Value], target: Target
) -> KernelScope:
    """Return the scope of the body of `kernel` where `builder` stands."""
    params = {p.name: p for p in kernel.params}
    inline_math = count_calls(kernel.body) <= MAX_INLINE_CALLS
    return KernelScope(builder, target, params, inline_math, buffers, {}, {}, {}, {})
