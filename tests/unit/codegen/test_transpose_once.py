"""Operands that several products would transpose: they are once, and no bit changes by it."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.codegen.loops.language import For, Kernel, Param, Product
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.tile_products import tile_products
from symgrad.codegen.schedule.transpose_once import transpose_once
from symgrad.codegen.target import target_named
from symgrad.records import replace
from tests.support.machine_code import run_machine_code

TARGETS = (
    "native",
    pytest.param("x86-64-v3", marks=pytest.mark.isa("avx2")),
    pytest.param("x86-64", marks=pytest.mark.isa("sse2")),
)
FIRST = "(m in 0..64) (n in 0..64) (k in 0..48)", "y[24576*b + 64*m + n] = s"
SECOND = "(o in 0..64) (p in 0..128) (l in 0..48)", "y[24576*b + 128*o + p + 4096] = t"
THIRD = "(c in 0..64) (d in 0..192) (e in 0..48)", "y[24576*b + 192*c + d + 12288] = u"


def kernel_of(
    *products: tuple[str, str], keys: str = "v[9216*b] by (1, 48)", before: str = ""
) -> Kernel:
    """Return products of rows of queries and of the first keys, for each matrix of two."""
    names = [store.rsplit(maxsplit=1)[1] for _, store in products]
    texts = (
        f"""product {name}: f32 for {axes} q[3072*b] by (48, 1) * {keys}
            tile(1, 1) block(1, 1, 1) pack() along(n) {{ {store} }}"""
        for name, (axes, store) in zip(names, products, strict=True)
    )
    mode = "inout" if before else "in"
    params = f"in q: f32[6144], {mode} v: f32[18432], out y: f32[49152]"
    body = " ".join((before, *texts))
    loops = f"for part in 0..1 ordered {{ for b in 0..2 ordered {{ {body} }} }}"
    return parse_kernel(f"kernel @k({params}) {{ {loops} }}")


def tiled(kernel: Kernel, target: str) -> tuple[Kernel, Kernel]:
    """Return a kernel with products that pack for themselves, and as it is made of it."""
    machine = target_named(target)
    apart = tile_products(kernel, machine)
    (part,) = apart.body
    assert isinstance(part, For)
    (batch,) = part.body
    assert isinstance(batch, For)
    body, scratch = transpose_once(batch.body, apart.params, ("part", "b"), machine)
    loops = replace(part, body=(replace(batch, body=body),))
    once = replace(apart, params=(*apart.params, *scratch), body=(loops,))
    for each in (apart, once):
        verify_kernel(each)
    assert parse_kernel(print_kernel(once)) == once
    return apart, once


def rights_of(kernel: Kernel) -> list[str]:
    return [s.rhs.buffer for s in statements(kernel.body) if isinstance(s, Product)]


@pytest.mark.parametrize("target", TARGETS)
def test_what_products_have_in_common_is_transposed_once(target):
    apart, once = tiled(kernel_of(FIRST, SECOND, THIRD), target)
    (panels,) = (p for p in once.params if p not in apart.params)
    assert panels == Param(panels.name, once.params[0].dtype, 192 * 48, "scratch")
    assert rights_of(once) == [panels.name] * 3
    random = np.random.default_rng(0)
    buffers = {
        p.name: random.standard_normal(p.count).astype(p.dtype.numpy)
        if p.dtype.is_float
        else np.zeros(p.count, p.dtype.numpy)
        for p in once.params
    }
    machine = target_named(target)
    given = {p.name: buffers[p.name] for p in apart.params}
    (wanted,) = run_machine_code(apart, machine, {n: a.copy() for n, a in given.items()})
    (found,) = run_machine_code(once, machine, {n: a.copy() for n, a in buffers.items()})
    assert found.tobytes() == wanted.tobytes()
    assert run_kernel(once, buffers) == 0
    np.testing.assert_allclose(found, buffers["y"], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "kernel",
    [
        kernel_of(SECOND),
        kernel_of(FIRST, SECOND, keys="v[9216*b] by (192, 1)"),
        kernel_of(FIRST, SECOND, keys="v[9216*(b // 2)] by (1, 48)"),
        kernel_of(FIRST, SECOND, keys="v[9216*(b % 2)] by (1, 48)"),
        kernel_of(FIRST, SECOND, before="for i in 0..9216 { v[9216*b + i] = 0.0 }"),
    ],
)
def test_one_reader_rows_quotients_and_what_is_written_stay_as_they_are(kernel):
    apart, once = tiled(kernel, "x86-64-v3")
    assert once == apart


def test_columns_that_are_no_panels_are_packed_by_their_product():
    odd = "(c in 0..64) (d in 0..90) (e in 0..48)", "y[24576*b + 192*c + d + 12288] = u"
    _, once = tiled(kernel_of(FIRST, SECOND, odd), "x86-64-v3")
    first, second, third = rights_of(once)
    assert first == second
    assert third == "v"
