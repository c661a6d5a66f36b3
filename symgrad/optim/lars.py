"""LARS: momentum, with a rate for each tensor that follows the sizes of weights and gradient."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.optim.hyperparameters import (
    LearningRate,
    check_fraction,
    check_not_negative,
    check_positive,
)
from symgrad.optim.norms import norm_over, trust_ratio
from symgrad.optim.rule import Group, PerVariableRule, in_slot_dtype, moved, with_decay


class LARS(PerVariableRule):
    """LARS of You, Gitman and Ginsburg (2017), algorithm 1; norms are of a whole variable.

        ratio = trust_coefficient * norm(w) / (norm(g) + weight_decay * norm(w))
        u = momentum * u + lr * ratio * (g + weight_decay * w)
        w -= u

    Here lr does enter u, unlike in `SGD`. Where a norm is 0 the ratio is 1, as in optax, so biases
    that start as 0 are moved with lr itself. optax has `norm(g + weight_decay * w)` below the line,
    which is the same without a weight decay.

    Slots: `momentum`, if there is one. Raises `GraphError` for a momentum that is not in [0, 1), a
    trust_coefficient that is not positive and a negative weight_decay.

    >>> w = sg.variable([1.0, -2.0], name="w")
    >>> step = sg.compile([], sg.sum(w * w), sg.optim.LARS(1.0).minimize(sg.sum(w * w)))
    >>> step(), w.value
    (array(5., dtype=float32), array([ 0.999, -1.998], dtype=float32))
    """

    def __init__(
        self,
        lr: LearningRate,
        momentum: float = 0.9,
        weight_decay: float = 0,
        trust_coefficient: float = 0.001,
        *,
        groups: Iterable[Group] = (),
    ) -> None:
        self.momentum = check_fraction("LARS", "momentum", momentum)
        self.weight_decay = check_not_negative("LARS", "weight_decay", weight_decay)
        self.trust_coefficient = check_positive("LARS", "trust_coefficient", trust_coefficient)
        super().__init__(lr, groups)

    def _updates_of(self, g: Tensor, w: Variable) -> list[Update]:
        w_norm, g_norm = norm_over(w, in_slot_dtype(w, g)), norm_over(w, g)
        below = g_norm + self.weight_decay * w_norm if self.weight_decay else g_norm
        ratio = trust_ratio(w_norm, below, self.trust_coefficient)
        by = self._rate(g.dtype) * ratio * with_decay(g, w, self.weight_decay)
        if self.momentum == 0:
            return [moved(w, by)]
        u = self._slots.of(w, "momentum")
        new_u = self.momentum * u + by
        return [moved(w, new_u), Update(u, new_u)]
