"""Function attributes of generated kernels: `internal`, `noinline`, pointers without aliases.

So is declared what computes: a kernel, a part of one, what runs in a product. Its body is for the
caller to emit; functions that only call others are declared where they are.
"""

from __future__ import annotations

from symgrad.codegen import ir


def kernel_function(module: ir.Module, type_: ir.FunctionType, name: str) -> ir.LLVMFunction:
    """Declare a function of `module` whose pointers lead to memory that does not overlap."""
    function = ir.LLVMFunction(module, type_, name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    function.attributes.add("noinline")
    for argument in function.args:
        if isinstance(argument.type, ir.PointerType):
            argument.add_attribute("noalias")
    return function
