"""Exponential moving average (EMA) of weights, to be evaluated in the place of the weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from symgrad.errors import GraphError, user_source
from symgrad.frontend.control import require_bool, scalar_tensor
from symgrad.graph import dtypes
from symgrad.graph.build import name_scope
from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.comparison import greater, where
from symgrad.graph.types import Array, State
from symgrad.optim.hyperparameters import check_fraction
from symgrad.optim.optimizer import check_variable, repeated
from symgrad.optim.slots import Slots, slot_dtype


class ExponentialMovingAverage:
    """Averages in which a value that is n steps old has the weight `(1 - decay) * decay**n`.

        average += (1 - decay) * (new value - average)

    An average starts as the value its variable has when it is first met. With `correct_bias` it
    starts as 0 and is divided by `1 - decay**t` when it is read, as Adam's are, so that what the
    weights were before training has no share in it.

    Averages of float16 and bfloat16 variables are float32. Raises `GraphError` for a decay that is
    not in [0, 1).

    >>> w = sg.variable(4.0, name="w")
    >>> ema = sg.optim.ExponentialMovingAverage(0.75)
    >>> step = sg.compile([], w, ema.apply([sg.Update(w, w - 2)]))
    >>> [float(step()) for _ in range(2)], sg.run(ema.average(w))
    ([4.0, 2.0], array(2.625, dtype=float32))
    """

    def __init__(self, decay: float, correct_bias: bool = False) -> None:
        self.decay = check_fraction("ExponentialMovingAverage", "decay", decay)
        self.correct_bias = correct_bias
        self._slots = Slots()
        self._averaged: dict[State, Variable] = {}

    @property
    def state(self) -> Mapping[str, Variable]:
        """The slots by name: `w/average`, and the count `averaged` if the bias is corrected.

        None has the name of a slot of an optimizer, so both fit in one file.
        """
        return self._slots.by_name

    @property
    def variables(self) -> list[Variable]:
        """The variables that are averaged, in the order in which they were met."""
        return list(self._averaged.values())

    def apply(
        self,
        updates: Sequence[Update],
        variables: Iterable[Variable] | None = None,
        *,
        when: Tensor | None = None,
    ) -> list[Update]:
        """Return `updates`, and after them those of the averages.

        What is averaged is the new value of this very step: what `updates` gives a variable, or
        its value where they leave it alone. Without `variables` these are the trainable ones among
        `updates`. Where `when`, a scalar bool tensor, does not hold, the averages stay as they are.

        >>> w = sg.variable(4.0, name="w")
        >>> ema = sg.optim.ExponentialMovingAverage(0.5)
        >>> step = sg.compile([], w, ema.apply(sg.optim.SGD(1.0).minimize(w * w / 4)))
        >>> step(), w.value, sg.run(ema.average(w))
        (array(4., dtype=float32), array(2., dtype=float32), array(3., dtype=float32))
        """
        new = {update.variable.state: update.value for update in updates}
        chosen = self._chosen(updates, variables)
        if when is not None:
            when = scalar_tensor("ExponentialMovingAverage.apply", "when", when)
            require_bool("ExponentialMovingAverage.apply", "when", when)
        with name_scope("ExponentialMovingAverage"):
            made = [self._update(owner, new.get(owner.state, owner)) for owner in chosen]
            if self.correct_bias:
                count = self._slots.count("averaged")
                made.append(Update(count, count + 1))
            if when is not None:
                made = [Update(u.variable, where(when, u.value, u.variable)) for u in made]
        return [*updates, *made]

    def _chosen(
        self, updates: Sequence[Update], variables: Iterable[Variable] | None
    ) -> list[Variable]:
        subject = "ExponentialMovingAverage.apply"
        if variables is None:
            variables = [u.variable for u in updates if u.variable.trainable]
        chosen = list(variables)
        for owner in chosen:
            check_variable(subject, owner)
        if not chosen:
            raise GraphError(subject, "there is no variable to average", source=user_source())
        twice = repeated(chosen)
        if twice is not None:
            raise GraphError(subject, f"{twice!r} is given twice", source=user_source())
        return chosen

    def _update(self, owner: Variable, new: Tensor) -> Update:
        average = self._slot(owner)
        return Update(average, average + (1 - self.decay) * (cast(new, average.dtype) - average))

    def _slot(self, owner: Variable) -> Variable:
        self._averaged.setdefault(owner.state, owner)
        start = 0.0 if self.correct_bias else owner.value.astype(slot_dtype(owner).numpy)
        return self._slots.of(owner, "average", start)

    def average(self, owner: Variable) -> Tensor:
        """Return the average of `owner` as a tensor of its dtype, to build an evaluation from.

        Before the first step it is the value of `owner`. Raises `GraphError` for a variable that is
        not averaged.

        >>> w = sg.variable(4.0, name="w")
        >>> ema = sg.optim.ExponentialMovingAverage(0.5)
        >>> updates = ema.apply([sg.Update(w, w - 2)])
        >>> sg.run(ema.average(w))
        array(4., dtype=float32)
        """
        self._require_averaged(owner)
        average: Tensor = self._slots.of(owner, "average")
        if self.correct_bias:
            count = self._slots.count("averaged")
            lacking = cast(1 - self.decay ** cast(count, dtypes.float64), average.dtype)
            average = where(greater(count, 0), average / lacking, cast(owner, average.dtype))
        return cast(average, owner.dtype)

    def _require_averaged(self, owner: Variable) -> None:
        if owner.state not in self._averaged:
            raise GraphError(
                "ExponentialMovingAverage.average", f"{owner!r} is not averaged",
                source=user_source(),
            )  # fmt: skip

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Give the variables the values of their averages, until the block ends.

        All programs over the variables see it. What a step does to them inside is lost.

        >>> w = sg.variable(4.0, name="w")
        >>> ema = sg.optim.ExponentialMovingAverage(0.5)
        >>> _ = sg.compile([], w, ema.apply([sg.Update(w, w - 2)]))()
        >>> with ema.swapped():
        ...     print(w.value)
        3.0
        >>> w.value
        array(2., dtype=float32)
        """
        kept = [(owner, owner.value) for owner in self.variables]
        try:
            for owner in self.variables:
                owner.value = self._average_now(owner)
            yield
        finally:
            for owner, value in kept:
                owner.value = value

    def _average_now(self, owner: Variable) -> Array:
        average = self._slots.of(owner, "average").value
        if self.correct_bias:
            count = int(self._slots.count("averaged").value)
            if count == 0:
                return owner.value
            average = average / average.dtype.type(1 - self.decay**count)
        return np.asarray(average).astype(owner.dtype.numpy)
