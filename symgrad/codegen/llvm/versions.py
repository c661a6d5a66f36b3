"""Loop versioning: the body of a loop once more, for vectors in which no lane exchanges anything.

    p: f64 = b1[i0 + 4]                    p: f64 = b1[i0 + 4]
    t1: bool = eq(p, 1.0)                  if p is 1.0 or more in a lane:
    t2: f64 = select(t1, x1, x0)      ->     as on the left
    t3: f64 = select(t1, x0, x1)           else:
    b2[i0] = mul(t2, t3)                     b2[i0] = mul(x0, x1)

Rows are exchanged so where a matrix is eliminated in each lane, by places that a step before has
found. As libraries of linear algebra leave out to exchange a row with itself, so does this where no
lane does anything else: for matrices that are positive definite, or that have the most of each
column on the diagonal. Which it is seldom changes from vector to vector, so a processor foresees
it. Values are the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import as_it_is
from symgrad.codegen.llvm.expressions import emit_atom, emit_value
from symgrad.codegen.llvm.lanes import emit_scalar_op
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.loops.language import (
    Check,
    Const,
    Let,
    Load,
    Op,
    Plain,
    Ref,
    Select,
    Stmt,
    Store,
)
from symgrad.codegen.vectors import all_of
from symgrad.cost_model import MIN_DECIDED, SHARE_DECIDED
from symgrad.graph.dtypes import bool_
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Versions:
    """What is left of a body if each of the values that are loaded is less than its number."""

    places: tuple[tuple[Let, Const], ...]
    plain: tuple[Stmt, ...]


def versions_of(body: Sequence[Stmt]) -> Versions | None:
    """Return a body in two versions, None where one is enough."""
    if any(isinstance(s, Check) or not isinstance(s, Plain) for s in body):
        return None
    loads = _loads(body)
    compared = {}
    for statement in body:
        match statement:
            case Let(name, Op("eq", (Ref(place), Const() as number), _)) if place in loads:
                compared[name] = place, number
    plain = tuple(_decided(statement, compared) for statement in body)
    # Comparisons fall away as well, but selects are what takes the time.
    fewer = sum(new is not old for new, old in zip(plain, body, strict=True))
    if fewer - len(compared) < MIN_DECIDED or fewer * SHARE_DECIDED < len(body):
        return None
    least: dict[str, Const] = {}
    for place, number in compared.values():
        least[place] = min(least.get(place, number), number, key=lambda const: const.value)
    return Versions(tuple((loads[place], number) for place, number in least.items()), plain)


def _loads(body: Sequence[Stmt]) -> dict[str, Let]:
    """Return the loads of a body, by name, that give the same in its beginning."""
    stored = {s.buffer for s in body if isinstance(s, Store)}
    lets = (s for s in body if isinstance(s, Let))
    return {
        let.name: let
        for let in lets
        if isinstance(let.value, Load) and let.value.buffer not in stored
    }


def _decided(statement: Stmt, compared: Mapping[str, object]) -> Stmt:
    """Return a statement as it is where nothing of `compared` holds."""
    match statement:
        case Let(name, Select(Ref(condition), _, otherwise, _)) if condition in compared:
            return Let(name, otherwise)
        case Let(name, _) if name in compared:
            return Let(name, Const(False, bool_))
    return statement


def emit_versions(
    scope: KernelScope,
    versions: Versions,
    plain: Callable[[], object],
    general: Callable[[], object],
) -> None:
    """Emit a branch to what emits each version.

    It asks of the first place alone at first: where most lanes exchange, it ends there. What is
    loaded for it stays in no register until the general version loads it again.
    """
    builder = scope.builder
    is_plain, is_general, behind = (
        scope.function.append_basic_block(name) for name in ("plain", "general", "versions_end")
    )
    buffers = {name: as_it_is(builder, at) for name, at in scope.buffers.items()}
    apart = replace(scope, buffers=buffers)
    first, rest = versions.places[:1], versions.places[1:]
    if rest:
        others = scope.function.append_basic_block("other_places")
        builder.cbranch(_are_less(apart, first), others, is_general)
        builder.position_at_end(others)
    builder.cbranch(_are_less(apart, rest or first), is_plain, is_general)
    for block, emit in ((is_plain, plain), (is_general, general)):
        builder.position_at_end(block)
        emit()
        builder.branch(behind)
    builder.position_at_end(behind)


def _are_less(scope: KernelScope, places: Sequence[tuple[Let, Const]]) -> ir.Value:
    """Return whether each of these values is less than its number in all lanes."""
    builder, width = scope.builder, scope.vector.width
    holds: ir.Value | None = None
    for let, number in places:
        place, has = emit_value(scope, let.value)
        place = place if has == width else scope.lanes(width).splat(place)
        bounds = [place, emit_atom(scope, number, width)]
        is_less = emit_scalar_op(scope.lanes(width), "lt", bounds, number.dtype)
        holds = is_less if holds is None else builder.and_(holds, is_less)
    assert holds is not None, "versions differ in what is loaded"
    return all_of(builder, holds)
