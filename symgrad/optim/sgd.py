"""Stochastic gradient descent, with or without momentum."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.optim.hyperparameters import LearningRate, check_fraction, check_not_negative
from symgrad.optim.rule import Group, PerVariableRule, moved, with_decay


class SGD(PerVariableRule):
    """Move against the gradient: `w -= lr * g`.

    With a momentum mu, against a sum of gradients in which older ones count less:

        u = mu * u + g
        w -= lr * u                    nesterov: w -= lr * (g + mu * u)

    as in Sutskever, Martens, Dahl and Hinton, "On the importance of initialization and momentum in
    deep learning" (2013). As in PyTorch, lr does not enter u, so a change of lr acts at once on all
    of it, and a `weight_decay` adds `weight_decay * w` to g.

    Slots: `momentum`, if there is one. Raises `GraphError` for a momentum that is not in [0, 1).

    >>> w = sg.variable([1.0, -2.0], name="w")
    >>> step = sg.compile([], sg.sum(w * w), sg.optim.SGD(0.1).minimize(sg.sum(w * w)))
    >>> step(), w.value
    (array(5., dtype=float32), array([ 0.8, -1.6], dtype=float32))
    """

    def __init__(
        self,
        lr: LearningRate,
        momentum: float = 0,
        nesterov: bool = False,
        weight_decay: float = 0,
        *,
        groups: Iterable[Group] = (),
    ) -> None:
        self.momentum = check_fraction("SGD", "momentum", momentum)
        self.nesterov = nesterov
        self.weight_decay = check_not_negative("SGD", "weight_decay", weight_decay)
        super().__init__(lr, groups)

    def _updates_of(self, g: Tensor, w: Variable) -> list[Update]:
        lr = self._rate(g.dtype)
        g = with_decay(g, w, self.weight_decay)
        if self.momentum == 0:
            return [moved(w, lr * g)]
        u = self._slots.of(w, "momentum")
        new_u = self.momentum * u + g
        direction = g + self.momentum * new_u if self.nesterov else new_u
        return [moved(w, lr * direction), Update(u, new_u)]
