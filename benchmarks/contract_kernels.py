"""Time the emitted matrix products beside NumPy's BLAS and a measured multiply-add peak.

    OPENBLAS_NUM_THREADS=1 python benchmarks/contract_kernels.py --dtype f32 --target native

Kernels are called in a native loop, so that calls from Python do not count. Kernel and BLAS take
turns, and the best of many rounds is taken in time of this thread on a core, so that other programs
count little. Each shape is checked against NumPy before it is timed.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# One core against one core; the library reads this when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import llvmlite.binding as llvm
import numpy as np

from benchmarks.peak import peak_call
from benchmarks.timing import Contestant
from symgrad.codegen import ir
from symgrad.codegen.contract import (
    ContractPlan,
    Operand,
    TileElements,
    emit_contract,
    plan_contract,
)
from symgrad.codegen.contract.elements import INDEX, POINTER, counted_loop, index, scalar_type
from symgrad.codegen.contract.plans.scratch import scratch_bytes
from symgrad.codegen.target import Target, target_named
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType

SQUARES = tuple(
    (size, size, size, form)
    for size in (64, 128, 256, 512, 1024)
    for form in ("NN", "TN", "NT", "TT")
)
TRAINING = (
    (128, 512, 784, "NN"),
    (784, 512, 128, "TN"),
    (128, 784, 512, "NT"),
    (32, 64, 64, "NN"),
    (128, 10, 64, "NN"),
    (128, 10, 784, "NN"),
    (784, 10, 128, "TN"),
    (128, 784, 10, "NT"),
)
EXTREMES = (
    (4096, 32, 32, "NN"),
    (512, 512, 1, "NN"),
    (512, 512, 4, "NN"),
    (512, 512, 8, "NN"),
    (1, 512, 512, "NN"),
    (3, 512, 512, "NN"),
    (512, 1, 512, "NN"),
    (512, 3, 512, "NN"),
    (4, 512, 512, "NT"),
    (7, 300, 300, "TT"),
    (64, 64, 65536, "NN"),
    (64, 64, 65536, "TN"),
    (64, 64, 65536, "NT"),
    (1, 1, 10000, "NN"),
)


@dataclass(frozen=True)
class Code:
    """A loaded function `repeat(lhs, rhs, result, scratch, times)`, and the time to make it."""

    repeat: Callable[..., None]
    tracker: Any
    seconds: float


def load(module: ir.Module, target: Target) -> Code:
    """Optimise, compile and load the function `repeat` of `module`."""
    started = time.thread_time()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    machine = target.machine()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(parsed, passes)
    image = machine.emit_object(parsed)
    seconds = time.thread_time() - started
    builder = llvm.JITLibraryBuilder().add_object_img(image).export_symbol("repeat")
    tracker = builder.link(llvm.create_lljit_compiler(), "kernel")
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)
    return Code(kind(tracker["repeat"]), tracker, seconds)


def emit_repeated(plan: ContractPlan, target: Target) -> ir.Module:
    """Emit `repeat`, which computes the contraction with a contiguous result over and over."""
    module = ir.Module("kernel")
    pointers = [POINTER] * 4
    kernel = ir.LLVMFunction(module, ir.FunctionType(ir.VoidType(), pointers), "contract")
    kernel.attributes.add("noinline")
    for argument in kernel.args:
        argument.add_attribute("noalias")
    lhs, rhs, result, scratch = kernel.args
    element = scalar_type(plan.accumulate)

    def store(builder: ir.IRBuilder, found: TileElements) -> None:
        width, value = found.width, found.value
        place = builder.add(builder.mul(found.row, index(plan.n)), found.column)
        base = builder.gep(result, [place], source_etype=element)
        if plan.vector_axis == "n" or width == 1 or plan.n == 1:
            builder.store(value, base, align=plan.accumulate.itemsize)
            return
        for lane in range(width):
            item = builder.extract_element(value, ir.Constant(ir.IntType(32), lane))
            builder.store(item, builder.gep(base, [index(lane * plan.n)], source_etype=element))

    builder = ir.IRBuilder(kernel.append_basic_block("entry"))
    emit_contract(builder, plan, lhs, rhs, scratch, target, store)
    builder.ret_void()
    kind = ir.FunctionType(ir.VoidType(), [*pointers, INDEX])
    repeat = ir.LLVMFunction(module, kind, "repeat")
    builder = ir.IRBuilder(repeat.append_basic_block("entry"))
    with counted_loop(builder, index(0), repeat.args[4]):
        builder.call(kernel, repeat.args[:4])
    builder.ret_void()
    return module


def measure_peak(dtype: DType, target: Target) -> float:
    """Return the multiply-add peak in GFLOP/s."""
    call, flops = peak_call(dtype, target)
    return flops / best_of({"peak": call}, 0.3)["peak"] / 1e9


def best_of(contestants: Mapping[str, Contestant], seconds: float) -> dict[str, float]:
    """Call the contestants in turns and return the shortest time of each."""
    best = dict.fromkeys(contestants, float("inf"))
    end = time.perf_counter() + seconds * len(contestants)
    while time.perf_counter() < end:
        for name, call in contestants.items():
            started = time.thread_time()
            call()
            best[name] = min(best[name], time.thread_time() - started)
    return best


def aligned(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Return zeros aligned to a cache line."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype.numpy).reshape(shape)


def filled(shape: tuple[int, int], dtype: DType) -> np.ndarray:
    """Return an aligned matrix of small whole numbers, which any dtype multiplies exactly."""
    matrix = aligned(shape, dtype)
    matrix[...] = np.random.default_rng(0).integers(0, 3, shape)
    return matrix


def time_shape(
    shape: tuple[int, int, int, str], dtype: DType, target: Target, seconds: float
) -> tuple[float, float, float, ContractPlan]:
    """Return GFLOP/s of the kernel and of NumPy, seconds to compile, and the plan."""
    m, n, k, form = shape
    lhs = filled((m, k) if form[0] == "N" else (k, m), dtype)
    rhs = filled((k, n) if form[1] == "N" else (n, k), dtype)
    left = Operand(k, 1, 64) if form[0] == "N" else Operand(1, m, 64)
    right = Operand(n, 1, 64) if form[1] == "N" else Operand(1, k, 64)
    plan = plan_contract(m, n, k, dtype, left, right, Operand(n, 1, 64), target)
    code = load(emit_repeated(plan, target), target)
    result = aligned((m, n), plan.accumulate)
    scratch = aligned((scratch_bytes(plan),), dtypes.uint8)
    pointers = tuple(array.ctypes.data for array in (lhs, rhs, result, scratch))
    a, b = lhs if form[0] == "N" else lhs.T, rhs if form[1] == "N" else rhs.T
    code.repeat(*pointers, 1)
    wide = plan.accumulate.numpy
    assert np.array_equal(result, a.astype(wide) @ b.astype(wide)), f"wrong result for {shape}"
    # Rounds of a tenth of a millisecond or more, but never less than one product.
    times = max(1, 20_000_000 // (2 * m * n * k))
    contestants = {"kernel": lambda: code.repeat(*pointers, times)}
    if dtype in (dtypes.float32, dtypes.float64):
        out = np.empty_like(result)
        contestants["blas"] = lambda: (np.matmul(a, b, out=out), None)[1]
    best = best_of(contestants, seconds)
    flops = 2e-9 * m * n * k
    blas = flops / best["blas"] if "blas" in best else float("nan")
    return flops * times / best["kernel"], blas, code.seconds, plan


def main() -> None:
    """Print one line for each shape."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--dtype", default="f32", choices=sorted(dtypes.BY_SHORT))
    parser.add_argument("--target", default="native")
    parser.add_argument("--seconds", type=float, default=0.15, help="time for each shape")
    parser.add_argument("--only", help="shapes whose text holds this, such as 1024 or TN")
    chosen = parser.parse_args()
    dtype, target = dtypes.BY_SHORT[chosen.dtype], target_named(chosen.target)
    computing = dtypes.float32 if dtype.is_half or not dtype.is_float else dtype
    peak = measure_peak(computing, target)
    print(f"{target.name}, {dtype}: multiply-add peak of one core {peak:.0f} GFLOP/s ({computing})")
    print(f"{'m x n x k':>20}  {'GFLOP/s':>8} {'peak':>5} {'BLAS':>7} {'compile':>8}  plan")
    for shape in (*SQUARES, *TRAINING, *EXTREMES):
        text = f"{shape[0]}x{shape[1]}x{shape[2]} {shape[3]}"
        if chosen.only and chosen.only not in text:
            continue
        speed, blas, seconds, plan = time_shape(shape, dtype, target, chosen.seconds)
        print(
            f"{text:>20}  {speed:8.1f} {100 * speed / peak:4.0f}% {blas:7.1f}"
            f" {1000 * seconds:5.0f} ms  {plan}",
            flush=True,
        )


if __name__ == "__main__":
    main()
