"""Kernel emission: from a scheduled kernel of the loop language to a function of LLVM IR.

One method for each statement; values are in `expressions`. Which loop is vectorized, and how wide,
and what is cut into parts for threads, the kernel says: nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from symgrad.codegen.contract import emit_contract
from symgrad.codegen.contract.elements import counted_loop
from symgrad.codegen.contract.kernel_function import kernel_function
from symgrad.codegen.contract.products import emit_prefetch, loads_to_prefetch, product_plan
from symgrad.codegen.contract.sharing import part_region
from symgrad.codegen.llvm.expressions import SCALAR, ExpressionEmitter, Vector
from symgrad.codegen.llvm.parallel import emit_fork
from symgrad.codegen.llvm.vectors import shuffled
from symgrad.codegen.loops.language import (
    Check,
    Fold,
    For,
    Kernel,
    Let,
    Product,
    Stmt,
    Store,
    has_check,
)
from symgrad.codegen.loops.rewrite import free_indices, free_values
from symgrad.codegen.target import Target

_I1, _I32, _I64, _PTR = ir.IntType(1), ir.IntType(32), ir.IntType(64), ir.PointerType()


def emit_kernel(module: ir.Module, kernel: Kernel, name: str, target: Target) -> ir.Function:
    """Emit `kernel` as an internal function of `module`.

    Its parameters are the buffers of the kernel; one that can fail takes a last pointer to an
    int64, where it leaves the index that was out of range, and returns a status, 0 for success.
    """
    pointers = [_PTR] * (len(kernel.params) + kernel.can_fail)
    result = _I32 if kernel.can_fail else ir.VoidType()
    function = kernel_function(module, ir.FunctionType(result, pointers), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    names = [p.name for p in kernel.params]
    KernelEmitter(builder, kernel, dict(zip(names, function.args, strict=False)), target).emit()
    if kernel.can_fail:
        builder.ret(_I32(0))
    else:
        builder.ret_void()
    return function


class KernelEmitter(ExpressionEmitter):
    """Emits the statements of a kernel where `builder` stands; `buffers` are their addresses."""

    def emit(self) -> None:
        """Emit the statements; the builder then stands behind them."""
        self._emit_body(self._kernel.body)

    def _emit_body(self, body: Sequence[Stmt]) -> None:
        for statement in body:
            match statement:
                case Let():
                    self._values[statement.name] = self._emit_value(statement.value)
                case Store():
                    self._emit_store(statement)
                case Check():
                    self._emit_check(statement)
                case For() | Product() if statement.parts > 1 and self._part is None:
                    self._emit_in_parts(statement)
                case For():
                    self._emit_for(statement)
                case Fold():
                    self._emit_fold(statement)
                case Product():
                    self._emit_product(statement)

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
        self._emit_failure(given, _I32(check.status))
        builder.position_at_end(passed)
        self._indices[check.name] = index

    def _emit_failure(self, given: ir.Value, status: ir.Value) -> None:
        """Leave the kernel with `status`; `given` is the index that was out of range."""
        self._builder.store(given, self._function.args[-1], align=8)
        self._builder.ret(status)

    def _emit_for(self, loop: For) -> None:
        """Strip-mining by the vector width: emit whole vectors, then what is left over."""
        whole = loop.extent - loop.extent % loop.vector
        if loop.vector == 1:
            self._count(loop.var, 0, loop.extent, 1, lambda: self._emit_body(loop.body))
            return
        outside, self._vector = self._vector, Vector(loop.var, loop.vector)
        self._count(loop.var, 0, whole, loop.vector, lambda: self._emit_body(loop.body))
        self._vector = outside
        self._count(loop.var, whole, loop.extent, 1, lambda: self._emit_body(loop.body))

    def _emit_in_parts(self, statement: For | Product) -> None:
        """Outlining: a parallel statement becomes a function of one part, and a fork that runs it.

        That function takes the buffers, the indices and the values bound around that it uses, and
        the number of the part.
        """
        indices = {name: self._indices[name] for name in free_indices(statement)}
        values = {name: self._values[name][0] for name in free_values(statement)}
        can_fail = has_check((statement,))
        arguments = [*self._buffers.values(), *indices.values(), *values.values()]
        kinds = [*(a.type for a in arguments), _I64, *([_PTR] if can_fail else [])]
        result = _I32 if can_fail else ir.VoidType()
        module = self._function.module
        name = module.get_unique_name(f"{self._function.name}.part")
        part = kernel_function(module, ir.FunctionType(result, kinds), name)
        self._emit_part(part, statement, list(indices), list(values))
        failure = emit_fork(self._builder, part, arguments, statement.parts, can_fail=can_fail)
        if failure is not None:
            status, found = failure
            has_failed = self._builder.icmp_signed("!=", status, _I32(0))
            with self._builder.if_then(has_failed, likely=False):
                self._emit_failure(found, status)

    def _emit_part(
        self,
        function: ir.Function,
        statement: For | Product,
        indices: Sequence[str],
        values: Sequence[str],
    ) -> None:
        """Emit the function of a part, which takes `indices` and `values` after the buffers."""
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        given = iter(function.args)
        buffers = {name: next(given) for name in self._buffers}
        emitter = KernelEmitter(builder, self._kernel, buffers, self._target)
        emitter._indices = {name: next(given) for name in indices}
        emitter._values = {name: (next(given), 1) for name in values}
        emitter._part = next(given)
        if isinstance(statement, Product):
            emitter._emit_product(statement)
        else:
            emitter._emit_iterations(statement, emitter._part)
        if has_check((statement,)):
            builder.ret(_I32(0))
        else:
            builder.ret_void()

    def _emit_iterations(self, loop: For, part: ir.Value) -> None:
        """Emit the iterations of a part of a parallel loop."""
        builder = self._builder
        assert loop.parallel is not None, f"{loop.var} is not parallel"
        start = builder.mul(part, _I64(loop.parallel))
        stop = self._least(builder.add(start, _I64(loop.parallel)), loop.extent)
        whole = loop.extent - loop.extent % loop.vector
        if loop.vector > 1:
            outside, self._vector = self._vector, Vector(loop.var, loop.vector)
            with counted_loop(builder, start, self._least(stop, whole), loop.vector) as at:
                self._indices[loop.var] = at
                self._emit_body(loop.body)
            self._vector = outside
            if whole == loop.extent:
                return
            is_before = builder.icmp_signed("<", start, _I64(whole))
            start = builder.select(is_before, _I64(whole), start)
        with counted_loop(builder, start, stop) as at:
            self._indices[loop.var] = at
            self._emit_body(loop.body)

    def _least(self, value: ir.Value, limit: int) -> ir.Value:
        is_below = self._builder.icmp_signed("<", value, _I64(limit))
        return self._builder.select(is_below, value, _I64(limit))

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
        outside, self._vector = self._vector, Vector(fold.var, width)
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
        return shuffled(self._builder, [vector], range(start, start + width))

    # ------------------------------------------------------------------------------ products

    def _emit_product(self, product: Product) -> None:
        plan = product_plan(product, self._target)
        along = product.columns[0] if plan.vector_axis == "n" else product.rows[0]

        def epilogue(
            builder: ir.IRBuilder, row: ir.Value, column: ir.Value, width: int, value: ir.Value
        ) -> None:
            kept, self._builder = self._builder, builder
            lanes = Vector(along, width) if width > 1 else SCALAR
            outside, self._vector = self._vector, lanes
            self._indices[product.rows[0]] = row
            self._indices[product.columns[0]] = column
            self._values[product.name] = (value, width)
            self._emit_body(product.body)
            self._vector, self._builder = outside, kept

        loads = loads_to_prefetch(product, plan, self._target)

        def prefetch(builder: ir.IRBuilder, row: ir.Value, column: ir.Value) -> None:
            kept, self._builder = self._builder, builder
            self._indices[product.rows[0]] = row
            self._indices[product.columns[0]] = column
            for load in loads:
                emit_prefetch(builder, self._pointer(load.buffer, load.index))
            self._builder = kept

        scratch = self._buffers[product.scratch] if product.scratch else None
        region = None
        if self._part is not None and scratch is not None:
            offset = self._builder.mul(self._part, _I64(product.blocking.scratch))
            scratch = self._builder.gep(scratch, [offset], source_etype=ir.IntType(8))
        if self._part is not None and product.parallel is not None:
            share = product.parallel
            region = part_region(self._builder, plan, share.axis, share.tiles, self._part)
        lhs = self._pointer(product.lhs.buffer, product.lhs.index)
        rhs = self._pointer(product.rhs.buffer, product.rhs.index)
        ahead = prefetch if loads else None
        emit_contract(self._builder, plan, lhs, rhs, scratch, self._target, epilogue, region, ahead)
