"""Microkernel of a GEMM for x86-64 as one statement of inline assembly, from zeros to stores.

It is a few hundred instructions in the order in which they are to be. LLVM takes twelve
microseconds for each that it selects, schedules and allocates registers for, and one for each that
it encodes; half of its time for a small training step was for microkernels. It has the arguments
here, and assigns registers. The instructions are those that it selects for `microkernel.py`, which
other kernels and other machines have: so sums have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import INDEX, index
from symgrad.codegen.contract.kernels.assembled_prefetching import (
    can_prefetch,
    steps_between,
    write_prefetch_of_next,
    write_prefetch_of_panel,
)
from symgrad.codegen.contract.kernels.assembled_steps import (
    MASK,
    SCRATCH,
    Address,
    Statement,
    instruction,
    registers_of,
    write_step,
)
from symgrad.codegen.contract.kernels.prefetching import Met
from symgrad.codegen.contract.kernels.register_tile import Microkernel
from symgrad.codegen.contract.kernels.stored_tile import StoredTile
from symgrad.codegen.contract.kernels.walking import Walk, multiples_of, pointers_of

# A vector of AVX, and one of AVX-512, which has masks.
_LEAST_BYTES, _MASKED_BYTES = 32, 64
# Of sixteen one is the stack's.
_GENERAL_REGISTERS = 14


class _Given(NamedTuple):
    """What a call is given besides operands: its tile, its steps of k, and whether sums go on."""

    tile: StoredTile
    k: ir.Value
    resume: ir.Value


def is_assembled(kernel: Microkernel) -> bool:
    """Return whether a microkernel is a statement of assembly: a plain one of floats on x86-64.

    Its multiply-adds are instructions, its vectors fill registers, and steps of k lie evenly.
    """
    elements, target = kernel.left, kernel.left.target
    has_units = target.architecture == "x86_64" and target.has_fma
    dtype, nbytes = elements.compute, kernel.lanes * elements.compute.itemsize
    is_plain = elements.stored == dtype == kernel.right.stored
    takes_floats = is_plain and dtype.is_float and dtype.itemsize in (4, 8)
    is_full = nbytes == target.vector_bytes and nbytes >= _LEAST_BYTES
    is_whole = kernel.columns % kernel.lanes == 0 or nbytes == _MASKED_BYTES
    is_loop = kernel.piece is None and not kernel.inner and not kernel.is_empty
    is_simple = is_loop and kernel.chains == 1 and can_prefetch(kernel) and _is_near(kernel)
    # Measured with AVX-512: those that read a packed left and go on with sums take 1.03 times as
    # long so, but where they prefetch it.
    goes_on = kernel.resumes and kernel.has_packed_left and not kernel.left_near
    is_slower = goes_on and target.folds_broadcasts
    has_vectors = registers_of(kernel) <= target.vector_registers
    has_registers = has_vectors and _named(kernel) <= _GENERAL_REGISTERS
    is_plain_loop = is_simple and not is_slower and has_registers
    return has_units and takes_floats and is_full and is_whole and is_plain_loop


def _named(kernel: Microkernel) -> int:
    """Return how many general registers a statement has to name."""
    named = 2 + int(kernel.packs) + SCRATCH + len(kernel.next_bytes)
    if "left_row" in kernel.told:
        named += pointers_of(kernel) - 1 + multiples_of(kernel)
    if "left_k" in kernel.told:
        named += kernel.unrolled - 1 + (kernel.left_ahead > 0)
    if "right_k" in kernel.told or kernel.packs:
        named += 1 + (kernel.right_ahead > 0)
    return named


def _is_near(kernel: Microkernel) -> bool:
    """Return whether instructions can state all distances that are constants."""
    left = kernel.rows * abs(kernel.left_row), abs(kernel.left_k.stride), kernel.left_ahead
    right = kernel.columns, abs(kernel.right_k.stride), kernel.right_ahead
    far = max(
        *(base + (kernel.unrolled + ahead) * along for base, along, ahead in (left, right)),
        kernel.rows * kernel.tile_row + kernel.columns,
    )
    return far * kernel.left.stored.itemsize < 1 << 31


def emit_assembled(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    operands: Walk,
    call: tuple[StoredTile, ir.Value, ir.Value],
) -> None:
    """Emit all of a microkernel: `call` is its tile, its steps of k, and whether sums go on."""
    given, steps = _Given(*call), kernel.unrolled
    packed = [operands.packed] if operands.packed is not None else []
    changed = [operands.left, operands.right, *operands.lower, *packed]
    statement = Statement(kernel, changed, _GENERAL_REGISTERS - _named(kernel))
    rest = kernel.columns % kernel.lanes
    if rest:
        mask, _, _ = statement.scratch
        statement.write(f"movq $${(1 << rest) - 1}, {mask}", f"kmovq {mask}, {MASK}")
    _write_begin(statement, kernel, given, builder)
    statement.write(f"xorq {statement.step}, {statement.step}")
    is_whole = steps == 1 or kernel.is_even
    stop = given.k if is_whole else builder.and_(given.k, index(-steps))
    if kernel.prefetches_apart:
        assert operands.met is not None, "it is prefetched"
        prefetched = _steps_prefetching(builder, kernel, operands.met, stop)
        _write_loop(statement, kernel, (builder, operands), prefetched, steps, 2)
        operands = operands._replace(met=None)
    loop = partial(_write_loop, statement, kernel, (builder, operands))
    loop(stop, steps, 2)
    if not is_whole:
        loop(given.k, 1, 4)
    _write_stores(statement, kernel, given.tile)
    statement.emit(builder, [MASK] if rest else [])


def _steps_prefetching(
    builder: ir.IRBuilder, kernel: Microkernel, met: Met, steps: ir.Value
) -> ir.Value:
    """Return the step of k, at most `steps`, at which all rows of what is met are prefetched."""
    rows = builder.add(met.last, index(1))
    stop = builder.mul(rows, index(kernel.steps_a_row))
    return builder.select(builder.icmp_signed("<", stop, steps), stop, steps)


def _write_begin(
    statement: Statement, kernel: Microkernel, call: _Given, builder: ir.IRBuilder
) -> None:
    """Begin with zeros, or with the sums of the tile."""
    if kernel.resumes:
        flag = builder.zext(call.resume, INDEX)
        statement.write(f"cmpq $$0, {statement.number(flag)}", "je 0f")
        _write_rows(statement, kernel, call.tile, lambda at, sum_: f"vmovup {at}, {sum_}")
        statement.write("jmp 1f", "0:")
    for total in statement.vectors[: kernel.rows * kernel.vectors]:
        statement.write(f"vxorps {total}, {total}, {total}")
    if kernel.resumes:
        statement.write("1:")


def _write_loop(
    statement: Statement,
    kernel: Microkernel,
    walk: tuple[ir.IRBuilder, Walk],
    stop: ir.Value,
    steps: int,
    label: int,
) -> None:
    """Write the loop to a step of k, so many steps at a time, with its label and the one behind.

    What is prefetched in turns is behind the loop, where it begins, so that it jumps once.
    """
    (builder, operands), step, end = walk, statement.step, statement.number(stop)
    every = steps_between(kernel, steps)
    may_be_none = kernel.prefetches_apart or not kernel.is_even
    if may_be_none:
        statement.write(f"cmpq {end}, {step}", f"jge {label + 1}f")
    if every > 1:
        statement.write("jmp 8f")
    statement.write(".p2align 6", f"{label}:")
    write_prefetch_of_next(statement, kernel, operands, steps)
    for number in range(steps):
        write_step(statement, kernel, operands, number)
    _write_advance(statement, kernel, (builder, operands), steps)
    statement.write(f"addq $${steps}, {step}", f"cmpq {end}, {step}")
    if every == 1:
        statement.write(f"jl {label}b")
    else:
        statement.write(f"jge {label + 1}f", "8:", f"testq $${every - 1}, {step}", f"jne {label}b")
        write_prefetch_of_panel(statement, kernel, operands, steps)
        statement.write(f"jmp {label}b")
    if every > 1 or may_be_none:
        statement.write(f"{label + 1}:")


def _write_advance(
    statement: Statement, kernel: Microkernel, walk: tuple[ir.IRBuilder, Walk], steps: int
) -> None:
    """Go on to the next iteration."""
    builder, operands = walk
    size = kernel.left.stored.itemsize
    along = statement.number(builder.mul(operands.steps[steps], index(size)))
    for pointer in (operands.left, *operands.lower):
        statement.write(f"addq {along}, {statement.register(pointer)}")
    right = statement.register(operands.right)
    if isinstance(operands.right_step, ir.Constant):
        statement.write(f"addq $${(operands.right_step.number or 0) * steps * size}, {right}")
    else:
        # The steps before have moved it.
        statement.write(f"leaq ({right},{statement.register(operands.right_step)},{size}), {right}")
    if operands.packed is not None:
        nbytes = steps * kernel.vectors * kernel.left.target.vector_bytes
        statement.write(f"addq $${nbytes}, {statement.register(operands.packed)}")


def _write_rows(
    statement: Statement, kernel: Microkernel, tile: StoredTile, move: Callable[[Address, str], str]
) -> None:
    """Move each vector of the sums to its place in a tile or from there."""
    place, row, _ = statement.scratch
    size = kernel.left.compute.itemsize
    statement.write(f"movq {statement.number(tile.begin)}, {place}")
    is_told = not isinstance(tile.row, ir.Constant)
    distance = 0 if not isinstance(tile.row, ir.Constant) else (tile.row.number or 0) * size
    if is_told:
        statement.write(f"movq {statement.number(tile.row)}, {row}")
    for number in range(kernel.rows):
        for each in range(kernel.vectors):
            at = Address(place, number * distance + each * kernel.left.target.vector_bytes)
            name, *words = move(at, statement.vectors[number * kernel.vectors + each]).split(" ", 1)
            statement.write(f"{instruction(kernel, name)} {words[0]}")
        if is_told and number + 1 < kernel.rows:
            statement.write(f"leaq ({place},{row},{size}), {place}")


def _write_stores(statement: Statement, kernel: Microkernel, tile: StoredTile) -> None:
    """Store the sums, past the caches if that is asked for and the tile lies on whole lines."""
    if kernel.is_streamed:
        place = statement.scratch[0]
        line = kernel.left.target.vector_bytes
        statement.write(f"movq {statement.number(tile.begin)}, {place}")
        statement.write(f"testq $${line - 1}, {place}", "jne 6f")
        _write_rows(statement, kernel, tile, lambda at, sum_: f"vmovntp {sum_}, {at}")
        statement.write("jmp 7f", "6:")
    _write_rows(statement, kernel, tile, lambda at, sum_: f"vmovup {sum_}, {at}")
    if kernel.is_streamed:
        statement.write("7:")
