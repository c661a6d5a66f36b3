"""Internal linkage: functions of a module that are made where they are first called.

They are internal, so a module carries what it uses and exports none of it, and they touch no
memory, so calls of them are moved and merged like instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.math.values import type_suffix

Body = Callable[[ir.IRBuilder, Sequence[ir.Value]], ir.Value]

_OWN = "sg."  # what the names of functions begin with that are made here


def call_internal(
    builder: ir.IRBuilder,
    name: str,
    args: Sequence[ir.Value],
    result: ir.Type,
    body: Body,
    *,
    inline: bool,
    is_cold: bool = False,
) -> ir.Value:
    """Call the function `sg.<name>.<type of the first argument>`.

    `body` emits what it returns, from its entry block on. Functions that are not to be inlined
    have a name of their own, so both kinds can be in one module.
    """
    full = full_name(name, args[0].type, inline=inline)
    function = builder.module.globals.get(full)
    if function is None:
        kind = ir.FunctionType(result, [arg.type for arg in args])
        function = ir.LLVMFunction(builder.module, kind, full)
        function.linkage = "internal"
        kinds = ["alwaysinline" if inline else "noinline", "nounwind", "readnone"]
        for attribute in [*kinds, "cold"] if is_cold else kinds:
            function.attributes.add(attribute)
        inside = ir.IRBuilder(function.append_basic_block("entry"))
        inside.ret(body(inside, function.args))
    return builder.call(function, args)


def full_name(name: str, kind: ir.Type, *, inline: bool) -> str:
    """Return the name of the function `name` of a type, which says whether it is inlined."""
    return f"{_OWN}{name}.{type_suffix(kind)}" + ("" if inline else ".outlined")


def is_internal(name: str) -> bool:
    """Return whether a function of this name is the same in all modules that have it."""
    return name.startswith(_OWN)
