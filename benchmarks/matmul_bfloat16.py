"""bfloat16 products beside float32 ones of the same sizes, and beside PyTorch's, on one core.

They are judged where the machine multiplies bfloat16 itself: then by how many times the rate of
float32 they reach. The share of the peak is that of float32's multiply-adds, and may exceed it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

import symgrad as sg
from benchmarks.peak import peak_call
from benchmarks.report import Bar, Report
from benchmarks.timing import Contestant, interleave, optional
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.dtypes import DType
from symgrad.graph.types import Array
from symgrad.runtime.function import compile

Form = Literal["NN", "TN", "NT", "TT"]

FORMS: tuple[Form, ...] = ("NN", "TN", "NT", "TT")
SIZES = (256, 512, 1024, 2048)
MIN_TIMES_FLOAT32 = 1.6


@dataclass(frozen=True, slots=True)
class Case:
    """A product of square matrices, either of them transposed."""

    size: int
    form: Form

    def operands(self, dtype: DType) -> tuple[Array, Array, Array]:
        """Return two matrices of small whole numbers, and one for their product."""
        shape = (self.size, self.size)
        a, b, out = (aligned_empty(shape, dtype.numpy) for _ in range(3))
        random = np.random.default_rng(0)
        a[...], b[...] = random.integers(-1, 2, shape), random.integers(-1, 2, shape)
        return a, b, out


def add_products(report: Report, quick: bool) -> None:
    """Add a row for each size and form to a report of products, and where it counts a bar."""
    worst = dict.fromkeys(FORMS, (float("inf"), 0))
    for size in (48,) if quick else SIZES:
        for form in FORMS:
            times = _add_row(report, Case(size, form), rounds=3 if quick else 15)
            worst[form] = min(worst[form], (times, size))
    if quick or target_named("native").bfloat16_unit is None:
        return
    for form, (times, size) in worst.items():
        claim = f"times float32's rate, bfloat16 {form}, worst at {size}"
        report.bars.append(Bar(claim, times, MIN_TIMES_FLOAT32, at_least=True))


def _add_row(report: Report, case: Case, rounds: int) -> float:
    """Add the row of a case, and return how many times the rate of float32 it reaches."""
    peak, peak_flops = peak_call(dtypes.float32, target_named("native"))
    calls: dict[str, Contestant] = {"peak": peak}
    calls |= {d.name: _call(d, case) for d in (dtypes.bfloat16, dtypes.float32)}
    calls |= _torch(case)
    times = interleave(calls, rounds=rounds, seconds=0.003, clock=time.thread_time)
    ours, flops = times["bfloat16"], 2.0 * case.size**3
    other = times.get("torch")
    share = 100 * flops / peak_flops * times["peak"].ratio(ours)
    numbers = [flops / ours.median / 1e9, share]
    if other is not None:
        numbers += [flops / other.median / 1e9, other.ratio(ours)]
    cells = [round(number, 2) for number in numbers]
    report.rows.append(
        (str(dtypes.bfloat16), case.size, case.form, *cells, *[None] * (4 - len(cells)))
    )
    return times["float32"].ratio(ours)


def _call(dtype: DType, case: Case) -> Contestant:
    """Check a product of ours, and return what computes it."""
    a, b, out = case.operands(dtype)
    x, y = (sg.placeholder(a.shape, dtype) for _ in range(2))
    left, right = (x.T if case.form[0] == "T" else x), (y.T if case.form[1] == "T" else y)
    step = compile([x, y], left @ right)
    step(a, b, out=out)
    wide = a.astype(np.float32), b.astype(np.float32)
    lhs, rhs = (m.T if turned == "T" else m for m, turned in zip(wide, case.form, strict=True))
    exact = lhs @ rhs
    assert np.array_equal(out, exact.astype(dtype.numpy)), f"{dtype} {case}: the product is wrong"
    return partial(step, a, b, out=out)


def _torch(case: Case) -> dict[str, Contestant]:
    torch = optional("torch")
    if torch is None:
        return {}
    torch.set_num_threads(1)
    a, b, out = (torch.from_numpy(m).bfloat16() for m in case.operands(dtypes.float32))
    left, right = (a.T if case.form[0] == "T" else a), (b.T if case.form[1] == "T" else b)
    return {"torch": partial(torch.matmul, left, right, out=out)}
