"""Two-stage reduction: a long fold with few results is cut into pieces, which are then combined.

    fold s: f32 = 0.0 for k in 0..1000000 { t: f32 = x[k] yield t } combine ...
    y[0] = s

becomes

    for k.piece in 0..32 {
      fold s.piece: f32 = 0.0 for k in 0..31232 { t: f32 = x[31232*k.piece + k] yield t } ...
      partial1[k.piece] = s.piece
    }
    fold s.piece: f32 = 0.0 for k in 0..576 { t: f32 = x[k + 999424] yield t } ...
    partial1[32] = s.piece
    fold s: f32 = 0.0 for k.piece in 0..33 { s.item: f32 = partial1[k.piece] yield s.item } ...
    y[0] = s

The pieces are independent, so threads can share them. It changes the order in which elements are
combined. Hence whether and how a fold is cut depends on its shape alone, never on threads or on the
machine: one thread takes the same pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.kernel_costs import statement_cycles
from symgrad.codegen.loops.index_arithmetic import index_of
from symgrad.codegen.loops.language import (
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Param,
    Ref,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import indices, map_indices, substitute_variable
from symgrad.codegen.schedule.vectorize import (
    fold_nest,
    merge_folds,
    merge_loops,
    nested,
    perfect_nest,
)
from symgrad.cost_model import (
    ENOUGH_RESULTS,
    LEAST_PIECES,
    PIECE_MULTIPLE,
    PIECES,
    RESULTS_TOGETHER,
    ROWS_OF_A_PIECE,
)
from symgrad.records import dataclass, replace


def split_folds(kernel: Kernel, least_cycles: float) -> Kernel:
    """Reduce in two stages: folds of at least `least_cycles` and few results, cut into pieces."""
    params = list(kernel.params)
    body: list[Stmt] = []
    for statement in kernel.body:
        plan = _plan(statement, least_cycles)
        body += (statement,) if plan is None else _split(plan, params)
    return replace(kernel, params=tuple(params), body=tuple(body))


@dataclass(frozen=True, slots=True)
class _Plan:
    """A fold in loops, what follows it, and how it is cut.

    It may be one of folds around each other; cut is the one over `var`, into `whole` pieces of
    `piece` elements, and `left` that are left over.
    """

    loops: tuple[For, ...]
    fold: Fold
    after: tuple[Stmt, ...]
    var: str
    piece: int
    whole: int
    left: int


def _plan(statement: Stmt, least_cycles: float) -> _Plan | None:
    """Return how the fold of a statement is cut, None if it is not or there is none."""
    loops: list[For] = []
    body: tuple[Stmt, ...] = (statement,)
    if isinstance(statement, For):
        loops, body = perfect_nest(merge_loops(statement))
    if not body or not isinstance(body[0], Fold) or statement_cycles(statement) < least_cycles:
        return None
    fold, after = merge_folds(body[0]), body[1:]
    is_alone = not any(isinstance(s, Loop) for s in after)
    longest = max(fold_nest(fold), key=lambda f: f.extent)
    if not is_alone or any(loop.ordered for loop in loops) or longest.extent < 2 * PIECES:
        return None
    if _results(loops, fold) >= ENOUGH_RESULTS:
        return None
    piece = longest.extent // _pieces(longest.extent)
    if piece >= 2 * PIECE_MULTIPLE:
        piece -= piece % PIECE_MULTIPLE
    cut = divmod(longest.extent, piece)
    return _Plan(tuple(loops), fold, after, longest.var, piece, *cut)


def _pieces(terms: int) -> int:
    """Return how many pieces a fold of so many terms, or rows of them, is cut into."""
    return min(PIECES, max(LEAST_PIECES, terms // ROWS_OF_A_PIECE))


def _results(loops: Sequence[For], fold: Fold) -> int:
    """Return how many results there are to share; those side by side in vectors count as one.

    What is the same in all iterations, such as the mean of a row, says nothing of that.
    """
    results = 1
    folded = [f.var for f in fold_nest(fold)]
    read = [index for index in indices(fold.body) if any(map(index.coefficient, folded))]
    for loop in loops:
        beside = any(index.coefficient(loop.var) == 1 for index in read)
        results *= -(-loop.extent // RESULTS_TOGETHER) if beside else loop.extent
    return results


def _split(plan: _Plan, params: list[Param]) -> list[Stmt]:
    """Return the statements for a fold; the buffers of its partial results join `params`."""
    fold = plan.fold
    piece = f"{plan.var}.piece"
    pieces = plan.whole + bool(plan.left)
    step, count = 1, pieces
    place: list[tuple[str, int]] = []
    for loop in reversed(plan.loops):
        place.append((loop.var, step))
        step, count = step * loop.extent, count * loop.extent
    buffers = []
    for accumulator in fold.accumulators:
        dtype = accumulator.identity.dtype
        buffers.append(Param(f"partial{len(params)}", dtype, count, "scratch"))
        params.append(buffers[-1])
    at = index_of(*place, (piece, step))
    whole = _piece(plan, buffers, at, index_of((plan.var, 1), (piece, plan.piece)), plan.piece)
    statements: list[Stmt] = [
        nested([For(piece, plan.whole, ()), *plan.loops], whole),
    ]
    if plan.left:
        last = index_of(*place, const=step * plan.whole)
        moved = Index(plan.whole * plan.piece, ((plan.var, 1),))
        rest = _piece(plan, buffers, last, moved, plan.left)
        statements += [nested(plan.loops, rest)] if plan.loops else rest
    final = (_combined(fold, piece, pieces, buffers, at), *plan.after)
    return [*statements, *([nested(plan.loops, final)] if plan.loops else final)]


def _piece(
    plan: _Plan, buffers: Sequence[Param], at: Index, element: Index, extent: int
) -> tuple[Stmt, ...]:
    """Return the fold over a piece and the stores of its results to place `at`."""
    fold = plan.fold

    def move(index: Index) -> Index:
        return substitute_variable(index, plan.var, element)

    (moved,) = map_indices((fold,), move)
    assert isinstance(moved, Fold), "a fold stays one"
    # The names of the results are for the fold that combines them.
    own = tuple(replace(a, name=f"{a.name}.piece") for a in fold.accumulators)
    stores = (
        Store(buffer.name, at, Ref(a.name, a.identity.dtype))
        for a, buffer in zip(own, buffers, strict=True)
    )
    return (replace(_resized(moved, plan.var, extent), accumulators=own), *stores)


def _resized(fold: Fold, var: str, extent: int) -> Fold:
    """Return folds around each other with the one over `var` of another extent."""
    if fold.var == var:
        return replace(fold, extent=extent)
    (inner,) = fold.body
    assert isinstance(inner, Fold), f"there is a fold over {var}"
    return replace(fold, body=(_resized(inner, var, extent),))


def _combined(fold: Fold, piece: str, pieces: int, buffers: Sequence[Param], at: Index) -> Fold:
    """Return the fold over the partial results."""
    items = tuple(Ref(f"{a.name}.item", a.identity.dtype) for a in fold.accumulators)
    loads = tuple(
        Let(item.name, Load(buffer.name, at, buffer.dtype))
        for item, buffer in zip(items, buffers, strict=True)
    )
    return replace(fold, var=piece, extent=pieces, body=loads, items=items)
