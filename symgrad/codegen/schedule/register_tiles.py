"""Register tiling of transposes: squares are transposed in vector registers.

    for i in 0..64 {
      for j in 0..3136 vector(16) {
        t: f32 = x[3136*i + j]
        y[i + 64*j] = t
      }
    }

becomes

    for j in 0..3136 vector(16) {
      for i in 0..64 vector(16) {
        ...

which is a square of 16 rows and 16 columns at a time: x is loaded along j, y is stored along i, and
shuffles make of one the other. Before, an element was stored on its own, to a line of the cache of
its own. Loops between the two are taken around them (loop interchange). What squares leave over of
either loop is a nest of its own behind them. No element depends on another: no result changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symgrad.codegen.loops.access import body_flops
from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Check,
    Fold,
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
    has_check,
)
from symgrad.codegen.loops.rewrite import map_indices, mentions, substitute_variable
from symgrad.codegen.schedule.vectorize import nested
from symgrad.cost_model import LEAST_IN_SQUARES, MOST_OF_SQUARE, SQUARES
from symgrad.graph.dtypes import DType
from symgrad.records import replace


def transpose_in_registers(kernel: Kernel) -> Kernel:
    """Return `kernel` with its loops that walk across the rows of a buffer taken in squares."""
    return replace(kernel, body=_in_squares(kernel.body))


def _in_squares(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    result: list[Stmt] = []
    for statement in body:
        if not isinstance(statement, For) or statement.ordered:
            result.append(statement)
        elif (nest := _nest(statement)) is not None and (outer := _across(nest)) is not None:
            result += _squares(nest, outer)
        else:
            result.append(replace(statement, body=_in_squares(statement.body)))
    return tuple(result)


def _nest(loop: For) -> list[For] | None:
    """Return loops that are all of each other's body, down to a vectorized one; None without it."""
    loops = [loop]
    while len(loops[-1].body) == 1 and isinstance(inner := loops[-1].body[0], For):
        loops.append(inner)
    *around, inner = loops
    if inner.vector == 1 or has_check(inner.body):
        return None
    if any(isinstance(s, Loop) for s in inner.body) or any(around.ordered for around in loops):
        return None
    return loops if around else None


def _across(nest: Sequence[For]) -> For | None:
    """Return the loop along which squares of the innermost one are stored or loaded, or None."""
    *around, inner = nest
    accesses = list(_accesses(inner.body))
    costs = len(inner.body) + body_flops(inner.body)
    if costs > MOST_OF_SQUARE or None in accesses:
        return None
    for outer in reversed(around):
        turned = [a for a in accesses if a is not None and _is_turned(a, outer.var, inner.var)]
        straight = [a for a in accesses if a is not None and _is_straight(a, inner.var)]
        is_worth_it = _width(outer, inner) > 1 and outer.extent * inner.extent >= LEAST_IN_SQUARES
        if turned and len(turned) <= 2 and len(turned) + len(straight) == len(accesses):
            return outer if is_worth_it else None
    return None


def _width(outer: For, inner: For) -> int:
    """Return the width of squares of two loops: of a vector, or less where one of them is short."""
    most = min(inner.vector, outer.extent, inner.extent)
    return max((width for width in SQUARES if width <= most), default=1)


_Access = tuple[Index, DType]


def _accesses(body: Sequence[Stmt]) -> Iterator[_Access | None]:
    """Yield what is loaded and stored; None for what no vector is loaded or stored of."""
    for statement in body:
        match statement:
            case Let(_, Load(_, index, dtype)):
                yield index, dtype
            case Store(_, index, value):
                yield index, value.dtype
            case Let():
                pass
            case Check() | For() | Fold() | Prefix() | Product() | SortRows():
                yield None


def _is_turned(access: _Access, outer: str, inner: str) -> bool:
    index, dtype = access
    is_even = not _is_within(index, outer) and not _is_within(index, inner)
    is_across = index.coefficient(outer) == 1 and abs(index.coefficient(inner)) > 1
    return is_even and is_across and dtype.itemsize in (4, 8)


def _is_straight(access: _Access, inner: str) -> bool:
    index, _ = access
    return not _is_within(index, inner) and index.coefficient(inner) in (-1, 0, 1)


def _is_within(index: Index, variable: str) -> bool:
    """Return whether a quotient or a modulus in an index depends on a variable."""
    rest = tuple(term for term in index.terms if term[0] != variable)
    return mentions(Index(0, rest), variable)


def _squares(nest: Sequence[For], outer: For) -> list[Stmt]:
    """Return the nest with `outer` in squares with the innermost loop, and what they leave over."""
    *around, inner = nest
    width = _width(outer, inner)
    rows, columns = (loop.extent // width * width for loop in (outer, inner))
    square = [
        replace(outer, extent=rows, vector=width),
        replace(inner, extent=columns, vector=width),
    ]
    # What is written goes on line after line in few places: more pages than those are slow.
    if any(isinstance(s, Store) and s.index.coefficient(outer.var) == 1 for s in inner.body):
        square.reverse()
    body: list[Stmt] = [nested(square, inner.body)]
    if columns < inner.extent:
        body.append(replace(outer, body=(_from(inner, columns),)))
    if rows < outer.extent:
        rest = replace(outer, body=(replace(inner, extent=columns),))
        body.append(_from(rest, rows))
    between = [loop for loop in around if loop is not outer]
    return [nested(between, tuple(body))] if between else body


def _from(loop: For, start: int) -> For:
    """Return the iterations of a loop from `start` on, counted from 0."""
    behind = index_of((loop.var, 1), const=start)
    body = map_indices(loop.body, lambda index: substitute_variable(index, loop.var, behind))
    return replace(loop, body=body, extent=loop.extent - start)
