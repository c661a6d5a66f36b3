"""Expression emission: values, indices and memory accesses of a kernel in LLVM IR.

A value is scalar or lies in the lanes of the loop that is being vectorized; one that is the same
for all lanes stays scalar for as long as it can. Statements are the kernel emitter's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from symgrad.codegen.llvm.lanes import Lanes, emit_cast, emit_scalar_op, emit_select, memory_type
from symgrad.codegen.llvm.vectors import gathered, shuffled
from symgrad.codegen.loops.language import (
    Atom,
    Cast,
    Const,
    Expr,
    Index,
    IndexAtom,
    IndexValue,
    Kernel,
    Let,
    Load,
    Loop,
    Op,
    Param,
    Quotient,
    Ref,
    Select,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import mentions
from symgrad.codegen.target import Target
from symgrad.cost_model import COSTLY_FLOPS, MAX_INLINE_CALLS
from symgrad.graph.scalars import SCALAR_OPS

_I32, _I64 = ir.IntType(32), ir.IntType(64)


@dataclass(frozen=True, slots=True)
class Vector:
    """The loop whose iterations lie side by side: its variable and how many."""

    variable: str | None
    width: int


SCALAR = Vector(None, 1)


class ExpressionEmitter:
    """Emits values of `kernel` where `builder` stands; `buffers` are the addresses of its buffers.

    It keeps what was bound before, and which loop is being vectorized.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        kernel: Kernel,
        buffers: Mapping[str, ir.Value],
        target: Target,
    ) -> None:
        self._builder = builder
        self._function: ir.Function = builder.function
        self._kernel = kernel
        self._target = target
        self._buffers = buffers
        self._params: dict[str, Param] = {p.name: p for p in kernel.params}
        self._indices: dict[str, ir.Value] = {}  # loop variables and checked indices, int64
        self._values: dict[str, tuple[ir.Value, int]] = {}  # value and its width, 1 or the loop's
        self._vector = SCALAR
        self._part: ir.Value | None = None  # the number of the part of a parallel statement
        self._inline_math = _count_calls(kernel.body) <= MAX_INLINE_CALLS

    def _lanes(self, width: int) -> Lanes:
        return Lanes(self._builder, self._target, width, inline_math=self._inline_math)

    # --------------------------------------------------------------------------- expressions

    def _atom(self, atom: Atom, width: int) -> ir.Value:
        """Return the value of `atom` in `width` lanes."""
        if isinstance(atom, Const):
            return self._lanes(width).const(atom.value, atom.dtype)
        value, has = self._values[atom.name]
        assert has in (1, width), f"{atom.name} lies in {has} lanes, not in {width}"
        return value if has == width else self._lanes(width).splat(value)

    def _width(self, atoms: Sequence[Atom]) -> int:
        """Return the lanes an operation on `atoms` takes: 1 if they are the same in all."""
        return max((self._values[a.name][1] for a in atoms if isinstance(a, Ref)), default=1)

    def _emit_value(self, value: Expr) -> tuple[ir.Value, int]:
        match value:
            case Load():
                return self._emit_load(value)
            case IndexValue():
                return self._emit_index_value(value.index)
            case Op(name, args, _):
                width = self._width(args)
                operands = [self._atom(a, width) for a in args]
                return emit_scalar_op(self._lanes(width), name, operands, args[0].dtype), width
            case Select(condition, chosen, otherwise, _):
                width = self._width((condition, chosen, otherwise))
                parts = [self._atom(a, width) for a in (condition, chosen, otherwise)]
                return emit_select(self._lanes(width), *parts), width
            case Cast(operand, dtype):
                width = self._width((operand,))
                given = self._atom(operand, width)
                return emit_cast(self._lanes(width), given, operand.dtype, dtype), width
            case Const() | Ref():
                width = self._width((value,))
                return self._atom(value, width), width

    # ----------------------------------------------------------------------- indices, memory

    def _index(self, index: Index, lane: int = 0) -> ir.Value:
        """Return `index` as an int64, in the given lane of the vectorized loop."""
        builder = self._builder
        total: ir.Value = _I64(index.const)
        for atom, coefficient in index.terms:
            term = self._index_atom(atom, lane)
            if coefficient != 1:
                term = builder.mul(term, _I64(coefficient), flags=("nsw",))
            total = builder.add(total, term, flags=("nsw",))
        return total

    def _index_atom(self, atom: IndexAtom, lane: int) -> ir.Value:
        if isinstance(atom, str):
            base = self._indices[atom]
            if lane and atom == self._vector.variable:
                return self._builder.add(base, _I64(lane), flags=("nsw",))
            return base
        # Indices are positions: never negative, so the unsigned division is the floor.
        divide = self._builder.udiv if isinstance(atom, Quotient) else self._builder.urem
        return divide(self._index(atom.index, lane), _I64(atom.by))

    def _stride(self, index: Index) -> int | None:
        """Return the step of `index` from lane to lane, None if it is not always the same."""
        variable = self._vector.variable
        if variable is None:
            return 0
        rest = Index(0, tuple(term for term in index.terms if term[0] != variable))
        return None if mentions(rest, variable) else index.coefficient(variable)

    def _pointer(self, buffer: str, index: Index, lane: int = 0) -> ir.Value:
        element = memory_type(self._params[buffer].dtype)
        place = self._index(index, lane)
        return self._builder.gep(
            self._buffers[buffer], [place], inbounds=True, source_etype=element
        )

    def _emit_load(self, load: Load) -> tuple[ir.Value, int]:
        stride = self._stride(load.index)
        align = load.dtype.itemsize
        if stride in (0, 1):
            width = self._vector.width if stride else 1
            pointer = self._pointer(load.buffer, load.index)
            return self._lanes(width).load(pointer, load.dtype, align), width
        width = self._vector.width
        if stride == -1:
            pointer = self._pointer(load.buffer, load.index, width - 1)
            return self._reverse(self._lanes(width).load(pointer, load.dtype, align)), width
        single = self._lanes(1)
        pointers = (self._pointer(load.buffer, load.index, lane) for lane in range(width))
        return gathered(self._builder, [single.load(p, load.dtype, align) for p in pointers]), width

    def _reverse(self, vector: ir.Value) -> ir.Value:
        return shuffled(self._builder, [vector], range(self._vector.width)[::-1])

    def _emit_index_value(self, index: Index) -> tuple[ir.Value, int]:
        stride = self._stride(index)
        width = self._vector.width
        if stride == 0:
            return self._index(index), 1
        if stride is None:
            return gathered(
                self._builder, [self._index(index, lane) for lane in range(width)]
            ), width
        steps = ir.Constant(ir.VectorType(_I64, width), [stride * i for i in range(width)])
        base = self._lanes(width).splat(self._index(index))
        return self._builder.add(base, steps, flags=("nsw",)), width

    def _emit_store(self, store: Store) -> None:
        dtype = store.value.dtype
        stride = self._stride(store.index)
        width = self._vector.width
        if stride == 1 or width == 1:
            value = self._atom(store.value, width)
            pointer = self._pointer(store.buffer, store.index)
            self._lanes(width).store(value, pointer, dtype, dtype.itemsize)
            return
        assert stride != 0, f"lanes of {store.buffer} are stored to one element"
        value = self._atom(store.value, width)
        single = self._lanes(1)
        for lane in range(width):
            element = self._builder.extract_element(value, _I32(lane))
            pointer = self._pointer(store.buffer, store.index, lane)
            single.store(element, pointer, dtype, dtype.itemsize)


def _count_calls(body: Sequence[Stmt]) -> int:
    """Return how many costly scalar operations a kernel has."""
    total = 0
    for statement in body:
        if isinstance(statement, Let) and isinstance(statement.value, Op):
            total += SCALAR_OPS[statement.value.name].flops >= COSTLY_FLOPS
        elif isinstance(statement, Loop):
            total += _count_calls(statement.body)
    return total
