"""Lion: steps of one size, in the direction of the sign of an average."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import sign
from symgrad.optim.hyperparameters import LearningRate, check_fraction, check_not_negative
from symgrad.optim.rule import Group, PerVariableRule, moved, with_decay


class Lion(PerVariableRule):
    """Lion of Chen et al., "Symbolic discovery of optimization algorithms" (2023), algorithm 2.

        w -= lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * w)
        m = beta2 * m + (1 - beta2) * g

    Defaults are the paper's, which advises a rate 3 to 10 times smaller than Adam's. Where the
    average is exactly 0 only the decay moves w.

    Slots: `m`. Raises `GraphError` for a beta that is not in [0, 1) and a negative weight_decay.

    >>> w = sg.variable([1.0, -2.0], name="w")
    >>> step = sg.compile([], sg.sum(w * w), sg.optim.Lion(0.1).minimize(sg.sum(w * w)))
    >>> step(), w.value
    (array(5., dtype=float32), array([ 0.9, -1.9], dtype=float32))
    """

    def __init__(
        self,
        lr: LearningRate = 1e-4,
        beta1: float = 0.9,
        beta2: float = 0.99,
        weight_decay: float = 0,
        *,
        groups: Iterable[Group] = (),
    ) -> None:
        self.beta1 = check_fraction("Lion", "beta1", beta1)
        self.beta2 = check_fraction("Lion", "beta2", beta2)
        self.weight_decay = check_not_negative("Lion", "weight_decay", weight_decay)
        super().__init__(lr, groups)

    def _updates_of(self, g: Tensor, w: Variable) -> list[Update]:
        m = self._slots.of(w, "m")
        direction = sign(self.beta1 * m + (1 - self.beta1) * g)
        by = self._rate(g.dtype) * with_decay(direction, w, self.weight_decay)
        return [moved(w, by), Update(m, self.beta2 * m + (1 - self.beta2) * g)]
