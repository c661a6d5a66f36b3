"""Leaf functions of products: a microkernel or a packer is one for all products that call it.

    contract.tile: 6 rows by 64 columns, the left 64 elements a row   <- products of any height

What one does depends on the shape of a tile and on strides, not on the sizes of a product, and so
many products call the same. It is emitted once in a process, and its machine code is an object of
its own, to which those of kernels are linked (`codegen/llvm/linkable.py`). What it reads and writes
is declared, since who calls it need not see more of it. Where it can be it is for a level of
the instruction set and not for a CPU: then its code is the same on all machines that have the
level, and may be compiled on another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.kernels.dot import DotKernel, emit_dot_kernel
from symgrad.codegen.contract.kernels.held import HeldKernel, emit_held_kernel
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.kernels.matrix import MatrixKernel, emit_matrix_kernel
from symgrad.codegen.contract.kernels.microkernel import emit_microkernel
from symgrad.codegen.contract.kernels.pack import PanelPacker, emit_packer
from symgrad.codegen.contract.kernels.pair_packing import PairPacker, emit_pair_packer
from symgrad.codegen.contract.kernels.pairs import PairKernel, emit_pair_kernel
from symgrad.codegen.contract.kernels.register_tile import Microkernel
from symgrad.codegen.contract.kernels.split import SplitKernel, emit_split_kernel
from symgrad.codegen.contract.kernels.split_packing import SplitPacker, emit_split_packer
from symgrad.codegen.contract.kernels.turned import TurnedKernel, emit_turned_kernel
from symgrad.codegen.target import Target
from symgrad.codegen.target_attributes import bind_function

Leaf = (
    Microkernel | DotKernel | PairKernel | MatrixKernel | SplitKernel | HeldKernel
    | TurnedKernel | PanelPacker | PairPacker | SplitPacker
)  # fmt: skip

# A prefetch counts as an access to memory that nothing else sees.
_EFFECTS = ("memory(argmem: readwrite, inaccessiblemem: readwrite)", "nofree", "norecurse")


def leaf_function(module: ir.Module, leaf: Leaf) -> ir.LLVMFunction:
    """Return the function of `module` that does what `leaf` says; one that is known is declared."""
    function = module.made_of.get(leaf)
    if function is None:
        known = module.find(leaf)
        function = (
            module.include(_emitted(leaf)) if known is None else _declared(module, leaf, known)
        )
        module.made_of[leaf] = function
    return function


def known_as(leaf: Leaf, digest: str) -> ir.KnownFunction:
    """Return what a module has to know of the function of a leaf, with this digest, to call it."""
    function = _emitted(leaf)
    takes = tuple(kind.text for kind in function.function_type.takes)
    known = ir.KnownFunction(function.name, takes, digest)
    declared = _declared(ir.Module(), leaf, known).header
    assert declared == function.header, f"{declared} is not {function.header}"
    return known


@lru_cache(maxsize=1024)
def shared_level(leaf: Leaf) -> Target | None:
    """Return the level that the function of a leaf is for, None if it is for a CPU.

    A CPU may have more instructions for 16-bit floats than its level.
    """
    elements = list(_elements(leaf))
    has_half = any(dtype.is_half for each in elements for dtype in (each.stored, each.compute))
    return None if has_half or not elements else elements[0].target.shared_level


def _elements(leaf: Leaf) -> Iterator[Elements]:
    """Yield what a leaf states of its operands, if it states all of them."""
    stated = (
        Microkernel
        | DotKernel
        | PanelPacker
        | SplitKernel
        | SplitPacker
        | HeldKernel
        | TurnedKernel
    )
    if isinstance(leaf, stated):
        values = (getattr(leaf, field.name) for field in fields(leaf))
        yield from (value for value in values if isinstance(value, Elements))


def _declared(module: ir.Module, leaf: Leaf, known: ir.KnownFunction) -> ir.LLVMFunction:
    takes = [ir.PointerType() if text == "ptr" else ir.Type(text) for text in known.takes]
    kind, name = ir.FunctionType(ir.VoidType(), takes), module.get_unique_name(known.name)
    module.elsewhere[name] = known.digest
    return _with_attributes(kernel_function(module, kind, name), leaf)


@lru_cache(maxsize=1024)
def _emitted(leaf: Leaf) -> ir.LLVMFunction:
    return _with_attributes(_emit(ir.Module(), leaf), leaf)


def _with_attributes(function: ir.LLVMFunction, leaf: Leaf) -> ir.LLVMFunction:
    function.attributes.update(_EFFECTS)
    level = shared_level(leaf)
    if level is not None:
        bind_function(function, level)
    for argument in function.args:
        if isinstance(argument.type, ir.PointerType):
            argument.add_attribute("nocapture")
    return function


def _emit_held(module: ir.Module, leaf: HeldKernel | TurnedKernel) -> ir.LLVMFunction:
    if isinstance(leaf, HeldKernel):
        return emit_held_kernel(module, leaf)
    return emit_turned_kernel(module, leaf)


def _emit(module: ir.Module, leaf: Leaf) -> ir.LLVMFunction:
    match leaf:
        case Microkernel():
            return emit_microkernel(module, leaf)
        case DotKernel():
            return emit_dot_kernel(module, leaf)
        case PairKernel():
            return emit_pair_kernel(module, leaf)
        case MatrixKernel():
            return emit_matrix_kernel(module, leaf)
        case PanelPacker():
            return emit_packer(module, leaf)
        case PairPacker():
            return emit_pair_packer(module, leaf)
        case SplitKernel():
            return emit_split_kernel(module, leaf)
        case HeldKernel() | TurnedKernel():
            return _emit_held(module, leaf)
        case SplitPacker():
            return emit_split_packer(module, leaf)
