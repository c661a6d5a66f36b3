"""Tile walks: functions of products that LLVM does not optimize, with their epilogues apart.

    define internal void @"k0"(...) optnone            goes through tiles, and calls
      call void @"leaf.5f0c..."(...)                     a microkernel for each,
      call void @"k0.epilogue"(ptr %.9, i64 %.7, ...)    and a function for what is done to its sums

Between microkernels there is nothing but where the next tile begins. To optimize that takes LLVM
two thirds of its time for a product, and a tile takes a thousand cycles and more. What computes is
optimized as ever: microkernels, packers, and the epilogue, which therefore is a function of its own
here. A function with anything else in it, such as rows that are fused with a product, is optimized.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.epilogue import Apart, EmitRows, Epilogue
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.lifted import can_lift
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.llvm.scope import KernelScope
from symgrad.codegen.llvm.spills import with_aligned_spills
from symgrad.codegen.loops.language import Product, Stmt, has_check
from symgrad.codegen.loops.rewrite import buffers_used, free_indices, free_values
from symgrad.codegen.target import Target
from symgrad.cost_model.products import LEAST_PRODUCTS_WALKED
from symgrad.records import replace

_OPTNONE = "optnone"
EpilogueOf = Callable[[KernelScope], Epilogue]


def as_walk(function: ir.LLVMFunction, body: Sequence[Stmt], target: Target) -> ir.LLVMFunction:
    """Return a function that is to have this body, not to be optimized if that only walks."""
    if all(isinstance(s, Product) and _walks(s, product_plan(s, target)) for s in body):
        function.attributes.add(_OPTNONE)
    return function


def _walks(product: Product, plan: ContractPlan) -> bool:
    """Return whether a product is nothing but calls, for each of which there is much to compute.

    Zeros and borders are looked at in between, and the loops of small products are those of others.
    """
    sees = plan.sees_zeros or bool(plan.borders) or plan.diagonal is not None
    is_plain = plan.method == "tile" and plan.pack_left != "windows" and not sees
    is_apart = not plan.keeps_rows and not has_check(product.body)
    products = plan.tile_elements * min(plan.k, plan.block_k)
    return is_plain and is_apart and not can_lift(plan) and products >= LEAST_PRODUCTS_WALKED


def epilogue_apart(scope: KernelScope, product: Product, epilogue_of: EpilogueOf) -> Apart | None:
    """Return what emits the epilogue of tiles as a function, None where it is within a function.

    It takes the buffers, the indices and the values bound around that it uses.
    """
    if _OPTNONE not in scope.function.attributes:
        return None

    def apart(builder: ir.IRBuilder, passed: Sequence[ir.Value], emit: EmitRows) -> None:
        loaded, stored = buffers_used(product.body)
        buffers = {n: a for n, a in scope.buffers.items() if n in loaded | stored}
        indices = {n: scope.indices[n] for n in free_indices(product)}
        values = {n: scope.values[n][0] for n in free_values(product)}
        arguments = [*passed, *buffers.values(), *indices.values(), *values.values()]
        module = scope.function.module
        kind = ir.FunctionType(ir.VoidType(), [a.type for a in arguments])
        name = module.get_unique_name(f"{scope.function.name}.epilogue")
        function = kernel_function(module, kind, name)
        with_aligned_spills(function, product.body, scope.target)
        given = iter(function.args)
        tile = [next(given) for _ in passed]
        inside = replace(
            scope,
            builder=ir.IRBuilder(function.append_basic_block("entry")),
            buffers={name: next(given) for name in buffers},
            indices={name: next(given) for name in indices},
            values={name: (next(given), 1) for name in values},
            part=None,
            lifting=None,
        )
        emit(inside.builder, tile, epilogue_of(inside))
        inside.builder.ret_void()
        builder.call(function, arguments)

    return apart
