"""Bodies in two versions, one without what no lane of a vector selects: the bits are the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm import pieces
from symgrad.codegen.llvm.versions import versions_of
from symgrad.codegen.loops.language import For, Let, Select, Stmt
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.config import override
from symgrad.graph.types import Array
from symgrad.runtime.step import Step

Function = Callable[[sg.Tensor], Any]
SIZES = {"float32": 9, "float64": 12}
FUNCTIONS: dict[str, Function] = {
    "det": sg.linalg.det,
    "solve": lambda a: sg.linalg.solve(a, a[..., :1]),
    "inv": sg.linalg.inv,
    "slogdet": lambda a: list(sg.linalg.slogdet(a)),
    "gradient": lambda a: sg.gradients(sg.sum(sg.linalg.solve(a, a[..., :1]) ** 2), [a]),
}


def body(place: str = "b0[i0]", *, pairs: int = 16, plain: int = 0) -> tuple[Stmt, ...]:
    """Return a loop's body with two selects for each number that a value may be equal to."""
    lines = [f"p: f64 = {place}", "x: f64 = b1[i0]", "s0: f64 = x", "t0: f64 = b1[i0 + 8]"]
    for n in range(pairs):
        lines += [
            f"c{n}: bool = eq(p, {n + 3}.0:f64)",
            f"s{n + 1}: f64 = select(c{n}, t{n}, s{n})",
            f"t{n + 1}: f64 = select(c{n}, x, t{n})",
        ]
    lines += [f"t{n + 1}: f64 = mul(t{n}, t{n})" for n in range(pairs, pairs + plain)]
    lines += [f"b2[i0] = s{pairs}", f"b1[i0 + 8] = t{pairs + plain}"]
    params = "in b0: f64[8], inout b1: f64[16], out b2: f64[8]"
    text = "".join(f"    {line}\n" for line in lines)
    (loop,) = parse_kernel(
        f"kernel @k({params}) {{\n  for i0 in 0..8 vector(8) {{\n{text}  }}\n}}"
    ).body
    assert isinstance(loop, For)
    return loop.body


def matrices(n: int, dtype: str) -> Array:
    """Return matrices of which the first half exchange few rows, and the others many."""
    rng = np.random.default_rng(n)
    found = rng.standard_normal((320, n, n))
    found[:160] += 4 * n * np.eye(n)
    found[::37] = rng.standard_normal((9, n, n))
    found[5] = np.nan
    found[101, 2] = 0
    return found.astype(dtype)


def compiled(name: str, a: Array, threads: int = 1) -> Step:
    x = sg.placeholder(a.shape, a.dtype.name)
    with override(cache=False):
        return sg.compile([x], FUNCTIONS[name](x), threads=threads)


def results(step: Step, a: Array) -> list[bytes]:
    with np.errstate(all="ignore"):
        found = step(a)
    return [
        np.asarray(r).tobytes() for r in (found if isinstance(found, list | tuple) else [found])
    ]


def test_selects_by_what_is_loaded_fall_away() -> None:
    versions = versions_of(body())
    assert versions is not None
    ((let, least),) = versions.places
    assert (let.name, least.value) == ("p", 3.0)
    assert not any(isinstance(s, Let) and isinstance(s.value, Select) for s in versions.plain)


def test_one_version_is_enough_where_little_falls_away() -> None:
    assert versions_of(body(pairs=15)) is None
    assert versions_of(body(plain=180)) is not None
    assert versions_of(body(plain=200)) is None


def test_what_is_computed_or_may_be_written_before_decides_nothing() -> None:
    assert versions_of(body("2.0")) is None
    assert versions_of(body("b1[i0 + 8]")) is None


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", SIZES)
def test_both_versions_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
) -> None:
    a = matrices(SIZES[dtype], dtype)
    found = compiled(name, a)
    with monkeypatch.context() as patch:
        patch.setattr(pieces, "versions_of", lambda _: None)
        single = compiled(name, a)
        length = len(single.ir("llvm"))
    assert length < len(found.ir("llvm"))
    expected = results(single, a)
    assert results(found, a) == expected
    assert results(compiled(name, a, threads=3), a) == expected


@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v3", "x86-64", "aarch64"])
def test_each_target_has_a_branch_for_a_vector(target: str) -> None:
    x = sg.placeholder((64, 12, 12), "float64")
    text = sg.compile([x], sg.linalg.det(x), target=target).ir("llvm")
    assert re.search(r"bitcast <\d+ x i1> .* to i\d+\n .*icmp eq .*\n  br i1", text)
