"""Exponentials of what is less the greatest of its row: where none overflows, and where one may."""

from collections.abc import Callable

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Let, Op
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.program.print import print_program
from symgrad.codegen.schedule.bound_exponentials import bound_exponentials
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.graph.graph import Graph
from tests.support.floors import run_native
from tests.support.row_programs import compiled_rows, row_program

_ROWS = """
kernel @rows(in x: f32[4096], inout w: f32[4096], out most: f32[32], out y: f32[4096]) {
  for i in 0..32 {
    fold m: f32 = -inf for k in 0..128 lanes(32) {
      t0: f32 = x[128*i + k]
      yield t0
    } combine (a) (b) {
      c: bool = gt(b, a)
      d: f32 = select(c, b, a)
      yield d
    }
    most[i] = m
    t1: f32 = most[i]
    for j in 0..128 vector(16) {
      t2: f32 = x[128*i + j]
      t3: f32 = sub(t2, t1)
      t4: f32 = exp(t3)
      y[128*i + j] = t4
    }
  }
}
"""


def _bounded(text: str) -> str:
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    changed = bound_exponentials(kernel)
    verify_kernel(changed)
    return print_kernel(changed)


def test_an_exponential_of_what_is_less_the_greatest_of_its_row_is_bounded():
    assert "t4: f32 = decay(t3)" in _bounded(_ROWS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The result itself, without memory in between.
        ("t3: f32 = sub(t2, t1)", "t3: f32 = sub(t2, m)"),
        # A maximum that is nan beside nan.
        ("c: bool = gt(b, a)\n      d: f32 = select(c, b, a)", "d: f32 = max(b, a)"),
        ("for j in 0..128 vector(16)", "for j in 0..64 vector(16)"),  # half of the row
    ],
)
def test_other_ways_to_say_so_are_known(old: str, new: str) -> None:
    assert "decay(t3)" in _bounded(_ROWS.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Of 5, nan, 3 that is 3: the nan is chosen, and then what is next.
        ("gt(b, a)\n      d: f32 = select(c, b, a)", "gt(a, b)\n      d: f32 = select(c, a, b)"),
        ("select(c, b, a)", "select(c, a, b)"),  # the least
        ("m: f32 = -inf", "m: f32 = nan"),
        ("d: f32 = select(c, b, a)", "d: f32 = add(b, a)"),
        ("t2: f32 = x[128*i + j]", "t2: f32 = w[128*i + j]"),  # another array
        ("t2: f32 = x[128*i + j]", "t2: f32 = x[j]"),  # another row
        ("t3: f32 = sub(t2, t1)", "t3: f32 = sub(t1, t2)"),
        ("t3: f32 = sub(t2, t1)", "t3: f32 = add(t2, t1)"),
        ("for k in 0..128 lanes(32)", "for k in 0..64 lanes(32)"),  # of half of the row alone
        ("most[i] = m\n", "most[i] = m\n    most[i] = 0.0\n"),
        ("t1: f32 = most[i]", "t1: f32 = most[0]"),
    ],
)
def test_others_are_not(old: str, new: str) -> None:
    assert old in _ROWS
    assert "exp(t3)" in _bounded(_ROWS.replace(old, new))


def test_what_is_stored_to_is_no_longer_known():
    written = _ROWS.replace("in x: f32[4096]", "inout x: f32[4096]")
    assert "decay(t3)" in _bounded(written)
    before = written.replace("most[i] = m\n", "most[i] = m\n    x[128*i + 5] = 7.0\n")
    assert "exp(t3)" in _bounded(before)
    loaded = "      t2: f32 = x[128*i + j]\n"
    inside = written.replace(loaded, f"      x[128*i + j] = 3.0\n{loaded}")
    assert "exp(t3)" in _bounded(inside)
    ordered = written.replace("vector(16) {", "ordered {").replace("y[128*i + j]", "x[128*i]")
    assert ordered.count("ordered") == 1
    assert "exp(t3)" in _bounded(ordered)
    between = written.replace(loaded, f"{loaded}      x[128*i + j] = 3.0\n")
    assert "exp(t3)" in _bounded(between)


