"""Emission of a sort of rows: scratch memory, which rows, and the way that the plan says."""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import index
from symgrad.codegen.loops.language import SortRows
from symgrad.codegen.sorting.across import emit_across
from symgrad.codegen.sorting.elements import Item
from symgrad.codegen.sorting.matrix import Matrix
from symgrad.codegen.sorting.plan import SortPlan, sort_plan
from symgrad.codegen.sorting.quicksort import emit_quicksort
from symgrad.codegen.sorting.runs import emit_runs
from symgrad.codegen.target import Target

_I8 = ir.IntType(8)


def emit_sort(
    builder: ir.IRBuilder,
    sort: SortRows,
    target: Target,
    source: ir.Value,
    result: ir.Value,
    scratch: ir.Value,
    rows: tuple[ir.Value, ir.Value],
) -> None:
    """Emit the sort of rows `rows[0]` to `rows[1] - 1`.

    `source` and `result` are the addresses of the first elements of all rows, `scratch` of as many
    bytes as the plan says.
    """
    if sort.count == 0 or sort.rows == 0:
        return
    plan = sort_plan(sort, target)
    with builder.goto_entry_block():
        has_lost = builder.alloca(_I8)
    matrix = Matrix(builder, sort, plan, source, result, has_lost)
    buffers = _buffers(builder, plan, scratch)
    if plan.method == "across":
        emit_across(matrix, buffers[0], *rows)
    elif plan.method == "parts":
        emit_quicksort(matrix, buffers, *rows)
    else:
        emit_runs(matrix, buffers, *rows)


def _buffers(builder: ir.IRBuilder, plan: SortPlan, scratch: ir.Value) -> list[Item]:
    """Return the arrays that scratch memory is cut into, with a pointer for each plane."""
    starts = (index(number * plan.plane_bytes) for number in range(plan.copies * plan.planes))
    pointers = [builder.gep(scratch, [start], source_etype=_I8) for start in starts]
    return [tuple(pointers[i : i + plan.planes]) for i in range(0, len(pointers), plan.planes)]
