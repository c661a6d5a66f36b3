"""Hash-consing of numbers: in a gradient, a number beside tensors of one type is one node for all.

    %2 = subtract 1, %1      the rule of tanh; a hundred of them have one 1, broadcast once

Passes would find that they are equal (`passes/rewrites/cse.py`), when each has been made, inferred
and numbered; which line of a user they are of makes no difference, since they cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from symgrad.graph.build import current_region, gradient_keys_in_force
from symgrad.graph.node import Tensor
from symgrad.graph.types import TensorType


class NumberBeside(NamedTuple):
    """A tensor of floats and a number of Python, which takes its dtype, in either order."""

    tensor: Tensor
    number: int | float
    is_first: bool  # the tensor

    def with_number(self, literal: Tensor) -> list[Tensor]:
        """Return the operands, `literal` in the place of the number."""
        return [self.tensor, literal] if self.is_first else [literal, self.tensor]


def number_beside(x: Any, y: Any) -> NumberBeside | None:
    """Return what two operands are, if one is a tensor of floats and one an int or a float.

    So are most operands of formulas that are not two tensors; None for others.
    """
    tensor, number = (x, y) if isinstance(x, Tensor) else (y, x)
    if type(number) not in (int, float) or not isinstance(tensor, Tensor):
        return None
    if not tensor.type.dtype.is_float:
        return None
    return NumberBeside(tensor, number, tensor is x)


# What a number is for tensors of a type, which stays alive so that no other has its identity.
_Spread = dict[Hashable, tuple[TensorType, Tensor]]
_spread: ContextVar[_Spread | None] = ContextVar("spread", default=None)


@contextmanager
def numbers_once() -> Iterator[None]:
    """Let equal numbers that are spread alike be one node while it is open, also within another."""
    token = _spread.set({} if _spread.get() is None else _spread.get())
    try:
        yield
    finally:
        _spread.reset(token)


def spread_once(number: float, like: Tensor, make: Callable[[], Tensor]) -> Tensor:
    """Return `number` in the dtype and shape of `like`: what `make` gives, or gave before."""
    spread = _spread.get()
    if spread is None or gradient_keys_in_force():
        return make()
    # As text, since 0.0 and -0.0 are equal.
    key = repr(number), id(like.type), current_region()
    found = spread.get(key)
    if found is None:
        found = spread[key] = like.type, make()
    return found[1]
