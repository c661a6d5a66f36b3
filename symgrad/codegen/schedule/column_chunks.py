"""Strip-mining of columns: of what the last stages of a block make of a row, a chunk is in cache.

    product s: f32 for (i in 0..64) (j in 0..2048) (k in 0..64) g[0] by (64, 1) * ... {
      x[2064*i + j] = ...
    }
    product t: f32 for (i in 0..64) (n in 0..64) (j in 0..2048) x[0] by (2064, 1) * ... { ... }
    product u: f32 for (j in 0..2048) (n in 0..64) (i in 0..64) x[0] by (1, 2064) * ... { ... }

becomes, since each stage reads of `x` what it has made of the same columns only,

    for c in 0..8 ordered {
      product s: f32 for (i in 0..64) (j in 0..256) (k in 0..64) g[0] by (64, 1) * ... {
        x[256*i + j] = ...
      }
      product t: f32 for (i in 0..64) (n in 0..64) (j in 0..256) x[0] by (256, 1) * ... { ... }
      product u: f32 for (j in 0..256) (n in 0..64) (i in 0..64) x[0] by (1, 256) * ... { ... }
    }

so gradients of weights of an attention are never in memory for all keys of a block. What sums over
columns, as `t`, adds what each chunk comes to, in order. Where a mask may leave nothing of some of
the last columns, as of the keys that are as many as queries, those are the last chunk, which
stands apart: the others need no diagonals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from symgrad.codegen.loops.index_arithmetic import index_of, scaled_sum
from symgrad.codegen.loops.language import (
    Index,
    IndexValue,
    Let,
    Load,
    Param,
    Product,
    Stmt,
    StridedOperand,
)
from symgrad.codegen.loops.rewrite import map_indices, mentions, substitute_variable
from symgrad.codegen.schedule.row_blocks import with_places
from symgrad.codegen.schedule.row_stages import Axis, Layouts, RowLayout, Stage, row_accesses
from symgrad.cost_model import BYTES_OF_ROW_CHUNK, COLUMNS_OF_CHUNK
from symgrad.cost_model.products import PANEL_BYTES
from symgrad.records import dataclass, replace

CHUNK = "chunk"


@dataclass(frozen=True, slots=True)
class ColumnChunks:
    """From stage number `first` on, `size` of `columns` columns at a time, each along an axis.

    The rows of `buffers` are as long as a chunk. The last chunk is apart if `is_last_apart`.
    """

    first: int
    size: int
    columns: int
    axes: tuple[Axis, ...]
    buffers: frozenset[str]
    is_last_apart: bool

    def axis(self, number: int) -> Axis:
        """Return along which axis the stage of a number goes through the columns."""
        return self.axes[number - self.first]

    def layouts(self, layouts: Layouts) -> dict[str, RowLayout | None]:
        """Return the layouts with rows of one chunk where no others are needed."""
        return {
            name: replace(layout, length=self.size) if name in self.buffers and layout else layout
            for name, layout in layouts.items()
        }


def column_chunks(
    stages: Sequence[Stage],
    own: Mapping[str, Param],
    layouts: Layouts,
    rows: int,
    block: int,
) -> ColumnChunks | None:
    """Return how the last of the stages over a block of rows are cut along columns, if they are.

    Matrices have so many `rows`, and nothing but the stages reads what is `own`.
    """
    longest = max((layout.length for n in own if (layout := layouts[n])), default=0)
    long = {n: p for n, p in own.items() if (layout := layouts[n]) and layout.length == longest}
    if not any(block * longest * p.dtype.itemsize > BYTES_OF_ROW_CHUNK for p in long.values()):
        return None
    first, axes = len(stages), list[Axis]()
    while first and (axis := _axis_of_columns(stages[first - 1], long, longest)):
        if _needs_other_chunks(stages[first - 1], axis, stages[first:], axes):
            break
        first, axes = first - 1, [axis, *axes]
    before = {name for stage in stages[:first] for name, _, _ in row_accesses(stage)}
    buffers = frozenset(long.keys() - before)
    if not buffers or _is_partial_read(stages[first:], axes):
        return None
    step = _columns_of_panels(stages[first:], longest)
    fits = COLUMNS_OF_CHUNK // 2 <= rows <= 2 * COLUMNS_OF_CHUNK and rows % step == 0
    is_apart = fits and longest % rows == 0 and any(map(_is_masked, stages[first:]))
    sizes = (rows,) if is_apart else (COLUMNS_OF_CHUNK, COLUMNS_OF_CHUNK // 2)
    fitting = (size for size in sizes if longest % size == size % step == 0 and longest > size)
    size = next(fitting, None)
    if size is None:
        return None
    return ColumnChunks(first, size, longest, tuple(axes), buffers, is_apart)


def _columns_of_panels(stages: Sequence[Stage], columns: int) -> int:
    """Return of how many columns a chunk is to be a multiple: panels of products lie within it."""
    products = (stage.statement for stage in stages if isinstance(stage.statement, Product))
    panels = (PANEL_BYTES // product.element.itemsize for product in products)
    return max((panel for panel in panels if columns % panel == 0), default=1)


def _axis_of_columns(stage: Stage, long: Mapping[str, Param], columns: int) -> Axis | None:
    """Return along which axis a product goes through the columns of long rows."""
    product = stage.statement
    if not isinstance(product, Product) or stage.axis is None or stage.axis == "columns":
        return None
    touched = list(row_accesses(stage))
    found = {_axis_met(product, stage, index) for name, index, _ in touched if name in long}
    made = {name for name, _, is_written in touched if is_written}
    if len(found) != 1 or long.keys().isdisjoint((product.lhs.buffer, product.rhs.buffer, *made)):
        return None
    (axis,) = found
    if axis is None:
        return None
    digits = {
        "rows": product.lhs.row_digits,
        "inner": (*product.lhs.column_digits, *product.rhs.row_digits),
        "columns": product.rhs.column_digits,
    }
    is_whole = getattr(product, axis)[1] == columns and not digits[axis]
    return axis if is_whole else None


def _axis_met(product: Product, stage: Stage, index: Index) -> Axis | None:
    """Return which axis of a product counts the columns of a place in long rows, None if none does.

    What is as wide as rows are long may be met in two ways: `x[i] @ m * x[i]` needs of `x` each
    column for a sum, and one for what becomes of that.
    """
    axes: tuple[Axis, ...] = ("rows", "columns", "inner")
    axis_of = {getattr(product, axis)[0]: axis for axis in axes if axis != stage.axis}
    along = [(atom, step) for atom, step in index.terms if atom != stage.row]
    along = [(atom, step) for atom, step in along if not isinstance(atom, str) or atom in axis_of]
    if index.const or len(along) != 1 or not isinstance(along[0][0], str) or along[0][1] != 1:
        return None
    return axis_of[along[0][0]]


def _needs_other_chunks(
    stage: Stage, axis: Axis, later: Sequence[Stage], axes: Sequence[Axis]
) -> bool:
    """Return whether later stages of a chunk need other columns of what a stage makes in it.

    That may be what other launches read as well, whose rows stay as long as they are. Sums over
    columns are another matter.
    """
    made = {name for name, _, is_written in row_accesses(stage) if is_written and axis != "inner"}
    for other, along in zip(later, axes, strict=True):
        product = other.statement
        assert isinstance(product, Product), "a chunk has products"
        read = (index for name, index, _ in row_accesses(other) if name in made)
        if any(_axis_met(product, other, index) != along for index in read):
            return True
    return False


def _is_partial_read(stages: Sequence[Stage], axes: Sequence[Axis]) -> bool:
    """Return whether a stage reads what another one sums over all columns."""
    sums = {
        name
        for stage, axis in zip(stages, axes, strict=True)
        for name, _, is_written in row_accesses(stage)
        if is_written and axis == "inner"
    }
    read = (name for s in stages for name, _, is_written in row_accesses(s) if not is_written)
    return any(name in sums for name in read)


def _is_masked(stage: Stage) -> bool:
    """Return whether what a product makes depends on where it is, or on data of bools."""
    product = stage.statement
    assert isinstance(product, Product), "a chunk has products"
    values = (s.value for s in product.body if isinstance(s, Let))
    column = product.columns[0]
    return any(
        mentions(value.index, column)
        for value in values
        if isinstance(value, IndexValue) or (isinstance(value, Load) and value.dtype.is_bool)
    )


def in_chunk(
    product: Product, axis: Axis, chunks: ColumnChunks, buffers: frozenset[str]
) -> Product:
    """Return what a product of a block does with chunk number CHUNK of its columns.

    The places in `buffers` are those of a chunk.
    """
    variable, size = getattr(product, axis)[0], chunks.size
    place = index_of((CHUNK, size), (variable, 1))

    def change(buffer: str, index: Index) -> tuple[str, Index]:
        if buffer in buffers:
            return buffer, index
        return buffer, substitute_variable(index, variable, place)

    lhs, rhs = product.lhs, product.rhs
    if axis in ("rows", "inner"):
        lhs = _in_chunk(lhs, "rows" if axis == "rows" else "columns", size, buffers)
    if axis in ("columns", "inner"):
        rhs = _in_chunk(rhs, "columns" if axis == "columns" else "rows", size, buffers)
    changed = replace(product, lhs=lhs, rhs=rhs, body=with_places(product.body, change))
    match axis:
        case "rows":
            return replace(changed, rows=(variable, size))
        case "columns":
            return replace(changed, columns=(variable, size))
        case "inner":
            return replace(changed, inner=(variable, size))


def _in_chunk(
    operand: StridedOperand, along: Literal["rows", "columns"], size: int, buffers: frozenset[str]
) -> StridedOperand:
    """Return what a product reads of an operand for a chunk along one of its axes."""
    if operand.buffer in buffers:
        return operand
    stride = operand.rows if along == "rows" else operand.columns
    digits = operand.column_digits if along == "columns" else ()
    step = size * stride
    if digits:
        ((panel, by),) = digits
        assert size % panel == 0, "panels lie within chunks"
        step = size // panel * by
        if size == panel:
            operand = replace(operand, column_digits=())
    return replace(operand, index=scaled_sum([(operand.index, 1), (index_of((CHUNK, step)), 1)]))


def last_chunk(body: Sequence[Stmt], chunks: ColumnChunks) -> tuple[Stmt, ...]:
    """Return statements of a chunk as they are for the last one."""
    last = Index(chunks.columns // chunks.size - 1)
    return map_indices(body, lambda index: substitute_variable(index, CHUNK, last))
