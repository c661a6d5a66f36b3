"""CPU dispatch by CPUID: which implementation of a library the machine it runs on can run.

The levels are those of the x86-64 psABI (System V Application Binary Interface, AMD64 supplement,
section 3.1.1, "Processor architecture"). Each demands the one before it, and from level 3 on that
the operating system saves the wide registers, which XCR0 says.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.c_interface.abi import Interface
from symgrad.codegen.c_interface.code import I32, define, return_unless

_CPUID = ir.LiteralStructType([I32, I32, I32, I32])
_EAX, _EBX, _ECX, _EDX = range(4)

# level -> bits that must be set: (leaf, register, mask)
_BITS = {
    2: (
        (1, _ECX, 1 << 0 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23),  # SSE3 ... POPCNT
        (0x80000001, _ECX, 1 << 0),  # LAHF
    ),
    3: (
        (1, _ECX, 1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29),  # FMA MOVBE OSXSAVE AVX F16C
        (7, _EBX, 1 << 3 | 1 << 5 | 1 << 8),  # BMI1 AVX2 BMI2
        (0x80000001, _ECX, 1 << 5),  # LZCNT
    ),
    4: ((7, _EBX, 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31),),  # AVX-512 F DQ CD BW VL
}
_SAVED = {3: 0b110, 4: 0b11100110}  # in XCR0: what the operating system must save


def emit_choose(module: ir.Module, interface: Interface) -> ir.LLVMFunction:
    """Emit what returns the number of the best implementation for this machine, -1 for none."""
    function, builder = define(module, f"{interface.name}.choose", I32, [], is_public=False)
    if interface.levels[0] == 0:
        builder.ret(I32(0))
        return function
    level = builder.call(_emit_level(module, interface), [])
    for number, needed in reversed(list(enumerate(interface.levels))):
        lacks = builder.icmp_signed("<", level, I32(needed))
        return_unless(builder, lacks, I32(number))
    builder.ret(I32(-1))
    return function


def _emit_level(module: ir.Module, interface: Interface) -> ir.LLVMFunction:
    """Emit what returns the level of this machine, 1 to 4."""
    function, builder = define(module, f"{interface.name}.level", I32, [], is_public=False)
    highest = _cpuid(builder, 0)[_EAX]
    return_unless(builder, builder.icmp_unsigned(">=", highest, I32(7)), I32(1))
    highest = _cpuid(builder, 0x80000000)[_EAX]
    return_unless(builder, builder.icmp_unsigned(">=", highest, I32(0x80000001)), I32(1))
    for level, bits in _BITS.items():
        for leaf, register, mask in bits:
            _require(builder, _cpuid(builder, leaf)[register], mask, level - 1)
        if level in _SAVED:
            # XGETBV is legal now: OSXSAVE has been asked for.
            _require(builder, _xcr0(builder), _SAVED[level], level - 1)
    builder.ret(I32(max(_BITS)))
    return function


def _require(builder: ir.IRBuilder, found: ir.Value, mask: int, otherwise: int) -> None:
    kept = builder.and_(found, I32(mask))
    return_unless(builder, builder.icmp_unsigned("==", kept, I32(mask)), I32(otherwise))


def _cpuid(builder: ir.IRBuilder, leaf: int) -> list[ir.Value]:
    kind = ir.FunctionType(_CPUID, [I32, I32])
    constraints = "={ax},={bx},={cx},={dx},{ax},{cx}"
    found = builder.asm(kind, "cpuid", constraints, [I32(leaf), I32(0)], side_effect=True)
    return [builder.extract_value(found, i) for i in range(4)]


def _xcr0(builder: ir.IRBuilder) -> ir.Value:
    kind = ir.FunctionType(ir.LiteralStructType([I32, I32]), [I32])
    found = builder.asm(kind, "xgetbv", "={ax},={dx},{cx}", [I32(0)], side_effect=True)
    return builder.extract_value(found, 0)
