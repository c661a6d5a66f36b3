"""Functions of products that LLVM leaves as they are (`optnone`), with their epilogues apart.

    define internal void @"k0"(...) optnone            goes through tiles, and calls
      call void @"leaf.5f0c..."(...)                     a microkernel for each,
      call void @"k0.epilogue"(ptr %.9, i64 %.7, ...)    and a function for what is done to its sums

Between microkernels there is nothing but where the next tile begins. To optimize that takes LLVM
two thirds of its time for a product, and a tile takes a thousand cycles and more. What computes is
optimized as ever: microkernels, packers, and the epilogue, which therefore is a function of its own
here. A product within a loop of its kernel, such as that of rows that are fused, is optimized.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.epilogue import Apart, EmitRows, Epilogue
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.lifted import can_lift
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.llvm.closures import closure_of
from symgrad.codegen.llvm.lifting import Lifting
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.llvm.spills import with_aligned_spills
from symgrad.codegen.loops.language import Product, Stmt, has_check
from symgrad.codegen.loops.rewrite import buffers_used
from symgrad.codegen.target import Target
from symgrad.cost_model.products import LEAST_CYCLES_WALKED
from symgrad.records import replace

_UNOPTIMIZED = "optnone"
EpilogueOf = Callable[[KernelScope], Epilogue]


def as_walk(function: ir.LLVMFunction, body: Sequence[Stmt], target: Target) -> ir.LLVMFunction:
    """Return a function that is to have this body, not to be optimized if that only walks."""
    if all(isinstance(statement, Product) and walks(statement, target) for statement in body):
        function.attributes.add(_UNOPTIMIZED)
    return function


def is_within(scope: KernelScope, product: Product) -> bool:
    """Return whether a walk is emitted where more is done once in a call, which is optimized.

    Calls pass numbers to the kernel of a small product: that is not cut.
    """
    is_optimized = _UNOPTIMIZED not in scope.function.attributes
    is_cut = is_optimized and scope.lifting is not None and walks(product, scope.target)
    is_cut = is_cut and product.prefetches is None
    return is_cut and not can_lift(product_plan(product, scope.target))


def walks(product: Product, target: Target) -> bool:
    """Return whether a product is nothing but calls, for each of which there is much to compute."""
    return not has_check(product.body) and _walks(product_plan(product, target))


def _walks(plan: ContractPlan) -> bool:
    # Elsewhere zeros are looked at in between, or elements are brought together.
    is_plain = plan.method == "tile" and plan.pack_left != "windows"
    sees = bool(plan.borders) or plan.diagonal is not None
    cycles = plan.tile_elements * min(plan.k, plan.block_k) // (2 * plan.lanes)
    return is_plain and not sees and cycles >= LEAST_CYCLES_WALKED


def emit_walk(scope: KernelScope, product: Product, emit: Callable[[KernelScope], None]) -> None:
    """Emit a product by `emit` in a function of its own, and a call of it."""
    closure = closure_of(scope, product)
    arguments = closure.arguments
    function = _function(scope, "walk", arguments)
    as_walk(function, (product,), scope.target)
    within = closure.within(scope, function, iter(function.args))
    emit(within)
    within.builder.ret_void()
    scope.builder.call(function, arguments)


def epilogue_apart(scope: KernelScope, product: Product, epilogue_of: EpilogueOf) -> Apart | None:
    """Return what emits the epilogue of tiles as a function, None where it is within a function.

    Numbers that calls pass to the kernel it passes on.
    """
    if _UNOPTIMIZED not in scope.function.attributes:
        return None

    def apart(builder: ir.IRBuilder, passed: Sequence[ir.Value], emit: EmitRows) -> None:
        loaded, stored = buffers_used(product.body)
        closure = closure_of(scope, product, loaded | stored)
        arguments = [*passed, *closure.arguments]
        function = _function(scope, "epilogue", arguments)
        with_aligned_spills(function, product.body, scope.target)
        given = iter(function.args)
        tile = [next(given) for _ in passed]
        within = closure.within(scope, function, given)
        if scope.lifting is not None:
            within = replace(within, lifting=Lifting(function))
        emit(within.builder, tile, epilogue_of(within))
        within.builder.ret_void()
        if scope.lifting is not None:
            arguments += [scope.lifting.number(value) for value in function.lifted]
        builder.call(function, arguments)

    return apart


def _function(scope: KernelScope, what: str, arguments: Sequence[ir.Value]) -> ir.LLVMFunction:
    module = scope.function.module
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    return kernel_function(module, kind, module.get_unique_name(f"{scope.function.name}.{what}"))
