"""Dot-product microkernel, for results that are few across: the SIMD lanes run along k.

The lanes are added up in the end (a horizontal reduction).

It reads both operands in vectors along k, so that neither needs transposing. It takes all of k at
once, and the order of each sum depends on k and the number of lanes alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import (
    INDEX,
    POINTER,
    Elements,
    add_elements,
    index,
    multiply_add,
    scalar_type,
)
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.vectors import shuffled
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class DotKernel:
    """What one dot kernel does: `rows` by `columns` sums of `k` products.

    Rows of the left lie `left_row` elements apart and columns of the right `right_column`, each
    contiguous along k. Rows of the tile are `tile_columns` apart.
    """

    rows: int
    columns: int
    k: int
    lanes: int
    left: Elements
    left_row: int
    right: Elements
    right_column: int
    tile_columns: int

    @property
    def vector_type(self) -> ir.Type:
        return ir.VectorType(scalar_type(self.left.compute), self.lanes)

    @property
    def chains(self) -> int:
        """Partial sums of each result that are added up in turns, to keep the units busy."""
        return max(1, self.left.target.adds_in_flight // (self.rows * self.columns))


def emit_dot_kernel(module: ir.Module, kernel: DotKernel) -> ir.LLVMFunction:
    """Emit the function `(left, right, tile, k, resume)`; the last two are those of all kernels."""
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, INDEX, ir.IntType(1)])
    function = kernel_function(module, kind, "contract.dot")
    left, right, tile, _, _ = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    chains = _emit_k(builder, kernel, left, right)
    for at in range(kernel.rows * kernel.columns):
        total = chains[0][at]
        for chain in chains[1:]:
            total = add_elements(builder, kernel.left.compute, total, chain[at])
        row, column = divmod(at, kernel.columns)
        offset = index(row * kernel.tile_columns + column)
        place = builder.gep(tile, [offset], source_etype=scalar_type(kernel.left.compute))
        align = kernel.left.compute.itemsize
        builder.store(_sum_lanes(builder, kernel, total), place, align=align)
    builder.ret_void()
    return function


def _emit_k(
    builder: ir.IRBuilder, kernel: DotKernel, left: ir.Value, right: ir.Value
) -> list[list[ir.Value]]:
    """Emit all of k: turns of the chains in a loop, then the vectors left, then the terms left."""
    zero: ir.Value = ir.Constant(kernel.vector_type, None)
    zeros = [zero] * (kernel.rows * kernel.columns)
    chains = [zeros] * kernel.chains
    turn = kernel.chains * kernel.lanes
    step = kernel.k // turn * turn
    if step:
        chains = _emit_turns(builder, kernel, left, right, step)
    at = 0
    while step < kernel.k:
        count = min(kernel.lanes, kernel.k - step)
        chains[at] = _emit_step(builder, kernel, (left, right), index(step), count, chains[at])
        step, at = step + count, at + 1
    return chains


def _emit_turns(
    builder: ir.IRBuilder, kernel: DotKernel, left: ir.Value, right: ir.Value, stop: int
) -> list[list[ir.Value]]:
    """Emit the loop in which each chain takes one vector of k in turn, up to `stop`."""
    before = builder.block
    loop = builder.append_basic_block("k")
    after = builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(INDEX, "step")
    results = range(kernel.rows * kernel.columns)
    sums = [[builder.phi(kernel.vector_type) for _ in results] for _ in range(kernel.chains)]
    added = []
    for number, chain in enumerate(sums):
        at = builder.add(step, index(number * kernel.lanes))
        added.append(_emit_step(builder, kernel, (left, right), at, kernel.lanes, chain))
    following = builder.add(step, index(kernel.chains * kernel.lanes), flags=("nuw", "nsw"))
    step.add_incoming(index(0), before)
    step.add_incoming(following, loop)
    for chain, values in zip(sums, added, strict=True):
        for total, value in zip(chain, values, strict=True):
            total.add_incoming(ir.Constant(kernel.vector_type, None), before)
            total.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, index(stop)), loop, after)
    builder.position_at_end(after)
    return added


def _emit_step(
    builder: ir.IRBuilder,
    kernel: DotKernel,
    operands: tuple[ir.Value, ir.Value],
    step: ir.Value,
    count: int,
    sums: Sequence[ir.Value],
) -> list[ir.Value]:
    """Add the products of `count` terms, at most a vector, to each sum."""
    left = kernel.left.address(builder, operands[0], step)
    right = kernel.right.address(builder, operands[1], step)
    columns = []
    for j in range(kernel.columns):
        place = kernel.right.address(builder, right, index(j * kernel.right_column))
        columns.append(kernel.right.load(builder, place, count, kernel.lanes))
    added = []
    for i in range(kernel.rows):
        place = kernel.left.address(builder, left, index(i * kernel.left_row))
        row = kernel.left.load(builder, place, count, kernel.lanes)
        for j, column in enumerate(columns):
            total = sums[i * kernel.columns + j]
            added.append(multiply_add(builder, kernel.left.compute, row, column, total))
    return added


def _sum_lanes(builder: ir.IRBuilder, kernel: DotKernel, total: ir.Value) -> ir.Value:
    """Add the upper half of the lanes to the lower until one is left."""
    lanes = kernel.lanes
    while lanes > 1:
        lanes //= 2
        low = shuffled(builder, [total, total], list(range(lanes)))
        high = shuffled(builder, [total, total], list(range(lanes, 2 * lanes)))
        total = add_elements(builder, kernel.left.compute, low, high)
    return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))
