"""Threads that share blocks of a triangle have them by turns: later ones need more terms."""

import re

import numpy as np

import symgrad as sg
from symgrad.codegen.loops.language import Const, For, Index, Store
from symgrad.codegen.schedule.fuse_products import PART, in_parts
from symgrad.graph.dtypes import float32


def places(*, by_turns: bool) -> Index:
    store = Store("y", Index(0, (("p", 1),)), Const(0.0, float32))
    nest = in_parts([("p", 8)], "p", 2, (store,), by_turns=by_turns)
    (loop,) = nest.body
    assert isinstance(loop, For)
    assert (nest.extent, loop.extent) == (2, 4)
    (moved,) = loop.body
    assert isinstance(moved, Store)
    return moved.index


def test_iterations_of_a_part_are_neighbours_or_take_turns():
    assert set(places(by_turns=False).terms) == {(PART, 4), ("p", 1)}
    assert set(places(by_turns=True).terms) == {(PART, 1), ("p", 2)}


def test_threads_have_blocks_of_a_causal_attention_by_turns():
    q, k, v = (sg.placeholder((1, 1024, 64)) for _ in range(3))
    y = sg.nn.scaled_dot_product_attention(q, k, v, causal=True)
    random = np.random.default_rng(0)
    arrays = [random.normal(size=q.shape).astype(np.float32) for _ in range(3)]
    steps = [sg.compile([q, k, v], y, threads=threads) for threads in (1, 2)]
    moved = re.findall(r"shift\[(\d+)\*i0 \+ (\d+)\*i1\]", steps[1].ir("loops"))
    assert moved
    # Of four blocks a part has the first and the third, or the second and the fourth.
    assert all(2 * int(of_part) == int(of_turn) for of_part, of_turn in moved)
    one, two = (step(*arrays) for step in steps)
    np.testing.assert_array_equal(one, two)
