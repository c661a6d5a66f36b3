"""The families of random programs: what a seed of each is, and how its machine code is made.

A seed says all: `FAMILIES[name].program(seed)` is the graph with its inputs, and `variants(seed)`
the three targets, each with a number of threads and with memory between guard pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from symgrad.codegen.schedule.parallelize import Threads
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph
from symgrad.graph.ops.reduction import sum as sum_of
from symgrad.graph.types import Array
from symgrad.passes.calls.inline_calls import inline_calls
from symgrad.passes.calls.share_calls import share_calls
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.passes.loops.merge_loops import merge_loops
from symgrad.passes.loops.prune_loops import prune_loops
from tests.support.alike_programs import random_alike
from tests.support.attention_programs import LARGE, SMALL, random_attention
from tests.support.complex_programs import random_complex_graph, total_of
from tests.support.floors import TARGETS, Memory, Variant
from tests.support.guard_pages import Side
from tests.support.layer_programs import random_layers
from tests.support.loop_programs import random_loop
from tests.support.matrix_programs import random_matrices
from tests.support.networks import random_network
from tests.support.power_programs import random_powers
from tests.support.row_chain_programs import random_row_chain
from tests.support.strategies import random_graph

THREADS = (1, 2, 4)

_INTEGERS = (dtypes.int32, dtypes.uint8, dtypes.int64, dtypes.int8, dtypes.uint16)
_FLOATS = (dtypes.float32, dtypes.float64)
_HALVES = (dtypes.float16, dtypes.bfloat16)
# At, below and above the sizes from which loops are scheduled as long ones.
_LONG = (255, 256, 257, 300, 384, 512, 640, 1000, 1024)

Program = tuple[Graph, list[Array]]


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of random programs.

    `slack`: how many times the usual tolerance results may differ. `interprets`: whether the loops
    are interpreted, too, of which an iteration takes as long as a thousand of machine code.
    """

    name: str
    program: Callable[[int], Program]
    slack: float = 1.0
    interprets: bool = True


# ---------------------------------------------------------------------------------- the programs


def random_program(seed: int, long: int | None = None) -> Program:
    """Return a graph of single ops, in two of five cases with gradients, and its inputs."""
    kind, number = seed % 5, seed // 5
    if kind == 0:
        return _forward(seed, _INTEGERS[number % len(_INTEGERS)], long)
    if kind == 1:
        return _forward(seed, _HALVES[number % 2], long)
    if kind == 2:
        return _forward(seed, _FLOATS[number % 2], long)
    return _with_gradients(seed, _FLOATS[number % 2], long)


def random_long_program(seed: int) -> Program:
    """Return such a graph of which some axes have some hundred elements, and its inputs."""
    return random_program(seed, _LONG[seed % len(_LONG)])


def _forward(seed: int, dtype: DType, long: int | None) -> Program:
    rng = np.random.default_rng(seed)
    # What jumps may jump where two ways of computing differ in the last bit: the coarser the
    # dtype, the more often. Integers have all of it, and the wider floats too.
    size = int(rng.integers(1, 14))
    return random_graph(rng, dtype=dtype, size=size, smooth=dtype.is_half, long=long)


def _with_gradients(seed: int, dtype: DType, long: int | None) -> Program:
    return _with_gradients_of(*_forward(seed, dtype, long))


def _with_gradients_of(graph: Graph, inputs: list[Array]) -> Program:
    found = gradients(list(graph.outputs), [*graph.inputs, *graph.variables])
    outputs = [*graph.outputs, *(g for g in found if g is not None)]
    return Graph(outputs, graph.inputs, graph.updates, name="random"), inputs


def random_alike_graphs(seed: int) -> Program:
    """Return some graphs of single ops that differ in sizes, mostly with gradients, as one."""
    graph, inputs = random_alike(seed, _FLOATS[seed % 2])
    return _with_gradients_of(graph, inputs) if seed % 4 else (graph, inputs)


def random_training(seed: int) -> Program:
    """Return a training step of a network, and its inputs."""
    return random_network(np.random.default_rng(seed), _FLOATS[seed % 2])


def random_control(seed: int) -> Program:
    """Return a graph of branches, loops and functions, with first or second gradients or none.

    In one of two cases its calls are inlined where that is the rule, else all of them remain.
    """
    rng = np.random.default_rng(seed)
    dtype = dtypes.int32 if seed % 16 == 15 else dtypes.float64
    graph, inputs = random_graph(
        rng, dtype=dtype, size=int(rng.integers(1, 3)), smooth=True, control=True
    )
    graph = _differentiated(graph, seed % 16)
    if seed // 16 % 2:
        graph = inline_calls(graph)
    return share_calls(prune_loops(merge_loops(graph))), inputs


def _differentiated(graph: Graph, kind: int) -> Graph:
    """Return the graph with its first gradients; for kind 0 with second ones, from 8 on without."""
    if kind >= 8:
        return graph
    xs = [*graph.inputs, *graph.variables]
    found = [g for g in gradients(list(graph.outputs), xs) if g is not None]
    if kind == 0 and found:
        total = sum_of(sum((sum_of(g) for g in found[1:]), sum_of(found[0])))
        found += [g for g in gradients(total, xs) if g is not None]
    return Graph([*graph.outputs, *found], graph.inputs, graph.updates, name="random")


def random_recurrence(seed: int) -> Program:
    """Return a loop of several loop variables of several dtypes, mostly with gradients."""
    graph, inputs = random_loop(seed)
    return prune_loops(merge_loops(graph)), inputs


def random_network_of_layers(seed: int) -> Program:
    """Return a network on images or sequences with gradients of its inputs and weights."""
    graph, inputs = random_layers(seed, _FLOATS[seed % 2])
    return share_calls(prune_loops(merge_loops(graph))), inputs


