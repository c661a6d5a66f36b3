"""AdamW: Adam with a weight decay of its own, apart from the averages."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.graph import dtypes
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.optim.hyperparameters import LearningRate
from symgrad.optim.moments import Moments
from symgrad.optim.rule import Group, in_slot_dtype


class AdamW(Moments):
    """Adam with decoupled weight decay: Loshchilov and Hutter (2019), algorithm 2.

        t += 1
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        w -= lr * (m / (1 - beta1**t) / (sqrt(v / (1 - beta2**t)) + epsilon) + weight_decay * w)

    As in PyTorch, whose defaults these are, the decay is multiplied by lr, so a schedule of lr is
    one of the decay as well.

    Slots: `m`, `v` and `step`. Raises `GraphError` for a beta that is not in [0, 1), and for a
    negative epsilon or weight_decay.

    >>> w = sg.variable([1.0, -2.0], name="w")
    >>> step = sg.compile([], sg.sum(w * w), sg.optim.AdamW(0.1).minimize(sg.sum(w * w)))
    >>> step(), w.value
    (array(5., dtype=float32), array([ 0.899, -1.898], dtype=float32))
    """

    def __init__(
        self,
        lr: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        *,
        groups: Iterable[Group] = (),
    ) -> None:
        super().__init__(lr, beta1, beta2, epsilon, weight_decay, groups)

    def _move(self, w: Variable, m: Tensor, share: Tensor, scale: Tensor) -> Tensor:
        rate = self._rate(dtypes.float64)
        by = cast(rate / share, m.dtype) * m / scale
        if self.weight_decay == 0:
            return by
        shrink = rate * self.weight_decay
        shrink = cast(shrink, m.dtype) if isinstance(shrink, Tensor) else shrink
        return by + shrink * in_slot_dtype(w, m)
