"""Well-formedness rules of the loop IR for a name, a constant, a mark or a statement alone.

`verify.py` walks a kernel and asks; each function raises AssertionError with what is wrong.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import assert_never

from symgrad.codegen.loops.blocking import Blocking
from symgrad.codegen.loops.language import (
    Check,
    Const,
    For,
    Index,
    Loop,
    Op,
    Param,
    Product,
    Reduction,
    SortRows,
    Stmt,
    Store,
    ZeroBorder,
    inside,
    square_of,
)
from symgrad.codegen.loops.print import print_index
from symgrad.codegen.loops.strided import NO_SHIFT, tiles_along
from symgrad.graph.dtypes import DType, bool_
from symgrad.graph.scalars import SCALAR_OPS, Takes

MAX_LANES = 1024

_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)
# Words that begin or end a statement, or are constants.
_KEYWORDS = frozenset(
    (
        *("for", "fold", "prefix", "check", "clamp", "product", "sort", "yield"),
        *("true", "false", "inf", "nan"),
    )
)


@lru_cache(maxsize=4096)
def verify_name(name: str) -> None:
    """Verify that `name` is one; kernels use few, again and again."""
    assert _NAME.fullmatch(name), f"{name!r} is no name"
    assert name not in _KEYWORDS, f"{name} is a word of the language"


def verify_bounds(
    param: Param, low: int, high: int, index: Index, *, is_first: bool = False
) -> None:
    """Verify that elements `low` to `high` are in a buffer, at an index or of a row from there."""
    if low >= 0 and high < param.count:
        return
    text = print_index(index) + (", ..." if is_first else "")
    raise AssertionError(f"{param.name}[{text}] reaches {low}..{high}, of {param.count} elements")


def verify_const(const: Const) -> None:
    """Verify that the value of a constant is one of its dtype."""
    dtype, value = const.dtype, const.value
    if dtype.is_float:
        return
    assert not isinstance(value, float), f"{value} is no constant of {dtype}"
    low = -(1 << (dtype.bits - 1)) if dtype.kind == "signed" else 0
    assert low <= value < low + (1 << dtype.bits), f"{value} does not fit {dtype}"


def verify_power(what: str, number: int) -> None:
    """Verify that a count of lanes is a power of two, and no huge one."""
    is_power = number > 0 and number & (number - 1) == 0
    assert is_power, f"{what}({number}) is no power of two"
    assert number <= MAX_LANES, f"{what}({number}) is above {MAX_LANES}"


def verify_counts(fold: Reduction) -> None:
    """Verify that a reduction has as many items, sides and results as accumulators."""
    count = len(fold.accumulators)
    assert count > 0, f"a {type(fold).__name__.lower()} has no accumulator"
    lengths = [len(part) for part in (fold.items, fold.left, fold.right, fold.combined)]
    assert lengths == [count] * 4, f"{count} accumulators, but {lengths} items, sides and results"


def verify_product_dtypes(product: Product) -> None:
    """Verify that the sums of a product hold what is added up."""
    element, dtype = product.element, product.dtype
    holds = dtype.kind == element.kind and dtype.bits >= element.bits and dtype.bits > 1
    assert holds, f"sums of {element} in {dtype}"
    assert not dtype.is_half, f"sums in {dtype}: halves are computed in f32"


def verify_digits(product: Product) -> None:
    """Verify that digits of an axis divide it, and that both operands count k in the same."""
    m, n, k = product.rows[1], product.columns[1], product.inner[1]
    lhs, rhs = product.lhs, product.rhs
    axes = (
        (lhs.row_digits, m),
        (lhs.column_digits, k),
        (rhs.row_digits, k),
        (rhs.column_digits, n),
    )
    for digits, extent in axes:
        places = [1, *(place for place, _ in digits), extent]
        is_even = all(low > 0 and high % low == 0 for low, high in itertools.pairwise(places))
        assert is_even or not digits, f"digits {digits} do not divide {extent} steps"
    both = [[place for place, _ in digits] for digits in (lhs.column_digits, rhs.row_digits)]
    assert both[0] == both[1], f"the operands count {product.inner[0]} by {both[0]} and {both[1]}"
    for border in product.borders:
        _verify_border(product, border)
    has_diagonal = product.read is not None or any(b.is_diagonal for b in product.borders)
    assert has_diagonal or product.shift == NO_SHIFT, "no diagonals are known that may be shifted"
    first, stop = product.read or (0, 1)
    assert first < stop, f"results from diagonal {first} to {stop} are read, which are none"


def verify_prefetched(product: Product, prefetching: frozenset[str]) -> None:
    """Verify that a product may prefetch next matrices, and that it says which lines of them."""
    prefetched = product.prefetches
    assert prefetched is None or product.name in prefetching, (
        f"{product.name} prefetches no matrices"
    )
    is_part = prefetched is None or (prefetched.first >= 0 and prefetched.lines > 0)
    assert is_part, f"{product.name} prefetches {prefetched}, which is no part of matrices"
    verify_power("steps of a line", 1 if prefetched is None else prefetched.steps)


def _verify_border(product: Product, border: ZeroBorder) -> None:
    """Verify that a border is one of digits of the rows and of the terms."""
    text = f"border of rows by {border.row_place} and terms by {border.term_place}"
    digits = (
        (product.rows, product.lhs.row_digits, border.row_place, border.row_count),
        (product.inner, product.lhs.column_digits, border.term_place, border.term_count),
    )
    for (variable, extent), above, place, count in digits:
        places = [1, *(place for place, _ in above), extent]
        assert place in places[:-1], f"{text}: {variable} has no such digit"
        following = places[places.index(place) + 1]
        assert following == place * count, f"{text}: {count} of {variable} are no digit"
    goes_on = min(border.row_step, border.term_step) > 0
    assert goes_on or (border.is_diagonal and border.term_step == 1 and not border.absent), (
        f"{text}: {border} does not go on"
    )
    assert border.first <= border.stop, f"{text}: {border} stops before it begins"


def verify_blocking(blocking: Blocking) -> None:
    """Verify the marks that say how a product is computed."""
    sizes = (*blocking.tile, *blocking.block)
    assert min(sizes) > 0, f"a size of tile{blocking.tile} block{blocking.block} is not positive"
    assert blocking.pack in ((), ("lhs",), ("rhs",), ("lhs", "rhs")), f"pack{blocking.pack}"
    assert blocking.along in ("m", "n"), f"along({blocking.along})"
    assert blocking.scratch >= 0, f"scratch({blocking.scratch})"


def verify_cut(loop: For) -> None:
    """Verify the mark of a parallel loop."""
    size = loop.parallel
    assert size is not None, f"{loop.var} is not parallel"
    assert not loop.ordered, f"{loop.var} is both ordered and parallel"
    assert size > 0, f"parts of {size} iterations"
    assert size % loop.vector == 0, f"parts of {size} iterations cut vector({loop.vector})"


def verify_square(outer: For) -> bool:
    """Verify two vectorized loops around each other; return whether there are two."""
    inner = square_of(outer)
    if inner is None:
        return False
    where = f"squares of {outer.var} and {inner.var}"
    assert outer.vector == inner.vector, f"{where} are {outer.vector} by {inner.vector}"
    for loop in (outer, inner):
        assert loop.extent % loop.vector == 0, f"{where} leave over some of {loop.extent}"
        assert loop.interleave == 1, f"{where} are interleaved"
    assert inner.parallel is None, f"{where} are cut into parts"
    has_more = any(isinstance(s, Check | Loop) for s in inner.body)
    assert not has_more, f"{where} have loops or checks"
    return True


def verify_share(product: Product) -> None:
    """Verify the mark of a parallel product."""
    share = product.parallel
    assert share is not None, "the product is not parallel"
    assert share.axis in ("m", "n"), f"parts along {share.axis}"
    assert share.tiles > 0, f"parts of {share.tiles} tiles"
    high, wide = product.blocking.tile
    is_high = (share.axis == "n") == (product.blocking.along == "m")
    along_m = share.axis == "m"
    digits = product.lhs.row_digits if along_m else product.rhs.column_digits
    extent = (product.rows if along_m else product.columns)[1]
    least = tiles_along(digits, extent, high if is_high else wide)
    assert share.of >= least, f"parts of {share.of} tiles along {share.axis}, which has {least}"


def verify_sort(sort: SortRows) -> None:
    """Verify the sizes and the marks of a sort of rows."""
    sizes = (sort.rows, sort.length, sort.count, sort.scratch_bytes)
    assert min(sizes) >= 0, f"a size of {sizes} is negative"
    assert sort.count <= sort.length, f"{sort.count} are kept of {sort.length}"
    for operand in (sort.source, sort.result):
        digits = operand.row_digits + operand.column_digits
        assert not digits, f"{operand.buffer} has digits, and rows of a sort have none"
    assert sort.source.buffer != sort.result.buffer, f"{sort.source.buffer} is sorted in place"
    if sort.parallel is not None:
        assert sort.parallel > 0, f"parts of {sort.parallel} rows"


def verify_op(op: Op) -> None:
    """Verify the dtypes of an operation and how many arguments it has."""
    assert op.name in SCALAR_OPS, f"{op.name} is no scalar operation"
    row = SCALAR_OPS[op.name]
    assert len(op.args) == row.arity, f"{op.name} takes {row.arity}, not {len(op.args)}"
    dtype = op.args[0].dtype
    assert not dtype.is_half, f"{op.name} of {dtype}: halves are computed in f32"
    assert is_taken(row.takes, dtype), f"{op.name} takes {row.takes}, not {dtype}"
    gives = dtype if row.gives == "same" else bool_
    assert op.dtype == gives, f"{op.name} gives {gives}, not {op.dtype}"


def verify_scratch(what: str, buffer: Param | None, needed: int) -> None:
    """Verify that what a statement works in is as large as it says."""
    if buffer is None:
        assert needed == 0, f"the {what} needs {needed} bytes of scratch and has no buffer"
        return
    assert buffer.mode == "scratch", f"{buffer.name} is {buffer.mode} and not scratch"
    assert buffer.nbytes >= needed, (
        f"{buffer.name} has {buffer.nbytes} bytes, the {what} needs {needed}"
    )


def is_taken(takes: Takes, dtype: DType) -> bool:
    """Return whether an operation that takes `takes` takes `dtype`."""
    match takes:
        case "number":
            return not dtype.is_bool
        case "float":
            return dtype.is_float
        case "integer":
            return dtype.is_integer
        case "bits":
            return not dtype.is_float
        case "any":
            return True
        case _:
            assert_never(takes)


def vars_of(index: Index) -> frozenset[str]:
    """Return the variables that occur in an index, also within quotients."""
    atoms = (atom for atom, _ in index.terms)
    return frozenset().union(*({a} if isinstance(a, str) else vars_of(a.index) for a in atoms))


def stores_to(buffer: str, body: tuple[Stmt, ...]) -> bool:
    """Return whether a statement, at any depth, stores to `buffer`."""
    return any(
        (isinstance(s, Store) and s.buffer == buffer)
        or (isinstance(s, SortRows) and s.result.buffer == buffer)
        or (isinstance(s, Loop) and stores_to(buffer, inside(s)))
        for s in body
    )
