"""Masks in closed form: the columns that the interpreter finds, or none are said."""

from __future__ import annotations

import random

import numpy as np
import pytest

from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import Let, Ref
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_index
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.schedule.affine_masks import ColumnSpans, affine_spans
from symgrad.graph.dtypes import bool_

ROWS, BLOCKS, COLUMNS = 12, 3, 17
AXES = f"for i in 0..{ROWS} {{ for b in 0..{BLOCKS} {{ for j in 0..{COLUMNS}"
PLACE = f"{BLOCKS * COLUMNS}*i + {COLUMNS}*b + j"
COUNT = ROWS * BLOCKS * COLUMNS


def spans_of(lets: str, condition: str = "c") -> tuple[ColumnSpans | None, np.ndarray]:
    """Return the spans of a condition, and where it holds by row, block and column."""
    text = f"{AXES} {{ {lets} m[{PLACE}] = {condition} }} }} }}"
    kernel = parse_kernel(f"kernel @k(out m: bool[{COUNT}]) {{ {text} }}")
    values = {s.name: s.value for s in statements(kernel.body) if isinstance(s, Let)}
    mask = np.zeros(COUNT, np.bool_)
    assert run_kernel(kernel, {"m": mask}) == 0
    rows = ("i", ROWS), ("b", BLOCKS)
    spans = affine_spans(Ref(condition, bool_), values, rows, ("j", COLUMNS))
    return spans, mask.reshape(ROWS, BLOCKS, COLUMNS)


def check(spans: ColumnSpans, holds: np.ndarray) -> None:
    columns = np.arange(COLUMNS)
    first, last = spans.first[..., np.newaxis], spans.last[..., np.newaxis]
    np.testing.assert_array_equal((first <= columns) & (columns <= last), holds)
    is_any = spans.first <= spans.last
    assert (spans.first[is_any] >= 0).all(), "spans are within the matrix"
    assert (spans.last[is_any] < COLUMNS).all(), "spans are within the matrix"


def linear(choose: random.Random, name: str, dtype: str) -> str:
    """Return lets of a random number that is linear in the column."""
    terms = ((var, choose.choice([-3, -1, 0, 1, 5])) for var in "ibj")
    index = print_index(index_of(*terms, const=choose.randint(-20, 20)))
    op, other = choose.choice(["add", "sub"]), choose.randint(-9, 9)
    return f"""{name}0: i64 = index({index})
        {name}1: {dtype} = {dtype}({name}0) {name}: {dtype} = {op}({name}1, {other}:{dtype})"""


@pytest.mark.parametrize("seed", range(8))
def test_comparisons_of_linear_numbers_hold_where_the_interpreter_finds(seed):
    choose = random.Random(seed)
    for compare in ("ge", "gt", "le", "lt", "eq") * 3:
        dtype = choose.choice(["i64", "i32", "i16"])
        sides = linear(choose, "l", dtype), linear(choose, "r", dtype)
        spans, holds = spans_of(f"{sides[0]} {sides[1]} c: bool = {compare}(l, r)")
        assert spans is not None
        check(spans, holds)


def test_a_conjunction_holds_where_both_parts_do():
    spans, holds = spans_of("""h: i64 = index(i + 4*b) g: i64 = index(j) x: bool = ge(h, g)
        d: i64 = sub(h, g) y: bool = lt(d, 5:i64) c: bool = and(x, y)""")
    assert spans is not None
    check(spans, holds)
    assert holds.any()


def test_rows_may_be_clamped():
    """As those of causal attention are, where there are fewer keys than the last rows see."""
    spans, holds = spans_of("""h: i64 = index(i + 4*b - 3) a: i64 = max(h, 0:i64)
        o: i64 = min(a, 9:i64) n: i32 = i32(o) g: i64 = index(2*j) k: i32 = i32(g)
        c: bool = gt(n, k)""")
    assert spans is not None
    check(spans, holds)


@pytest.mark.parametrize(
    "lets",
    [
        "h: i64 = index(j - i) g: i64 = max(h, 0:i64) c: bool = ge(3:i64, g)",
        "h: i64 = index(i) g: i64 = index(j // 4) c: bool = ge(h, g)",
        "h: i64 = index(i) g: i64 = index(j) d: i64 = mul(h, g) c: bool = ge(9:i64, d)",
        "h: i64 = index(i) g: i64 = index(j) c: bool = ne(h, g)",
        "h: i64 = index(i) g: i64 = index(j) x: f32 = f32(h) y: f32 = f32(g) c: bool = ge(x, y)",
        "h: i64 = index(i) x: bool = ge(h, 3:i64) y: bool = lt(h, 2:i64) c: bool = or(x, y)",
    ],
)
def test_of_other_conditions_nothing_is_said(lets):
    assert spans_of(lets)[0] is None


@pytest.mark.parametrize(
    "lets",
    [
        "h: i64 = index(i + 120*j) n: i8 = i8(h) c: bool = ge(n, 3:i8)",
        "h: i64 = index(j) n: u8 = u8(h) g: u8 = sub(n, 5:u8) c: bool = ge(g, 3:u8)",
        "h: i64 = index(j) g: i64 = max(h, -9223372036854775808:i64) c: bool = ge(g, 3:i64)",
    ],
)
def test_numbers_that_may_wrap_around_are_none(lets):
    assert spans_of(lets)[0] is None
