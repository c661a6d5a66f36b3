"""Dot products of pairs (VDPBF16PS): the microkernel of bfloat16 whose lanes are columns.

Each lane adds up the products of two terms in one instruction, as float32. It flushes denormals,
rounds to nearest whatever the processor is told, and adds the second product of a pair first.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import INDEX, POINTER, declare, index
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.kernels.pair_packing import SIDE
from symgrad.codegen.vectors import splat
from symgrad.records import dataclass

_WORD = ir.IntType(32)
_WORDS = ir.VectorType(_WORD, SIDE)
_SUMS = ir.VectorType(ir.FloatType(), SIDE)
_PAIRS = ir.VectorType(ir.BFloatType(), 2 * SIDE)
_ALIGN = 4 * SIDE


@dataclass(frozen=True, slots=True)
class PairKernel:
    """What one microkernel of pairs does: `rows` by `columns` sums, in whole vectors.

    The left has `packed_rows` in each chunk; rows of the tile are `tile_columns` apart. With
    `resumes` the kernel has a flag that says whether it goes on with the sums in the tile.
    """

    rows: int
    columns: int
    packed_rows: int
    tile_columns: int
    resumes: bool

    @property
    def vectors(self) -> int:
        return -(-self.columns // SIDE)


def emit_pair_kernel(module: ir.Module, kernel: PairKernel) -> ir.LLVMFunction:
    """Emit the function `(left, right, tile, k, resume)` that adds up `k` products in a tile."""
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, INDEX, ir.IntType(1)])
    function = kernel_function(module, kind, "contract.pairs")
    left, right, tile, k, resume = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    sums = _emit_start(builder, kernel, tile, resume)
    before = builder.block
    loop, done = builder.append_basic_block("k"), builder.append_basic_block("done")
    pairs = builder.lshr(builder.add(k, index(1)), index(1))
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(INDEX, "step")
    totals = [builder.phi(_SUMS) for _ in sums]
    added = _emit_pair(builder, kernel, (left, right), step, totals)
    following = builder.add(step, index(1), flags=("nuw", "nsw"))
    step.add_incoming(index(0), before)
    step.add_incoming(following, loop)
    for total, first, value in zip(totals, sums, added, strict=True):
        total.add_incoming(first, before)
        total.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, pairs), loop, done)
    builder.position_at_end(done)
    for at, value in enumerate(added):
        builder.store(value, _place(builder, kernel, tile, at), align=_ALIGN)
    builder.ret_void()
    return function


def _emit_start(
    builder: ir.IRBuilder, kernel: PairKernel, tile: ir.Value, resume: ir.Value
) -> list[ir.Value]:
    """Return the sums to start with: those of the tile if `resume`, else zeros."""
    zero: ir.Value = ir.Constant(_SUMS, None)
    sums = [zero] * (kernel.rows * kernel.vectors)
    if not kernel.resumes:
        return sums
    before = builder.block
    loading, start = builder.append_basic_block("resume"), builder.append_basic_block("start")
    builder.cbranch(resume, loading, start)
    builder.position_at_end(loading)
    places = [_place(builder, kernel, tile, at) for at in range(len(sums))]
    loaded = [builder.load(place, typ=_SUMS, align=_ALIGN) for place in places]
    builder.branch(start)
    builder.position_at_end(start)
    for at, value in enumerate(loaded):
        total = builder.phi(_SUMS)
        total.add_incoming(zero, before)
        total.add_incoming(value, loading)
        sums[at] = total
    return sums


def _emit_pair(
    builder: ir.IRBuilder,
    kernel: PairKernel,
    operands: tuple[ir.Value, ir.Value],
    step: ir.Value,
    sums: Sequence[ir.Value],
) -> list[ir.Value]:
    """Add the products of pair `step`: a word of each row of the left, and a line of the right."""
    chunk = builder.lshr(step, index(SIDE.bit_length() - 1))
    within = builder.and_(step, index(SIDE - 1))
    across = builder.mul(chunk, index(SIDE * kernel.packed_rows))
    column = builder.gep(operands[0], [builder.add(across, within)], source_etype=_WORD)
    along = builder.mul(chunk, index(SIDE * SIDE * kernel.vectors))
    begin = builder.add(along, builder.mul(within, index(SIDE)))
    row = []
    for number in range(kernel.vectors):
        offset = builder.add(begin, index(number * SIDE * SIDE))
        place = builder.gep(operands[1], [offset], source_etype=_WORD)
        row.append(builder.bitcast(builder.load(place, typ=_WORDS, align=_ALIGN), _PAIRS))
    name = "llvm.x86.avx512bf16.dpbf16ps.512"
    multiply = declare(builder.module, name, _SUMS, [_SUMS, _PAIRS, _PAIRS])
    added = []
    for i in range(kernel.rows):
        place = builder.gep(column, [index(i * SIDE)], source_etype=_WORD)
        item = splat(builder, builder.load(place, typ=_WORD, align=4), SIDE)
        item = builder.bitcast(item, _PAIRS)
        for j, values in enumerate(row):
            total = sums[i * kernel.vectors + j]
            added.append(builder.call(multiply, [total, values, item]))
    return added


def _place(builder: ir.IRBuilder, kernel: PairKernel, tile: ir.Value, at: int) -> ir.Value:
    row, vector = divmod(at, kernel.vectors)
    offset = index(row * kernel.tile_columns + vector * SIDE)
    return builder.gep(tile, [offset], source_etype=ir.FloatType())
