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

from collections.abc import Mapping, Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.expressions import emit_atom, emit_value
from symgrad.codegen.llvm.lanes import emit_scalar_op
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.loops.language import Const, Let, Load, Op, Ref, Select, Stmt, Store
from symgrad.codegen.vectors import any_of
from symgrad.graph.dtypes import bool_
from symgrad.records import dataclass

LEAST_CHOICES = 32  # selects that fall away: fewer are no slower than to ask whether they do
LEAST_SHARE = 5  # and one in so many statements: what is left is code a second time


@dataclass(frozen=True, slots=True)
class Versions:
    """A body behind `loads`, and what is left of it if each of `places` is less than its number."""

    loads: tuple[Let, ...]
    places: Mapping[str, Const]
    general: tuple[Stmt, ...]
    plain: tuple[Stmt, ...]


def versions_of(body: Sequence[Stmt]) -> Versions | None:
    """Return a body in two versions, None where one is enough."""
    if not all(isinstance(s, Let | Store) for s in body):
        return None
    loads = {s.name: s for s in body if isinstance(s, Let) and isinstance(s.value, Load)}
    compared = {}
    for statement in body:
        match statement:
            case Let(name, Op("eq", (Ref(place), Const() as number), _)) if place in loads:
                compared[name] = place, number
    plain = tuple(_decided(statement, compared) for statement in body)
    fewer = sum(new is not old for new, old in zip(plain, body, strict=True))
    if fewer - len(compared) < LEAST_CHOICES or fewer * LEAST_SHARE < len(body):
        return None
    places: dict[str, Const] = {}
    for place, number in compared.values():
        places[place] = min(places.get(place, number), number, key=lambda const: const.value)
    asked = tuple(loads[place] for place in places)
    general = (tuple(s for s in statements if s not in asked) for statements in (body, plain))
    return Versions(asked, places, *general)


def _decided(statement: Stmt, compared: Mapping[str, object]) -> Stmt:
    """Return a statement as it is where nothing of `compared` holds."""
    match statement:
        case Let(name, Select(Ref(condition), _, otherwise, _)) if condition in compared:
            return Let(name, otherwise)
        case Let(name, _) if name in compared:
            return Let(name, Const(False, bool_))
    return statement


def emit_is_general(scope: KernelScope, versions: Versions) -> ir.Value:
    """Bind what is loaded, and return whether a lane needs the general version."""
    holds: ir.Value | None = None
    for let in versions.loads:
        scope.values[let.name] = value, width = emit_value(scope, let.value)
        bounds = [value, emit_atom(scope, versions.places[let.name], width)]
        found = emit_scalar_op(scope.lanes(width), "ge", bounds, versions.places[let.name].dtype)
        found = (
            found if width == scope.vector.width else scope.lanes(scope.vector.width).splat(found)
        )
        holds = found if holds is None else scope.builder.or_(holds, found)
    assert holds is not None, "versions differ in what is loaded"
    return any_of(scope.builder, holds)
