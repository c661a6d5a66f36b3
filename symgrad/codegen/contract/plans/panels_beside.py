"""Products of panels beside each other: what the epilogue of the next one reads is prefetched.

    for i0 in 0..64 {
      product t0: f32 for (i1 in 0..32) (i2 in 0..16) (i3 in 0..256) ... {
        t1: f32 = b2[16*i0 + 1024*i1 + i2]
        ...

Such are those of a weight that was packed before a loop, in panels as wide as a tile. Of each row
that its epilogue reads, as of a slice that a scan has in turn, a panel has one line. Rows are pages
apart, so nothing fetches the next line ahead.
"""

from __future__ import annotations

from symgrad.codegen.contract.panel_width import panel_bytes
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.loops.language import Let, Load, Product
from symgrad.codegen.target import Target
from symgrad.cost_model import BYTES_BETWEEN_PIECES
from symgrad.records import replace


def loads_by_element(product: Product) -> list[Load]:
    """Return what the epilogue loads another element of for each of the product's."""
    loads = (s.value for s in product.body if isinstance(s, Let) and isinstance(s.value, Load))
    axes = product.rows[0], product.columns[0]
    return [load for load in loads if all(map(load.index.coefficient, axes))]


def has_panel_beside(product: Product, plan: ContractPlan, target: Target) -> bool:
    """Return whether tiles are to prefetch what the epilogue of the next panel reads.

    Those of a panel prefetch the same rows of the next one, so they are to be several. Where panels
    are wider than a line, a processor is left to it.
    """
    width = plan.columns * plan.dtype.itemsize
    is_panel = plan.columns == plan.tile_columns and width == panel_bytes(target)
    is_plain = plan.method == "tile" and plan.vector_axis == "n" and plan.k_blocks == 1
    is_plain = is_plain and plan.pack_left == plan.pack_right == "none"
    is_line = width <= target.memory.line_bytes
    if not (is_plain and is_panel and is_line) or plan.row_tiles == 1:
        return False
    loads = loads_by_element(product)
    has_time = replace(plan, met=len(loads)).steps_a_row > 0
    return has_time and all(_is_beside(load, product, plan) for load in loads)


def _is_beside(load: Load, product: Product, plan: ContractPlan) -> bool:
    """Return whether a loop around goes on with what is beside that, in rows that lie apart."""
    index, (row, _), (column, _) = load.index, product.rows, product.columns
    is_next = any(by == plan.columns and atom != row for atom, by in index.terms)
    pitch = BYTES_BETWEEN_PIECES // plan.dtype.itemsize
    return is_next and index.coefficient(column) == 1 and index.coefficient(row) > pitch
