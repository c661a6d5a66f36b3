"""Loops over the rows of a block: which follow one another, and which are one."""

from __future__ import annotations

from itertools import pairwise

import symgrad as sg
from symgrad.codegen.loops.language import Fold, For, Product
from symgrad.codegen.loops.rewrite import is_free_of, statements
from symgrad.codegen.schedule.parallelize import ONE_THREAD
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.records import replace
from symgrad.runtime.executable import Executable


def loops_side_by_side(l2_bytes: int) -> list[tuple[For, For]]:
    """Return loops over rows that follow one another, of attention with such a near cache."""
    target = target_named("native")
    target = replace(target, memory=replace(target.memory, l2_bytes=l2_bytes))
    q, k, v = (sg.placeholder((4, 256, 64), "float32") for _ in range(3))
    graph = Graph([sg.nn.scaled_dot_product_attention(q, k, v)], [q, k, v])
    program = Executable(graph, CompileOptions(target, 1, False, False, ONE_THREAD)).program
    nests = [s for kernel in program.kernels for s in statements(kernel.body) if isinstance(s, For)]
    (blocks,) = (nest for nest in nests if any(isinstance(s, Product) for s in nest.body))
    pairs = pairwise(blocks.body)
    return [(a, b) for a, b in pairs if isinstance(a, For) and isinstance(b, For)]


def test_rows_of_several_stages_are_one_loop_but_what_waits_for_a_fold():
    """Of 256 rows of 1 KB: all maxima are known before exponentials, if a near cache has them."""
    assert loops_side_by_side((256 << 10) - 1) == []
    pairs = loops_side_by_side(256 << 10)
    assert pairs
    assert all(not is_free_of(first.body, Fold) for first, _ in pairs)
