"""Counter-based random number generator: what is counted, and the draws, which build graph.

The state is a key and a counter of steps, each a variable. A counter of Philox has 128 bits: the
upper half is the counter of steps, the lower half the number of the draw, as the generator handed
them out while graph was built, and the position in it. So draws of one generator never share
a counter, in whatever program and of whatever size they are.
"""

from __future__ import annotations

import copy
import itertools
import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.creation import as_shape
from symgrad.frontend.state import variable
from symgrad.graph.dtypes import DType, DTypeLike, as_dtype, float32, float64, int64, uint64
from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, constant
from symgrad.graph.ops.arithmetic import add, multiply, subtract
from symgrad.graph.ops.comparison import less
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.random import philox
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.sizes import Dim
from symgrad.graph.types import Shape
from symgrad.random.distributions import below, unit_normal, unit_uniform

_POSITION_BITS = 40  # of the 64 for draw and position
_MAX_DRAWS = 2 ** (64 - _POSITION_BITS)
_NO_STEP = 2**64 - 1  # a counter of steps that no generator reaches, for the keys of `fold`
_MAX_SPAN = 2**32

_unnamed = itertools.count()


class Generator:
    """Random numbers from Philox4x32-10, a function of a counter and a key.

        rng = sg.random.Generator(seed=0)
        h = sg.nn.dropout(h, 0.1, rng)
        step = sg.compile([x], loss, [*optimizer.minimize(loss), rng.advance()])

    A draw is a tensor: it has other values in each step of a program that carries `advance()` out,
    and the same in each step of one that does not. Every call is a draw of its own. Values depend
    on the seed, on how often the state was advanced, and on how many draws were built before: not
    on the sizes of other draws, the machine or the number of threads. Those of `normal`, which
    needs functions that are not exact, may differ in their last bits between machines.

    `seed` is the key, from 0 to 2**64 - 1. Raises `DTypeError` for what is no int and `GraphError`
    for one out of range.
    """

    def __init__(self, seed: int, name: str | None = None) -> None:
        chosen = name or _unused_name()
        key = variable(_as_key(seed), trainable=False, name=f"{chosen}/key")
        self._counter = variable(np.uint64(0), trainable=False, name=f"{chosen}/counter")
        self._state = {v.state.name: v for v in (key, self._counter)}
        for own in self._state.values():
            own.state.is_of_generator = True
        self._key: Tensor = key
        self._draws = itertools.count()

    @property
    def state(self) -> Mapping[str, Variable]:
        """The variables by name, uint64 scalars: `name/key`, the seed, and `name/counter`."""
        return dict(self._state)

    def advance(self) -> Update:
        """Return the update that moves the counter past all draws, built before or after.

        A program that does it twice, for one state, is refused as any other that updates a
        variable twice.
        """
        return Update(self._counter, add(self._counter, 1))

    def fold(self, i: Any) -> Generator:
        """Return a generator whose draws differ by the integer `i`, a scalar tensor or an int.

        In the body of a loop a draw is one node, and so the same in each iteration; a draw of
        `rng.fold(i)` is another in each. The key is made of that of `rng` and `i`, the state is
        that of `rng`. Raises `DTypeError` for what is no integer, `ShapeError` for no scalar.
        """
        number = constant(i, int64) if isinstance(i, int) else as_tensor(i)
        if not number.dtype.is_integer:
            raise DTypeError("fold", f"i: {number.type} is no integer", source=user_source())
        if number.ndim:
            raise ShapeError("fold", f"i: {number.type} is no scalar", source=user_source())
        folded = copy.copy(self)
        folded._key = philox(cast(number, uint64), constant(_NO_STEP, uint64), self._key, 0)
        return folded

    def bits(self, shape: Any, dtype: DTypeLike = "uint32") -> Tensor:
        """Return unsigned integers, of which every bit is set with a chance of 1/2.

        Raises `DTypeError` for another dtype.
        """
        wanted = as_dtype(dtype)
        if wanted.kind != "unsigned":
            problem = f"dtype {wanted.name} is no unsigned integer"
            raise DTypeError("bits", problem, source=user_source())
        words, _ = self._draw("bits", as_shape("bits", shape))
        return cast(words, wanted)

    def uniform(
        self, shape: Any, low: Any = 0.0, high: Any = 1.0, dtype: DTypeLike = "float32"
    ) -> Tensor:
        """Return floats spread evenly over [low, high).

        They are `low + (high - low) * u`, where u is a multiple of 2**-24 in float32 and of 2**-53
        in float64: rounding can give `high` where `low` is not 0. The limits are numbers or
        tensors that broadcast to `shape`, through which gradients flow. Raises `DTypeError` for
        another dtype, `GraphError` for numbers of which the first is not the lesser.
        """
        sizes, wanted = as_shape("uniform", shape), _as_float("uniform", dtype)
        if _is_number(low) and _is_number(high) and not -math.inf < low < high < math.inf:
            problem = f"low {low} is not below high {high}, both finite"
            raise GraphError("uniform", problem, source=user_source())
        words, _ = self._draw("uniform", sizes)
        u = unit_uniform(words, wanted)
        if _is_number(low) and _is_number(high):
            return _moved(u, high - low, low)
        first, last = (_parameter(limit, sizes, wanted) for limit in (low, high))
        return add(multiply(u, subtract(last, first)), first)

    def normal(
        self, shape: Any, mean: Any = 0.0, std: Any = 1.0, dtype: DTypeLike = "float32"
    ) -> Tensor:
        """Return floats of the normal distribution, by the method of Box and Muller.

        `mean` and `std`, the standard deviation, are numbers or tensors that broadcast to `shape`,
        through which gradients flow. No sample is further than 5.77 `std` from the mean in
        float32 and 8.58 in float64. Raises `DTypeError` for another dtype, `GraphError` for a
        negative number `std`.
        """
        sizes, wanted = as_shape("normal", shape), _as_float("normal", dtype)
        if _is_number(std) and not 0 <= std < math.inf:
            raise GraphError("normal", f"std {std} is no deviation", source=user_source())
        z = unit_normal(*self._draw("normal", sizes), wanted)
        if _is_number(mean) and _is_number(std):
            return _moved(z, std, mean)
        return add(multiply(z, _parameter(std, sizes, wanted)), _parameter(mean, sizes, wanted))

    def integers(self, low: int, high: int, shape: Any, dtype: DTypeLike = "int32") -> Tensor:
        """Return integers from `low` to `high - 1`, all equally likely but for 2**-32.

        Raises `DTypeError` for a dtype that is no integer, `GraphError` for limits it does not
        hold, an empty range, or one of more than 2**32 integers.
        """
        sizes, wanted = as_shape("integers", shape), as_dtype(dtype)
        _check_range(low, high, wanted)
        words, _ = self._draw("integers", sizes)
        # Wrapping arithmetic: what does not fit in between does in the end.
        return add(cast(below(words, high - low), wanted), constant(low, wanted))

    def bernoulli(self, p: Any, shape: Any) -> Tensor:
        """Return bools that are true with the chance `p`, a number or tensor of floats.

        A tensor broadcasts to `shape`. Chances are multiples of 2**-24, of 2**-53 for a float64
        tensor. Raises `GraphError` for a number that is no chance, `DTypeError` for no floats.
        """
        sizes = as_shape("bernoulli", shape)
        if _is_number(p) and not 0 <= p <= 1:
            raise GraphError("bernoulli", f"p {p} is not from 0 to 1", source=user_source())
        chance = constant(p, float32) if _is_number(p) else as_tensor(p)
        if not chance.dtype.is_float:
            raise DTypeError("bernoulli", f"p: {chance.type} is no float", source=user_source())
        wide = float64 if chance.dtype == float64 else float32
        words, _ = self._draw("bernoulli", sizes)
        return less(unit_uniform(words, wide), _parameter(chance, sizes, wide))

    def _draw(self, op: str, shape: Shape) -> tuple[Tensor, Tensor]:
        """Return two tensors of 64 random bits an element; what is not used costs nothing."""
        count: Dim = math.prod(shape, start=1)
        if isinstance(count, int) and count > 2**_POSITION_BITS:
            problem = f"{list(shape)} is more than 2**{_POSITION_BITS} elements"
            raise ShapeError(op, problem, source=user_source())
        number = next(self._draws)
        if number >= _MAX_DRAWS:
            problem = f"this is draw {number} of one generator, of {_MAX_DRAWS}"
            raise GraphError(op, problem, source=user_source())
        position = cast(iota((count,), 0), uint64)
        low = add(position, constant(number << _POSITION_BITS, uint64)) if number else position
        high, key = (broadcast_to(x, (count,)) for x in (self._counter, self._key))
        first, second = (reshape(philox(low, high, key, pair), shape) for pair in (0, 1))
        return first, second


