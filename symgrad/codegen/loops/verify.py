"""Verifier of the loop IR: what a well-formed kernel is.

Checked are names, dtypes, bounds, and what the iterations of a loop may do if they are to be taken
in any order or side by side. Not checked is what depends on values: whether an element is written
before it is read, and whether two iterations write the same element at indices that differ in form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from symgrad.codegen.loops.access import checks_differ
from symgrad.codegen.loops.facts import (
    stores_to,
    vars_of,
    verify_blocking,
    verify_bounds,
    verify_const,
    verify_counts,
    verify_cut,
    verify_digits,
    verify_name,
    verify_op,
    verify_power,
    verify_prefetched,
    verify_product_dtypes,
    verify_scratch,
    verify_share,
    verify_sort,
    verify_square,
)
from symgrad.codegen.loops.index_arithmetic import bounds, operand_bounds
from symgrad.codegen.loops.language import (
    Atom,
    BinarySearch,
    Cast,
    Check,
    Const,
    Expr,
    Fold,
    For,
    Generated,
    Index,
    Indexed,
    IndexValue,
    Kernel,
    Let,
    Load,
    Loop,
    Op,
    Param,
    Prefix,
    Product,
    Reduction,
    Ref,
    Select,
    SortRows,
    Stmt,
    Store,
    StridedOperand,
    ZeroBorder,
)
from symgrad.codegen.loops.next_matrices import next_matrices, prefetching_in
from symgrad.codegen.loops.next_pages import rows_written
from symgrad.codegen.loops.print import print_index, print_statement
from symgrad.codegen.loops.verify_scope import VerifyScope
from symgrad.graph.dtypes import DType, bool_, int64
from symgrad.records import replace


def verify_kernel(kernel: Kernel) -> None:
    """Raise AssertionError, with the statement as a note, if the kernel is not well formed."""
    verifier = _Verifier()
    try:
        verifier.kernel(kernel)
    except AssertionError as error:
        if verifier.statement is not None:
            error.add_note(f"in: {print_statement(verifier.statement)}")
        error.add_note(f"in: kernel @{kernel.name}")
        raise


class _Verifier:
    """Walks a kernel; `statement` is the one being looked at."""

    def __init__(self) -> None:
        self.statement: Stmt | None = None
        self._params: dict[str, Param] = {}
        self._stored: set[str] = set()

    def kernel(self, kernel: Kernel) -> None:
        verify_name(kernel.name)
        for param in kernel.params:
            verify_name(param.name)
            assert param.name not in self._params, f"{param.name} names two parameters"
            assert param.count >= 0, f"{param.name} has {param.count} elements"
            self._params[param.name] = param
        self._body(kernel.body, VerifyScope())

    # ----------------------------------------------------------------------------------- names

    def _free(self, name: str, scope: VerifyScope) -> None:
        verify_name(name)
        taken = name in scope.values or name in scope.extents or name in self._params
        assert not taken, f"{name} is bound already"

    def _param(self, name: str) -> Param:
        assert name in self._params, f"{name} is no parameter"
        return self._params[name]

    def _bind(self, name: str, dtype: DType, scope: VerifyScope) -> None:
        self._free(name, scope)
        scope.values[name] = dtype

    # ----------------------------------------------------------------------------- expressions

    def _index(self, index: Index, scope: VerifyScope) -> None:
        atoms = [atom for atom, _ in index.terms]
        assert len(set(atoms)) == len(atoms), f"{print_index(index)} has a term twice"
        assert all(c for _, c in index.terms), f"{print_index(index)} has a term times 0"
        for atom in atoms:
            if isinstance(atom, str):
                assert atom in scope.extents, f"{atom} is no index here"
            else:
                assert atom.by > 0, f"{print_index(index)} divides by {atom.by}"
                self._index(atom.index, scope)

    def _element(self, param: Param, index: Index, scope: VerifyScope) -> None:
        self._index(index, scope)
        if not scope.is_dead:
            verify_bounds(param, *bounds(index, scope.extents), index)

    def _readable(self, name: str) -> Param:
        param = self._param(name)
        has_values = param.mode in ("in", "inout") or name in self._stored
        assert has_values, f"{name} is loaded from, but nothing was stored to it before"
        return param

    def _atom(self, atom: Atom, scope: VerifyScope, dtype: DType, what: str) -> None:
        """Verify an atom that must be of `dtype`."""
        if isinstance(atom, Const):
            verify_const(atom)
        else:
            assert atom.name in scope.values, f"{atom.name} is not bound"
            bound = scope.values[atom.name]
            assert atom.dtype == bound, f"{atom.name} is {bound}, not {atom.dtype}"
        assert atom.dtype == dtype, f"{what} is {atom.dtype}, not {dtype}"

    def _atoms(self, atoms: Iterable[tuple[Atom, DType, str]], scope: VerifyScope) -> None:
        for atom, dtype, what in atoms:
            self._atom(atom, scope, dtype, what)

    def _expr(self, expr: Expr, scope: VerifyScope) -> None:
        match expr:
            case Const() | Ref():
                self._atom(expr, scope, expr.dtype, "the value")
            case Load(buffer, index, dtype):
                param = self._readable(buffer)
                assert dtype == param.dtype, f"{buffer} holds {param.dtype}, not {dtype}"
                self._element(param, index, scope)
            case Op():
                self._op(expr, scope)
            case Select(condition, chosen, otherwise, dtype):
                atoms = [(condition, bool_, "the condition"), (chosen, dtype, "what is chosen")]
                self._atoms([*atoms, (otherwise, dtype, "what is not chosen")], scope)
            case Cast(value, _):
                self._atom(value, scope, value.dtype, "the value")
            case IndexValue(index, dtype):
                assert dtype == int64, f"an index is i64, not {dtype}"
                self._index(index, scope)
            case BinarySearch():
                self._search(expr, scope)
            case _:
                assert_never(expr)

    def _search(self, search: BinarySearch, scope: VerifyScope) -> None:
        param = self._readable(search.buffer)
        assert search.dtype == int64, f"a count is i64, not {search.dtype}"
        assert search.length >= 0, f"{search.length} elements are searched"
        self._index(search.index, scope)
        self._atom(search.value, scope, param.dtype, "what is searched for")
        if search.length and not scope.is_dead:
            row = StridedOperand(search.buffer, search.index, 0, search.stride)
            low, high = operand_bounds(row, (1, search.length), scope.extents)
            verify_bounds(param, low, high, search.index, is_first=True)

    def _op(self, op: Op, scope: VerifyScope) -> None:
        verify_op(op)
        dtype = op.args[0].dtype
        what = f"an argument of {op.name}"
        for arg in op.args:
            self._atom(arg, scope, dtype, what)

    # ------------------------------------------------------------------------------ statements

    def _body(self, body: tuple[Stmt, ...], scope: VerifyScope) -> None:
        for statement in body:
            self.statement = statement
            match statement:
                case Let(name, value):
                    self._expr(value, scope)
                    self._bind(name, value.dtype, scope)
                case Store():
                    self._store(statement, scope)
                case Check():
                    scope = self._check(statement, scope)
                case For():
                    self._for(statement, scope)
                case Fold():
                    self._fold(statement, scope)
                case Prefix():
                    self._prefix(statement, scope)
                case Product():
                    self._product(statement, scope)
                case SortRows():
                    self._sort(statement, scope)
                case _:
                    assert_never(statement)

    def _store(self, store: Store, scope: VerifyScope) -> None:
        param = self._param(store.buffer)
        assert param.mode != "in", f"{param.name} is an input"
        self._element(param, store.index, scope)
        self._atom(store.value, scope, param.dtype, f"what is stored to {param.name}")
        ignored = scope.unordered and scope.unordered - vars_of(store.index)
        # Where a loop has no iterations, those of the loops around it store nothing.
        assert scope.is_dead or not ignored, (
            f"iterations over {', '.join(sorted(ignored))} have no order and store to one element"
        )
        self._stored.add(param.name)

    def _check(self, check: Check, scope: VerifyScope) -> VerifyScope:
        """Verify a check; return the scope of what follows it."""
        self._atom(check.value, scope, int64, "an index to check")
        assert check.extent >= 0, f"{check.name} is checked against {check.extent}"
        says_failure = check.status > 0 if check.can_fail else check.status == 0
        assert says_failure, f"status {check.status} does not say whether a check failed"
        assert check.extent or check.can_fail, f"{check.name} is clamped to nothing"
        self._free(check.name, scope)
        scope.extents[check.name] = check.extent
        # No index is in an empty range, so the kernel never passes.
        return scope if check.extent else replace(scope, is_dead=True)

    def _loop(self, var: str, extent: int, scope: VerifyScope) -> None:
        self._free(var, scope)
        assert extent >= 0, f"the extent of {var} is {extent}"

    def _for(self, loop: For, scope: VerifyScope) -> None:
        self._loop(loop.var, loop.extent, scope)
        verify_power("vector", loop.vector)
        verify_power("interleave", loop.interleave)
        in_lanes = loop.vector > 1
        assert in_lanes or loop.interleave == 1, f"{loop.var} interleaves no vectors"
        # Of few loops it is looked up what they write: all that is in them is walked for it.
        is_along = not loop.prefetches or in_lanes or loop.var in scope.prefetching
        assert is_along or rows_written(loop), f"{loop.var} prefetches no vectors, rows or matrices"
        assert not (in_lanes and loop.ordered), f"{loop.var} is both ordered and a vector"
        assert not (in_lanes and scope.lane), f"{loop.var} is a vector within that of {scope.lane}"
        # In a square the lanes are those of the inner loop.
        in_lanes &= not verify_square(loop)
        inside = scope.inside(loop.var, loop.extent, ordered=loop.ordered, in_lanes=in_lanes)
        if next_matrices(loop):
            inside = replace(inside, prefetching=prefetching_in(loop))
        if loop.parallel is not None:
            verify_cut(loop)
            inside = self._part(inside, scope, loop.parts)
        self._body(loop.body, inside)

    def _part(self, inside: VerifyScope, around: VerifyScope, parts: int) -> VerifyScope:
        """Verify that a statement may be parallel; return its scope `inside` as that of a part."""
        assert around.lane is None, f"parallel within the vector of {around.lane}"
        assert around.parts is None, "parallel within a part"
        assert not around.is_fold, "parallel within a fold"
        return replace(inside, parts=parts)

    def _fold(self, fold: Fold, scope: VerifyScope) -> None:
        _, dtypes = self._items(fold, scope)
        for accumulator, dtype in zip(fold.accumulators, dtypes, strict=True):
            self._bind(accumulator.name, dtype, scope)

    def _prefix(self, prefix: Prefix, scope: VerifyScope) -> None:
        inside, dtypes = self._items(prefix, scope)
        assert not (prefix.ordered and prefix.lanes > 1), f"{prefix.var} is both ordered and lanes"
        has_stores = any(isinstance(s, Store) for s in prefix.body)
        assert not has_stores, f"the items over {prefix.var} are computed without stores"
        has_loops = any(isinstance(s, Loop) for s in (*prefix.body, *prefix.each))
        assert not has_loops, f"a loop in the prefix scan over {prefix.var}"
        is_indexed = prefix.lanes > 1 and prefix.has_values_as_indices
        assert not is_indexed, f"an index that is data in the lanes of {prefix.var}"
        for accumulator, dtype in zip(prefix.accumulators, dtypes, strict=True):
            self._free(accumulator.name, scope)
            self._bind(accumulator.name, dtype, inside)
        self._body(prefix.each, inside)

    def _items(self, loop: Reduction, scope: VerifyScope) -> tuple[VerifyScope, list[DType]]:
        """Verify a reduction but for what becomes of its results.

        Return the scope of its body and the dtypes of its accumulators.
        """
        self._loop(loop.var, loop.extent, scope)
        verify_power("lanes", loop.lanes)
        in_lanes = loop.lanes > 1
        assert not (in_lanes and scope.lane), f"lanes within the vector of {scope.lane}"
        verify_counts(loop)
        dtypes = [accumulator.identity.dtype for accumulator in loop.accumulators]
        for accumulator in loop.accumulators:
            verify_const(accumulator.identity)
        inside = scope.inside(loop.var, loop.extent, ordered=not in_lanes, in_lanes=in_lanes)
        inside = replace(inside, is_fold=True)
        self._body(loop.body, inside)
        self.statement = loop
        items = [(item, dtype, "an item") for item, dtype in zip(loop.items, dtypes, strict=True)]
        self._atoms(items, inside)
        self._combine(loop, dtypes, scope)
        return inside, dtypes

    def _combine(self, fold: Reduction, dtypes: list[DType], around: VerifyScope) -> None:
        """Verify that partial results are combined from themselves and constants alone."""
        scope = VerifyScope()
        for sides in (fold.left, fold.right):
            for name, dtype in zip(sides, dtypes, strict=True):
                self._free(name, around)
                self._bind(name, dtype, scope)
        for let in fold.combine:
            self.statement = let
            computes = not isinstance(let.value, Indexed)
            assert computes, "partial results are combined without buffers and indices"
            self._free(let.name, around)
            self._expr(let.value, scope)
            self._bind(let.name, let.value.dtype, scope)
        self.statement = fold
        results = zip(fold.combined, dtypes, strict=True)
        self._atoms([(atom, dtype, "a combined result") for atom, dtype in results], scope)

    def _product(self, product: Product, scope: VerifyScope) -> None:
        assert scope.lane is None, f"a product within the vector of {scope.lane}"
        axes = (product.rows, product.columns, product.inner)
        for var, extent in axes:
            self._loop(var, extent, scope)
        assert len({var for var, _ in axes}) == len(axes), "the axes of a product share a name"
        verify_product_dtypes(product)
        verify_digits(product)
        verify_blocking(product.blocking)
        verify_prefetched(product, scope.prefetching)
        m, n, k = (extent for _, extent in axes)
        read = k if m * n > 0 else 0
        self._index(product.shift, scope)
        for operand, shape in ((product.lhs, (m, read)), (product.rhs, (read, n))):
            param = self._readable(operand.buffer)
            borders = product.borders if operand is product.lhs else ()
            self._operand(param, product.element, operand, shape, scope, borders)
        inside = scope
        if product.parallel is not None:
            verify_share(product)
            inside = self._part(scope, scope, product.parts)
        self._scratch(product, product.blocking.scratch, inside.parts or 1)
        for axis, (var, size) in zip("mn", axes, strict=False):
            in_lanes = axis == product.blocking.along and not checks_differ(product, var)
            inside = inside.inside(var, size, ordered=False, in_lanes=in_lanes)
        self._bind(product.name, product.dtype, inside)
        for buffer in (product.lhs.buffer, product.rhs.buffer):
            assert not stores_to(buffer, product.body), f"{buffer} is an operand and stored to"
        self._body(product.body, inside)

    def _sort(self, sort: SortRows, scope: VerifyScope) -> None:
        assert scope.lane is None, f"a sort within the vector of {scope.lane}"
        verify_sort(sort)
        source, result = self._readable(sort.source.buffer), self._param(sort.result.buffer)
        assert result.mode != "in", f"{result.name} is an input"
        element = int64 if sort.gives == "positions" else sort.element
        self._operand(source, sort.element, sort.source, (sort.rows, sort.length), scope)
        self._operand(result, element, sort.result, (sort.rows, sort.count), scope)
        ignored = ", ".join(sorted(scope.unordered - vars_of(sort.result.index)))
        assert scope.is_dead or not ignored, (
            f"iterations over {ignored} have no order and sort to the same rows"
        )
        inside = scope if sort.parallel is None else self._part(scope, scope, sort.parts)
        self._scratch(sort, sort.scratch_bytes, inside.parts or 1)
        self._stored.add(result.name)

    def _operand(
        self,
        param: Param,
        element: DType,
        operand: StridedOperand,
        shape: tuple[int, int],
        scope: VerifyScope,
        borders: tuple[ZeroBorder, ...] = (),
    ) -> None:
        assert param.dtype == element, f"{param.name} holds {param.dtype}, not {element}"
        self._index(operand.index, scope)
        if not scope.is_dead and 0 not in shape:
            low, high = operand_bounds(operand, shape, scope.extents, borders)
            verify_bounds(param, low, high, operand.index, is_first=True)

    def _scratch(self, statement: Generated, size: int, parts: int) -> None:
        buffer = None if statement.scratch is None else self._param(statement.scratch)
        what = "product" if isinstance(statement, Product) else "sort"
        verify_scratch(what, buffer, size * parts)
