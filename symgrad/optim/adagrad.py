"""Adagrad: steps scaled by the sum of all squared gradients."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import square
from symgrad.graph.ops.transcendental import sqrt
from symgrad.optim.hyperparameters import LearningRate, check_not_negative
from symgrad.optim.rule import Group, PerVariableRule, moved, with_decay


class Adagrad(PerVariableRule):
    """Adagrad of Duchi, Hazan and Singer (2011), with a diagonal matrix.

        s += g**2
        w -= lr * g / (sqrt(s) + epsilon)

    s starts as `initial_accumulator`. Defaults are PyTorch's. A `weight_decay` adds
    `weight_decay * w` to g.

    Slots: `sum`, that is s. Raises `GraphError` for a negative argument.

    >>> w = sg.variable([1.0, -2.0], name="w")
    >>> step = sg.compile([], sg.sum(w * w), sg.optim.Adagrad(0.1).minimize(sg.sum(w * w)))
    >>> step(), w.value
    (array(5., dtype=float32), array([ 0.9, -1.9], dtype=float32))
    """

    def __init__(
        self,
        lr: LearningRate = 0.01,
        epsilon: float = 1e-10,
        initial_accumulator: float = 0,
        weight_decay: float = 0,
        *,
        groups: Iterable[Group] = (),
    ) -> None:
        self.epsilon = check_not_negative("Adagrad", "epsilon", epsilon)
        self.initial_accumulator = check_not_negative(
            "Adagrad", "initial_accumulator", initial_accumulator
        )
        self.weight_decay = check_not_negative("Adagrad", "weight_decay", weight_decay)
        super().__init__(lr, groups)

    def _updates_of(self, g: Tensor, w: Variable) -> list[Update]:
        g = with_decay(g, w, self.weight_decay)
        s = self._slots.of(w, "sum", self.initial_accumulator)
        new_s = s + square(g)
        by = self._rate(g.dtype) * g / (sqrt(new_s) + self.epsilon)
        return [moved(w, by), Update(s, new_s)]
