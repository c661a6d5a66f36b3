"""Loop over k of a GEMM microkernel, as IR: a step is a rank-1 update of the sums in registers.

What a step reads ahead and what it packs is emitted with it. `assembled_steps.py` has the same loop
as assembly.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import (
    INDEX,
    POINTER,
    add_elements,
    as_it_is,
    index,
    multiply_add,
)
from symgrad.codegen.contract.kernels.prefetching import emit_prefetching
from symgrad.codegen.contract.kernels.register_tile import Microkernel
from symgrad.codegen.contract.kernels.stored_tile import emit_packed_row
from symgrad.codegen.contract.kernels.walking import (
    Walk,
    emit_prefetches,
    further,
    next_row,
    row_of_left,
)
from symgrad.codegen.vectors import splat


def either(builder: ir.IRBuilder, *ways: tuple[ir.Value, ir.Block]) -> ir.Value:
    """Return what a value is behind the blocks that control comes from."""
    result = builder.phi(ways[0][0].type)
    for value, block in ways:
        result.add_incoming(value, block)
    return result


def emit_steps(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    operands: Walk,
    k: ir.Value,
    start: Sequence[ir.Value],
) -> list[ir.Value]:
    """Emit the loops over k and return the sums after them."""
    first, steps = index(0), kernel.unrolled
    if steps > 1:
        zero = ir.Constant(kernel.vector_type, None)
        whole = k if kernel.is_even else builder.and_(k, index(-steps))
        started = [*start, *[zero] * (len(start) * (kernel.chains - 1))]
        several = _emit_loop(builder, kernel, operands, (first, whole, steps), started)
        start = [_total(builder, kernel, several[at :: len(start)]) for at in range(len(start))]
        if kernel.is_even:
            return start
        first = whole
    return _emit_loop(builder, kernel, operands, (first, k, 1), start)


def _emit_loop(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    operands: Walk,
    span: tuple[ir.Value, ir.Value, int],
    start: Sequence[ir.Value],
) -> list[ir.Value]:
    """Emit one loop over a span of k, so many steps at a time, and return the sums after it.

    `start` has the sums of each chain, and the chains take the steps in turns.
    """
    first, stop, steps = span
    each = kernel.rows * kernel.vectors
    chains = len(start) // each
    along = builder.mul(first, operands.steps[1]), builder.mul(first, operands.right_step)
    begins = further(builder, kernel, operands, along)
    before = builder.block
    loop = builder.append_basic_block("k")
    after = builder.append_basic_block("done")
    if kernel.is_even:
        builder.branch(loop)
    else:
        builder.cbranch(builder.icmp_signed("<", first, stop), loop, after)
    builder.position_at_end(loop)
    step = builder.phi(INDEX, "step")
    left, right = builder.phi(POINTER), builder.phi(POINTER)
    lower = tuple(builder.phi(POINTER) for _ in operands.lower)
    places = operands._replace(left=left, right=right, lower=lower)
    sums = [builder.phi(kernel.vector_type) for _ in start]
    added: list[ir.Value] = list(sums)
    if operands.packed is not None:
        packed = builder.mul(step, index(kernel.vectors * kernel.lanes))
        places = places._replace(packed=kernel.right.address(builder, operands.packed, packed))
    emit_prefetches(builder, kernel, operands, (step, steps))
    at = places
    for number in range(steps):
        if number and chains == 1:
            _emit_fence(builder)
        at = next_row(builder, kernel, at) if number else at
        chain = slice(number % chains * each, (number % chains + 1) * each)
        added[chain] = emit_step(builder, kernel, at, number, added[chain])
    following = as_it_is(builder, builder.add(step, index(steps), flags=("nuw", "nsw")))
    along = operands.steps[steps], builder.mul(operands.right_step, index(steps))
    ends = further(builder, kernel, places, along)
    carried = [step, left, right, *lower, *sums]
    given = [first, begins.left, begins.right, *begins.lower, *start]
    made = [following, ends.left, ends.right, *ends.lower, *added]
    for phi, value, next_value in zip(carried, given, made, strict=True):
        phi.add_incoming(value, before)
        phi.add_incoming(next_value, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, stop), loop, after)
    end = builder.block
    builder.position_at_end(after)
    if kernel.is_even:
        return added
    return [
        either(builder, (value, before), (sum_, end))
        for value, sum_ in zip(start, added, strict=True)
    ]


def _emit_fence(builder: ir.IRBuilder) -> None:
    """Keep LLVM from loading elements of the next step of k before this one has used its own.

    The processor does so, in registers of its own; LLVM would have those of the sums.
    """
    nothing = ir.FunctionType(ir.VoidType(), [])
    builder.asm(nothing, "", "~{memory}", [], side_effect=True)


def _total(builder: ir.IRBuilder, kernel: Microkernel, parts: list[ir.Value]) -> ir.Value:
    total = parts[0]
    for part in parts[1:]:
        total = add_elements(builder, kernel.left.compute, total, part)
    return total


def emit_step(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    operands: Walk,
    number: int,
    sums: Sequence[ir.Value],
) -> list[ir.Value]:
    """Add the products of one step of k: each element of the left times a row of the right.

    It is step `number` from where the left begins, and the first one of the right.
    """
    dtype = kernel.left.compute
    left = kernel.left.address(builder, operands.left, operands.steps[number])
    further = (left, operands.ahead), (operands.right, operands.right_ahead)
    emit_prefetching(builder, kernel, *further)
    row = []
    for start in range(0, kernel.columns, kernel.lanes):
        place = kernel.right.address(builder, operands.right, index(start))
        count = min(kernel.lanes, kernel.columns - start)
        row.append(kernel.right.load(builder, place, count, kernel.lanes))
    if operands.packed is not None:
        emit_packed_row(builder, kernel, operands.packed, number, row)
    added = []
    for i in range(kernel.rows):
        place = row_of_left(builder, kernel, operands, left, (i, number))
        item = splat(builder, kernel.left.load(builder, place, 1, 1), kernel.lanes)
        for j, values in enumerate(row):
            total = sums[i * kernel.vectors + j]
            added.append(multiply_add(builder, dtype, item, values, total))
    return added
