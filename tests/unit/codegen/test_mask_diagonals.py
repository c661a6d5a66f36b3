"""Diagonals that a loop over blocks of rows moves: which are found, and that no bit changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import symgrad as sg
from symgrad.codegen.loops.language import For, Index, Kernel, Product
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import map_indices, statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule import mask_diagonals
from symgrad.codegen.schedule.diagonal_zeros import has_masks, leave_out_zeros, mask_names
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.schedule.unread_results import leave_out_unread
from symgrad.codegen.target import target_named
from symgrad.graph.graph import Graph
from symgrad.records import replace
from tests.support.attention_steps import step_of
from tests.support.floors import run_native
from tests.support.machine_code import run_machine_code

Array = NDArray[Any]
TARGETS = (
    "native",
    pytest.param("x86-64-v3", marks=pytest.mark.isa("avx2")),
    pytest.param("x86-64", marks=pytest.mark.isa("sse2")),
)
BLOCKS, ROWS, KEYS = 4, 64, 128
LOADED = f"c: bool = m[{ROWS * KEYS}*o + {KEYS}*i + j]"
COMPUTED = "h: i64 = index(i + 16*o - 30) g: i64 = index(j) c: bool = ge(h, g)"
OTHERS = """product t: f32 for (ta in 0..64) (tb in 0..128) (tk in 0..32)
    q[2048*o] by (32, 1) * r[0] by (128, 1) tile(1, 1) block(1, 1, 1) pack() along(n) {
      w[128*ta + tb] = t }"""
BODY = """for i in 0..64 { for j in 0..128 { MASK
      x: f32 = w[128*i + j] z: f32 = select(c, x, 0.0:f32) w[128*i + j] = z } }
    product a: f32 for (aa in 0..64) (ab in 0..32) (ak in 0..128)
      w[0] by (128, 1) * v[0] by (32, 1) tile(1, 1) block(1, 1, 1) pack() along(n) {
        y[2048*o + 32*aa + ab] = a }
    product b: f32 for (ba in 0..128) (bb in 0..32) (bk in 0..64)
      w[0] by (1, 128) * u[0] by (32, 1) tile(1, 1) block(1, 1, 1) pack() along(n) {
        d[4096*o + 32*ba + bb] = b }"""
PARAMS = """in m: bool[32768], in q: f32[8192], in r: f32[4096], in v: f32[4096], in u: f32[2048],
    out w: f32[8192], out y: f32[8192], out d: f32[16384]"""


def mask_of(offsets: Any) -> Array:
    """Return the mask of each block, whose first row has keys up to one of `offsets`."""
    rows, keys = np.arange(ROWS)[:, np.newaxis], np.arange(KEYS)
    return np.stack([keys <= rows + offset for offset in offsets])


EVEN = mask_of([16 * block - 30 for block in range(BLOCKS)])


def told_kernel(condition: str, mask: Array = EVEN, target: str = "x86-64-v3") -> Kernel:
    body = f"for o in 0..{BLOCKS} ordered {{ {OTHERS} {BODY.replace('MASK', condition)} }}"
    kernel = parse_kernel(f"kernel @k({PARAMS}) {{ {body} }}")
    verify_kernel(kernel)
    masks, machine = {"m": mask.reshape(-1)}, target_named(target)
    assert has_masks(kernel)
    assert mask_names(kernel) == (["m"] if condition == LOADED else [])
    told = leave_out_unread(leave_out_zeros(kernel, masks, machine), masks, machine)
    verify_kernel(told)
    return told


def known(kernel: Kernel) -> list[tuple[int, int, Index]]:
    """Return the diagonals that each product knows, and how a loop around moves them."""
    found = []
    for product in (s for s in statements(kernel.body) if isinstance(s, Product)):
        bounds = [(b.first, b.stop) for b in product.borders]
        bounds += [product.read] if product.read is not None else []
        found += [(*each, product.shift) for each in bounds]
    return found


def moved(by: int) -> Index:
    return Index(0, (("o", by),))


@pytest.mark.parametrize("condition", [LOADED, COMPUTED])
def test_diagonals_move_with_a_loop_around(condition):
    """A row has all keys before its last one, so the first diagonal is that of the last block."""
    least = -ROWS + 1 - 16 * (BLOCKS - 1)
    wanted = [(least, -29, moved(16)), (least, -29, moved(16)), (30, 1 - least, moved(-16))]
    told = told_kernel(condition)
    assert known(told) == wanted
    assert "read(-111, -29) shift[16*o]" in print_kernel(told)
    assert "border(1, 128, -1)(1, 64, 1)(30, 112) shift[-16*o]" in print_kernel(told)
    assert parse_kernel(print_kernel(told)) == told
    at_once = map_indices(told.body, lambda index: Index(index.const))
    assert {shift for *_, shift in known(replace(told, body=at_once))} == {Index()}


def test_diagonals_that_move_unevenly_are_taken_together():
    told = told_kernel(LOADED, mask_of([-30, -14, 2, 3]))
    assert known(told) == [(-63, 4, Index()), (-63, 4, Index()), (-3, 64, Index())]


def test_a_block_of_which_nothing_is_seen_moves_no_diagonal():
    told = told_kernel(LOADED, mask_of([-64, -30, -14, 2]))
    assert {shift for *_, shift in known(told)} == {Index()}


def test_a_condition_of_other_values_is_not_known():
    data = "x0: f32 = v[i] g: f32 = u[j] c: bool = ge(x0, g)"
    assert known(told_kernel(data)) == []


def test_a_large_condition_is_known_in_closed_form_alone(monkeypatch):
    """Where the interpreter would be asked, it is given up."""
    less = COMPUTED.replace("c: bool = ge", "less: bool = lt")
    odd = f"{less} c: bool = not(less)"
    assert known(told_kernel(odd)) == known(told_kernel(COMPUTED)) != []
    monkeypatch.setattr(mask_diagonals, "LARGEST_MASK", 4096)
    assert known(told_kernel(odd)) == []
    assert known(told_kernel(COMPUTED)) != []
    monkeypatch.setattr(mask_diagonals, "LARGEST_MASK", 64)
    assert known(told_kernel(COMPUTED)) == []


def test_nothing_is_shifted_where_no_diagonals_are_known():
    text = print_kernel(told_kernel(LOADED)).replace("read(-111, -29) ", "")
    with pytest.raises(AssertionError, match="no diagonals are known that may be shifted"):
        verify_kernel(parse_kernel(text))


def buffers_of(kernel: Kernel) -> dict[str, Array]:
    random = np.random.default_rng(0)
    given = {p.name: p.count for p in kernel.params if p.name != "m"}
    found = {n: random.standard_normal(count).astype(np.float32) for n, count in given.items()}
    return {"m": EVEN.reshape(-1), **found}


def untold(kernel: Kernel) -> Kernel:
    """Return `kernel` with products that know of no diagonals, computed in the same way."""
    (loop,) = kernel.body
    assert isinstance(loop, For), "it has one loop over blocks"
    body = tuple(
        replace(s, borders=(), read=None, shift=Index()) if isinstance(s, Product) else s
        for s in loop.body
    )
    return replace(kernel, body=(replace(loop, body=body),))


@pytest.mark.parametrize("condition", [LOADED, COMPUTED])
@pytest.mark.parametrize("name", TARGETS)
def test_no_bit_changes(name, condition):
    """Neither with a right that is not finite; and machine code does what is interpreted."""
    target = target_named(name)
    told = told_kernel(condition, target=name)
    assert len(known(told)) == 3
    for number, place in ((1.0, 0), (np.inf, 4095), (np.nan, 40 * 32)):
        buffers = buffers_of(told)
        buffers["v"][place] = number
        found, wanted = (run_machine_code(k, target, buffers) for k in (told, untold(told)))
        for mine, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(mine, other)
        if np.isfinite(number):
            assert run_kernel(told, buffers) == 0
            for mine, out in zip(found, "wyd", strict=True):
                np.testing.assert_allclose(mine, buffers[out], rtol=1e-3, atol=1e-3)


def test_the_interpreter_looks_at_the_diagonals_of_each_block():
    """One that moves the other way has zeros that are none, or reads what is not computed."""
    told = told_kernel(LOADED)
    for wrong in (told, replace(told, body=map_indices(told.body, _without_moves))):
        buffers = buffers_of(told)
        if wrong is told:
            assert run_kernel(wrong, buffers) == 0
            continue
        with pytest.raises(AssertionError, match="is not 0 outside of"):
            run_kernel(wrong, buffers)


def _without_moves(index: Index) -> Index:
    return Index() if index in (moved(16), moved(-16)) else index


@pytest.mark.parametrize(("heads", "target"), [(1, "native"), (2, "native"), (1, "x86-64-v3")])
def test_long_causal_attention_leaves_out_what_each_block_of_rows_does_not_see(heads, target):
    """Of one head masks are made of indices in each kernel, of more they are in memory."""
    shape = (heads, 256, 32)
    q, k, v, g = (sg.placeholder(shape, "float32") for _ in range(4))
    y = sg.nn.scaled_dot_product_attention(q, k, v, causal=True)
    graph = Graph([y, *sg.gradients(y, [q, k, v], grad_ys=g)], [q, k, v, g])
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype(np.float32) for _ in range(4)]
    arrays[2][:, 150] = np.inf
    steps = [step_of(graph, target, Threads(count, 0.0)) for count in (1, 2, 4)]
    steps.append(step_of(graph, target, skip=("leave-out-zeros",)))
    products = [
        [s for kernel in step.program.kernels for s in statements(kernel.body)]
        for step in (steps[0], steps[-1])
    ]
    told = [sum(isinstance(s, Product) and s.shift != Index() for s in p) for p in products]
    assert told[0] > 0
    assert told[1] == 0
    alone, *others = [[a.tobytes() for a in run_native(s, arrays).outputs] for s in steps]
    assert all(other == alone for other in others)
