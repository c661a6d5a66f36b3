"""Prefetches of the next block of k: what tiles prefetch is what that block reads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from symgrad.codegen import ir
from symgrad.codegen.contract import Operand, plan_contract
from symgrad.codegen.contract.elements import Elements, index
from symgrad.codegen.contract.kernels.prefetching import elements_prefetched
from symgrad.codegen.contract.lifted import plan_sizes, unlifted
from symgrad.codegen.contract.places import TilePlaces
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.tile_prefetching import TileOfBlock, TilePrefetching
from symgrad.codegen.loops.strided import walked
from symgrad.codegen.native.jit import emit_object, load_object, optimize
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.records import replace
from tests.unit.codegen.test_contract import Case
from tests.unit.codegen.test_packed_windows import Layer, plans

NATIVE, PLANNED = target_named("native"), target_named("x86-64-v4")
# Where both operands begin, in bytes, and what no tile has to prefetch.
LEFT, RIGHT, NEAR = 1 << 32, 1 << 40, 1 << 48


def places_prefetched(plan: ContractPlan, band: int = 0) -> Callable[[int, int, int], int]:
    """Return what says where a tile begins to prefetch, given its number and its block of k.

    Its block of tiles begins with the first one, and the band with tile `band`.
    """
    i64, pointer = ir.IntType(64), ir.PointerType()
    module = ir.Module("prefetches")
    kinds = [i64] * 3 + [pointer] * 3
    function = ir.LLVMFunction(module, ir.FunctionType(pointer, kinds), "prefetches")
    tile, first, last, left, right, near = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    places = TilePlaces(builder, plan, left, right, near, plan_sizes(plan, unlifted))
    prefetching = TilePrefetching(
        builder, plan, places, Elements(plan.dtype, plan.compute, PLANNED)
    )
    block = (index(0), index(plan.row_tiles)), (index(0), index(plan.panels))
    of_band = index(band), index(plan.row_tiles)
    number = TileOfBlock(tile, index(0), of_band, *block, (first, last))
    (place,) = prefetching.places(number, (near, near))
    builder.ret(place)
    code = load_object(emit_object(optimize(str(module), NATIVE, 2), NATIVE, 2), ["prefetches"])
    call = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 7)(code.address("prefetches"))

    def prefetched(number: int, start: int, stop: int) -> int:
        assert code is not None  # it lives as long as what calls it
        return int(call(number, start, stop, LEFT, RIGHT, NEAR))

    return prefetched


def elements_of_tiles(plan: ContractPlan, start: int) -> set[int]:
    """Return where the elements are that the tiles of a block of k prefetch."""
    prefetched = places_prefetched(plan)
    part = plan.block_k * elements_prefetched(Elements(plan.dtype, plan.compute, PLANNED))
    begins = [
        prefetched(number, start, start + plan.block_k)
        for number in range(plan.row_tiles * plan.panels)
    ]
    size = plan.dtype.itemsize
    found = (range(at, at + part * size, size) for at in begins if at != NEAR)
    return {place for of_tile in found for place in of_tile}


def elements_read(plan: ContractPlan, start: int) -> tuple[set[int], set[int]]:
    """Return where the elements of both operands are that a block of k reads, of one place."""
    steps = slice(start, start + plan.block_k)
    left = walked(plan.left.column_stride, plan.left.column_digits, plan.k)[steps]
    right = walked(plan.right.row_stride, plan.right.row_digits, plan.k)[steps]
    of_left = np.add.outer(left, np.arange(plan.row_run)).ravel()
    of_right = np.add.outer(right, np.arange(plan.columns)).ravel()
    size = plan.dtype.itemsize
    return {LEFT + int(at) * size for at in of_left}, {RIGHT + int(at) * size for at in of_right}


PACKED = Layer(spatial=(32, 32), images=4, channels=256, filters=128)
IN_PLACE = Layer(spatial=(56, 56), images=8, channels=64, filters=64)
STRIDED = Layer(spatial=(56, 56), images=8, channels=128, filters=128, stride=2)


def plan_of(layer: Layer) -> ContractPlan:
    (plan,) = plans(layer.graph())
    assert plan.prefetches_block
    assert plan.dtype == dtypes.float32
    return plan


def test_tiles_prefetch_the_pixels_of_the_next_block_of_k():
    plan = plan_of(PACKED)
    assert plan.pack_left == "windows"
    left, right = elements_read(plan, plan.block_k)
    assert left | right <= elements_of_tiles(plan, 0)


def test_tiles_prefetch_pixels_of_the_next_block_of_k_that_are_read_where_they_lie():
    for layer in (IN_PLACE, STRIDED):
        plan = plan_of(layer)
        assert plan.pack_left == "none"
        assert plan.block_tiles == plan.row_tiles  # each tile prefetches a part of its own
        left, right = elements_read(plan, plan.block_k)
        assert left | right <= elements_of_tiles(plan, 0)


def test_tiles_prefetch_their_own_pixels_where_those_of_all_images_come_beside_each_other():
    layer = Layer(spatial=(4, 4), images=128, channels=32, filters=32)
    (plan,) = plans(layer.graph())
    assert plan.k_blocks > 1
    assert not plan.prefetches_block


def test_tiles_of_the_last_block_of_k_prefetch_nothing_behind_it():
    for plan in map(plan_of, (PACKED, IN_PLACE, STRIDED)):
        assert elements_of_tiles(plan, plan.k - plan.block_k) == set()


@pytest.mark.parametrize("rhs", ["rows", "columns", "columns of lines"])
def test_tiles_of_a_panel_prefetch_all_that_the_next_one_is_packed_from(rhs):
    plan = Case(128, 512, 784, rhs=rhs).plan("x86-64-v4")
    source = plan.next_source
    assert source is not None
    assert plan.packs_late
    assert plan.kept_panels == 1
    prefetched, size = places_prefetched(plan), plan.dtype.itemsize
    of_tile = source.lines
    lines = np.arange(plan.k // of_tile.steps)
    offsets = lines % of_tile.turns * of_tile.apart + lines // of_tile.turns * source.along
    begins = [prefetched(tile, 0, plan.k) for tile in range(source.tiles)]
    found = np.add.outer(begins, offsets * size).ravel() // 64
    steps = np.arange(plan.k) * plan.right.row_stride
    columns = (plan.tile_columns + np.arange(plan.tile_columns)) * plan.right.column_stride
    read = (RIGHT + np.add.outer(steps, columns) * size).ravel() // 64
    assert set(read.tolist()) == set(found.tolist())
    assert len(found) == len(set(read.tolist()))
    # Those behind prefetch nothing else.
    assert prefetched(source.tiles, 0, plan.k) == begins[0]


def test_tiles_prefetch_what_panels_are_packed_from_and_for_panels_that_are_packed():
    target = replace(PLANNED, shares_slowly=True)
    lhs, rhs, result = Operand(512, 1, 4), Operand(1, 512, 4), Operand(1024, 1, 4)
    plan = plan_contract(1024, 1024, 512, dtypes.float32, lhs, rhs, result, target)
    source = plan.next_source
    assert source is not None
    assert not plan.prefetches_panel
    assert plan.block_tiles < plan.band_tiles
    assert source.tiles <= plan.block_tiles
    lines = np.arange(plan.k // source.lines.steps) * plan.dtype.itemsize * source.along
    prefetched, prefetched_again = (
        places_prefetched(plan),
        places_prefetched(plan, band=-plan.block_tiles),
    )
    begins, again = (
        [of(tile, 0, plan.k) for tile in range(source.tiles)]
        for of in (prefetched, prefetched_again)
    )
    panel = plan.k * plan.tile_columns * plan.dtype.itemsize
    for found, first in ((begins, RIGHT + panel), (again, again[0])):
        places = np.add.outer(found, lines).ravel()
        np.testing.assert_array_equal(places, first + np.arange(0, panel, 64))
    assert again[0] >= NEAR  # among packed panels
    # What follows one another in rows of the right is not prefetched so: few sets have it.
    beside = plan_contract(1024, 1024, 512, dtypes.float32, lhs, result, result, target)
    assert beside.next_source is None
    assert beside.prefetches_panel
    assert plan_contract(
        1024, 1024, 512, dtypes.float32, lhs, rhs, result, PLANNED
    ).prefetches_panel
    far = Operand(1024, 1, 4), Operand(1, 1024, 4)
    assert plan_contract(1024, 1024, 1024, dtypes.float32, *far, result, target).prefetches_panel