def _unused_name() -> str:
    number = next(_unnamed)
    return f"generator_{number}" if number else "generator"


def _as_key(seed: Any) -> np.uint64:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise DTypeError("Generator", f"seed {seed!r} is no int", source=user_source())
    if not 0 <= seed < 2**64:
        problem = f"seed {seed} is not from 0 to 2**64 - 1"
        raise GraphError("Generator", problem, source=user_source())
    return np.uint64(operator.index(seed))


def _as_float(op: str, dtype: DTypeLike) -> DType:
    wanted = as_dtype(dtype)
    if wanted not in (float32, float64):
        raise DTypeError(
            op,
            f"dtype {wanted.name} is neither float32 nor float64",
            hint="draw float32 and use astype" if wanted.is_half else None,
            source=user_source(),
        )
    return wanted


def _check_range(low: Any, high: Any, dtype: DType) -> None:
    for name, limit in (("low", low), ("high", high)):
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise DTypeError("integers", f"{name} {limit!r} is no int", source=user_source())
    if not dtype.is_integer:
        problem = f"dtype {dtype.name} is no integer"
        raise DTypeError("integers", problem, source=user_source())
    limits = np.iinfo(dtype.numpy)
    if not 0 < high - low <= _MAX_SPAN:
        problem = f"there are {high - low} integers from {low} to below {high}, not 1 to 2**32"
        raise GraphError("integers", problem, source=user_source())
    if low < limits.min or high - 1 > limits.max:
        problem = f"{dtype.name} does not hold all from {low} to {high - 1}"
        raise GraphError("integers", problem, source=user_source())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _moved(x: Tensor, scale: float, offset: float) -> Tensor:
    scaled = x if scale == 1 else multiply(x, float(scale))
    return scaled if offset == 0 else add(scaled, float(offset))


def _parameter(value: Any, shape: Shape, dtype: DType) -> Tensor:
    """Return a parameter of a distribution for each element of a draw."""
    tensor = constant(value, dtype) if _is_number(value) else cast(as_tensor(value), dtype)
    return broadcast_to(tensor, shape)
