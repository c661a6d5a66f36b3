"""LAMB: Adam, with a rate for each tensor that follows the sizes of weights and step."""

from __future__ import annotations

from collections.abc import Iterable

from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.extrema import minimum
from symgrad.optim.hyperparameters import LearningRate, check_positive
from symgrad.optim.moments import Moments
from symgrad.optim.norms import norm_over, trust_ratio
from symgrad.optim.rule import Group, in_slot_dtype, with_decay


class LAMB(Moments):
    """LAMB of You et al., "Large batch optimization for deep learning" (2020), algorithm 2.

        t += 1
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        r = m / (1 - beta1**t) / (sqrt(v / (1 - beta2**t)) + epsilon) + weight_decay * w
        w -= lr * norm(w) / norm(r) * r

    Norms are of a whole variable. Where one is 0 the ratio of them is 1, as in optax, whose
    defaults these are; `max_trust_ratio` limits it.

    Slots: `m`, `v` and `step`. Raises `GraphError` for a beta that is not in [0, 1), a negative
    epsilon or weight_decay, and a max_trust_ratio that is not positive.

    >>> w = sg.variable([1.0, -2.0], name="w")
    >>> step = sg.compile([], sg.sum(w * w), sg.optim.LAMB(0.1).minimize(sg.sum(w * w)))
    >>> step(), w.value
    (array(5., dtype=float32), array([ 0.84188616, -1.841886  ], dtype=float32))
    """

    def __init__(
        self,
        lr: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay: float = 0,
        max_trust_ratio: float | None = None,
        *,
        groups: Iterable[Group] = (),
    ) -> None:
        self.max_trust_ratio = (
            None
            if max_trust_ratio is None
            else check_positive("LAMB", "max_trust_ratio", max_trust_ratio)
        )
        super().__init__(lr, beta1, beta2, epsilon, weight_decay, groups)

    def _move(self, w: Variable, m: Tensor, share: Tensor, scale: Tensor) -> Tensor:
        r = with_decay(cast(1 / share, m.dtype) * m / scale, w, self.weight_decay)
        ratio = trust_ratio(norm_over(w, in_slot_dtype(w, m)), norm_over(w, r))
        if self.max_trust_ratio is not None:
            ratio = minimum(ratio, self.max_trust_ratio)
        return self._rate(m.dtype) * ratio * r
