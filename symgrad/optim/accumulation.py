"""Gradient accumulation: several calls of a step are gathered, and one update uses their mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.graph.build import name_scope
from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.ops.comparison import equal, where
from symgrad.optim.hyperparameters import check_count
from symgrad.optim.optimizer import Optimizer, Pair
from symgrad.optim.rule import Rule


class Accumulate(Optimizer):
    """Let `optimizer` move once in `every` calls of a step, by the mean of their gradients.

    So a batch that is too large is taken as `every` smaller ones of equal size, with the same
    result up to rounding if the loss is a mean over the batch.

    In the other calls neither the variables nor the slots of `optimizer` change, its `step` and so
    its schedule included. The choice is made element by element where the new values are stored:
    the rule is computed in each call, which costs less than the copies of all state that a branch
    would need.

    `clip` is a function that is given the means as a list and returns what the optimizer is to
    take in their place: `lambda grads: sg.optim.clip_by_global_norm(grads, 1.0)`.

    Slots: `gradient`, the sum so far, and `part`, the number of gradients in it, besides those of
    `optimizer`. Raises `DTypeError` for what is no optimizer, and for an `every` that is no int;
    `GraphError` if it is less than 1.

    >>> w, x = sg.variable(0.0, name="w"), sg.placeholder((), name="x")
    >>> optimizer = sg.optim.Accumulate(sg.optim.SGD(1.0), every=2)
    >>> step = sg.compile([x], w, optimizer.minimize(w * x))
    >>> step(1.0), step(3.0), w.value
    (array(0., dtype=float32), array(0., dtype=float32), array(-2., dtype=float32))
    """

    def __init__(
        self, optimizer: Any, every: int, *, clip: Callable[[list[Tensor]], Any] | None = None
    ) -> None:
        super().__init__()
        if not isinstance(optimizer, Rule):
            raise DTypeError(
                "Accumulate", f"{optimizer!r} is no rule such as sg.optim.Adam()",
                source=user_source(),
            )  # fmt: skip
        self.optimizer: Rule = optimizer
        self.every = check_count("Accumulate", "every", every)
        self.clip = clip
        with name_scope("Accumulate"):
            self._part = self._slots.count("part")

    @property
    def state(self) -> Mapping[str, Variable]:
        """The slots by name, with those of the optimizer."""
        return MappingProxyType({**self.optimizer.state, **self._slots.by_name})

    @property
    def is_due(self) -> Tensor:
        """Whether the variables move in this call: a bool scalar to build from."""
        return equal(self._part, self.every - 1)

    def _updates(self, pairs: Sequence[Pair]) -> list[Update]:
        is_due = self.is_due
        sums = [self._slots.of(w, "gradient") for _, w in pairs]
        totals = [s + g for s, (g, _) in zip(sums, pairs, strict=True)]
        means: Iterable[Any] = [total / self.every for total in totals]
        if self.clip is not None:
            shardings = [w.state.sharding for _, w in pairs]
            if any(sharding is not None and sharding.axis is None for sharding in shardings):
                problem = "clip takes whole gradients, of which shard_state gives each rank parts"
                raise GraphError("Accumulate.minimize", problem, source=user_source())
            means = self.clip(list(means))
        owners = [w for _, w in pairs]
        moves = self.optimizer.apply_gradients(zip(means, owners, strict=True))
        return [
            *(Update(u.variable, where(is_due, u.value, u.variable)) for u in moves),
            *(Update(s, where(is_due, 0, t)) for s, t in zip(sums, totals, strict=True)),
            Update(self._part, where(is_due, 0, self._part + 1)),
        ]