def test_exponentials_in_place_are_bounded_where_iterations_do_not_depend_on_each_other():
    written = _ROWS.replace("in x: f32[4096]", "inout x: f32[4096]")
    assert "decay(t3)" in _bounded(written.replace("y[128*i + j] = t4", "x[128*i + j] = t4"))


# Scores that a causal mask leaves, scaled behind their maximum, which a loop of its own finds.
_SCORES = """
kernel @scores(inout x: f32[4096], in left: bool[4096], out most: f32[32], out w: bool[4096]) {
  for i in 0..32 {
    t0: i64 = index(i)
    fold m: f32 = -inf for k in 0..128 lanes(32) {
      t1: i64 = index(k)
      t2: bool = ge(t0, t1)
      t3: f32 = x[128*i + k]
      t4: f32 = select(t2, t3, -inf)
      yield t4
    } combine (a) (b) {
      c: bool = gt(b, a)
      d: f32 = select(c, b, a)
      yield d
    }
    most[i] = m
  }
  for j in 0..32 {
    t5: f32 = most[j]
    t6: bool = eq(t5, -inf:f32)
    t7: f32 = select(t6, 0.0, t5)
    t8: i64 = index(j)
    for k in 0..128 vector(8) {
      t9: i64 = index(k)
      t10: bool = ge(t8, t9)
      t11: f32 = x[128*j + k]
      t12: f32 = sub(t11, t7)
      t13: f32 = mul(t12, 0.125)
      t14: f32 = select(t10, t13, -inf)
      t15: f32 = exp(t14)
      x[128*j + k] = t15
    }
  }
}
"""
_IN_MEMORY = _SCORES.replace(
    "t1: i64 = index(k)\n      t2: bool = ge(t0, t1)", "t2: bool = left[128*i + k]"
).replace("t9: i64 = index(k)\n      t10: bool = ge(t8, t9)", "t10: bool = left[128*j + k]")


@pytest.mark.parametrize("text", [_SCORES, _IN_MEMORY])
def test_exponentials_of_masked_scores_are_bounded(text: str) -> None:
    assert "t15: f32 = decay(t14)" in _bounded(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mul(t12, 0.125)", "mul(0.125, t12)"),
        ("mul(t12, 0.125)", "div(t12, 8.0)"),
        ("select(t10, t13, -inf)", "select(t10, t13, -1e9)"),
        ("select(t6, 0.0, t5)", "select(t6, 7.0, t5)"),  # of a row of which nothing is left
        ("sub(t11, t7)", "sub(t11, t5)"),
        ("for k in 0..128 vector(8)", "for n in 0..64 vector(8)"),
        ("for j in 0..32", "for j in 0..16"),
    ],
)
def test_masked_scores_are_bounded_however_written(old: str, new: str) -> None:
    text = _SCORES.replace(old, new)
    if " n " in new:
        first, _, second = text.rpartition(f"{new} {{")
        text = f"{first}{new} {{{second.replace('(k)', '(n)').replace('+ k]', '+ n]')}"
    assert text != _SCORES
    assert "decay(t14)" in _bounded(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mul(t12, 0.125)", "mul(t12, -0.125)"),
        ("mul(t12, 0.125)", "mul(t12, t11)"),
        ("mul(t12, 0.125)", "add(t12, 0.125)"),
        ("mul(t12, 0.125)", "div(0.125, t12)"),
        ("select(t10, t13, -inf)", "select(t10, t13, 1.0)"),
        ("select(t10, t13, -inf)", "select(t10, -inf, t13)"),  # what the mask does not leave
        ("t10: bool = ge(t8, t9)", "t10: bool = gt(t9, t8)"),  # another mask
        ("t8: i64 = index(j)", "t8: i64 = index(j + 1)"),
        ("exp(t14)", "exp(t13)"),  # before the mask
        ("select(t6, 0.0, t5)", "select(t6, t11, t5)"),
        ("eq(t5, -inf:f32)", "eq(t5, 3.0:f32)"),  # 3 less than the greatest, 0, is not below
        ("t5: f32 = most[j]", "t5: f32 = most[0]"),
        ("t11: f32 = x[128*j + k]", "t11: f32 = x[128*j]"),
        ("for i in 0..32", "for i in 0..16"),  # half of the rows have a greatest
        ("for i in 0..32", "for i in 0..32 ordered"),
        ("for j in 0..32", "for j in 0..32 ordered"),  # a row may have been stored to
        ("select(t2, t3, -inf)", "select(t2, t3, 0.0)"),
        ("  for j in 0..32", "  most[5] = -9.0\n  for j in 0..32"),
        ("  for j in 0..32", "  x[700] = 9.0\n  for j in 0..32"),
    ],
)
def test_other_masked_scores_are_not(old: str, new: str) -> None:
    text = _SCORES.replace(old, new)
    if "select(t6, t11" in new:
        text = text.replace("t5: f32 = most[j]", "t5: f32 = most[j]\n    t11: f32 = x[128*j]")
        text = text.replace(
            "      t11: f32 = x[128*j + k]\n      t12: f32 = sub(t11,",
            "      t21: f32 = x[128*j + k]\n      t12: f32 = sub(t21,",
        )
    assert text != _SCORES
    assert "= exp(" in _bounded(text)


