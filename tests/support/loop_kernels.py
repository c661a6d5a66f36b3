"""Random kernels of the loop language, well formed, and arrays to run them on.

Every statement, expression and dtype occurs. Iterations of unordered loops are independent: each
store has a buffer of its own, which is read only after the outermost loop around has ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from symgrad.codegen.loops.blocking import Blocking
from symgrad.codegen.loops.index_arithmetic import bounds, scaled_sum
from symgrad.codegen.loops.language import (
    Accumulator,
    Atom,
    Cast,
    Check,
    Const,
    Expr,
    Fold,
    For,
    Index,
    IndexValue,
    Kernel,
    Let,
    Load,
    Modulus,
    Number,
    Op,
    Param,
    Product,
    Quotient,
    Ref,
    Select,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType, bool_, float32, int64
from symgrad.graph.scalars import SCALAR_OPS

Draw = Callable[[st.SearchStrategy[Any]], Any]

INPUT_COUNT = 24
SCRATCH_BYTES = 64  # of one part
MOST_PARTS = 5
# Operations whose results NumPy does not round alike for one element and for many.
ELEMENTARY = frozenset(
    (
        *("exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "pow", "cbrt", "hypot", "rsqrt"),
        *("decay", "sin", "cos", "tan", "sinpi", "cospi", "asin", "acos", "atan", "atan2"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf", "erfinv"),
    )
)
# Operations that have a meaning for whatever is drawn.
_TOTAL = frozenset(name for name, row in SCALAR_OPS.items() if row.highest == math.inf)
# Those that have one for what is not above 0.
_BELOW_ZERO = frozenset(name for name, row in SCALAR_OPS.items() if row.highest == 0.0)
_FLOATS = (0.0, -0.0, 0.5, -1.5, 1e-05, 3e38, math.inf, -math.inf, math.nan)


@dataclass
class _Place:
    """What is bound where a statement is drawn, and the loops around it."""

    values: list[Ref] = field(default_factory=list)
    extents: dict[str, int] = field(default_factory=dict)
    unordered: tuple[tuple[str, int], ...] = ()
    in_lanes: bool = False
    depth: int = 0

    def inside(self, var: str, extent: int, *, ordered: bool, in_lanes: bool) -> _Place:
        loop = () if ordered else ((var, extent),)
        return _Place(
            list(self.values),
            {**self.extents, var: extent},
            self.unordered + loop,
            self.in_lanes or in_lanes,
            self.depth + 1,
        )


class _Draft:
    """A kernel in the making."""

    def __init__(self, draw: Draw, ops: frozenset[str]) -> None:
        self.draw = draw
        self.ops = sorted(ops & _TOTAL)
        self.below_zero = sorted(ops & _BELOW_ZERO)
        self.params = [
            Param(f"x{i}", dtype, INPUT_COUNT, self.one_of(("in", "inout")))
            for i, dtype in enumerate(draw(st.lists(self.dtypes(), min_size=1, max_size=4)))
        ]
        self.readable = list(self.params)
        self.names = 0

    def kernel(self) -> Kernel:
        place = _Place()
        body: list[Stmt] = []
        for _ in range(self.number(1, 4)):
            body += self.statements(place)
            self.readable = [p for p in self.params if p.mode != "scratch"]
        return Kernel("random.kernel_1", tuple(self.params), tuple(body))

    # ---------------------------------------------------------------------------- choices

    def one_of(self, choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def number(self, low: int, high: int) -> int:
        number: int = self.draw(st.integers(low, high))
        return number

    def dtypes(self) -> st.SearchStrategy[DType]:
        return st.sampled_from(dtypes.REAL)

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def number_of(self, dtype: DType) -> Number:
        if dtype.is_bool:
            return bool(self.number(0, 1))
        if dtype.is_float:
            number: float = self.one_of(_FLOATS)
            return number
        limits = np.iinfo(dtype.numpy)
        integer: int = self.one_of((0, 1, 2, 7, int(limits.max), int(limits.min)))
        return integer

    # ------------------------------------------------------------------------ expressions

    def index(self, place: _Place) -> Index:
        """Draw an index of any value."""
        parts = [
            (self.index_atom(var), self.number(-4, 4)) for var in place.extents if self.number(0, 2)
        ]
        return scaled_sum([(part, c) for part, c in parts if c], self.number(-5, 5))

    def index_atom(self, var: str) -> Index:
        plain = Index(0, ((var, 1),))
        divided = self.one_of((None, None, Quotient, Modulus))
        if divided is None:
            return plain
        inner = scaled_sum([(plain, self.number(1, 3))], self.number(-2, 2))
        return Index(0, ((divided(inner, self.number(1, 4)), 1),))

    def index_into(self, count: int, place: _Place) -> Index:
        index = self.index(place)
        low, high = bounds(index, place.extents)
        return index if low >= 0 and high < count else Index(0, ((Modulus(index, count), 1),))

    def atom(self, place: _Place, dtype: DType) -> Atom:
        known = [value for value in place.values if value.dtype == dtype]
        if known and self.number(0, 3):
            ref: Ref = self.one_of(known)
            return ref
        return Const(self.number_of(dtype), dtype)

    def expr(self, place: _Place) -> Expr:
        dtype = self.draw(self.dtypes())
        kind = self.one_of(("load", "op", "op", "select", "cast", "index", "atom"))
        if kind == "load":
            param = self.one_of(self.readable)
            return Load(param.name, self.index_into(param.count, place), param.dtype)
        if kind == "op":
            return self.op(place)
        if kind == "select":
            chosen, otherwise = self.atom(place, dtype), self.atom(place, dtype)
            return Select(self.atom(place, bool_), chosen, otherwise, dtype)
        if kind == "cast":
            return Cast(self.atom(place, self.draw(self.dtypes())), dtype)
        if kind == "index":
            return IndexValue(self.index(place), int64)
        return self.atom(place, dtype)

    def op(self, place: _Place) -> Op:
        row = SCALAR_OPS[self.one_of(self.ops)]
        allowed = [d for d in dtypes.REAL if not d.is_half and _takes(row.takes, d)]
        dtype = self.one_of(allowed)
        args = tuple(self.atom(place, dtype) for _ in range(row.arity))
        return Op(row.name, args, dtype if row.gives == "same" else bool_)

    # ------------------------------------------------------------------------- statements

    def let(self, place: _Place) -> Let:
        let = Let(self.name("t"), self.expr(place))
        place.values.append(Ref(let.name, let.value.dtype))
        return let

    def statements(self, place: _Place) -> list[Stmt]:
        writers = [self.one_let, self.one_let, self.store]
        if place.depth < 3:
            writers += [self.for_loop, self.for_loop, self.fold]
        if self.below_zero:
            writers.append(self.op_below_zero)
        if not place.in_lanes:
            writers.append(self.check)
        if not place.in_lanes and place.depth < 2:
            writers.append(self.product)
        body: list[Stmt] = [self.let(place)]
        for write in self.draw(st.lists(st.sampled_from(writers), min_size=1, max_size=4)):
            body += write(place)
        return body

    def one_let(self, place: _Place) -> list[Stmt]:
        return [self.let(place)]

    def op_below_zero(self, place: _Place) -> list[Stmt]:
        """Draw an operation on less the size of a value, as on what is less the greatest of it."""
        dtype = self.one_of((dtypes.float32, dtypes.float64))
        value: Atom = self.atom(place, dtype)
        lets: list[Stmt] = []
        for name in ("abs", "neg", self.one_of(self.below_zero)):
            lets.append(Let(self.name("t"), Op(name, (value,), dtype)))
            value = Ref(f"t{self.names}", dtype)
            place.values.append(value)
        return lets

    def store(self, place: _Place) -> list[Stmt]:
        index, count = Index(self.number(0, 2)), 1
        for var, extent in place.unordered:
            index = scaled_sum([(index, 1), (Index(0, ((var, 1),)), count)])
            count *= max(extent, 1)
        value = self.one_of([*place.values, Const(0.5, float32)])
        buffer = Param(self.name("y"), value.dtype, count + index.const, "out")
        self.params.append(buffer)
        return [Store(buffer.name, index, value)]

    def check(self, place: _Place) -> list[Stmt]:
        position = self.name("t")
        value = IndexValue(self.index(place), int64)
        check = Check(self.name("r"), Ref(position, int64), self.number(1, 20), self.number(1, 3))
        place.values.append(Ref(position, int64))
        place.extents[check.name] = check.extent
        return [Let(position, value), check]

    def loop(self, place: _Place) -> tuple[str, int]:
        return self.name("i"), self.one_of((0, 1, 2, 3, 5))

    def for_loop(self, place: _Place) -> list[Stmt]:
        var, extent = self.loop(place)
        ordered = bool(self.number(0, 1))
        vector = 1 if ordered or place.in_lanes else self.one_of((1, 4))
        inside = place.inside(var, extent, ordered=ordered, in_lanes=vector > 1)
        parallel = None
        if place.depth == 0 and not ordered:
            parallel = self.one_of((None, vector, 2 * vector))
        interleave = self.one_of((1, 2)) if vector > 1 else 1
        body = tuple(self.statements(inside))
        return [For(var, extent, body, vector, ordered, parallel, interleave)]

    def fold(self, place: _Place) -> list[Stmt]:
        var, extent = self.name("i"), self.number(0, 11)
        lanes = 1 if place.in_lanes else self.one_of((1, 2, 4))
        inside = place.inside(var, extent, ordered=lanes == 1, in_lanes=lanes > 1)
        body = tuple(self.statements(inside))
        items = self.draw(st.lists(st.sampled_from(inside.values), min_size=1, max_size=3))
        left = tuple(Ref(self.name("a"), item.dtype) for item in items)
        right = tuple(Ref(self.name("b"), item.dtype) for item in items)
        combine = tuple(self.combination(a, b) for a, b in zip(left, right, strict=True))
        accumulators = tuple(
            Accumulator(self.name("s"), Const(self.number_of(item.dtype), item.dtype))
            for item in items
        )
        place.values += [Ref(s.name, s.identity.dtype) for s in accumulators]
        return [
            Fold(
                accumulators=accumulators,
                var=var,
                extent=extent,
                lanes=lanes,
                body=body,
                items=tuple(items),
                left=tuple(ref.name for ref in left),
                right=tuple(ref.name for ref in right),
                combine=combine,
                combined=tuple(Ref(let.name, let.value.dtype) for let in combine),
            )
        ]

    def combination(self, a: Ref, b: Ref) -> Let:
        name = self.name("c")
        if a.dtype.is_half:
            return Let(name, b)
        op = "or" if a.dtype.is_bool else self.one_of(("add", "max"))
        return Let(name, Op(op, (a, b), a.dtype))

    def operand(self, place: _Place, param: Param) -> StridedOperand:
        room = INPUT_COUNT - 21  # up to 5 rows or columns and 4 terms, 3 apart
        index = self.index_into(room, place)
        return StridedOperand(param.name, index, self.number(0, 3), self.number(0, 3))

    def product(self, place: _Place) -> list[Stmt]:
        numbers = [p for p in self.readable if p.count == INPUT_COUNT and not p.dtype.is_bool]
        if not numbers:
            return [self.let(place)]
        lhs = self.one_of(numbers)
        rhs = self.one_of([p for p in numbers if p.dtype == lhs.dtype])
        rows, columns = self.loop(place), self.loop(place)
        inner = self.name("i"), self.number(0, 4)
        scratch = self.scratch()
        operands = self.operand(place, lhs), self.operand(place, rhs)
        result = Ref(self.name("s"), float32 if lhs.dtype.is_half else lhs.dtype)
        inside = place.inside(*rows, ordered=False, in_lanes=True)
        inside = inside.inside(*columns, ordered=False, in_lanes=True)
        inside.values.append(result)
        return [
            Product(
                name=result.name,
                dtype=result.dtype,
                element=lhs.dtype,
                rows=rows,
                columns=columns,
                inner=inner,
                lhs=operands[0],
                rhs=operands[1],
                blocking=self.blocking(0 if scratch is None else self.number(0, SCRATCH_BYTES)),
                scratch=scratch,
                body=tuple(self.statements(inside)),
            )
        ]

    def scratch(self) -> str | None:
        if not self.number(0, 1):
            return None
        param = Param(self.name("w"), dtypes.uint8, MOST_PARTS * SCRATCH_BYTES, "scratch")
        self.params.append(param)
        return param.name

    def blocking(self, scratch: int) -> Blocking:
        pack = self.one_of(((), ("lhs",), ("rhs",), ("lhs", "rhs")))
        return Blocking((14, 32), (168, 1024, 384), pack, self.one_of(("m", "n")), scratch)


def _takes(takes: str, dtype: DType) -> bool:
    if takes in ("number", "bits"):
        return not (dtype.is_bool if takes == "number" else dtype.is_float)
    return takes == "any" or (dtype.is_float if takes == "float" else dtype.is_integer)


@st.composite
def kernels(draw: Draw, ops: frozenset[str] = _TOTAL | _BELOW_ZERO) -> Kernel:
    """Draw a well-formed kernel whose scalar operations are among `ops`, and have a meaning."""
    return _Draft(draw, ops).kernel()


def random_buffers(kernel: Kernel, seed: int) -> dict[str, NDArray[Any]]:
    """Return arrays for the parameters of `kernel`, filled with small numbers."""
    rng = np.random.default_rng(seed)
    return {
        param.name: rng.integers(-4 if param.dtype.kind != "unsigned" else 0, 5, param.count)
        .astype(np.float64)
        .astype(param.dtype.numpy)
        for param in kernel.params
    }
