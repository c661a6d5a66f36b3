"""Machine code of a single kernel, run on arrays."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from typing import Any

from numpy.typing import NDArray

from symgrad.codegen import ir
from symgrad.codegen.llvm.kernels import emit_kernel
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.native.jit import LoadedCode, emit_object, load_object, optimize
from symgrad.codegen.target import Target
from symgrad.graph.aligned import aligned_empty

Array = NDArray[Any]

# Of a kernel and what it is compared with, which run on several buffers. They are told apart by
# their texts: kernels with 0.0 and -0.0 are equal.
_loaded: OrderedDict[tuple[str, Target], LoadedCode] = OrderedDict()


def run_machine_code(kernel: Kernel, target: Target, buffers: dict[str, Array]) -> list[Array]:
    """Return what a kernel writes, on copies of `buffers`."""
    given = [aligned(buffers[param.name]) for param in kernel.params]
    key = print_kernel(kernel), target
    code = _loaded.pop(key, None) or _compiled(kernel, target)
    _loaded[key] = code
    if len(_loaded) > 2:
        _loaded.popitem(last=False)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(given))(code.address("run"))
    call(*[array.ctypes.data for array in given])
    return [a for a, p in zip(given, kernel.params, strict=True) if p.mode == "out"]


def _compiled(kernel: Kernel, target: Target) -> LoadedCode:
    module = ir.Module()
    function = emit_kernel(module, kernel, "k", target)
    pointers = [ir.PointerType()] * len(kernel.params)
    entry = ir.LLVMFunction(module, ir.FunctionType(ir.VoidType(), pointers), "run")
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    builder.call(function, [*entry.args, *function.lifted])
    builder.ret_void()
    return load_object(emit_object(optimize(str(module), target, 1), target, 1), ["run"])


def aligned(array: Array) -> Array:
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
