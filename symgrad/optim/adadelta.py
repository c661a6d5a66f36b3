"""Adadelta: steps of the size of earlier steps."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import square
from symgrad.graph.ops.transcendental import sqrt
from symgrad.optim.hyperparameters import (
    LearningRate,
    check_fraction,
    check_not_negative,
    check_positive,
)
from symgrad.optim.rule import Group, PerVariableRule, moved, with_decay


class Adadelta(PerVariableRule):
    """Adadelta of Zeiler (2012), algorithm 1.

        v = rho * v + (1 - rho) * g**2
        d = sqrt(s + epsilon) / sqrt(v + epsilon) * g
        s = rho * s + (1 - rho) * d**2
        w -= lr * d

    The paper has no lr, that is 1. Defaults are PyTorch's. A `weight_decay` adds
    `weight_decay * w` to g.

    Slots: `v`, and `s` of the squared steps. Raises `GraphError` for a rho that is not in [0, 1),
    an epsilon that is not positive and a negative weight_decay.

    >>> w = sg.variable([1.0, -2.0], name="w")
    >>> step = sg.compile([], sg.sum(w * w), sg.optim.Adadelta().minimize(sg.sum(w * w)))
    >>> step(), w.value
    (array(5., dtype=float32), array([ 0.99683774, -1.9968377 ], dtype=float32))
    """

    def __init__(
        self,
        lr: LearningRate = 1.0,
        rho: float = 0.9,
        epsilon: float = 1e-6,
        weight_decay: float = 0,
        *,
        groups: Iterable[Group] = (),
    ) -> None:
        self.rho = check_fraction("Adadelta", "rho", rho)
        # Both averages start from 0: without epsilon the first step is 0 / 0 or none at all.
        self.epsilon = check_positive("Adadelta", "epsilon", epsilon)
        self.weight_decay = check_not_negative("Adadelta", "weight_decay", weight_decay)
        super().__init__(lr, groups)

    def _updates_of(self, g: Tensor, w: Variable) -> list[Update]:
        g = with_decay(g, w, self.weight_decay)
        v, s = self._slots.of(w, "v"), self._slots.of(w, "s")
        new_v = self.rho * v + (1 - self.rho) * square(g)
        d = sqrt(s + self.epsilon) / sqrt(new_v + self.epsilon) * g
        new_s = self.rho * s + (1 - self.rho) * square(d)
        return [moved(w, self._rate(g.dtype) * d), Update(v, new_v), Update(s, new_s)]
