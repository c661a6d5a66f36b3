"""Batches of small matrix products, as share of the multiply-add peak, on one core.

A batch has as many products as its operands and results take a megabyte, which a second-level cache
holds: beyond, memory is measured. The call from Python counts. NumPy's `matmul` does the same, with
a call of BLAS for each product.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

import symgrad as sg
from benchmarks.peak import peak_call
from benchmarks.report import Bar, Report
from benchmarks.timing import Contestant, interleave
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.dtypes import DType
from symgrad.runtime.function import compile

Form = Literal["NN", "TN", "NT", "TT"]

FORMS: tuple[Form, ...] = ("NN", "TN", "NT", "TT")
DTYPES = (dtypes.float32, dtypes.float64)
SIZES = (16, 24, 32, 48, 64)
BATCH_BYTES = 1 << 20
MIN_SHARE = 0.80


@dataclass(frozen=True, slots=True)
class Batch:
    """So many products of square matrices, either of them transposed."""

    dtype: DType
    size: int
    form: Form

    @property
    def count(self) -> int:
        return BATCH_BYTES // (3 * self.size**2 * self.dtype.itemsize)


def add_products(report: Report, quick: bool) -> None:
    """Add a row for each dtype, size and form to a report of products, and a bar for each."""
    for dtype, form, size in itertools.product(DTYPES, FORMS, (16,) if quick else SIZES):
        share = _add_row(report, Batch(dtype, size, form), rounds=3 if quick else 15)
        claim = f"share of peak, {dtype} {form}, batch of {size}"
        if not quick:
            report.bars.append(Bar(claim, share, MIN_SHARE, at_least=True))


def _add_row(report: Report, batch: Batch, rounds: int) -> float:
    """Add the row of a batch, and return which share of the peak it reaches."""
    peak, peak_flops = peak_call(batch.dtype, target_named("native"))
    calls = {"peak": peak, **_calls(batch)}
    times = interleave(calls, rounds=rounds, seconds=0.003, clock=time.thread_time)
    ours, flops = times["symgrad"], 2.0 * batch.count * batch.size**3
    share = flops / peak_flops * times["peak"].ratio(ours)
    blas = times["BLAS"]
    numbers = (flops / ours.median / 1e9, 100 * share, flops / blas.median / 1e9, blas.ratio(ours))
    size = f"{batch.count} x {batch.size}"
    report.rows.append((str(batch.dtype), size, batch.form, *(round(n, 2) for n in numbers)))
    return share


def _calls(batch: Batch) -> dict[str, Contestant]:
    """Check the products, and return what computes them."""
    shape, dtype = (batch.count, batch.size, batch.size), batch.dtype
    x, y = (sg.placeholder(shape, dtype) for _ in range(2))
    is_turned = batch.form[0] == "T", batch.form[1] == "T"
    step = compile([x, y], (x.mT if is_turned[0] else x) @ (y.mT if is_turned[1] else y))
    a, b, out, expected = (aligned_empty(shape, dtype.numpy) for _ in range(4))
    random = np.random.default_rng(0)
    # Small whole numbers: every order of the additions gives the same sum.
    a[...], b[...] = random.integers(-2, 3, shape), random.integers(-2, 3, shape)
    left, right = (a.mT if is_turned[0] else a), (b.mT if is_turned[1] else b)
    blas = partial(np.matmul, left, right, out=expected)
    blas()
    step(a, b, out=out)
    assert np.array_equal(out, expected), f"{batch}: a product is wrong"
    return {"symgrad": partial(step, a, b, out=out), "BLAS": blas}
