"""Matrix unit (AMX): the microkernel of bfloat16 that multiplies squares of pairs.

Tile registers hold two by two squares of sums, two of the left and two of the right. They are
configured once for a product, all as whole squares, and released behind it, so that nothing has to
be saved for a thread that is not in a product. The unit flushes denormals and rounds to nearest; of
each chunk it adds up the even terms and the odd ones apart, then both to the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import INDEX, POINTER, counted_loop, declare, index
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.kernels.pair_packing import CHUNK, SIDE
from symgrad.records import dataclass

TILE_SIDE = 2  # of sums across a tile, and down
_REGISTERS = 8
_LEFT, _RIGHT = 4, 6  # the first registers of squares of the operands; those of sums are from 0 on
_NUMBER = ir.IntType(8)
_WORD = ir.IntType(32)
_ROW_BYTES = 4 * SIDE


@dataclass(frozen=True, slots=True)
class MatrixKernel:
    """What one microkernel of a matrix unit does: sums in `high` by `wide` squares.

    The left has as many squares in each chunk as the tile is high; rows of the tile are
    `tile_columns` apart. With `resumes` the kernel has a flag that says whether it goes on with the
    sums in the tile.
    """

    high: int
    wide: int
    tile_columns: int
    resumes: bool


@contextmanager
def using_matrix_unit(builder: ir.IRBuilder) -> Iterator[None]:
    """Have the tile registers configured for what is emitted meanwhile."""
    words = ir.VectorType(_WORD, SIDE)
    with builder.goto_entry_block():
        place = builder.alloca(words)
        place.align = 64
    builder.store(ir.Constant(words, _configuration()), place, align=64)
    module = builder.module
    builder.call(declare(module, "llvm.x86.ldtilecfg", ir.VoidType(), [POINTER]), [place])
    yield
    builder.call(declare(module, "llvm.x86.tilerelease", ir.VoidType(), []), [])


def _configuration() -> list[int]:
    """Return the words of palette 1: of each register the bytes of a row, and how many rows."""
    configured = bytearray(64)
    configured[0] = 1
    for register in range(_REGISTERS):
        configured[16 + 2 * register] = _ROW_BYTES
        configured[48 + register] = SIDE
    return [int.from_bytes(configured[at : at + 4], "little") for at in range(0, 64, 4)]


def emit_matrix_kernel(module: ir.Module, kernel: MatrixKernel) -> ir.LLVMFunction:
    """Emit the function `(left, right, tile, k, resume)` that adds up `k` products in a tile."""
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, INDEX, ir.IntType(1)])
    function = kernel_function(module, kind, "contract.matrix")
    left, right, tile, k, resume = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    _emit_start(builder, kernel, tile, resume)
    with counted_loop(builder, index(0), k, CHUNK) as step:
        across, down = (_begin(builder, step, squares) for squares in (kernel.high, kernel.wide))
        _emit_chunk(
            builder,
            kernel,
            builder.gep(left, [across], source_etype=_WORD),
            builder.gep(right, [down], source_etype=_WORD),
        )
    for square in _squares(kernel):
        _on_tile(builder, "tilestored64", kernel, tile, square)
    builder.ret_void()
    return function


def _squares(kernel: MatrixKernel) -> list[tuple[int, int]]:
    return [(i, j) for i in range(kernel.high) for j in range(kernel.wide)]


def _begin(builder: ir.IRBuilder, step: ir.Value, squares: int) -> ir.Value:
    """Return where a chunk begins in a packed panel that is so many squares across."""
    return builder.mul(step, index(squares * SIDE * SIDE // CHUNK))


def _emit_start(
    builder: ir.IRBuilder, kernel: MatrixKernel, tile: ir.Value, resume: ir.Value
) -> None:
    """Bring the sums to start with to the registers: those of the tile if `resume`, else zeros."""
    if not kernel.resumes:
        _emit_zeros(builder, kernel)
        return
    with builder.if_else(resume) as (goes_on, begins):
        with goes_on:
            for square in _squares(kernel):
                _on_tile(builder, "tileloadd64", kernel, tile, square)
        with begins:
            _emit_zeros(builder, kernel)


def _emit_zeros(builder: ir.IRBuilder, kernel: MatrixKernel) -> None:
    clear = declare(builder.module, "llvm.x86.tilezero", ir.VoidType(), [_NUMBER])
    for square in _squares(kernel):
        builder.call(clear, [_sums(square)])


def _emit_chunk(
    builder: ir.IRBuilder, kernel: MatrixKernel, left: ir.Value, right: ir.Value
) -> None:
    """Multiply the squares of a chunk; each is loaded just before it is first read."""
    kinds: list[ir.Type] = [_NUMBER, _NUMBER, _NUMBER]
    multiply = declare(builder.module, "llvm.x86.tdpbf16ps", ir.VoidType(), kinds)
    for i, j in _squares(kernel):
        if j == 0:
            _emit_load(builder, _LEFT + i, left, i)
        if i == 0:
            _emit_load(builder, _RIGHT + j, right, j)
        builder.call(multiply, [_sums((i, j)), _NUMBER(_LEFT + i), _NUMBER(_RIGHT + j)])


def _emit_load(builder: ir.IRBuilder, register: int, panel: ir.Value, number: int) -> None:
    """Load square `number` of a chunk of a packed panel."""
    kinds = [_NUMBER, POINTER, INDEX]
    load = declare(builder.module, "llvm.x86.tileloadd64", ir.VoidType(), kinds)
    place = builder.gep(panel, [index(number * SIDE * SIDE)], source_etype=_WORD)
    builder.call(load, [_NUMBER(register), place, index(_ROW_BYTES)])


def _on_tile(
    builder: ir.IRBuilder, name: str, kernel: MatrixKernel, tile: ir.Value, square: tuple[int, int]
) -> None:
    """Load or store a square of sums."""
    i, j = square
    kinds = [_NUMBER, POINTER, INDEX]
    function = declare(builder.module, f"llvm.x86.{name}", ir.VoidType(), kinds)
    offset = SIDE * (i * kernel.tile_columns + j)
    place = builder.gep(tile, [index(offset)], source_etype=_WORD)
    builder.call(function, [_sums(square), place, index(4 * kernel.tile_columns)])


def _sums(square: tuple[int, int]) -> ir.Value:
    """Return the number of the register of a square of sums."""
    return _NUMBER(TILE_SIDE * square[0] + square[1])
