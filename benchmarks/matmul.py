"""Matrix products through `compile`: GFLOP/s and the share of the multiply-add peak, on one core.

Each size is multiplied in the four forms: `TN` is `x.T @ y`, where the transposition is a node of
the graph that the product swallows. Results are written to a given array, so that no allocation
counts. NumPy's BLAS, restricted to one thread, does the same in the same rounds; of bfloat16, which
it does not know, PyTorch where it is installed. Batches of small products are in
`matmul_batches`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

import symgrad as sg
from benchmarks import matmul_batches, matmul_bfloat16
from benchmarks.peak import peak_call
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, interleave, pin_to_one_core
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.dtypes import DType
from symgrad.runtime.function import compile

Form = Literal["NN", "TN", "NT", "TT"]

SIZES = (64, 128, 256, 512, 1024, 2048)
FORMS: tuple[Form, ...] = ("NN", "TN", "NT", "TT")
DTYPES = (dtypes.float32, dtypes.float64)
JUDGED = (256, 512, 1024, 2048)  # below, the call from Python counts too
MIN_SHARE = {"NN": 0.92, "NT": 0.92, "TN": 0.88, "TT": 0.88}
ROUNDS = 25
LARGE = 2048  # products so large take as long as some rounds of the others
ROUNDS_OF_LARGE = 9


@dataclass(frozen=True, slots=True)
class Product:
    """One product and what it reached."""

    dtype: DType
    size: int
    form: Form
    gflops: float
    share: float  # of the peak, round by round
    blas: float
    times_blas: float


def measure(quick: bool = False) -> Report:
    """Return a row for each dtype, size and form."""
    pin_to_one_core()
    products = [
        measure_product(dtype, size, form, rounds=3 if quick else _rounds(size))
        for dtype in DTYPES
        for size in ((48,) if quick else SIZES)
        for form in FORMS
    ]
    report = Report("matmul", ("dtype", "size", "form", "GFLOP/s", "% of peak", "BLAS", "vs BLAS"))
    for p in products:
        numbers = (p.gflops, 100 * p.share, p.blas, p.times_blas)
        report.rows.append((str(p.dtype), p.size, p.form, *(round(n, 2) for n in numbers)))
    if not quick:
        for dtype in DTYPES:
            report.bars += [_bar(dtype, form, size, products) for form in FORMS for size in JUDGED]
    matmul_batches.add_products(report, quick)
    matmul_bfloat16.add_products(report, quick)
    return report


def _rounds(size: int) -> int:
    return ROUNDS if size < LARGE else ROUNDS_OF_LARGE


def _bar(dtype: DType, form: Form, size: int, products: list[Product]) -> Bar:
    (product,) = [p for p in products if (p.dtype, p.form, p.size) == (dtype, form, size)]
    claim = f"share of peak, {dtype} {form} of {size}"
    return Bar(claim, product.share, MIN_SHARE[form], at_least=True)


def measure_product(dtype: DType, size: int, form: Form, *, rounds: int) -> Product:
    """Check one product, then time it beside the peak and NumPy."""
    flops = 2.0 * size**3
    peak, peak_flops = peak_call(dtype, target_named("native"))
    calls = {"peak": peak, **_product_calls(dtype, size, form)}
    # In time of this thread, where all of it happens: other programs have no part in it.
    times = interleave(calls, rounds=rounds, seconds=0.003, clock=time.thread_time)
    ours = times["symgrad"]
    return Product(
        dtype,
        size,
        form,
        gflops=flops / ours.median / 1e9,
        share=flops / peak_flops * times["peak"].ratio(ours),
        blas=flops / times["BLAS"].median / 1e9,
        times_blas=times["BLAS"].ratio(ours),
    )


def _product_calls(dtype: DType, size: int, form: Form) -> dict[str, Contestant]:
    shape = (size, size)
    x, y = (sg.placeholder(shape, dtype) for _ in range(2))
    step = compile([x, y], (x.T if form[0] == "T" else x) @ (y.T if form[1] == "T" else y))
    a, b, out, expected = (aligned_empty(shape, dtype.numpy) for _ in range(4))
    random = np.random.default_rng(0)
    # Small whole numbers: every order of the additions gives the same sum.
    a[...], b[...] = random.integers(-2, 3, shape), random.integers(-2, 3, shape)
    left, right = (a.T if form[0] == "T" else a), (b.T if form[1] == "T" else b)
    blas = partial(np.matmul, left, right, out=expected)
    blas()
    step(a, b, out=out)
    assert np.array_equal(out, expected), f"{dtype} {size} {form}: the product is wrong"
    return {"symgrad": partial(step, a, b, out=out), "BLAS": blas}


if __name__ == "__main__":
    run_as_program(__doc__, measure)
