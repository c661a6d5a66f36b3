"""Strip mining behind folds: what follows wide folds in a loop is done some of its lanes at a time.

    for i0 in 0..512 vector(256) {        256 results of the fold are in registers,
      fold t4: f32 = ...             ->   and put in memory on the stack;
      b1[i0] = ...                        a loop goes on with 16 of them at a time
    }

As many registers as a fold down columns takes would each have a copy of an update's code, which
takes LLVM long, and it spills what the fold has come to anyway. The results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import counted_loop
from symgrad.codegen.llvm.prefetching import emit_prefetch_of_next, lines_of_results
from symgrad.codegen.llvm.scope import KernelScope, Vector
from symgrad.codegen.llvm.versions import emit_versions, versions_of
from symgrad.codegen.loops.language import Fold, For, Plain, Stmt, has_check
from symgrad.codegen.loops.rewrite import free_indices, free_values
from symgrad.cost_model import MOST_COPIES_BEHIND_FOLDS
from symgrad.records import replace

_I64 = ir.IntType(64)

EmitBody = Callable[[KernelScope, Sequence[Stmt]], KernelScope]


def emit_iteration(scope: KernelScope, loop: For, emit_body: EmitBody) -> None:
    """Emit the body of a loop, what is behind its folds in pieces if it is long in vectors."""
    emit_prefetch_of_next(scope, loop)
    folds = [at for at, statement in enumerate(loop.body) if isinstance(statement, Fold)]
    end = folds[-1] + 1 if folds else 0
    before, behind = loop.body[:end], loop.body[end:]
    piece = _piece(scope, loop, before, behind)
    if piece is None:
        _emit_whole(replace(scope, prefetched=lines_of_results(scope, loop)), loop, emit_body)
        return
    done = emit_body(scope, before)
    used = free_values(replace(loop, body=behind))
    bound = ((name, *done.values[name]) for name in used)
    width = scope.vector.width
    held = {name: value for name, value, lanes in bound if lanes == width}
    places = {name: _put(done, value, piece) for name, value in held.items()}
    with counted_loop(scope.builder, _I64(0), _I64(width), piece) as at:
        taken = {name: _taken(done, places[name], held[name], at, piece) for name in held}
        values = done.values | {name: (value, piece) for name, value in taken.items()}
        inside = replace(done, vector=Vector(loop.var, piece), values=values)
        index = scope.builder.add(scope.indices[loop.var], at, flags=("nuw", "nsw"))
        emit_body(inside.inside(loop.var, index), behind)


def _emit_whole(scope: KernelScope, loop: For, emit_body: EmitBody) -> None:
    is_one = scope.vector.variable != loop.var or scope.written_out is not None
    versions = None if is_one else versions_of(loop.body)
    if versions is None:
        emit_body(scope, loop.body)
        return
    emit_versions(
        scope,
        versions,
        partial(emit_body, scope, versions.plain),
        partial(emit_body, scope, loop.body),
    )


def _piece(
    scope: KernelScope, loop: For, before: tuple[Stmt, ...], behind: tuple[Stmt, ...]
) -> int | None:
    """Return how many lanes are taken at a time, None where all of them are."""
    if scope.vector.variable != loop.var or scope.written_out is not None:
        return None
    if has_check(behind) or not all(isinstance(statement, Plain) for statement in behind):
        return None
    dtypes = [a.identity.dtype for s in before if isinstance(s, Fold) for a in s.accumulators]
    # A loop behind the folds knows of what was before it what they have come to.
    if not all(isinstance(statement, Fold) for statement in before) or not dtypes:
        return None
    if any(dtype.is_bool for dtype in dtypes):
        return None
    if not scope.indices.keys() >= {*free_indices(replace(loop, body=behind))}:
        return None
    lanes = scope.target.lanes(max(dtype.itemsize for dtype in dtypes))
    registers, left = divmod(scope.vector.width, lanes)
    are_few = registers == 1 or registers * len(behind) <= MOST_COPIES_BEHIND_FOLDS
    return None if lanes == 1 or left or are_few else lanes


def _put(scope: KernelScope, value: ir.Value, piece: int) -> ir.Value:
    """Put a value in memory on the stack; return where that is."""
    kind = _vector(value, piece)
    align = scope.target.vector_bytes
    place = scope.builder.alloca_once(ir.ArrayType(kind, scope.vector.width // piece), align)
    scope.builder.store(value, place, align=align)
    return place


def _taken(
    scope: KernelScope, place: ir.Value, value: ir.Value, at: ir.Value, piece: int
) -> ir.Value:
    """Return the lanes of a value from `at` on."""
    kind, align = _vector(value, piece), scope.target.vector_bytes
    address = scope.builder.gep(place, [at], source_etype=kind.element)
    return scope.builder.load(address, typ=kind, align=align)


def _vector(value: ir.Value, lanes: int) -> ir.VectorType:
    assert isinstance(value.type, ir.VectorType), "a fold in a vector loop has lanes"
    return ir.VectorType(value.type.element, lanes)
