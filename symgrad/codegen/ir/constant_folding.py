"""Constant folding: integer arithmetic that needs no instruction, since its result is known.

Addresses are sums of products, and most of their terms are constants, ones and zeros. What is not
written takes no time in LLVM, neither where it would be folded nor where nothing is optimized.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from symgrad.codegen.ir.types import Constant, IntType, LLVMValue

Relation = Callable[[int, int], bool]

_EXACT: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
}
# Of numbers without a sign, which a division by zero does not give.
_DIVISIONS: dict[str, Callable[[int, int], int]] = {
    "udiv": operator.floordiv,
    "urem": operator.mod,
}
_RELATIONS: dict[str, Relation] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# By instructions, the second operand that leaves the first as it is, and that which makes it zero.
_UNCHANGED = {
    "add": 0,
    "sub": 0,
    "mul": 1,
    "udiv": 1,
    "sdiv": 1,
    "shl": 0,
    "lshr": 0,
    "ashr": 0,
    "or": 0,
    "xor": 0,
    "and": -1,
}
_ALWAYS_ZERO = {"mul": 0, "urem": 1, "and": 0}
_COMMUTATIVE = {"add", "mul", "and", "or", "xor"}


def folded_binary(name: str, a: LLVMValue, b: LLVMValue) -> LLVMValue | None:
    """Return what an instruction gives if that is an operand or a constant, or None."""
    kind = a.type
    left, right = _number(a), _number(b)
    if left is not None and right is not None:
        return _of_numbers(name, kind, left, right)
    if left is not None and name in _COMMUTATIVE:
        a, right = b, left
    if right is None:
        return None
    # Compared, not looked up: symbolic sizes have no hash.
    if right == _UNCHANGED.get(name):
        return a
    return Constant(kind, 0) if right == _ALWAYS_ZERO.get(name) else None


def folded_comparison(
    relation: str, a: LLVMValue, b: LLVMValue, *, is_signed: bool
) -> LLVMValue | None:
    """Return what a comparison of two constants gives, None for anything else."""
    left, right = _number(a), _number(b)
    if left is None or right is None:
        return None
    if not is_signed:
        left, right = _unsigned(a.type, left), _unsigned(a.type, right)
    return Constant(IntType(1), _RELATIONS[relation](left, right))


def folded_choice(condition: LLVMValue) -> bool | None:
    """Return which of two values a `select` takes if its condition is known, or None."""
    number = _number(condition)
    return None if number is None else number != 0


def is_zero(value: LLVMValue) -> bool:
    """Return whether a value is the constant integer zero."""
    return _number(value) == 0


def _number(value: LLVMValue) -> int | None:
    """Return a constant integer, with its sign; None for lanes and for what is not known."""
    kind = value.type
    if not isinstance(value, Constant) or not isinstance(kind, IntType):
        return None
    if value.ref == "undef":
        return None
    if kind.width == 1:
        return -1 if value.ref in ("true", "1", "-1") else 0
    return _signed(kind, int(value.ref) if value.number is None else value.number)


def _unsigned(kind: IntType, number: int) -> int:
    most = (1 << kind.width) - 1
    return number if 0 <= number <= most else number & most


def _signed(kind: IntType, number: int) -> int:
    half = 1 << (kind.width - 1)
    if -half <= number < half:
        return number
    return ((number + half) & (2 * half - 1)) - half


def _of_numbers(name: str, kind: IntType, left: int, right: int) -> LLVMValue | None:
    if name in _EXACT:
        # Where it is out of range it wraps; what promised that it never is may be anything.
        return Constant(kind, _signed(kind, _EXACT[name](left, right)))
    if name in _DIVISIONS and right != 0:
        quotient = _DIVISIONS[name](_unsigned(kind, left), _unsigned(kind, right))
        return Constant(kind, _signed(kind, quotient))
    if right == _UNCHANGED.get(name):
        return Constant(kind, left)
    return Constant(kind, 0) if right == _ALWAYS_ZERO.get(name) else None
