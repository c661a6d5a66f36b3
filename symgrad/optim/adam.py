"""Adam: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.graph import dtypes
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.optim.hyperparameters import LearningRate
from symgrad.optim.moments import Moments
from symgrad.optim.rule import Group, with_decay


class Adam(Moments):
    """Adam as algorithm 1 of Kingma and Ba (2015) has it: epsilon is outside the square root.

        t += 1
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        w -= lr * m / (1 - beta1**t) / (sqrt(v / (1 - beta2**t)) + epsilon)

    A `weight_decay` adds `weight_decay * w` to g, as in PyTorch's Adam; `AdamW` has one that does
    not enter the averages.

    Slots: `m`, `v` and `step`. Raises `GraphError` for a beta that is not in [0, 1), and for a
    negative epsilon or weight_decay.

    >>> w = sg.variable([1.0, -2.0], name="w")
    >>> step = sg.compile([], sg.sum(w * w), sg.optim.Adam(0.1).minimize(sg.sum(w * w)))
    >>> step(), w.value
    (array(5., dtype=float32), array([ 0.9, -1.9], dtype=float32))
    """

    def __init__(
        self,
        lr: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-7,
        weight_decay: float = 0,
        *,
        groups: Iterable[Group] = (),
    ) -> None:
        super().__init__(lr, beta1, beta2, epsilon, weight_decay, groups)

    def _decayed(self, g: Tensor, w: Variable) -> Tensor:
        return with_decay(g, w, self.weight_decay)

    def _move(self, _w: Variable, m: Tensor, share: Tensor, scale: Tensor) -> Tensor:
        return cast(self._rate(dtypes.float64) / share, m.dtype) * m / scale
