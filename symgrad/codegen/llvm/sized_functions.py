"""Template of a function: the kernel that was emitted with symbolic sizes, and its numbers.

What is instantiated, and when, is for `alike_kernels.py` and `alike_products.py` to say.
"""

from __future__ import annotations

from typing import Any

from symgrad.codegen import ir
from symgrad.codegen.concolic import Maker, Path, TakenPath, TextWithNumbers
from symgrad.codegen.llvm.kernels import emit_kernel
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.target import Target
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class SizedFunction:
    """A function in a module of its own, its text, and the numbers that calls pass to it."""

    path: TakenPath
    module: ir.Module
    function: ir.LLVMFunction
    text: TextWithNumbers
    lifted: Maker

    @property
    def called(self) -> list[Any]:
        """What else there is in its module."""
        return [made for made in self.module.globals.values() if made is not self.function]

    def passed(self, numbers: tuple[int, ...]) -> list[ir.Value]:
        """Return what calls pass where sizes are these `numbers`."""
        lifted = zip(self.function.lifted, self.lifted(numbers), strict=True)
        return [v if number is None else ir.Constant(v.type, number) for v, number in lifted]


def sized_function(path: Path, module: ir.Module, kernel: Kernel, target: Target) -> SizedFunction:
    """Emit a kernel that has symbolic sizes of `path` in an empty module."""
    made: list[ir.LLVMFunction] = []

    def emit() -> str:
        made.append(emit_kernel(module, kernel, kernel.name, target))
        return body_of(made[0])

    text = path.text(emit)
    (function,) = made
    lifted = path.maker(tuple([_size_in(value) for value in function.lifted]))
    return SizedFunction(path.taken(), module, function, text, lifted)


def body_of(function: ir.LLVMFunction) -> str:
    """Return the text of a function without its first and its last line."""
    return "\n".join([*function.lines()][1:-1])


def _size_in(value: ir.Value) -> int | None:
    """Return the number that calls pass, None of what no size is in."""
    return value.number if isinstance(value, ir.Constant) else None
