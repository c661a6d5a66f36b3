"""Cost model of kernels: flops and bytes of memory traffic, counted from the statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import assert_never

from symgrad.codegen.loops.access import names_used
from symgrad.codegen.loops.language import (
    BinarySearch,
    Cast,
    Check,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Op,
    Parallel,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
    inside,
)
from symgrad.codegen.loops.rewrite import statements
from symgrad.cost_model import (
    BYTES_A_CYCLE,
    COSTLY_FLOPS,
    CYCLES_A_COMPARISON,
    FLOPS_A_CYCLE,
    FLOPS_OF_MULTIPLY_ADD,
    LANE_ACCESS,
    LONGEST_ROW,
    MAX_CALLS_OF_CHAIN,
    MAX_CALLS_OF_SHORT,
    SHORT_RUNS,
    VECTORS_IN_FLIGHT,
)
from symgrad.graph.dtypes import DType, bfloat16, float32
from symgrad.graph.scalars import SCALAR_OPS


def kernel_flops(kernel: Kernel) -> int:
    """Return the floating-point and integer operations of one run, as `SCALAR_OPS` counts them.

    A multiplication with the addition that follows it in a product counts as two.
    """
    return _flops(kernel.body)


def _flops(body: Sequence[Stmt]) -> int:
    total = 0
    for statement in body:
        match statement:
            case Let(_, Op(name, _, _)):
                total += SCALAR_OPS[name].flops
            case For():
                total += statement.extent * _flops(statement.body)
            case Fold() | Prefix():
                step = _flops(inside(statement)) + _flops(statement.combine)
                total += statement.extent * step
            case Product():
                results = statement.rows[1] * statement.columns[1]
                total += results * (
                    FLOPS_OF_MULTIPLY_ADD * statement.inner[1] + _flops(statement.body)
                )
            case Let() | Store() | Check() | SortRows():
                pass
    return total


def statement_cycles(statement: Stmt) -> float:
    """Return about how many cycles of a nominal core a statement takes: a function of its shape."""
    match statement:
        case Let(_, Op(name, _, _)):
            return SCALAR_OPS[name].flops / FLOPS_A_CYCLE
        case Let(_, Load() as load):
            return load.dtype.itemsize / BYTES_A_CYCLE
        case Store():
            return statement.value.dtype.itemsize / BYTES_A_CYCLE
        case For():
            return statement.extent * _cycles(statement.body)
        case Fold() | Prefix():
            return statement.extent * (_cycles(inside(statement)) + _cycles(statement.combine))
        case Product():
            results = statement.rows[1] * statement.columns[1]
            flops = FLOPS_OF_MULTIPLY_ADD * statement.inner[1]
            return results * (flops / FLOPS_A_CYCLE + _cycles(statement.body))
        case SortRows(rows=rows, length=length):
            return CYCLES_A_COMPARISON * rows * length * length.bit_length()
        case Let(_, BinarySearch(length=length)):
            return CYCLES_A_COMPARISON * length.bit_length()
        case Let() | Check():
            return 1 / FLOPS_A_CYCLE


def _cycles(body: Sequence[Stmt]) -> float:
    return sum(map(statement_cycles, body))


def shared_cycles(statement: Stmt) -> float:
    """Return about how many cycles threads would share: elements of a vector may lie apart."""
    return statement_cycles(statement) + _apart_cycles(statement)


def _apart_cycles(statement: Stmt) -> float:
    """Return the cycles of what vectors load and store element by element.

    Squares of vectors in vectors are shuffled, and so are short rows.
    """
    if not isinstance(statement, For):
        return 0.0
    match statement.body:
        case (For(vector=width),) if min(width, statement.vector) > 1:
            return 0.0
    apart = sum(map(_apart_cycles, statement.body))
    if statement.vector > 1:
        steps = (abs(index.coefficient(statement.var)) for index in _accessed(statement.body))
        apart += LANE_ACCESS * sum(step > LONGEST_ROW for step in steps)
    return statement.extent * apart


def _accessed(body: Sequence[Stmt]) -> Iterator[Index]:
    for statement in body:
        if isinstance(statement, Store):
            yield statement.index
        elif isinstance(statement, Let) and isinstance(statement.value, Load):
            yield statement.value.index


def kernel_parts(kernel: Kernel) -> int:
    """Return into how many parts, each for a thread, the work is cut; 1 if it is not."""
    return max((_parts(statement) for statement in kernel.body), default=1)


def _parts(statement: Stmt) -> int:
    if not isinstance(statement, Parallel):
        return 1
    body = statement.body if isinstance(statement, Loop) else ()
    return max([statement.parts, *map(_parts, body)])


def kernel_bytes(kernel: Kernel) -> int:
    """Return the bytes of the elements one run reads and writes, each counted once each way.

    Of a buffer reached at indices that are data, it is as many elements as are read or written.
    """
    reads: Counter[str] = Counter()
    writes: Counter[str] = Counter()
    _count_accesses(kernel.body, 1, reads, writes)
    return sum(
        p.dtype.itemsize * (min(p.count, reads[p.name]) + min(p.count, writes[p.name]))
        for p in kernel.params
    )


def _count_accesses(
    body: Sequence[Stmt], times: int, reads: Counter[str], writes: Counter[str]
) -> None:
    """Add how often `body`, which runs `times` times, reads and writes each buffer."""
    for statement in body:
        match statement:
            case Let(_, Load(buffer, _, _)):
                reads[buffer] += times
            case Store(buffer, _, _):
                writes[buffer] += times
            case For() | Fold() | Prefix():
                _count_accesses(inside(statement), times * statement.extent, reads, writes)
            case Product(lhs=lhs, rhs=rhs):
                rows, columns, inner = statement.rows[1], statement.columns[1], statement.inner[1]
                reads[lhs.buffer] += times * rows * inner
                reads[rhs.buffer] += times * inner * columns
                _count_accesses(statement.body, times * rows * columns, reads, writes)
            case SortRows(rows=rows):
                reads[statement.source.buffer] += times * rows * statement.length
                writes[statement.result.buffer] += times * rows * statement.count
            case Let(_, BinarySearch(buffer=buffer, length=length)):
                reads[buffer] += times * length.bit_length()
            case Let() | Check():
                pass


def schedule_text(kernel: Kernel) -> str:
    """Return the loops of a kernel in one line, with what the schedule says of them."""
    return "; ".join(text for s in kernel.body if (text := _loops(s)))


def _loops(statement: Stmt) -> str:
    match statement:
        case For():
            inner = " ".join(text for s in statement.body if (text := _loops(s)))
            vector = f" vector({statement.vector})" if statement.vector > 1 else ""
            if statement.interleave > 1:
                vector += f" interleave({statement.interleave})"
            if statement.prefetches:
                vector += " prefetches"
            cut = f" parallel({statement.parallel})" if statement.parts > 1 else ""
            return f"for {statement.extent}{vector}{cut} {inner}".rstrip()
        case Fold():
            inner = " ".join(text for s in statement.body if (text := _loops(s)))
            lanes = f" lanes({statement.lanes})" if statement.lanes > 1 else ""
            lanes += " prefetches" * statement.prefetches
            return f"fold {statement.extent}{lanes} {inner}".rstrip()
        case Prefix():
            lanes = f" lanes({statement.lanes})" if statement.lanes > 1 else ""
            return f"prefix {statement.extent}{lanes}"
        case Product():
            sizes = "x".join(str(axis[1]) for axis in (statement.rows, statement.columns))
            tile = "x".join(map(str, statement.blocking.tile))
            share = statement.parallel
            cut = "" if share is None else f" parallel({share.axis}, {share.tiles})"
            cut += "" if statement.prefetches is None else " prefetches"
            return f"product {sizes}x{statement.inner[1]} tile({tile}){cut}"
        case SortRows(rows=rows, length=length, parallel=parallel):
            cut = "" if parallel is None else f" parallel({parallel})"
            return f"sort {rows} rows of {length}{cut}"
        case Let() | Store() | Check():
            return ""


def kernel_dtype(kernel: Kernel) -> DType:
    """Return the dtype that the arithmetic of a kernel is in: of its products, else the widest."""
    products = [s.dtype for s in statements(kernel.body) if isinstance(s, Product)]
    floats = [p.dtype for p in kernel.params if p.dtype.is_float and p.count > 1]
    return max(products or floats or [float32], key=lambda dtype: dtype.itemsize)


def count_calls(body: Sequence[Stmt]) -> int:
    """Return how many costly scalar operations a kernel has."""
    total = 0
    for statement in body:
        if isinstance(statement, Let) and isinstance(statement.value, Op):
            total += SCALAR_OPS[statement.value.name].flops >= COSTLY_FLOPS
        elif isinstance(statement, Loop):
            total += count_calls(inside(statement))
        if isinstance(statement, Prefix):
            steps = sum(size.bit_length() + 1 for _, _, size in statement.blocks)
            total += steps * count_calls(statement.combine)
    return total


def calls_often(body: Sequence[Stmt]) -> bool:
    """Return whether loops have more calls of math functions than are worth being inlined.

    So it is in short ones, and in those of microseconds whose calls wait for each other: more
    vectors beside each other, which are no more code then, gain there what inlining cannot.
    """
    calls = count_calls(body)
    if calls > MAX_CALLS_OF_SHORT and _count_runs(body) <= SHORT_RUNS:
        return True
    return calls_in_a_row(body) and _cycles(body) < VECTORS_IN_FLIGHT[max(VECTORS_IN_FLIGHT)]


def calls_in_a_row(body: Sequence[Stmt]) -> bool:
    """Return whether calls of math functions are a chain: most of them wait for the one before."""
    calls = count_calls(body)
    return calls > MAX_CALLS_OF_CHAIN and 2 * _longest_chain(body, {}) > calls


def _longest_chain(body: Sequence[Stmt], behind: dict[str, int]) -> int:
    """Critical path: return the most costly operations in iterations of which each needs another.

    `behind` says of names how many such are before them. Those in folds count for nothing: how
    many of them are beside each other is a matter of their lanes.
    """
    most = inner = 0
    for statement in body:
        if isinstance(statement, Let):
            value = statement.value
            is_costly = isinstance(value, Op) and SCALAR_OPS[value.name].flops >= COSTLY_FLOPS
            # Through selects as well, and through the casts that halves take between any two; but
            # those to bfloat16 are code of their own on most machines, which vectors multiply.
            is_anew = isinstance(value, Cast) and value.dtype == bfloat16
            before = () if is_anew else names_used(value)
            found = max((behind.get(n, 0) for n in before), default=0) + is_costly
            behind[statement.name] = found
            most = max(most, found)
        elif isinstance(statement, For):
            inner += _longest_chain(statement.body, dict(behind))
    return max(most, inner)


def _count_runs(body: Sequence[Stmt]) -> int:
    """Return how often what runs most often is computed, in vectors where loops have such."""
    most = 1
    for loop in (statement for statement in body if isinstance(statement, Loop)):
        match loop:
            case For():
                turns = -(-loop.extent // loop.vector)
            case Product():
                turns = loop.rows[1] * loop.columns[1]
            case Fold() | Prefix():
                turns = -(-loop.extent // loop.lanes)
            case _:
                assert_never(loop)
        most = max(most, turns * _count_runs(inside(loop)))
    return most
