"""Parameter groups, hyperparameters and the step count: what the update rules share.

A rule is an optimizer that moves each variable by a formula of its gradient and slots. What wraps
another optimizer is no rule and takes no hyperparameters of this kind.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Self

from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Update
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.source_lines import built_by_line
from symgrad.optim.alike_updates import BuildUpdates, build_alike
from symgrad.optim.hyperparameters import LearningRate, Rate, check_learning_rate, rate_at
from symgrad.optim.optimizer import Optimizer, Pair, check_variable, repeated
from symgrad.optim.slots import whole_state


class Group:
    """Variables that an optimizer moves with hyperparameters of their own.

    `hyperparameters` are arguments of the optimizer by name; what is not named is the optimizer's.

    A group says how variables are moved, not which: that is for `minimize` and `apply_gradients`.
    Raises `DTypeError` for what is no variable of a float dtype.

    >>> w, b = sg.variable(1.0, name="w"), sg.variable(1.0, name="b")
    >>> without_decay = sg.optim.Group([b], weight_decay=0)
    >>> optimizer = sg.optim.AdamW(0.001, weight_decay=0.1, groups=[without_decay])
    >>> _ = sg.compile([], (), optimizer.minimize(0 * (w + b)))()
    >>> w.value, b.value
    (array(0.9999, dtype=float32), array(1., dtype=float32))
    """

    def __init__(self, variables: Iterable[Variable], **hyperparameters: Any) -> None:
        self.variables = tuple(variables)
        self.hyperparameters = hyperparameters
        for owner in self.variables:
            check_variable("Group", owner)


class Rule(Optimizer):
    """An optimizer that moves each variable by a formula.

    The constructor of a rule keeps every argument in the attribute of its name, then calls this
    one. So a group is the rule made once more with other arguments, and the same slots.
    """

    def __init__(self, lr: LearningRate, groups: Iterable[Group]) -> None:
        super().__init__()
        self.lr = check_learning_rate(type(self).__name__, lr)
        given = list(groups)
        self._check_groups(given)
        self._groups = [(self._rule_of(group), group) for group in given]

    def _check_groups(self, groups: Sequence[Group]) -> None:
        subject = type(self).__name__
        for group in groups:
            if not isinstance(group, Group):
                raise DTypeError(subject, f"{group!r} is no Group", source=user_source())
            for name in group.hyperparameters:
                if name not in self._arguments():
                    raise GraphError(
                        subject,
                        f"a group sets {name}, which is none of {', '.join(self._arguments())}",
                        source=user_source(),
                    )
        twice = repeated(owner for group in groups for owner in group.variables)
        if twice is not None:
            raise GraphError(subject, f"{twice!r} is in the groups twice", source=user_source())

    @classmethod
    def _arguments(cls) -> list[str]:
        return [name for name in inspect.signature(cls).parameters if name != "groups"]

    def _rule_of(self, group: Group) -> Self:
        """Return the rule with the hyperparameters of `group`."""
        own = {name: getattr(self, name) for name in self._arguments()}
        rule = type(self)(**own | group.hyperparameters)
        rule._slots = self._slots
        return rule

    def _updates(self, pairs: Sequence[Pair]) -> list[Update]:
        grouped = {owner.state: rule for rule, group in self._groups for owner in group.variables}
        updates = []
        with built_by_line(self._is_ours):
            for rule in (self, *(rule for rule, _ in self._groups)):
                mine = [(g, w) for g, w in pairs if grouped.get(whole_state(w), self) is rule]
                updates += rule._group_updates(mine) if mine else []
        step = self._slots.get("step")  # there is one if the rule or a schedule has read it
        return updates if step is None else [Update(step, step + 1), *updates]

    @property
    def _is_ours(self) -> bool:
        """Whether it is a rule of symgrad's, and not derived by a user."""
        return type(self).__module__.startswith("symgrad.")

    def _build_each(self, pairs: Sequence[Pair], build: BuildUpdates) -> list[Update]:
        """Return what `build` gives for each pair; for variables that are alike it is built once.

        A formula of a user's may ask for the size of its variable.
        """
        if self._is_ours:
            return build_alike(pairs, self._slots, build)
        return [update for g, w in pairs for update in build(g, w)]

    @abstractmethod
    def _group_updates(self, pairs: Sequence[Pair]) -> list[Update]:
        """Return the updates of variables with the hyperparameters of this rule, and of slots."""

    def _step(self) -> Tensor:
        """Return the number of updates made before this one, an int64 scalar."""
        return self._slots.count("step")

    def _rate(self, dtype: DType) -> Rate:
        """Return the learning rate of this step, to be multiplied with a tensor of `dtype`."""
        rate = self.lr
        if not isinstance(rate, float | Tensor):
            rate = rate_at(type(self).__name__, rate, self._step())
        return cast(rate, dtype) if isinstance(rate, Tensor) else rate


class PerVariableRule(Rule):
    """A rule whose formula has nothing in it that variables share."""

    def _group_updates(self, pairs: Sequence[Pair]) -> list[Update]:
        return self._build_each(pairs, self._updates_of)

    @abstractmethod
    def _updates_of(self, g: Tensor, w: Variable) -> list[Update]:
        """Return the updates of `w`, whose gradient is `g`, and of its slots."""


def in_slot_dtype(w: Variable, g: Tensor) -> Tensor:
    """Return the value of `w` in the dtype of its slots, which is that of its gradient `g`."""
    return cast(w, g.dtype)


def with_decay(g: Tensor, w: Variable, weight_decay: float) -> Tensor:
    """Return `g + weight_decay * w`, the gradient of a loss with `weight_decay / 2 * w**2` more."""
    return g + weight_decay * in_slot_dtype(w, g) if weight_decay else g


def moved(w: Variable, by: Tensor) -> Update:
    """Return the update of `w` to `w - by`, where `by` has the dtype of its slots."""
    return Update(w, cast(cast(w, by.dtype) - by, w.dtype))
