"""Distances that microkernels are told: products of other strides call the same functions."""

from __future__ import annotations

import re

import symgrad as sg
from symgrad.codegen.contract.kernels.register_tile import Microkernel
from symgrad.codegen.native.jit import emit_assembly, optimize_leaves
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, emit_linkable, lower_graph
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor


def options_of(name: str) -> CompileOptions:
    target = target_named(name)
    return CompileOptions(target, 3, fast_math=False, cache=False, threads=Threads(1, 0.0))


def tiles(result: Tensor, inputs: list[Tensor], name: str = "x86-64-v4") -> set[Microkernel]:
    """Return the microkernels that a program of a result calls."""
    options = options_of(name)
    program = lower_graph(Graph([result], inputs), options).program
    leaves = emit_linkable(program, options.target).names_of_leaves()
    return {leaf for leaf in leaves if isinstance(leaf, Microkernel)}


def dense(k: int, name: str = "x86-64-v4") -> set[Microkernel]:
    """Return those of a layer whose inputs and terms are `k`, and whose panels are packed late."""
    x, w, b = sg.placeholder((128, k)), sg.placeholder((k, 512)), sg.placeholder((512,))
    return tiles(sg.tanh(x @ w + b), [x, w, b], name)


def test_layers_of_other_widths_have_the_same_tiles():
    found = dense(784)
    assert any(tile.packs for tile in found)
    assert all(tile.next_source is not None for tile in found)
    assert found == dense(800)


def test_tiles_of_a_right_that_is_transposed_prefetch_lines_as_those_of_another():
    x, w = sg.placeholder((128, 784)), sg.placeholder((512, 784))
    assert tiles(sg.tanh(x @ w.T), [x, w]) < dense(784)


def test_tiles_aside_are_those_in_the_result():
    x, w = sg.placeholder((128, 784)), sg.placeholder((784, 512))
    assert tiles(sg.tanh(x @ w), [x, w]) == tiles(x @ w, [x, w])


def test_unrolled_tiles_are_told_rows_only_where_an_address_has_a_distance_several_times():
    def told(name: str) -> set[bool]:
        return {"left_row" in tile.told for tile in dense(784, name) if tile.unrolled > 1}

    assert told("x86-64-v4") == {True}
    assert True not in told("aarch64")


def test_the_loop_of_a_tile_that_is_told_distances_keeps_them_in_registers():
    """So it is with nine rows of three vectors, of which one packs, and none prefetches results."""
    options, target = options_of("x86-64-v4"), target_named("x86-64-v4")
    x, w, b = sg.placeholder((144, 512)), sg.placeholder((512, 528)), sg.placeholder((528,))
    program = lower_graph(Graph([sg.tanh(x @ w + b)], [x, w, b]), options).program
    module = emit_linkable(program, target)
    made_of = module.names_of_leaves()
    tiles = [leaf for leaf in made_of if isinstance(leaf, Microkernel)]
    assert {(leaf.rows, leaf.steps_a_row) for leaf in tiles} == {(9, 0)}
    assert {leaf.packs for leaf in tiles} == {True, False}
    text = module.text_of_leaves(module.leaves)
    assembly = emit_assembly(optimize_leaves(text, target, 3), target, 3)
    loops = re.findall(r"(?ms)^(\.L(?:BB|tmp)\w+):[^\n]*\n(.*?)\tj\w+\s+\1\n", assembly)
    adding = [body for _, body in loops if "vfmadd" in body and body.count("vfmadd") >= 27]
    assert adding
    assert all("(%rsp)" not in body for body in adding)
