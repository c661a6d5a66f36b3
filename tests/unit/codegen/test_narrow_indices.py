"""Narrowing of compared indices: what is compared in 32 bits, and that it gives the same."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.narrow_indices import COMPARISONS, narrow_indices
from symgrad.codegen.target import target_named

TARGET = target_named("x86-64-v4")


def _one_hot(comparison: str = "eq(t1, t0)", *, extent: int = 48, vector: int = 16) -> str:
    return (
        f"kernel @k(in label: i64[2], in x: i64[{extent}], out y: bool[{2 * extent}]) {{\n"
        "  for i in 0..2 {\n"
        "    t0: i64 = label[i]\n"
        f"    for j in 0..{extent} vector({vector}) {{\n"
        "      t1: i64 = index(j)\n"
        "      t2: i64 = x[j]\n"
        f"      t3: bool = {comparison}\n"
        f"      y[{extent}*i + j] = t3\n"
        "    }\n  }\n}\n"
    )


@pytest.mark.parametrize("op", sorted(COMPARISONS))
@pytest.mark.parametrize("order", ["t1, t0", "t0, t1"])
@pytest.mark.parametrize("label", [0, 3, 47, 48, -1, -5, 2**32 + 3, -(2**63), 2**63 - 1])
def test_a_comparison_of_32_bits_is_the_same_for_any_number(op, order, label):
    plain = parse_kernel(_one_hot(f"{op}({order})"))
    narrow = narrow_indices(plain, TARGET)
    verify_kernel(narrow)
    wanted = ("t3.at", "t3.limit") if order == "t1, t0" else ("t3.limit", "t3.at")
    assert f"bool = {op}({', '.join(wanted)})" in print_kernel(narrow)
    results = []
    for kernel in (plain, narrow):
        buffers = {
            "label": np.array([label, 7]),
            "x": np.zeros(48, np.int64),
            "y": np.zeros(96, bool),
        }
        run_kernel(kernel, buffers)
        results.append(buffers["y"])
    np.testing.assert_array_equal(results[0], results[1])


def test_a_loop_is_as_long_as_it_is_though_one_beside_it_has_the_same_index():
    shorter = "  for j in 0..3 vector(16) {\n    t4: bool = true\n    y[j] = t4\n  }\n}\n"
    plain = parse_kernel(_one_hot().removesuffix("}\n") + shorter)
    narrow = narrow_indices(plain, TARGET)
    assert "min(t3.least, 48)" in print_kernel(narrow)
    buffers = {"label": np.array([40, 7]), "x": np.zeros(48, np.int64), "y": np.zeros(96, bool)}
    run_kernel(narrow, buffers)
    assert np.flatnonzero(buffers["y"]).tolist() == [0, 1, 2, 40, 55]


@pytest.mark.parametrize(
    "text",
    [
        _one_hot("eq(t1, t2)"),  # another number in each iteration
        _one_hot("eq(t2, t0)"),  # no index
        _one_hot(vector=8),  # its indices fill one register
        _one_hot().replace("index(j)", "index(j // 3)"),  # not known how far it goes
        _one_hot().replace("index(j)", f"index(j + {2**31})"),  # beyond 32 bits
    ],
)
def test_other_comparisons_stay(text):
    assert narrow_indices(parse_kernel(text), TARGET) == parse_kernel(text)


FOLD = """kernel @k(in label: i64[2], in x: i64[48], out y: i64[2]) {
  for i in 0..2 {
    t0: i64 = label[i]
    fold t1: i64 = 0 for j in 0..48 lanes(16) {
      t2: i64 = index(j)
      t3: bool = ge(t0, t2)
      t4: i64 = x[j]
      t5: i64 = select(t3, t4, 0)
      yield t5
    } combine (t6) (t7) {
      t8: i64 = add(t6, t7)
      yield t8
    }
    y[i] = t1
  }
}"""


@pytest.mark.parametrize("label", [0, 7, 47, 48, -1, -(2**63), 2**63 - 1])
def test_so_is_one_in_a_fold(label):
    plain = parse_kernel(FOLD)
    narrow = narrow_indices(plain, TARGET)
    verify_kernel(narrow)
    assert "bool = ge(t3.limit, t3.at)" in print_kernel(narrow)
    results = []
    for kernel in (plain, narrow):
        buffers = {"label": np.array([label, 7]), "x": np.arange(48) ** 2, "y": np.zeros(2, int)}
        run_kernel(kernel, buffers)
        results.append(buffers["y"].tolist())
    assert results[0] == results[1]


def test_folds_whose_indices_are_one_vector_stay():
    plain = parse_kernel(FOLD.replace("lanes(16)", "lanes(8)"))
    assert narrow_indices(plain, TARGET) == plain
