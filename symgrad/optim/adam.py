"""Adam: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.errors import GraphError, user_source
from symgrad.graph import dtypes
from symgrad.graph.graph import Update
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import square
from symgrad.graph.ops.leaf import Variable
from symgrad.graph.ops.transcendental import sqrt
from symgrad.optim.optimizer import LearningRate, Optimizer, check_fraction, moved


class Adam(Optimizer):
    """Adam as algorithm 1 of Kingma and Ba (2015) has it: epsilon is outside the square root.

        t += 1
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        w -= lr * m / (1 - beta1**t) / (sqrt(v / (1 - beta2**t)) + epsilon)

    t is one int64 for all variables. The two corrections are scalars and computed in float64
    whatever the variables are, since in float32 `1 - 0.999` is wrong in its fifth digit.
    """

    def __init__(
        self,
        lr: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-7,
    ) -> None:
        super().__init__(lr)
        self.beta1 = check_fraction("Adam", "beta1", beta1)
        self.beta2 = check_fraction("Adam", "beta2", beta2)
        if not epsilon >= 0:
            raise GraphError(
                "Adam", f"epsilon is {epsilon!r}, it must not be negative", source=user_source()
            )
        self.epsilon = epsilon

    def _updates(self, pairs: Sequence[tuple[Tensor, Variable]]) -> list[Update]:
        step = self._step()
        t = step + 1
        exact_t = cast(t, dtypes.float64)
        rate = self._rate(dtypes.float64) / (1 - self.beta1**exact_t)
        # = 1 / sqrt(1 - beta2**t), which is what sqrt(v) lacks
        scale = 1 / sqrt(1 - self.beta2**exact_t)
        updates = [Update(step, t)]
        for g, w in pairs:
            updates += self._updates_of(g, w, cast(rate, g.dtype), cast(scale, g.dtype))
        return updates

    def _updates_of(self, g: Tensor, w: Variable, rate: Tensor, scale: Tensor) -> list[Update]:
        m, v = self._slot(w, "m"), self._slot(w, "v")
        new_m = self.beta1 * m + (1 - self.beta1) * g
        new_v = self.beta2 * v + (1 - self.beta2) * square(g)
        by = rate * new_m / (sqrt(new_v) * scale + self.epsilon)
        return [moved(w, by), Update(m, new_m), Update(v, new_v)]
