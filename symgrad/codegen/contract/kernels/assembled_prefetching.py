"""Software prefetch in an assembled microkernel: what `prefetching.py` emits, as assembly.

Each part is for an iteration that begins with a step of k, and finds places with two registers.
"""

from __future__ import annotations

from symgrad.codegen.contract.kernels.assembled_steps import Statement, instruction
from symgrad.codegen.contract.kernels.next_panel import NextPanel
from symgrad.codegen.contract.kernels.prefetching import elements_prefetched
from symgrad.codegen.contract.kernels.register_tile import Microkernel
from symgrad.codegen.contract.kernels.walking import Walk
from symgrad.codegen.contract.operand import PrefetchedLines
from symgrad.cost_model.products import STEPS_A_LINE

# Labels to go to from before them, after which an iteration goes on.
_BEHIND, _PACKED = "9", "10"


def can_prefetch(kernel: Microkernel) -> bool:
    """Return whether all that a microkernel prefetches is prefetched here."""
    is_other = kernel.prefetches_next or kernel.right_lines > 0 or kernel.next_steps is not None
    source = kernel.next_source
    counts = [kernel.steps_a_row or 1, source.steps if source is not None else 1]
    is_even = all(count & (count - 1) == 0 for count in counts)
    is_plain = source is None or (source.turns == 1 and not kernel.prefetches_panel)
    return is_even and is_plain and not is_other


def steps_between(kernel: Microkernel, steps: int) -> int:
    """Return in how many steps of k a line of the next panel is prefetched.

    That is 1 if it is in each iteration, of so many steps, or never.
    """
    source = kernel.next_source
    every = source.steps if source is not None else STEPS_A_LINE if kernel.prefetches_panel else 1
    return every if steps < every else 1


def write_prefetch_of_next(
    statement: Statement, kernel: Microkernel, operands: Walk, steps: int
) -> None:
    """Prefetch what is read or stored later, in a step of k and so many that follow it."""
    if steps_between(kernel, steps) == 1:
        write_prefetch_of_panel(statement, kernel, operands, steps)
    if operands.results is not None:
        _write_results(statement, kernel, operands)
    if operands.met is not None:
        _write_met(statement, kernel, operands)


def write_prefetch_of_panel(
    statement: Statement, kernel: Microkernel, operands: Walk, steps: int
) -> None:
    """Prefetch lines of the next panel, as it is packed, or of what it is packed from."""
    if operands.next_panel is not None:
        _write_packing(statement, kernel, operands.next_panel, steps)
    elif kernel.next_source is not None:
        _write_source(statement, kernel, operands, steps)
    if kernel.prefetches_panel:
        place = statement.scratch[0]
        nbytes = elements_prefetched(kernel.right) * kernel.right.stored.itemsize
        statement.write(
            f"movq {statement.step}, {place}",
            f"shlq $${_log2(nbytes)}, {place}",
            f"addq {statement.number(operands.prefetched[0])}, {place}",
            f"prefetcht1 ({place})",
        )


