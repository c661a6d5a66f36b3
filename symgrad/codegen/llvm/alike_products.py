"""Template instantiation of products: of those that differ in how many rows or terms they have.

    product s: f32 for i in 0..37, j in 0..128 sum k in 0..64 of x[...] * w[...] { ... }
        ->  that of 0..41 rows, with the numbers of this one

A step that is compiled for batch after batch has the same products again, with more rows or more
terms. One on each path of the emitter is emitted with symbolic sizes (`codegen/concolic.py`), and
the text of the others, in whichever program, is that one with their numbers. It is the text that
emitting each of them gives, with which it is compared where passes are verified. A product that is
the first with all else it has is just emitted: most programs have no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeGuard

from symgrad.codegen import ir
from symgrad.codegen.concolic import Path, Templates
from symgrad.codegen.contract.kernels.leaf_functions import Leaf, leaf_function
from symgrad.codegen.contract.lifted import can_lift
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.products import keep_plan, product_plan
from symgrad.codegen.llvm.kernels import emit_kernel
from symgrad.codegen.llvm.lifting import is_lifted
from symgrad.codegen.llvm.math.internal import is_internal
from symgrad.codegen.llvm.sized_functions import SizedFunction, body_of, sized_function
from symgrad.codegen.loops.language import Atom, Const, Kernel, Let, Op, Product, Stmt, Store
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import arguments
from symgrad.codegen.target import Target
from symgrad.config import settings
from symgrad.records import replace

MAX_PATHS = 12  # of products that are alike: a tile of each height is one, or two
_MOST_KNOWN = 128  # kinds of products: a template has some twenty kilobytes of text

# What of a plan follows from its rows and terms, besides the shape of a tile.
_FOLLOWING = ("band_tiles", "block_tiles", "block_k", "packed_terms", "cycles")
_STAND_IN = 0.3  # for a number that an epilogue is passed, whichever that is
_OF_PLAN = 2 + len(_FOLLOWING)  # sizes; those of buffers are behind


class _Alike:
    """Products that are the same but for their rows and terms, and how many there have been."""

    def __init__(self) -> None:
        self.count = 0
        self.templates: Templates[SizedFunction] = Templates(MAX_PATHS)


# By the text of a kernel without sizes, and its plan without them.
@lru_cache(maxsize=_MOST_KNOWN)
def _alike(text: str, plan: ContractPlan, target: Target) -> _Alike:
    return _Alike()


def emitted_product(module: ir.Module, kernel: Kernel, target: Target) -> ir.LLVMFunction | None:
    """Return the function of a kernel that is a product, None if it is to be emitted."""
    if len(kernel.body) != 1 or not isinstance(kernel.body[0], Product):
        return None
    plan = product_plan(kernel.body[0], target)
    plain = kernel
    if can_lift(plan):
        kernel = _with_number(kernel, _STAND_IN)
    sizes = _sizes(kernel, plan)
    zero = (0,) * len(sizes)
    text = print_kernel(replace(_with_sizes(kernel, plan, zero, (0, 0, 0)), name="kernel"))
    alike = _alike(text, _plan_with_sizes(plan, zero), target)
    alike.count += 1
    if alike.count == 1:
        return None
    found = alike.templates.found(sizes, lambda: _traced(module, kernel, plan, target))
    if found is None:
        return None
    if settings().verify:
        _verify(module, plain, target, found, sizes)
    return _instance(module, plain, found, sizes)


def _lifted_number(body: Sequence[Stmt]) -> Const | None:
    """Return the number that the epilogue of a product is passed, None if it is not one of ops."""
    numbers: set[Const] = set()
    for statement in body:
        if isinstance(statement, Let) and isinstance(statement.value, Op):
            numbers.update(filter(_may_be_lifted, statement.value.args))
        elif isinstance(statement, Let):
            if any(map(_may_be_lifted, arguments(statement.value))):
                return None
        elif not isinstance(statement, Store) or _may_be_lifted(statement.value):
            return None
    return numbers.pop() if len(numbers) == 1 else None


def _may_be_lifted(atom: Atom) -> TypeGuard[Const]:
    return isinstance(atom, Const) and atom.dtype.is_float and is_lifted(float(atom.value))


def _with_number(kernel: Kernel, value: float) -> Kernel:
    """Return a kernel with another number in the place of the one that its epilogue is passed."""
    (product,) = kernel.body
    assert isinstance(product, Product), f"{kernel.name} is no product"
    number = _lifted_number(product.body)
    if number is None:
        return kernel
    other = replace(number, value=value)

    def changed(statement: Stmt) -> Stmt:
        if not isinstance(statement, Let) or not isinstance(statement.value, Op):
            return statement
        args = tuple([other if arg == number else arg for arg in statement.value.args])
        return replace(statement, value=replace(statement.value, args=args))

    return replace(kernel, body=(replace(product, body=tuple(map(changed, product.body))),))


def _sizes(kernel: Kernel, plan: ContractPlan) -> tuple[Any, ...]:
    """Return the rows and the terms of a product, what follows from them, and sizes of buffers."""
    following = (getattr(plan, name) for name in _FOLLOWING)
    return plan.rows, plan.k, *following, *(param.count for param in kernel.params)


def _with_sizes(kernel: Kernel, plan: ContractPlan, sizes: tuple[Any, ...], block: Any) -> Kernel:
    """Return the kernel of a product with other sizes; of what a `block` is nothing is emitted."""
    (product,) = kernel.body
    assert isinstance(product, Product), f"{kernel.name} is no product"
    rows, k, *_ = sizes
    counts = sizes[_OF_PLAN:]
    params = tuple(replace(p, count=n) for p, n in zip(kernel.params, counts, strict=True))
    along = "rows" if plan.vector_axis == "n" else "columns"
    extents: dict[str, Any] = {
        along: (getattr(product, along)[0], rows),
        "inner": (product.inner[0], k),
    }
    blocking = replace(product.blocking, block=block)
    return replace(kernel, params=params, body=(replace(product, blocking=blocking, **extents),))


def _plan_with_sizes(plan: ContractPlan, sizes: tuple[Any, ...]) -> ContractPlan:
    rows, k, *following = sizes[:_OF_PLAN]
    along = "m" if plan.vector_axis == "n" else "n"
    return replace(plan, **{along: rows}, k=k, **dict(zip(_FOLLOWING, following, strict=True)))


def _traced(
    module: ir.Module, kernel: Kernel, plan: ContractPlan, target: Target
) -> SizedFunction | None:
    """Emit the kernel of a product with symbolic sizes, None if there is more than its function."""
    path, sizes = Path(), _sizes(kernel, plan)
    symbolic = tuple(path.sizes(sizes))
    sized = _with_sizes(kernel, plan, symbolic, ())
    (product,) = sized.body
    assert isinstance(product, Product), f"{kernel.name} is no product"
    keep_plan(product, _plan_with_sizes(plan, symbolic), target)
    found = sized_function(path, _module_beside(module), sized, target)
    function = found.function
    leaves = _leaves(found)
    others = [made for made in found.called if made not in leaves]
    is_sized = any("?" in attribute for attribute in function.attributes)
    stated = {v.ref for v in function.lifted if _is_number(v)}
    # Or the number that stands in for another is in the text.
    has_number = _lifted_number(product.body) is not None
    is_sized |= has_number != bool(stated) or any(number in found.text.form for number in stated)
    if found.module.metadata or is_sized or not all(map(_is_known_by_name, others)):
        return None
    return found


def _module_beside(module: ir.Module) -> ir.Module:
    """Return an empty module that knows the leaf functions that `module` does."""
    own = ir.Module()
    own.find = module.find
    return own


def _leaves(template: SizedFunction) -> dict[ir.LLVMFunction, Leaf]:
    """Return of which leaf functions there are made."""
    return {leaf: of for of, leaf in template.module.made_of.items()}


def _is_known_by_name(made: object) -> bool:
    """Return whether a function is of its name everywhere."""
    return isinstance(made, ir.LLVMFunction) and (made.is_declaration or is_internal(made.name))


def _is_number(value: ir.Value) -> bool:
    """Return whether what calls pass is the number of an epilogue."""
    return isinstance(value, ir.Constant) and value.number is None


def _instance(
    module: ir.Module, kernel: Kernel, template: SizedFunction, sizes: tuple[Any, ...]
) -> ir.LLVMFunction:
    """Add the function of a template for `sizes`, and what it calls in the order it is met."""
    numbers = template.path.numbers(sizes)
    names: dict[str, str] = {}
    leaves = _leaves(template)
    here: dict[Any, ir.LLVMFunction] = {}

    def body() -> str:
        return _renamed(template.text.of(numbers), names)

    function = template.function.like(module, kernel.name, body)
    for made in template.called:
        if made in leaves:
            here[made] = leaf_function(module, leaves[made])
            if here[made].name != made.name:
                names[made.name] = here[made].name
        elif made.name not in module.globals:
            _add(module, made)
    function.lifted = [here.get(v, v) for v in _lifted(kernel, template, numbers)]
    return function


def _add(module: ir.Module, called: ir.LLVMFunction) -> None:
    """Add a function that is of its name everywhere; one with a body may be bound to a target."""
    if called.is_declaration:
        module.add(called)
    else:
        called.copied(module, called.name)


def _lifted(kernel: Kernel, template: SizedFunction, numbers: tuple[int, ...]) -> list[ir.Value]:
    """Return what calls pass to a kernel, of leaf functions those of the template."""
    (product,) = kernel.body
    assert isinstance(product, Product), f"{kernel.name} is no product"
    number = _lifted_number(product.body)
    passed = template.passed(numbers)
    if number is None:
        return passed
    return [ir.Constant(v.type, number.value) if _is_number(v) else v for v in passed]


def _verify(
    module: ir.Module,
    kernel: Kernel,
    target: Target,
    template: SizedFunction,
    sizes: tuple[Any, ...],
) -> None:
    """Raise AssertionError unless a template has for `sizes` what emitting the kernel gives."""
    own, numbers = _module_beside(module), template.path.numbers(sizes)
    emitted = emit_kernel(own, kernel, kernel.name, target)
    text = template.text.of(numbers)
    assert text == body_of(emitted), f"a template has given\n{text}"
    assert [*own.made_of] == [*template.module.made_of], "and it calls other leaf functions"
    passed = [value.ref for value in _lifted(kernel, template, numbers)]
    assert passed == [value.ref for value in emitted.lifted], "and is passed other values"


def _renamed(text: str, names: dict[str, str]) -> str:
    """Return a text in which functions are called by other names."""
    if not names:
        return text
    parts = text.split('@"')
    renamed = [part.partition('"') for part in parts[1:]]
    return '@"'.join([parts[0], *(f'{names.get(n, n)}"{rest}' for n, _, rest in renamed)])
