"""Scaling by a power of two that is a float: an instruction where the target has it.

AVX-512's takes any power, rounds once, and does not compute lanes that a mask leaves out. Elsewhere
the power is multiplied in two steps (`Floats.scale`), which gives the same bits, one of them by a
constant where no result is large (`Floats.scale_down`).
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import declare
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.values import LaneMask, Real, Word
from symgrad.codegen.vectors import joined, part_of

_PRESENT_ROUNDING = 4  # that of the control register


def scale_or_zero(
    f: Floats, x: Real, n: tuple[Real, Word], vanishes: LaneMask, *, is_small: bool = False
) -> Real:
    """Return x * 2**n, 0 where it vanishes, for x about 1 and n as a float and as a word.

    It `is_small` if no n is half as large as the greatest exponent.
    """
    power, word = n
    if not is_scaled_at_once(f):
        scaled = f.scale_down(x, word) if is_small else f.scale(x, word)
        return vanishes.choose(f.const(0.0), scaled)
    builder, kept = f.builder, (~vanishes).value
    lanes = min(f.width, f.target.lanes(f.dtype.itemsize))
    parts = [
        _scaled(f, *(part_of(builder, v, at, lanes) for v in (x.value, power.value, kept)))
        for at in range(0, f.width, lanes)
    ]
    return f.real(joined(builder, parts, lanes))


def is_scaled_at_once(f: Floats) -> bool:
    """Return whether vectors of so many lanes are scaled by an instruction."""
    return f.target.scales_floats and f.width * f.dtype.bits >= 128


def _scaled(f: Floats, x: ir.Value, power: ir.Value, kept: ir.Value) -> ir.Value:
    """Scale a vector that fills a register, and put 0 where it is not kept."""
    builder, kind = f.builder, x.type
    bits = kind.count * f.dtype.bits
    mask = builder.bitcast(kept, ir.IntType(kind.count))
    if kind.count < 8:
        mask = builder.zext(mask, ir.IntType(8))
    args = [x, power, ir.Constant(kind, None), mask]
    if bits == 512:
        args.append(ir.IntType(32)(_PRESENT_ROUNDING))
    name = f"llvm.x86.avx512.mask.scalef.{'ps' if f.is_single else 'pd'}.{bits}"
    return builder.call(declare(builder.module, name, kind, [arg.type for arg in args]), args)
