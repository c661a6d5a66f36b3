"""Exponentials of what is less the greatest of its row: where none overflows, and where one may."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Let, Op
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.bound_exponentials import bound_exponentials
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
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
    inside = written.replace("y[128*i + j] = t4", "x[128*i + j] = t4")
    assert "exp(t3)" in _bounded(inside)


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
