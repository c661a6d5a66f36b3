"""The arithmetic and the memory traffic of a kernel, counted from its statements."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.loops import Fold, For, Kernel, Let, Op, Product, Stmt
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
            case Fold():
                step = _flops(statement.body) + _flops(statement.combine)
                total += statement.extent * step
            case Product():
                results = statement.rows[1] * statement.columns[1]
                total += results * (2 * statement.inner[1] + _flops(statement.body))
            case _:
                pass
    return total


def kernel_bytes(kernel: Kernel) -> int:
    """Return the bytes of the buffers one run reads and writes, each counted once each way."""
    ways = {"in": 1, "out": 1, "inout": 2, "scratch": 0}
    return sum(ways[p.mode] * p.count * p.dtype.itemsize for p in kernel.params)


def schedule_text(kernel: Kernel) -> str:
    """Return the loops of a kernel in one line, with what the schedule says of them."""
    return "; ".join(text for s in kernel.body if (text := _loops(s)))


def _loops(statement: Stmt) -> str:
    match statement:
        case For():
            inner = " ".join(text for s in statement.body if (text := _loops(s)))
            vector = f" vector({statement.vector})" if statement.vector > 1 else ""
            return f"for {statement.extent}{vector} {inner}".rstrip()
        case Fold():
            inner = " ".join(text for s in statement.body if (text := _loops(s)))
            lanes = f" lanes({statement.lanes})" if statement.lanes > 1 else ""
            return f"fold {statement.extent}{lanes} {inner}".rstrip()
        case Product():
            sizes = "x".join(str(axis[1]) for axis in (statement.rows, statement.columns))
            tile = "x".join(map(str, statement.blocking.tile))
            return f"product {sizes}x{statement.inner[1]} tile({tile})"
        case _:
            return ""