def random_complex(seed: int) -> Program:
    """Return a graph of ops on complex numbers, mostly with gradients, one of two with loops."""
    rng = np.random.default_rng(seed)
    has_control, dtype = seed % 2 == 1, dtypes.COMPLEX[seed // 2 % 2]
    size = int(rng.integers(1, 3 if has_control else 12))
    graph, inputs = random_complex_graph(rng, dtype, size, control=has_control)
    if seed % 8 > 1:
        xs = [*graph.inputs, *graph.variables]
        found = [g for g in gradients(total_of(graph.outputs), xs) if g is not None]
        if seed % 8 == 2 and found:
            found += [g for g in gradients(total_of(tuple(found)), xs) if g is not None]
        graph = Graph([*graph.outputs, *found], graph.inputs, graph.updates, name="random")
    return share_calls(prune_loops(merge_loops(graph))), inputs


def random_linear_algebra(seed: int) -> Program:
    """Return functions of matrices with gradients, in float64 but for one of four."""
    graph, inputs = random_matrices(seed, _FLOATS[seed % 4 != 0])
    return share_calls(prune_loops(merge_loops(graph))), inputs


def random_gated_rows(seed: int) -> Program:
    """Return products of short rows that are gated, masked or normalised, mostly with gradients."""
    graph, inputs = random_attention(seed, _FLOATS[seed % 2], SMALL)
    return share_calls(prune_loops(merge_loops(graph))), inputs


def random_scores(seed: int) -> Program:
    """Return the same of rows that are long, and many, as those of attention are."""
    return random_attention(seed, _FLOATS[seed % 2], LARGE)


def random_rows(seed: int) -> Program:
    """Return a chain of functions of rows, in one of four in a half, mostly with gradients."""
    return random_row_chain(seed, (_HALVES if seed % 4 == 3 else _FLOATS)[seed // 4 % 2])


def random_special_powers(seed: int) -> Program:
    """Return powers of special numbers, of floats with gradients, in one of four of integers."""
    dtypes_ = _INTEGERS if seed % 4 == 3 else (*_FLOATS, *_FLOATS, *_HALVES)
    return random_powers(seed, dtypes_[seed // 4 % len(dtypes_)])


FAMILIES = {
    family.name: family
    for family in (
        Family("ops", random_program),
        Family("long", random_long_program, slack=30.0, interprets=False),
        Family("training", random_training),
        Family("control", random_control, slack=100.0),
        Family("recurrences", random_recurrence, slack=10.0),
        Family("layers", random_network_of_layers, slack=100.0),
        Family("complex", random_complex, slack=100.0),
        Family("matrices", random_linear_algebra, slack=100.0),
        Family("alike", random_alike_graphs, slack=100.0, interprets=False),
        Family("attention", random_gated_rows, slack=10.0),
        Family("scores", random_scores, slack=10.0, interprets=False),
        Family("rows", random_rows, slack=10.0),
        Family("powers", random_special_powers, slack=10.0),
    )
}


# ---------------------------------------------------------------------------------- the variants


def variants(seed: int) -> list[Variant]:
    """Return how the machine code of a program is made: for each target, and in turns the rest.

    What is small is shared among threads too, in turns only beside larger kernels of a loop, and
    every other time interleaved, in tiles, with unrolled products, sums in memory, short rows,
    terms of padding left out, windows packed or read in place, results placed, sweeps over the
    same rows fused, elementwise kernels joined over short axes, products with what is done with
    their rows, or with the weights of its loops packed, the iterations of short rows split, rows
    computed in pairs, or math functions called.
    Guard pages are behind all memory, of one seed in four before it; temporaries have pages of
    their own for the target whose turn it is.
    """
    # Digits of the seed: the turns of one thing go through all turns of the others.
    threads, apart, _, level, side = (seed // 3**digit for digit in range(5))
    where: Side = "start" if side % 4 == 3 else "end"
    # In loops what takes half as much is shared beside what takes it all.
    leasts = (0, 400) if (level + apart) % 3 == 0 else (0, 0)
    return [
        Variant(
            target,
            opt_level=int((level + number) % 3 == 0),
            threads=Threads(THREADS[(threads + number) % 3], least_cycles=leasts[number % 2]),
            memory=Memory(where, is_apart=(apart + number) % 3 == 0),
            interleaves=(apart + number) % 2 == 0,
            packs=(level + apart + number) % 2 == 0,
            tiles=(level + number) % 2 == 0,
            squares=(level + number) % 2 == 1,
            unrolls=(threads + number) % 2 == 0,
            sums=(level + threads + number) % 2 == 0,
            rows=(level + apart + number) % 2 == 1,
            blocks=(threads + level + apart + number) % 2 == 1,
            borders=(threads + apart + number) % 2 == 0,
            windows=(threads + level + apart + number) % 2 == 0,
            in_place=(threads + level + number) % 3 == 0,
            apart=(threads + level + number) % 2 == 1,
            places=(level + apart + number) % 2 == 0,
            sweeps=(threads + apart + number) % 2 == 1,
            products=(threads + level + apart + number) % 3 == 0,
            triangles=(threads + level + apart + number) % 3 == 0 and level % 2 == 0,
            elements=(threads + apart + number) % 2 == 0,
            split=(threads + level + number) % 2 == 0,
            pairs=(apart + level + number) % 3 != 0,
            calls=(threads + apart + level + number) % 3 == 0,
        )
        for number, target in enumerate(TARGETS)
    ]


def variant_in_turn(seed: int) -> Variant:
    """Return the one of `variants` whose turn it is."""
    return variants(seed)[seed // 9 % 3]
