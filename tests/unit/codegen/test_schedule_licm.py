"""Hoisting: what leaves a loop, what must stay in it, and that nothing else changes."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.licm import hoist_uniform


def assert_hoisted(before: str, after: str) -> None:
    """Assert what hoisting makes of a kernel, that it is well formed, and computes the same."""
    plain = parse_kernel(textwrap.dedent(before))
    hoisted = hoist_uniform(plain)
    verify_kernel(hoisted)
    assert print_kernel(hoisted).split() == textwrap.dedent(after).split()
    rng = np.random.default_rng(0)
    given = [rng.uniform(1, 2, p.count).astype(p.dtype.numpy) for p in plain.params]
    results = []
    for kernel in (plain, hoisted):
        buffers = {p.name: a.copy() for p, a in zip(plain.params, given, strict=True)}
        run_kernel(kernel, buffers)
        results.append(buffers)
    for name, array in results[0].items():
        np.testing.assert_array_equal(results[1][name], array, strict=True)


def test_a_chain_of_values_leaves_all_loops():
    assert_hoisted(
        """
        kernel @k(in x: f32[6], in r: f32[1], out y: f32[6]) {
          for i in 0..2 {
            for j in 0..3 vector(2) {
              t0: f32 = r[0]
              t1: f32 = sqrt(t0)
              t2: f32 = x[3*i + j]
              t3: f32 = mul(t1, t2)
              y[3*i + j] = t3
            }
          }
        }
        """,
        """
        kernel @k(in x: f32[6], in r: f32[1], out y: f32[6]) {
          t0: f32 = r[0]
          t1: f32 = sqrt(t0)
          for i in 0..2 {
            for j in 0..3 vector(2) {
              t2: f32 = x[3*i + j]
              t3: f32 = mul(t1, t2)
              y[3*i + j] = t3
            }
          }
        }
        """,
    )


def test_what_copies_of_a_loop_share_is_moved_once():
    assert_hoisted(
        """
        kernel @k(in x: f32[6], in r: f32[1], out y: f32[6]) {
          for i in 0..4 {
            t0: f32 = r[0]
            t1: f32 = x[i]
            t2: f32 = mul(t0, t1)
            y[i] = t2
          }
          for i in 0..2 {
            t0: f32 = r[0]
            t1: f32 = x[i + 4]
            t2: f32 = mul(t0, t1)
            y[i + 4] = t2
          }
        }
        """,
        """
        kernel @k(in x: f32[6], in r: f32[1], out y: f32[6]) {
          t0: f32 = r[0]
          for i in 0..4 {
            t1: f32 = x[i]
            t2: f32 = mul(t0, t1)
            y[i] = t2
          }
          for i in 0..2 {
            t1: f32 = x[i + 4]
            t2: f32 = mul(t0, t1)
            y[i + 4] = t2
          }
        }
        """,
    )


def test_a_value_of_a_row_leaves_the_loop_over_columns_only():
    assert_hoisted(
        """
        kernel @k(in x: f32[6], in r: f32[2], out y: f32[6]) {
          for i in 0..2 {
            for j in 0..3 {
              t0: f32 = x[3*i + j]
              t1: f32 = r[i]
              t2: f32 = div(t0, t1)
              t3: f32 = exp(t1)
              t4: f32 = mul(t2, t3)
              y[3*i + j] = t4
            }
          }
        }
        """,
        """
        kernel @k(in x: f32[6], in r: f32[2], out y: f32[6]) {
          for i in 0..2 {
            t1: f32 = r[i]
            t3: f32 = exp(t1)
            for j in 0..3 {
              t0: f32 = x[3*i + j]
              t2: f32 = div(t0, t1)
              t4: f32 = mul(t2, t3)
              y[3*i + j] = t4
            }
          }
        }
        """,
    )


def test_values_leave_a_fold_and_the_combining_stays():
    assert_hoisted(
        """
        kernel @k(in x: f32[8], in r: f32[1], out y: f32[1]) {
          fold s: f32 = 0.0 for i in 0..8 lanes(4) {
            t0: f32 = r[0]
            t1: f32 = x[i]
            t2: f32 = mul(t0, t1)
            yield t2
          } combine (a) (b) {
            t3: f32 = add(a, b)
            yield t3
          }
          y[0] = s
        }
        """,
        """
        kernel @k(in x: f32[8], in r: f32[1], out y: f32[1]) {
          t0: f32 = r[0]
          fold s: f32 = 0.0 for i in 0..8 lanes(4) {
            t1: f32 = x[i]
            t2: f32 = mul(t0, t1)
            yield t2
          } combine (a) (b) {
            t3: f32 = add(a, b)
            yield t3
          }
          y[0] = s
        }
        """,
    )


def test_values_leave_the_epilogue_of_a_product():
    assert_hoisted(
        """
        kernel @k(in a: f32[6], in b: f32[12], in r: f32[1], in c: f32[4], out y: f32[8]) {
          product s: f32 for (m in 0..2) (n in 0..4) (q in 0..3)
              a[0] by (3, 1) * b[0] by (4, 1) tile(1, 1) block(1, 1, 1) pack() along(n) {
            t0: f32 = r[0]
            t1: f32 = exp(t0)
            t2: f32 = c[n]
            t3: f32 = mul(s, t1)
            t4: f32 = add(t2, t3)
            y[4*m + n] = t4
          }
        }
        """,
        """
        kernel @k(in a: f32[6], in b: f32[12], in r: f32[1], in c: f32[4], out y: f32[8]) {
          t0: f32 = r[0]
          t1: f32 = exp(t0)
          product s: f32 for (m in 0..2) (n in 0..4) (q in 0..3)
              a[0] by (3, 1) * b[0] by (4, 1) tile(1, 1) block(1, 1, 1) pack() along(n) {
            t2: f32 = c[n]
            t3: f32 = mul(s, t1)
            t4: f32 = add(t2, t3)
            y[4*m + n] = t4
          }
        }
        """,
    )


def test_a_check_of_one_index_leaves_the_loop_with_what_it_loads():
    assert_hoisted(
        """
        kernel @k(in x: f32[4], in r: i64[1], out y: f32[4]) {
          t0: i64 = r[0]
          for i in 0..4 {
            check p = t0 in 4 else 1
            t1: f32 = x[p]
            clamp q = t0 in 3
            t2: f32 = x[i]
            t3: f32 = x[q]
            t4: f32 = add(t1, t2)
            t5: f32 = add(t3, t4)
            y[i] = t5
          }
        }
        """,
        """
        kernel @k(in x: f32[4], in r: i64[1], out y: f32[4]) {
          t0: i64 = r[0]
          check p = t0 in 4 else 1
          t1: f32 = x[p]
          clamp q = t0 in 3
          t3: f32 = x[q]
          for i in 0..4 {
            t2: f32 = x[i]
            t4: f32 = add(t1, t2)
            t5: f32 = add(t3, t4)
            y[i] = t5
          }
        }
        """,
    )


STAYING = {
    "a load from a buffer that is written": """
        kernel @k(inout x: f32[4]) {
          for i in 0..4 ordered {
            t0: f32 = x[0]
            t1: f32 = add(t0, 1.0)
            x[i] = t1
          }
        }
    """,
    "what comes out of a fold": """
        kernel @k(in x: f32[4], out y: f32[4]) {
          for i in 0..4 {
            fold s: f32 = 0.0 for j in 0..4 {
              t0: f32 = x[j]
              yield t0
            } combine (a) (b) {
              t1: f32 = add(a, b)
              yield t1
            }
            t2: f32 = mul(s, 2.0)
            y[i] = t2
          }
        }
    """,
    "a check behind one that differs from iteration to iteration": """
        kernel @k(in x: f32[4], in r: i64[4], out y: f32[4]) {
          t0: i64 = r[0]
          for i in 0..4 {
            t1: i64 = r[i]
            check q = t1 in 4 else 1
            check p = t0 in 4 else 2
            t2: f32 = x[p]
            t3: f32 = x[q]
            t4: f32 = add(t2, t3)
            y[i] = t4
          }
        }
    """,
    "a check in a loop that never runs": """
        kernel @k(in x: f32[4], in r: i64[1], out y: f32[4]) {
          t0: i64 = r[0]
          for i in 0..0 {
            check p = t0 in 4 else 1
            t1: f32 = x[p]
            y[i] = t1
          }
        }
    """,
    "a load in a loop that never runs": """
        kernel @k(in x: f32[0], out y: f32[1]) {
          fold s: f32 = 0.0 for i in 0..0 {
            t0: f32 = x[0]
            yield t0
          } combine (a) (b) {
            t1: f32 = add(a, b)
            yield t1
          }
          y[0] = s
        }
    """,
}


@pytest.mark.parametrize("what", STAYING)
def test_it_stays(what: str) -> None:
    assert_hoisted(STAYING[what], STAYING[what])
