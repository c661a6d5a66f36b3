"""Sort plan: how the rows of a `SortRows` are sorted on a target, and the scratch that takes.

Shape, dtype and the width of the target's vectors decide on the plan. What comes out is the same
for every plan, since the order of the elements is.
"""

from __future__ import annotations

from typing import Literal

from symgrad.codegen import ir
from symgrad.codegen.loops.language import SortRows
from symgrad.codegen.target import Target
from symgrad.graph.dtypes import DType
from symgrad.records import dataclass

# Rows up to this length are sorted by one network; beyond, merging takes fewer comparisons. Floats
# are compared faster, which is more of what merging takes than of what a network does.
LONGEST_NETWORK = 256
LONGEST_NETWORK_OF_FLOATS = 128
# Comparisons of a vector that take as long as merging it.
MERGE_ROUNDS = 10
# A row has so many times the keys that are kept, or all of it is sorted.
SELECTED = 4

Form = Literal["alone", "packed", "pairs"]


@dataclass(frozen=True, slots=True)
class SortPlan:
    """How rows are sorted.

    What is compared are keys of `bits`: `alone`, `packed` with the position in their lower
    `position_bits`, or in `pairs` with it. A vector holds `lanes` of them, and `block` vectors are
    sorted in registers. Rows are sorted `across` the lanes, a row in each, as columns of `lines`
    vectors; or by `runs` along a row, each of `lines` vectors in registers, which are then merged
    in so many `levels`; what `cached` levels make fits a cache. If it `selects`, the runs are but
    a part of a row: what is kept of it, and elements that may replace some of that.
    """

    form: Form
    bits: int
    position_bits: int
    lanes: int
    block: int
    method: Literal["across", "runs", "parts"]
    lines: int
    runs: int
    cached: tuple[int, ...] = ()
    selects: bool = False
    packing: Literal["compress", "permute"] | None = None
    has_floats: bool = False

    @property
    def key_type(self) -> ir.Type:
        """The type of what is compared."""
        if not self.has_floats:
            return ir.IntType(self.bits)
        return ir.FloatType() if self.bits == 32 else ir.DoubleType()

    @property
    def run(self) -> int:
        """How many keys are sorted in registers, or side by side."""
        return self.lanes if self.method == "across" else self.lines * self.lanes

    @property
    def levels(self) -> int:
        """How often runs are merged."""
        return (self.runs - 1).bit_length()

    @property
    def planes(self) -> int:
        """How many arrays hold the keys and what goes with them."""
        return 2 if self.form == "pairs" else 1

    @property
    def padded(self) -> int:
        """How many keys of a row there are, those included that fill the last run."""
        # Behind the parts of a row as much as one holds is written over.
        return self.run * (self.runs + (self.method == "parts"))

    @property
    def plane_bytes(self) -> int:
        """The bytes of a plane, whole cache lines."""
        return -(-self.padded * self.bits // 512) * 64

    @property
    def copies(self) -> int:
        """How many arrays of keys there are: merges go from one to the other."""
        return 2 if self.method != "across" and self.runs > 1 else 1

    @property
    def depth(self) -> int:
        """How often a part of a row is cut: twice as often as if each pivot were the median."""
        return 2 * self.levels + 2

    @property
    def scratch_bytes(self) -> int:
        """The bytes of scratch memory."""
        return self.copies * self.planes * self.plane_bytes

    @property
    def reason(self) -> str:
        """Why the rows are sorted this way, in words."""
        held = {"alone": "keys", "packed": "keys with positions", "pairs": "pairs"}[self.form]
        if self.method == "across":
            return f"{self.lanes} rows side by side, by a network of {self.lines} {held}"
        if self.selects:
            return f"of {self.padded} {held} the first are kept, again and again"
        if self.method == "parts":
            return f"partitions of {held} about pivots, down to {self.run}, sorted in registers"
        return f"{self.runs} runs of {self.run} {held}, sorted in registers and merged"


def sort_plan(sort: SortRows, target: Target) -> SortPlan:
    """Return how `sort` is computed on `target`: the same whenever it is asked for."""
    form, bits, position_bits = _form(sort)
    lanes = max(2, target.vector_bytes * 8 // bits)
    block = target.vector_registers // (4 if form == "pairs" else 2)
    keys = form, bits, position_bits, lanes, block
    has_floats = form == "alone" and target.selects_floats and _is_plain(sort.element)
    longest = LONGEST_NETWORK_OF_FLOATS if has_floats else LONGEST_NETWORK
    if sort.length <= longest and 2 * sort.rows >= lanes:
        return SortPlan(*keys, "across", sort.length, sort.length, has_floats=has_floats)
    length = sort.length
    # As many as make an even number of levels, so that what is kept stays in one array.
    pairs = (max(-(-4 * sort.count // (block * lanes)) - 1, 1).bit_length() + 1) // 2
    kept = block * lanes << 2 * pairs
    selects = SELECTED * kept <= length
    packing = target.lane_packing
    if not selects and packing is not None and form != "pairs" and length > block * lanes:
        runs = -(-length // (block * lanes))
        return SortPlan(*keys, "parts", block, runs, packing=packing, has_floats=has_floats)
    length = kept if selects else length
    lines = block if selects else min(_ways(block), key=lambda n: _cycles(length, n, lanes))
    run = lines * lanes
    # Merges go from one array to another, so half of a cache is for each; and a part stays free.
    item = bits // 8 * (2 if form == "pairs" else 1)
    caches = (target.memory.l1_bytes // 2, target.memory.l2_bytes)
    cached = tuple(max(size // (2 * item * run), 1).bit_length() - 1 for size in caches)
    runs = max(-(-length // run), 1)
    floats = has_floats and not selects
    return SortPlan(*keys, "runs", lines, runs, cached, selects, has_floats=floats)


def _is_plain(dtype: DType) -> bool:
    """Return whether a dtype is a float that is computed in as it is stored."""
    return dtype.is_float and not dtype.is_half


def _ways(block: int) -> list[int]:
    """Return how many vectors a run may have, a power of two."""
    return [1 << i for i in range(block.bit_length())]


def _cycles(length: int, lines: int, lanes: int) -> float:
    """Return about what a row takes: a line goes through several networks, and then merges."""
    runs = max(-(-length // (lines * lanes)), 1)
    columns = lanes.bit_length() - 1
    rounds = lines.bit_length() * (columns + lines.bit_length() / 2) + columns * columns / 2
    return runs * lines * (rounds + MERGE_ROUNDS * (runs - 1).bit_length())


def _form(sort: SortRows) -> tuple[Form, int, int]:
    """Return what is compared, its bits, and how many of them are a position."""
    bits = max(sort.element.bits, 8)
    if sort.gives == "values":
        return "alone", max(bits, 32), 0
    needed = max(sort.length - 1, 1).bit_length()
    for wide in (32, 64):
        if bits + needed <= wide:
            return "packed", wide, needed
    return "pairs", 64, 0
