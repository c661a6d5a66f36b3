"""Tables of few elements are in registers while lanes look them up; others are gathered from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.program.print import print_program
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native
from tests.support.programs import program_from

RANDOM = np.random.default_rng(3)


def text_for(count: int, dtype: str, target: str) -> str:
    table = sg.placeholder((count,), dtype)
    indices = RANDOM.integers(0, count, 400)
    return str(emit_module(program_from(sg.take(table, indices) + 1), target_named(target)))


@pytest.mark.parametrize(
    ("count", "dtype", "instruction"),
    [
        (5, "float64", "permvar.df.512"),
        (8, "float64", "permvar.df.512"),
        (9, "float64", "vpermi2var.pd.512"),
        (16, "int64", "vpermi2var.pd.512"),
        (16, "float32", "permvar.sf.512"),
        (31, "int32", "vpermi2var.ps.512"),
    ],
)
def test_tables_of_up_to_two_registers_are_permuted(count, dtype, instruction):
    text = text_for(count, dtype, "x86-64-v4")
    lanes = "8 x double" if "64" in dtype else "16 x float"
    assert f'call <{lanes}> @"llvm.x86.avx512.{instruction}"' in text
    assert "avx512.perm" not in text_for(count, dtype, "x86-64-v3")


@pytest.mark.parametrize(("count", "dtype"), [(17, "float64"), (33, "float32"), (8, "float16")])
def test_larger_tables_and_smaller_elements_are_in_memory(count, dtype):
    assert "avx512" not in text_for(count, dtype, "x86-64-v4")


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint32"])
@pytest.mark.parametrize("count", [1, 3, 8, 13, 16, 17, 31, 32, 33])
def test_what_is_looked_up_is_right(dtype, count):
    table = sg.placeholder((count,), dtype)
    given = sg.placeholder((203,), "int64")
    known = RANDOM.integers(0, count, 203)
    step = sg.compile([table, given], [sg.take(table, known) * 2, sg.take(table, given)])
    values = (RANDOM.normal(size=count) * 1000).astype(dtype)
    places = RANDOM.integers(-count, count, 203)
    found = step(values, places)
    np.testing.assert_array_equal(found[0], values[known] * 2)
    np.testing.assert_array_equal(found[1], values[places])
    with pytest.raises(sg.IndexOutOfRangeError):
        step(values, np.where(np.arange(203) == 150, count, places))


@pytest.mark.parametrize(("count", "dtype"), [(11, "float64"), (8, "int64")])
def test_pairs_of_vectors_are_looked_up_in_one_table(count, dtype):
    """Sums of few elements take two vectors at a time: two permutations, and what is left one."""
    table, known = sg.placeholder((count,), dtype), RANDOM.integers(0, count, (252, 5))
    looked_up = sg.take(table, known).sum(1)
    program = program_from(looked_up)
    assert "vector(16)" in print_program(program)
    text = str(emit_module(program, target_named("x86-64-v4")))
    assert "llvm.x86.avx512." in text
    assert "llvm.masked.gather" not in text
    values = (RANDOM.normal(size=count) * 1000).astype(dtype)
    found = sg.compile([table], [looked_up])(values)
    np.testing.assert_allclose(found[0], values[known].sum(1), 1e-5)


def test_not_a_byte_behind_a_table_is_read():
    table, given = sg.placeholder((11,), "float64"), RANDOM.integers(0, 11, 96)
    text = str(emit_module(program_from(sg.take(table, given) + 1), target_named("x86-64-v4")))
    assert "llvm.masked.load.v8f64.p0" in text


SLOW = replace(target_named("x86-64-v4"), gathers_slowly=True)


def test_lanes_are_loaded_by_themselves_where_gathers_are_slow():
    table, given = sg.placeholder((100,), "float64"), RANDOM.integers(0, 100, 96)
    program = program_from(sg.take(table, given) + 1)
    text = str(emit_module(program, SLOW))
    assert "llvm.masked.gather" in str(emit_module(program, target_named("x86-64-v4")))
    assert "llvm.masked.gather" not in text
    assert "extractelement" not in text  # of places, which lie in memory and are loaded there


@pytest.mark.parametrize("places", ["uint32", "int32", "int64", "uint8"])
@pytest.mark.parametrize("slowly", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "float16"])
def test_both_ways_of_loading_lanes_give_the_same(dtype, slowly, places):
    table = sg.placeholder((100, 3), dtype)
    given, known = sg.placeholder((203,), places), RANDOM.integers(0, 100, 203)
    found = [
        sg.take(table[:, 1], known) * 2,
        sg.take(table[:, 2], given),
        sg.take(table, known, axis=0),
    ]
    found.append(sg.take(table[:, 0] + 1, sg.take(sg.constant(known), given % 99)))
    target = replace(target_named("native"), gathers_slowly=slowly)
    options = CompileOptions(target, 2, False, True)
    run = Executable(Graph(found, [table, given]), options)
    values = (RANDOM.normal(size=(100, 3)) * 1000).astype(dtype)
    at = RANDOM.integers(0, 100, 203).astype(places)
    results = run_native(run, [values, at]).outputs
    wanted = [values[known, 1] * 2, values[at, 2], values[known], values[known[at % 99], 0] + 1]
    for result, expected in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, expected)
