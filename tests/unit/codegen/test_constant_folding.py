"""Constant folding gives what LLVM gives where it is not told what the operands are."""

from __future__ import annotations

import ctypes
import itertools

import pytest

from symgrad.codegen import ir
from symgrad.codegen.ir.constant_folding import folded_binary, folded_comparison
from symgrad.codegen.native.jit import emit_object, load_object, optimize
from symgrad.codegen.target import target_named

_NATIVE = target_named("native")
_I64, _POINTER = ir.IntType(64), ir.PointerType()
_NAMES = ["add", "sub", "mul", "udiv", "urem", "sdiv", "shl", "lshr", "ashr", "and_", "or_", "xor"]
_RELATIONS = ["==", "!=", "<", "<=", ">", ">="]


def _numbers(width: int) -> list[int]:
    least = -(1 << (width - 1))
    return sorted({0, -1, least, -1 - least, *((1, 2, 7, -3) if width > 1 else ())})


def _is_defined(name: str, width: int, right: int) -> bool:
    if name in ("udiv", "urem", "sdiv"):
        return right != 0 and (name != "sdiv" or right != -1)
    return name not in ("shl", "lshr", "ashr") or 0 <= right < width


class _Program:
    """Numbers that LLVM computes of others, which it finds in memory."""

    def __init__(self) -> None:
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, _POINTER])
        self.function = ir.LLVMFunction(ir.Module(), kind, "f")
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self._given: list[int] = []
        self._count = 0

    def unknown(self, number: int, kind: ir.IntType) -> ir.Value:
        place = self._place(0, len(self._given))
        self._given.append(number)
        return self.builder.trunc(self.builder.load(place, typ=_I64, align=8), kind)

    def store(self, value: ir.Value) -> None:
        self.builder.store(self.builder.sext(value, _I64), self._place(1, self._count), align=8)
        self._count += 1

    def _place(self, table: int, number: int) -> ir.Value:
        return self.builder.gep(self.function.args[table], [_I64(number)], source_etype=_I64)

    def run(self) -> list[int]:
        self.builder.ret_void()
        image = emit_object(optimize(str(self.function.module), _NATIVE, 1), _NATIVE, 1)
        code = load_object(image, ["f"])
        given = (ctypes.c_int64 * len(self._given))(*self._given)
        found = (ctypes.c_int64 * self._count)()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address("f"))(given, found)
        return list(found)


def _number(value: ir.Value | None) -> int:
    assert isinstance(value, ir.Constant), value
    return {"true": -1, "false": 0}[value.ref] if value.type.width == 1 else int(value.ref)


@pytest.mark.parametrize("width", [1, 8, 32, 64])
@pytest.mark.parametrize("name", _NAMES)
def test_what_is_known_is_what_llvm_computes(name, width):
    kind, numbers = ir.IntType(width), _numbers(width)
    program, folded, seen = _Program(), [], 0
    emit = getattr(program.builder, name)
    for left, right in itertools.product(numbers, numbers):
        if not _is_defined(name, width, right):
            continue
        a, b = kind(left), kind(right)
        of_both = folded_binary(name.rstrip("_"), a, b)
        if of_both is not None:
            program.store(emit(*(program.unknown(n, kind) for n in (left, right))))
            folded.append(_number(of_both))
        for is_left in (False, True):
            # One operand is known, and what the instruction gives may be the other one.
            other = program.unknown(left if is_left else right, kind)
            both = (other, b) if is_left else (a, other)
            known = folded_binary(name.rstrip("_"), *both)
            if known is not None:
                seen += 1
                program.store(known)
                folded.append(_number(known) if known is not other else left if is_left else right)
                program.store(emit(*(program.unknown(n, kind) for n in (left, right))))
                folded.append(folded[-1])
    assert program.run() == folded
    if width > 1:
        assert seen, "no operand of this instruction is ever its result"


@pytest.mark.parametrize("width", [1, 8, 64])
def test_comparisons_of_constants_are_what_llvm_computes(width):
    kind, numbers = ir.IntType(width), _numbers(width)
    program, folded = _Program(), []
    ways = {True: program.builder.icmp_signed, False: program.builder.icmp_unsigned}
    for left, right in itertools.product(numbers, numbers):
        for relation, is_signed in itertools.product(_RELATIONS, ways):
            known = folded_comparison(relation, kind(left), kind(right), is_signed=is_signed)
            folded.append(_number(known))
            values = (program.unknown(n, kind) for n in (left, right))
            program.store(ways[is_signed](relation, *values))
    assert program.run() == folded


def test_a_constant_may_be_written_with_or_without_a_sign():
    for text in (2**64 - 1, -1):
        assert _number(folded_binary("add", _I64(text), _I64(2))) == 1
    assert _number(folded_binary("udiv", _I64(-1), _I64(2))) == 2**63 - 1


def test_what_is_not_known_is_an_instruction():
    program = _Program()
    builder = program.builder
    x, lanes = program.unknown(5, _I64), ir.Constant(ir.VectorType(_I64, 2), [0, 0])
    for value in (
        builder.add(x, _I64(1)),
        builder.sub(_I64(0), x),
        builder.udiv(_I64(1), _I64(0)),
        builder.add(lanes, lanes),
        builder.icmp_signed("<", x, _I64(0)),
        builder.gep(program.function.args[0], [lanes], source_etype=_I64),
    ):
        assert not isinstance(value, ir.Constant)
        assert any(str(i).startswith(f"  {value.ref} = ") for i in builder.block.instructions)


def test_a_choice_that_is_known_and_an_element_at_no_distance_are_what_they_are_made_of():
    program = _Program()
    builder, (pointer, _) = program.builder, program.function.args
    x, y = program.unknown(1, _I64), program.unknown(2, _I64)
    before = len(builder.block.instructions)
    assert builder.select(ir.IntType(1)(1), x, y) is x
    assert builder.select(ir.IntType(1)(0), x, y) is y
    assert builder.gep(pointer, [_I64(0)], source_etype=_I64) is pointer
    assert len(builder.block.instructions) == before
