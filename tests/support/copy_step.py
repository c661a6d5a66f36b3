"""A compiled step for tests of the runtime: it copies its inputs, or fails as it is told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn

import numpy as np

from symgrad.codegen import ir
from symgrad.codegen.native.jit import LoadedCode, emit_object, load_object, optimize
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.runtime.entry import ArraySpec, NativeEntry, build_entry

NATIVE = target_named("native")
F64 = ArraySpec("x", (4,), dtypes.float64)

Array = np.ndarray[Any, Any]


@cache
def copy_step() -> LoadedCode:
    """Compile a step that returns `state[0]`, or copies `state[2 + i]` bytes of input i.

    `state[1]` is the number of inputs, and of outputs.
    """
    i32, i64, pointer = ir.IntType(32), ir.IntType(64), ir.PointerType()
    module = ir.Module("copy")
    step = ir.LLVMFunction(module, ir.FunctionType(i32, [pointer] * 3), "step")
    inputs, outputs, state = step.args
    takes = [pointer, pointer, i64, ir.IntType(1)]
    memcpy = ir.LLVMFunction(module, ir.FunctionType(ir.VoidType(), takes), "llvm.memcpy.p0.p0.i64")
    entry, head, body, done = (step.append_basic_block() for _ in range(4))
    builder = ir.IRBuilder(entry)
    status, count = (
        builder.load(builder.gep(state, [i64(place)], source_etype=i64), typ=i64)
        for place in (0, 1)
    )
    builder.cbranch(builder.icmp_signed("!=", status, i64(0)), done, head)
    builder.position_at_end(head)
    index = builder.phi(i64)
    index.add_incoming(i64(0), entry)
    builder.cbranch(builder.icmp_signed("<", index, count), body, done)
    builder.position_at_end(body)
    source, sink = (
        builder.load(builder.gep(table, [index], source_etype=pointer), typ=pointer)
        for table in (inputs, outputs)
    )
    size = builder.gep(state, [builder.add(index, i64(2))], source_etype=i64)
    builder.call(memcpy, [sink, source, builder.load(size, typ=i64), ir.IntType(1)(0)])
    index.add_incoming(builder.add(index, i64(1)), body)
    builder.branch(head)
    builder.position_at_end(done)
    builder.ret(builder.trunc(status, i32))
    return load_object(emit_object(optimize(str(module), NATIVE, 2), NATIVE, 2), ["step"])


class StepError(Exception):
    """What `fail` raises."""


def fail(status: int, _index: int, *args: object) -> NoReturn:
    raise StepError(status, args)


def echo(*args: object) -> tuple[str, tuple[object, ...]]:
    return "slow", args


def build_copy(
    specs: Sequence[ArraySpec],
    *,
    status: int = 0,
    single: bool = False,
    slow_path: Callable[..., Any] = echo,
    on_failure: Callable[..., NoReturn] = fail,
    outputs: Sequence[ArraySpec] | None = None,
    into_slow_path: Callable[..., Any] | None = None,
    as_list: bool = False,
) -> NativeEntry:
    """Build the entry of a step that copies its inputs, or fails with `status`."""
    code = copy_step()
    state = np.array([status, len(specs), *(spec.nbytes for spec in specs)], np.int64)
    return build_entry(
        name="copy",
        step_address=code.address("step"),
        state_address=state.ctypes.data,
        inputs=specs,
        outputs=specs if outputs is None else outputs,
        single=single,
        slow_path=slow_path,
        on_failure=on_failure,
        into_slow_path=into_slow_path,
        as_list=as_list,
        owner=(code, state),
    )


def values(spec: ArraySpec) -> Array:
    generator = np.random.default_rng(7)
    raw = generator.integers(0, 2, spec.shape)
    return np.array(raw).astype(spec.dtype.numpy)