# The greatest of rows, or of elements, that one index tells, and others less that.
_GATHERED_ROWS = """
kernel @rows(in x: f32[4096], in a: i64[32], in b: i64[32], out most: f32[32], out y: f32[4096]) {
  for i in 0..32 {
    t0: i64 = a[i]
    check at = t0 in 32 else 1
    fold m: f32 = -inf for k in 0..128 lanes(32) {
      t1: f32 = x[128*at + k]
      yield t1
    } combine (a0) (b0) {
      c: bool = gt(b0, a0)
      d: f32 = select(c, b0, a0)
      yield d
    }
    most[i] = m
  }
  for i in 0..32 {
    t2: f32 = most[i]
    t3: i64 = b[i]
    check at = t3 in 32 else 1
    for k in 0..128 vector(8) {
      t4: f32 = x[128*at + k]
      t5: f32 = sub(t4, t2)
      t6: f32 = exp(t5)
      y[128*i + k] = t6
    }
  }
}
"""
_GATHERED_ELEMENTS = """
kernel @gathered(in x: f32[4096], in a: i64[32], in b: i64[32], out y: f32[32]) {
  fold m: f32 = -inf for k in 0..32 lanes(32) {
    t0: i64 = a[k]
    check at = t0 in 4096 else 1
    t1: f32 = x[at]
    yield t1
  } combine (a0) (b0) {
    c: bool = gt(b0, a0)
    d: f32 = select(c, b0, a0)
    yield d
  }
  for i in 0..32 {
    t2: i64 = b[i]
    check at = t2 in 4096 else 1
    t3: f32 = x[at]
    t4: f32 = sub(t3, m)
    t5: f32 = exp(t4)
    y[i] = t5
  }
}
"""


@pytest.mark.parametrize("text", [_GATHERED_ROWS, _GATHERED_ELEMENTS])
def test_a_row_of_a_checked_index_is_not_that_of_another_one_of_its_name(text: str) -> None:
    assert "= exp(" in _bounded(text)


def test_a_mask_of_a_checked_index_is_not_that_of_another_one_of_its_name() -> None:
    text = _SCORES.replace("in left: bool[4096]", "in one: i64[32], in two: i64[32]")
    first = "t20: i64 = one[i]\n    check at = t20 in 32 else 1\n    t0: i64 = index(at)"
    second = "t21: i64 = two[j]\n    check at = t21 in 32 else 1\n    t8: i64 = index(at)"
    text = text.replace("t0: i64 = index(i)", first).replace("t8: i64 = index(j)", second)
    assert "= exp(" in _bounded(text)


def test_a_gathered_row_is_bounded_where_one_index_tells_it() -> None:
    outer, behind = _GATHERED_ROWS.split("    most[i] = m\n  }\n  for i in 0..32 {\n")
    one = behind.replace("    t2: f32 = most[i]\n    t3: i64 = b[i]\n", "")
    one = one.replace("    check at = t3 in 32 else 1\n", "").replace("t4, t2", "t4, m")
    assert "decay(t5)" in _bounded(f"{outer}    most[i] = m\n{one}")


