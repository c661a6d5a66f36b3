"""Stores come right behind what they store, but where another order could change a result."""

from __future__ import annotations

from symgrad.codegen.loops.early_stores import store_early
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.records import replace

_LATE = """kernel @k0(in x: f32[64], out y: f32[64], out z: f32[64]) {{
  for i in 0..64 {{
    t0: f32 = x[i]
    t1: f32 = tanh(t0)
    t2: f32 = tanh(t1)
    y[i] = t1
    z[i] = t2{again}
  }}
}}
"""


def _lines(again: str = "") -> list[str]:
    kernel = parse_kernel(_LATE.format(again=again))
    text = print_kernel(replace(kernel, body=store_early(kernel.body)))
    return [line.strip() for line in text.splitlines() if "t1" in line or "t2" in line]


def test_a_store_comes_behind_its_value() -> None:
    assert _lines() == ["t1: f32 = tanh(t0)", "y[i] = t1", "t2: f32 = tanh(t1)", "z[i] = t2"]


def test_stores_to_one_buffer_keep_their_order() -> None:
    found = _lines(again="\n    y[i] = t2")
    assert found[-3:] == ["z[i] = t2", "y[i] = t1", "y[i] = t2"]


def test_a_store_to_what_is_read_stays() -> None:
    found = _lines(again="\n    t3: f32 = y[i]")
    assert found == ["t1: f32 = tanh(t0)", "t2: f32 = tanh(t1)", "z[i] = t2", "y[i] = t1"]


def test_a_store_comes_behind_what_binds_its_place() -> None:
    place = """
    t3: i64 = p[i]
    clamp r = t3 in 64
    t4: f32 = tanh(t2)
    w[64*i + r] = t2"""
    text = _LATE.format(again=place).replace("x: f32[64]", "x: f32[64], in p: i64[64]")
    kernel = parse_kernel(text.replace("out z", "out w: f32[4096], out z"))
    changed = replace(kernel, body=store_early(kernel.body))
    verify_kernel(changed)
    lines = [line.strip() for line in print_kernel(changed).splitlines()]
    at = lines.index("w[64*i + r] = t2")
    assert lines[at - 1 : at + 2] == [
        "clamp r = t3 in 64",
        "w[64*i + r] = t2",
        "t4: f32 = tanh(t2)",
    ]
