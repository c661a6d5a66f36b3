"""Schedules that only large programs have, for small ones: what a pass counts is patched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from symgrad import compiler
from symgrad.codegen import kernel_costs
from symgrad.codegen.contract import diagonal, unread
from symgrad.codegen.contract.plans import (
    blocks,
    borders,
    products,
    search,
    unrolling,
)
from symgrad.codegen.contract.plans import windows as window_plans
from symgrad.codegen.llvm import call_thunks, module
from symgrad.codegen.lower import padding, places, short_rows
from symgrad.codegen.program import contract_temporaries, fuse_blocks, fuse_sweeps
from symgrad.codegen.program import fuse_products as program_products
from symgrad.codegen.schedule import (
    accumulate_columns,
    block_batches,
    column_chunks,
    diagonal_zeros,
    distribute_rows,
    distribute_scalars,
    fuse_elements,
    fuse_products,
    fuse_rows,
    interleave,
    long_loops,
    pipeline_rows,
    register_tiles,
    row_blocks,
    row_folds,
    row_stages,
    share_loads,
    split_matches,
    tile_loops,
)
from symgrad.cost_model import VECTORS_IN_FLIGHT
from symgrad.cost_model import products as product_costs
from symgrad.passes.fusion import placing, windows
from symgrad.passes.loops import prepack
from symgrad.passes.rewrites import fold_constants
from tests.support.templates import emitted_anew


@contextmanager
def interleaved(vectors: int = max(VECTORS_IN_FLIGHT)) -> Iterator[None]:
    """Interleave as many vectors of every elementwise loop, however short and simple."""
    numbers: dict[str, Any] = {
        "VECTORS_IN_FLIGHT": {vectors: 0},
        "LEAST_INTERLEAVED_FLOPS": 0,
    }
    with mock.patch.multiple(interleave, **numbers):
        yield


@contextmanager
def packed() -> Iterator[None]:
    """Pack every weight that the products of a loop read, however small, in narrow panels."""
    numbers: dict[str, Any] = {
        "PACKED_STEP_BYTES": 0,
        "PACKED_TERM_BYTES": 8,
        "PACKED_ROWS": 1,
        "LEAST_PACKED_TRIPS": 0,
    }
    with (
        mock.patch.multiple(prepack, **numbers),
        mock.patch.object(compiler, "panel_bytes", return_value=8),
    ):
        yield


@contextmanager
def tiled() -> Iterator[None]:
    """Take loops across rows in tiles of three elements and two rows, however few there are."""
    numbers: dict[str, Any] = {
        "TILE_OF_TRANSPOSE": 3,
        "ROWS_OF_TRANSPOSE": 2,
        "LEAST_TRANSPOSED": 4,
        "_leave_cache": lambda *_: True,
    }
    with (
        mock.patch.multiple(tile_loops, **numbers),
        mock.patch.object(register_tiles, "SQUARES", ()),
    ):
        yield


@contextmanager
def in_squares() -> Iterator[None]:
    """Transpose in registers whatever has as many rows as a vector has elements."""
    numbers: dict[str, Any] = {"SQUARES": (2, 4, 8, 16), "LEAST_IN_SQUARES": 1}
    with mock.patch.multiple(register_tiles, **numbers):
        yield


@contextmanager
def unrolled() -> Iterator[None]:
    """Unroll the loop of every microkernel that has registers left, however short it is."""
    with emitted_anew(), mock.patch.multiple(unrolling, UNROLLED_CYCLES=0, LEAST_UNROLLED=2):
        yield


@contextmanager
def summed_in_memory() -> Iterator[None]:
    """Add up the gradients to depthwise kernels in memory, of however few channels."""
    with mock.patch.multiple(windows, LEAST_SUMS_IN_MEMORY=1, BYTES_IN_REGISTERS=0):
        yield


@contextmanager
def rows_paired() -> Iterator[None]:
    """Compute rows beside each other two at a time, however little they read of the same."""
    numbers: dict[str, Any] = {
        "MANY_LOADS": 0,
        "SHARED_LOADS": 1,
        "LEAST_SHARED_CYCLES": 0,
        "_overlap": lambda *_: True,
    }
    with mock.patch.multiple(share_loads, **numbers):
        yield


@contextmanager
def functions_called() -> Iterator[None]:
    """Call one copy of each math function wherever a kernel computes one, and store early.

    Steps of more than two instructions are cut, and call kernels through thunks.
    """
    with (
        mock.patch.multiple(kernel_costs, MAX_CALLS_OF_SHORT=0, SHORT_RUNS=1 << 40),
        mock.patch.multiple(call_thunks, LEAST_ARGUMENTS_OF_THUNK=0, LEAST_CALLS_OF_THUNK=1),
        mock.patch.object(module, "CALLS_IN_FUNCTION", 2),
    ):
        yield


@contextmanager
def rows_written_out() -> Iterator[None]:
    """Write short rows out of however few there are."""
    with (
        mock.patch.multiple(short_rows, LEAST_ROWS=1),
        mock.patch.multiple(places, LEAST_ROWS=1),
    ):
        yield


@contextmanager
def batches_blocked() -> Iterator[None]:
    """Block batched products in pairs of rows, however little they walk through or reach.

    And fuse what is done with these blocks.
    """
    numbers: dict[str, Any] = {
        "BYTES_OF_BLOCK": 2048,
        "BLOCK_MULTIPLE": 2,
        "LEAST_BYTES_IN_BLOCKS": 0,
        "VECTOR_BYTES": 4,
    }
    with (
        mock.patch.multiple(block_batches, **numbers),
        mock.patch.multiple(fuse_blocks, BYTES_SWEPT=0, LEAST_BYTES_IN_BLOCKS=0, PIECES=2),
        mock.patch.multiple(products, BYTES_BETWEEN_PIECES=0),
    ):
        yield


@contextmanager
def padding_left_out() -> Iterator[None]:
    """Leave out terms with padding wherever there are some, however few, and pads from memory."""
    with (
        mock.patch.multiple(borders, looking_cycles=lambda *_: -1.0),
        mock.patch.multiple(padding, LEAST_ROWS_BESIDE=2, LEAST_LEFT_OUT=0.0),
        mock.patch.multiple(windows, LEAST_ROWS_BESIDE=2, LEAST_CHANNELS_BESIDE=2),
    ):
        yield


@contextmanager
def windows_packed() -> Iterator[None]:
    """Pack the windows of every gradient to a kernel, in short blocks, a few pixels at a time."""
    numbers: dict[str, Any] = {
        "FEW_READS": 2,
        "LEAST_CHANNELS_PACKED": 2,
        "LEAST_TERMS": 1,
        "MOST_PIXELS_A_TERM": 1 << 20,
        "SUM_AT_ONCE": 8,
        "WINDOW_TERMS": 40,
    }
    read: dict[str, Any] = {"FEW_READS": 2, "LEAST_CHANNELS_IN_PLACE": 2, "LEAST_TERMS": 1}
    search.plan_contract.cache_clear()
    with (
        mock.patch.multiple(windows, **read, MOST_STRIDES=1 << 20),
        mock.patch.multiple(window_plans, **numbers),
        mock.patch.multiple(blocks, PACKED_PIXELS=3),
        padding_left_out(),
    ):
        yield
    search.plan_contract.cache_clear()


@contextmanager
def pixels_in_place() -> Iterator[None]:
    """Read the pixels of every gradient to a kernel where they lie, and leave out their padding."""

    def packing_cycles(how: str, elements: int) -> float:
        return product_costs.packing_cycles(how, elements) * (1 << 20 if how == "windows" else 1)

    with (
        windows_packed(),
        mock.patch.object(search, "packing_cycles", packing_cycles),
        mock.patch.multiple(unrolling, UNROLLED_CYCLES=0, LEAST_UNROLLED=1),
    ):
        yield


@contextmanager
def rows_interchanged() -> Iterator[None]:
    """Add rows to rows, two at a time, in every fold across them."""
    numbers: dict[str, Any] = {
        "ROWS_TOGETHER": 2,
        "LEAST_ROWS_APART": 3,
        "BYTES_OF_ROWS_APART": 0,
        "BYTES_OF_SHORT_ROW": 0,
        "BYTES_BETWEEN_ROWS": 0,
    }
    with mock.patch.multiple(row_folds, **numbers):
        yield


@contextmanager
def results_placed() -> Iterator[None]:
    """Write results as part of what they are joined to, however short their rows are."""
    with mock.patch.multiple(placing, LEAST_ROW_PLACED=0):
        yield


@contextmanager
def sweeps_fused() -> Iterator[None]:
    """Fuse kernels over the same rows, however little they read twice, and keep a row of each."""
    with (
        mock.patch.multiple(fuse_rows, BYTES_SWEPT=0, BYTES_OF_ROWS_AGAIN=1 << 40),
        mock.patch.multiple(fuse_sweeps, BYTES_SWEPT=0),
        mock.patch.multiple(contract_temporaries, BYTES_SWEPT=0),
    ):
        yield


@contextmanager
def elements_joined() -> Iterator[None]:
    """Join elementwise kernels over the same axis, however short it is."""
    with (
        mock.patch.multiple(long_loops, LEAST_FUSED_ROWS=3),
        mock.patch.multiple(fuse_elements, LEAST_FUSED_ROWS=3),
    ):
        yield


@contextmanager
def products_fused() -> Iterator[None]:
    """Fuse products with what is done with their rows, a few rows at a time, of however few.

    And what the last of them make, a few columns at a time.
    """
    chunks: dict[str, Any] = {"BYTES_OF_ROW_CHUNK": 0, "COLUMNS_OF_CHUNK": 8, "PANEL_BYTES": 8}
    with (
        mock.patch.multiple(column_chunks, **chunks),
        mock.patch.multiple(row_blocks, BYTES_OF_ROW_BLOCK=1, LEAST_ROW_BLOCK=3),
        mock.patch.object(fuse_products, "PANEL_BYTES", 8),
        mock.patch.object(program_products, "BYTES_OF_PRODUCTS", 0),
        mock.patch.multiple(row_stages, MUCH_MADE=1 << 40, LONG_ROW=0),
        mock.patch.object(program_products._RowGroup, "has_folds", True),
    ):
        yield


@contextmanager
def triangles_left_out() -> Iterator[None]:
    """Leave out of masked products whatever may be, by masks that are computed where they are read.

    So those are not folded to constants, small as they are.
    """
    with (
        mock.patch.object(fold_constants, "SMALL_CONSTANT", 1),
        mock.patch.object(diagonal_zeros, "LEAST_OF_TRIANGLE", 0.0),
        mock.patch.multiple(diagonal, looking_through_cycles=lambda *_: -1.0),
        mock.patch.multiple(unread, LEAST_UNREAD=0.0, choosing_cycles=lambda *_: -1.0),
    ):
        yield


@contextmanager
def rows_split() -> Iterator[None]:
    """Take the match of a row apart, costly scalars, rows by stages and sums of columns."""
    with (
        mock.patch.multiple(split_matches, LEAST_SPLIT_CYCLES=0.0),
        mock.patch.multiple(distribute_scalars, LEAST_SPLIT_CYCLES=0.0, LEAST_DISTRIBUTED_FLOPS=1),
        mock.patch.multiple(distribute_rows, LEAST_SPLIT_CYCLES=0.0),
        mock.patch.multiple(pipeline_rows, LEAST_PIPELINED=0),
        mock.patch.object(accumulate_columns._Columns, "pay", lambda columns, _: columns.width > 1),
    ):
        yield


# By the field of a `Variant` that asks for it.
SCHEDULES = {
    "interleaves": interleaved,
    "packs": packed,
    "squares": in_squares,
    "tiles": tiled,
    "unrolls": unrolled,
    "sums": summed_in_memory,
    "rows": rows_written_out,
    "blocks": batches_blocked,
    "borders": padding_left_out,
    "windows": windows_packed,
    "in_place": pixels_in_place,
    "apart": rows_interchanged,
    "places": results_placed,
    "sweeps": sweeps_fused,
    "products": products_fused,
    "triangles": triangles_left_out,
    "elements": elements_joined,
    "split": rows_split,
    "pairs": rows_paired,
    "calls": functions_called,
}
