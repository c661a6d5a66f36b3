"""The multiply-add peak of one core: a loop of FMAs on registers alone, as something to time.

No program can be faster, so a share of it says how much of the machine a product uses. It is
measured in the rounds of what it is compared with, at the clock the core has then.
"""

from __future__ import annotations

from functools import partial

from benchmarks.timing import Contestant
from symgrad.codegen.llvm.limits import flops_of
from symgrad.codegen.target import Target
from symgrad.graph.dtypes import DType
from symgrad.runtime.limits import limit_functions

TURNS = 100_000


def peak_call(dtype: DType, target: Target) -> tuple[Contestant, float]:
    """Return a call that does nothing but multiply-adds, and how many flops those are."""
    flops, _ = limit_functions(dtype, target)
    return partial(flops, 1, TURNS), float(flops_of(dtype, target, TURNS))
