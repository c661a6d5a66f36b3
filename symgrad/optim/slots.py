"""Optimizer state, called slots: the variables kept between steps, by owner and kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np

from symgrad.frontend.state import cut_variable, variable, variable_of_zeros
from symgrad.graph import dtypes
from symgrad.graph.build import inside
from symgrad.graph.dtypes import DType
from symgrad.graph.leaf import Variable
from symgrad.graph.types import Array, Sharding, State, TensorType

Asked = tuple[str, float | Array]  # the kind of a slot, and what it starts as


class Slots:
    """Variables that belong to a variable, or to no variable: made when first asked for."""

    def __init__(self) -> None:
        self._made: dict[tuple[State | None, str], Variable] = {}
        self._names: dict[str, State] = {}
        self._asked: dict[str, Asked] | None = None  # while that is noted

    @property
    def by_name(self) -> Mapping[str, Variable]:
        """The slots by name: `w/m` belongs to the variable `w`, `step` to none."""
        names = {state: name for name, state in self._names.items()}
        return MappingProxyType(
            {
                kind if owner is None else f"{names[owner]}/{kind}": slot
                for (owner, kind), slot in self._made.items()
            }
        )

    def get(self, kind: str, owner: Variable | None = None) -> Variable | None:
        """Return the slot, None if nobody has asked for it yet."""
        return self._made.get((None if owner is None else owner.state, kind))

    def of(self, owner: Variable, kind: str, start: float | Array = 0.0) -> Variable:
        """Return the slot `kind` of `owner`, which has its shape and starts as `start`."""
        if self._asked is not None:
            self._asked[kind] = kind, start
        key = (owner.state, kind)
        if key not in self._made:
            name, sharding = f"{self._name_of(owner)}/{kind}", owner.state.sharding
            # A rule may be built in a branch, and a variable made there would be one at each run.
            with inside(None):
                type_ = TensorType(slot_dtype(owner), owner.type.shape)
                self._made[key] = _made(type_, start, name, sharding)
        return self._made[key]

    @contextmanager
    def noted(self) -> Iterator[dict[str, Asked]]:
        """Note which slots are asked for inside, by their kinds."""
        before, asked = self._asked, dict[str, Asked]()
        self._asked = asked
        try:
            yield asked
        finally:
            self._asked = before

    def count(self, kind: str) -> Variable:
        """Return a counter that belongs to no variable: an int64, so that it counts without end."""
        key = (None, kind)
        if key not in self._made:
            with inside(None):
                self._made[key] = variable(np.asarray(0, np.int64), trainable=False, name=kind)
        return self._made[key]

    def _name_of(self, owner: Variable) -> str:
        """Return the name of `owner`, numbered if an earlier variable has the same."""
        name = base = owner.state.name
        number = 0
        while self._names.setdefault(name, owner.state) is not owner.state:
            number += 1
            name = f"{base}_{number}"
        return name


def _made(
    type_: TensorType, start: float | Array, name: str, sharding: Sharding | None
) -> Variable:
    if sharding is not None and sharding.axis is not None:
        return cut_variable(_filled(type_, start), sharding, name, is_trainable=False)
    if repr(start) == "0.0":
        slot = variable_of_zeros(type_, name, is_trainable=False)
    else:
        slot = variable(_filled(type_, start), trainable=False, name=name)
    slot.state.sharding = sharding
    return slot


def _filled(type_: TensorType, value: float | Array) -> Array:
    return np.full(type_.static_shape, value, type_.dtype.numpy)


def whole_state(owner: Variable) -> State:
    """Return the state of `owner`, or of what it is a part of."""
    sharding = owner.state.sharding
    return owner.state if sharding is None else sharding.owner


def slot_dtype(owner: Variable) -> DType:
    """Return the dtype in which `owner` is moved: its own, float32 for a 16-bit float."""
    return dtypes.float32 if owner.dtype.is_half else owner.dtype
