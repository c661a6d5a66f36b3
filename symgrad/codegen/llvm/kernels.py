"""From a scheduled kernel of the loop language to a function of LLVM IR.

One method for each statement. A value is scalar or lies in the lanes of the loop that is being
vectorized; one that is the same for all lanes stays scalar for as long as it can. Which loop is
vectorized, and how wide, the kernel says: nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from symgrad.codegen.contract import emit_contract
from symgrad.codegen.llvm.lanes import Lanes, emit_cast, emit_scalar_op, emit_select, memory_type
from symgrad.codegen.llvm.products import product_plan
from symgrad.codegen.llvm.target import Target
from symgrad.codegen.loops import (
    Atom,
    Cast,
    Check,
    Const,
    Expr,
    Fold,
    For,
    Index,
    IndexAtom,
    IndexValue,
    Kernel,
    Let,
    Load,
    Op,
    Param,
    Product,
    Quotient,
    Ref,
    Select,
    Stmt,
    Store,
)
from symgrad.codegen.rewrite_loops import mentions
from symgrad.graph.scalars import SCALAR_OPS

_I1, _I32, _I64, _PTR = ir.IntType(1), ir.IntType(32), ir.IntType(64), ir.PointerType()

MAX_INLINE_CALLS = 48  # of math functions in a kernel: beyond, code grows and speed does not


@dataclass(frozen=True, slots=True)
class _Vector:
    """The loop whose iterations lie side by side: its variable and how many."""

    variable: str | None
    width: int


_SCALAR = _Vector(None, 1)


def emit_kernel(module: ir.Module, kernel: Kernel, name: str, target: Target) -> ir.Function:
    """Emit `kernel` as an internal function of `module`.

    Its parameters are the buffers of the kernel; one that can fail takes a last pointer to an
    int64, where it leaves the index that was out of range, and returns a status, 0 for success.
    """
    pointers = [_PTR] * (len(kernel.params) + kernel.can_fail)
    result = _I32 if kernel.can_fail else ir.VoidType()
    function = ir.Function(module, ir.FunctionType(result, pointers), name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    function.attributes.add("noinline")
    for argument in function.args:
        argument.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    names = [p.name for p in kernel.params]
    KernelEmitter(builder, kernel, dict(zip(names, function.args, strict=False)), target).emit()
    if kernel.can_fail:
        builder.ret(_I32(0))
    else:
        builder.ret_void()
    return function


class KernelEmitter:
    """Emits the statements of a kernel where `builder` stands; `buffers` are their addresses."""

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
        self._vector = _SCALAR
        self._inline_math = _count_calls(kernel.body) <= MAX_INLINE_CALLS

    def emit(self) -> None:
        """Emit the statements; the builder then stands behind them."""
        self._emit_body(self._kernel.body)

    def _lanes(self, width: int) -> Lanes:
        return Lanes(self._builder, self._target, width, inline_math=self._inline_math)

    def _emit_body(self, body: Sequence[Stmt]) -> None:
        for statement in body:
            match statement:
                case Let():
                    self._values[statement.name] = self._emit_value(statement.value)
                case Store():
                    self._emit_store(statement)
                case Check():
                    self._emit_check(statement)
                case For():
                    self._emit_for(statement)
                case Fold():
                    self._emit_fold(statement)
                case Product():
                    self._emit_product(statement)

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
        return self._gathered([single.load(p, load.dtype, align) for p in pointers]), width

    def _gathered(self, elements: Sequence[ir.Value]) -> ir.Value:
        kind = ir.VectorType(elements[0].type, len(elements))
        vector: ir.Value = ir.Constant(kind, ir.Undefined)
        for lane, element in enumerate(elements):
            vector = self._builder.insert_element(vector, element, _I32(lane))
        return vector

    def _reverse(self, vector: ir.Value) -> ir.Value:
        return self._shuffled(vector, list(reversed(range(self._vector.width))))

    def _shuffled(self, vector: ir.Value, order: list[int]) -> ir.Value:
        mask = ir.Constant(ir.VectorType(_I32, len(order)), order)
        return self._builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)

    def _emit_index_value(self, index: Index) -> tuple[ir.Value, int]:
        stride = self._stride(index)
        width = self._vector.width
        if stride == 0:
            return self._index(index), 1
        if stride is None:
            return self._gathered([self._index(index, lane) for lane in range(width)]), width
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

    # ---------------------------------------------------------------------------- statements

    def _emit_check(self, check: Check) -> None:
        builder = self._builder
        given = self._atom(check.value, 1)
        is_negative = builder.icmp_signed("<", given, _I64(0))
        from_start = builder.add(given, _I64(check.extent))
        index = builder.select(is_negative, from_start, given)
        fits = builder.icmp_unsigned("<", index, _I64(check.extent))
        passed = self._function.append_basic_block("checked")
        failed = self._function.append_basic_block("out_of_range")
        builder.cbranch(fits, passed, failed)
        builder.position_at_end(failed)
        self._emit_failure(given, check.status)
        builder.position_at_end(passed)
        self._indices[check.name] = index

    def _emit_failure(self, given: ir.Value, status: int) -> None:
        """Leave the kernel with `status`; `given` is the index that was out of range."""
        self._builder.store(given, self._function.args[-1], align=8)
        self._builder.ret(_I32(status))

    def _emit_for(self, loop: For) -> None:
        whole = loop.extent - loop.extent % loop.vector
        if loop.vector == 1:
            self._count(loop.var, 0, loop.extent, 1, lambda: self._emit_body(loop.body))
            return
        outside, self._vector = self._vector, _Vector(loop.var, loop.vector)
        self._count(loop.var, 0, whole, loop.vector, lambda: self._emit_body(loop.body))
        self._vector = outside
        self._count(loop.var, whole, loop.extent, 1, lambda: self._emit_body(loop.body))

    def _count(
        self, variable: str, start: int, stop: int, step: int, body: Callable[[], None]
    ) -> None:
        """Emit a loop over `variable`; nothing if it never runs, no loop if it runs once."""

        def carry(_: Sequence[ir.Value]) -> Sequence[ir.Value]:
            body()
            return ()

        self._carry(variable, (start, stop, step), (), carry)

    def _carry(
        self,
        variable: str,
        bounds: tuple[int, int, int],
        initial: Sequence[ir.Value],
        body: Callable[[Sequence[ir.Value]], Sequence[ir.Value]],
    ) -> Sequence[ir.Value]:
        """Emit a loop that carries values from iteration to iteration; return the last ones."""
        start, stop, step = bounds
        if start >= stop:
            return initial
        if start + step >= stop:
            self._indices[variable] = _I64(start)
            return body(initial)
        builder = self._builder
        before = builder.block
        head = self._function.append_basic_block(f"for.{variable}")
        after = self._function.append_basic_block(f"end.{variable}")
        builder.branch(head)
        builder.position_at_end(head)
        counter = builder.phi(_I64, variable)
        counter.add_incoming(_I64(start), before)
        carried = [builder.phi(v.type) for v in initial]
        for phi, value in zip(carried, initial, strict=True):
            phi.add_incoming(value, before)
        self._indices[variable] = counter
        results = body(carried)
        following = builder.add(counter, _I64(step), flags=("nuw", "nsw"))
        counter.add_incoming(following, builder.block)
        for phi, value in zip(carried, results, strict=True):
            phi.add_incoming(value, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, _I64(stop)), head, after)
        builder.position_at_end(after)
        return results

    # --------------------------------------------------------------------------------- folds

    def _emit_fold(self, fold: Fold) -> None:
        whole = fold.extent - fold.extent % fold.lanes if fold.lanes > 1 else 0
        width = self._vector.width
        totals: Sequence[ir.Value] = self._identities(fold, width)
        if whole:
            assert width == 1, "the lanes of a fold and of a loop around it exclude each other"
            totals = self._fold_in_lanes(fold, whole)
        totals = self._carry(
            fold.var,
            (whole, fold.extent, 1),
            totals,
            lambda carried: self._fold_step(fold, carried, width),
        )
        for accumulator, total in zip(fold.accumulators, totals, strict=True):
            self._values[accumulator.name] = (total, width)

    def _identities(self, fold: Fold, width: int) -> list[ir.Value]:
        return [self._atom(a.identity, width) for a in fold.accumulators]

    def _fold_step(self, fold: Fold, carried: Sequence[ir.Value], width: int) -> list[ir.Value]:
        self._emit_body(fold.body)
        return self._combine(fold, carried, [self._atom(i, width) for i in fold.items], width)

    def _combine(
        self, fold: Fold, left: Sequence[ir.Value], right: Sequence[ir.Value], width: int
    ) -> list[ir.Value]:
        for name, value in zip((*fold.left, *fold.right), (*left, *right), strict=True):
            self._values[name] = (value, width)
        self._emit_body(fold.combine)
        return [self._atom(c, width) for c in fold.combined]

    def _fold_in_lanes(self, fold: Fold, whole: int) -> list[ir.Value]:
        """Fold the part of the elements that fills all lanes, then the lanes by halves."""
        width = fold.lanes
        outside, self._vector = self._vector, _Vector(fold.var, width)
        partial = self._carry(
            fold.var,
            (0, whole, width),
            self._identities(fold, width),
            lambda carried: self._fold_step(fold, carried, width),
        )
        self._vector = outside
        totals = list(partial)
        while width > 1:
            width //= 2
            low = [self._halves(t, 0, width) for t in totals]
            high = [self._halves(t, width, width) for t in totals]
            totals = self._combine(fold, low, high, width)
        return totals

    def _halves(self, vector: ir.Value, start: int, width: int) -> ir.Value:
        if width == 1:
            return self._builder.extract_element(vector, _I32(start))
        return self._shuffled(vector, list(range(start, start + width)))

    # ------------------------------------------------------------------------------ products

    def _emit_product(self, product: Product) -> None:
        plan = product_plan(product, self._target)
        along = product.columns[0] if plan.vector_axis == "n" else product.rows[0]

        def epilogue(
            builder: ir.IRBuilder, row: ir.Value, column: ir.Value, width: int, value: ir.Value
        ) -> None:
            kept, self._builder = self._builder, builder
            lanes = _Vector(along, width) if width > 1 else _SCALAR
            outside, self._vector = self._vector, lanes
            self._indices[product.rows[0]] = row
            self._indices[product.columns[0]] = column
            self._values[product.name] = (value, width)
            self._emit_body(product.body)
            self._vector, self._builder = outside, kept

        scratch = self._buffers[product.scratch] if product.scratch else None
        lhs = self._pointer(product.lhs.buffer, product.lhs.index)
        rhs = self._pointer(product.rhs.buffer, product.rhs.index)
        emit_contract(self._builder, plan, lhs, rhs, scratch, self._target, epilogue)


def _count_calls(body: Sequence[Stmt]) -> int:
    """Return how many costly scalar operations a kernel has."""
    total = 0
    for statement in body:
        if isinstance(statement, Let) and isinstance(statement.value, Op):
            total += SCALAR_OPS[statement.value.name].flops >= 10
        elif isinstance(statement, For | Fold | Product):
            total += _count_calls(statement.body)
    return total
