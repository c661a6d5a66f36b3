"""Squares loaded by half lines, and parts of a right that groups of rows share: the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen import target as targets
from symgrad.codegen.contract.elements import POINTER, Elements, index
from symgrad.codegen.contract.kernels.assembled_squares import can_load_halves, emit_halves
from symgrad.codegen.contract.kernels.leaf_functions import leaf_function
from symgrad.codegen.contract.plans.held import held_leaf
from symgrad.codegen.target import TARGET_NAMES, Target, target_named
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph
from symgrad.records import replace
from tests.support.floors import Memory, Variant, run_variants
from tests.unit.codegen.test_contract import Case
from tests.unit.codegen.test_prefetching_products import arrays_of, batch

AVX512 = pytest.mark.isa("avx512f")
V4 = replace(target_named("x86-64-v4"), shuffles_singly=True)
# Whole squares, and lines that are left over of them: of one half, of both, and of none.
SHAPES = (
    (16, 16, 16),
    (9, 5, 16),
    (33, 35, 37),
    (17, 41, 24),
    (12, 14, 64),
    (31, 15, 22),
    (26, 14, 30),
)


@contextmanager
def native_with(*, is_so: bool) -> Iterator[None]:
    """Take the native target to have one unit for shuffles or not, whichever machine it is."""
    machine = replace(target_named("native"), shuffles_singly=is_so)
    with mock.patch.object(targets, "_native", return_value=machine):
        target_named.cache_clear()
        yield
    target_named.cache_clear()


def batches(form: str, dtype: str) -> Graph:
    graphs = [batch(size, form, count=3, dtype=dtype) for size in SHAPES]
    return Graph([y for g in graphs for y in g.outputs], [x for g in graphs for x in g.inputs])


@AVX512
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", ["NT", "TT"])
def test_batches_are_the_same_bit_for_bit_however_squares_are_loaded(form, dtype):
    graph = batches(form, dtype)
    arrays = arrays_of(graph)

    def results(threads: int) -> list[bytes]:
        step = sg.compile(graph.inputs, graph.outputs, threads=threads, cache=False)
        return [y.tobytes() for y in step(*arrays)]

    with native_with(is_so=False):
        plain = results(1)
    with native_with(is_so=True):
        assert [results(threads) for threads in (1, 2, 4)] == [plain] * 3


@AVX512
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", ["NT", "TT"])
def test_not_a_byte_outside_of_half_lines_is_touched(form, dtype):
    graph = batches(form, dtype)
    arrays = [np.round(3 * array) for array in arrays_of(graph)]
    ways = [Variant(memory=Memory(side)) for side in ("start", "end")]
    with native_with(is_so=True):
        assert run_variants(graph, arrays, ways) is None


def statement_of(count: int, dtype: DType, target: Target = V4) -> str:
    """Return the code that loads a square of `count` lines."""
    module = ir.Module()
    function = ir.LLVMFunction(module, ir.FunctionType(ir.VoidType(), [POINTER]), "f")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    emit_halves(builder, function.args[0], index(100), count, Elements(dtype, dtype, target))
    builder.ret_void()
    return str(module)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_a_quarter_of_the_shuffles_or_a_third_is_not_needed(dtype):
    lanes = V4.lanes(dtype.itemsize)
    text = statement_of(lanes, dtype)
    assert text.count("vinsertf64x4") == lanes
    assert text.count("vunpck") + text.count("vshuff") == lanes * (lanes.bit_length() - 2)


def test_lines_that_are_not_there_are_not_read():
    assert statement_of(16, dtypes.float32).count("(") > statement_of(15, dtypes.float32).count("(")
    assert statement_of(1, dtypes.float32).count("vinsertf64x4") == 2
    assert statement_of(1, dtypes.float32).count("vbroadcastf64x4") == 0


@pytest.mark.parametrize("rows", [8, 9, 17, 32])
def test_the_first_of_several_groups_of_rows_keeps_what_it_transposes(rows):
    plan = Case(rows, 16, 20, dtypes.float64, rhs="columns").plan("x86-64-v4")
    texts = []
    for target in (V4, target_named("x86-64-v4")):
        module = ir.Module()
        leaf_function(module, held_leaf(plan, Elements(plan.dtype, plan.dtype, target), rows, 16))
        texts.append(str(module))
    assert ["alloca" in text for text in texts] == [rows > 8, False]


def test_squares_are_loaded_so_by_processors_with_one_unit_for_shuffles_alone():
    floats = Elements(dtypes.float32, dtypes.float32, V4)
    assert can_load_halves(floats, 16)
    assert not can_load_halves(floats, 8)
    assert not can_load_halves(Elements(dtypes.bfloat16, dtypes.float32, V4), 16)
    assert not can_load_halves(Elements(dtypes.int32, dtypes.int32, V4), 16)
    assert not any(target_named(name).shuffles_singly for name in TARGET_NAMES if name != "native")
