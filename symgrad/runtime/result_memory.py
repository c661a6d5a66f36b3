"""Allocator of results (NEP 49): memory in whole cache lines, of which what was freed last is kept.

NumPy's arrays begin 16 bytes after a line, so every other vector that a step stores lies in two.
And results of some hundred kilobytes are pages that C's allocator hands back to the system and has
to ask for again, page by page, at each call. An array with this allocator owns its elements like
any other: it is freed when the last one that has it is gone, by the functions that are here.
"""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from symgrad.codegen import ir
from symgrad.codegen.native.jit import LoadedCode
from symgrad.graph.aligned import ALIGNMENT
from symgrad.records import dataclass

# Bytes of a result that begins with a line: of smaller ones the call would be most of the cost, and
# for larger ones NumPy asks for huge pages.
LEAST, MOST = 1 << 14, 1 << 22
_LEAST_KEPT = 1 << 17  # bytes from which C's allocator hands memory back to the system
_KEPT = 4  # blocks, a power of two: no more than 16 MiB

SYMBOLS = ("result_malloc", "result_calloc", "result_realloc", "result_free")

_I8, _I32, _I64 = (ir.IntType(bits) for bits in (8, 32, 64))
_PTR = ir.PointerType()
_NULL = ir.Constant(_PTR, None)
_VOID = ir.VoidType()
_EXTERNALS = {
    "aligned_alloc": ir.FunctionType(_PTR, [_I64, _I64]),
    "free": ir.FunctionType(_VOID, [_PTR]),
    "memset": ir.FunctionType(_PTR, [_PTR, _I32, _I64]),
    "realloc": ir.FunctionType(_PTR, [_PTR, _I64]),
}


class _Handler(ctypes.Structure):
    """PyDataMem_Handler of NumPy's C API; `blocks` is handed to each of the functions."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("blocks", ctypes.c_void_p),
        *((symbol, ctypes.c_void_p) for symbol in SYMBOLS),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ResultMemory:
    """What a process has of it: the handler, the capsule that arrays refer to, the blocks kept.

    `blocks` is which of them the next one that is kept takes the place of, then the address and the
    bytes of each, or zeros.
    """

    handler: _Handler
    capsule: object
    blocks: np.ndarray[tuple[int], np.dtype[np.int64]]

    def runs(self, code: LoadedCode) -> None:
        """Have `code` do what the handler is for, as long as the process lives.

        The last arrays are freed when modules and their objects are gone already.
        """
        for symbol in SYMBOLS:
            setattr(self.handler, symbol, code.address(symbol))
        for kept in (self, code):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))
_CAPSULE = b"mem_handler"  # what NumPy calls it; a capsule points to its name


@cache
def result_memory() -> ResultMemory:
    """Return the one of this process."""
    blocks = np.zeros(1 + 2 * _KEPT, np.int64)
    handler = _Handler(b"symgrad", 1, blocks.ctypes.data)
    return ResultMemory(handler, _new_capsule(ctypes.addressof(handler), _CAPSULE, None), blocks)


Externals = dict[str, ir.LLVMFunction]


def emit_result_memory(module: ir.Module) -> tuple[ir.LLVMFunction, ir.LLVMFunction]:
    """Emit the functions of `SYMBOLS`; returns `result_malloc` and `result_free`.

    They are `result_malloc(blocks, nbytes)` and `result_free(blocks, memory, nbytes)`.
    """
    externals = {name: ir.LLVMFunction(module, kind, name) for name, kind in _EXTERNALS.items()}
    allocate = _emit_malloc(module, externals)
    _emit_calloc(module, externals, allocate)
    _emit_realloc(module, externals)
    return allocate, _emit_free(module, externals)


def _emit_malloc(module: ir.Module, externals: Externals) -> ir.LLVMFunction:
    # What was freed last is looked at first, since more of it is in a cache.
    function, builder = _begin(module, "result_malloc", _PTR, [_PTR, _I64])
    blocks, nbytes = function.args
    lines = _whole_lines(builder, nbytes)
    following = builder.load(blocks, typ=_I64)
    for age in range(1, _KEPT + 1):
        index = builder.and_(builder.sub(following, _I64(age)), _I64(_KEPT - 1))
        place = _block(builder, blocks, index)
        size = builder.load(_word(builder, place, 1), typ=_I64)
        with builder.if_then(builder.icmp_unsigned("==", size, lines)):
            found = builder.load(place, typ=_PTR)
            builder.store(_NULL, place)
            builder.store(_I64(0), _word(builder, place, 1))
            builder.store(index, blocks)
            builder.ret(found)
    builder.ret(builder.call(externals["aligned_alloc"], [_I64(ALIGNMENT), lines]))
    return function


def _emit_calloc(module: ir.Module, externals: Externals, allocate: ir.LLVMFunction) -> None:
    function, builder = _begin(module, "result_calloc", _PTR, [_PTR, _I64, _I64])
    blocks, count, size = function.args
    nbytes = builder.mul(count, size)
    found = builder.call(allocate, [blocks, nbytes])
    with builder.if_then(builder.icmp_unsigned("!=", found, _NULL)):
        builder.call(externals["memset"], [found, _I32(0), nbytes])
    builder.ret(found)


def _emit_realloc(module: ir.Module, externals: Externals) -> None:
    function, builder = _begin(module, "result_realloc", _PTR, [_PTR, _PTR, _I64])
    _, old, nbytes = function.args
    # As many lines as `result_malloc` takes, since it may hand this block out again.
    builder.ret(builder.call(externals["realloc"], [old, _whole_lines(builder, nbytes)]))


def _emit_free(module: ir.Module, externals: Externals) -> ir.LLVMFunction:
    function, builder = _begin(module, "result_free", _VOID, [_PTR, _PTR, _I64])
    blocks, memory, nbytes = function.args
    over = builder.sub(nbytes, _I64(_LEAST_KEPT))
    is_apart = builder.icmp_unsigned(">=", over, _I64(MOST - _LEAST_KEPT))
    with builder.if_then(is_apart):
        builder.call(externals["free"], [memory])
        builder.ret_void()
    index = builder.load(blocks, typ=_I64)
    place = _block(builder, blocks, index)
    given_up = builder.load(place, typ=_PTR)
    builder.store(memory, place)
    builder.store(_whole_lines(builder, nbytes), _word(builder, place, 1))
    following = builder.and_(builder.add(index, _I64(1)), _I64(_KEPT - 1))
    builder.store(following, blocks)
    builder.call(externals["free"], [given_up])
    builder.ret_void()
    return function


def _begin(
    module: ir.Module, name: str, result: ir.Type, takes: list[ir.Type]
) -> tuple[ir.LLVMFunction, ir.IRBuilder]:
    function = ir.LLVMFunction(module, ir.FunctionType(result, takes), name)
    # It is short, and compiling it at all costs more than optimizing it could gain.
    function.attributes |= {"nounwind", "noinline", "optnone"}
    return function, ir.IRBuilder(function.append_basic_block("entry"))


def _whole_lines(builder: ir.IRBuilder, nbytes: ir.Value) -> ir.Value:
    return builder.and_(builder.add(nbytes, _I64(ALIGNMENT - 1)), _I64(-ALIGNMENT))


def _block(builder: ir.IRBuilder, blocks: ir.Value, index: ir.Value) -> ir.Value:
    words = builder.add(builder.mul(index, _I64(2)), _I64(1))
    return builder.gep(blocks, [words], source_etype=_I64)


def _word(builder: ir.IRBuilder, place: ir.Value, index: int) -> ir.Value:
    return builder.gep(place, [_I64(index)], source_etype=_I64)
