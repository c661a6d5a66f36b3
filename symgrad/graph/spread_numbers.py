"""Hash-consing of numbers: a number beside tensors of one type is one node for all of a gradient.

    %2 = subtract 1, %1      the rule of tanh; a hundred of them have one 1, broadcast once

Beside tensors of other shapes it is the same scalar, broadcast to theirs, as in the update of an
optimizer, whose formula names a few numbers for each variable.

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


class _MadeNumbers:
    """What numbers were made: of a dtype, and in the shape of tensors of a type.

    A type stays alive with what was made for it, so that no other has its identity.
    """

    def __init__(self) -> None:
        self.scalars: dict[Hashable, Tensor] = {}
        self.spread: dict[Hashable, tuple[TensorType, Tensor]] = {}


_numbers: ContextVar[_MadeNumbers | None] = ContextVar("numbers", default=None)


@contextmanager
def numbers_once() -> Iterator[None]:
    """Let equal numbers that are spread alike be one node while it is open, also within another."""
    token = _numbers.set(_numbers.get() or _MadeNumbers())
    try:
        yield
    finally:
        _numbers.reset(token)


def spread_once(
    number: float, like: Tensor, make: Callable[[], Tensor], spread: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return `number` in the dtype and shape of `like`, which is `spread` of the scalar.

    That is what `make` gives, or gave before.
    """
    numbers = _numbers.get()
    if numbers is None or gradient_keys_in_force():
        return spread(make())
    # As text, since 0.0 and -0.0 are equal.
    text, type_, region = repr(number), like.type, current_region()
    found = numbers.spread.get((text, id(type_), region))
    if found is None:
        scalar = numbers.scalars.get((text, type_.dtype.name, region))
        if scalar is None:
            scalar = numbers.scalars[text, type_.dtype.name, region] = make()
        found = numbers.spread[text, id(type_), region] = type_, spread(scalar)
    return found[1]
