"""Captured variables: a statement in a function of its own takes what it uses of the scope around.

That are buffers, loop variables and checked indices, and values bound around. What the function is,
who calls it and what else it is passed, is for others to say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from symgrad.codegen import ir
from symgrad.codegen.llvm.scope import SCALAR, KernelScope
from symgrad.codegen.loops.language import Stmt
from symgrad.codegen.loops.rewrite import free_indices, free_values
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Closure:
    """What a statement uses of the scope around, by name: addresses, indices and values."""

    buffers: Mapping[str, ir.Value]
    indices: Mapping[str, ir.Value]
    values: Mapping[str, ir.Value]

    @property
    def arguments(self) -> list[ir.Value]:
        """What a call passes: all of it, in the order in which `within` takes it."""
        return [*self.buffers.values(), *self.indices.values(), *self.values.values()]

    def within(
        self, scope: KernelScope, function: ir.LLVMFunction, given: Iterator[ir.Value]
    ) -> KernelScope:
        """Return the scope in an empty function whose next arguments are `given`, as passed."""
        return replace(
            scope,
            builder=ir.IRBuilder(function.append_basic_block("entry")),
            buffers={name: next(given) for name in self.buffers},
            indices={name: next(given) for name in self.indices},
            values={name: (next(given), 1) for name in self.values},
            vector=SCALAR,
            part=None,
            lifting=None,
        )


def closure_of(
    scope: KernelScope, statement: Stmt, buffers: Collection[str] | None = None
) -> Closure:
    """Return the closure of a statement, with all buffers of the kernel unless some are named."""
    return Closure(
        {n: at for n, at in scope.buffers.items() if buffers is None or n in buffers},
        {name: scope.indices[name] for name in free_indices(statement)},
        {name: scope.values[name][0] for name in free_values(statement)},
    )
