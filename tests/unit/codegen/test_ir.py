"""The text of LLVM IR that the builder writes is what was meant: it is compiled and run."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import pytest

from symgrad.codegen import ir
from symgrad.codegen.native.jit import emit_object, load_object, optimize
from symgrad.codegen.target import target_named

_NATIVE = target_named("native")
_I1, _I8, _I32, _I64 = (ir.IntType(width) for width in (1, 8, 32, 64))
_F16, _F32, _F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
_BITS: dict[ir.Type, Any] = {_F16: np.float16, _F32: np.float32, _F64: np.float64}


def _started(kind: ir.FunctionType, name: str = "f") -> tuple[ir.LLVMFunction, ir.IRBuilder]:
    function = ir.LLVMFunction(ir.Module("test"), kind, name)
    return function, ir.IRBuilder(function.append_basic_block("entry"))


def _run(function: ir.LLVMFunction, *args: int, result: type = ctypes.c_int64) -> int:
    image = emit_object(optimize(str(function.module), _NATIVE, 1), _NATIVE, 1)
    code = load_object(image, [function.name])
    call = ctypes.CFUNCTYPE(result, *[ctypes.c_int64] * len(args))
    return int(call(code.address(function.name))(*args))


def _bytes_of(value: ir.Value, size: int) -> bytes:
    """Return what a function that stores `value` leaves in memory."""
    function, builder = _started(ir.FunctionType(_I64, [ir.PointerType()]))
    builder.store(value, function.args[0], align=1)
    builder.ret(_I64(0))
    memory = ctypes.create_string_buffer(size)
    _run(function, ctypes.addressof(memory))
    return memory.raw


@pytest.mark.parametrize("kind", [_F16, _F32, _F64], ids=str)
@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 0.1, -2.5, 6e-8, 65504.0, math.inf, -math.inf])
def test_a_float_constant_is_the_float_rounded(kind, value):
    expected = np.asarray(value, _BITS[kind])
    assert _bytes_of(kind(value), expected.nbytes) == expected.tobytes()
    lanes = ir.Constant(ir.VectorType(kind, 4), value)
    assert _bytes_of(lanes, 4 * expected.nbytes) == expected.tobytes() * 4


def test_a_nan_is_a_nan():
    for kind, dtype in _BITS.items():
        (found,) = np.frombuffer(_bytes_of(kind(math.nan), dtype().nbytes), dtype)
        assert np.isnan(found)


@pytest.mark.parametrize("value", [0, 1, -1, 127, -128])
def test_an_integer_constant_is_its_twos_complement(value):
    assert _bytes_of(_I8(value), 1) == np.int8(value).tobytes()
    assert _bytes_of(_I64(value), 8) == np.int64(value).tobytes()
    assert _bytes_of(ir.Constant(ir.VectorType(_I8, 3), value), 3) == np.int8(value).tobytes() * 3
    assert _bytes_of(_I64(2**63), 8) == np.uint64(2**63).tobytes()


def test_aggregates_hold_values_and_constants():
    lanes = ir.Constant(ir.VectorType(_I32, 3), [1, _I32(-2), 3])
    assert _bytes_of(lanes, 12) == np.array([1, -2, 3], np.int32).tobytes()
    row = ir.VectorType(_I32, 2)
    rows = ir.Constant(ir.ArrayType(row, 2), [ir.Constant(row, [1, 2]), ir.Constant(row, 7)])
    assert _bytes_of(rows, 16) == np.array([1, 2, 7, 7], np.int32).tobytes()
    pair = ir.Constant(ir.LiteralStructType([_I32, _F32]), [5, 0.5])
    assert _bytes_of(pair, 8) == np.int32(5).tobytes() + np.float32(0.5).tobytes()
    assert _bytes_of(ir.Constant(pair.type, None), 8) == bytes(8)
    assert _bytes_of(ir.Literal(ir.ArrayType(_I8, 3), 'c"a\\00b"'), 3) == b"a\0b"


def test_none_is_zero_and_there_is_no_other_constant_of_a_type_without_values():
    assert _bytes_of(ir.Constant(ir.PointerType(), None), 8) == bytes(8)
    for kind in (ir.PointerType(), ir.VoidType()):
        with pytest.raises(TypeError, match=f"{kind} has no constant 3"):
            kind(3)


def test_types_are_equal_by_their_text():
    assert ir.VectorType(_F32, 4) == ir.VectorType(ir.FloatType(), 4)
    assert ir.VectorType(_F32, 4) != ir.ArrayType(_F32, 4)
    assert len({ir.IntType(32), ir.IntType(32), ir.IntType(64)}) == 2


@pytest.mark.parametrize(
    "name", ["plain", "with.dots", "two words", 'a "quoted" name', "größe", "7"]
)
def test_a_global_may_have_any_name(name):
    function, builder = _started(ir.FunctionType(_I64, []))
    place = ir.GlobalVariable(function.module, _I64, name)
    place.initializer, place.linkage = _I64(42), "internal"
    builder.ret(builder.load(place, typ=_I64))
    assert _run(function) == 42


def test_names_of_a_module_are_taken_once():
    module = ir.Module()
    ir.GlobalVariable(module, _I64, "x")
    assert module.get_unique_name("x") == "x.1"
    with pytest.raises(AssertionError, match="x is there already"):
        ir.GlobalVariable(module, _I64, "x")


def test_an_included_function_is_there_once_and_with_what_it_calls():
    made, builder = _started(ir.FunctionType(_I64, [_I64]), "g")
    smaller = ir.LLVMFunction(made.module, ir.FunctionType(_I64, [_I64, _I64]), "llvm.smin.i64")
    builder.ret(builder.call(smaller, [made.args[0], _I64(7)]))
    made.linkage = "internal"
    function, builder = _started(ir.FunctionType(_I64, [_I64]))
    ir.GlobalVariable(function.module, _I64, "g").initializer = _I64(1)
    included = function.module.include(made)
    assert function.module.include(made) is included
    assert [*function.module.included.values()] == [included]
    assert included.name == "g.1"
    builder.ret(builder.call(included, function.args))
    assert str(function.module).count("smin") == 2
    assert [_run(function, value) for value in (5, 9)] == [5, 7]
    assert 'define internal i64 @"g"(' in str(made.module)


def test_the_entry_block_takes_more_before_and_after_it_has_ended():
    function, builder = _started(ir.FunctionType(_I64, [_I64]))
    with builder.goto_entry_block():
        early = builder.alloca(_I64)
    behind = builder.append_basic_block("behind")
    builder.branch(behind)
    builder.position_at_end(behind)
    with builder.goto_entry_block():
        late = builder.alloca(_I64)
        builder.store(function.args[0], late, align=8)
    builder.store(builder.load(late, typ=_I64), early, align=8)
    builder.ret(builder.load(early, typ=_I64))
    assert _run(function, 7) == 7


def test_a_block_that_has_ended_takes_no_other_end():
    _, builder = _started(ir.FunctionType(_I64, []))
    builder.ret(_I64(0))
    with pytest.raises(AssertionError, match="entry has ended"):
        builder.ret(_I64(1))


@pytest.mark.parametrize("likely", [None, True, False])
def test_branches_are_taken_by_their_condition(likely):
    function, builder = _started(ir.FunctionType(_I64, [_I64]))
    (x,) = function.args
    place = builder.alloca(_I64)
    with builder.if_else(builder.icmp_signed("<", x, _I64(0)), likely) as (less, other):
        with less:
            builder.ret(_I64(-1))
        with other:
            builder.store(x, place)
    with builder.if_then(builder.icmp_signed(">", x, _I64(9)), likely):
        builder.store(_I64(9), place)
    builder.ret(builder.load(place, typ=_I64))
    assert [_run(function, n) for n in (-5, 0, 9, 10)] == [-1, 0, 9, 9]


def test_a_switch_goes_to_the_block_of_its_number():
    function, builder = _started(ir.FunctionType(_I64, [_I64]))
    default = builder.append_basic_block("default")
    switch = builder.switch(function.args[0], default)
    for number in (1, 2):
        block = builder.append_basic_block("case")
        switch.add_case(_I64(number), block)
        builder.position_at_end(block)
        builder.ret(_I64(10 * number))
    builder.position_at_end(default)
    builder.ret(_I64(-1))
    assert [_run(function, n) for n in (0, 1, 2, 3)] == [-1, 10, 20, -1]


def test_bits_are_turned_round_in_scalars_and_lanes():
    function, builder = _started(ir.FunctionType(_I64, [_I64]))
    (x,) = function.args
    lanes = builder.bitcast(builder.not_(x), ir.VectorType(_I32, 2))
    is_less = builder.icmp_unsigned("<", lanes, ir.Constant(lanes.type, 1))
    masks = builder.sext(builder.not_(builder.not_(is_less)), lanes.type)
    builder.ret(builder.bitcast(masks, _I64))
    assert _run(function, -1) == -1
    assert _run(function, (1 << 32) - 1) == (1 << 32) - 1


def test_an_integer_is_taken_from_zero():
    function, builder = _started(ir.FunctionType(_I64, [_I64]))
    lanes = builder.bitcast(builder.neg(function.args[0]), ir.VectorType(_I32, 2))
    builder.ret(builder.bitcast(builder.neg(lanes), _I64))
    assert _run(function, 5) == (1 << 32) + 5


def test_a_cast_to_the_same_type_is_no_instruction():
    function, builder = _started(ir.FunctionType(_I64, [_I64]))
    assert builder.trunc(function.args[0], ir.IntType(64)) is function.args[0]


def test_an_address_for_each_lane():
    function, builder = _started(ir.FunctionType(_I64, [ir.PointerType()]))
    indices = ir.Constant(ir.VectorType(_I64, 2), [1, 3])
    pointers = builder.gep(function.args[0], [indices], source_etype=_I64)
    assert pointers.type == ir.VectorType(ir.PointerType(), 2)
    second = builder.extract_element(pointers, _I32(1))
    builder.ret(builder.load(second, typ=_I64, align=8))
    memory = (ctypes.c_int64 * 4)(5, 6, 7, 8)
    assert _run(function, ctypes.addressof(memory)) == 8
