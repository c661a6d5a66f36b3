"""Kernels that differ by their place alone are one kernel, and mean what they meant."""

import numpy as np

from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.relocate import relocate

ROWS = """\
kernel @kernel(in b0: f32[100], out b1: f32[{count}]) {{
  for i0 in 0..3 {{
    for i1 in 0..5 {{
      t0: f32 = b0[10*i0 + i1 + {start}]
      b1[5*i0 + i1 + {to}] = t0
    }}
  }}
}}
"""

CHECKED = """\
kernel @kernel(in b0: f32[40], in b1: i64[8], out b2: f32[8]) {{
  for i0 in 0..4 {{
    t0: i64 = b1[i0 + {start}]
    check t1 = t0 in 10 else {second}
    check t2 = t0 in 12 else {first}
    check t3 = t0 in 10 else {second}
    t4: f32 = b0[t1 + 20]
    t5: f32 = b0[t2 + 20]
    t6: f32 = add(t4, t5)
    b2[i0 + {start}] = t6
  }}
}}
"""


def test_rows_at_two_places_have_one_kernel():
    first = relocate(parse_kernel(ROWS.format(count=40, start=0, to=7)))
    second = relocate(parse_kernel(ROWS.format(count=90, start=75, to=20)))
    assert print_kernel(first.kernel) == print_kernel(second.kernel)
    assert "in b0: f32[25], out b1: f32[15]" in print_kernel(first.kernel)
    assert (first.starts, second.starts) == ((0, 7), (75, 20))
    assert first.statuses == ()


def test_a_relocated_kernel_computes_the_same():
    kernel = parse_kernel(ROWS.format(count=40, start=60, to=7))
    moved = relocate(kernel)
    verify_kernel(moved.kernel)
    x = np.arange(100, dtype=np.float32)
    whole, piecewise = np.zeros(40, np.float32), np.zeros(40, np.float32)
    run_kernel(kernel, {"b0": x, "b1": whole})
    read, written = moved.starts
    run_kernel(moved.kernel, {"b0": x[read : read + 25], "b1": piecewise[written : written + 15]})
    np.testing.assert_array_equal(whole, piecewise)
    assert whole.any()


def test_statuses_are_numbered_as_they_are_met():
    moved = relocate(parse_kernel(CHECKED.format(start=4, first=70, second=30)))
    assert moved.statuses == (30, 70)
    text = print_kernel(moved.kernel)
    assert "in 10 else 1" in text
    assert "in 12 else 2" in text
    other = relocate(parse_kernel(CHECKED.format(start=0, first=2, second=8)))
    assert print_kernel(other.kernel) == text


def test_an_index_that_is_data_may_be_anywhere_in_its_axis():
    moved = relocate(parse_kernel(CHECKED.format(start=4, first=70, second=30)))
    verify_kernel(moved.kernel)
    assert moved.starts == (20, 4, 4)
    assert [param.count for param in moved.kernel.params] == [12, 4, 4]


def test_the_place_of_a_product_is_that_of_its_matrices():
    text = """\
kernel @kernel(in b0: f32[64], in b1: f32[100], out b2: f32[8]) {
  product t0: f32 for (i0 in 0..2) (i1 in 0..4) (i2 in 0..3)
      b0[10] by (3, 1) * b1[50] by (-4, 1) tile(1, 1) block(1, 1, 1) pack() along(n) {
    b2[4*i0 + i1] = t0
  }
}
"""
    moved = relocate(parse_kernel(text))
    verify_kernel(moved.kernel)
    assert moved.starts == (10, 42, 0)
    assert [param.count for param in moved.kernel.params] == [6, 12, 8]
    assert "b0[0] by (3, 1) * b1[8] by (-4, 1)" in print_kernel(moved.kernel)


def test_a_loop_that_never_runs_keeps_its_buffers_whole():
    text = """\
kernel @kernel(in b0: f32[5], out b1: f32[0]) {
  for i0 in 0..0 {
    t0: f32 = b0[i0 + 5]
    b1[i0] = t0
  }
}
"""
    moved = relocate(parse_kernel(text))
    assert moved.starts == (0, 0)
    assert print_kernel(moved.kernel) == print_kernel(parse_kernel(text))
