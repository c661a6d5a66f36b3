"""Function attributes of LLVM IR that say which CPU and features the code of a function is for."""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.target import Target

_CPU = '"target-cpu"'


def bind_functions(module: ir.Module, target: Target) -> None:
    """Say of each function of `module` that it is for `target`, but of those for another one.

    Functions for several machines may then be in one object.
    """
    for function in module.functions:
        is_bound = any(attribute.startswith(_CPU) for attribute in function.attributes)
        if not function.is_declaration and not is_bound:
            bind_function(function, target)


def bind_function(function: ir.LLVMFunction, target: Target) -> None:
    """Say of a function that it is for `target`, whatever its module is compiled for."""
    machine = {_CPU: target.cpu, '"target-features"': target.features}
    function.attributes.update(f'{k}="{v}"' for k, v in machine.items() if v)
