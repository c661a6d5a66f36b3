"""Dependence analysis by rows: what of a kernel can be done for some rows of matrices at a time.

    product s: f32 for (i in 0..1024) (j in 0..1024) (k in 0..64) ... { x[1024*i + j] = s }
    for i in 0..1024 { ... x[1024*i + j] ... y[1024*i + j] = t }
    product s: f32 for (m in 0..1024) (n in 0..64) (i in 0..1024) y[0] by (1, 1024) * ... { ... }

are stages over the rows i. The second reads of `x` only what the first has written for the same
row, and the third adds up rows of `y`. So all three may be done for a block of rows, and then for
the next one (`row_blocks.py`). There may be such matrices in a batch, with loops around.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from symgrad.codegen.loops.index_arithmetic import bounds, index_of
from symgrad.codegen.loops.language import (
    BinarySearch,
    Check,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import (
    is_free_of,
    map_indices,
    mentions,
    statements,
    substitute_variable,
)
from symgrad.codegen.schedule.vectorize import perfect_nest
from symgrad.cost_model import LONG_ROW, MUCH_MADE
from symgrad.records import dataclass, replace

ROW = "row"  # the variable that counts rows in a statement that is none, or the axis of, a product
Axis = Literal["rows", "columns", "inner"]
_AXES: tuple[Axis, ...] = ("rows", "inner", "columns")


@dataclass(frozen=True, slots=True)
class MatrixRows:
    """So many rows of each matrix of a batch, whose axes have the extents `batch`."""

    batch: tuple[int, ...]
    count: int

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of the loops over the batch."""
        return tuple(f"batch{number}" for number in range(len(self.batch)))


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Where rows lie: steps by the axes of the batch and by rows, and the elements of a row."""

    steps: tuple[int, ...]
    length: int


# Of what has been written, None of what no stage may read behind it.
Layouts = Mapping[str, RowLayout | None]


@dataclass(frozen=True, slots=True)
class Stage:
    """A product whose rows are along `axis`, or a loop over ROW; loops over the batch are around.

    A product that has them along "inner" is a sum over rows.
    """

    statement: For | Product
    axis: Axis | None

    @property
    def is_sum(self) -> bool:
        return self.axis == "inner"

    @property
    def row(self) -> str:
        """The variable that counts rows."""
        if self.axis is None:
            return ROW
        variable: str = getattr(self.statement, self.axis)[0]
        return variable


def product_rows(kernel: Kernel) -> MatrixRows | None:
    """Return the rows of the result of a kernel that is a product, None if it is none.

    It makes much of what it reads, so that it is worth little to have that in memory.
    """
    if len(kernel.body) != 1:
        return None
    loops, product = _around_product(kernel.body[0])
    if product is None:
        return None
    (row, m), (column, n), (_, k) = product.rows, product.columns, product.inner
    stores = [s.index for s in product.body if isinstance(s, Store)]
    is_by_rows = all(s.coefficient(row) > s.coefficient(column) for s in stores)
    if not stores or not is_by_rows or (m + n) * k > MUCH_MADE * m * n:
        return None
    rows = MatrixRows(tuple(loop.extent for loop in loops), m)
    # Of one matrix alone the right operand is as likely a weight, which products read at a time.
    is_long = math.prod(rows.batch) > 1 or n >= LONG_ROW * k
    return rows if is_long else None


def stages_of(
    kernel: Kernel, rows: MatrixRows, written: Layouts
) -> tuple[tuple[Stage, ...], Layouts] | None:
    """Return the stages that a kernel is, and what is `written` behind them; None if it is none."""
    is_plain = is_free_of(kernel.body, Check | SortRows | Prefix) and not _searches(kernel.body)
    if not is_plain or any(p.mode == "inout" for p in kernel.params):
        return None
    layouts = dict(written)
    stages = []
    for statement in kernel.body:
        candidates = _candidates(statement, rows)
        stage = next((c for c in candidates if _is_by_rows(c, rows, layouts)), None)
        if stage is None:
            return None
        stages.append(stage)
        layouts.update(_written(stage, rows))
    return tuple(stages), layouts


def row_accesses(stage: Stage) -> Iterator[tuple[str, Index, bool]]:
    """Yield the places in buffers that a stage touches, and whether it writes there."""
    statement = stage.statement
    if isinstance(statement, Product):
        (row, _), (column, _), (term, _) = statement.rows, statement.columns, statement.inner
        for operand, down, across in ((statement.lhs, row, term), (statement.rhs, term, column)):
            steps = ((down, operand.rows), (across, operand.columns))
            terms = (*operand.index.terms, *steps)
            yield operand.buffer, index_of(*terms, const=operand.index.const), False
    yield from accesses(statement.body)


def accesses(body: Sequence[Stmt]) -> Iterator[tuple[str, Index, bool]]:
    """Yield the places that statements load and store, in order, and whether they write there."""
    for inner in statements(body):
        if isinstance(inner, Store):
            yield inner.buffer, inner.index, True
        elif isinstance(inner, Let) and isinstance(inner.value, Load):
            yield inner.value.buffer, inner.value.index, False


def _searches(body: Sequence[Stmt]) -> bool:
    return any(isinstance(s, Let) and isinstance(s.value, BinarySearch) for s in statements(body))


# ----------------------------------------------------------------------------------- candidates


def _around_product(statement: Stmt) -> tuple[list[For], Product | None]:
    """Return the loops around a product, which is all that is in them, and the product."""
    if isinstance(statement, Product):
        return [], statement
    if not isinstance(statement, For):
        return [], None
    loops, body = perfect_nest(statement)
    found = body[0] if len(body) == 1 else None
    is_free = all(loop.vector == 1 and not loop.ordered for loop in loops)
    return loops, found if isinstance(found, Product) and is_free else None


def _candidates(statement: Stmt, rows: MatrixRows) -> Iterator[Stage]:
    """Yield a statement as a stage, with each axis of its size for that of the rows."""
    batch = list(zip(rows.names, rows.batch, strict=True))
    loops, product = _around_product(statement)
    if product is not None:
        places = _places(loops, batch)
        if places is None:
            return
        (moved,) = _substituted((replace(product, parallel=None, scratch=None),), places)
        assert isinstance(moved, Product), "a product stays one"
        along = (axis for axis in _AXES if getattr(moved, axis)[1] == rows.count)
        yield from (Stage(moved, axis) for axis in along if not _has_digits(product, axis))
    elif isinstance(statement, For) and is_free_of(statement.body, Product):
        loops, _ = perfect_nest(statement)
        ways = (loops[: number + 1] for number in range(len(loops)))
        found = next((w for w in ways if _places(w, [*batch, (ROW, rows.count)]) is not None), None)
        if found is None or any(loop.ordered for loop in found):
            return
        places = _places(found, [*batch, (ROW, rows.count)])
        assert places is not None, "so it was chosen"
        if all(loop.vector == 1 for loop in found[:-1]):
            body = _substituted(found[-1].body, places)
            loop = replace(found[-1], var=ROW, extent=rows.count, body=body, parallel=None)
            yield Stage(loop, None)


def _has_digits(product: Product, axis: Axis) -> bool:
    """Return whether a stage meets digits but those of columns that each of its rows has."""
    lhs, rhs = product.lhs, product.rhs
    are_columns_cut = bool(rhs.column_digits) and axis != "rows"
    has_any = bool(lhs.row_digits or lhs.column_digits or rhs.row_digits)
    return has_any or are_columns_cut or bool(product.borders)


def _places(loops: Sequence[For], axes: Sequence[tuple[str, int]]) -> dict[str, Index] | None:
    """Return what the variables of loops are that go through all `axes`, None if they do not.

    A loop goes through one of them, or through several that follow one another.
    """
    places: dict[str, Index] = {}
    left = [(name, extent) for name, extent in axes if extent > 1]
    for loop in loops:
        taken: list[tuple[str, int]] = []
        while left and math.prod(n for _, n in taken) < loop.extent:
            taken.append(left.pop(0))
        if math.prod(n for _, n in taken) != loop.extent:
            return None
        steps = ((v, math.prod(n for _, n in taken[i + 1 :])) for i, (v, _) in enumerate(taken))
        places[loop.var] = index_of(*steps)
    return None if left else places


def _substituted(body: Sequence[Stmt], places: Mapping[str, Index]) -> tuple[Stmt, ...]:
    def change(index: Index) -> Index:
        for variable, place in places.items():
            index = substitute_variable(index, variable, place)
        return index

    return map_indices(body, change)


# ----------------------------------------------------------------------------------- dependences


def _extents(stage: Stage) -> dict[str, int]:
    """Return the extents of what counts elements within a row."""
    statement = stage.statement
    found: dict[str, int] = {}
    if isinstance(statement, Product):
        found = dict((statement.rows, statement.columns, statement.inner))
        del found[stage.row]
    inner = (s for s in statements(statement.body) if isinstance(s, Loop))
    return found | {s.var: s.extent for s in inner if not isinstance(s, Product)}


def _split(index: Index, names: Sequence[str]) -> tuple[tuple[int, ...], Index] | None:
    """Return the steps of an index by batch and rows, and the rest; None where some are hidden."""
    steps = tuple(index.coefficient(name) for name in names)
    rest = index_of(*((a, c) for a, c in index.terms if a not in names), const=index.const)
    return None if any(mentions(rest, name) for name in names) else (steps, rest)


def _is_by_rows(stage: Stage, rows: MatrixRows, written: Layouts) -> bool:
    """Return whether a stage reads of what is `written`, also by itself, the same row only."""
    own = _written(stage, rows)
    if not own.keys().isdisjoint(written):
        return False
    names = (*rows.names, stage.row)
    extents = _extents(stage)
    layouts = {**written, **own}
    for buffer, index, is_written in row_accesses(stage):
        if is_written:
            if stage.is_sum and mentions(index, stage.row):
                return False
        elif buffer in layouts:
            layout, split = layouts[buffer], _split(index, names)
            if layout is None or split is None or split[0] != layout.steps:
                return False
            low, high = bounds(split[1], extents)
            if low < 0 or high >= layout.length:
                return False
    return True


def _written(stage: Stage, rows: MatrixRows) -> dict[str, RowLayout | None]:
    """Return the layout of what a stage writes: None of sums, and of rows that have gaps."""
    found: dict[str, RowLayout | None] = {}
    extents = _extents(stage)
    for buffer, index, is_written in row_accesses(stage):
        if not is_written:
            continue
        split = None if stage.is_sum else _split(index, (*rows.names, stage.row))
        layout = None
        if split is not None:
            steps, rest = split
            low, high = bounds(rest, extents)
            count = math.prod(extents[atom] for atom, _ in rest.terms if isinstance(atom, str))
            is_dense = low == 0 and count == high + 1
            layout = RowLayout(steps, high + 1) if is_dense else None
        found[buffer] = layout if found.get(buffer, layout) == layout else None
    return found
