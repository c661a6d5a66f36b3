"""Expression emission: values, indices and memory accesses of a kernel in LLVM IR.

A value is scalar or lies in the lanes of the loop that is being vectorized; one that is the same
for all lanes stays scalar for as long as it can. Statements are in `kernels.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.gathers import (
    SMALLEST_GATHERED,
    emit_gather,
    emit_lookup,
    emit_one_by_one,
)
from symgrad.codegen.llvm.lanes import emit_cast, emit_scalar_op, emit_select, memory_type
from symgrad.codegen.llvm.lifting import is_lifted
from symgrad.codegen.llvm.scope import Held, KernelScope
from symgrad.codegen.llvm.searches import emit_common_search, emit_searches
from symgrad.codegen.llvm.streaming import emit_streamed_store, is_of_lines
from symgrad.codegen.loops.language import (
    Atom,
    BinarySearch,
    Cast,
    Const,
    Expr,
    Index,
    IndexAtom,
    IndexValue,
    Load,
    Op,
    Quotient,
    Ref,
    Select,
    Store,
)
from symgrad.codegen.loops.rewrite import index_names, mentions
from symgrad.codegen.vectors import elements_of, gathered, shuffled
from symgrad.graph.dtypes import int64

_I32, _I64 = ir.IntType(32), ir.IntType(64)


# ------------------------------------------------------------------------------------- expressions


def emit_atom(scope: KernelScope, atom: Atom, width: int) -> ir.Value:
    """Return the value of `atom` in `width` lanes."""
    if isinstance(atom, Const):
        if scope.lifting is not None and atom.dtype.is_float and is_lifted(float(atom.value)):
            number = scope.lifting.number(scope.lanes(1).const(atom.value, atom.dtype))
            return scope.lanes(width).splat(number)
        return scope.lanes(width).const(atom.value, atom.dtype)
    value, has = scope.values[atom.name]
    assert has in (1, width), f"{atom.name} lies in {has} lanes, not in {width}"
    return value if has == width else scope.lanes(width).splat(value)


def width_of(scope: KernelScope, atoms: Sequence[Atom]) -> int:
    """Return the lanes an operation on `atoms` takes: 1 if they are the same in all."""
    return max((scope.values[a.name][1] for a in atoms if isinstance(a, Ref)), default=1)


def emit_value(scope: KernelScope, value: Expr) -> tuple[ir.Value, int]:
    """Return a value and its width."""
    match value:
        case Load():
            return _emit_load(scope, value)
        case IndexValue():
            return _emit_index_value(scope, value.index)
        case BinarySearch():
            return _emit_search(scope, value)
        case Op(name, args, _):
            width = width_of(scope, args)
            operands = [emit_atom(scope, a, width) for a in args]
            return emit_scalar_op(scope.lanes(width), name, operands, args[0].dtype), width
        case Select(condition, chosen, otherwise, _):
            width = width_of(scope, (condition, chosen, otherwise))
            parts = [emit_atom(scope, a, width) for a in (condition, chosen, otherwise)]
            return emit_select(scope.lanes(width), *parts), width
        case Cast(operand, dtype):
            width = width_of(scope, (operand,))
            given = emit_atom(scope, operand, width)
            cast = emit_cast(scope.lanes(width), given, operand.dtype, dtype)
            loaded = scope.loaded.get(given)
            # Of one size, signed and unsigned are the same value, but not the same int64.
            if dtype == int64 and loaded is not None and loaded[1] == operand.dtype:
                scope.loaded[cast] = loaded
            return cast, width
        case Const() | Ref():
            width = width_of(scope, (value,))
            return emit_atom(scope, value, width), width


# --------------------------------------------------------------------------------- indices, memory


def emit_index(scope: KernelScope, index: Index, lane: int = 0) -> ir.Value:
    """Return `index` as an int64, in the given lane of the vectorized loop."""
    builder = scope.builder
    total: ir.Value = _I64(index.const)
    for atom, coefficient in index.terms:
        term = _emit_index_atom(scope, atom, lane)
        if coefficient != 1:
            term = builder.mul(term, _I64(coefficient), flags=("nsw",))
        total = builder.add(total, term, flags=("nsw",))
    return total


def _emit_index_atom(scope: KernelScope, atom: IndexAtom, lane: int) -> ir.Value:
    builder = scope.builder
    if isinstance(atom, str):
        base = scope.indices[atom]
        if isinstance(base.type, ir.VectorType):
            return _lane_of(scope, base, lane)
        if lane and atom == scope.vector.variable:
            return builder.add(base, _I64(lane), flags=("nsw",))
        return base
    # Indices are positions: never negative, so the unsigned division is the floor.
    divide = builder.udiv if isinstance(atom, Quotient) else builder.urem
    return divide(emit_index(scope, atom.index, lane), _I64(atom.by))


def _lane_of(scope: KernelScope, vector: ir.Value, lane: int) -> ir.Value:
    """Return one lane of a vector of int64, from memory where it is there.

    A load takes less than an extraction, and LLVM drops the vector where no other reads it.
    """
    if vector not in scope.loaded:
        return scope.builder.extract_element(vector, _I32(lane))
    start, dtype = scope.loaded[vector]
    place = scope.builder.gep(start, [_I64(lane)], inbounds=True, source_etype=memory_type(dtype))
    single = scope.lanes(1)
    return emit_cast(single, single.load(place, dtype, dtype.itemsize), dtype, int64)


def stride_of(scope: KernelScope, index: Index) -> int | None:
    """Return the step of `index` from lane to lane, None if it is not always the same."""
    variable = scope.vector.variable
    if variable is None:
        return 0
    rest = Index(0, tuple(term for term in index.terms if term[0] != variable))
    is_even = not mentions(rest, variable) and not _is_looked_up(scope, rest)
    return index.coefficient(variable) if is_even else None


def looked_up_around(scope: KernelScope) -> frozenset[str]:
    """Return the indices that are data and differ between the lanes, of those that are known."""
    indices = scope.indices.items()
    return frozenset(name for name, at in indices if isinstance(at.type, ir.VectorType))


def _is_looked_up(scope: KernelScope, index: Index) -> bool:
    return any(isinstance(scope.indices[n].type, ir.VectorType) for n in index_names(index))


def emit_pointer(
    scope: KernelScope, buffer: str, index: Index, lane: int = 0, *, is_inside: bool = True
) -> ir.Value:
    """Return the address of an element, or of where one would be if it is not `is_inside`."""
    element = memory_type(scope.params[buffer].dtype)
    place = emit_index(scope, index, lane)
    base = scope.buffers[buffer]
    return scope.builder.gep(base, [place], inbounds=is_inside, source_etype=element)


def _emit_load(scope: KernelScope, load: Load) -> tuple[ir.Value, int]:
    if not scope.params[load.buffer].count:  # behind a check of an index, which fails
        return scope.lanes(1).const(0, load.dtype), 1
    stride = stride_of(scope, load.index)
    width = scope.vector.width
    if (held := scope.held(load.buffer)) is not None:
        assert scope.written_out is not None, "what is held is in the registers of a loop"
        has = 1 if stride == 0 else width
        elements = _elements(scope, held, load.index, has)
        return scope.written_out.registers.load(held.buffer, elements), has
    align = load.dtype.itemsize
    if stride in (0, 1):
        has = width if stride else 1
        mask = scope.mask if stride else None
        pointer = emit_pointer(scope, load.buffer, load.index)
        value = scope.lanes(has).load(pointer, load.dtype, align, mask)
        if load.dtype.is_integer and mask is None and scope.params[load.buffer].mode == "in":
            scope.loaded[value] = pointer, load.dtype
        return value, has
    if stride == -1:
        pointer = emit_pointer(scope, load.buffer, load.index, width - 1)
        vector = scope.lanes(width).load(pointer, load.dtype, align)
        return shuffled(scope.builder, [vector], range(width)[::-1]), width
    if _is_looked_up(scope, load.index) and load.dtype.itemsize >= SMALLEST_GATHERED:
        return _emit_looked_up(scope, load), width
    single = scope.lanes(1)
    pointers = (emit_pointer(scope, load.buffer, load.index, lane) for lane in range(width))
    return gathered(scope.builder, [single.load(p, load.dtype, align) for p in pointers]), width


def _emit_looked_up(scope: KernelScope, load: Load) -> ir.Value:
    places, start = _emit_places(scope, load.index), scope.buffers[load.buffer]
    lanes, count = scope.lanes(scope.vector.width), scope.params[load.buffer].count
    found = emit_lookup(lanes, scope.target, start, count, places, load.dtype)
    if found is not None:
        return found
    bases = [scope.indices[name] for name in index_names(load.index)]
    if not scope.target.gathers_slowly or not all(base in scope.loaded for base in bases):
        return emit_gather(lanes, start, places, load.dtype)
    each = [emit_index(scope, load.index, lane) for lane in range(lanes.width)]
    return emit_one_by_one(lanes, start, each, load.dtype)


def _emit_places(scope: KernelScope, index: Index) -> ir.Value:
    """Return `index` as a vector of int64, of all lanes of the vectorized loop."""
    builder, lanes = scope.builder, scope.lanes(scope.vector.width)
    total = lanes.const(index.const, int64)
    for atom, coefficient in index.terms:
        term = _emit_place(scope, atom)
        if coefficient != 1:
            term = builder.mul(term, lanes.const(coefficient, int64), flags=("nsw",))
        total = builder.add(total, term, flags=("nsw",))
    return total


def _emit_place(scope: KernelScope, atom: IndexAtom) -> ir.Value:
    builder, lanes = scope.builder, scope.lanes(scope.vector.width)
    if not isinstance(atom, str):
        divide = builder.udiv if isinstance(atom, Quotient) else builder.urem
        return divide(_emit_places(scope, atom.index), lanes.const(atom.by, int64))
    if atom == scope.vector.variable:
        value, _ = _emit_index_value(scope, Index(0, ((atom, 1),)))
        return value
    base = scope.indices[atom]
    return base if isinstance(base.type, ir.VectorType) else lanes.splat(base)


def _emit_index_value(scope: KernelScope, index: Index) -> tuple[ir.Value, int]:
    stride = stride_of(scope, index)
    width = scope.vector.width
    if stride == 0:
        return emit_index(scope, index), 1
    if stride is None:
        lanes = [emit_index(scope, index, lane) for lane in range(width)]
        return gathered(scope.builder, lanes), width
    steps = ir.Constant(ir.VectorType(_I64, width), [stride * i for i in range(width)])
    base = scope.lanes(width).splat(emit_index(scope, index))
    return scope.builder.add(base, steps, flags=("nsw",)), width


def _emit_search(scope: KernelScope, search: BinarySearch) -> tuple[ir.Value, int]:
    width = width_of(scope, (search.value,))
    if stride_of(scope, search.index) != 0:
        width = scope.vector.width
    wanted = emit_atom(scope, search.value, width)
    is_one_row = width > 1 and stride_of(scope, search.index) == 0
    if is_one_row and search.value.dtype.itemsize >= SMALLEST_GATHERED:
        start = emit_pointer(scope, search.buffer, search.index)
        return emit_common_search(scope.lanes(width), search, start, wanted), width
    starts = [emit_pointer(scope, search.buffer, search.index, lane) for lane in range(width)]
    counts = emit_searches(scope.lanes(1), search, starts, elements_of(scope.builder, wanted))
    return (counts[0] if width == 1 else gathered(scope.builder, counts)), width


def emit_store(scope: KernelScope, store: Store) -> None:
    """Emit a store, of all lanes; none to a buffer without elements, which is never reached."""
    if not scope.params[store.buffer].count:
        return
    dtype = store.value.dtype
    width = scope.vector.width
    if (held := scope.held(store.buffer)) is not None:
        assert scope.written_out is not None, "what is held is in the registers of a loop"
        value = emit_atom(scope, store.value, width)
        elements = _elements(scope, held, store.index, width)
        scope.written_out.registers.store(held.buffer, elements, value)
        return
    stride = stride_of(scope, store.index)
    if stride == 1 or width == 1:
        value = emit_atom(scope, store.value, width)
        pointer = emit_pointer(scope, store.buffer, store.index)
        if store.is_streamed and is_of_lines(scope, dtype):
            emit_streamed_store(scope, value, pointer, dtype)
            return
        scope.lanes(width).store(value, pointer, dtype, dtype.itemsize, scope.mask)
        return
    assert stride != 0, f"lanes of {store.buffer} are stored to one element"
    value = emit_atom(scope, store.value, width)
    if stride == -1:
        pointer = emit_pointer(scope, store.buffer, store.index, width - 1)
        backwards = shuffled(scope.builder, [value], range(width)[::-1])
        scope.lanes(width).store(backwards, pointer, dtype, dtype.itemsize)
        return
    single = scope.lanes(1)
    for lane in range(width):
        element = scope.builder.extract_element(value, _I32(lane))
        pointer = emit_pointer(scope, store.buffer, store.index, lane)
        single.store(element, pointer, dtype, dtype.itemsize)


# ---------------------------------------------------------------------------- elements in registers


def _elements(scope: KernelScope, held: Held, index: Index, width: int) -> list[int]:
    """Return which element of the buffer each lane is."""
    return [held.start + _number(scope, index, lane) for lane in range(width)]


def _number(scope: KernelScope, index: Index, lane: int) -> int:
    terms = (factor * _number_of(scope, atom, lane) for atom, factor in index.terms)
    return index.const + sum(terms)


def _number_of(scope: KernelScope, atom: IndexAtom, lane: int) -> int:
    if isinstance(atom, str):
        return scope.numbers[atom] + (lane if atom == scope.vector.variable else 0)
    number = _number(scope, atom.index, lane)
    return number // atom.by if isinstance(atom, Quotient) else number % atom.by
