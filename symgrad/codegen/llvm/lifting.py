"""Lambda lifting: sizes and numbers of a kernel become parameters, so one code serves several.

    define void @"k2"(ptr %.0, ptr %.1)        define void @"k2"(ptr %.0, ptr %.1, i64 %.2, ...)
      ... icmp slt i64 %.8, 304          ->      ... icmp slt i64 %.8, %.2
      ... fdiv float %.7, 310.0                  ... fdiv float %.7, %.9

Lifted is what is the same throughout a call and what no instruction is better for knowing: where a
fold of the body ends, numbers outside of all loops, the sizes of a small product, and the numbers
of its epilogue. So a step that is compiled for many sizes of a batch has most of its code once.
"""

from __future__ import annotations

import math

from symgrad.codegen import ir
from symgrad.cost_model import MAX_LIFTED

_I64 = ir.IntType(64)


class Lifting:
    """The parameters that a function of a kernel is given for what calls pass."""

    def __init__(self, function: ir.LLVMFunction) -> None:
        self._function = function
        self._known: dict[tuple[str, str], ir.Value] = {}

    def lift(self, value: ir.Value) -> ir.Value:
        """Return a new parameter for a value, or the value where there are too many."""
        is_room = len(self._function.lifted) < MAX_LIFTED
        return self._function.lift(value) if is_room else value

    def bound(self, size: int) -> ir.Value:
        """Return the parameter for a size that loops begin or end with, the number itself for 0."""
        return self._once("bound", _I64(size)) if size else _I64(size)

    def number(self, value: ir.Value) -> ir.Value:
        """Return the parameter for a number of the kernel."""
        return self._once("number", value)

    def _once(self, role: str, value: ir.Value) -> ir.Value:
        key = role, str(value)
        if key not in self._known:
            self._known[key] = self.lift(value)
        return self._known[key]


def is_lifted(value: float) -> bool:
    """Return whether a number may come from a size: no power of two, which LLVM has uses for."""
    return math.isfinite(value) and abs(math.frexp(value)[0]) not in (0.0, 0.5)
