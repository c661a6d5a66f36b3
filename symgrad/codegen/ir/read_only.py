"""Constants of a module: what an object has among its read-only data."""

from __future__ import annotations

from symgrad.codegen.ir.module import GlobalVariable, Module
from symgrad.codegen.ir.types import ArrayType, Constant, IntType, Literal


def read_only(
    module: Module, value: Constant, *, align: int = 8, public_name: str | None = None
) -> GlobalVariable:
    """Return where `value` lies among the constants of the object, under a name for C or none."""
    name = public_name or module.get_unique_name("constant")
    place = GlobalVariable(module, value.type, name)
    place.linkage = "" if public_name else "internal"
    place.global_constant = True
    place.initializer = value
    place.align = align
    return place


def read_only_bytes(
    module: Module, content: bytes, *, align: int = 1, public_name: str | None = None
) -> GlobalVariable:
    """Return where `content` lies among the constants of the object, under a name of its own."""
    # Written here, since llvmlite writes byte by byte, and weights are many.
    escaped = f"\\{content.hex(chr(92))}" if content else ""
    value = Literal(ArrayType(IntType(8), len(content)), f'c"{escaped}"')
    return read_only(module, value, align=align, public_name=public_name)
