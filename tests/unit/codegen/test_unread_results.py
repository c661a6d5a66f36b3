"""Products of triangles: which compute what is read alone, and that no bit changes by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.loops.language import Kernel, Product
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.program import fuse_products
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.schedule.unread_results import leave_out_unread
from symgrad.codegen.target import target_named
from symgrad.records import replace
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.decisions import describe_decisions
from tests.support.attention_steps import attention, step_of
from tests.support.floors import Memory, Variant, run_native, run_variants
from tests.support.machine_code import run_machine_code

Array = NDArray[Any]
TARGETS = (
    "native",
    pytest.param("x86-64-v3", marks=pytest.mark.isa("avx2")),
    pytest.param("x86-64", marks=pytest.mark.isa("sse2")),
)
LOWER = np.tril(np.ones((64, 64), bool))
SCORES = """product t: f32 for (a in 0..64) (b in 0..64) (k in 0..32)
    q[0] by (32, 1) * v[0] by (64, 1) tile(1, 1) block(1, 1, 1) pack() along(n) {
      w[64*a + b] = t }"""
GREATEST = """for i in 0..64 { fold g: f32 = -inf for j in 0..64 lanes(8) {
      c: bool = m[64*i + j] x: f32 = w[64*i + j] y: f32 = select(c, x, -inf:f32) yield y
    } combine (l) (r) { h: f32 = max(l, r) yield h } z[i] = g }"""
ANEW = """for d in 0..64 { n: f32 = z[d] for e in 0..64 {
      o: bool = m[64*d + e] p: f32 = w[64*d + e] s: f32 = sub(p, n)
      u: f32 = select(o, s, -inf:f32) f: f32 = exp(u) w[64*d + e] = f }
    fold aa: f32 = 0.0 for ab in 0..64 lanes(8) { ac: f32 = w[64*d + ab] yield ac
    } combine (ad) (ae) { af: f32 = add(ad, ae) yield af } z[d] = aa }"""
AT_ONCE = """product t: f32 for (a in 0..64) (b in 0..64) (k in 0..32)
    q[0] by (32, 1) * v[0] by (64, 1) tile(1, 1) block(1, 1, 1) pack() along(n) {
      c: bool = m[64*a + b] y: f32 = mul(t, 2.0:f32) x: f32 = select(c, y, 0.0:f32)
      w[64*a + b] = x }"""
PARAMS = "in m: bool[4096], in q: f32[2048], in v: f32[2048], inout w: f32[4096], inout z: f32[64]"
READ_AT_0 = "for ag in 0..64 { ah: f32 = w[64*ag] z[ag] = ah }"


def told_kernel(*parts: str, mask: Any = LOWER) -> Kernel:
    kernel = parse_kernel(f"kernel @k({PARAMS}) {{ {' '.join(parts)} }}")
    verify_kernel(kernel)
    told = leave_out_unread(kernel, {"m": mask.reshape(-1)}, target_named("x86-64-v3"))
    verify_kernel(told)
    return told


def read_of(*parts: str, mask: Any = LOWER) -> tuple[int, int] | None:
    """Return which diagonals of the first product its kernel knows to be read."""
    found = (s for s in statements(told_kernel(*parts, mask=mask).body) if isinstance(s, Product))
    return next(found).read


def test_what_a_mask_leaves_alone_is_read():
    assert read_of(SCORES, GREATEST, ANEW) == read_of(SCORES, ANEW) == (-63, 1)
    assert read_of(AT_ONCE) == (-63, 1)
    assert read_of(SCORES, GREATEST, ANEW, mask=LOWER.T) == (0, 64)
    band = LOWER & np.triu(np.ones((64, 64), bool), -9)
    assert read_of(AT_ONCE, mask=band) == (-9, 1)
    around = f"for ai in 0..1 ordered {{ for aj in 0..3 ordered {{ {SCORES} {ANEW} }} }}"
    assert read_of(around) == (-63, 1)


@pytest.mark.parametrize(
    "parts",
    [
        (SCORES, GREATEST),
        (SCORES, GREATEST.replace("yield y", "yield x"), ANEW),
        (SCORES, READ_AT_0, ANEW),
        (SCORES, ANEW.replace("d in 0..64", "d in 0..32")),
        (SCORES, ANEW.replace("e in 0..64 {", "e in 0..48 {")),
        (SCORES, ANEW.replace("select(o, s, -inf:f32)", "select(o, n, s)")),
        (SCORES, ANEW.replace("select(o, s, -inf:f32)", "select(o, s, p)")),
        (SCORES, ANEW.replace("w[64*d + e] = f", "w[64*d + e] = s")),
        (SCORES, ANEW.replace("m[64*d + e]", "m[(64*d + e) % 4096]")),
        (SCORES, ANEW.replace("p: f32 = w[64*d + e]", "p: f32 = w[d + 64*e]")),
        (SCORES,),
        (AT_ONCE.replace("y, 0.0:f32", "y, t"),),
        (AT_ONCE.replace("w[64*a + b] = x", "w[64*a + b] = y"),),
    ],
    ids=[
        "never stored anew", "a fold of all", "a column", "some rows", "some columns",
        "the others", "both", "no select", "other places", "turned", "nothing", "both at once",
        "all at once",
    ],
)  # fmt: skip
def test_what_may_be_read_elsewhere_is_computed(parts):
    assert read_of(*parts) is None


def test_a_mask_that_leaves_nearly_all_changes_nothing():
    assert read_of(AT_ONCE, mask=np.ones((64, 64), bool)) is None
    almost = np.ones((64, 64), bool)
    almost[0, 63] = False
    assert read_of(AT_ONCE, mask=almost) is None
    assert read_of(AT_ONCE, mask=np.zeros((64, 64), bool)) is None


def test_what_is_read_is_text_and_the_rest_is_nan_when_it_is_interpreted():
    told = told_kernel(SCORES, GREATEST, ANEW)
    assert "read(-63, 1)" in print_kernel(told)
    assert parse_kernel(print_kernel(told)) == told
    (scores, *_) = told.body
    ones = {"q": np.ones(2048, np.float32), "v": np.ones(2048, np.float32)}
    given = {"m": LOWER.reshape(-1), **ones, "z": np.zeros(64, np.float32)}
    w = np.zeros(4096, np.float32)
    assert run_kernel(replace(told, body=(scores,)), {**given, "w": w}) == 0
    np.testing.assert_array_equal(np.isnan(w.reshape(64, 64)), ~LOWER)
    assert run_kernel(told, {**given, "w": w}) == 0
    np.testing.assert_array_equal(w.reshape(64, 64), LOWER)


def test_no_results_are_not_read():
    text = print_kernel(told_kernel(SCORES, ANEW)).replace("read(-63, 1)", "read(1, 1)")
    with pytest.raises(AssertionError, match="from diagonal 1 to 1 are read, which are none"):
        verify_kernel(parse_kernel(text))


@dataclass(frozen=True, slots=True)
class Triangle:
    """Scores of queries and keys, beside a diagonal, stored as they are and chosen at once."""

    rows: int
    columns: int
    first: int
    stop: int
    dtype: str
    panel: int = 0

    @property
    def mask(self) -> Array:
        across = np.arange(self.columns) - np.arange(self.rows)[:, np.newaxis]
        return (across >= self.first) & (across < self.stop)

    @property
    def kernel(self) -> Kernel:
        rows, columns, size = self.rows, self.columns, self.rows * self.columns
        panel = self.panel
        beside = f"({panel}, 1 {panel}:{40 * panel})" if panel else f"({columns}, 1)"
        chosen = f"""c: bool = m[{columns}*za + zb] e: KIND = exp(zt)
            s: KIND = select(c, e, 2.0:KIND) z[{columns}*za + zb] = s"""
        text = " ".join(
            (
                self._product("x", beside, f"x[{columns}*xa + xb] = xt"),
                self._chosen("x"),
                self._product("y", "(1, 40)", f"y[{columns}*ya + yb] = yt"),
                self._chosen("y"),
                self._product("z", "(1, 40)", chosen),
            )
        )
        params = f"in m: bool[{size}], in q: KIND[{40 * rows}], in v: KIND[{40 * columns}], "
        params += ", ".join(f"out {out}: KIND[{size}]" for out in "xyz")
        params += f", scratch p: u8[{8 * 40 * columns}]"
        text = f"kernel @k({params}) {{ {text} }}".replace("KIND", f"f{self.dtype[5:]}")
        kernel = parse_kernel(text)
        verify_kernel(kernel)
        return kernel

    def _product(self, out: str, strides: str, body: str) -> str:
        axes = f"({out}a in 0..{self.rows}) ({out}b in 0..{self.columns}) ({out}k in 0..40)"
        return f"""product {out}t: KIND for {axes} q[0] by (40, 1) * v[0] by {strides}
            tile(1, 1) block(1, 1, 1) pack() along(n) scratch(1 in p) {{ {body} }}"""

    def _chosen(self, out: str) -> str:
        """Return loops that store anew what a mask leaves of a product, and ones."""
        place = f"{self.columns}*{out}i + {out}j"
        return f"""for {out}i in 0..{self.rows} {{ for {out}j in 0..{self.columns} {{
            {out}c: bool = m[{place}] {out}l: KIND = {out}[{place}]
            {out}s: KIND = select({out}c, {out}l, 1.0:KIND) {out}[{place}] = {out}s }} }}"""

    def buffers(self) -> dict[str, Array]:
        random, kinds = np.random.default_rng(0), {"m": np.bool_, "p": np.uint8}
        found = {
            p.name: random.standard_normal(p.count).astype(kinds.get(p.name, self.dtype))
            for p in self.kernel.params
        }
        return {**found, "m": self.mask.reshape(-1)}


TRIANGLES = [
    (64, 64, -63, 1, 0), (64, 64, 0, 64, 0), (64, 320, -63, 257, 0), (96, 160, -20, 33, 0),
    (50, 128, 30, 128, 0), (64, 64, 40, 64, 0), (70, 32, -69, -30, 0), (64, 320, -63, 257, 64),
    (96, 128, -20, 33, 64), (64, 96, -9, 20, 48),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TARGETS)
def test_no_bit_changes_whatever_is_where_nothing_reads(name, dtype):
    """Neither by what memory holds, nor by products that are not finite."""
    target = target_named(name)
    for rows, columns, first, stop, panel in TRIANGLES:
        triangle = Triangle(rows, columns, first, stop, dtype, panel)
        kernel = triangle.kernel
        told = leave_out_unread(kernel, {"m": triangle.mask.reshape(-1)}, target)
        verify_kernel(told)
        products = [s for s in told.body if isinstance(s, Product)]
        assert any(p.read is not None for p in products), (rows, columns, first, stop)
        untold = tuple(replace(s, read=None) if isinstance(s, Product) else s for s in told.body)
        buffers = triangle.buffers()
        buffers["v"][-1], buffers["x"][:], buffers["y"][:] = np.inf, np.nan, -np.inf
        found = run_machine_code(told, target, buffers)
        wanted = run_machine_code(replace(told, body=untold), target, buffers)
        for mine, other in zip(found, wanted, strict=True):
            assert mine.tobytes() == other.tobytes()
        buffers["v"][-1] = 1.0
        found = run_machine_code(told, target, buffers)
        assert run_kernel(told, buffers) == 0
        for mine, out in zip(found, "xyz", strict=True):
            np.testing.assert_allclose(mine, buffers[out], rtol=1e-3, atol=1e-4)


def test_vectors_are_left_out():
    """What a product alone stores: memory is as it was where no vector of a tile is read."""
    triangle, target = Triangle(64, 64, -63, 1, "float32"), target_named("native")
    told = leave_out_unread(triangle.kernel, {"m": triangle.mask.reshape(-1)}, target)
    product = next(s for s in told.body if isinstance(s, Product))
    plan, buffers = product_plan(product, target), triangle.buffers()
    buffers["x"][:] = np.nan
    (found, *_) = run_machine_code(replace(told, body=(product,)), target, buffers)
    is_left = np.isnan(found.reshape(64, 64))
    assert not is_left[triangle.mask].any()
    assert not is_left[63].any()
    assert is_left[0, plan.whole_vectors(plan.tile_rows) :].all()


def test_vectors_are_left_out_of_panels():
    triangle = Triangle(64, 128, -63, 65, "float32", panel=64)
    told = leave_out_unread(
        triangle.kernel, {"m": triangle.mask.reshape(-1)}, target_named("x86-64-v3")
    )
    product = next(s for s in told.body if isinstance(s, Product))
    assert product.rhs.column_digits == ((64, 2560),)
    assert product.read == (-63, 65)


def told_in(step: Executable) -> list[tuple[int, int]]:
    found = (s for kernel in step.program.kernels for s in statements(kernel.body))
    return [s.read for s in found if isinstance(s, Product) and s.read is not None]


@pytest.mark.parametrize("target", TARGETS[:2])
def test_causal_attention_leaves_out_scores_of_keys_behind_a_query(target):
    """Scores of both blocks and their gradients; keys behind a query may be what they are."""
    graph, arrays = attention()
    steps = [step_of(graph, target, Threads(count, 0.0)) for count in (1, 2, 4)]
    assert told_in(steps[0]) == [(-63, 1), (-63, 1), (-63, 65), (-63, 65)]
    steps.append(step_of(graph, target, skip=("leave-out-zeros",)))
    assert told_in(steps[-1]) == []
    for number in (1.0, np.inf, np.nan):
        arrays[1][:, 100], arrays[2][:, 30] = number, number
        alone, *others = [[a.tobytes() for a in run_native(s, arrays).outputs] for s in steps]
        assert all(other == alone for other in others)


@pytest.mark.parametrize("bounds", [(0, 96), (-8, 9), (-95, -19), (40, 96)])
def test_masks_of_other_shapes_leave_out_scores(bounds):
    """Of an upper triangle, of a band, and of what is far from the diagonal."""
    first, stop = bounds
    triangle = Triangle(96, 96, first, stop, "float32")
    graph, arrays = attention(triangle.mask)
    arrays[0][2, 10], arrays[1][0, 90], arrays[2][1, 50] = -np.inf, np.inf, np.nan
    told, untold = step_of(graph), step_of(graph, skip=("leave-out-zeros",))
    assert told_in(told) == [bounds, bounds]
    found, wanted = (run_native(step, arrays).outputs for step in (told, untold))
    assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted]


def test_a_mask_beside_no_diagonal_leaves_out_nothing():
    mask = np.random.default_rng(0).random((96, 96)) < 0.5
    assert told_in(step_of(attention(mask)[0])) == []


def test_decisions_say_of_what_products_are_told():
    decisions = describe_decisions(step_of(attention()[0]))
    (reason,) = (d.reason for d in decisions if d.rule == "leave-out-zeros")
    assert "of 12 products 8 leave out terms" in reason
    assert "4 results that it leaves out" in reason


def test_all_levels_agree():
    graph, arrays = attention()
    with mock.patch.object(fuse_products, "BYTES_OF_PRODUCTS", 0):
        variants = [Variant(memory=Memory(side)) for side in ("start", "end")]
        assert run_variants(graph, arrays, variants) is None
