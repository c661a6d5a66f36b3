"""Stack alignment of kernels that spill vector registers.

LLVM finds that values do not fit the registers only while it allocates them, when it is too late to
align the stack, and puts vectors of 64 bytes at any multiple of 16: each that is spilled lies in
two lines of the cache then. A function that states an alignment has it from the start, for four
instructions a call, and a register that leads to its frame.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.loops.language import For, Stmt
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule.interleave import live_values
from symgrad.codegen.target import Target

_STACK_BYTES = 16  # what calls align it to


def with_aligned_spills(
    function: ir.LLVMFunction, body: Sequence[Stmt], target: Target
) -> ir.LLVMFunction:
    """Return a function, its stack aligned to vectors if its body is likely to spill some."""
    if target.vector_bytes > _STACK_BYTES and _spills(body, target):
        function.attributes.add(f"alignstack({target.vector_bytes})")
    return function


def _spills(body: Sequence[Stmt], target: Target) -> bool:
    # What is the same in all lanes, constants among them, takes registers as well.
    loops = (s for s in statements(body) if isinstance(s, For) and s.vector > 1)
    return any(loop.interleave * live_values(loop) > target.vector_registers // 2 for loop in loops)
