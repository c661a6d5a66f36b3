"""The Contract generator against NumPy: shapes, strides, dtypes, machines, epilogues, bounds.

Many contractions go into one module, which is compiled once for each target.
"""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import llvmlite.binding as llvm
import numpy as np
import pytest

from symgrad.codegen import ir
from symgrad.codegen.contract import (
    ContractPlan,
    Operand,
    TileElements,
    emit_contract,
    plan_contract,
)
from symgrad.codegen.contract.elements import counted_loop, index, scalar_type
from symgrad.codegen.contract.plans.scratch import scratch_bytes
from symgrad.codegen.native.jit import optimize
from symgrad.codegen.target import target_named
from symgrad.codegen.vectors import vector_type
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType

POINTER = ir.PointerType()

TARGETS = (
    "native",
    pytest.param("x86-64-v3", marks=pytest.mark.isa("avx2")),
    pytest.param("x86-64", marks=pytest.mark.isa("sse2")),
)
# What compiles dozens of products runs for one target by default.
ONE_TARGET = (
    "native",
    pytest.param("x86-64-v3", marks=[pytest.mark.isa("avx2"), pytest.mark.slow]),
    pytest.param("x86-64", marks=[pytest.mark.isa("sse2"), pytest.mark.slow]),
)
NUMBERS = tuple(dtype for dtype in dtypes.REAL if not dtype.is_bool)

# Strides of a matrix, in elements, from its sizes; a layout may leave gaps or walk backwards.
LAYOUTS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "rows": lambda rows, columns: (columns, 1),
    "columns": lambda rows, columns: (1, rows),
    "gaps": lambda rows, columns: (2 * columns + 3, 2),
    "padded": lambda rows, columns: (columns + 5, 1),
    "columns of lines": lambda rows, columns: (1, rows + 16),
    "pages": lambda rows, columns: (1024, 1),
    "same row": lambda rows, columns: (0, 1),
    "same column": lambda rows, columns: (1, 0),
    "same": lambda rows, columns: (0, 0),
    "rows backwards": lambda rows, columns: (-columns, 1),
    "columns backwards": lambda rows, columns: (columns, -1),
}
READ_ONLY = {"same row", "same column", "same", "pages"}

EpilogueKind = Literal["store", "bias", "count"]


@dataclass(frozen=True)
class Case:
    """One contraction to test."""

    m: int
    n: int
    k: int
    dtype: DType = dtypes.float32
    lhs: str = "rows"
    rhs: str = "rows"
    result: str = "rows"
    epilogue: EpilogueKind = "store"

    def strides(self, matrix: Literal["lhs", "rhs", "result"]) -> Operand:
        sizes = {"lhs": (self.m, self.k), "rhs": (self.k, self.n), "result": (self.m, self.n)}
        row, column = LAYOUTS[getattr(self, matrix)](*sizes[matrix])
        return Operand(row, column, self.dtype.itemsize)

    def plan(self, target_name: str) -> ContractPlan:
        strides = self.strides("lhs"), self.strides("rhs"), self.strides("result")
        return plan_contract(
            self.m, self.n, self.k, self.dtype, *strides, target_named(target_name)
        )


