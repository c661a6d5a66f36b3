"""Products of triangles: which are told of the zeros, and that no bit changes by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

import symgrad as sg
from symgrad.codegen.loops.language import Kernel, Product
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.program import fuse_products
from symgrad.codegen.program import leave_out_zeros as program_pass
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.passes import PROGRAM_PASSES
from symgrad.codegen.schedule.diagonal_zeros import leave_out_zeros, mask_names
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.passes import Machine
from symgrad.codegen.target import Target, target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.records import replace
from symgrad.runtime.executable import Executable
from symgrad.single_passes import run_passes
from tests.support.attention_steps import attention, step_of
from tests.support.floors import Memory, Variant, run_native, run_variants
from tests.support.machine_code import run_machine_code

Array = NDArray[Any]
TARGETS = (
    "native",
    pytest.param("x86-64-v3", marks=pytest.mark.isa("avx2")),
    pytest.param("x86-64", marks=pytest.mark.isa("sse2")),
)
PASS = "leave-out-zeros"
WEIGHTS = """for i in 0..64 { for j in 0..64 {
    c: bool = m[64*i + j] x: f32 = s[64*i + j] z: f32 = select(c, x, 0.0:f32) w[64*i + j] = z } }"""
EXP = """for i in 0..64 { for j in 0..64 { c: bool = m[64*i + j] x: f32 = s[64*i + j]
    u: f32 = select(c, x, -inf:f32) z: f32 = exp(u) w[64*i + j] = z } }"""
PRODUCT = """product t: f32 for (a in 0..64) (b in 0..32) (k in 0..64)
    w[0] by (64, 1) * v[0] by (32, 1) tile(1, 1) block(1, 1, 1) pack() along(n) {
      y[32*a + b] = t } """
PARAMS = "in m: bool[4096], in s: f32[4096], in v: f32[2048], inout w: f32[4096], out y: f32[2048]"
LOWER = np.tril(np.ones((64, 64), bool))


def kernel_of(*parts: str) -> Any:
    return parse_kernel(f"kernel @k({PARAMS}) {{ {' '.join(parts)} }}")


def borders_of(*parts: str, mask: Any = LOWER) -> list[tuple[int, int]]:
    """Return between which diagonals of its left the only product has elements, [] if unknown."""
    kernel = kernel_of(*parts)
    assert mask_names(kernel) in (["m"], [])
    told = leave_out_zeros(kernel, {"m": mask.reshape(-1)}, target_named("x86-64-v3"))
    verify_kernel(told)
    (found,) = (s for s in statements(told.body) if isinstance(s, Product))
    return [(border.first, border.stop) for border in found.borders]


def test_zeros_that_a_mask_leaves_are_known():
    assert borders_of(WEIGHTS, PRODUCT) == borders_of(EXP, PRODUCT) == [(-63, 1)]
    turned = PRODUCT.replace("(64, 1)", "(1, 64)")
    assert borders_of(WEIGHTS, turned) == [(0, 64)]
    assert borders_of(WEIGHTS, PRODUCT, mask=LOWER.T) == [(0, 64)]


def test_a_right_with_zeros_is_made_the_left():
    right = PRODUCT.replace("w[0] by (64, 1)", "v[0] by (1, 32)").replace("v[0] by (32, 1)", "w[0]")
    right = right.replace("w[0] tile", "w[0] by (64, 1) tile")
    right = right.replace("(a in 0..64) (b in 0..32)", "(b in 0..32) (a in 0..64)")
    assert borders_of(WEIGHTS, right) == [(0, 64)]


@pytest.mark.parametrize(
    ("place", "wanted"),
    [(4095, []), (63 * 64, [(-63, 1)]), (63, [])],
    ids=["all on the diagonal", "far below", "far above"],
)
def test_little_is_left_as_it_is(place, wanted):
    """An element above the diagonal, or none below: what is left out follows from the mask."""
    mask = np.zeros(4096, bool)
    mask[place] = True
    mask = mask.reshape(64, 64) | LOWER if place != 4095 else np.ones((64, 64), bool)
    assert borders_of(WEIGHTS, PRODUCT, mask=mask) == wanted


@pytest.mark.parametrize(
    "parts",
    [
        (WEIGHTS.replace("0.0:f32", "1.0:f32"), PRODUCT),
        (WEIGHTS, "for n in 0..64 { p: f32 = s[n] w[64*n + 63] = p }", PRODUCT),
        (WEIGHTS, PRODUCT.replace("w[0] by (64, 1)", "s[0] by (64, 1)")),
        (WEIGHTS.replace("0..64 {", "0..32 {", 1), PRODUCT),
        (WEIGHTS.replace("m[64*i + j]", "m[(64*i + j) % 4096]"), PRODUCT),
        (WEIGHTS.replace("= z }", "= z } p: f32 = s[64*i] w[64*i] = p"), PRODUCT),
    ],
    ids=["ones", "written again", "another", "other rows", "other places", "two stores"],
)
def test_zeros_that_may_be_none_are_not_known(parts):
    assert borders_of(*parts) == []


def test_what_an_iteration_writes_is_known_in_that_iteration_alone():
    around = "for o in 0..2 ordered {{ {} {} }}"
    assert borders_of(around.format(WEIGHTS, PRODUCT)) == [(-63, 1)]
    assert borders_of(around.format(PRODUCT, WEIGHTS)) == []


def test_a_diagonal_is_text_and_checked_when_it_is_interpreted():
    told = leave_out_zeros(
        kernel_of(WEIGHTS, PRODUCT), {"m": LOWER.reshape(-1)}, target_named("x86-64-v3")
    )
    assert "border(1, 64, -1)(1, 64, 1)(-63, 1)" in print_kernel(told)
    assert parse_kernel(print_kernel(told)) == told
    ones = {"s": np.ones(4096, np.float32), "v": np.ones(2048, np.float32)}
    out = {"w": np.zeros(4096, np.float32), "y": np.zeros(2048, np.float32)}
    assert run_kernel(told, {"m": LOWER.reshape(-1), **ones, **out}) == 0
    np.testing.assert_array_equal(out["y"].reshape(64, 32)[:, 0], np.arange(1, 65))
    with pytest.raises(AssertionError, match="row 0 is not 0 outside of"):
        run_kernel(told, {"m": np.ones(4096, bool), **ones, **out})


@dataclass(frozen=True, slots=True)
class Triangle:
    """A triangle by a matrix, the transposed one by it, and that product transposed."""

    size: int
    width: int
    above: int
    dtype: str

    @property
    def kernel(self) -> Kernel:
        n, width, kind = self.size, self.width, f"f{self.dtype[5:]}"
        sizes = {"m": n * n, "s": n * n, "v": n * width, "w": n * n} | dict.fromkeys(
            ("y0", "y1", "y2"), n * width
        )
        kinds = {name: "bool" if name == "m" else kind for name in sizes}
        modes = {name: "in" if name in "msv" else "out" for name in sizes}
        params = ", ".join(f"{modes[b]} {b}: {kinds[b]}[{count}]" for b, count in sizes.items())
        ways = [
            ("y0", n, width, f"w[0] by ({n}, 1) * v[0] by ({width}, 1)", f"{width}*y0a + y0b"),
            ("y1", n, width, f"w[0] by (1, {n}) * v[0] by ({width}, 1)", f"{width}*y1a + y1b"),
            ("y2", width, n, f"v[0] by (1, {width}) * w[0] by ({n}, 1)", f"y2a + {width}*y2b"),
        ]
        products = [
            f"""product {out}t: {kind} for ({out}a in 0..{rows}) ({out}b in 0..{columns})
            ({out}k in 0..{n}) {operands} tile(1, 1) block(1, 1, 1) pack() along(n) {{
            {out}[{place}] = {out}t }}"""
            for out, rows, columns, operands, place in ways
        ]
        weights = WEIGHTS.replace("64", str(n)).replace("f32", kind)
        return parse_kernel(f"kernel @k({params}) {{ {weights} {' '.join(products)} }}")

    @property
    def mask(self) -> Array:
        return np.tril(np.ones((self.size, self.size), bool), self.above)

    def buffers(self) -> dict[str, Array]:
        random = np.random.default_rng(0)
        counts = {p.name: p.count for p in self.kernel.params if p.name != "m"}
        found = {n: random.standard_normal(count).astype(self.dtype) for n, count in counts.items()}
        return {"m": self.mask.reshape(-1), **found}


def untold(kernel: Kernel) -> Kernel:
    """Return `kernel` with products that know of no zeros, but are computed in the same way."""
    body = (replace(s, borders=()) if isinstance(s, Product) else s for s in kernel.body)
    return replace(kernel, body=tuple(body))


TRIANGLES = [(64, 64, 0), (80, 48, 5), (96, 32, -7)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TARGETS)
def test_no_bit_changes_and_none_with_what_is_not_finite(name, dtype):
    """One element of the right that is not finite, which 0 times is nan: no term is left out."""
    target = target_named(name)
    for size, width, above in TRIANGLES:
        triangle = Triangle(size, width, above, dtype)
        told = leave_out_zeros(triangle.kernel, {"m": triangle.mask.reshape(-1)}, target)
        verify_kernel(told)
        assert sum(isinstance(s, Product) and len(s.borders) == 1 for s in told.body) == 3
        for number, place in ((1.0, 0), (np.inf, 0), (-np.inf, width * size - 1), (np.nan, 999)):
            buffers = triangle.buffers()
            buffers["v"][place] = number
            compare(told, target, buffers, is_finite=bool(np.isfinite(number)))


def compare(told: Kernel, target: Target, buffers: dict[str, Array], *, is_finite: bool) -> None:
    """Compare machine code with that of all terms, and with the interpreter if all is finite."""
    found, wanted = (run_machine_code(k, target, buffers) for k in (told, untold(told)))
    for mine, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert any(np.isnan(a).any() for a in found) != is_finite
    if is_finite:
        assert run_kernel(told, buffers) == 0
        for mine, out in zip(found, ("w", "y0", "y1", "y2"), strict=True):
            np.testing.assert_allclose(mine, buffers[out], rtol=1e-3, atol=1e-4)


def test_terms_are_left_out():
    """A mask that is said to hold for less than it does: what is beside is in no sum."""
    triangle, target = Triangle(64, 64, 0, "float32"), target_named("native")
    less = np.tril(triangle.mask, -20).reshape(-1)
    told = leave_out_zeros(triangle.kernel, {"m": less}, target)
    buffers = triangle.buffers()
    found = run_machine_code(told, target, buffers)
    wanted = run_machine_code(untold(told), target, buffers)
    assert all((a != b).any() for a, b in zip(found[1:], wanted[1:], strict=True))


def test_what_no_tile_leaves_out_may_be_infinite():
    """A mask that is said to hold for less: terms are left out though one that all have is inf."""
    triangle, target = Triangle(80, 48, 40, "float32"), target_named("native")
    less = np.tril(triangle.mask, 10).reshape(-1)
    told = leave_out_zeros(triangle.kernel, {"m": less}, target)
    for row, is_left_out in ((0, True), (10, True), (79, False)):
        buffers = triangle.buffers()
        buffers["v"][48 * row] = np.inf
        (_, found, *_), (_, wanted, *_) = (
            run_machine_code(k, target, buffers) for k in (told, untold(told))
        )
        finite = np.isfinite(found) & np.isfinite(wanted)
        assert (found[finite] != wanted[finite]).any() == is_left_out


def told_of(program: Program) -> int:
    """Return how many products know zeros beside a diagonal."""
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    return sum(isinstance(s, Product) and len(s.borders) > 0 for s in found)


@pytest.mark.parametrize("target", TARGETS[:2])
def test_causal_attention_leaves_out_weights_of_keys_behind_a_query(target):
    graph, arrays = attention()
    steps = [step_of(graph, target, Threads(count, 0.0)) for count in (1, 2, 4)]
    assert told_of(steps[0].program) == 8
    steps.append(step_of(graph, target, skip=("leave-out-zeros",)))
    assert told_of(steps[-1].program) == 0
    alone, *others = [[a.tobytes() for a in run_native(s, arrays).outputs] for s in steps]
    assert all(other == alone for other in others)


@pytest.mark.parametrize(("heads", "length", "rows"), [(5, 128, 1), (9, 64, 2)])
def test_a_sum_that_underflows_has_the_same_sign_on_any_number_of_threads(heads, length, rows):
    """Five heads are fused by batches on one thread alone, and of little is no block of rows.

    The first key has a small weight and a value below 0 that underflows with it, others before the
    33rd have -0, and zeros by what is behind would make 0 of it.
    """
    shape = heads, length, 64
    q, k, v = (sg.placeholder(shape, "float32") for _ in range(3))
    graph = Graph([sg.nn.scaled_dot_product_attention(q, k, v, causal=True)], [q, k, v])
    queries, keys, values = (np.zeros(shape, np.float32) for _ in range(3))
    queries[:, :, 0], keys[:, 0, 0] = 1.0, -40.0
    values[:, :32], values[:, 32:], values[:, 0] = -0.0, 1.0, -1.4e-45
    options = [
        CompileOptions(target_named("native"), 1, False, False, Threads(count, 0.0))
        for count in (1, 2, 4)
    ]
    arrays = [queries, keys, values]
    alone, *others = [run_native(Executable(graph, o), arrays).outputs[0] for o in options]
    assert np.signbit(alone).all(axis=(0, 2)).sum() >= rows
    assert all(other.tobytes() == alone.tobytes() for other in others)


def test_all_levels_agree():
    graph, arrays = attention()
    with mock.patch.object(fuse_products, "BYTES_OF_PRODUCTS", 0):
        variants = [Variant(memory=Memory(side)) for side in ("start", "end")]
        assert run_variants(graph, arrays, variants) is None


def test_a_large_mask_is_not_computed(monkeypatch):
    """That of the first block is a constant, that of the second one more than the limit."""
    monkeypatch.setattr(program_pass, "LARGEST_MASK", 4096)
    assert told_of(step_of(attention()[0]).program) == 4


def test_run_by_name_the_pass_goes_on_from_the_products_that_were_fused_in_front_of_it():
    names = tuple(row.name for row in PROGRAM_PASSES if not row.is_required)
    program = step_of(attention()[0], skip=names).program
    machine = Machine(target_named("native"), ONE_THREAD)
    with mock.patch.object(fuse_products, "BYTES_OF_PRODUCTS", 0):
        assert told_of(run_passes(program, ["fuse-products"], machine)) == 0
        assert told_of(run_passes(program, ["fuse-products", PASS], machine)) > 0


MASKED_RESULT = PRODUCT.replace(
    "y[32*a + b] = t", "c: bool = m[32*a + b] z: f32 = select(c, t, 0.0:f32) y[32*a + b] = z"
)


@pytest.mark.parametrize("hole", [None, 2047, 2000])  # none, at the end and within a row
def test_a_mask_that_holds_everywhere_chooses_nothing(hole):
    mask, is_whole = np.ones(4096, bool), hole is None
    if hole is not None:
        mask[hole] = False
    told = leave_out_zeros(kernel_of(MASKED_RESULT), {"m": mask}, target_named("native"))
    verify_kernel(told)
    assert ("select" not in print_kernel(told)) == is_whole
    unknown = leave_out_zeros(kernel_of(MASKED_RESULT), {}, target_named("native"))
    assert "select" in print_kernel(unknown)
