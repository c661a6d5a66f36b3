"""Kernel emission: from a scheduled kernel of the loop language to a function of LLVM IR.

One function for each statement; values are in `expressions.py`, what is handed down in `scope.py`.
Which loop is vectorized and how wide, and what threads share, a kernel says: nothing is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from symgrad.codegen import ir
from symgrad.codegen.contract import TileElements, emit_contract
from symgrad.codegen.contract.elements import counted_loop
from symgrad.codegen.contract.epilogue import Epilogue
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.lifted import can_lift, unlifted
from symgrad.codegen.contract.plans.products import places_to_prefetch, product_plan
from symgrad.codegen.contract.plans.sharing import part_region
from symgrad.codegen.llvm.carrying import emit_carrying, emit_overlapping
from symgrad.codegen.llvm.checks import emit_check, emit_failure
from symgrad.codegen.llvm.closures import closure_of
from symgrad.codegen.llvm.expressions import (
    emit_atom,
    emit_index,
    emit_pointer,
    emit_store,
    emit_value,
)
from symgrad.codegen.llvm.in_turn import emit_in_turn
from symgrad.codegen.llvm.lifting import Lifting
from symgrad.codegen.llvm.masking import epilogue_form
from symgrad.codegen.llvm.outlining import outlined
from symgrad.codegen.llvm.parallel import emit_fork
from symgrad.codegen.llvm.pieces import emit_iteration
from symgrad.codegen.llvm.prefetching import (
    emit_prefetch_behind,
    matrices_prefetched,
    prefetched_behind,
)
from symgrad.codegen.llvm.rows_apart import emit_steps
from symgrad.codegen.llvm.scope import SCALAR, KernelScope, Vector, kernel_scope
from symgrad.codegen.llvm.short_rows import emit_row, rows_in
from symgrad.codegen.llvm.sorts import emit_sort_rows, scratch_of_part
from symgrad.codegen.llvm.spills import with_aligned_spills
from symgrad.codegen.llvm.squares import emit_squares
from symgrad.codegen.llvm.streaming import emit_fence
from symgrad.codegen.llvm.tile_walks import as_walk, emit_walk, epilogue_apart, is_within
from symgrad.codegen.loops.language import (
    Check,
    Fold,
    For,
    Kernel,
    Let,
    Parallel,
    Prefix,
    Product,
    Reduction,
    SortRows,
    Stmt,
    Store,
    has_check,
)
from symgrad.codegen.loops.next_matrices import next_matrices
from symgrad.codegen.schedule.last_vectors import repeats_elements
from symgrad.codegen.target import Target
from symgrad.codegen.vectors import last_lane, moved_lanes, part_of
from symgrad.records import replace

_I1, _I32, _I64, _PTR = ir.IntType(1), ir.IntType(32), ir.IntType(64), ir.PointerType()


def declare_kernel(module: ir.Module, kernel: Kernel, name: str) -> ir.LLVMFunction:
    """Add the internal function of `kernel` to `module`, without a body.

    Its parameters are the buffers of the kernel; one that can fail takes a last pointer to an
    int64, where it leaves the index that was out of range, and returns a status, 0 for success.
    """
    can_fail = kernel.can_fail
    pointers = [_PTR] * (len(kernel.params) + can_fail)
    result = _I32 if can_fail else ir.VoidType()
    return kernel_function(module, ir.FunctionType(result, pointers), name)


def emit_kernel(module: ir.Module, kernel: Kernel, name: str, target: Target) -> ir.LLVMFunction:
    """Emit `kernel` as an internal function of `module`; see `declare_kernel`.

    Behind those parameters come the values that are `lifted`.
    """
    function = with_aligned_spills(declare_kernel(module, kernel, name), kernel.body, target)
    if not any(isinstance(s, Product) and s.parts > 1 for s in kernel.body):
        as_walk(function, kernel.body, target)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    buffers = dict(zip((p.name for p in kernel.params), function.args, strict=False))
    scope = replace(kernel_scope(builder, kernel, buffers, target), lifting=Lifting(function))
    emit_body(*outlined(scope, kernel.body))
    if kernel.can_fail:
        builder.ret(_I32(0))
    else:
        builder.ret_void()
    return function


def emit_body(scope: KernelScope, body: Sequence[Stmt]) -> KernelScope:
    """Emit statements in a scope of their own, which is returned: it has what they bound."""
    own = scope.inner()
    rows, together = rows_in(own, body)
    prefetched = prefetched_behind(own, body)
    for statement in body:
        if id(statement) in rows:
            emit_row(own, rows[id(statement)])
        elif id(statement) not in together:
            _emit_statement(own, statement)
        if isinstance(statement, Let) and id(statement) in prefetched:
            emit_prefetch_behind(own, statement, prefetched[id(statement)])
    return own


def _emit_statement(scope: KernelScope, statement: Stmt) -> None:
    match statement:
        case Let():
            scope.values[statement.name] = emit_value(scope, statement.value)
        case Store():
            emit_store(scope, statement)
        case Check():
            emit_check(scope, statement)
        case For() | Product() | SortRows() if statement.parts > 1 and scope.part is None:
            _emit_in_parts(scope, statement)
        case For():
            _emit_for(scope, statement)
        case Fold():
            _emit_fold(scope, statement)
        case Prefix():
            _emit_prefix(scope, statement)
        case Product():
            _emit_product(scope, statement)
        case SortRows():
            emit_sort_rows(scope, statement)


# -------------------------------------------------------------------------------------- statements


def _emit_for(scope: KernelScope, loop: For) -> None:
    """Strip-mining by the vector width: emit whole vectors, then what is left over."""
    if scope.vector.width > 1 and loop.vector > 1:
        emit_squares(scope, loop)
        return
    start = 0
    for width in loop.widths:
        beside = _side_by_side(scope, loop, width)
        is_plain = width > 1 and scope.written_out is None
        if is_plain and repeats_elements(loop, width, calls=not scope.inline_math):
            bounds = start, loop.extent, width
            emit = partial(emit_iteration, loop=loop, emit_body=emit_body)
            emit_overlapping(beside, loop.var, bounds, emit)
            break
        stop = loop.extent - loop.extent % width
        _count(beside, loop, (start, stop, width))
        start = stop
    emit_fence(scope, loop)


def _side_by_side(scope: KernelScope, loop: For, width: int) -> KernelScope:
    if width == 1:
        matrices = loop if next_matrices(loop) else scope.matrices
        return replace(scope, around=loop, blocks=scope.around, matrices=matrices)
    return replace(scope, vector=Vector(loop.var, width))


def _emit_in_parts(scope: KernelScope, statement: Parallel) -> None:
    """Outlining: a parallel statement becomes a function of some parts, and a fork that runs it.

    That function takes the buffers, the indices and the values bound around that it uses, and
    the numbers of the first part and of the one behind the last.
    """
    builder = scope.builder
    closure = closure_of(scope, statement)
    can_fail = has_check((statement,))
    arguments = closure.arguments
    kinds = [*(a.type for a in arguments), _I64, _I64, *([_PTR] if can_fail else [])]
    result = _I32 if can_fail else ir.VoidType()
    module = scope.function.module
    name = module.get_unique_name(f"{scope.function.name}.part")
    part = kernel_function(module, ir.FunctionType(result, kinds), name)
    with_aligned_spills(part, (statement,), scope.target)
    as_walk(part, (statement,), scope.target)
    given = iter(part.args)
    within = closure.within(scope, part, given)
    _emit_part(replace(within, part=(next(given), next(given))), statement)
    failure = emit_fork(builder, part, arguments, statement.parts, can_fail=can_fail)
    if failure is not None:
        status, found = failure
        has_failed = builder.icmp_signed("!=", status, _I32(0))
        with builder.if_then(has_failed, likely=False):
            emit_failure(scope, found, status)


def _emit_part(scope: KernelScope, statement: Parallel) -> None:
    """Fill the function of some parts."""
    match statement:
        case Product():
            _emit_product(scope, statement)
        case SortRows():
            emit_sort_rows(scope, statement)
        case For():
            _emit_iterations(scope, statement)
            emit_fence(scope, statement)
    if has_check((statement,)):
        scope.builder.ret(_I32(0))
    else:
        scope.builder.ret_void()


def _emit_iterations(scope: KernelScope, loop: For) -> None:
    """Emit the iterations of some parts of a parallel loop."""
    builder = scope.builder
    assert loop.parallel is not None, f"{loop.var} is not parallel"
    assert scope.part is not None, f"{loop.var} is in no part"
    start, end = (builder.mul(number, _I64(loop.parallel)) for number in scope.part)
    extent = _I64(loop.extent)
    stop = builder.select(builder.icmp_signed("<", end, extent), end, extent)
    for width in loop.widths:
        whole = builder.sub(stop, start)
        if width > 1:
            whole = builder.mul(builder.udiv(whole, _I64(width)), _I64(width))
        end = builder.add(start, whole)
        side_by_side = _side_by_side(scope, loop, width)
        with counted_loop(builder, start, end, width) as at:
            emit_iteration(side_by_side.inside(loop.var, at), loop, emit_body)
        if loop.extent % width == loop.parallel % width == 0:
            return
        start = end


def _count(scope: KernelScope, loop: For, bounds: tuple[int, int, int]) -> None:
    """Emit a loop of (start, stop, step); nothing if it never runs, no loop if it runs once."""

    def carry(inside: KernelScope, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
        emit_iteration(inside, loop, emit_body)
        return ()

    emit_carrying(scope, loop.var, bounds, (), carry)


# ------------------------------------------------------------------------------------------- folds


def _emit_fold(scope: KernelScope, fold: Fold) -> None:
    whole = fold.extent - fold.extent % fold.lanes if fold.lanes > 1 else 0
    width = scope.vector.width
    totals: Sequence[ir.Value] = _identities(scope, fold, width)
    if whole:
        assert width == 1, "the lanes of a fold and of a loop around it exclude each other"
        totals = _fold_in_lanes(scope, fold, whole)
    totals = emit_steps(scope, fold, whole, totals, partial(_fold_step, fold))
    for accumulator, total in zip(fold.accumulators, totals, strict=True):
        scope.values[accumulator.name] = (total, width)


def _identities(scope: KernelScope, loop: Reduction, width: int) -> list[ir.Value]:
    return [emit_atom(scope, a.identity, width) for a in loop.accumulators]


def _fold_step(fold: Fold, scope: KernelScope, carried: Sequence[ir.Value]) -> list[ir.Value]:
    return emit_in_turn(scope, fold, carried, partial(_fold_items, fold))


def _fold_items(fold: Fold, scope: KernelScope, carried: Sequence[ir.Value]) -> list[ir.Value]:
    done, width = emit_body(scope, fold.body), scope.vector.width
    return _combine(done, fold, carried, [emit_atom(done, i, width) for i in fold.items], width)


def _combine(
    scope: KernelScope,
    loop: Reduction,
    left: Sequence[ir.Value],
    right: Sequence[ir.Value],
    width: int,
) -> list[ir.Value]:
    names = zip((*loop.left, *loop.right), (*left, *right), strict=True)
    bound = {name: (value, width) for name, value in names}
    done = emit_body(replace(scope, values={**scope.values, **bound}), loop.combine)
    return [emit_atom(done, c, width) for c in loop.combined]


def _fold_in_lanes(scope: KernelScope, fold: Fold, whole: int) -> list[ir.Value]:
    """Fold the part of the elements that fills all lanes, then the lanes by halves."""
    width = fold.lanes
    side_by_side = replace(scope, vector=Vector(fold.var, width))
    initial = _identities(side_by_side, fold, width)
    step = partial(_fold_step, fold)
    bounds = 0, whole, width
    totals = list(
        emit_carrying(side_by_side, fold.var, bounds, initial, step, lifting=scope.lifting)
    )
    while width > 1:
        width //= 2
        low = [part_of(scope.builder, t, 0, width) for t in totals]
        high = [part_of(scope.builder, t, width, width) for t in totals]
        totals = _combine(scope, fold, low, high, width)
    return totals


# ------------------------------------------------------------------------------------ prefix scans


def _emit_prefix(scope: KernelScope, prefix: Prefix) -> None:
    """Emit the blocks of each size; all lanes carry what the blocks before have come to."""
    blocks = list(prefix.blocks)
    around = scope.vector.width
    totals = _identities(scope, prefix, max(around, prefix.lanes))
    for start, stop, size in blocks:
        if prefix.lanes > 1:
            totals = [part_of(scope.builder, total, 0, size) for total in totals]
        inside = replace(scope, vector=Vector(prefix.var, size)) if size > 1 else scope
        step = partial(_prefix_step, prefix)
        totals = list(emit_carrying(inside, prefix.var, (start, stop, size), totals, step))


def _prefix_step(
    prefix: Prefix, scope: KernelScope, totals: Sequence[ir.Value]
) -> Sequence[ir.Value]:
    width = scope.vector.width
    done = emit_body(scope, prefix.body)
    local = [emit_atom(done, item, width) for item in prefix.items]
    is_block = scope.vector.variable == prefix.var
    identities = _identities(done, prefix, width)
    distance = 1
    while is_block and distance < width:
        moved = moved_lanes(scope.builder, identities, local, distance)
        local = _combine(done, prefix, moved, local, width)
        distance *= 2
    ends = [last_lane(scope.builder, lanes) for lanes in local] if is_block else local
    following = _combine(done, prefix, totals, ends, width)
    running: Sequence[ir.Value] = following
    if prefix.exclusive:
        running = totals
    if is_block:
        added = moved_lanes(scope.builder, identities, local, 1) if prefix.exclusive else local
        running = _combine(done, prefix, totals, added, width)
    names = (a.name for a in prefix.accumulators)
    bound = {name: (value, width) for name, value in zip(names, running, strict=True)}
    emit_body(replace(done, values={**done.values, **bound}), prefix.each)
    return following


# ---------------------------------------------------------------------------------------- products


def _emit_product(scope: KernelScope, product: Product) -> None:
    if is_within(scope, product):
        emit_walk(scope, product, partial(_emit_product, product=product))
        return
    plan = product_plan(product, scope.target)
    if not can_lift(plan):
        scope = replace(scope, lifting=None)
    along = product.columns[0] if plan.vector_axis == "n" else product.rows[0]

    def at(
        within: KernelScope, builder: ir.IRBuilder, row: ir.Value, column: ir.Value
    ) -> KernelScope:
        element = {product.rows[0]: row, product.columns[0]: column}
        return replace(within, builder=builder, indices={**within.indices, **element})

    def epilogue_in(within: KernelScope) -> Epilogue:
        def epilogue(builder: ir.IRBuilder, found: TileElements) -> None:
            lanes = Vector(along, found.width) if found.width > 1 else SCALAR
            values = {**within.values, product.name: (found.value, found.width)}
            place = at(within, builder, found.row, found.column)
            emit_body(replace(place, vector=lanes, values=values, mask=found.mask), product.body)

        return epilogue

    places = places_to_prefetch(product, plan, scope.target)

    def meets(builder: ir.IRBuilder, row: ir.Value, column: ir.Value) -> list[ir.Value]:
        inside = at(scope, builder, row, column)
        return [emit_pointer(inside, buffer, index) for buffer, index in places]

    builder, region = scope.builder, None
    scratch = scratch_of_part(scope, product.scratch, product.blocking.scratch)
    if scope.part is not None and product.parallel is not None:
        region = part_region(builder, plan, product.parallel, scope.part)
    lhs, rhs = (emit_pointer(scope, o.buffer, o.index) for o in (product.lhs, product.rhs))
    result_at = None
    if plan.result_row:
        (store,) = (s for s in product.body if isinstance(s, Store))

        def result_at(builder: ir.IRBuilder, row: ir.Value, column: ir.Value) -> ir.Value:
            return emit_pointer(at(scope, builder, row, column), store.buffer, store.index)

    lift = unlifted if scope.lifting is None else scope.lifting.lift
    apart = epilogue_apart(scope, product, epilogue_in)
    form = epilogue_form(at(scope, builder, _I64(0), _I64(0)), along, product.body)
    emit_contract(
        builder, plan, lhs, rhs, scratch, scope.target, epilogue_in(scope), region,
        meets if places else None, result_at, lift, apart, form,
        shift=emit_index(scope, product.shift), matrices=matrices_prefetched(scope, product),
    )  # fmt: skip