class Kernel:
    """A function `(lhs, rhs, result, bias, scratch)` that computes one case."""

    def __init__(self, module: ir.Module, name: str, case: Case, target_name: str) -> None:
        self.case = case
        self.plan = case.plan(target_name)
        kind = ir.FunctionType(ir.VoidType(), [POINTER] * 5)
        function = ir.LLVMFunction(module, kind, name)
        for argument in function.args:
            argument.add_attribute("noalias")
        self.lhs, self.rhs, self.result, self.bias, self.scratch = function.args
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        scratch = self.scratch if scratch_bytes(self.plan) else None
        target = target_named(target_name)
        emit_contract(builder, self.plan, self.lhs, self.rhs, scratch, target, self.epilogue)
        builder.ret_void()

    def epilogue(self, builder: ir.IRBuilder, found: TileElements) -> None:
        row, column, width, value = found.row, found.column, found.width, found.value
        assert width in (1, self.plan.vector_width)
        assert value.type == vector_type(scalar_type(self.plan.accumulate), width)
        match self.case.epilogue:
            case "store":
                self._store(builder, row, column, width, value)
            case "count":
                self._count(builder, row, column, width)
            case "bias":
                self._add_bias(builder, row, column, width, value)

    def _place(self, builder: ir.IRBuilder, row: ir.Value, column: ir.Value) -> ir.Value:
        strides = self.case.strides("result")
        down = builder.mul(row, index(strides.row_stride))
        offset = builder.add(down, builder.mul(column, index(strides.column_stride)))
        element = scalar_type(self.plan.accumulate)
        return builder.gep(self.result, [offset], source_etype=element)

    def _store(
        self, builder: ir.IRBuilder, row: ir.Value, column: ir.Value, width: int, value: ir.Value
    ) -> None:
        strides = self.case.strides("result")
        along_n = self.plan.vector_axis == "n"
        align = self.plan.accumulate.itemsize
        if width == 1 or (strides.column_stride if along_n else strides.row_stride) == 1:
            builder.store(value, self._place(builder, row, column), align=align)
            return
        for lane in range(width):
            m = row if along_n else builder.add(row, index(lane))
            n = builder.add(column, index(lane)) if along_n else column
            item = builder.extract_element(value, ir.Constant(ir.IntType(32), lane))
            builder.store(item, self._place(builder, m, n), align=align)

    def _count(self, builder: ir.IRBuilder, row: ir.Value, column: ir.Value, width: int) -> None:
        element = scalar_type(self.plan.accumulate)
        for lane in range(width):
            m = row if self.plan.vector_axis == "n" else builder.add(row, index(lane))
            n = column if self.plan.vector_axis == "m" else builder.add(column, index(lane))
            place = self._place(builder, m, n)
            seen = builder.load(place, typ=element, align=self.plan.accumulate.itemsize)
            builder.store(builder.fadd(seen, ir.Constant(element, 1.0)), place)

    def _add_bias(
        self, builder: ir.IRBuilder, row: ir.Value, column: ir.Value, width: int, value: ir.Value
    ) -> None:
        """Add a bias for each column, and cut negative results to zero in the upper rows."""
        element = scalar_type(self.plan.accumulate)
        place = builder.gep(self.bias, [column], source_etype=element)
        align = self.plan.accumulate.itemsize
        if width > 1 and self.plan.vector_axis == "m":
            scalar = builder.load(place, typ=element, align=align)
            bias: ir.Value = ir.Constant(ir.VectorType(element, width), ir.Undefined)
            for lane in range(width):
                bias = builder.insert_element(bias, scalar, ir.Constant(ir.IntType(32), lane))
        else:
            bias = builder.load(place, typ=vector_type(element, width), align=align)
        total = builder.fadd(value, bias)
        zero = ir.Constant(total.type, 0.0)
        positive = builder.fcmp_ordered(">", total, zero)
        is_upper = builder.icmp_signed("<", row, index(16))
        if self.plan.vector_axis == "m":
            # Vectors run across rows here, and 16 is a multiple of every width.
            is_upper = builder.icmp_signed("<", builder.and_(row, index(-width)), index(16))
        with builder.if_else(is_upper) as (upper, lower):
            with upper:
                self._store(builder, row, column, width, builder.select(positive, total, zero))
            with lower:
                self._store(builder, row, column, width, total)


class Library:
    """Machine code of a module; it stays loaded as long as this lives."""

    def __init__(self, module: ir.Module, names: list[str], target_name: str) -> None:
        optimised, machine = optimise(module, target_name)
        self._jit = llvm.create_lljit_compiler()
        builder = llvm.JITLibraryBuilder().add_object_img(machine.emit_object(optimised))
        for name in names:
            builder.export_symbol(name)
        self._symbols = builder.link(self._jit, "contractions")

    def run(self, name: str, *pointers: int) -> None:
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))
        kind(self._symbols[name])(*pointers)


def optimise(module: ir.Module, target_name: str) -> tuple[Any, Any]:
    """Return the verified and optimised module, and the machine it was optimised for."""
    target = target_named(target_name)
    return optimize(str(module), target, 3), target.machine()


def compile_cases(cases: list[Case], target_name: str) -> tuple[Library, list[Kernel]]:
    module = ir.Module("contractions")
    kernels = [
        Kernel(module, f"kernel_{number}", case, target_name) for number, case in enumerate(cases)
    ]
    names = [f"kernel_{number}" for number in range(len(cases))]
    return Library(module, names, target_name), kernels


def extent(rows: int, columns: int, strides: Operand) -> tuple[int, int]:
    """Return the least and the greatest offset of a matrix from its first element."""
    if rows == 0 or columns == 0:
        return 0, -1
    ends = ((rows - 1) * strides.row_stride, (columns - 1) * strides.column_stride)
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)


