"""Counter-based random number generator: what is counted from step to step and draw to draw.

The state is a key and a counter of steps, each a variable. A counter of Philox has 128 bits: the
upper half is the counter of steps, the lower half the number of the draw, as the generator handed
them out while graph was built, and the position in it. So draws of one generator never share
a counter, in whatever program and of whatever size they are. The draws themselves are in
`draws.py`, and those of a key, without a state, in `keyed.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from symgrad.call_errors import methods_refuse_arguments
from symgrad.display.panels import facts, panel
from symgrad.errors import GraphError, user_source
from symgrad.frontend.state import variable
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Update
from symgrad.graph.identity import OwnsVariables
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.types import Shape
from symgrad.random.distributions import unit_normal
from symgrad.random.draws import Draws
from symgrad.random.streams import (
    POSITION_BITS,
    Domain,
    Stream,
    as_seed,
    derived_key,
    integer_scalar,
    require_count,
)

_MAX_DRAWS = 2 ** (64 - POSITION_BITS)

_unnamed = itertools.count()


@methods_refuse_arguments
class Generator(OwnsVariables, Draws):
    """Random numbers from Philox4x32-10, a function of a counter and a key.

    A draw is a tensor: it has other values in each step of a program that carries `advance()` out,
    and the same in each step of one that does not. Every call is a draw of its own. Values depend
    on the seed, on how often the state was advanced, and on how many draws were built before: not
    on the sizes of other draws, the machine or the number of threads. Those of `normal`, which
    needs functions that are not exact, may differ in their last bits between machines with a fused
    multiply-add and without.

    `seed` is the key, from 0 to 2**64 - 1. Raises `DTypeError` for what is no int and `GraphError`
    for one out of range.

    >>> rng = sg.random.Generator(seed=0)
    >>> step = sg.compile([], rng.integers(0, 100, (4,)), [rng.advance()])
    >>> step(), step()
    (array([88, 36, 31, 41], dtype=int32), array([93, 85, 74, 62], dtype=int32))
    """

    def __init__(self, seed: int, name: str | None = None) -> None:
        chosen = name or _unused_name()
        key = variable(as_seed("Generator", seed), trainable=False, name=f"{chosen}/key")
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

    def _repr_html_(self) -> str:
        """Return what notebooks show: the variables of its state, with their values."""
        return panel("Generator", facts((name, v.value) for name, v in self._state.items()))

    def advance(self) -> Update:
        """Return the update that moves the counter past all draws, built before or after.

        A program that does it twice, for one state, is refused as any other that updates a
        variable twice.

        >>> rng = sg.random.Generator(seed=0)
        >>> step = sg.compile([], rng.uniform((2,)), [rng.advance()])
        >>> bool((step() == step()).all())
        False
        """
        return Update(self._counter, add(self._counter, 1))

    def fold(self, i: Any) -> Generator:
        """Return a generator whose draws differ by the integer `i`, a scalar tensor or an int.

        In the body of a loop a draw is one node, and so the same in each iteration; a draw of
        `rng.fold(i)` is another in each. The key is made of that of `rng` and `i`, the state is
        that of `rng`. Raises `DTypeError` for what is no integer, `ShapeError` for no scalar.

        >>> rng = sg.random.Generator(seed=0)
        >>> draws = sg.map(lambda i: rng.fold(i).integers(0, 100, ()), sg.arange(3))
        >>> sg.run(draws)
        array([98, 57, 83], dtype=int32)
        """
        number = integer_scalar("fold", "i", i)
        folded = object.__new__(type(self))
        vars(folded).update(vars(self))  # with the one count of draws that both have
        folded._key = derived_key(self._key, number, Domain.FOLD)
        return folded

    def _unit_normal(self, words: Tensor, other_words: Tensor, dtype: DType) -> Tensor:
        return unit_normal(words, other_words, dtype)

    def _stream(self, op: str, shape: Shape) -> Stream:
        require_count(op, shape)
        number = next(self._draws)
        if number >= _MAX_DRAWS:
            problem = f"this is draw {number} of one generator, of {_MAX_DRAWS}"
            raise GraphError(op, problem, source=user_source())
        return Stream(self._key, self._counter, number << POSITION_BITS)


def _unused_name() -> str:
    number = next(_unnamed)
    return f"generator_{number}" if number else "generator"