def _write_source(statement: Statement, kernel: Microkernel, operands: Walk, steps: int) -> None:
    """Prefetch lines of what the next panel is packed from, each after so many steps of k."""
    source, (line, place, *_) = kernel.next_source, statement.scratch
    assert source is not None, "it is prefetched"
    along, size = statement.number(operands.apart), kernel.right.stored.itemsize
    statement.write(
        f"movq {statement.step}, {line}",
        f"shrq $${_log2(source.steps)}, {line}",
        f"imulq {along}, {line}",
    )
    begin = statement.pointer(operands.prefetched[0], place)
    statement.write(f"prefetcht1 ({begin},{line},{size})")
    for _ in range(1, max(1, steps // source.steps)):
        statement.write(f"addq {along}, {line}", f"prefetcht1 ({begin},{line},{size})")


def _write_packing(statement: Statement, kernel: Microkernel, panel: NextPanel, steps: int) -> None:
    """Pack rows of the next panel, each after so many steps of k, and prefetch some behind.

    They go through the registers that a row of this panel comes to be read to.
    """
    source, (row, place, *_) = kernel.next_source, statement.scratch
    assert source is not None, "its rows are packed"
    target, size = kernel.left.target, kernel.right.stored.itemsize
    nbytes, width = target.vector_bytes, kernel.tile_columns * size
    prefetched = [*range(0, width, target.memory.line_bytes), width - size]
    vectors = statement.vectors[kernel.rows * kernel.vectors :]
    load, store = (instruction(kernel, name) for name in ("vmovup", "vmovap"))
    statement.write(f"cmpq {statement.number(panel.stop)}, {statement.step}", f"jge {_PACKED}f")
    for number in range(max(1, steps // source.steps)):
        _write_row_number(statement, source, number, statement.number(panel.along))
        at = f"({statement.pointer(panel.prefetched, place)},{row},{size})"
        statement.write(*(f"prefetcht0 {start or ''}{at}" for start in prefetched))
        for first in range(0, width, len(vectors) * nbytes):
            starts = range(first, min(first + len(vectors) * nbytes, width), nbytes)
            parts = list(zip(starts, vectors, strict=False))
            if first:
                _write_row_number(statement, source, number, statement.number(panel.along))
            at = f"({statement.pointer(panel.source, place)},{row},{size})"
            statement.write(*(f"{load} {start or ''}{at}, {vector}" for start, vector in parts))
            _write_row_number(statement, source, number, f"$${kernel.tile_columns}")
            at = f"({statement.pointer(panel.packed, place)},{row},{size})"
            statement.write(*(f"{store} {vector}, {start or ''}{at}" for start, vector in parts))
    statement.write(f"{_PACKED}:")


def _write_row_number(
    statement: Statement, source: PrefetchedLines, number: int, apart: str
) -> None:
    """Find how many elements behind the first row that one is which iterations have in turn."""
    row = statement.scratch[0]
    statement.write(f"movq {statement.step}, {row}", f"shrq $${_log2(source.steps)}, {row}")
    if number:
        statement.write(f"addq $${number}, {row}")
    statement.write(f"imulq {apart}, {row}")


def _write_results(statement: Statement, kernel: Microkernel, operands: Walk) -> None:
    """Prefetch the lines where the tile is stored, row by row, in the first steps of k."""
    results, (row, begin, *_) = operands.results, statement.scratch
    assert results is not None, "they are prefetched"
    statement.write(
        f"cmpq {statement.number(results.stop)}, {statement.step}",
        f"jge {_BEHIND}f",
        f"movq {statement.number(results.row)}, {row}",
        f"movq {statement.step}, {begin}",
        f"shrq $${_log2(kernel.steps_a_row)}, {begin}",
        f"imulq {begin}, {row}",
        f"movq {statement.number(results.begin)}, {begin}",
        f"leaq ({begin},{row},{kernel.right.stored.itemsize}), {row}",
    )
    _write_lines(statement, kernel, kernel.columns)
    statement.write(f"{_BEHIND}:")


def _write_met(statement: Statement, kernel: Microkernel, operands: Walk) -> None:
    """Prefetch the lines of a row that the next epilogue meets, each row for some steps of k."""
    met, (row, table, *_) = operands.met, statement.scratch
    assert met is not None, "it is prefetched"
    last = statement.number(met.last)
    statement.write(
        f"movq {statement.step}, {row}",
        f"shrq $${_log2(kernel.steps_a_row)}, {row}",
        f"cmpq {last}, {row}",
        f"cmovgeq {last}, {row}",
    )
    table = statement.pointer(met.table, table)
    statement.write(f"movq ({table},{row},8), {row}")
    _write_lines(statement, kernel, kernel.tile_columns)


def _write_lines(statement: Statement, kernel: Microkernel, count: int) -> None:
    """Prefetch those lines that have their turn, of so many elements from where a register says."""
    row, place, *_ = statement.scratch
    line = kernel.right.target.memory.line_bytes
    lines = -(-count * kernel.right.stored.itemsize // line)
    prefetched, at = -(-lines * kernel.unrolled // kernel.steps_a_row), f"({row})"
    if kernel.unrolled < kernel.steps_a_row:
        # Of the bytes of all lines those that steps before had.
        statement.write(
            f"movq {statement.step}, {place}",
            f"andq $${kernel.steps_a_row - 1}, {place}",
            f"imulq $${lines * line // kernel.steps_a_row}, {place}, {place}",
            f"andq $${-line}, {place}",
        )
        at = f"({row},{place})"
    statement.write(*(f"prefetcht1 {number * line}{at}" for number in range(prefetched)))


def _log2(count: int) -> int:
    return count.bit_length() - 1
