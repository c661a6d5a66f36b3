"""Pytree flattening of call arguments: which leaves of them are tensors.

Tensors, arrays and floats are what a gradient may be asked by, at any depth of lists, tuples and
dicts. All else, such as an int, a bool or a string, goes to the function as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.frontend.nests import flatten, unflatten
from symgrad.graph.foreign_arrays import has_own_dtype
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor


class CallArguments:
    """The arguments of one call; those given by keyword stand where the signature has them.

    `leaves` are those of all arguments in order, a tensor for each that is one or becomes one.
    """

    def __init__(
        self,
        subject: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        self._subject = subject
        self.values = tuple(args) if not kwargs else self._in_order(function, args, kwargs)
        flat, self._nest = flatten(self.values)
        self.leaves = [_as_tensor_if_one(leaf) for leaf in flat]

    @property
    def tensors(self) -> list[Tensor]:
        """The leaves that are tensors."""
        return [leaf for leaf in self.leaves if isinstance(leaf, Tensor)]

    def with_tensors(self, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        """Return the arguments with `tensors` in the place of theirs."""
        rest: Iterator[Tensor] = iter(tensors)
        filled = [next(rest) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
        return tuple(unflatten(self._nest, filled))

    def _in_order(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except TypeError as error:
            raise DTypeError(self._subject, str(error), source=user_source()) from error
        bound.apply_defaults()
        if bound.kwargs:
            names = ", ".join(bound.kwargs)
            raise GraphError(
                self._subject,
                f"{names} can be given by keyword only, and a gradient belongs to a position",
                hint="let the function take it by position",
                source=user_source(),
            )
        return bound.args


def _as_tensor_if_one(leaf: Any) -> Any:
    return as_tensor(leaf) if has_own_dtype(leaf) or isinstance(leaf, float) else leaf
