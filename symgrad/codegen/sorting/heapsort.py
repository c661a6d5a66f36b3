"""Heapsort (Williams; Knuth, The Art of Computer Programming, volume 3, section 5.2.3).

It is for parts of a row whose pivots were bad again and again: it takes n log n steps whatever the
keys are.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import POINTER, counted_loop, index
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.sorting.elements import I64, Items


def heapsort_function(items: Items) -> ir.LLVMFunction:
    """Return the function that sorts an array of keys of some length."""
    plan, module = items.plan, items.builder.module
    name = f"sg.heapsort.{items.name}"
    function: ir.LLVMFunction | None = module.globals.get(name)
    if function is not None:
        return function
    sift = _sift_function(items)
    function = kernel_function(module, ir.FunctionType(ir.VoidType(), [POINTER, I64]), name)
    keys, count = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    inside = Items(builder, plan)
    half = builder.lshr(count, index(1))
    with counted_loop(builder, index(0), half) as at:
        root = builder.sub(builder.sub(half, index(1)), at)
        builder.call(sift, [keys, root, count])
    with counted_loop(builder, index(1), count) as at:
        last = builder.sub(count, at)
        first_key = inside.load((keys,), index(0), single=True)
        last_key = inside.load((keys,), last, single=True)
        inside.store(last_key, (keys,), index(0))
        inside.store(first_key, (keys,), last)
        builder.call(sift, [keys, index(0), last])
    builder.ret_void()
    return function


def _sift_function(items: Items) -> ir.LLVMFunction:
    """Return the function that moves the key at a root down, past greater ones below it."""
    plan, module = items.plan, items.builder.module
    kind = ir.FunctionType(ir.VoidType(), [POINTER, I64, I64])
    function = kernel_function(module, kind, f"sg.sift.{items.name}")
    keys, first, count = function.args
    entry = function.append_basic_block("entry")
    builder = ir.IRBuilder(entry)
    inside = Items(builder, plan)
    moved = inside.load((keys,), first, single=True)
    names = ("ask", "choose", "down", "settle")
    ask, choose, down, settle = (builder.append_basic_block(name) for name in names)
    builder.branch(ask)
    builder.position_at_end(ask)
    root = builder.phi(I64)
    root.add_incoming(first, entry)
    left = builder.add(builder.shl(root, index(1)), index(1))
    builder.cbranch(builder.icmp_signed("<", left, count), choose, settle)
    builder.position_at_end(choose)
    right = builder.add(left, index(1))
    # Where there is no right child, the left one is read in its place.
    other = builder.select(builder.icmp_signed("<", right, count), right, left)
    pair = [inside.load((keys,), at, single=True) for at in (left, other)]
    is_other = inside.is_before(*pair)
    child = builder.select(is_other, other, left)
    (greater,) = inside.choose(is_other, pair[1], pair[0])
    builder.cbranch(inside.is_before(moved, (greater,)), down, settle)
    builder.position_at_end(down)
    inside.store((greater,), (keys,), root)
    root.add_incoming(child, down)
    builder.branch(ask)
    builder.position_at_end(settle)
    inside.store(moved, (keys,), root)
    builder.ret_void()
    return function
