"""The multiply-add peak of one core: a loop of FMAs on registers alone, as something to time.

No program can be faster, so a share of it says how much of the machine a product uses. It is
measured in the rounds of what it is compared with, at the clock the core has then.
"""

from __future__ import annotations

from functools import partial

from benchmarks.contract_kernels import CHAINS, TURNS, aligned, emit_peak, load
from benchmarks.timing import Call
from symgrad.codegen.llvm.target import Target
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType


def peak_call(dtype: DType, target: Target) -> tuple[Call, float]:
    """Return a call that does nothing but multiply-adds, and how many flops those are."""
    code = load(emit_peak(dtype, target), target)
    memory = aligned((8,), dtypes.float64)
    flops = 2 * CHAINS * target.lanes(dtype.itemsize) * TURNS
    call = partial(code.repeat, memory.ctypes.data, 0, 0, 0, TURNS)
    return _keeping(call, memory, code), float(flops)


def _keeping(call: Call, *owners: object) -> Call:
    """Return `call` as a function that keeps alive what its addresses point to."""

    def kept(_owners: tuple[object, ...] = owners) -> object:
        return call()

    return kept
