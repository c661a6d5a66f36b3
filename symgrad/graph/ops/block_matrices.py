"""Block algorithms: pieces of matrices, products of them, and functions that programs share.

All matrices here have three axes, of which the first counts them, and known sizes. No op is
declared here. An op of linear algebra is a Call of the graph that `expansion` traces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.graph import dtypes
from symgrad.graph.build import current_region, enclosing_regions, inside
from symgrad.graph.graph import Graph
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import subtract
from symgrad.graph.ops.calls import call
from symgrad.graph.ops.contraction import contract
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.slicing import concat, slice_axes
from symgrad.graph.ops.structure import permute_dims, reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.ops.windows import write_window
from symgrad.graph.structures import Call
from symgrad.graph.types import TensorType

WRITTEN_OUT = 16  # rows of a matrix whose algorithm is written out
BLOCK = 64  # rows of a block of a large matrix: as deep as a product must be to be fast
PART_BYTES = 1 << 16  # of the matrices of a batch that are factorised together
LANES = 8  # of a vector
BYTES_OF_VECTOR = 64  # parts of a multiple of its lanes leave none over
LEAST_PART = 16  # of them, so that vectors are full

Build = Callable[..., Sequence[Tensor]]


def expansion(build: Build, *operands: TensorType) -> Call:
    """Return the structure of an op that is computed by what `build` makes of its operands."""
    with inside(None):
        traced = Traced(getattr(build, "__name__", "expansion").strip("_"), operands)
    traced.run(build)
    return Call(traced.graph(()))


def shared(build: Build, *operands: Tensor, key: tuple[object, ...] = ()) -> list[Tensor]:
    """Call what `build` makes of operands of these types, which is one function for all calls.

    `key` is what else its result depends on; functions are told apart by their names.
    """
    top = enclosing_regions(current_region())[-1]
    full_key = (build.__name__, key, *(t.type for t in operands))
    found = top.traces.get(full_key)
    if found is None:
        with inside(top):
            traced = Traced(build.__name__.strip("_"), [t.type for t in operands])
        traced.run(build)
        found = top.traces[full_key] = traced.graph(())
    assert isinstance(found, Graph), f"{full_key} is something else"
    return list(call(found, operands).outputs)


def in_parts(
    build: Build, *operands: Tensor, nbytes: int = PART_BYTES, least: int = LEAST_PART
) -> list[Tensor]:
    """Return what `build` makes of operands that count matrices, for some matrices at a time.

    Of the largest operand they take `nbytes`, but they are `least` at least. So what is computed on
    the way stays in the cache. All results count matrices, too.
    """
    count = operands[0].type.static_shape[0]
    most = max(nbytes // (max(t.type.nbytes for t in operands) // count or 1), least)
    size = _part(count, most, BYTES_OF_VECTOR // operands[0].dtype.itemsize)
    if size == count:
        return list(build(*operands))
    parts = count // size
    stacks = [reshape(_first(t, parts * size), (parts, size, *t.shape[1:])) for t in operands]
    body = Traced("part", [t.type.with_shape(t.shape[1:]) for t in stacks])
    body.run(build)
    number = constant(parts, dtypes.int64)
    found = scan_loop(number, (), stacks, body, parts).outputs
    results = [reshape(t, (parts * size, *t.shape[2:])) for t in found]
    if parts * size == count:
        return results
    rest = build(*(narrow(t, 0, parts * size, count - parts * size) for t in operands))
    return [concat(pair, axis=0) for pair in zip(results, rest, strict=True)]


def _part(count: int, most: int, lanes: int) -> int:
    """Return how many of so many matrices are a part: if it can be, a divisor of their number.

    What fills vectors best is worth parts of up to three times the size.
    """
    if count <= 2 * most:
        return count
    sizes = range(most // 4 + 1, min(3 * most, count // 2) + 1)
    divisors = [size for size in sizes if count % size == 0]
    if not divisors:
        return most
    filled = {size: size / (-(-size // lanes) * lanes) for size in divisors}
    best = [size for size in divisors if filled[size] == max(filled.values())]
    return max((size for size in best if size <= most), default=best[0])


def _first(x: Tensor, size: int) -> Tensor:
    return narrow(x, 0, 0, size)


def block(x: Tensor, rows: tuple[int, int], columns: tuple[int, int]) -> Tensor:
    """Return the block of matrices from the first to before the last of rows and of columns."""
    start = (0, rows[0], columns[0])
    size = (x.shape[0], rows[1] - rows[0], columns[1] - columns[0])
    return x if size == x.shape else slice_axes(x, start, size, (1, 1, 1))


def write_block(x: Tensor, update: Tensor, row: int, column: int) -> Tensor:
    """Return matrices with a block of them written anew, from a row and a column on."""
    begins = [constant(place, dtypes.int64) for place in (row, column)]
    return write_window(x, update, begins, 1, True)


def transposed(x: Tensor) -> Tensor:
    """Exchange rows and columns."""
    return permute_dims(x, (0, 2, 1))


def product(
    a: Tensor, b: Tensor, *, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    """Multiply matrices, seen as transposed where it says so. One matrix has no batch."""
    left = "ki" if transpose_a else "ik"
    right = "jk" if transpose_b else "kj"
    if a.shape[0] == 1:
        one = contract(_only(a), _only(b), left, right, "ij")
        return reshape(one, (1, *one.shape))
    return contract(a, b, "b" + left, "b" + right, "bij")


def _only(x: Tensor) -> Tensor:
    return reshape(x, x.shape[1:])


def less_product(
    c: Tensor, a: Tensor, b: Tensor, *, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    """Return c - a @ b."""
    return subtract(c, product(a, b, transpose_a=transpose_a, transpose_b=transpose_b))


def to_columns(x: Tensor) -> Tensor:
    """Return matrices (count, m, n) as columns of elements (m * n, count)."""
    count, m, n = x.type.static_shape
    return permute_dims(reshape(x, (count, m * n)), (1, 0))


def cuts(n: int, size: int) -> list[tuple[int, int]]:
    """Return where blocks of up to `size` begin and end."""
    return [(i, min(i + size, n)) for i in range(0, n, size)]