def laid_out(memory: np.ndarray, rows: int, columns: int, strides: Operand) -> np.ndarray:
    """Return the view of `memory`, of exactly the right size, that has these strides."""
    least, greatest = extent(rows, columns, strides)
    assert memory.size == greatest - least + 1
    size = memory.itemsize
    return np.lib.stride_tricks.as_strided(
        memory[-least:] if memory.size else memory,
        (rows, columns),
        (strides.row_stride * size, strides.column_stride * size),
    )


def filled(rng: np.random.Generator, size: int, dtype: DType) -> np.ndarray:
    if dtype.is_float:
        return rng.uniform(-1, 1, size).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return rng.integers(limits.min, limits.max, size, dtype.numpy, endpoint=True)


def aligned(size: int) -> np.ndarray:
    memory = np.full(size + 64, 0xFF, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


def address(view: np.ndarray) -> int:
    return int(view.ctypes.data)


def operands(case: Case, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    views = []
    sizes = ((case.m, case.k, case.strides("lhs")), (case.k, case.n, case.strides("rhs")))
    for rows, columns, strides in sizes:
        least, greatest = extent(rows, columns, strides)
        memory = filled(rng, greatest - least + 1, case.dtype)
        views.append(laid_out(memory, rows, columns, strides))
    return views[0], views[1]


def run_case(library: Library, name: str, kernel: Kernel, seed: int) -> None:
    """Run one kernel on random operands and compare with NumPy."""
    case, rng = kernel.case, np.random.default_rng(seed)
    lhs, rhs = operands(case, rng)
    strides = case.strides("result")
    least, greatest = extent(case.m, case.n, strides)
    start = 0 if case.epilogue == "count" else 7
    memory = np.full(greatest - least + 1, start, kernel.plan.accumulate.numpy)
    result = laid_out(memory, case.m, case.n, strides)
    bias = filled(rng, case.n, kernel.plan.accumulate)
    scratch = aligned(scratch_bytes(kernel.plan))
    library.run(name, *(address(view) for view in (lhs, rhs, result, bias, scratch)))
    check(case, kernel.plan, lhs, rhs, result, bias)
    others = np.ones(memory.shape, bool)
    laid_out(others, case.m, case.n, strides)[...] = False
    assert (memory[others] == start).all(), f"{case} wrote between its results"


def check(
    case: Case,
    plan: ContractPlan,
    lhs: np.ndarray,
    rhs: np.ndarray,
    result: np.ndarray,
    bias: np.ndarray,
) -> None:
    if case.epilogue == "count":
        assert (result == 1).all(), f"{case} handed on an element not once; plan {plan}"
        return
    if case.dtype.is_integer:
        np.testing.assert_array_equal(result, lhs @ rhs, err_msg=f"{case}; plan {plan}")
        return
    a, b = lhs.astype(np.float64), rhs.astype(np.float64)
    expected, size = a @ b, np.abs(a) @ np.abs(b)
    if case.epilogue == "bias":
        expected, size = expected + bias, size + np.abs(bias)
        expected[:16] = np.maximum(expected[:16], 0)
    # The bound every order of summation keeps; float64 needs room for NumPy's own error too.
    bound = 2 * (case.k + 2) * np.finfo(plan.accumulate.numpy).eps * size
    error = np.abs(result - expected)
    assert (error <= bound).all(), f"{case}: error {error.max()}; plan {plan}"


def run_cases(cases: list[Case], target_name: str) -> None:
    library, kernels = compile_cases(cases, target_name)
    for number, kernel in enumerate(kernels):
        run_case(library, f"kernel_{number}", kernel, seed=number)


def random_cases(seed: int, count: int, largest: int) -> list[Case]:
    """Return cases with sizes that are often 1, prime, or next to a multiple of a vector."""
    choose = random.Random(seed)
    sizes = [1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 31, 33, 64, 67, 97, 131, 257, 521]
    sizes = [size for size in sizes if size <= largest]
    writable = [name for name in LAYOUTS if name not in READ_ONLY]
    cases = []
    for _ in range(count):
        case = Case(
            m=choose.choice(sizes),
            n=choose.choice(sizes),
            k=choose.choice(sizes),
            dtype=choose.choice(NUMBERS),
            lhs=choose.choice(list(LAYOUTS)),
            rhs=choose.choice(list(LAYOUTS)),
            result=choose.choice(writable),
        )
        if case.dtype.is_float:
            case = replace(case, epilogue=choose.choice(["store", "bias", "count"]))
        cases.append(case)
    return cases


@pytest.mark.parametrize("target_name", ONE_TARGET)
def test_random_contractions_agree_with_numpy(target_name):
    run_cases(random_cases(seed=1, count=10, largest=131), target_name)


@pytest.mark.slow
@pytest.mark.parametrize("target_name", TARGETS)
@pytest.mark.parametrize("seed", range(1, 6))
def test_more_random_contractions_agree_with_numpy(target_name, seed):
    run_cases(random_cases(seed=seed, count=120, largest=521), target_name)


def cases_of(dtype: DType) -> list[Case]:
    cases = [Case(37, 35, 29, dtype, "columns", "rows"), Case(5, 67, 40, dtype, "rows", "columns")]
    if dtype.is_float:
        cases.append(Case(37, 35, 29, dtype, "rows", "columns"))
    return cases


@pytest.mark.parametrize("target_name", ONE_TARGET)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_every_dtype_agrees_with_numpy(dtype, target_name):
    cases = cases_of(dtype)
    run_cases([cases[NUMBERS.index(dtype) % len(cases)]], target_name)


@pytest.mark.slow
@pytest.mark.parametrize("target_name", TARGETS)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_every_dtype_agrees_with_numpy_in_every_form(dtype, target_name):
    run_cases(cases_of(dtype), target_name)


@pytest.mark.parametrize("target_name", ONE_TARGET)
def test_sums_and_blocks_longer_than_a_cache_agree_with_numpy(target_name):
    f64 = dtypes.float64
    cases = [
        # Several blocks of k, of rows and of columns, each with a smaller last one.
        Case(100, 90, 2100, lhs="columns", rhs="columns"),
        Case(31, 1500, 2063, f64, rhs="columns"),
        Case(300, 1400, 600, f64),
        Case(1300, 33, 2100, f64, lhs="gaps", rhs="gaps"),
        # Bands of rows, and tiles of two heights in the last of them.
        Case(2101, 21, 1100, lhs="columns"),
        Case(9, 7, 3000),
        Case(3, 5, 4000, rhs="columns"),
    ]
    assert all(case.plan(target_name).k_blocks > 1 or case.k < 1024 or case.m < 9 for case in cases)
    run_cases(cases, target_name)


@pytest.mark.parametrize("target_name", TARGETS)
def test_a_sum_of_nothing_is_zero_and_no_results_are_none(target_name):
    cases = [Case(5, 19, 0), Case(0, 4, 3), Case(4, 0, 3), Case(0, 0, 0), Case(1, 1, 0)]
    run_cases(cases, target_name)


EPILOGUES = [
    Case(m, n, k, result=result, epilogue=kind)
    for m, n, k in [(1, 1, 1), (3, 50, 5), (50, 3, 70), (45, 131, 9), (33, 10, 12), (1, 97, 33)]
    for result in ("rows", "columns")
    for kind in ("count", "bias")
]


@pytest.mark.parametrize("target_name", ONE_TARGET)
def test_epilogue_gets_each_element_once_and_may_branch(target_name):
    run_cases(EPILOGUES[1::3], target_name)


@pytest.mark.slow
@pytest.mark.parametrize("target_name", TARGETS)
def test_every_epilogue_gets_each_element_once_and_may_branch(target_name):
    run_cases(EPILOGUES, target_name)


@pytest.mark.parametrize("target_name", TARGETS)
def test_a_contraction_may_stand_in_a_loop(target_name):
    batch, case = 3, Case(20, 30, 40, rhs="columns")
    module, plan = ir.Module("batch"), case.plan(target_name)
    kind = ir.FunctionType(ir.VoidType(), [POINTER] * 4)
    function = ir.LLVMFunction(module, kind, "kernel_0")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    element = scalar_type(case.dtype)
    with counted_loop(builder, index(0), index(batch)) as number:
        lhs, rhs, result = (
            builder.gep(pointer, [builder.mul(number, index(size))], source_etype=element)
            for pointer, size in zip(function.args, (20 * 40, 40 * 30, 20 * 30), strict=False)
        )

        def store(builder: ir.IRBuilder, found: TileElements) -> None:
            place = builder.add(builder.mul(found.row, index(30)), found.column)
            builder.store(found.value, builder.gep(result, [place], source_etype=element), align=4)

        emit_contract(builder, plan, lhs, rhs, function.args[3], target_named(target_name), store)
    builder.ret_void()
    rng = np.random.default_rng(0)
    a = rng.random((batch, 20, 40), np.float32)
    b = rng.random((batch, 30, 40), np.float32)
    results, scratch = np.zeros((batch, 20, 30), np.float32), aligned(scratch_bytes(plan))
    library = Library(module, ["kernel_0"], target_name)
    library.run("kernel_0", *(address(view) for view in (a, b, results, scratch)))
    np.testing.assert_allclose(results, a @ b.swapaxes(1, 2), rtol=1e-5)


@pytest.mark.parametrize("target_name", TARGETS)
def test_half_floats_keep_denormals_infinities_and_nans(target_name):
    for dtype in (dtypes.float16, dtypes.bfloat16):
        cases = [Case(40, 1, 1, dtype), Case(1, 40, 1, dtype, result="columns")]
        library, kernels = compile_cases(cases, target_name)
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5]
        tiny = [np.finfo(np.float16).smallest_subnormal * i for i in range(1, 34)]
        values = np.array(special + tiny).astype(dtype.numpy)
        one = np.ones(1, dtype.numpy)
        for number, kernel in enumerate(kernels):
            lhs, rhs = (values, one) if kernel.case.m == 40 else (one, values)
            result, scratch = np.zeros(40, np.float32), aligned(scratch_bytes(kernel.plan))
            pointers = (address(view) for view in (lhs, rhs, result, one, scratch))
            library.run(f"kernel_{number}", *pointers)
            np.testing.assert_array_equal(result, values.astype(np.float32))


@pytest.mark.parametrize("target_name", TARGETS)
def test_results_do_not_depend_on_where_operands_lie(target_name):
    case = Case(45, 70, 1111)
    library, kernels = compile_cases([case], target_name)
    rng = np.random.default_rng(0)
    lhs, rhs = operands(case, rng)
    results = []
    for shift in (0, 1, 5):
        moved = [np.empty(view.size + shift, np.float32)[shift:] for view in (lhs, rhs)]
        for to, view in zip(moved, (lhs, rhs), strict=True):
            to[...] = view.ravel()
        result = np.zeros((case.m, case.n), np.float32)
        scratch = aligned(scratch_bytes(kernels[0].plan))
        pointers = (address(view) for view in (*moved, result, result, scratch))
        library.run("kernel_0", *pointers)
        results.append(result)
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


@contextmanager
def guarded(size: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of whole pages that hold `size` bytes, between pages nobody may touch."""
    page = mmap.PAGESIZE
    inside = max(1, -(-size // page)) * page
    area = mmap.mmap(-1, inside + 2 * page)
    handle = ctypes.c_char.from_buffer(area)
    start = ctypes.addressof(handle)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    none, both = 0, mmap.PROT_READ | mmap.PROT_WRITE
    for fence in (start, start + page + inside):
        assert libc.mprotect(fence, page, none) == 0
    try:
        yield start + page, start + page + inside
    finally:
        for fence in (start, start + page + inside):
            assert libc.mprotect(fence, page, both) == 0
        del handle
        area.close()


@contextmanager
def at_the_brink(memory: np.ndarray, at_end: bool) -> Iterator[np.ndarray]:
    """Yield a copy of `memory` that ends, or starts, at a page nobody may touch."""
    with guarded(memory.nbytes) as (start, stop):
        place = stop - memory.nbytes if at_end else start
        raw = (ctypes.c_char * memory.nbytes).from_address(place)
        copy = np.frombuffer(memoryview(raw), np.uint8).view(memory.dtype)
        copy[...] = memory
        yield copy


BRINK_SHAPES = [(1, 1, 1), (3, 5, 7), (17, 19, 21), (30, 10, 33), (4, 70, 19), (65, 2, 40)]
BRINK_LAYOUTS = [("rows", "rows"), ("columns", "columns"), ("rows", "columns"), ("gaps", "gaps")]
BRINK_DTYPES = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.int8)


def check_at_the_brink(cases: list[Case], target_name: str) -> None:
    library, kernels = compile_cases(cases, target_name)
    for number, kernel in enumerate(kernels):
        for at_end in (False, True):
            run_at_the_brink(library, f"kernel_{number}", kernel, at_end)


@pytest.mark.parametrize("target_name", ONE_TARGET)
@pytest.mark.parametrize("number", range(len(BRINK_SHAPES)))
def test_not_a_byte_outside_the_operands_is_touched(number, target_name):
    m, n, k = BRINK_SHAPES[number]
    cases = [
        Case(m, n, k, BRINK_DTYPES[(number + turn) % 4], lhs, rhs)
        for turn, (lhs, rhs) in enumerate(BRINK_LAYOUTS)
    ]
    check_at_the_brink(cases[number % 2 :: 2], target_name)


@pytest.mark.slow
@pytest.mark.parametrize("target_name", TARGETS)
def test_not_a_byte_outside_any_operands_is_touched(target_name):
    cases = [
        Case(*shape, dtype, lhs, rhs)
        for shape in BRINK_SHAPES
        for dtype in BRINK_DTYPES
        for lhs, rhs in BRINK_LAYOUTS
    ]
    check_at_the_brink(cases, target_name)


def run_at_the_brink(library: Library, name: str, kernel: Kernel, at_end: bool) -> None:
    case, plan, rng = kernel.case, kernel.plan, np.random.default_rng(3)
    sizes = ((case.m, case.k, case.strides("lhs")), (case.k, case.n, case.strides("rhs")))
    memories = [
        filled(rng, extent(rows, columns, strides)[1] + 1, case.dtype)
        for rows, columns, strides in sizes
    ]
    nothing = np.zeros(case.m * case.n, plan.accumulate.numpy)
    with (
        at_the_brink(memories[0], at_end) as lhs,
        at_the_brink(memories[1], at_end) as rhs,
        at_the_brink(nothing, at_end) as result,
        guarded(scratch_bytes(plan)) as (start, stop),
    ):
        needed = -(-scratch_bytes(plan) // 64) * 64
        scratch = stop - needed if at_end else start
        library.run(name, address(lhs), address(rhs), address(result), 0, scratch)
        a, b = (
            laid_out(memory, rows, columns, strides)
            for memory, (rows, columns, strides) in zip((lhs, rhs), sizes, strict=True)
        )
        check(case, plan, a, b, result.reshape(case.m, case.n), nothing)


@pytest.mark.parametrize("target_name", ["native", "x86-64-v3", "x86-64", "aarch64"])
def test_code_calls_no_library_and_keeps_sums_in_registers(target_name):
    module = ir.Module("contraction")
    Kernel(module, "kernel", Case(64, 96, 300), target_name)
    optimised, machine = optimise(module, target_name)
    assembly = machine.emit_assembly(optimised)
    called = [line for line in assembly.splitlines() if line.split()[:1] in (["bl"], ["callq"])]
    assert called
    assert all("contract." in line for line in called), called
    assert "Spill" not in assembly
    used = {"native": "fmadd", "x86-64-v3": "vfmadd", "x86-64": "mulps", "aarch64": "fmla"}
    assert used[target_name] in assembly or target_named("native").triple.startswith("aarch64")


def test_lanes_run_along_the_contiguous_axis_of_the_result():
    assert Case(64, 64, 64).plan("native").vector_axis == "n"
    assert Case(64, 64, 64, result="columns").plan("native").vector_axis == "m"


def test_few_results_are_summed_along_k_without_transposing():
    plan = Case(4, 512, 512, rhs="columns").plan("x86-64-v3")
    assert plan.method == "dot"
    assert scratch_bytes(plan) == 0


def test_small_contiguous_operands_are_not_packed():
    plan = Case(128, 128, 128).plan("native")
    assert (plan.pack_left, plan.pack_right, scratch_bytes(plan)) == ("none", "none", 0)


def test_rows_side_by_side_are_whole_vectors_where_a_vector_is_a_line():
    def tile_rows(dtype: DType, is_turned: bool) -> int:
        left = Operand(1, 512, 8) if is_turned else Operand(512, 1, 8)
        right = Operand(512, 1, 8)
        target = target_named("x86-64-v4")
        return plan_contract(512, 512, 512, dtype, left, right, right, target).tile_rows

    assert tile_rows(dtypes.float64, is_turned=True) % 8 == 0
    assert tile_rows(dtypes.float64, is_turned=False) % 8 != 0
    assert tile_rows(dtypes.float32, is_turned=True) % 16 != 0  # but within one vector


def test_a_plan_prints_as_one_line():
    plan = Case(128, 512, 784, rhs="columns").plan("x86-64-v3")
    assert str(plan) == "tile(6x16) along n block(m=128, n=512, k=784) pack(rhs: transpose)"


def test_equal_shapes_have_equal_plans():
    assert Case(33, 44, 55).plan("native") == Case(33, 44, 55).plan("native")


def test_a_plan_for_the_transpose_swaps_the_operands():
    plan = Case(50, 70, 30, result="columns").plan("native")
    assert (plan.rows, plan.columns) == (70, 50)
    assert plan.left == plan.rhs.transposed
    assert plan.right == plan.lhs.transposed
