"""Programs: kernels that differ and that do not, arguments of calls, and where temporaries lie."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Product
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.program.print import print_program
from symgrad.graph import dtypes
from symgrad.graph.graph import Update
from tests.support.networks import random_network
from tests.support.programs import built_from, program_from
from tests.support.strategies import random_graph

X = sg.placeholder((8, 8), name="x")


# ------------------------------------------------------------------------------ shared kernels


def test_fifty_equal_layers_share_their_kernel():
    y = X
    for _ in range(50):
        y = sg.tanh(y @ sg.variable(np.eye(8, dtype=np.float32)))
    program = program_from(y)
    assert len(program.launches) == 50
    assert len(program.kernels) == 1


def test_fifty_equal_layers_share_the_kernels_of_their_training_step():
    weights = [sg.variable(np.eye(16, dtype=np.float32)) for _ in range(50)]
    y = sg.placeholder((16, 16))
    for weight in weights:
        y = sg.tanh(y @ weight)
    found = zip(weights, sg.gradients(sg.sum(y), weights), strict=True)
    updates = [Update(w, w - 0.1 * g) for w, g in found if g is not None]
    program = program_from(updates=updates)
    assert len(program.launches) >= 100
    assert len(program.kernels) <= 12


@pytest.mark.parametrize(
    "other",
    [
        sg.sigmoid(X),
        sg.tanh(sg.placeholder((8, 9))),
        sg.tanh(sg.placeholder((8, 8), "float64")),
        sg.tanh(X) * 2,
        sg.tanh(X.T),
    ],
    ids=["another op", "another shape", "another dtype", "one op more", "another walk"],
)
def test_kernels_that_differ_are_two(other):
    program = program_from(sg.tanh(sg.placeholder((8, 8))) + 1, other)
    assert len(program.kernels) == 2


def test_kernels_that_differ_in_a_constant_are_two():
    a, b = sg.placeholder((8,)), sg.placeholder((8,))
    assert len(program_from(a * 2, b * 3).kernels) == 2
    assert len(program_from(a * 2, b * 2).kernels) == 1
    assert len(program_from(a * 0.0, b * -0.0).kernels) == 2


def test_a_shared_kernel_reports_the_op_of_the_call():
    i, j = sg.placeholder((4,), "int64"), sg.placeholder((4,), "int64")
    takes = [sg.take(X, i, axis=0), sg.take(X * 2, j, axis=0)]
    built = built_from(*takes)
    numbers = [built.sources.partition.status[t.node] for t in takes]
    calls = [call for call in built.program.launches if call.kernel.can_fail]
    assert len({call.kernel for call in calls}) == 1
    assert [call.statuses for call in calls] == [(n,) for n in numbers]


# ---------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize("count", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_a_call_has_an_argument_for_each_parameter(count):
    for seed in range(count):
        graph, _ = random_network(np.random.default_rng(seed), dtypes.float32)
        program = program_from(*graph.outputs, updates=graph.updates)
        for call in program.launches:
            params = call.kernel.params
            for buffer, start, param in zip(call.arguments, call.starts, params, strict=True):
                assert buffer.type.dtype == param.dtype
                assert 0 <= start <= start + param.count <= buffer.type.count


def test_a_call_gets_no_buffer_twice():
    w = sg.variable(np.zeros((8, 8), np.float32))
    program = program_from(w, w + w.T, updates=[Update(w, w * w)])
    for call in program.launches:
        assert len(set(call.arguments)) == len(call.arguments)


def test_a_product_that_packs_gets_scratch_memory_of_its_own():
    a, b = sg.placeholder((300, 300)), sg.placeholder((300, 300))
    program = program_from((a @ b.T) @ (b @ a))
    products = [c for c in program.launches if c.kernel.params[-1].mode == "scratch"]
    assert products
    for call in products:
        (product,) = (s for s in statements(call.kernel.body) if isinstance(s, Product))
        assert product.scratch == call.kernel.params[-1].name
        assert product.blocking.scratch == call.arguments[-1].type.nbytes
    scratch = [call.arguments[-1] for call in products]
    assert len(set(scratch)) == len(scratch)
    assert all(str(buffer).startswith("temporary") for buffer in scratch)


def test_a_small_product_gets_no_scratch_memory():
    program = program_from(sg.placeholder((9, 10)) @ sg.placeholder((10, 11)))
    (call,) = program.launches
    assert [p.mode for p in call.kernel.params] == ["in", "in", "out"]


def test_new_values_that_are_copied_come_last():
    a, b = (sg.variable(np.zeros(4, np.float32), name=n) for n in "ab")
    program = program_from(updates=[Update(a, b), Update(b, a)])
    assert [call.label for call in program.launches] == [
        "copy of a result",
        "copy of a result",
        "copy of a new value",
        "copy of a new value",
    ]
    assert len(program.kernels) == 1


def test_a_program_of_nothing_has_no_calls():
    program = program_from()
    assert (program.launches, program.kernels, program.arena_bytes) == ((), (), 0)


# ------------------------------------------------------------------------------------- memory


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


@pytest.mark.parametrize("count", [12, pytest.param(60, marks=pytest.mark.slow)])
def test_temporaries_that_are_alive_together_do_not_overlap(count):
    compared = 0
    for seed in range(count):
        rng = np.random.default_rng(seed)
        graph, _ = (
            random_network(rng, dtypes.float32)
            if seed % 3 == 0
            else random_graph(rng, dtype=dtypes.float32, size=20)
        )
        program = program_from(*graph.outputs, updates=graph.updates)
        placed = [
            (program.offsets[b], program.offsets[b] + b.type.nbytes, *program.lifetimes[b])
            for b in program.lifetimes
        ]
        for i, (start, end, first, last) in enumerate(placed):
            assert 0 <= start <= end <= program.arena_bytes
            assert start % 64 == 0
            for other_start, other_end, other_first, other_last in placed[:i]:
                together = first <= other_last and other_first <= last
                compared += together
                assert not (together and _overlap((start, end), (other_start, other_end)))
    assert compared > 100


def test_the_arena_does_not_grow_with_a_chain():
    def arena(layers: int) -> int:
        y = X
        for _ in range(layers):
            y = sg.tanh(y @ X)
        return program_from(y).arena_bytes

    assert arena(3) == arena(40) == 2 * 8 * 8 * 4


def test_the_text_has_the_kernels_and_their_calls():
    program = program_from(sg.exp(sg.sum(sg.tanh(X @ X), axis=1)), X * 2)
    text = print_program(program)
    assert "kernel @k0(in b0: f32[64], out b1: f32[64]) {" in text
    assert f"program @graph arena({program.arena_bytes}) {{" in text
    assert "  temporary0: f32[8, 8] at 0 alive 0 to 1\n" in text
    assert "  launch @k0(input0, temporary0)  // einsum" in text
    assert "  launch @k1(temporary0, output0)  // tanh sum exp" in text
