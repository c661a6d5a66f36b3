"""Loop IR, the loop language: what a kernel can say.

A kernel is a list of loop nests over flat buffers, in three-address form: a statement computes one
operation of atoms (`Ref` or `Const`), so no consumer recurses over expressions. Everything is a
frozen dataclass compared by value; each docstring shows the printed form. The language knows no
tensors and no machines: a schedule is written in it as `vector(16)` or `parallel(512)`. Indices,
and matrices that are walked through by them, are in `strided.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from symgrad.codegen.loops.blocking import Blocking, Share
from symgrad.codegen.loops.sort_rows import SortRows as SortRows
from symgrad.codegen.loops.strided import NO_SHIFT, Diagonals, PrefetchedPart
from symgrad.codegen.loops.strided import Index as Index
from symgrad.codegen.loops.strided import IndexAtom as IndexAtom
from symgrad.codegen.loops.strided import Modulus as Modulus
from symgrad.codegen.loops.strided import Quotient as Quotient
from symgrad.codegen.loops.strided import StridedOperand as StridedOperand
from symgrad.codegen.loops.strided import ZeroBorder as ZeroBorder
from symgrad.cost_model import WORTH_NARROW
from symgrad.graph.dtypes import DType
from symgrad.graph.structures import CHECKED, Bound
from symgrad.records import dataclass

Number = bool | int | float


# --------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Const:
    """`0.5` of a dtype."""

    value: Number
    dtype: DType


@dataclass(frozen=True, slots=True)
class Ref:
    """`t3`: the value that a statement before bound to a name."""

    name: str
    dtype: DType


Atom = Const | Ref


@dataclass(frozen=True, slots=True)
class Load:
    """`x[4*i + j]`: an element of a buffer."""

    buffer: str
    index: Index
    dtype: DType


@dataclass(frozen=True, slots=True)
class Op:
    """`tanh(t3)`: an operation of `SCALAR_OPS`; `dtype` is that of the result."""

    name: str
    args: tuple[Atom, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Select:
    """`select(t1, t2, t3)`."""

    condition: Atom
    chosen: Atom
    otherwise: Atom
    dtype: DType


@dataclass(frozen=True, slots=True)
class Cast:
    """`f64(t3)`: conversion to `dtype`."""

    value: Atom
    dtype: DType


@dataclass(frozen=True, slots=True)
class IndexValue:
    """`index(4*i + j)`: an index as an int64 value."""

    index: Index
    dtype: DType


@dataclass(frozen=True, slots=True)
class BinarySearch:
    """`count_less(t3, x[1000*i], 1000)`: how many of 1000 sorted elements are less than a value.

    With `or_equal` (`count_less_equal`) those that are equal count too. nan is greater than every
    number and equal to itself.
    """

    value: Atom
    buffer: str
    index: Index
    stride: int
    length: int
    or_equal: bool
    dtype: DType


# What names a place, and so uses the variables of loops around it.
Indexed = Load | IndexValue | BinarySearch
Expr = Const | Ref | Op | Select | Cast | Indexed


# ---------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Let:
    """`t4: f32 = tanh(t3)`."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """`y[i] = t4`; past the caches, where vectors are whole lines of one, if it `is_streamed`."""

    buffer: str
    index: Index
    value: Atom
    is_streamed: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """`check r = t4 in 10 else 3`: bind the index r to an int64 value that must lie in -10..9.

    A negative value counts from the end; in the strict `check r = t4 in 0..10 else 3` it does not.
    Outside the kernel stops with status 3 and the value is reported; but `clamp r = t4 in 10` takes
    the nearest of 0..9, and `known r = t4 in 10` says that it is one of them: these have the status
    0. In a vector the first lane that is outside is reported.
    """

    name: str
    value: Atom
    extent: int
    status: int
    bound: Bound = "wrap"

    @property
    def can_fail(self) -> bool:
        return self.bound in CHECKED


@dataclass(frozen=True, slots=True)
class For:
    """`for i in 0..320 vector(16) { ... }`: iterations that do not depend on each other.

    `vector` iterations are computed side by side in vector registers; what is left over at the end
    is one narrower vector if it is a power of two, and else a few of them where the loop is short,
    or computed one by one. Two vectorized loops around each other are computed in squares, which
    leave nothing over. With `interleave(4)` it is four such vectors at a time, as long as there are
    four. One that `prefetches` (printed as a mark) also prefetches what the loop around it reads at
    the same place of its next iteration, or of rows, some of what a loop over matrices around them
    touches in its next one; or, with no loop around, what it reads and writes itself a page
    further, or for lines that it writes when all is computed. `ordered` (printed as a mark) says
    that iterations do depend on each other and are taken one after another. With `parallel(512)`
    the iterations are cut into parts of 512, multiples of `vector`, each the work of a thread. If
    checks fail, what counts is the first failure of the first part that has one.
    """

    var: str
    extent: int
    body: tuple[Stmt, ...]
    vector: int = 1
    ordered: bool = False
    parallel: int | None = None
    interleave: int = 1
    prefetches: bool = False

    @property
    def widths(self) -> tuple[int, ...]:
        """How many iterations are taken at a time, first and in what each leaves over."""
        whole, left = divmod(self.extent, self.vector)
        parts = {1 << bit for bit in range(left.bit_length()) if left >> bit & 1}
        if len(parts) > 1 and whole > left * WORTH_NARROW:
            parts = set()
        widths = {self.vector * self.interleave, self.vector, *parts, 1}
        return tuple(sorted(widths, reverse=True))

    def vectors(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield where each vector of iterations `first` to `last - 1` begins and ends."""
        for width in self.widths:
            while last - first >= width:
                yield first, first + width
                first += width

    @property
    def parts(self) -> int:
        """Into how many parts the iterations are cut, 1 if they are not parallel."""
        return 1 if self.parallel is None else max(1, -(-self.extent // self.parallel))


@dataclass(frozen=True, slots=True)
class Accumulator:
    """`s: f32 = 0.0`: one value a fold carries, with its identity element."""

    name: str
    identity: Const


@dataclass(frozen=True, slots=True)
class Combining:
    """What folds and prefix scans have: accumulators, items, and how two sides are combined."""

    accumulators: tuple[Accumulator, ...]
    var: str
    extent: int
    lanes: int
    body: tuple[Stmt, ...]
    items: tuple[Atom, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]
    combine: tuple[Let, ...]
    combined: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Fold(Combining):
    """A reduction; its results are bound to the names of the accumulators.

        fold s: f32 = 0.0 for k in 0..784 lanes(32) {
          t1: f32 = x[784*i + k]
          yield t1
        } combine (a0) (b0) {
          c0: f32 = add(a0, b0)
          yield c0
        }

    With `lanes(n)`, n a power of two, the first extent - extent % n elements go to n partial
    results, element k to partial result k % n in the order of k; these are combined by halves (0
    with n/2, 1 with n/2 + 1, ...), and the elements that are left are combined onto the result one
    by one. The order is thereby fixed, whatever the machine's vectors are. An item that does not
    depend on the fold's variable is one like any other. One that `prefetches` brings near what the
    next iteration of the loop around reads of windows; or with lanes, of rows, what loops behind it
    read first at the same place, or what it reads further on if no other loop is along them.
    """

    prefetches: bool = False


@dataclass(frozen=True, slots=True)
class Prefix(Combining):
    """A prefix scan: a reduction of the elements up to each, and what is done with it.

        prefix s: f32 = -0.0 for k in 0..784 { ... } combine (a0) (b0) { ... } each { y[k] = s }

    `each` is run for every k, where the names of the accumulators are the results of elements 0 to
    k, or with the mark `exclusive` of those before k. One that is `ordered` has no lanes: elements
    are combined one after another.

    With `lanes(n)`, n a power of two, elements are taken in blocks of n while so many are left,
    then of n/2, and so on. In a block, each item is combined with the one 1 before it (the identity
    if that is outside of the block), what comes of it with that 2 before, then 4, up to half a
    block; then what the blocks before have come to with each, or if exclusive with the one before
    each, but that a block of one element takes it as it is. No machine's vectors decide the order.
    """

    each: tuple[Stmt, ...]
    exclusive: bool = False
    ordered: bool = False

    @property
    def has_values_as_indices(self) -> bool:
        """Whether an index in it is data: it then has no lanes."""
        return any(isinstance(s, Check) for s in inside(self))

    @property
    def blocks(self) -> Iterator[tuple[int, int, int]]:
        """The blocks of one size: their first element, the one behind their last, and the size."""
        start, size = 0, self.lanes
        while size:
            if count := (self.extent - start) // size * size:
                yield start, start + count, size
            start, size = start + count, size // 2


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product, with what is done to each finished element.

        product s: f32 for (m in 0..128) (n in 0..512) (k in 0..784)
            a[0] by (784, 1) * b[0] by (512, 1) tile(14, 32) ... {
          y[512*m + n] = s
        }

    The body is run for vectors of elements, or for each if an index in it is data that differs
    along them. The sums are taken in `dtype` over elements of `element`; `scratch` is the buffer
    the product works in, if any. Parts of the product, or of a loop around it, are the work of a
    thread each, with its own part of `scratch`. `borders` are what is known of zeros in `lhs`, and
    where it has none. Results not on the diagonals `read` may be any number. Those of both lie
    `shift` further on. It `prefetches` caches for a part of the next matrices of a loop around.
    """

    name: str
    dtype: DType
    element: DType
    rows: tuple[str, int]
    columns: tuple[str, int]
    inner: tuple[str, int]
    lhs: StridedOperand
    rhs: StridedOperand
    blocking: Blocking
    scratch: str | None
    body: tuple[Stmt, ...]
    parallel: Share | None = None
    borders: tuple[ZeroBorder, ...] = ()
    read: Diagonals | None = None
    shift: Index = NO_SHIFT
    prefetches: PrefetchedPart | None = None

    @property
    def parts(self) -> int:
        """Into how many parts the result is cut, 1 if it is not parallel."""
        return 1 if self.parallel is None else self.parallel.parts


Binding = Let | Check
Plain = Let | Store | Check  # what has no body
# What has a generator of its own: no loop around is a vector, and it may have scratch memory.
Generated = Product | SortRows
# What has iterations that threads may share, and what has a body that runs again and again.
Parallel = For | Generated
Reduction = Fold | Prefix
Loop = For | Product | Reduction
Stmt = Let | Store | Check | SortRows | Loop


# ------------------------------------------------------------------------------------- kernels

Mode = Literal["in", "out", "inout", "scratch"]


@dataclass(frozen=True, slots=True)
class Param:
    """`in x: f32[320]`: a buffer of `count` elements; no two parameters overlap."""

    name: str
    dtype: DType
    count: int
    mode: Mode

    @property
    def nbytes(self) -> int:
        return self.count * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Kernel:
    """`kernel @fused_3(in x: f32[320], out y: f32[320]) { ... }`."""

    name: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]

    @property
    def can_fail(self) -> bool:
        """Whether the kernel has a `Check`, and so returns a status."""
        return has_check(self.body)


def square_of(loop: For) -> For | None:
    """Return the loop of vectors that is all of the body of one, None if there is no such loop.

    The two are taken in squares of so many rows and columns, transposed in registers.
    """
    if loop.vector == 1 or len(loop.body) != 1:
        return None
    inner = loop.body[0]
    return inner if isinstance(inner, For) and inner.vector > 1 else None


def has_check(body: tuple[Stmt, ...]) -> bool:
    """Return whether a statement, at any depth, is a `Check` that can fail."""
    for s in body:
        if s.can_fail if isinstance(s, Check) else isinstance(s, Loop) and has_check(inside(s)):
            return True
    return False


def inside(loop: Loop) -> tuple[Stmt, ...]:
    """Return the statements of a loop that run again and again, but for those that combine."""
    return (*loop.body, *loop.each) if isinstance(loop, Prefix) else loop.body
