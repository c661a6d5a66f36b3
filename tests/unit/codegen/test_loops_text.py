"""The text of kernels: what it looks like, that it can be read back, and canonical names."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.codegen.loops.canonical import canonical
from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Const,
    For,
    Index,
    IndexValue,
    Kernel,
    Let,
    Load,
    Modulus,
    Number,
    Op,
    Param,
    Quotient,
    Ref,
    Store,
)
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_index, print_kernel, print_statement
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.errors import GraphError
from symgrad.graph.dtypes import REAL, bool_, float32, float64, int64
from tests.support.loop_kernels import kernels

EVERYTHING = """\
kernel @every.thing_1(in x: f32[320], in w: f32[100], inout y: f32[320], scratch z: u8[4096]) {
  t0: f32 = max(0.5, -inf)
  for i in 0..320 vector(16) {
    t1: f32 = x[i]
    t2: bool = lt(t1, 0.0:f32)
    t3: bool = and(t2, true)
    t4: f32 = select(t3, t1, 1e-05)
    t5: i64 = index((2*i - 3) % 7 - 4*((i // 3) % 8) - 1)
    t6: f64 = f64(3:i8)
    t7: f64 = t6
    y[-i + 319] = t4
  }
  for j in 0..320 vector(16) interleave(4) parallel(160) {
    y[j] = 1.0
  }
  for b in 0..10 ordered {
    t9: i64 = index(b - 3)
    check r = t9 in 10 else 3
    check v = t9 in 0..11 else 4
    clamp u = t9 in 12
    fold s: f32 = 0.0, p: i64 = 0 for k in 0..10 lanes(32) {
      t10: f32 = x[10*b + k]
      yield t10, 3
    } combine (a0, a1) (b0, b1) {
      c0: f32 = add(a0, b0)
      yield c0, b1
    }
    y[r] = s
  }
  product q: f32 for (m in 0..10) (n in 0..32) (l in 0..3)
      x[0] by (3, 1) * w[1] by (32, 1) tile(14, 32) block(168, 1024, 384) pack(lhs) along(n)\
 parallel(m, 1 of 1) {
    y[32*m + n] = q
  }
  product u: f32 for (m in 0..10) (n in 0..32) (l in 0..3)
      x[29] by (-3 5:-15, 1) * w[1] by (32, 1 8:8 16:16) tile(4, 8) block(1, 2, 3)\
 pack() along(m) scratch(9 in z) parallel(n, 2 of 8 by 16) {
  }
}
"""


def test_every_form_is_read_back_as_it_was_printed():
    kernel = parse_kernel(EVERYTHING)
    verify_kernel(kernel)
    assert print_kernel(kernel) == EVERYTHING


def test_text_is_read_as_the_classes_it_shows():
    text = (
        "kernel @k(in x: f32[320], out y: bool[320]) { for i in 0..320 vector(8) {"
        " t: f32 = x[i] u: bool = lt(t, -0.5:f32) y[319 - i] = u } }"
    )
    t, u = Ref("t", float32), Ref("u", bool_)
    body = (
        Let("t", Load("x", Index(0, (("i", 1),)), float32)),
        Let("u", Op("lt", (t, Const(-0.5, float32)), bool_)),
        Store("y", Index(319, (("i", -1),)), u),
    )
    params = (Param("x", float32, 320, "in"), Param("y", bool_, 320, "out"))
    assert parse_kernel(text) == Kernel("k", params, (For("i", 320, body, 8),))


def test_a_store_past_the_caches_is_marked():
    text = "kernel @k(out y: f32[320]) { for i in 0..320 vector(16) { y[i] = 1.0 streamed } }"
    store = Store("y", Index(0, (("i", 1),)), Const(1.0, float32), is_streamed=True)
    kernel = Kernel("k", (Param("y", float32, 320, "out"),), (For("i", 320, (store,), 16),))
    assert parse_kernel(text) == kernel
    assert "y[i] = 1.0 streamed" in print_kernel(kernel)


@pytest.mark.parametrize("count", [12, pytest.param(40, marks=pytest.mark.slow)])
def test_random_kernels_are_read_back_as_they_were(count):
    @settings(max_examples=count)
    @given(kernels())
    def check(kernel):
        verify_kernel(kernel)
        text = print_kernel(kernel)
        assert parse_kernel(text) == kernel
        assert print_kernel(parse_kernel(text)) == text

    check()


# ---------------------------------------------------------------------------------- constants


def _only_constant(kernel: Kernel) -> Number:
    (let,) = kernel.body
    assert isinstance(let, Let)
    assert isinstance(let.value, Const)
    return let.value.value


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("value", [0, 1], ids=str)
def test_a_constant_of_each_dtype_is_read_back(dtype, value):
    kernel = Kernel("k", (), (Let("t", Const(value, dtype)),))
    read = parse_kernel(print_kernel(kernel))
    assert read == kernel
    python_type = float if dtype.is_float else bool if dtype.is_bool else int
    assert type(_only_constant(read)) is python_type


@given(st.floats())
def test_floats_are_exact_in_text(value):
    kernel = Kernel("k", (), (Let("t", Const(value, float64)),))
    read = _only_constant(parse_kernel(print_kernel(kernel)))
    assert math.copysign(1, read) == math.copysign(1, value) or math.isnan(value)
    assert read == value or (math.isnan(read) and math.isnan(value))


def test_a_constant_shows_its_dtype_only_where_nothing_else_does():
    half = Const(0.5, float32)
    assert print_statement(Let("t", Op("add", (half, half), float32))) == "t: f32 = add(0.5, 0.5)"
    compared = Let("t", Op("eq", (half, half), bool_))
    assert print_statement(compared) == "t: bool = eq(0.5:f32, 0.5:f32)"


# ------------------------------------------------------------------------------------- indices


def _indices() -> st.SearchStrategy[Index]:
    names = st.sampled_from(["i", "j", "k"])
    numbers = st.integers(-5, 5)

    def extend(inner):
        divided = st.builds(Quotient, inner, st.integers(1, 5)) | st.builds(
            Modulus, inner, st.integers(1, 5)
        )
        return st.builds(
            lambda const, terms: index_of(*terms, const=const),
            numbers,
            st.lists(st.tuples(names | divided, numbers), max_size=4),
        )

    return st.recursive(st.builds(Index, numbers), extend, max_leaves=6)


def _value(index: Index, at: dict[str, int]) -> int:
    total = index.const
    for atom, coefficient in index.terms:
        if isinstance(atom, str):
            total += coefficient * at[atom]
        elif isinstance(atom, Quotient):
            total += coefficient * (_value(atom.index, at) // atom.by)
        else:
            total += coefficient * (_value(atom.index, at) % atom.by)
    return total


@given(_indices())
def test_an_index_means_in_python_what_it_means_here(index):
    at = {"i": 3, "j": -7, "k": 11}
    assert eval(print_index(index), {}, at) == _value(index, at)


@given(_indices())
def test_indices_are_read_back_as_they_were(index):
    kernel = Kernel("k", (), (Let("t", IndexValue(index, int64)),))
    assert parse_kernel(print_kernel(kernel)) == kernel


# -------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel @k() {\n  t: f32 = u\n}", "line 2: u is not bound"),
        ("kernel @k() {\n  t: f31 = 1.0\n}", "line 2: f31 is no dtype"),
        ("kernel @k() {\n  t: i32 = 1.5\n}", "line 2: 1.5 is no i32"),
        ("kernel @k() {\n  t: bool = -true\n}", "line 2: true is no bool"),
        ("kernel @k() {\n  t: f32 = -t\n}", "line 2: expected a number, found 't'"),
        ("kernel @k() {\n  t: f32 = frob(1.0)\n}", "line 2: frob is neither an operation nor"),
        ("kernel @k() {\n  t: f32 = f64(1.0:f32)\n}", "line 2: a conversion to f64 is not f32"),
        ("kernel @k() {\n  t: f32 = 1.0:f64\n}", "line 2: the value is f64, not f32"),
        ("kernel @k() {\n  t: bool = lt(0.0, 1.0)\n}", "line 2: a constant needs its dtype"),
        ("kernel @k() {\n  x[0] = 1.0\n}", "line 2: x is no buffer"),
        ("kernel @k() {\n  t ?\n}", "line 2: '?' means nothing"),
        ("kernel @k() {\n  t = 1.0\n}", "line 2: expected a statement, found 't'"),
        ("kernel @k() {\n  t: i64 = index((i + 1))\n}", "line 2: expected '//' or '%'"),
        ("kernel @k() {\n  for i in 1..4 {\n  }\n}", "line 2: expected '0', found '1'"),
        ("kernel @k() {\n", "line 2: expected a statement, found the end"),
        ("kernel @k() {\n  t: f32 =", "line 2: expected a name or a number, found the end"),
        ("kernel @k() {\n}\n}", "line 3: expected the end of the text, found '}'"),
        ("kernel @k(at x: f32[3]) {\n}", "line 1: expected in, out, inout or scratch"),
        (
            "kernel @k() {\n  fold s: f32 = 0.0 for k in 0..2 {\n    yield 1.0\n  }"
            " combine (a) (b, c) {\n    yield a\n  }\n}",
            "line 4: 2 names for 1 accumulators",
        ),
    ],
)
def test_text_that_is_no_kernel_is_refused_with_its_line(text, message):
    with pytest.raises(GraphError) as caught:
        parse_kernel(text)
    assert message in str(caught.value)


# ------------------------------------------------------------------------------ canonical names


def test_canonical_names_count_in_the_order_of_the_text():
    text = print_kernel(canonical(parse_kernel(EVERYTHING)))
    lines = text.splitlines()
    assert lines[0].startswith("kernel @kernel(in b0: f32[320], in b1: f32[100], inout b2:")
    assert lines[3] == "    t1: f32 = b0[i0]"
    assert "    fold t9: f32 = 0.0, t10: i64 = 0 for i6 in 0..10 lanes(32) {" in lines
    assert "    b2[i3] = t9" in lines


def test_kernels_equal_but_for_names_have_one_canonical_text():
    text = (
        "kernel @{0}(in x: f32[8], out y: f32[8]) {{ for {1} in 0..4 {{ for {2} in 0..2 {{"
        " t: f32 = x[{3}] y[2*{1} + {2}] = t }} }} }}"
    )
    # The terms of an index in normal form stand in the order of their names.
    first = parse_kernel(text.format("a", "j", "i", "i + 2*j"))
    second = parse_kernel(text.format("b", "i", "j", "2*i + j"))
    assert print_kernel(canonical(first)) == print_kernel(canonical(second))


def test_kernels_that_differ_in_a_sign_or_a_status_have_different_canonical_texts():
    text = "kernel @k() {{ t: f32 = {} check r = 0 in 1 else {} }}"
    texts = {
        print_kernel(canonical(parse_kernel(text.format(*of))))
        for of in (("0.0", 1), ("-0.0", 1), ("nan", 1), ("nan", 2))
    }
    assert len(texts) == 4


def test_kernels_that_differ_in_what_becomes_of_an_index_have_different_canonical_texts():
    checks = ("check r = t in 2 else 1", "check r = t in 0..2 else 1", "clamp r = t in 2")
    text = "kernel @k(out y: i64[2]) {{ t: i64 = index(1) {} y[r] = 1 }}"
    texts = {print_kernel(canonical(parse_kernel(text.format(check)))) for check in checks}
    assert len(texts) == 3


def test_a_name_that_is_bound_anew_after_its_loop_gets_a_new_canonical_name():
    loop = " for i in 0..2 { t: i64 = index(i) y[i] = t }"
    kernel = canonical(parse_kernel(f"kernel @k(out y: i64[2]) {{ {loop} {loop} }}"))
    assert "b0[i1] = t1" in print_kernel(kernel)


def test_a_name_that_a_fold_binds_inside_and_outside_keeps_apart():
    text = (
        "kernel @k(out y: i64[1]) { fold s: i64 = 0 for k in 0..2 { s: i64 = index(k) yield s }"
        " combine (a) (b) { c: i64 = add(a, b) yield c } y[0] = s }"
    )
    lines = print_kernel(canonical(parse_kernel(text))).splitlines()
    assert lines[1:4] == [
        "  fold t0: i64 = 0 for i0 in 0..2 {",
        "    t1: i64 = index(i0)",
        "    yield t1",
    ]
    assert lines[-2] == "  b0[0] = t0"


@pytest.mark.parametrize("count", [10, pytest.param(30, marks=pytest.mark.slow)])
def test_canonical_kernels_are_well_formed_and_stay_as_they_are(count):
    @settings(max_examples=count)
    @given(kernels())
    def check(kernel):
        renamed = canonical(kernel)
        verify_kernel(renamed)
        assert print_kernel(canonical(renamed)) == print_kernel(renamed)
        assert parse_kernel(print_kernel(renamed)) == renamed

    check()


def test_thousands_of_statements_are_read_and_renamed_in_a_second():
    lets = [Let("t0", Const(1.0, float32))]
    for i in range(1, 5000):
        last = Ref(f"t{i - 1}", float32)
        lets.append(Let(f"t{i}", Op("add", (last, last), float32)))
    kernel = Kernel("k", (), tuple(lets))
    start = time.process_time()
    read = parse_kernel(print_kernel(canonical(kernel)))
    verify_kernel(read)
    assert time.process_time() - start < 1
    assert read == replace(kernel, name="kernel")
