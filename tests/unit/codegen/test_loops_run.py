"""The interpreter: exact arithmetic of every dtype, the order of folds, checks, independence."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from symgrad.codegen.loops import run as loops_run
from symgrad.codegen.loops.canonical import canonical
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.scalars import NUMPY_OPS
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.graph.dtypes import BY_SHORT
from symgrad.graph.scalars import SCALAR_OPS
from tests.support.loop_kernels import ELEMENTARY, kernels, random_buffers

F32 = np.float32


def _run(text: str, *arrays: NDArray[Any]) -> int:
    """Verify and run a kernel on arrays in the order of its parameters."""
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    names = [param.name for param in kernel.params]
    return run_kernel(kernel, dict(zip(names, arrays, strict=False)))


def _apply(expression: str, result: str, **values: Any) -> Any:
    """Return the value of an expression over one element arrays `name: (dtype, value)`."""
    params = ", ".join(f"in {name}_: {dtype}[1]" for name, (dtype, _) in values.items())
    loads = " ".join(f"{name}: {dtype} = {name}_[0]" for name, (dtype, _) in values.items())
    text = (
        f"kernel @k({params}, out y: {result}[1]) {{ {loads} r: {result} = {expression} y[0] = r }}"
    )
    arrays = [np.array([value]).astype(BY_SHORT[d].numpy) for d, value in values.values()]
    y = np.zeros(1, BY_SHORT[result].numpy)
    assert _run(text, *arrays, y) == 0
    return y[0]


# ----------------------------------------------------------------------------------- arithmetic


def test_every_scalar_operation_has_a_meaning():
    assert set(NUMPY_OPS) == set(SCALAR_OPS)


@pytest.mark.parametrize(
    ("op", "dtype", "args", "expected"),
    [
        ("add", "i8", (127, 1), -128),
        ("add", "u8", (255, 1), 0),
        ("sub", "u32", (0, 1), 2**32 - 1),
        ("mul", "i32", (2**16, 2**16), 0),
        ("mul", "u64", (2**63, 3), 2**63),
        ("mul_error", "f64", (1 + 2.0**-30, 1 - 2.0**-30), -(2.0**-60)),
        ("mul_error", "f32", (1 + 2.0**-15, 1 + 2.0**-15), 2.0**-30),
        ("div", "f32", (1, 3), float(F32(1) / F32(3))),
        ("div", "f64", (1, 0), math.inf),
        ("floordiv", "i32", (-7, 2), -4),
        ("floordiv", "i32", (7, 0), 0),
        ("floordiv", "i8", (-128, -1), -128),
        ("floordiv", "f64", (-7.5, 2), -4),
        ("mod", "i32", (-7, 3), 2),
        ("mod", "i32", (7, -3), -2),
        ("mod", "u8", (7, 0), 0),
        ("mod", "i8", (-128, -1), 0),
        ("mod", "f32", (-7.5, 2), 0.5),
        ("neg", "u8", (1,), 255),
        ("neg", "i64", (-(2**63),), -(2**63)),
        ("abs", "i16", (-(2**15),), -(2**15)),
        ("abs", "f32", (-0.5,), 0.5),
        ("min", "f32", (1, math.nan), math.nan),
        ("min", "f32", (math.nan, 1), math.nan),
        ("max", "f64", (math.nan, 1), math.nan),
        ("max", "u64", (2**64 - 1, 1), 2**64 - 1),
        ("sqrt", "f32", (2,), float(np.sqrt(F32(2)))),
        ("sqrt", "f64", (-1,), math.nan),
        ("floor", "f32", (-0.5,), -1),
        ("ceil", "f32", (0.5,), 1),
        ("round", "f64", (2.5,), 2),
        ("round", "f64", (-3.5,), -4),
        ("exp", "f64", (1000,), math.inf),
        ("exp", "f32", (1,), float(F32(math.e))),
        ("expm1", "f32", (1e-10,), float(F32(1e-10))),
        ("log", "f64", (0,), -math.inf),
        ("log", "f32", (10,), float(F32(math.log(10)))),
        ("log1p", "f32", (1e-10,), float(F32(1e-10))),
        ("sin", "f32", (1,), float(F32(math.sin(1)))),
        ("cos", "f64", (math.inf,), math.nan),
        ("cos", "f32", (1,), float(F32(math.cos(1)))),
        ("tanh", "f32", (0.5,), float(F32(math.tanh(0.5)))),
        ("sigmoid", "f64", (-720,), math.exp(-720)),
        ("sigmoid", "f64", (math.nan,), math.nan),
        ("sigmoid", "f32", (800,), 1),
        ("erf", "f64", (0.5,), math.erf(0.5)),
        ("erf", "f32", (math.nan,), math.nan),
        ("erfinv", "f64", (-1,), -math.inf),
        ("erfinv", "f64", (0.5,), 0.4769362762044699),
        ("erfinv", "f32", (2,), math.nan),
        ("fmod", "i32", (-7, 3), -1),
        ("fmod", "i8", (-128, -1), 0),
        ("fmod", "u8", (7, 0), 0),
        ("fmod", "f64", (-7.5, 2), -1.5),
        ("fmod", "f32", (1, 0), math.nan),
        ("trunc", "f32", (-1.5,), -1),
        ("copysign", "f64", (2, -0.0), -2),
        ("nextafter", "f32", (1, 2), 1 + 2.0**-23),
        ("nextafter", "f64", (1, 0), 1 - 2.0**-53),
        ("exp2", "f64", (-1074,), 5e-324),
        ("decay", "f64", (-1,), math.exp(-1)),
        ("decay", "f64", (-math.inf,), 0),
        ("log2", "f32", (2.0**-149,), -149),
        ("log10", "f64", (1e300,), 300),
        ("tan", "f64", (1,), math.tan(1)),
        ("sinpi", "f64", (1e15 + 0.5,), 1),
        ("sinpi", "f32", (0.75,), float(F32(math.sqrt(0.5)))),
        ("sinpi", "f64", (-0.25,), -math.sqrt(0.5)),
        ("cospi", "f32", (3,), -1),
        ("cospi", "f64", (0.5,), 0),
        ("cospi", "f64", (math.inf,), math.nan),
        ("asin", "f64", (0.5,), math.asin(0.5)),
        ("acos", "f64", (-1,), math.pi),
        ("atan", "f32", (1,), float(F32(math.pi / 4))),
        ("atan2", "f64", (-0.0, -1), -math.pi),
        ("sinh", "f64", (1,), math.sinh(1)),
        ("cosh", "f32", (1,), float(F32(math.cosh(1)))),
        ("asinh", "f64", (1e300,), math.asinh(1e300)),
        ("acosh", "f64", (2,), math.acosh(2)),
        ("atanh", "f64", (0.5,), math.atanh(0.5)),
        ("cbrt", "f64", (-27,), -3),
        ("rsqrt", "f64", (4,), 0.5),
        ("hypot", "f32", (3e38, 1e38), float(F32(math.hypot(F32(3e38), F32(1e38))))),
        ("hypot", "f64", (math.inf, math.nan), math.inf),
        ("pow", "f32", (2, 0.5), float(F32(math.sqrt(2)))),
        ("pow", "f64", (-2, 0.5), math.nan),
        ("pow", "i32", (3, 5), 243),
        ("pow", "i8", (3, 5), 243 - 256),
        ("pow", "i64", (0, 0), 1),
        ("pow", "i64", (2, -1), 0),
        ("pow", "i64", (0, -1), 0),
        ("pow", "i64", (1, -3), 1),
        ("pow", "i64", (-1, -3), -1),
        ("pow", "i64", (-1, -4), 1),
        ("pow", "u64", (3, 41), 3**41 % 2**64),
        ("pow", "u8", (2, 255), 0),
        ("eq", "f32", (math.nan, math.nan), False),
        ("ne", "f32", (math.nan, math.nan), True),
        ("lt", "u8", (1, 255), True),
        ("le", "i8", (1, -1), False),
        ("gt", "bool", (True, False), True),
        ("ge", "f64", (math.nan, 0), False),
        ("and", "bool", (True, False), False),
        ("or", "bool", (True, False), True),
        ("xor", "bool", (True, True), False),
        ("not", "bool", (False,), True),
        ("and", "i8", (-2, 7), 6),
        ("or", "u16", (0xFF00, 0x0FF0), 0xFFF0),
        ("xor", "i64", (-1, 5), -6),
        ("not", "u8", (1,), 254),
        ("shl", "i8", (3, 6), -64),
        ("shl", "u64", (1, 63), 2**63),
        ("shl", "i32", (1, 32), 0),
        ("shl", "i32", (1, -1), 0),
        ("shr", "i8", (-100, 3), -13),
        ("shr", "i8", (-100, 8), -1),
        ("shr", "i8", (100, -1), 0),
        ("shr", "u32", (2**32 - 1, 31), 1),
        ("shr", "u32", (2**32 - 1, 32), 0),
    ],
)
def test_scalar_operations_give_what_their_row_says(op, dtype, args, expected):
    result = "bool" if SCALAR_OPS[op].gives == "bool" else dtype
    values = {name: (dtype, arg) for name, arg in zip("ab", args, strict=False)}
    value = _apply(f"{op}({', '.join(values)})", result, **values)
    np.testing.assert_array_max_ulp(
        np.float64(value), np.float64(expected), 1 if op in ELEMENTARY else 0
    )


@pytest.mark.parametrize(
    ("source", "value", "to", "expected"),
    [
        ("f32", 2.9, "i32", 2),
        ("f32", -2.9, "i32", -2),
        ("f64", 1e30, "i64", 2**63 - 1),
        ("f64", -1e30, "i64", -(2**63)),
        ("f64", math.inf, "u64", 2**64 - 1),
        ("f64", float(2**63), "u64", 2**63),
        ("f64", float(2**63), "i64", 2**63 - 1),
        ("f32", -1.0, "u8", 0),
        ("f32", 300.0, "u8", 255),
        ("f32", 127.9, "i8", 127),
        ("f32", -128.9, "i8", -128),
        ("f64", math.nan, "i32", 0),
        ("f16", math.inf, "i32", 2**31 - 1),
        ("bf16", 2.5, "i8", 2),
        ("f64", math.nan, "bool", True),
        ("f32", -0.0, "bool", False),
        ("bf16", 0.5, "bool", True),
        ("i32", 300, "i8", 44),
        ("i8", -1, "u64", 2**64 - 1),
        ("i32", 256, "bool", True),
        ("bool", True, "f32", 1.0),
        ("bool", True, "bf16", 1.0),
        ("u64", 2**64 - 1, "f32", 2.0**64),
        ("i64", 2**24 + 1, "f32", 2.0**24),
        ("f64", 65520.0, "f16", math.inf),
        ("f64", 65519.0, "f16", 65504.0),
        ("f64", 1 + 2**-11 + 2**-40, "f16", 1 + 2**-10),
        ("f64", 1 + 2**-8 + 2**-40, "bf16", 1 + 2**-7),
        ("f64", 1 + 2**-8, "bf16", 1.0),
        ("f64", 1 + 3 * 2**-8 - 2**-40, "bf16", 1 + 2**-7),
        ("f64", -1 - 2**-8 - 2**-40, "bf16", -1 - 2**-7),
        ("f64", 1e39, "bf16", math.inf),
        ("f64", math.nan, "bf16", math.nan),
        ("f32", 1 + 2**-8, "bf16", 1.0),
        ("f16", 1 + 2**-10, "bf16", 1.0),
        ("bf16", 3e38, "f16", math.inf),
    ],
)
def test_conversions_round_wrap_and_saturate(source, value, to, expected):
    converted = _apply(f"{to}(a)", to, a=(source, value))
    if isinstance(expected, float):
        np.testing.assert_equal(float(converted), expected)
    else:
        assert int(converted) == expected


def test_constants_are_rounded_to_their_dtype_once():
    text = "kernel @k(out y: bf16[1], out z: f32[1]) { y[0] = 1.00390625000001 z[0] = 0.1 }"
    y, z = np.zeros(1, ml_dtypes.bfloat16), np.zeros(1, F32)
    assert _run(text, y, z) == 0
    assert (float(y[0]), z[0]) == (1 + 2**-7, F32(0.1))


def test_select_takes_halves_as_they_are():
    text = """kernel @k(in c: bool[3], in x: bf16[3], out y: bf16[3]) {
      for i in 0..3 vector(2) {
        t: bool = c[i]
        u: bf16 = x[i]
        v: bf16 = select(t, u, -1.0)
        y[i] = v
      }
    }"""
    x, y = np.array([1.5, math.nan, 3], ml_dtypes.bfloat16), np.zeros(3, ml_dtypes.bfloat16)
    assert _run(text, np.array([True, True, False]), x, y) == 0
    np.testing.assert_array_equal(y.astype(F32), np.array([1.5, math.nan, -1], F32))


# ---------------------------------------------------------------------------------------- loops


def test_quotients_and_moduli_of_negative_indices_round_down():
    text = """kernel @k(out y: i64[4], out z: i64[4]) {
      for i in 0..4 {
        q: i64 = index((i - 5) // 3)
        r: i64 = index(2*((i - 5) % 3) - 1)
        y[i] = q
        z[3 - i] = r
      }
    }"""
    y, z = np.zeros(4, np.int64), np.zeros(4, np.int64)
    assert _run(text, y, z) == 0
    assert y.tolist() == [(i - 5) // 3 for i in range(4)]
    assert z[::-1].tolist() == [2 * ((i - 5) % 3) - 1 for i in range(4)]


def test_ordered_loops_see_what_iterations_before_wrote():
    text = """kernel @k(in x: i32[6], out y: i32[6]) {
      first: i32 = x[0]
      y[0] = first
      for i in 0..5 ordered {
        before: i32 = y[i]
        t: i32 = x[i + 1]
        sum: i32 = add(before, t)
        y[i + 1] = sum
      }
    }"""
    x, y = np.arange(6, dtype=np.int32), np.zeros(6, np.int32)
    assert _run(text, x, y) == 0
    assert y.tolist() == np.cumsum(x).tolist()


def test_nested_independent_loops_store_every_element():
    text = """kernel @k(in x: f32[12], out y: f32[12]) {
      for i in 0..3 { for j in 0..4 { t: f32 = x[4*i + j] u: f32 = neg(t) y[i + 3*j] = u } }
    }"""
    x, y = np.arange(12, dtype=F32), np.zeros(12, F32)
    assert _run(text, x, y) == 0
    np.testing.assert_array_equal(y.reshape(4, 3), -x.reshape(3, 4).T)


def test_a_buffer_is_changed_in_place():
    text = (
        "kernel @k(inout x: i64[4]) { for i in 0..4 { t: i64 = x[i] u: i64 = mul(t, t) x[i] = u } }"
    )
    x = np.arange(4)
    assert _run(text, x) == 0
    assert x.tolist() == [0, 1, 4, 9]


def test_scratch_may_be_left_out():
    text = """kernel @k(in x: f64[3], out y: f64[3], scratch w: f64[3]) {
      for i in 0..3 { t: f64 = x[i] w[2 - i] = t }
      for j in 0..3 { u: f64 = w[j] y[j] = u }
    }"""
    y = np.zeros(3)
    assert _run(text, np.arange(3.0), y) == 0
    assert y.tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(2, F32), "x has 3"),
        (np.zeros(3), "x is f32"),
        (None, "there is no array for x"),
    ],
)
def test_arrays_that_do_not_fit_the_parameters_are_refused(x, message):
    kernel = parse_kernel("kernel @k(in x: f32[3]) { }")
    with pytest.raises(AssertionError, match=message):
        run_kernel(kernel, {} if x is None else {"x": x})


# --------------------------------------------------------------------------------------- checks

_GATHER = """kernel @gather(in x: f32[3], in at: i32[4], out y: f32[4]) {
  for i in 0..4 {
    a: i32 = at[i]
    b: i64 = i64(a)
    check r = b in 3 else 7
    t: f32 = x[r]
    y[i] = t
  }
}"""


@pytest.mark.parametrize(
    ("check", "indices", "status", "found"),
    [
        ("check r = b in 0..3 else 7", [0, 1, 2, 2], 0, [1, 2, 3, 3]),
        ("check r = b in 0..3 else 7", [0, -1, 2, 2], 7, [1, 0, 0, 0]),
        ("check r = b in 0..3 else 7", [0, 3, 2, 2], 7, [1, 0, 0, 0]),
        ("clamp r = b in 3", [-9, 1, 2, 9], 0, [1, 2, 3, 3]),
    ],
)
def test_an_index_may_be_one_from_the_start_only_or_the_nearest(check, indices, status, found):
    y = np.zeros(4, F32)
    text = _GATHER.replace("check r = b in 3 else 7", check)
    assert _run(text, np.array([1, 2, 3], F32), np.array(indices, np.int32), y) == status
    assert y.tolist() == found


def test_checked_indices_count_from_the_end_if_negative():
    y = np.zeros(4, F32)
    assert _run(_GATHER, np.array([1, 2, 3], F32), np.array([0, -1, 2, -3], np.int32), y) == 0
    assert y.tolist() == [1, 3, 3, 1]


@pytest.mark.parametrize("wrong", [3, -4])
def test_a_failed_check_stops_the_kernel_with_its_status(wrong):
    y = np.zeros(4, F32)
    assert _run(_GATHER, np.array([1, 2, 3], F32), np.array([0, 1, wrong, 1], np.int32), y) == 7
    assert y.tolist() == [1, 2, 0, 0]


def test_parts_of_a_loop_are_run_from_the_last_to_the_first():
    # What a loop must not rely on if it is to be parallel: the iterations before are over.
    text = """kernel @k(inout y: i32[6]) {
      for i in 0..5 parallel(2) { t: i32 = y[i] y[i + 1] = t }
    }"""
    y = np.arange(6, dtype=np.int32)
    assert _run(text, y) == 0
    assert y.tolist() == [0, 0, 1, 2, 3, 4]
    assert _run(text.replace(" parallel(2)", " ordered"), y := np.arange(6, dtype=np.int32)) == 0
    assert y.tolist() == [0] * 6


def test_a_part_that_fails_does_not_stop_the_others():
    y = np.zeros(4, F32)
    text = _GATHER.replace("0..4", "0..4 parallel(2)")
    assert _run(text, np.array([1, 2, 3], F32), np.array([0, 9, 2, 1], np.int32), y) == 7
    assert y.tolist() == [1, 0, 3, 2]


@pytest.mark.parametrize(("x", "status"), [([0, 5, 9, 0], 2), ([0, 9, 5, 0], 1), ([0] * 4, 0)])
def test_the_first_part_that_failed_says_the_status(x, status):
    text = """kernel @k(in x: i64[4]) {
      for i in 0..4 parallel(1) { t: i64 = x[i] check r = t in 8 else 1 check s = t in 4 else 2 }
    }"""
    assert _run(text, np.array(x)) == status


def test_a_check_in_an_empty_range_always_fails():
    text = (
        "kernel @k(in x: f32[0], out y: f32[1]) { check r = 0 in 0 else 2 t: f32 = x[r] y[0] = t }"
    )
    assert _run(text, np.zeros(0, F32), np.zeros(1, F32)) == 2


# ---------------------------------------------------------------------------------------- folds


def _sum_in_lanes(x: NDArray[Any], lanes: int) -> Any:
    partials = [x.dtype.type(0)] * lanes
    for k, item in enumerate(x):
        partials[k % lanes] = partials[k % lanes] + item
    while len(partials) > 1:
        half = len(partials) // 2
        partials = [partials[j] + partials[j + half] for j in range(half)]
    return partials[0]


@pytest.mark.parametrize("count", [0, 1, 5, 32, 45, 1000])
@pytest.mark.parametrize("lanes", [1, 2, 8, 32])
def test_a_fold_combines_in_the_order_of_its_lanes(count, lanes):
    text = f"""kernel @k(in x: f32[{count}], out y: f32[1]) {{
      fold s: f32 = 0.0 for k in 0..{count} lanes({lanes}) {{
        t: f32 = x[k]
        yield t
      }} combine (a) (b) {{
        c: f32 = add(a, b)
        yield c
      }}
      y[0] = s
    }}"""
    x = np.random.default_rng(count).standard_normal(count).astype(F32)
    y = np.zeros(1, F32)
    assert _run(text, x, y) == 0
    assert y[0] == _sum_in_lanes(x, lanes)


def test_the_left_side_of_a_combination_is_what_came_before():
    text = """kernel @k(in x: i64[7], out y: i64[1]) {
      fold s: i64 = 0 for k in 0..7 lanes(2) {
        t: i64 = x[k]
        yield t
      } combine (a) (b) {
        c: i64 = mul(a, 10)
        d: i64 = add(c, b)
        yield d
      }
      y[0] = s
    }"""
    y = np.zeros(1, np.int64)
    assert _run(text, np.arange(1, 8), y) == 0
    assert y[0] == 1357 * 10 + 246


def test_a_fold_of_pairs_finds_the_first_greatest_element_of_each_row():
    text = """kernel @k(in x: f32[12], out y: i64[3]) {
      for i in 0..3 {
        fold best: f32 = -inf, at: i64 = 4 for k in 0..4 lanes(2) {
          t: f32 = x[4*i + k]
          p: i64 = index(k)
          yield t, p
        } combine (a, i_a) (b, i_b) {
          wins: bool = gt(a, b)
          same: bool = eq(a, b)
          first: bool = lt(i_a, i_b)
          tie: bool = and(same, first)
          left: bool = or(wins, tie)
          c: f32 = select(left, a, b)
          j: i64 = select(left, i_a, i_b)
          yield c, j
        }
        y[i] = at
      }
    }"""
    x = np.array([[1, 5, 5, 2], [7, 1, 7, 7], [0, 0, 0, 1]], F32)
    y = np.zeros(3, np.int64)
    assert _run(text, x.reshape(-1), y) == 0
    assert y.tolist() == [1, 0, 3]


def test_items_that_are_the_same_for_all_elements_are_combined_each_time():
    text = """kernel @k(in x: i32[2], out y: i32[2]) {
      for i in 0..2 {
        t: i32 = x[i]
        fold s: i32 = 0, n: i32 = 0 for k in 0..5 lanes(2) { yield t, 1 }
          combine (a, b) (c, d) { e: i32 = add(a, c) f: i32 = add(b, d) yield e, f }
        u: i32 = mul(s, n)
        y[i] = u
      }
    }"""
    y = np.zeros(2, np.int32)
    assert _run(text, np.array([1, 2], np.int32), y) == 0
    assert y.tolist() == [25, 50]


# -------------------------------------------------------------------------------------- products

_PRODUCT = """kernel @k(in a: {0}[12], in b: {0}[8], out y: {1}[6]) {{
  product s: {1} for (m in 0..3) (n in 0..2) (k in 0..{2})
      a[{3}] by ({4}, {5}) * b[0] by (2, 1) tile(1, 8) block(3, 2, 4) pack() along(n) {{
    t: {1} = add(s, 1{6})
    y[2*m + n] = t
  }}
}}"""


def test_a_product_hands_each_finished_element_to_its_body():
    a, b = np.arange(12, dtype=F32), np.arange(8, dtype=F32)
    y = np.zeros(6, F32)
    assert _run(_PRODUCT.format("f32", "f32", 4, 0, 4, 1, ".0"), a, b, y) == 0
    np.testing.assert_array_equal(y.reshape(3, 2), a.reshape(3, 4) @ b.reshape(4, 2) + 1)


def test_strides_of_a_product_may_be_negative():
    a, b = np.arange(12, dtype=np.int32), np.arange(8, dtype=np.int32)
    y = np.zeros(6, np.int32)
    assert _run(_PRODUCT.format("i32", "i32", 4, 11, -1, -3, ""), a, b, y) == 0
    lhs = a[::-1].reshape(4, 3).T
    np.testing.assert_array_equal(y.reshape(3, 2), lhs @ b.reshape(4, 2) + 1)


def test_a_product_of_halves_is_added_up_in_float32():
    a = np.full(12, 1 + 2**-7, ml_dtypes.bfloat16)
    b = np.full(8, 1 + 2**-7, ml_dtypes.bfloat16)
    y = np.zeros(6, F32)
    assert _run(_PRODUCT.format("bf16", "f32", 4, 0, 4, 1, ".0"), a, b, y) == 0
    assert y.tolist() == [4 * (1 + 2**-7) ** 2 + 1] * 6


def test_products_of_integers_wrap_around():
    a, b, y = np.full(12, 100, np.int8), np.full(8, 2, np.int8), np.zeros(6, np.int8)
    assert _run(_PRODUCT.format("i8", "i8", 4, 0, 4, 1, ""), a, b, y) == 0
    assert y.tolist() == [(800 + 1) % 256] * 6


def test_an_empty_sum_is_zero():
    y = np.zeros(6, F32)
    assert (
        _run(_PRODUCT.format("f32", "f32", 0, 0, 4, 1, ".0"), np.ones(12, F32), np.ones(8, F32), y)
        == 0
    )
    assert y.tolist() == [1] * 6


# --------------------------------------------------------------------- any order, the same result

_EXACT = frozenset(SCALAR_OPS) - ELEMENTARY


def _results(kernel: Any, seed: int) -> tuple[int, list[NDArray[Any]]]:
    buffers = random_buffers(kernel, seed)
    status = run_kernel(kernel, buffers)
    return status, [buffers[param.name] for param in kernel.params]


def _assert_same(first: Any, second: Any) -> None:
    assert first[0] == second[0]
    for a, b in zip(first[1], second[1], strict=True):
        np.testing.assert_array_equal(a.astype(np.float64), b.astype(np.float64))


@pytest.mark.parametrize("count", [10, pytest.param(30, marks=pytest.mark.slow)])
def test_side_by_side_and_one_by_one_give_the_same(count):
    @settings(max_examples=count)
    @given(kernels(_EXACT), st.integers(0, 1000))
    def check(kernel, seed):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loops_run, "is_free_of", lambda body, of: False)
            one_by_one = _results(kernel, seed)
        _assert_same(_results(kernel, seed), one_by_one)

    check()


@pytest.mark.parametrize("count", [12, pytest.param(40, marks=pytest.mark.slow)])
def test_loops_taken_in_parts_give_the_same(count):
    @settings(max_examples=count)
    @given(kernels(_EXACT), st.integers(0, 1000))
    def check(kernel, seed):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loops_run, "_SIDE_BY_SIDE", 3)
            in_parts = _results(kernel, seed)
        _assert_same(_results(kernel, seed), in_parts)

    check()


@pytest.mark.parametrize("count", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_a_kernel_with_canonical_names_computes_the_same(count):
    @settings(max_examples=count)
    @given(kernels(), st.integers(0, 1000))
    def check(kernel, seed):
        renamed = canonical(kernel)
        buffers = random_buffers(kernel, seed)
        other = dict(zip((p.name for p in renamed.params), _copies(buffers), strict=True))
        assert run_kernel(kernel, buffers) == run_kernel(renamed, other)
        _assert_same((0, list(buffers.values())), (0, list(other.values())))

    check()


def _copies(buffers: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    return [array.copy() for array in buffers.values()]
