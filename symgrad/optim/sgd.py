"""Stochastic gradient descent, with or without momentum."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.graph.graph import Update
from symgrad.graph.node import Tensor
from symgrad.graph.ops.leaf import Variable
from symgrad.optim.optimizer import LearningRate, Optimizer, check_fraction, moved


class SGD(Optimizer):
    """Move against the gradient: `w -= lr * g`.

    With a momentum mu, against a sum of gradients in which older ones count less:

        u = mu * u + g
        w -= lr * u                    nesterov: w -= lr * (g + mu * u)

    As in PyTorch, lr does not enter u, so a change of lr acts at once on all of it.
    """

    def __init__(self, lr: LearningRate, momentum: float = 0, nesterov: bool = False) -> None:
        super().__init__(lr)
        self.momentum = check_fraction("SGD", "momentum", momentum)
        self.nesterov = nesterov

    def _updates(self, pairs: Sequence[tuple[Tensor, Variable]]) -> list[Update]:
        return [update for g, w in pairs for update in self._updates_of(g, w)]

    def _updates_of(self, g: Tensor, w: Variable) -> list[Update]:
        lr = self._rate(g.dtype)
        if self.momentum == 0:
            return [moved(w, lr * g)]
        u = self._slot(w, "momentum")
        new_u = self.momentum * u + g
        direction = g + self.momentum * new_u if self.nesterov else new_u
        return [moved(w, lr * direction), Update(u, new_u)]
