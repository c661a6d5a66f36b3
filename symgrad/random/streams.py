"""Counter-based streams: which counter and key of Philox each random number is made of.

A counter has 128 bits. The lower half says which draw and which element, the upper half which
step, or, by numbers that no generator counts up to, what else the bits are for: see `Domain`.
"""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.creation import as_shape
from symgrad.graph.dtypes import int64, uint64
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, constant
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.random import philox
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.sizes import Dim
from symgrad.graph.types import Shape
from symgrad.records import dataclass, replace
from symgrad.suggestions import known_as

POSITION_BITS = 40  # of the 64 for draw and position


class Domain(enum.IntEnum):
    """Upper halves of counters that no generator reaches by counting steps.

    Two uses of one key meet in no counter, so what they give is independent.
    """

    FOLD = 2**64 - 1  # keys made of a key and a number
    DRAW = 2**64 - 2  # draws of a key, which has no steps
    SPLIT = 2**64 - 3  # keys made of a key
    PART = 2**64 - 4  # keys of the parts of one draw, such as the rounds of a rejection


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The random bits of one draw: `key` and `step` are uint64 scalars, `first` is a counter."""

    key: Tensor
    step: Tensor
    first: int = 0

    def words(self, shape: Shape) -> tuple[Tensor, Tensor]:
        """Return two tensors of 64 random bits an element; what is not used costs nothing."""
        count: Dim = math.prod(shape, start=1)
        first, second = self.words_at(iota((count,), 0))
        return reshape(first, shape), reshape(second, shape)

    def words_at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the bits of the elements at `positions`, int64 numbers along one axis."""
        position = cast(positions, uint64)
        low = add(position, constant(self.first, uint64)) if self.first else position
        high, key = (broadcast_to(x, positions.shape) for x in (self.step, self.key))
        return philox(low, high, key, 0), philox(low, high, key, 1)

    def part(self, number: int | Tensor) -> Stream:
        """Return bits for another part of the same draw, independent of these."""
        return replace(self, key=derived_key(self.key, number, Domain.PART))


def require_count(op: str, shape: Shape) -> None:
    """Raise `ShapeError` for a draw of more elements than there are counters for."""
    count: Dim = math.prod(shape, start=1)
    if isinstance(count, int) and count > 2**POSITION_BITS:
        problem = f"{list(shape)} is more than 2**{POSITION_BITS} elements"
        raise ShapeError(op, problem, source=user_source())


def derived_key(key: Tensor, number: int | Tensor, domain: Domain) -> Tensor:
    """Return the key that Philox makes of a key and an integer."""
    as_number = constant(number, int64) if isinstance(number, int) else number
    return philox(cast(as_number, uint64), constant(int(domain), uint64), key, 0)


def integer_scalar(op: str, name: str, value: Any) -> Tensor:
    """Return an int or an integer scalar as a tensor."""
    number = constant(value, int64) if isinstance(value, int) else as_tensor(value)
    if not number.dtype.is_integer:
        raise DTypeError(op, f"{name}: {number.type} is no integer", source=user_source())
    if number.ndim:
        raise ShapeError(op, f"{name}: {number.type} is no scalar", source=user_source())
    return number


def as_seed(op: str, seed: Any) -> np.uint64:
    """Return an int from 0 to 2**64 - 1 as a key."""
    number = as_int(seed)
    if number is None:
        raise DTypeError(op, f"seed {seed!r} is no int", source=user_source())
    if not 0 <= number < 2**64:
        problem = f"seed {number} is not from 0 to 2**64 - 1"
        raise GraphError(op, problem, source=user_source())
    return np.uint64(number)


def as_key(op: str, key: Any) -> Tensor:
    """Return `key` if it is one, a uint64 scalar."""
    if key is None:
        hint = "make one with sg.random.Generator(seed) or sg.random.key(seed)"
        raise DTypeError(op, "key: None is no generator or key", hint=hint, source=user_source())
    if isinstance(key, int | float):
        hint = f"sg.random.key({key}) is a key"
        raise DTypeError(op, f"key: {key!r} is no key", hint=hint, source=user_source())
    tensor = as_tensor(key)
    if tensor.dtype != uint64:
        problem = f"key: {tensor.type} is no key, a uint64 scalar"
        raise DTypeError(op, problem, source=user_source())
    if tensor.ndim:
        raise ShapeError(
            op,
            f"key: {tensor.type} is no key, a uint64 scalar",
            hint="index it, or map over it",
            source=user_source(),
        )
    return tensor


@known_as("PRNGKey", "manual_seed", "set_seed")
def key(seed: Any) -> Tensor:
    """Return the random key of a seed: a tensor, from which stateless draws take their bits.

    A key is a uint64 scalar, and can be a loop variable, a slice of `xs`, an argument of a
    function or a case of `vmap`. The same key gives the same values in each draw, so use it once
    and make others of it with `split` or `fold_in`. `seed` is an int from 0 to 2**64 - 1, or a
    scalar tensor of integers. Raises `DTypeError` for what is no integer, `GraphError` for an int
    out of range, `ShapeError` for no scalar.

    >>> sg.run(sg.random.bits(sg.random.key(0), (2,)))
    array([ 567700268, 2708966050], dtype=uint32)
    """
    if isinstance(seed, Tensor):
        return cast(integer_scalar("key", "seed", seed), uint64)
    return constant(as_seed("key", seed))


def split(key: Any, n: Any = 2) -> Tensor:
    """Return `n` keys made of a key, a uint64 tensor: `split(key)[0]` is one of two.

    They are independent of each other, of what is drawn from `key`, and of `fold_in`. The first
    ones of many are those of few. `n` is a size or a shape. Raises `DTypeError` or `ShapeError`
    for what is no key or no size.

    >>> sg.random.split(sg.random.key(0), 3).shape
    (3,)
    """
    parent, shape = as_key("split", key), as_shape("split", n)
    require_count("split", shape)
    return Stream(parent, constant(int(Domain.SPLIT), uint64)).words(shape)[0]


def fold_in(key: Any, data: Any) -> Tensor:
    """Return the key made of a key and an integer, such as the number of an iteration.

    `data` is an int or a scalar tensor of integers. Other integers give independent keys. Raises
    `DTypeError` for what is no integer, `ShapeError` for no scalar.

    >>> key = sg.random.key(0)
    >>> bool(sg.run(sg.random.fold_in(key, 1) == sg.random.fold_in(key, 2)))
    False
    """
    number = integer_scalar("fold_in", "data", data)
    return derived_key(as_key("fold_in", key), number, Domain.FOLD)