def test_a_mask_that_is_stored_to_is_not_known():
    text = _IN_MEMORY.replace("left[", "w[").replace("out w: bool", "inout w: bool")
    assert "decay(t14)" in _bounded(text)
    stored = text.replace("most[i] = m\n", "most[i] = m\n    w[128*i] = t9\n")
    stored = stored.replace("    most[i] = m", "    t9: bool = eq(m, 0.0:f32)\n    most[i] = m")
    assert "exp(t14)" in _bounded(stored)


def _special_rows(dtype: str) -> np.ndarray:
    special = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 0.0, -0.0, 90.0, -104.0], dtype)
    rows = np.random.default_rng(3).choice(special, (2048, 64)).astype(dtype)
    rows[::2] = np.random.default_rng(4).normal(size=(1024, 64)) * 40
    rows[::10, 3] = np.nan
    rows[::14, 5] = np.inf
    return rows


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
def test_special_rows_have_the_same_bits(function: str, threads: Threads) -> None:
    graph = row_program(function, 2048)
    bounded = compiled_rows(graph, threads)
    plain = compiled_rows(graph, threads, "bound-exponentials")
    names = [
        {
            s.value.name
            for launch in step.program.launches
            for s in statements(launch.kernel.body)
            if isinstance(s, Let) and isinstance(s.value, Op)
        }
        for step in (bounded, plain)
    ]
    assert "decay" in names[0]
    assert "exp" in names[1]
    assert "decay" not in names[1]
    arrays = [_special_rows("float32"), np.ones((2048, 64), np.float32)]
    wanted = run_native(plain, arrays).outputs
    for found, want in zip(run_native(bounded, arrays).outputs, wanted, strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_rows_are_as_numpy_has_them(dtype: str, target: str) -> None:
    rows = _special_rows(dtype)
    x = sg.placeholder(rows.shape, dtype)
    step = sg.compile([x], sg.nn.softmax(x), target=target)
    assert "decay" in step.ir("loops")
    with np.errstate(all="ignore"):
        e = np.exp(rows - np.fmax.reduce(rows, axis=1, keepdims=True))
        wanted = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(step(rows), wanted, rtol=2e-5, atol=1e-37)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("function", [sg.nn.sigmoid, sg.tanh])
def test_exponentials_that_are_not_large_are_scaled_once_by_a_constant(
    function: Callable[[sg.Tensor], sg.Tensor], target: str
) -> None:
    x, limit = sg.placeholder((64, 256), "float32"), "0x4056800000000000"  # 90
    small, large = (sg.compile([x], f(x), target=target).ir("llvm") for f in (function, sg.exp))
    assert [what in large for what in (limit, " = lshr <")] == [True, True]
    assert [what in small for what in (limit, " = lshr <")] == [False, False]


def _special_scores() -> list[np.ndarray]:
    arrays = [np.random.default_rng(n).normal(size=(4, 128, 64)) for n in range(3)]
    queries, keys, values = (array.astype(np.float32) for array in arrays)
    queries[0] *= 1e3  # differences to the greatest that underflow
    queries[1, ::3, 5], queries[1, 1::3, 5], keys[1, :, 5] = np.inf, -np.inf, 1.0
    keys[1, 64:, 5] = -1.0
    queries[2, 9], keys[2, 70] = np.nan, np.nan
    queries[3], keys[3] = -3e38, 3e38  # all scores are -inf
    return [queries, keys, values]


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_special_scores_has_the_same_bits(is_causal: bool) -> None:
    q, k, v = (sg.placeholder((4, 128, 64), "float32", name=name) for name in "qkv")
    graph = Graph([sg.nn.scaled_dot_product_attention(q, k, v, causal=is_causal)], [q, k, v])
    bounded = compiled_rows(graph, ONE_THREAD)
    plain = compiled_rows(graph, ONE_THREAD, "bound-exponentials")
    texts = [print_program(step.program) for step in (bounded, plain)]
    assert ["exp(" in text for text in texts] == [False, True]
    assert ["decay(" in text for text in texts] == [True, False]
    arrays = _special_scores()
    (found,), (wanted,) = (run_native(step, arrays).outputs for step in (bounded, plain))
    np.testing.assert_array_equal(found, wanted)
    assert np.isfinite(found[0]).all()
    np.testing.assert_array_equal(found[3], 0.0)  # nothing is left of these rows
