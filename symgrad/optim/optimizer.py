"""What all optimizers share: finding variables, pairing them with gradients, keeping slots.

The rule by which a variable moves is not here but in a module for each optimizer. An optimizer
computes nothing: it builds graph, and returns updates for `compile` to put into the same program
as the loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, SymgradError, user_source
from symgrad.graph import dtypes
from symgrad.graph.build import name_scope
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Update
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, meet_shapes
from symgrad.graph.ops.leaf import Variable
from symgrad.graph.ops.marks import match_shape
from symgrad.graph.state import variable
from symgrad.graph.traverse import topological
from symgrad.graph.types import Array, State
from symgrad.passes.gradients import gradients

LearningRate = float | Tensor


class Optimizer(ABC):
    """A rule that moves variables against the gradient of a loss.

    Slots, such as a momentum, are variables of their own, made when a variable is first met and
    used again whenever it returns. Those of a float16 or bfloat16 variable are float32, and so is
    all arithmetic up to the new value, which is rounded once: a small term would vanish in an
    average that has 8 or 11 bits.
    """

    def __init__(self, lr: LearningRate) -> None:
        self.lr = _check_rate(type(self).__name__, lr)
        self._slots: dict[tuple[State | None, str], Variable] = {}
        self._names: dict[str, State] = {}

    @property
    def state(self) -> MappingProxyType[str, Variable]:
        """The slots by name: `w/m` belongs to the variable `w`, `step` to the optimizer.

        As tensors they have the scopes in force before that, of which the last is the optimizer's.
        """
        names = {state: name for name, state in self._names.items()}
        return MappingProxyType(
            {
                kind if owner is None else f"{names[owner]}/{kind}": slot
                for (owner, kind), slot in self._slots.items()
            }
        )

    def minimize(self, loss: Any, variables: Iterable[Variable] | None = None) -> list[Update]:
        """Return the updates that lower `loss`; of a loss with several elements, their sum.

        Without `variables`, every trainable variable the loss depends on is moved. A variable that
        gets no gradient is left alone. Raises `GraphError` if none gets one.
        """
        loss = as_tensor(loss)
        subject = f"{type(self).__name__}.minimize"
        if not loss.dtype.is_float:
            raise DTypeError(subject, f"loss: {loss.type} is no float", source=user_source())
        chosen = trainable_variables(loss) if variables is None else list(variables)
        for candidate in chosen:
            _check_variable(subject, candidate)
        if not chosen:
            raise GraphError(
                subject,
                "there is no variable to move" if variables is not None
                else "the loss depends on no trainable variable",
                source=loss.node.source,
            )  # fmt: skip
        return self.apply_gradients(zip(gradients(loss, chosen), chosen, strict=True))

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Variable]]) -> list[Update]:
        """Return the updates that move each variable by its gradient.

        A pair whose gradient is None is left out. Raises `GraphError` if that leaves none, or if a
        variable comes twice; `ShapeError` for a gradient of another shape than its variable.
        """
        subject = f"{type(self).__name__}.apply_gradients"
        given = list(grads_and_vars)
        pairs = [_read_pair(subject, g, v) for g, v in given if g is not None]
        if not pairs:
            names = ", ".join(v.name or "a variable" for _, v in given)
            raise GraphError(
                subject,
                f"no variable has a gradient: {names or 'no pairs were given'}",
                hint="sg.explain_none(loss, variable) tells where it is cut" if given else None,
                source=user_source(),
            )
        _check_distinct(subject, [v for _, v in pairs])
        with name_scope(type(self).__name__):
            return self._updates(pairs)

    @abstractmethod
    def _updates(self, pairs: Sequence[tuple[Tensor, Variable]]) -> list[Update]:
        """Return the updates of the variables and of their slots.

        A gradient has the shape of its variable and the dtype `slot_dtype` names.
        """

    def _slot(self, owner: Variable, kind: str) -> Variable:
        """Return the slot `kind` of `owner`, which starts as zeros."""
        key = (owner.state, kind)
        if key not in self._slots:
            name = f"{self._name_of(owner)}/{kind}"
            zeros = np.zeros(owner.type.static_shape, slot_dtype(owner).numpy)
            self._slots[key] = variable(zeros, trainable=False, name=name)
        return self._slots[key]

    def _step(self) -> Variable:
        """Return the number of updates made so far: an int64, so that it counts without end."""
        key = (None, "step")
        if key not in self._slots:
            self._slots[key] = variable(np.int64(0), trainable=False, name="step")
        return self._slots[key]

    def _rate(self, dtype: DType) -> LearningRate:
        """Return the learning rate, to be multiplied with a tensor of `dtype`."""
        return cast(self.lr, dtype) if isinstance(self.lr, Tensor) else self.lr

    def _name_of(self, owner: Variable) -> str:
        """Return the name of `owner`, numbered if an earlier variable has the same."""
        name = base = owner.state.name
        number = 0
        while self._names.setdefault(name, owner.state) is not owner.state:
            number += 1
            name = f"{base}_{number}"
        return name


def slot_dtype(owner: Variable) -> DType:
    """Return the dtype in which `owner` is moved: its own, float32 for a 16-bit float."""
    return dtypes.float32 if owner.dtype.is_half else owner.dtype


def moved(owner: Variable, by: Tensor) -> Update:
    """Return the update of `owner` to `owner - by`, where `by` has the dtype of its slots."""
    return Update(owner, cast(cast(owner, by.dtype) - by, owner.dtype))


def trainable_variables(loss: Tensor) -> list[Variable]:
    """Return the trainable variables that `loss` depends on, in the order in which it does."""
    leaves = (node.output for node in topological((loss,)) if node.definition.is_leaf)
    return [
        leaf
        for leaf in leaves
        if isinstance(leaf, Variable) and leaf.trainable and leaf.dtype.is_trainable
    ]


def check_fraction(subject: str, name: str, value: float) -> float:
    """Return `value`; raises `GraphError` unless it is at least 0 and less than 1."""
    if not 0 <= value < 1:
        raise GraphError(subject, f"{name} is {value!r}, not in [0, 1)", source=user_source())
    return value


def _check_rate(subject: str, lr: Any) -> LearningRate:
    if isinstance(lr, Tensor):
        if not lr.dtype.is_float:
            raise DTypeError(subject, f"lr: {lr.type} is no float", source=user_source())
        if lr.ndim:
            raise ShapeError(subject, f"lr: {lr.type} is no scalar", source=user_source())
        return lr
    if isinstance(lr, bool) or not isinstance(lr, int | float | np.floating | np.integer):
        raise DTypeError(
            subject, f"lr is {lr!r}, neither a number nor a tensor", source=user_source()
        )
    if not lr >= 0:
        raise GraphError(subject, f"lr is {lr!r}, it must not be negative", source=user_source())
    return float(lr)


def _check_variable(subject: str, candidate: Any) -> None:
    if not isinstance(candidate, Variable):
        raise DTypeError(subject, f"{candidate!r} is no variable", source=user_source())
    if not candidate.dtype.is_float:
        raise DTypeError(
            subject, f"{candidate!r} is no float and has no gradient", source=user_source()
        )


def _read_pair(subject: str, g: Tensor | Array, owner: Any) -> tuple[Tensor, Variable]:
    """Return `g` with the shape of `owner` and the dtype of its slots, and `owner`."""
    _check_variable(subject, owner)
    g = as_tensor(g, owner.dtype)
    if not g.dtype.is_float:
        raise DTypeError(
            subject, f"the gradient of {owner!r} is {g.type}, no float", source=user_source()
        )
    try:
        meet_shapes(subject, "gradient", g.type, owner.name or "variable", owner.type)
    except SymgradError as error:
        error.source = user_source()
        raise
    return cast(match_shape(g, owner.shape), slot_dtype(owner)), owner


def _check_distinct(subject: str, variables: Sequence[Variable]) -> None:
    seen: set[State] = set()
    for owner in variables:
        if owner.state in seen:
            raise GraphError(
                subject,
                f"{owner!r} has two gradients",
                hint="add them",
                source=user_source(),
            )
        seen.add(owner.state)
