"""On-the-fly folding: an identity with a number that a gradient has made is not built.

Before, what the rules of a sum and of a product give for a seed of 1:

    %0 = broadcast_to 1 {shape = [4]} : f32[4]
    %1 = multiply %0, %x : f32[4]

After:

    %x

Simplification would find it (`passes/rewrites/simplify.py`), and then make anew whatever is
computed of the product: all that an optimizer builds upon a gradient. Which identities there are is
for its table to say; those that would build something else are left to it.

A number of a user's stays, since a gradient by it may be asked for. So does a product that a rule
would else take for what is 0 because no gradient arrives (`graph/ops/masks.py`): a value of the
function that is differentiated may be a `where` as well, or zeros.
"""

from __future__ import annotations

from contextvars import Context
from functools import lru_cache

from symgrad.graph.build import apply, current_region, gradient_keys_in_force
from symgrad.graph.dtypes import DType
from symgrad.graph.leaf import constant_node, placeholder
from symgrad.graph.node import OpDef, Tensor
from symgrad.graph.ops.comparison import where_op
from symgrad.graph.ops.elementwise import uniform_constant
from symgrad.graph.ops.structure import broadcast_to_op
from symgrad.graph.ops.subgraph import is_zero
from symgrad.graph.types import ArrayLiteral


def fold_identity(definition: OpDef, inputs: tuple[Tensor, ...]) -> Tensor | None:
    """Return the operand to which the result of an op is equal, None if there is none."""
    if len(inputs) != 2 or not definition.is_elementwise or not inputs[0].type.dtype.is_float:
        return None
    x, y = map(_number_of_gradient, inputs)
    number, operand, is_first = (x, inputs[1], True) if y is None else (y, inputs[0], False)
    if number is None or (x is not None and y is not None) or gradient_keys_in_force():
        return None
    if not _is_neutral(definition, number, is_first, operand.type.dtype):
        return None
    if inputs[0].type != inputs[1].type or operand.node.region is not current_region():
        return None  # shapes may be equal at run time only, and what is around is captured
    return None if _is_read_as_none(operand) else operand


def _number_of_gradient(tensor: Tensor) -> ArrayLiteral | None:
    """Return what all elements of `tensor` are, if it is made of a number made for a node."""
    constant = uniform_constant(tensor)
    if constant is None or constant.node.origin is None or constant.type.shape:
        return None
    value = constant.node.attrs["value"]
    assert isinstance(value, ArrayLiteral), f"{constant!r} is no constant"
    return value


def _is_read_as_none(operand: Tensor) -> bool:
    return operand.node.definition is where_op or is_zero(operand)


@lru_cache(maxsize=1024)  # programs name the same few numbers
def _is_neutral(definition: OpDef, number: ArrayLiteral, is_first: bool, dtype: DType) -> bool:
    """Return whether the first rule of simplification that applies gives the other operand."""
    # Without scopes, regions and folding: rules are equations, which build what they are about.
    return Context().run(_rewrites_to_operand, definition, number, is_first, dtype)


def _rewrites_to_operand(
    definition: OpDef, number: ArrayLiteral, is_first: bool, dtype: DType
) -> bool:
    # The rules are not imported with the package; a program that is compiled needs them as well.
    from symgrad.passes.rewrites.simplify import RULES

    x = placeholder(_SHAPE, dtype)
    spread = apply(broadcast_to_op, constant_node(number), shape=_SHAPE)
    operands = (spread, x) if is_first else (x, spread)
    return RULES.rewritten(apply(definition, *operands).node) is x


_SHAPE = (7,)
