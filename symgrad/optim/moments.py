"""Moment estimates of Adam, AdamW and LAMB: averages of the gradient and of its square.

How a variable moves by them, and where a weight decay enters, is in their modules.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from symgrad.graph import dtypes
from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import square
from symgrad.graph.ops.transcendental import rsqrt, sqrt
from symgrad.optim.hyperparameters import LearningRate, check_fraction, check_not_negative
from symgrad.optim.optimizer import Pair
from symgrad.optim.rule import Group, Rule, moved


class Moments(Rule):
    """A rule that keeps two averages, both starting from 0, and corrects them for that start.

        t += 1
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        corrected m = m / (1 - beta1**t),  corrected v = v / (1 - beta2**t)

    t is one int64 for all variables. The two corrections are scalars and computed in float64
    whatever the variables are, since in float32 `1 - 0.999` is wrong in its fifth digit.
    """

    def __init__(
        self,
        lr: LearningRate,
        beta1: float,
        beta2: float,
        epsilon: float,
        weight_decay: float,
        groups: Iterable[Group],
    ) -> None:
        subject = type(self).__name__
        self.beta1 = check_fraction(subject, "beta1", beta1)
        self.beta2 = check_fraction(subject, "beta2", beta2)
        self.epsilon = check_not_negative(subject, "epsilon", epsilon)
        self.weight_decay = check_not_negative(subject, "weight_decay", weight_decay)
        super().__init__(lr, groups)

    def _group_updates(self, pairs: Sequence[Pair]) -> list[Update]:
        t = cast(self._step() + 1, dtypes.float64)
        share = 1 - self.beta1**t  # of the corrected m that m is
        root_gain = rsqrt(1 - self.beta2**t)  # what sqrt(v) lacks
        return self._build_each(pairs, lambda g, w: self._updates_of(g, w, share, root_gain))

    def _updates_of(self, g: Tensor, w: Variable, share: Tensor, root_gain: Tensor) -> list[Update]:
        g = self._decayed(g, w)
        m, v = self._slots.of(w, "m"), self._slots.of(w, "v")
        new_m = self.beta1 * m + (1 - self.beta1) * g
        new_v = self.beta2 * v + (1 - self.beta2) * square(g)
        scale = sqrt(new_v) * cast(root_gain, g.dtype) + self.epsilon
        return [moved(w, self._move(w, new_m, share, scale)), Update(m, new_m), Update(v, new_v)]

    def _decayed(self, g: Tensor, _w: Variable) -> Tensor:
        """Return what is averaged, `g` unless a rule has its weight decay there."""
        return g

    @abstractmethod
    def _move(self, w: Variable, m: Tensor, share: Tensor, scale: Tensor) -> Tensor:
        """Return what `w` is lowered by.

        `m` divided by `share`, a float64 scalar, is the corrected m; `scale` is the root of the
        corrected v, plus epsilon.
        """
