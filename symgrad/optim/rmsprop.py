"""RMSProp: steps scaled by a running average of the squared gradient."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import square
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.transcendental import sqrt
from symgrad.optim.hyperparameters import LearningRate, check_fraction, check_not_negative
from symgrad.optim.rule import Group, PerVariableRule, moved, with_decay


class RMSProp(PerVariableRule):
    """RMSProp of Tieleman and Hinton (2012), lecture 6.5 of "Neural Networks for Machine Learning".

        v = rho * v + (1 - rho) * g**2
        w -= lr * g / (sqrt(v) + epsilon)

    `centered` takes the square of an average of g from v, as in Graves, "Generating sequences with
    recurrent neural networks" (2013), equations 38 to 45; a momentum mu gathers the scaled
    gradients:

        a = rho * a + (1 - rho) * g             sqrt(v - a**2) in the place of sqrt(v)
        u = mu * u + g / (sqrt(v) + epsilon)    w -= lr * u

    Defaults, and the place of epsilon, are PyTorch's. A `weight_decay` adds `weight_decay * w` to
    g.

    Slots: `v`, and `mean` (that is a) and `momentum` where they are asked for. Raises `GraphError`
    for a rho or momentum that is not in [0, 1), and for a negative epsilon or weight_decay.

    >>> w = sg.variable([1.0, -2.0], name="w")
    >>> step = sg.compile([], sg.sum(w * w), sg.optim.RMSProp(0.1).minimize(sg.sum(w * w)))
    >>> step(), w.value
    (array(5., dtype=float32), array([ 5.9604645e-08, -1.0000000e+00], dtype=float32))
    """

    def __init__(
        self,
        lr: LearningRate = 0.01,
        rho: float = 0.99,
        epsilon: float = 1e-8,
        momentum: float = 0,
        centered: bool = False,
        weight_decay: float = 0,
        *,
        groups: Iterable[Group] = (),
    ) -> None:
        self.rho = check_fraction("RMSProp", "rho", rho)
        self.epsilon = check_not_negative("RMSProp", "epsilon", epsilon)
        self.momentum = check_fraction("RMSProp", "momentum", momentum)
        self.centered = centered
        self.weight_decay = check_not_negative("RMSProp", "weight_decay", weight_decay)
        super().__init__(lr, groups)

    def _updates_of(self, g: Tensor, w: Variable) -> list[Update]:
        lr = self._rate(g.dtype)
        g = with_decay(g, w, self.weight_decay)
        v = self._slots.of(w, "v")
        variance = new_v = self.rho * v + (1 - self.rho) * square(g)
        slots = [Update(v, new_v)]
        if self.centered:
            mean = self._slots.of(w, "mean")
            new_mean = self.rho * mean + (1 - self.rho) * g
            slots.append(Update(mean, new_mean))
            # Where all gradients are equal, rounding may leave less than nothing.
            variance = maximum(new_v - square(new_mean), 0)
        direction = g / (sqrt(variance) + self.epsilon)
        if self.momentum:
            u = self._slots.of(w, "momentum")
            direction = self.momentum * u + direction
            slots.append(Update(u, direction))
        return [moved(w, lr * direction), *slots]
